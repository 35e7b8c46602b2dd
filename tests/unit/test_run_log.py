"""The log of one run by itself: what is held, who writes, what is refused when it is read."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from msgspec.structs import fields

from chartloop.core.errors import Fenced, JournalCorrupt, UnknownRunError
from chartloop.core.position import Position
from chartloop.core.values import Value
from chartloop.run.journal import Event, MemoryJournal, RunRow, Snapshot
from chartloop.run.lease_holder import Holder, Turn
from chartloop.run.log import SNAPSHOT_AFTER, SNAPSHOT_HOLDS, RunLog, snapshot_format
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock

NOW = 5.0


def log_of(journal: MemoryJournal) -> RunLog:
    return RunLog(journal, "r", Holder("r", Turn("r"), ManualClock()))


def begun() -> tuple[MemoryJournal, RunLog]:
    journal = MemoryJournal()
    log = log_of(journal)
    log.row = RunRow("r", "m", "hash")
    by_hand(log.create("text"))
    return journal, log


def note(log: RunLog, key: str, *, last: bool = False) -> Event:
    if last:
        log.hold_result(key, {}, NOW)
        return Event(log.head - 1, "result", NOW, None, log.calls.results[key], log.epoch)
    by_hand(log.note("intent", key, {}, NOW))
    return Event(log.head - 1, "intent", NOW, None, log.calls.intents[key], log.epoch)


def keys(journal: MemoryJournal) -> list[str]:
    return [event.data["key"] for event in by_hand(journal.events("r"))]


def test_a_log_that_is_not_there() -> None:
    with pytest.raises(UnknownRunError):
        by_hand(log_of(MemoryJournal()).open())


def test_what_is_held_is_written_with_the_next_event() -> None:
    journal, log = begun()
    note(log, "a", last=True)
    assert (keys(journal), log.head) == ([], 1)
    note(log, "b")
    assert (keys(journal), log.head) == (["a", "b"], 2)


def test_settling_writes_what_is_held() -> None:
    journal, log = begun()
    note(log, "a", last=True)
    by_hand(log.settle())
    by_hand(log.settle())
    assert keys(journal) == ["a"]


def test_the_one_before_is_fenced_and_the_next_reads_on() -> None:
    journal, first = begun()
    second = log_of(journal)
    by_hand(second.open())
    note(first, "a")
    assert by_hand(second.become_driver()), "there is an event that it has not read"
    with pytest.raises(Fenced):
        note(first, "b")
    second.head = 1
    assert note(second, "c").seq == 1
    assert keys(journal) == ["a", "c"]


def test_held_events_that_another_driver_came_before_are_refused() -> None:
    journal, first = begun()
    note(first, "a", last=True)
    other = log_of(journal)
    by_hand(other.open())
    by_hand(other.become_driver())
    note(other, "b")
    with pytest.raises(Fenced):
        by_hand(first.become_driver())


def test_an_event_that_does_not_follow_is_refused() -> None:
    _, log = begun()
    by_hand(log.check(Event(0, "intent", NOW, None, {}, log.epoch)))
    for odd in (Event(1, "intent", NOW), Event(0, "intent", NOW, None, {}, log.epoch + 1)):
        with pytest.raises(JournalCorrupt):
            by_hand(log.check(odd))


def test_a_snapshot_is_of_this_machine_and_format_or_none() -> None:
    journal, log = begun()
    by_hand(log.store_snapshot(3, {"position": {}}))
    found = by_hand(log.snapshot())
    assert found is not None
    assert found.record_seq == 3
    for machine, format in (("other", snapshot_format()), ("hash", f"{snapshot_format()}0")):
        data: dict[str, object] = {"machine": machine, "format": format, "position": {}}
        by_hand(journal.put_snapshot("r", Snapshot(0, 4, data)))
        assert by_hand(log.snapshot()) is None


def test_a_new_field_anywhere_in_a_position_makes_another_format() -> None:
    """A snapshot from before it would have its default, which may not be what the records say."""
    found: set[type[Value]] = set()
    pending: list[Any] = [Position]
    while pending:
        kind = pending.pop()
        pending += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Value) and kind not in found:
            found.add(kind)
            pending += [field.type for field in fields(kind)]
    assert found == set(SNAPSHOT_HOLDS)


def test_when_there_should_be_a_snapshot() -> None:
    _, log = begun()
    assert log.snapshot_at == SNAPSHOT_AFTER
    assert not log.may_hold(SNAPSHOT_AFTER - 1)
    by_hand(log.store_snapshot(SNAPSHOT_AFTER, {}))
    assert log.snapshot_at > 2 * SNAPSHOT_AFTER
    log.ask_to_save()
    assert log.snapshot_at <= 1
    assert not log.may_hold(1)
