"""`chartloop check`, `draw`, `machines`, `facts`, `actions`, `schema`, `doctor`, `test`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.actions import builtin
from chartloop.analysis.checker.trust import needs_trust
from chartloop.catalog import shipped_machines
from chartloop.core.facts import FACTS
from chartloop.language.file.schema import schema
from chartloop.language.load import load
from tests.cli.shell import ADD, ADDER, Shell, program

# check --------------------------------------------------------------------------------------

FINDING = ["code", "severity", "file", "line", "column", "message", "hint"]


def test_a_file_without_mistakes(sh: Shell) -> None:
    done = sh("check", "adder.yaml", "--tools", "tools.py")
    assert done.code == 0
    assert done.out.splitlines() == [
        "adder.yaml: adder, 4 states, 3 rules: no mistakes",
        "failed actions stop the run with `error`",
        "`vars.approach`, `vars.tries`: nothing in the file changes it, a caller may give it",
    ]


def test_which_failures_the_file_handles(sh: Shell) -> None:
    assert "failures at run_code are handled by the file" in sh("check", "executive").out


def test_every_mistake_with_place_caret_and_a_last_line(sh: Shell) -> None:
    sh.write(
        "bad.yaml", ADDER.replace("to: done", "to: dne").replace("next: think}", "nxt: think}")
    )
    done = sh("check", "bad.yaml", "--tools", "tools.py")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert " --> bad.yaml:19:14\n19 |       - {to: dne}\n   |              ^^^\n" in done.out
    assert "did you mean `next`?" in done.out
    assert done.out.splitlines()[-1].endswith(" in bad.yaml")
    told = sh("check", "bad.yaml", "--tools", "tools.py", "--format", "json")
    assert told.code == 1
    assert list(told.json) == ["machine", "findings", "unsettled", "notes", "bound"]
    assert told.json["notes"] == []
    assert told.json["unsettled"] == []
    assert all(list(f) == FINDING for f in told.json["findings"])
    found = [(f["code"], f["line"]) for f in told.json["findings"]]
    assert ("CL301", 19) in found
    assert done.out.splitlines()[-1].startswith(f"{len(found)} errors")


def test_warnings_alone_are_no_failure(sh: Shell) -> None:
    loose = ADDER.replace(
        "run.steps >= limits.steps", 'last.text == "x" and run.steps >= limits.steps'
    )
    loose = loose.replace(
        "usage.total_tokens >= limits.tokens, ",
        'last.text == "y" and usage.total_tokens >= limits.tokens, ',
    )
    loose = loose.replace("  - {when: long, stop: time_limit}\n", "").replace(
        """define: {long: 'run.working >= duration("1h")'}\n""", ""
    )
    sh.write("loose.yaml", loose.replace(", warn_at: 80%", ""))
    done = sh("check", "loose.yaml", "--tools", "tools.py")
    assert done.code == 0
    assert "warning[CL316]" in done.out
    assert "1 warning in loose.yaml\n" in done.out


SQUARES = """\
chartloop: 1
machine: squares
vars: {n: 0}
states:
  count:
    do: nothing
    set: {vars.n: vars.n + 1}
    next: [{when: vars.n * vars.n == 2, to: irrational}, {when: vars.n < 9, to: count}, done]
  irrational: {stop: custom}
  done: {stop: completed}
