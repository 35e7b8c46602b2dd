"""Whatever somebody writes into one place of one event, a run opens or is refused with a reason."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import load
from chartloop.core.errors import RunError
from chartloop.run.recorded import RecordedRun, Unread, read_run
from chartloop.run.sync import by_hand

MACHINE = """
chartloop: 1
machine: m
model: {name: scripted}
tools: [now]
limits: {steps: 30, errors: 3}
vars: {n: 0, plan: {type: "list[str]", value: []}}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: errors.total >= limits.errors, stop: error_threshold}
states:
  a: {do: receive, next: b}
  b:
    do: infer
    retry: {times: 1, base: 1ms}
    next: [{when: len(last.tool_calls) > 0, to: t}, {to: s}]
  t: {do: call_tools, next: b}
  s: {do: set, with: {vars.n: vars.n + 1, vars.plan: '["x"]'}, next: c}
  c: {ask: Go on?, on: {yes: z, no: b}, within: 5m, expired: z}
  z: {stop: completed}
"""
REPLIES: list[Any] = [
    {"text": "look", "tool_calls": [{"name": "now", "arguments": {}}]},
    {"error": {"category": "TRANSIENT", "message": "busy"}},
    "done",
]
VALUES: list[Any] = [
    None, "", "x", [], ["x"], [None], {}, {"x": 1}, -1, 0, 2**70, 0.5, True, float("inf"),
    float("nan"), "\ud800", {"$blob": "x"}, [[[]]],
]  # fmt: skip


def now() -> str:
    """What time it is."""
    return "noon"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with a run that waits, after a tool call, a failure and a retry."""
    path = tmp_path_factory.mktemp("edited") / "journal.db"
    journal = SqliteJournal(path)
    run = load(MACHINE, tools=[now]).start("x", script=REPLIES, journal=journal, run_id="r")
    assert run.run().state == "c"
    run.send("yes", {})
    by_hand(journal.close())
    return path


def places(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in JSON data, and one that is not there."""
    yield at
    if isinstance(data, dict):
        for key, value in cast("dict[str, Any]", data).items():
            yield from places(value, (*at, key))
        yield (*at, "unknown")
    elif isinstance(data, list):
        for number, value in enumerate(cast("list[Any]", data)):
            yield from places(value, (*at, number))


def changed(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    """The data with another value at a place."""
    if not at:
        return value
    node = data
    for step in at[:-1]:
        node = node[step]
    node[at[-1]] = value
    return data


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_one_edit_is_read_or_refused(data: st.DataObject, whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    shutil.copy(whole, path)
    with closing(sqlite3.connect(path)) as db, db:
        table = data.draw(st.sampled_from(["event", "event", "event", "inbox"]))
        rows = db.execute(f"SELECT rowid, data FROM {table} ORDER BY rowid").fetchall()  # noqa: S608
        row, text = data.draw(st.sampled_from(rows))
        kept = json.loads(text)
        at = data.draw(st.sampled_from(list(places(kept))))
        value = data.draw(st.sampled_from(VALUES))
        text = json.dumps(changed(kept, at, value), separators=(",", ":"))
        db.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (text, row))  # noqa: S608
    journal = SqliteJournal(path)
    with closing(Open(journal)), suppress(RunError):  # refused with a reason: anything else fails
        found = by_hand(journal.row("r"))
        assert found is not None
        assert isinstance(by_hand(read_run(journal, found)), (RecordedRun, Unread))
        run = load(MACHINE, tools=[now]).open("r", journal=journal, script=["again", "more"])
        run.why()
        assert run.replay() is not None
        assert run.result.to_dict()
        run.run()


class Open:
    """A journal that is closed at the end."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    def close(self) -> None:
        """Close it."""
        by_hand(self._journal.close())
