"""`generate`: what it reaches, what it says of the rest, what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Context, action, guard, load, tool
from chartloop.catalog import shipped_machines
from chartloop.core.errors import RunError, SetupError, SpecError
from chartloop.scenarios import Generated, find_scenarios, generate, load_scenario, run_scenario
from chartloop.scenarios.generator.search_targets import targets_of
from chartloop.scenarios.generator.unreached import impossible

HEAD = "chartloop: 1\nmachine: it\nmodel: {name: scripted}\n"


def machine(folder: Path, text: str) -> Path:
    path = folder / "it.yaml"
    path.write_text(HEAD + text)
    return path


def names(made: Generated) -> set[str]:
    """Everything that the new scenarios show, by name."""
    return {target.name for one in made.scenarios for target in one.shows}


def left(made: Generated) -> dict[str, str]:
    return {one.target.name: one.why for one in made.unreached}


def all_pass(folder: Path, **given: Any) -> bool:
    paths = find_scenarios([folder])
    return bool(paths) and all(run_scenario(path, **given).passed for path in paths)


# what is reached ----------------------------------------------------------------------------


class Reach(NamedTuple):
    """A machine of which everything is reached, and what asks for something of its own."""

    id: str
    text: str


REACHED = [
    Reach("a-limit-of-fifty-is-lowered", """
limits: {steps: 50}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think: {do: infer, next: again}
  again: {do: nothing, next: think}
"""),
    Reach("tokens-and-cost", """
limits: {tokens: 10_000, cost: 2.5}
states:
  think: {do: infer, next: [{when: usage.total_tokens >= limits.tokens, to: much},
    {when: usage.cost >= limits.cost, to: dear}, done]}
  much: {stop: token_limit}
  dear: {stop: custom}
  done: {stop: completed}
"""),
    Reach("a-long-reply", """
limits: {time: 1h}
rules: [{when: run.elapsed >= limits.time, stop: time_limit}]
states:
  think: {do: infer, within: 5m, expired: slow, next: done}
  slow: {stop: user_unresponsive}
  done: {stop: completed}
"""),
    Reach("structured-output-on-both-sides-of-its-bound", """
vars: {score: 0.0}
states:
  think:
    do: infer
    with: {output: {type: object, properties: {score: {type: number}}, required: [score]}}
    save: {vars.score: result.data.score}
    failed: bad
    next: [{when: vars.score > 0.75, to: good}, poor]
  good: {stop: completed}
  poor: {stop: no_progress}
  bad: {stop: error}
"""),
    Reach("a-word-in-a-tag", """
vars: {plan: "", state: ""}
states:
  think: {do: infer, next: read}
  read:
    do: parse
    with: {vars.plan: {tag: PLAN}, vars.state: {tag: STATE}}
    next: [{when: '"[FINISH]" in vars.plan', to: done}, {when: vars.state == "lost", to: lost}, think]
  done: {stop: completed}
  lost: {stop: custom}
"""),
    Reach("each-kind-of-failure", """
states:
  think: {do: infer, retry: {times: 1, base: 1s, on: [TRANSIENT]}, failed: which, next: done}
  which: {ask: "Which?", of: errors.last.category,
    cases: {TRANSIENT: busy, RECOVERABLE: odd, CRITICAL: dead}}
  busy: {stop: custom}
  odd: {stop: stagnation}
  dead: {stop: critical_failure}
  done: {stop: completed}
"""),
    Reach("an-answer-its-data-and-none-at-all", """
states:
  wait: {on: {yes: {to: sure, data: {certain: bool}}, no: refused}, within: 1d, expired: left}
  sure: {ask: "Certain?", when: 'last.answer["certain"] == true', then: done, else: wait}
  refused: {stop: user_requested}
  left: {stop: user_unresponsive}
  done: {stop: completed}
""".replace('last.answer["certain"] == true', "run.visits.wait >= 3")),
    Reach("a-tool-that-nobody-declared", """
tools: [look]
states:
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, done]}
  use: {do: call_tools, next: [{when: errors.total >= 1, to: broken}, think]}
  broken: {stop: error}
  done: {stop: completed}
"""),
    Reach("a-variable-to-start-with", """
vars: {loud: false, mood: calm, tries: 0}
states:
  first: {ask: "Loud?", when: vars.loud, then: shout, else: mood}
  mood: {ask: "Mood?", of: vars.mood, cases: {calm: tries, angry: shout}, else: shout}
  tries: {ask: "Tried?", when: vars.tries > 6, then: shout, else: done}
  shout: {stop: custom}
  done: {stop: completed}
"""),
    Reach("two-waits-the-first-of-which-expires", """
states:
  first: {on: {yes: done}, within: 1h, expired: second}
  second: {on: {yes: late, no: done}}
  late: {stop: custom}
  done: {stop: completed}
