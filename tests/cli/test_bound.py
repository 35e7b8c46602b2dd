"""`chartloop bound`, `chartloop query`, and `chartloop run --require-bound`."""

from __future__ import annotations

import json

import pytest

from chartloop.catalog import shipped_machines
from tests.cli.shell import Shell

GATE = """\
chartloop: 1
machine: gate
model: {name: scripted, context_window: 1000, input_cost_per_token: 0.001, output_cost_per_token: 0.002}
limits: {steps: 6}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  draft: {do: infer, next: approve}
  approve: {ask: "Publish it?", on: {yes: publish, no: draft}, within: 1h, expired: late}
  publish: {do: report, next: done}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""

# bound --------------------------------------------------------------------------------------


def test_the_figures_the_limits_the_stops(sh: Shell) -> None:
    done = sh("bound", "agent", "--limit", "steps=12")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert "actions 12 by run.steps >= limits.steps" in text
    assert "tokens 199,999 by usage.total_tokens >= limits.tokens" in text
    assert "run.steps >= limits.steps after every action never past it" in text
    assert "a model call and its reply are at most 100,000 tokens" in text


def agent_of_an_unknown_model(sh: Shell) -> str:
    """The shipped agent with a model whose price no table has: litellm may be installed."""
    text = shipped_machines()["agent"].read_text("utf-8")
    sh.write("unpriced.yaml", text.replace("openai/gpt-4o-mini", "openai/nobodys-model"))
    return "unpriced.yaml"


def test_as_json(sh: Shell) -> None:
    machine = agent_of_an_unknown_model(sh)
    done = sh("bound", machine, "--limit", "steps=12", "--format", "json")
    told = json.loads(done.out)
    assert told["bounds"]["actions"]["value"] == 12
    assert told["limits"]["steps"] == 12
    assert told["bounds"]["usd"]["value"] is None
    assert "price" in told["bounds"]["usd"]["why"]
    assert told["bounds"]["actions"]["witness"]["edges"]
    assert told["overshoot"][0]["past"] == 0


def test_what_is_assumed_makes_figures(sh: Shell) -> None:
    done = sh("bound", "executive", "--assume", "tokens_per_call=1000", "--assume", "input_price=0.001",
              "--assume", "output_price=0.001", "--format", "json")  # fmt: skip
    told = json.loads(done.out)["bounds"]
    assert (told["tokens"]["value"], told["usd"]["value"]) == (10_000, 10.0)


def test_what_must_hold(sh: Shell) -> None:
    assert sh("bound", "agent", "--require", "calls=40").code == 0
    machine = agent_of_an_unknown_model(sh)
    done = sh("bound", machine, "--require", "calls=39", "--require", "usd=2")
    assert done.code == 1
    assert "not proven: requests: at most 40, and 39 is wanted; lower `limits.steps`" in done.err
    assert "not proven: usd: unbounded, because the model's price is not known" in done.err


def test_a_certificate_is_written(sh: Shell) -> None:
    done = sh("bound", "agent", "-o", "agent.cert.json")
    assert "a certificate for agent" in done.err
    data = json.loads((sh.folder / "agent.cert.json").read_text("utf-8"))
    assert data["certificate"] == 1
    assert data["bounds"]["actions"]["value"] == 50


def test_the_worst_run_is_drawn(sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    done = sh("bound", "gate.yaml", "--draw", "worst.txt")
    assert "worst.txt: a path with the most actions" in done.err
    assert "×5" in (sh.folder / "worst.txt").read_text("utf-8")
    done = sh("query", "gate.yaml", "avoid late", "--draw", "late.dot")
    assert "late.dot: a run that shows it" in done.err
    assert "avoid late: no" in (sh.folder / "late.dot").read_text("utf-8")
    assert sh("query", "gate.yaml", "avoid late", "reach done", "--draw", "x.svg").code == 2
    assert not (sh.folder / "x.svg").exists()


def test_a_check_tells_the_bound(sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    told = json.loads(sh("check", "gate.yaml", "--format", "json").out)
    assert told["bound"] == json.loads(sh("bound", "gate.yaml", "--format", "json").out)["bounds"]
    sh.write("bad.yaml", GATE.replace("next: done", "next: dne"))
    assert json.loads(sh("check", "bad.yaml", "--format", "json").out)["bound"] is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["bound"], "name a MACHINE"),
        (["bound", "agent", "--limit", "stepz=3"], "did you mean `steps`?"),
        (["bound", "agent", "--require", "dollars=3"], "there is no bound on `dollars`"),
        (["bound", "agent", "--require", "usd=lots"], "`usd=lots` is not a number"),
        (["bound", "agent", "--assume", "tokens=3"], "nothing can be assumed of `tokens`"),
        (["bound", "agent", "--assume", "input_price=3"], "a price has two parts"),
        (["bound", "agnt"], "did you mean `agent`?"),
    ],
)
def test_what_is_wrong_with_a_line(line: list[str], said: str, sh: Shell) -> None:
    done = sh(*line)
    assert done.code != 0
    assert said in " ".join(done.err.split())


def test_a_loop_that_nothing_cuts_is_named(sh: Shell) -> None:
    sh.write("loop.yaml", "chartloop: 1\nmachine: loop\nmodel: {name: scripted}\n"
             "states: {a: {do: infer, next: b}, b: {do: nothing, next: a}}\n")  # fmt: skip
    done = sh("bound", "loop.yaml")
    assert "no budget cuts the loop a → b → a" in " ".join(done.out.split())


# run ----------------------------------------------------------------------------------------


def test_a_run_is_refused_and_started(sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    sh.write("replies.yaml", "replies: [hello]\n")
    line = ["run", "gate.yaml", "x", "--script", "replies.yaml"]
    refused = sh(*line, "--require-bound", "calls=3")
    assert refused.code == 2
    assert "`gate` is not started: requests: at most 6, and 3 is wanted" in " ".join(
        refused.err.split()
    )
    assert "lower `limits.steps`" in refused.err
    assert not (sh.folder / ".chartloop").exists()
    started = sh(
        *line, "--require-bound", "calls=3", "--require-bound", "usd=10", "--limit", "steps=3"
    )
    assert started.code == 4, started.err


def test_the_certificate_of_a_run(sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    sh.write("replies.yaml", "replies: [hello]\n")
    sh("run", "gate.yaml", "x", "--script", "replies.yaml", "--limit", "steps=3")
    done = sh("bound", "--run", "last", "--format", "json", "-o", "run.cert.json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data == json.loads((sh.folder / "run.cert.json").read_text("utf-8"))
    said = " ".join(sh("bound", "--run", "last").out.split())
    assert f"gate {data['hash'][:12]}, proven by chartloop" in said
    assert "actions 3 by run.steps >= limits.steps" in said
    assert "assuming that no limit or variable is changed" in said
    assert (data["machine"], data["limits"]["steps"]) == ("gate", 3)
    assert data["bounds"]["actions"]["value"] == 3
    assert sh("replay", "last").code == 0


# query --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("reach publish", 0, "yes: `publish` can be reached"),
        ("never publish before approve", 0, "yes: `approve` comes before `publish` on every path"),
        ("always approve before publish", 0, "yes: `approve` comes before `publish` on every path"),
        (
            "never publish before event:no",
            1,
            "no: `publish` can happen with no event `no` before it",
        ),
        ("avoid late", 1, "no: `late` can happen"),
        ("never draft after publish", 0, "yes: no path leads from `publish` to `draft`"),
        ("always done after approve", 1, "no: a run can end with no `done` after `approve`"),
        ("never approve.on.yes before action:infer", 0, "comes before"),
        ("reach reason:user_unresponsive", 0, "yes: reason `user_unresponsive` can be reached"),
    ],
)
def test_a_query(text: str, code: int, said: str, sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    done = sh("query", "gate.yaml", text)
    assert done.code == code, done.err
    assert said in done.out


def test_the_shortest_way_is_shown(sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    assert "draft → approve → publish" in sh("query", "gate.yaml", "reach publish").out
    told = json.loads(sh("query", "gate.yaml", "reach publish", "--format", "json").out)
    assert told["holds"] is True
    assert told["witness"] == ["draft", "approve", "publish"]
    assert told["edges"][0] == "draft.next.0"


def test_several_queries_and_cancels(sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    done = sh("query", "gate.yaml", "reach done", "avoid late")
    assert done.code == 1
    assert done.out.splitlines() == [
        "reach done",
        "  yes: `done` can be reached",
        "    draft → approve → publish → done",
        "avoid late",
        "  no: `late` can happen",
        "    draft → approve → late",
    ]
    line = ["query", "gate.yaml", "always done after publish"]
    assert sh(*line).code == 1
    assert (
        sh("query", "agent", "always action:infer after state:tool_call", "--no-cancel").code == 1
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("never publsh before approve", "did you mean `publish`?"),
        ("reach state:publsh", "has no state `publsh`"),
        ("when does it stop", "is not a query"),
        ("reach", "is not a query"),
        ("x" * 600, "at most 500 characters"),
    ],
)
def test_what_is_no_query(text: str, said: str, sh: Shell) -> None:
    sh.write("gate.yaml", GATE)
    done = sh("query", "gate.yaml", text)
    assert done.code == 2
    assert said in " ".join(done.err.split())
