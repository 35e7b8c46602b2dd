"""No text of a model, a file or a journal steers a terminal, whichever command shows it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.cli import console
from chartloop.cli.app import COMMANDS
from tests.cli.shell import Shell, Terminal, call, program

STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
EVIL = "\x1b]0;PWN\x07\x1b[2J\x1b[31m\x9b2K\u202e\u2066 gone\rPWN"
WRITTEN = r"\e]0;PWN\a\e[2J\e[31m\x9b2K\u202e\u2066 gone\rPWN"
"""The same in a YAML file, between double quotes."""

MACHINE = f"""\
chartloop: 1
machine: evil
title: "{WRITTEN}"
model: {{name: scripted}}
tools: [look, fall]
limits: {{steps: 30, answer: 90d}}
vars: {{note: "{WRITTEN}"}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  receive: {{do: receive, next: think}}
  think:
    label: "{WRITTEN}"
    do: infer
    next: [{{when: len(last.tool_calls) > 0, label: "{WRITTEN}", to: act}}, {{to: question}}]
  act: {{do: call_tools, next: think}}
  question: {{do: ask_user, with: {{text: "{WRITTEN} {{{{ last.text }}}}"}}, next: wait}}
  wait:
    on: {{ok: done, again: {{to: think, data: {{note: str}}, set: {{vars.note: last.answer.note}}}}}}
    within: limits.answer
    expired: done
  done: {{stop: completed}}
"""
TOOLS = f"""\
import sys, warnings
from chartloop import tool

EVIL = {EVIL!r}

@tool(effect="pure")
def look(at: str) -> str:
    \"\"\"Look at something.\"\"\"
    print("out", EVIL)
    print("err", EVIL, file=sys.stderr)
    warnings.warn(EVIL)
    return EVIL + at

@tool(effect="pure")
def fall(at: str) -> str:
    \"\"\"Fall over it.\"\"\"
    raise ValueError(EVIL + at)
"""
USAGE = "usage: {prompt_tokens: 5, completion_tokens: 1}"
REPLIES = f"""\
replies:
  - text: "{WRITTEN}"
    tool_calls:
      - {{name: look, arguments: {{at: "{WRITTEN}"}}}}
      - {{name: fall, arguments: {{at: "{WRITTEN}"}}}}
      - {{name: "{WRITTEN}", arguments: {{}}}}
    {USAGE}
  - {{text: "{WRITTEN}", {USAGE}}}
  - {{error: {{category: CRITICAL, message: "{WRITTEN}"}}}}
"""
DOCUMENT = f"# x\n\n```mermaid\nflowchart TD\n  a[{EVIL[:-4]}] -->|{EVIL[:-4]}| b[done]\n```\n"
TOLD = ("--tools", "tools.py")
RUN = ("evil.yaml", EVIL, *TOLD, "--script", "replies.yaml", "--no-input")

CALLS: dict[str, list[tuple[str, ...]]] = {
    "new": [("new", EVIL)],
    "doctor": [("doctor",)],
    "check": [("check", "evil.yaml", *TOLD), ("check", EVIL), ("check", "broken.yaml")],
    "bound": [("bound", "evil.yaml", *TOLD), ("bound", "--run", "ends")],
    "query": [
        ("query", "evil.yaml", "never done", "can reach wait", *TOLD),
        ("query", "evil.yaml", EVIL, *TOLD),
    ],
    "draw": [
        *(
            ("draw", "evil.yaml", *TOLD, "--format", f)
            for f in ("text", "outline", "mermaid", "dot")
        ),
        ("draw", "--run", "ends"),
    ],
    "test": [("test", "evil.yaml", *TOLD), ("test", "made.scenario.yaml", *TOLD)],
    "diff": [("diff", "evil.yaml", "other.yaml", *TOLD)],
    "review": [("review", "evil.yaml", "other.yaml")],
    "import": [("import", "evil.md")],
    "verify": [("verify", "evil.md", "evil.yaml", *TOLD)],
    "run": [
        ("run", *RUN, "--run-id", "more", "-v"),
        ("run", *RUN, "--format", "json"),
        ("run", *RUN, "--format", "jsonl"),
        ("run", *RUN, "--run-id", EVIL),
        ("run", "evil.yaml", *RUN[2:], "--inputs", "tasks.txt", "-v"),
        ("run", EVIL, EVIL),
    ],
    "chat": [("chat", "evil.yaml", EVIL, *RUN[2:-1]), ("chat", "evil.yaml", "--continue", EVIL)],
    "step": [("step", "evil.yaml", EVIL, *RUN[2:-1], "--plain")],
    "resume": [("resume", "waits", *TOLD, "--no-input", "-v"), ("resume", EVIL)],
    "answer": [
        ("answer", "waits", EVIL),
        ("answer", "waits", "again", f"{EVIL}={EVIL}"),
        ("answer", "waits", "again", f"note={EVIL}"),
    ],
    "link": [
        ("link", "waits", "--to", "eve"),
        ("link", "waits", "--to", EVIL),
        ("link", EVIL, "--to", "eve"),
        ("link", "waits", "--revoke"),
    ],
    "enqueue": [("enqueue", "waits", EVIL)],
    "submit": [
        ("submit", "evil.yaml", EVIL, *TOLD, "--run-id", "due"),
        ("submit", EVIL, EVIL),
        ("submit", "evil.yaml", "--inputs", "tasks.txt", *TOLD),
    ],
    "schedule": [
        ("schedule", "add", "often", "evil.yaml", EVIL, *TOLD, "--every", "1d"),
        ("schedule", "add", "often", "evil.yaml", *TOLD, "--every", "1d", "--timezone", EVIL),
        ("schedule", "add", EVIL, EVIL, "--every", "1d"),
        ("schedule", "list"),
        ("schedule", "pause", EVIL),
    ],
    "worker": [("worker", "--until-idle", *TOLD), ("worker", "--machines", EVIL)],
    "journal": [
        ("journal", "migrate"),
        ("journal", "export", "ends", "--to", "ends.jsonl"),
        ("journal", "export", EVIL, "--to", "x.jsonl"),
        ("journal", "import", EVIL),
        ("journal", "prune", "--older", "1d", "--dry-run"),
    ],
    "limits": [
        ("limits", "set", f"agent:{EVIL}", "--tokens", "9"),
        ("limits",),
        ("limits", "set", EVIL, "--tokens", "9"),
        ("limits", "settle", EVIL),
        ("limits", "rm", f"agent:{EVIL}"),
    ],
    "pause": [("pause", "waits"), ("pause", EVIL)],
    "cancel": [("cancel", "waits", "--reason", EVIL, "--message", EVIL)],
    "serve": [
        ("serve", "--machines", EVIL),
        ("serve", "--machines", ".", "--host", EVIL),
        ("serve", "--machines", ".", "--token-file", EVIL),
    ],
    "mcp": [("mcp", "--machines", EVIL), ("mcp", "--machines", ".", "--http", EVIL)],
    "tools": [("tools", "lock", "evil.yaml", *TOLD), ("tools", "lock", EVIL)],
    "runs": [
        ("runs",),
        ("runs", "--children"),
        ("journal", "export", "ends", "--to", "-"),
        ("runs", "rm", EVIL),
    ],
    "show": [
        ("show", "ends"),
        ("show", "fails"),
        ("show", "waits"),
        ("show", "ends", "--state", "think"),
    ],
    "why": [("why", "ends"), ("why", "ends", "--record", "1"), ("why", "ends", "--record", "2")],
    "fork": [("fork", "ends", "--at", "3")],
    "retry": [("retry", "fails", "--dry-run"), ("retry", "fails", *TOLD), ("retry", EVIL)],
    "coverage": [("coverage", "evil.yaml", *TOLD)],
    "replay": [("replay", "ends")],
    "stats": [("stats",), ("stats", "--format", "csv"), ("stats", "evil.yaml", *TOLD)],
    "whatif": [("whatif", "evil.yaml", "--limit", "steps=3", *TOLD)],
    "upgrade": [("upgrade", "evil.yaml", "other.yaml", *TOLD)],
    "record": [("record", name, *TOLD) for name in ("ends", "waits", "fails")],
    "info": [
        ("info", "machines"),
        ("info", "schema"),
        ("info", EVIL),
        ("info", "facts"),
        ("info", "facts", EVIL),
        ("info", "actions"),
        ("info", "actions", EVIL),
    ],
    EVIL: [(EVIL,), ("--" + EVIL,)],
}
"""For each command what a person may call, in a folder where every text is hostile."""


def fill(folder: Path) -> None:
    """The machine, its tools, its replies and what else the commands read."""
    (folder / "evil.yaml").write_text(MACHINE)
    (folder / "other.yaml").write_text(MACHINE.replace("steps: 30", "steps: 20"))
    (folder / "broken.yaml").write_text(MACHINE.replace("do: infer", f'do: "{WRITTEN}"'))
    (folder / "tools.py").write_text(TOOLS)
    (folder / "replies.yaml").write_text(REPLIES)
    (folder / "tasks.txt").write_text("one\ntwo\n")
    (folder / "evil.md").write_text(DOCUMENT)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with a run that has ended, and one that waits: all of their texts are hostile."""
    folder = tmp_path_factory.mktemp("evil")
    fill(folder)
    ends = call(*("run", *RUN, "--run-id", "ends", "--agent", EVIL, "--session", EVIL), cwd=folder)
    assert ends.code == 4
    assert call("cancel", "ends", "--reason", EVIL, "--message", EVIL, cwd=folder).code == 0
    assert "PWN" in call("resume", "ends", *TOLD, "--no-input", cwd=folder).err
    assert call("run", *RUN, "--run-id", "waits", cwd=folder).code == 4
    (folder / "fails.yaml").write_text("replies:\n" + REPLIES[REPLIES.index("  - {error") :])
    fails = ("run", "evil.yaml", EVIL, *TOLD, "--script", "fails.yaml", "--run-id", "fails")
    assert call(*fails, cwd=folder).code == 1
    made = ("record", "fails", *TOLD, "--output", "made.scenario.yaml")
    assert call(*made, cwd=folder).code == 0
    return folder


@pytest.fixture
def evil(filled: Path, sh: Shell) -> Shell:
    """A copy of it, and the command line in there."""
    shutil.copytree(filled, sh.folder, dirs_exist_ok=True)
    return sh


def test_every_command_is_in_the_table() -> None:
    assert set(COMMANDS) <= set(CALLS)


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_steers_the_terminal(name: str, evil: Shell) -> None:
    for args in CALLS[name]:
        done = evil(*args)
        found = STEERS.search(done.out) or STEERS.search(done.err)
        assert found is None, (args, (done.out + done.err)[max(0, found.start() - 60) :][:120])
        assert "this is a fault" not in done.err, (args, done.err)


READING = ("runs", "show", "why", "replay", "stats", "whatif", "coverage", "resume", "cancel")
COLUMNS = (
    "machine", "machine_hash", "status", "state", "reason", "agent", "session", "parent",
)  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_nor_does_a_row_that_was_edited(column: str, evil: Shell) -> None:
    with sqlite3.connect(evil.folder / ".chartloop/journal.db") as db:
        db.execute(f"UPDATE run SET {column} = ?", (EVIL,))  # noqa: S608  a name from above
    for name in READING:
        for args in CALLS[name]:
            done = evil(*args)
            assert STEERS.search(done.out + done.err) is None, args


@pytest.mark.slow("starts processes for seconds")
def test_a_terminal_gets_our_colours_and_nothing_of_theirs(folder: Path) -> None:
    fill(folder)
    run = ("run", *RUN, "--run-id", "r")
    for args in (run, ("show", "r"), ("runs",), ("stats",), ("cancel", "r", "--reason", EVIL)):
        with Terminal(*args, cwd=folder) as t:
            t.wait()
            assert "\x1b]0;" not in t.raw
            assert "\x1b[2J" not in t.raw
            assert not {"\x07", "\x9b", "\u202e", "\u2066"} & set(t.raw)
            assert "\x1b[" in t.raw or args[0] == "cancel"
            if args == run:  # what its tools print is shown, above the frame
                assert "out \ufffd" in t.raw
                assert "err \ufffd" in t.raw
            assert not re.search("[\U00100000-\U0010ffff]", t.raw)


@pytest.mark.slow("starts processes for seconds")
def test_a_fault_and_a_traceback_are_cleaned(folder: Path) -> None:
    fill(folder)
    (folder / "tools.py").write_text(f"raise ValueError({EVIL!r})\n")
    for env in ({}, {"CHARTLOOP_TRACEBACK": "1"}):
        done = program("run", *RUN, cwd=folder, env=env)
        assert done.code != 0
        assert STEERS.search(done.out + done.err) is None


@given(st.lists(st.text() | st.sampled_from([EVIL, "\x1b", "[31m", "\r", "a", *"\U00100000\x9b"])))
def test_what_a_door_writes_is_never_obeyed(parts: list[str]) -> None:
    written = Kept()
    door = console.Door(written)  # pyright: ignore[reportArgumentType]
    door.writelines(parts)
    assert STEERS.search(written.text) is None


@given(st.text(st.characters(blacklist_categories=["Cc", "Cf", "Zl", "Zp", "Cs", "Co"])))
def test_a_door_leaves_ordinary_text_as_it_is(text: str) -> None:
    written = Kept()
    console.Door(written).write(f"{text}\n\t{text}")  # pyright: ignore[reportArgumentType]
    assert written.text == f"{text}\n\t{text}"


class Kept:
    """What was written."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        """Keep it."""
        self.text += text