"""),
    Reach("time-that-passes-in-a-tool", """
tools: [look]
states:
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, done]}
  use: {do: call_tools, next: [{when: 'run.elapsed > duration("2m")', to: slow}, think]}
  slow: {stop: time_limit}
  done: {stop: completed}
"""),
    Reach("a-child-that-asks", """
machines:
  child:
    states:
      wait: {on: {yes: good, no: bad}}
      good: {end: completed}
      bad: {end: error}
states:
  call: {do: run_machine, with: {machine: child}, failed: refused, next: done}
  refused: {stop: custom}
  done: {stop: completed}
"""),
    Reach("a-fork-and-a-detour", """
limits: {steps: 9}
rules: [{when: usage.llm_calls >= 1, to: aside, before: [second]}]
states:
  first: {do: infer, next: both}
  both: {all: [left, right]}
  left: {ask: "Left?", when: errors.total >= 1, then: bad, else: second}
  right: {ask: "Right?", when: run.steps >= limits.steps, then: late, else: second}
  second: {do: infer, failed: next, next: first}
  aside: {do: nothing, next: return}
  bad: {stop: error}
  late: {stop: steps_limit}
"""),
]  # fmt: skip


@pytest.mark.parametrize("case", REACHED, ids=lambda case: case.id)
def test_everything_is_reached(case: Reach, tmp_path: Path) -> None:
    made = generate(machine(tmp_path, case.text), tmp_path)
    assert [f"{u.target}: {u.text}" for u in made.unreached if u.why != "proven"] == []
    made.write()
    assert all_pass(tmp_path)
    again = generate(tmp_path / "it.yaml", tmp_path)
    assert again.scenarios == (), "what is there is not written twice"
    assert again.there == len(made.targets) - len(made.unreached)


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("name", ["geist_phase", "geist_tick", "step_agent"])
def test_everything_of_a_shipped_machine_is_reached(name: str, tmp_path: Path) -> None:
    made = generate(name, tmp_path)
    assert made.unreached == ()


@pytest.mark.slow("takes seconds")
def test_with_a_limit_that_is_asked_for_everything_is_reached(tmp_path: Path) -> None:
    text = shipped_machines()["stop_signals"].read_text("utf-8")
    assert "  continuations: 0 " in text
    whole = tmp_path / "whole.yaml"
    whole.write_text(text.replace("  continuations: 0 ", "  continuations: 1 "), "utf-8")
    assert generate(whole, tmp_path).unreached == ()


@pytest.mark.slow("takes seconds")
def test_the_moderator_is_reached_whole(tmp_path: Path) -> None:
    """Two rounds of improvement, each behind a judge: found by what its guards still ask for."""
    wanted = ["check_cycles.then", "check_magnitude.then", "check_magnitude.else"]
    made = generate("moderator_full", tmp_path, only=wanted)
    assert made.unreached == ()
    assert names(made) == {*wanted}


def test_each_thing_is_shown_by_a_run_as_short_as_the_shortest(tmp_path: Path) -> None:
    text = """
states:
  think: {do: infer, failed: broken, next: [{when: last.text == "more", to: again}, done]}
  again: {do: infer, failed: next, next: [{when: run.steps >= 3, to: done}, think]}
  broken: {stop: custom}
  done: {stop: completed}
"""
    made = generate(machine(tmp_path, text), tmp_path)
    for one in made.scenarios:
        for target in one.shows:
            alone = generate(tmp_path / "it.yaml", tmp_path / "alone", only=[target.name])
            assert [other.records for other in alone.scenarios] == [one.records], target
            assert one.shortest


def test_a_run_begins_with_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    text = """
limits: {a: 5, b: 5}
states:
  wait: {on: {go: [{to: low, when: run.visits.wait >= limits.a}, {to: done}]}}
  low: {stop: custom}
  done: {ask: "Many?", when: run.steps > limits.b, then: low, else: end}
  end: {stop: completed}
"""
    generate(machine(tmp_path, text), tmp_path).write()
    starts = {p.name: load_scenario(p) for p in find_scenarios([tmp_path])}
    assert {made.task for made in starts.values()} == {""}
    assert {**starts["stops-for-custom.scenario.yaml"].limits} == {"a": 1}


@tool
def price(item: str) -> float:
    """What an item costs.

    Args:
        item: What to look up.
    """
    raise AssertionError(f"{item}: a search calls no tool")


def test_a_tool_is_scripted_and_never_called(tmp_path: Path) -> None:
    text = """
tools: [price]
states:
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, done]}
  use: {do: call_tools, with: {on_error: fail}, failed: broken, next: think}
  broken: {stop: error}
  done: {stop: completed}