"""
SQUARE = "states.count.next.0.when"


def test_what_could_not_be_settled_is_said(sh: Shell) -> None:
    sh.write("squares.yaml", SQUARES)
    done = sh("check", "squares.yaml")
    assert done.code == 0
    assert done.out.splitlines()[:2] == [
        "squares.yaml: squares, 3 states, 0 rules: no mistakes",
        f"whether 1 guard can hold is not known ({SQUARE})",
    ]
    told = sh("check", "squares.yaml", "--format", "json")
    assert told.json["unsettled"] == [SQUARE]
    sh.write("more.yaml", SQUARES.replace("vars.n < 9", "vars.n < 9 and vars.n > 9"))
    last = [line for line in sh("check", "more.yaml").out.splitlines() if " in more.yaml" in line]
    assert last[0].startswith("1 warning in more.yaml, whether 1 guard can hold is not known")


def test_what_is_no_mistake_and_good_to_know(sh: Shell) -> None:
    sh.write(
        "open.yaml",
        "chartloop: 1\nmachine: open\nvars: {who: Ann}\noutput: vars.who\nstates:\n"
        "  ask: {do: nothing, next: wait}\n  wait: {on: {yes: done}}\n  done: {stop: completed}\n",
    )
    assert sh("check", "open.yaml").out.splitlines()[2:] == [
        "`wait`: waits for an answer without a deadline",
        "`vars.who`: nothing in the file changes it, a caller may give it",
    ]
    told = sh("check", "open.yaml", "--format", "json").json["notes"]
    assert [(note["kind"], note["names"]) for note in told] == [
        ("failures", []), ("waits", ["wait"]), ("parameters", ["vars.who"]),
    ]  # fmt: skip
    shown = [note["text"] for note in told]
    assert shown == sh("check", "open.yaml").out.splitlines()[1:]


def test_a_secret_is_found_and_not_repeated(sh: Shell) -> None:
    key = "sk-proj-4f9a8b7c6d5e4f3a2b1c0d9e"
    sh.write("key.yaml", ADDER.replace("title: Adds", f"title: Adds with {key}"))
    for more in ((), ("--format", "json")):
        done = sh("check", "key.yaml", "--tools", "tools.py", *more)
        assert done.code == 0
        assert "CL337" in done.out
        assert key not in done.out
        assert key[8:20] not in done.out


def test_several_files_at_once(sh: Shell) -> None:
    sh.write("bad.yaml", "chartloop: 1\n")
    done = sh("check", "asker.yaml", "bad.yaml", "agent", "--format", "json")
    assert done.code == 1
    assert [one["machine"] for one in done.json] == ["asker", None, "agent"]


def test_what_needs_trust_is_listed(sh: Shell) -> None:
    sh.write(
        "far.yaml", ADDER.replace("{name: scripted}", '{name: openai/x, api_base: "http://h/v1"}')
    )
    done = sh("check", "far.yaml", "--tools", "tools.py")
    assert done.code == 0
    assert "warning[CL324]: the file sends the conversation to the host `http://h/v1`" in done.out
    assert done.out.count("CL324") == 1


class Trust(NamedTuple):
    """A line of a file, and whether it needs trust."""

    id: str
    line: str
    needs: bool


@pytest.mark.parametrize(
    "case",
    [
        Trust("nothing", "title: x", needs=False),
        Trust("tasks-beside", "tasks: {file: tasks.yaml}", needs=False),
        Trust("tasks-below", "tasks: {file: a/b/../tasks.yaml}", needs=False),
        Trust("tasks-above", "tasks: {file: ../tasks.yaml}", needs=True),
        Trust("tasks-above-by-way-of-below", "tasks: {file: a/../../tasks.yaml}", needs=True),
        Trust("tasks-absolute", "tasks: {file: /etc/passwd}", needs=True),
        Trust("model", "model: {name: openai/x}", needs=False),
        Trust("api-base", 'model: {name: openai/x, api_base: "http://h/v1"}', needs=True),
        Trust("api-base-without-scheme", "model: {name: openai/x, api_base: h}", needs=True),
        Trust("key", "model: {name: openai/x, api_key_env: MINE}", needs=True),
        Trust("fallback", 'model: {name: x/y, fallbacks: ["https://h"]}', needs=True),
        Trust(
            "host-in-a-list", 'model: {name: x/y, extra: {hosts: [{a: "https://h"}]}}', needs=True
        ),
        Trust("tasks-home", "tasks: {file: ~/tasks.yaml}", needs=True),
        Trust(
            "child",
            "machines: {c: {model: {name: x/y, api_base: h}, states: {z: {end: completed}}}}",
            needs=True,
        ),
        Trust("extra", "model: {name: openai/x, extra: {user: me}}", needs=False),
        Trust(
            "host-in-extra", 'model: {name: x/y, extra: {vertex: {base: "https://h"}}}', needs=True
        ),
    ],
    ids=lambda case: case.id,
)
def test_needs_trust(tmp_path: Path, case: Trust) -> None:
    states = "states:\n  wait: {do: nothing, next: done}\n  done: {stop: completed}\n"
    text = f"chartloop: 1\nmachine: m\n{case.line}\n{states}"
    spec = load(text, str(tmp_path / "m.yaml"), builtin()).spec
    assert spec is not None
    assert bool(needs_trust(spec)) is case.needs


def test_a_link_out_of_the_folder_is_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.yaml").write_text("[]")
    (tmp_path / "in" / "tasks.yaml").symlink_to(tmp_path / "secret.yaml")
    text = (
        "chartloop: 1\nmachine: m\ntasks: {file: tasks.yaml}\nstates:\n  done: {stop: completed}\n"
    )
    spec = load(text, str(tmp_path / "in" / "m.yaml"), builtin()).spec
    assert spec is not None
    assert needs_trust(spec) == ["reads `tasks.yaml`, outside its folder"]


# draw ---------------------------------------------------------------------------------------


def test_draw_as_text(sh: Shell) -> None:
    out = sh("draw", "agent").out
    assert out.startswith("Step-based agent\n\n┌────────────────┐\n│ ● user_message │\n")
    assert "▶│ tool_call ├" in out


def test_draw_as_an_outline(sh: Shell) -> None:
    out = sh("draw", "agent", "--format", "outline").out
    assert out.startswith("Step-based agent\n\nrules\n")
    assert "    2 · tool calls → tool_call\n" in out


def test_a_machine_that_is_too_large_for_a_picture_is_an_outline(sh: Shell) -> None:
    states = "".join(f"  s{n}: {{do: nothing, next: s{n + 1}}}\n" for n in range(160))
    sh.write(
        "large.yaml",
        f"chartloop: 1\nmachine: large\nstates:\n{states}  s160: {{stop: completed}}\n",
    )
    done = sh("draw", "large.yaml")
    assert "[s0]" in done.out
    assert "an outline: the picture has too many boxes" in done.err


def test_draw_in_every_format(sh: Shell) -> None:
    assert sh("draw", "agent", "--format", "mermaid").out.splitlines()[1] == "flowchart TD"
    assert sh("draw", "agent", "--format", "dot").out.startswith(("digraph", "//", "strict"))
    drawn = [
        sh("draw", "agent", "--format", "mermaid", "--rules", r).out
        for r in ("box", "chain", "none")
    ]
    assert len(set(drawn)) == 3
    assert min(drawn, key=len) == drawn[2]
    sideways = sh("draw", "agent", "--format", "mermaid", "--direction", "lr").out
    assert sideways.splitlines()[1] == "flowchart LR"
    assert "end-error" in sh("draw", "executive", "--all", "--format", "mermaid").out
    assert "Idle" in sh("draw", "agent", "--region", "status").out
    done = sh("draw", "agent", "-o", "agent.mmd")
    assert done.out == ""
    assert (sh.folder / "agent.mmd").read_text().splitlines()[1] == "flowchart TD"
    assert sh("draw", "agent", "--format", "dot", "-o", "agent.txt").code == 0
    assert "llm_inference" in (sh.folder / "agent.txt").read_text()


def test_characters_go_down_only(sh: Shell) -> None:
    for more in ((), ("--format", "outline"), ("-o", "a.txt")):
        done = sh("draw", "agent", "--direction", "lr", *more)
        assert done.code == 2
        assert "give -o FILE.svg, or --format mermaid" in done.err
    assert sh("draw", "agent", "--direction", "lr", "-o", "a.mmd").code == 0
    assert sh("draw", "agent", "--direction", "tb").code == 0


def test_the_neighbourhood_of_a_state(sh: Shell) -> None:
    out = sh("draw", "moderator_full", "--around", "check_context").out
    assert "Context Size" in out
    assert "Recovery Possible?" in out
    assert "Error Category?" not in out
    assert "… 51 boxes hidden" in out
    wrong = sh("draw", "moderator_full", "--around", "check_contxt")
    assert wrong.code == 2
    assert "did you mean `check_context`?" in wrong.err


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.system("dot", install="apt-get install graphviz")
def test_draw_pictures(sh: Shell) -> None:
    assert sh("draw", "agent", "-o", "a.svg").code == 0
    assert (sh.folder / "a.svg").read_text().startswith("<svg")
    assert sh("draw", "agent", "-o", "a.png").code == 0
    assert (sh.folder / "a.png").read_bytes().startswith(b"\x89PNG")
    assert program("draw", "agent", "--format", "png", cwd=sh.folder).out.startswith("\udc89PNG")


def test_draw_a_run(sh: Shell) -> None:
    sh("run", *ADD)
    out = sh("draw", "--run", "last").out
    assert "done at " in out
    assert "done ✓ completed" in out
    assert "▶ done  ✓ completed\n" in sh("draw", "--run", "last", "--format", "outline").out
    dot = sh("draw", "--run", "last", "--format", "dot").out
    assert "limits.steps (20)" in dot
    assert "✓ completed" in dot
    assert sh("draw", "--run", "last", "--look", "live", "--format", "dot").out == dot
    plain = sh("draw", "--run", "last", "--look", "plain", "--format", "dot").out
    assert "✓" not in plain


@pytest.mark.parametrize("args", [(), ("agent", "--run", "last")], ids=["neither", "both"])
def test_draw_wants_a_machine_or_a_run(sh: Shell, args: tuple[str, ...]) -> None:
    done = sh("draw", *args)
    assert done.code == 2
    assert "name a machine, or a run with --run" in done.err


def test_draw_a_run_that_is_not_there(sh: Shell) -> None:
    done = sh("draw", "--run", "nobody")
    assert done.code == 2
    assert "there is no journal" in done.err


def test_a_picture_that_cannot_be_written(sh: Shell) -> None:
    done = sh("draw", "agent", "-o", "no/such/folder/a.mmd")
    assert done.code == 1
    assert "cannot be written" in done.err


# reference ----------------------------------------------------------------------------------


@pytest.mark.slow("takes seconds")
def test_machines_lists_what_is_shipped(sh: Shell) -> None:
    told = sh("info", "machines", "--format", "json").json
    assert [m["machine"] for m in told] == list(shipped_machines())
    assert all(m["ok"] and m["title"] and m["source"] for m in told)
    assert "Step-based agent" in sh("info", "machines").out


def test_facts_are_those_of_the_code(sh: Shell) -> None:
    told = sh("info", "facts", "--format", "json").json
    assert [f["fact"] for f in told] == list(FACTS)
    out = sh("info", "facts").out
    assert all(f"\n{name} " in f"\n{out}" for name in FACTS)
    assert max(map(len, out.splitlines())) <= 100
    assert {f["fact"] for f in sh("info", "facts", "context", "--format", "json").json} >= {
        "usage.context_ratio"
    }


def test_actions_are_those_of_the_registry(sh: Shell) -> None:
    known = builtin().actions
    told = sh("info", "actions", "--format", "json").json
    assert {a["action"] for a in told} == set(known)
    for name, spec in known.items():
        one = sh("info", "actions", name, "--format", "json").json
        assert [f["field"] for f in one["with"]] == [a.name for a in spec.args]
        assert one["available"] is (spec.run is not None)
        assert spec.about in " ".join(sh("info", "actions", name).out.split())


def test_actions_of_ones_own(sh: Shell) -> None:
    sh.write(
        "own.py",
        '''\
from chartloop import Context, action

@action(effect="pure")
def shout(ctx: Context, text: str) -> str:
    """Say it loudly."""
    return text.upper()
''',
    )
    assert "Say it loudly." in sh("info", "actions", "shout", "--tools", "own.py").out


def test_schema(sh: Shell) -> None:
    assert "takes no name" in sh("info", "schema", "x").err
    assert "go with `info actions`" in sh("info", "facts", "--tools", "tools.py").err
    assert sh("info", "schema").json == schema(builtin().actions.values())
    assert sh("info", "schema", "--format", "text").out == sh("info", "schema").out


# doctor -------------------------------------------------------------------------------------


def test_doctor_says_what_is_here_and_no_secret(sh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-do-not-show-this-0123456789")
    done = sh("doctor")
    assert done.code == 0
    assert "OPENAI_API_KEY" in done.out
    assert "sk-do-not-show" not in done.out + done.err
    assert not (sh.folder / ".chartloop").exists()
    told = {c["what"]: c for c in sh("doctor", "--format", "json").json}
    assert {
        "chartloop",
        "python",
        "packages",
        "models",
        "sandbox",
        "drawing",
        "screen",
        "notebook",
        "keys",
        "journal",
    } <= set(told)
    assert told["drawing"]["verdict"] == (
        "ok" if shutil.which("dot") else told["drawing"]["verdict"]
    )
    missing = [c for c in told.values() if c["verdict"] == "missing"]
    assert all(c["cure"] for c in missing)


def test_doctor_finds_a_broken_journal(sh: Shell) -> None:
    (sh.folder / "bad.db").write_text("no journal " * 500)
    done = sh("doctor", "--journal", "bad.db")
    assert done.code == 1
    assert "broken   journal" in done.out


# test ---------------------------------------------------------------------------------------

SCENARIO = """\
machine: adder.yaml
task: What is 2 + 3?
tools: {add: [5]}
replies:
  - {tool_calls: [{name: add, arguments: {a: 2, b: 3}}]}
  - It is 5.
