"""What the tests of scenarios share: how one is written down and played, and small machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from chartloop.actions.declare import tool
from chartloop.scenarios import ScenarioReport, run_scenario

GOOD = "machine: agent\nexpect: {reason: completed}\n"

ADDER = """chartloop: 1
machine: adder
model: {name: scripted}
tools: [add]
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think:
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: work}, {to: done}]
  work: {do: call_tools, next: think}
  done: {stop: completed}
"""

ASKER = """chartloop: 1
machine: asker
limits: {patience: 1h}
states:
  ask: {do: ask_user, with: {text: "May I?"}, next: wait}
  wait:
    ask: May I?
    on: {yes: {to: work, data: {note: str}}, no: refused}
    within: limits.patience
    expired: late
  work: {do: nothing, next: more}
  more: {do: nothing, next: done}
  refused: {stop: user_requested}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def written(folder: Path, text: str, name: str = "it") -> Path:
    """A scenario file."""
    path = folder / f"{name}.scenario.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def played(folder: Path, text: str, **options: Any) -> ScenarioReport:
    """The report of a scenario in a folder."""
    return run_scenario(written(folder, text), **options)


def told(report: ScenarioReport) -> Any:
    """What the model was told by its tool."""
    assert report.run is not None
    return next(m["content"] for m in report.run.messages if m["role"] == "tool")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