"""
    made = generate(machine(tmp_path, text), tmp_path, tools=[price])
    assert made.unreached == ()
    made.write()
    assert all_pass(tmp_path, tools=[price])


# what is not reached ------------------------------------------------------------------------


@guard
def is_sound(text: str) -> bool:
    """Never, of what a search says."""
    return len(text) > 10_000


def test_an_opaque_guard_is_named(tmp_path: Path) -> None:
    text = """
states:
  think: {do: infer, next: [{when: is_sound(last.text), to: done}, bad]}
  done: {stop: completed}
  bad: {stop: custom}
"""
    made = generate(machine(tmp_path, text), tmp_path, tools=[is_sound], work=300)
    assert left(made) == {"think.next.0": "opaque", "completed": "opaque"}
    assert "`is_sound`" in made.unreached[0].text


CALLED: list[str] = []


@action(effect="local")
def file_it(ctx: Context) -> str:
    """Files it."""
    CALLED.append(ctx.run_id)
    return "filed"


def test_an_own_action_with_effects_is_run_only_when_it_may_be(tmp_path: Path) -> None:
    path = machine(
        tmp_path, "states:\n  file: {do: file_it, next: done}\n  done: {stop: completed}\n"
    )
    CALLED.clear()
    made = generate(path, tmp_path, tools=[file_it])
    assert CALLED == []
    assert left(made)["file.next.0"] == "own action"
    assert "`file`" in made.unreached[0].text
    made = generate(path, tmp_path, tools=[file_it], run_actions=True)
    assert "file.next.0" in names(made)
    assert CALLED != []


class Proof(NamedTuple):
    """A machine, and everything of it that no run shows, with a word of the reason."""

    id: str
    text: str
    proven: dict[str, str]


IGNORE = "ignore: [" + ", ".join(
    f"{{code: {code}, reason: it is to be proven}}"
    for code in ("CL304", "CL305", "CL307", "CL326", "CL327", "CL328")
) + "]\n"  # fmt: skip
PROOFS = [
    Proof("a-guard-behind-one-that-says-more", """
states:
  think: {do: infer, next: [{when: last.ok, to: done}, {when: last.ok and run.steps > 3, to: never}, done]}
  never: {stop: custom, next: after}
  after: {do: nothing, next: done}
  done: {stop: completed}
""", {"think.next.1": "one before it is always taken", "never.next.0": "no path leads there",
      "after.next.0": "no path leads there", "custom": "no path leads there"}),
    Proof("a-guard-that-nearly-is", """
states:
  think: {do: infer, next: [{when: last.ok and run.steps > 3, to: never}, {when: last.ok, to: done}, think]}
  never: {stop: custom, next: done}
  done: {stop: completed}
""", {}),
    Proof("a-guard-that-contradicts-itself", """
vars: {n: 0}
states:
  think: {do: infer, next: [{when: vars.n > 3 and vars.n < 2, to: never}, done]}
  never: {ask: "On?", when: run.steps > 2, then: done, else: far}
  far: {stop: custom}
  done: {stop: completed}
""", {"think.next.0": "`vars.n > 3 and vars.n < 2` never holds",
      "never.then": "after what was decided before", "never.else": "one before it is always taken",
      "custom": "except after `think.next.0`"}),
    Proof("a-guard-that-a-limit-may-turn", """
limits: {most: 3}
states:
  think: {do: infer, next: [{when: run.steps > limits.most and run.steps < 3, to: low}, done]}
  low: {stop: custom}
  done: {stop: completed}
""", {}),
    Proof("a-rule-that-never-holds", """
rules: [{when: errors.total > run.steps + errors.total, stop: custom}]
states:
  think: {do: infer, next: done}
  done: {stop: completed}
""", {"rules.0": "never holds", "custom": "no path leads there"}),
    Proof("behind-what-was-decided-before", """
vars: {n: 0}
states:
  first: {ask: "Many?", when: vars.n >= 3, then: done, else: second}
  second: {ask: "More?", when: vars.n > 5, then: never, else: done}
  never: {stop: custom}
  done: {stop: completed}
""", {"second.then": "after what was decided before", "custom": "except after `second.then`"}),
    Proof("a-status-that-no-state-gives", """
states:
  wait: {on: {go: [{to: late, when: run.paused_from == "debugging"}, {to: done}]}}
  late: {stop: custom}
  done: {stop: completed}
""", {"wait.on.go.0": "never holds", "custom": "except after `wait.on.go.0`"}),
    Proof("a-status-that-a-state-gives", """
states:
  mend: {do: nothing, status: debugging, next: wait}
  wait: {on: {go: [{to: late, when: run.paused_from == "debugging"}, {to: done}]}}
  late: {stop: custom}
  done: {stop: completed}
""", {}),
    Proof("only-behind-a-cancel", """
on_stop: cleanup
states:
  wait: {on: {yes: done}}
  done: {stop: completed, next: bye}
  cleanup: {stop: highest, next: tidy}
  tidy: {do: nothing, next: bye}
  bye: {end: by_reason}
