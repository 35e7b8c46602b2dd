"""Recorded runs are read without the author's Python, by people and processes that do not have it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.shell import Shell, program

MACHINE = """\
chartloop: 1
machine: own
model: {name: scripted}
tools: [look]
vars: {number: ""}
limits: {steps: 30}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  receive: {do: receive, next: think}
  think:
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: act}, {to: judge}]
  act: {do: call_tools, next: think}
  judge: {do: infer, with: {output: Verdict}, next: order}
  order:
    do: file_order
    with: {text: "{{ last.text }}", urgency: high}
    save: {vars.number: result.number}
    next: [{when: is_number(vars.number), to: question}, {to: failed}]
  question: {do: ask_user, with: {text: "{{ vars.number }}?"}, next: wait}
  wait: {on: {ok: done}}
  done: {stop: completed}
  failed: {stop: error}
"""
OWN = """\
from typing import Literal
from pydantic import BaseModel
from chartloop import Context, action, guard, tool

class Verdict(BaseModel):
    sure: bool

@tool(effect="pure")
def look(at: str) -> str:
    \"\"\"Look at it.\"\"\"
    return at

@action(effect="local", work=False)
def file_order(ctx: Context, text: str, urgency: Literal["low", "high"] = "low") -> dict[str, str]:
    \"\"\"Files an order.\"\"\"
    return {"number": f"{ctx.run_id}-{ctx.step}"}

@guard
def is_number(number: str) -> bool:
    \"\"\"Whether it looks like one.\"\"\"
    return "-" in number
"""
REPLIES = """\
replies:
  - {text: look, tool_calls: [{name: look, arguments: {at: me}}]}
  - seen
  - '{"sure": true}'
"""


class Author(NamedTuple):
    """What has become of the author's Python."""

    id: str
    text: str | None


TOUCHED = "open('touched', 'a').write('x')\n"
AUTHORS = [
    Author("gone", None),
    Author("fails", f"{TOUCHED}raise RuntimeError('no licence')\n"),
    Author("syntax", "def (:\n"),
    Author("prints-and-sleeps", f"{TOUCHED}print('hello')\nimport time; time.sleep(30)\n"),
    Author("exits", f"{TOUCHED}raise SystemExit(7)\n"),
]
READING = [
    ("show", "r"), ("show", "r", "--format", "json"), ("show", "r", "--state", "think"),
    ("why", "r"), ("why", "r", "--record", "5"), ("runs",), ("runs", "--format", "json"),
    ("journal", "export", "r", "--to", "-"), ("replay", "r"), ("stats",), ("stats", "r"), ("draw", "--run", "r"),
    ("bound", "--run", "r"), ("coverage", "own.yaml"), ("fork", "r", "--at", "4", "--run-id", "f"),
    ("answer", "r", "ok"), ("runs", "rm", "f", "--yes"),
]  # fmt: skip


@pytest.fixture
def author(sh: Shell) -> Shell:
    """A run with a tool, an action, a guard and a class of the author's own."""
    sh.write("own.yaml", MACHINE)
    sh.write("own.py", OWN)
    sh.write("own_replies.yaml", REPLIES)
    run = ("own.yaml", "x", "--tools", "own.py", "--script", "own_replies.yaml", "--no-input")
    done = sh("run", *run, "--run-id", "r")
    assert done.code == 4, done.err
    assert sh("show", "r").out == sh("show", "r", "--tools", "own.py").out
    return sh


@pytest.mark.parametrize("case", AUTHORS, ids=lambda case: case.id)
def test_every_reading_command_does_without_the_authors_python(case: Author, author: Shell) -> None:
    if case.text is None:
        (author.folder / "own.py").unlink()
    else:
        author.write("own.py", case.text)
    for args in READING:
        done = author(*args)
        assert done.code in (0, 4), (args, done.err, done.out)
    assert not Path(author.folder / "touched").exists()


def test_going_on_asks_for_it_and_says_how(author: Shell) -> None:
    (author.folder / "own.py").unlink()
    assert author("answer", "r", "ok").code == 0
    refused = author("resume", "r", "--no-input")
    assert refused.code == 2
    assert "--tools" in refused.err


# what is told live --------------------------------------------------------------------------

SECRET = "p@ss/w" + '"rd-4711x'
TOOL = """\
import os, urllib.parse
from chartloop import tool

@tool(effect="pure")
def look(at: str) -> str:
    \"\"\"Look at it.\"\"\"
    return "found " + urllib.parse.quote(os.environ["DB_PASSWORD"], safe="")
"""


LOOKS = """\
chartloop: 1
machine: looks
model: {name: scripted}
tools: [look]
limits: {steps: 30}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  receive: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


@pytest.mark.slow("starts processes for seconds")
def test_live_events_have_no_secrets(sh: Shell, folder: Path) -> None:
    reply = json.dumps(f"the password is {SECRET} or sk-proj-Zx81mKq04vTbN62pLrYd9sWc4f9d0 indeed")
    sh.write("looks.py", TOOL)
    sh.write(
        "says.yaml",
        f"replies:\n  - {{text: {reply}, tool_calls: [{{name: look, arguments: {{at: a}}}}]}}\n"
        f"  - {reply}\n",
    )
    sh.write("looks.yaml", LOOKS)
    env = {"DB_PASSWORD": SECRET}
    run = ("run", "looks.yaml", "x", "--tools", "looks.py", "--script", "says.yaml")
    for more in ((), ("--in-memory",)):
        done = program(*run, "--format", "jsonl", "-v", *more, cwd=sh.folder, env=env)
        assert done.code == 0, done.err
        events = [line for line in done.lines if line["event"] != "result"]
        text = "".join(event["text"] for event in events if event["event"] == "delta")
        assert "the password is «redacted:DB_PASSWORD» or «redacted:openai-key» indeed" in text
        told = json.dumps(events) + done.err
        for part in ("w%22rd", "rd-4711x", "sk-proj", "p@ss"):
            assert part not in told
        assert "found «redacted:DB_PASSWORD»" in json.dumps(events, ensure_ascii=False)
    assert os.environ.get("DB_PASSWORD") is None