expect: {reason: completed, output: It is 5.}
"""


def test_scenarios_are_found_and_run(sh: Shell) -> None:
    (sh.folder / "below").mkdir()
    sh.write("adds.scenario.yaml", SCENARIO)
    sh.write("below/again.scenario.yaml", SCENARIO.replace("adder.yaml", "../adder.yaml"))
    done = sh("test")
    assert done.code == 0
    assert done.out == "✓ adds.scenario.yaml\n✓ below/again.scenario.yaml\n2 passed\n"
    assert sh("test", "below").out == "✓ below/again.scenario.yaml\n1 passed\n"


def test_a_scenario_that_fails_says_why_and_the_others_run(sh: Shell) -> None:
    sh.write(
        "a.scenario.yaml",
        SCENARIO.replace("expect: {reason: completed", "expect: {reason: time_limit"),
    )
    sh.write("b.scenario.yaml", "machine: [\n")
    sh.write("c.scenario.yaml", SCENARIO)
    done = sh("test")
    assert done.code == 1
    assert "✗ a.scenario.yaml" in done.out
    assert "time_limit" in done.out
    assert "error[CL001]" in done.out
    assert "✓ c.scenario.yaml" in done.out
    assert done.out.endswith("1 passed, 2 failed\n")
    told = sh("test", "--format", "json").json
    assert [one["passed"] for one in told] == [False, False, True]
    assert told[0]["problems"]


def test_what_fails_many_scenarios_is_said_once(sh: Shell) -> None:
    for name in "abc":
        sh.write(f"{name}.scenario.yaml", SCENARIO)
    adder = sh.folder / "adder.yaml"
    sh.write("adder.yaml", adder.read_text().replace("tools: [", "tools: [nowhere, ", 1))
    done = sh("test")
    assert done.code == 1
    assert done.out.count("unknown tool `nowhere`") == 1
    assert done.out.count("    as a.scenario.yaml\n") == 2


def test_no_scenario_is_an_error(sh: Shell) -> None:
    (sh.folder / "empty").mkdir()
    done = sh("test", "empty")
    assert done.code == 2
    assert "there is no scenario here" in done.err


# tools of one's own -------------------------------------------------------------------------


class Own(NamedTuple):
    """Something that a file names and nobody gave, and what is said about it."""

    id: str
    text: str
    hint: str
    tools: bool = False


SMALL = "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: b}\n  b: {end: completed}\n"


@pytest.mark.parametrize(
    "case",
    [
        Own("tool", SMALL + "tools: [subtract]\n", "give it with --tools FILE"),
        Own("action", SMALL.replace("nothing", "shout"), "give it with --tools FILE"),
        Own(
            "function", SMALL.replace("next: b", "next: [{when: mine(1), to: b}, b]"),
            "did you mean `min`? Or give your own with --tools FILE",
        ),
        Own("misspelt", SMALL + "tools: [ad]\n", "did you mean `add`?", tools=True),
        Own("not-listed", SMALL.replace("nothing", "infer, allow: [x]"), ""),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_how_to_give_what_is_ones_own(sh: Shell, case: Own) -> None:
    sh.write("own.yaml", case.text)
    tools = ("--tools", "tools.py") if case.tools else ()
    for verb in ("check", "run"):
        done = sh(verb, "own.yaml", *tools)
        assert done.code == 1
        assert (
            f"= help: {case.hint}" if case.hint else "unknown tool of this machine"
        ) in done.out + done.err
        assert ("--tools" in done.out + done.err) == ("--tools" in case.hint)


def test_what_is_ones_own_is_drawn_without_it(sh: Shell) -> None:
    guarded = SMALL.replace("nothing", "shout").replace(
        "next: b", "next: [{when: mine(1), to: b}, b]"
    )
    sh.write("own.yaml", f"{guarded}tools: [subtract]\n")
    done = sh("draw", "own.yaml")
    assert done.code == 0
    assert "│ b" in done.out
    names = "action `shout`, tool `subtract`, guard `mine`"
    assert done.err == f"undeclared, accepted by name: {names}; --tools FILE declares them\n"
    sh.write("own.yaml", SMALL + "tools: [ad]\n")
    given = sh("draw", "own.yaml", "--tools", "tools.py")  # whoever gives theirs gives all of them
    assert given.code == 1
    assert "did you mean `add`?" in given.err


def test_the_name_of_a_picture_says_its_format(sh: Shell) -> None:
    done = sh("draw", "agent", "-o", "agent.jpeg")
    assert done.code == 2
    assert "end it with one of .svg .png" in done.err
    assert "or say --format" in done.err


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_a_large_picture_says_how_a_part_is_shown(sh: Shell) -> None:
    assert "--around STATE shows a part" in sh("draw", "moderator", "-o", "m.svg").err
    assert "--around" not in sh("draw", "agent", "-o", "a.svg").err


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_the_command_draws_a_theme(sh: Shell) -> None:
    assert sh("draw", "agent", "--theme", "dark", "-o", "a.svg").code == 0
    assert "#0f172a" in Path("a.svg").read_text()
    assert sh("draw", "agent", "--theme", "auto", "-o", "a.svg").code == 0
    assert "prefers-color-scheme" in Path("a.svg").read_text()
