"""A journal with a run for each way in which a run may stand, for tests that look at every screen."""

from __future__ import annotations

import runpy
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any, ClassVar

from chartloop import Image, Machine, load
from chartloop.catalog import shipped_machines
from tests.browser.test_run_page import Server

TOOLS = '''\
from chartloop import tool


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="pure")
def fetch(url: str) -> str:
    """Fetch a page."""
    if url.endswith("13"):
        raise ValueError("404 Not Found")
    return f"# Page {url}\\n\\nDemand rises by **12 %** a year. " + "More text of the page. " * 12


@tool
def buy_report(title: str, usd: float) -> str:
    """Buy a report. It costs money."""
    return f"{title}, bought for {usd:.2f} USD"
'''
LOOP = """\
chartloop: 1
machine: {name}
title: {title}
about: {about}
model: {{name: scripted}}
tools: [{tools}]
{more}limits: {{steps: {steps}}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  task: {{label: Read the task, do: receive, next: think}}
  think:
    label: Model thinks
    do: infer
    next: [{{when: len(last.tool_calls) > 0, to: act, label: tool calls}}, {{to: done, label: answer}}]
  act: {{label: Use the tools, do: call_tools, next: think}}
  done: {{label: Done, stop: completed}}
"""
TRIAGE = """\
chartloop: 1
machine: triage
title: Support triage
limits: {steps: 20, patience: 2h}
model: {name: scripted}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ticket: {label: Read the ticket, do: receive, next: draft}
  draft: {label: Draft an answer, do: infer, next: review}
  review:
    label: A person reviews the draft
    ask: "Send this to the customer?\\n\\n{last.text}"
    on:
      accept: sent
      correct: {to: note, data: {note: str}}
      reject: {to: closed, data: {why: str}}
    within: limits.patience
    expired: closed
  note: {label: Take the note, do: prompt, with: {user: "{{ last.answer.note }}", keep: true}, next: draft}
  sent: {label: Sent, stop: completed}
  closed: {label: Not sent, stop: user_requested}
"""
REPLY = """\
Demand rises by **12 %** a year.

| year | kt |
|---|---|
| 2024 | 100 |
| 2025 | 112 |

- first source, <b>not markup</b>
- [second source](https://example.com/a)

```python
print(1)
```"""


class Populated(Server):
    """A server over a journal of runs that are done, stopped, failed, waiting, left alone and more."""

    files: ClassVar[dict[str, str]] = {
        "tools.py": TOOLS,
        "machines/calculator.yaml": LOOP.format(
            name="calculator", title="A calculator", about="Adds numbers.", tools="add", steps=12, more=""
        ),
        "machines/crawler.yaml": LOOP.format(
            name="crawler", title="A crawler", about="Reads pages.", tools="fetch", steps=600, more=""
        ),
        "machines/buyer.yaml": LOOP.format(
            name="buyer", title="Buys reports", about="Buys what somebody approves.",
            tools="buy_report", steps=20, more="approve: {tools: [buy_report], edit: true}\n",
        ),
        "machines/triage.yaml": TRIAGE,
        "script.yaml": "replies: []\n",
    }  # fmt: skip
    options = ("--tools", "tools.py")

    def begin(self) -> None:
        if not (self.folder / "journal.db").exists():
            shutil.copy(shipped_machines()["team"], self.folder / "machines" / "team.yaml")
            populate(self.folder)
        super().begin()


def populate(folder: Path, pages: int = 60) -> None:
    """Write the runs into `folder/journal.db`; `pages` is how many a crawler reads."""
    defined = runpy.run_path(str(folder / "tools.py"))
    tools = [defined[name] for name in ("add", "fetch", "buy_report")]
    machine = {path.stem: load(path, tools=tools) for path in folder.glob("machines/*.yaml")}

    def start(name: str, run: str, task: Any, script: Any) -> Any:
        made: Machine = machine[name]
        return made.start(task, script=script, journal=folder / "journal.db", run_id=run)

    called = [
        {"text": f"I look at page {n}.", **call("fetch", url=f"https://example.com/lithium/{n}")}
        for n in range(pages)
    ]
    start("crawler", "long", "Read all the reports about lithium.", [*called, REPLY]).run()
    adds = call("add", a=2, b=3)
    for n in range(4):
        start("calculator", f"sum-{n}", f"What is 2 + {n}?", [adds, f"2 + {n} is {2 + n}."]).run()
    start("calculator", "loops", "Keep adding one for ever.", [adds] * 20).run()
    down = {"error": {"category": "CRITICAL", "message": "server down: 503 Service Unavailable"}}
    start("calculator", "fails", "Fail, please.", [adds, down]).run()
    half = start("calculator", "half", "What is 6 + 6?", [adds, "12"])
    half.step()
    half.step()
    stopped = start("calculator", "stopped", "What is 7 + 7?", [adds, "14"])
    stopped.step()
    stopped.cancel("wrong question")
    stopped.run()
    start(
        "calculator", "image", ["What is on this picture?", Image(png(120, 80))], ["A gradient."]
    ).run()
    for n in range(3):
        buys = call("buy_report", title="Lithium 2026", usd=49.0 + n)
        start(
            "buyer", f"buy-{n}", f"How fast does demand for metal {n} rise?", [buys, "By 12 %."]
        ).run()
        letter = f"Dear customer,\n\nwe are **sorry** that parcel {n} is late.\n\nYour support team"
        start("triage", f"ticket-{n}", f"Ticket {n}: my parcel is late.", [letter]).run()
    plan = '{"research": "three facts", "writing": "a paragraph", "critique": "what is weak"}'
    start("team", "team", "Write about lithium.", [plan, "Part A", "Part B", "Part C", REPLY]).run()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A reply that calls one tool."""
    usage = {"prompt_tokens": 90, "completion_tokens": 20, "cost": 0.001}
    return {"tool_calls": [{"name": name, "arguments": arguments}], "usage": usage}


def png(width: int, height: int) -> bytes:
    """A picture of a gradient."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    row = b"".join(bytes((x * 255 // width, 90, 120)) for x in range(width))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for _ in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