""", {}),
]  # fmt: skip


@pytest.mark.parametrize("case", PROOFS, ids=lambda case: case.id)
def test_what_no_run_can_show_is_proven_and_nothing_else(case: Proof, tmp_path: Path) -> None:
    made = generate(machine(tmp_path, IGNORE + case.text), tmp_path, work=2_000)
    said = {u.target.name: u.text for u in made.unreached if u.why == "proven"}
    assert said.keys() == case.proven.keys()
    for name, word in case.proven.items():
        assert said[name].startswith("proven impossible: ")
        assert word in said[name]
    assert not names(made) & said.keys()


@pytest.mark.parametrize("name", ["moderator", "moderator_full", "geist", "team", "lifecycle"])
def test_of_the_shipped_machines_one_edge_is_proven_and_nothing_is_left(name: str) -> None:
    chart = load(name).chart
    proven = impossible(chart, targets_of(chart))
    expected = {"paused.on.resume.0"} if name == "lifecycle" else set[str]()
    assert {target.name for target in proven} == expected, "that one is taken beside others only"


def test_a_search_says_how_much_it_has_done(tmp_path: Path) -> None:
    made = generate("agent", tmp_path, work=3)
    assert made.unreached
    assert "moves" in made.unreached[-1].text
    assert made.tried < 200


# what is written ----------------------------------------------------------------------------

LOOP = """
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think: {do: infer, next: [{when: last.text == "stop", to: done}, think]}
  done: {stop: completed}
"""


def test_a_file_says_what_it_is_for_and_only_what_is_needed(tmp_path: Path) -> None:
    generate(machine(tmp_path, LOOP), tmp_path).write()
    text = (tmp_path / "stops-for-steps_limit.scenario.yaml").read_text()
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert head[0] == "# Stops for `steps_limit`."
    assert "rules.0" in text
    assert "limits: {steps: 1}" in text
    made = load_scenario(tmp_path / "stops-for-steps_limit.scenario.yaml")
    assert made.machine == "it.yaml"
    assert made.expect["facts"] == {"run.steps": 1}


def test_a_file_that_a_person_changed_is_kept(tmp_path: Path) -> None:
    path = machine(tmp_path, LOOP)
    made = generate(path, tmp_path)
    made.write()
    mine = tmp_path / "stops-for-steps_limit.scenario.yaml"
    mine.write_text(mine.read_text().replace("kind: limit", "kind: human"))
    again = generate(path, tmp_path)
    assert again.unread == (f"{mine}: it fails",)
    with pytest.raises(RunError, match="a person wrote or changed it: stops-for-steps_limit"):
        again.write()
    assert "kind: human" in mine.read_text()
    again.write(force=True)
    assert run_scenario(mine).passed


def test_a_file_that_nobody_changed_is_written_again(tmp_path: Path) -> None:
    path = machine(tmp_path, LOOP)
    generate(path, tmp_path).write()
    path.write_text(
        path.read_text().replace("think: {do: infer", "think: {do: infer, failed: next")
    )
    for file in find_scenarios([tmp_path]):
        file.write_text(file.read_text())
    made = generate(path, tmp_path, only=["steps_limit"])
    assert [one.file for one in made.scenarios] == ["stops-for-steps_limit.scenario.yaml"]
    made.write()


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    made = generate("agent", tmp_path, only=["token_limit", "llm_inference.next.1"])
    assert names(made) == {"token_limit", "llm_inference.next.1"}
    with pytest.raises(SetupError, match=r"is called `llm_inference\.next\.9`"):
        generate("agent", tmp_path, only=["llm_inference.next.9"])


def test_a_machine_with_faults_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError):
        generate(machine(tmp_path, "states:\n  think: {do: infr, next: done}\n"), tmp_path)


@pytest.mark.slow("takes seconds")
def test_the_same_twice(tmp_path: Path) -> None:
    assert generate("team", tmp_path).to_dict() == generate("team", tmp_path).to_dict()


def test_what_came_of_it_as_a_value(tmp_path: Path) -> None:
    made = generate("agent", tmp_path)
    assert repr(made).startswith("<Generated agent: 22 of 22 edges, rules and stop reasons")
    shown = made._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert "stops-for-steps_limit" in shown["text/html"]
    assert made.to_dict()["unreached"] == []
    assert all(one.shortest for one in made.scenarios)


DIVIDES = """vars: {n: 0}
states:
  a: {do: nothing, next: q}
  q: {ask: "Q?", when: 10 / vars.n > 2, then: done, else: b}
  b: {stop: custom}
  done: {stop: completed}
"""


def test_a_variable_that_is_reckoned_with_gets_the_values_beside_it(tmp_path: Path) -> None:
    made = generate(machine(tmp_path, DIVIDES), tmp_path, work=2_000)
    assert made.unreached == ()
