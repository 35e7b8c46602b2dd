"""`CrashAt`: a journal whose user dies at a chosen write."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.run.journal import Event, InboxMessage, Journal, RunRow, Snapshot, WholeRun
from chartloop.run.journal_pages import RunFilter
from chartloop.run.lease import Driver, Lease, Leases
from chartloop.run.processes import Process
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, MemoryJournal

ME, HELD = Driver("me"), Driver("other", "python", Process("far", 7))


def prepared() -> MemoryJournal:
    """A journal with a run that has one event, a message, a blob and a snapshot."""
    journal = MemoryJournal(now=lambda: 5.0)
    by_hand(journal.create(RunRow("a")))
    by_hand(journal.create(RunRow("held")))
    by_hand(journal.acquire("held", HELD))
    by_hand(journal.append("a", 0, 0, [Event(0, "intent", 1.0, None, {"key": "k"})]))
    by_hand(journal.send("a", InboxMessage("first", 1.0, {})))
    by_hand(journal.put_blob("blob"))
    by_hand(journal.put_snapshot("a", Snapshot(1, 0, {})))
    return journal


class Call(NamedTuple):
    """One call of the port, and what the journal shows of it afterwards."""

    id: str
    make: Callable[[Journal], Awaitable[Any]]
    seen: Callable[[MemoryJournal], Any]


def call(
    id: str, make: Callable[[Journal], Awaitable[Any]], seen: Callable[[MemoryJournal], Any]
) -> Call:
    """The same: pyright types the lambdas of a call, not those of a named tuple."""
    return Call(id, make, seen)


def rows(journal: MemoryJournal) -> list[RunRow]:
    return by_hand(journal.rows())


def leases(journal: MemoryJournal) -> list[Lease | None]:
    return [by_hand(journal.lease(run_id)) for run_id in ("a", "held")]


async def at_end(journal: Journal) -> list[Any]:
    """The events of all runs; the cursors of another journal differ."""
    return [(event.run_id, event.event) for event in (await journal.tail("", 9)).events]


async def told_of_change(journal: Journal) -> bool:
    return await journal.changed(await journal.changed() or "") is None


WRITES: list[Call] = [
    call("create", lambda j: j.create(RunRow("b")), rows),
    call("create_whole", lambda j: j.create_whole([WholeRun(RunRow("b"))]), rows),
    call("acquire", lambda j: j.acquire("a", ME), lambda j: (rows(j), leases(j))),
    call("release", lambda j: j.release("held", HELD), leases),
    call("append", lambda j: j.append("a", 1, 0, [Event(1, "result", 2.0)]), rows),
    call(
        "send", lambda j: j.send("a", InboxMessage("m", 2.0, {})), lambda j: by_hand(j.inbox("a"))
    ),
    call("put_blob", lambda j: j.put_blob("x"), lambda j: sorted(vars(j)["_blobs"])),
    call(
        "put_snapshot",
        lambda j: j.put_snapshot("a", Snapshot(1, 1, {"new": True})),
        lambda j: by_hand(j.snapshot("a")),
    ),
    call("fork", lambda j: j.fork("a", 0, RunRow("c")), rows),
    call("remove", lambda j: j.remove(["a"]), rows),
    call("mark_restored", lambda j: j.mark_restored(), rows),
]
READS: list[Call] = [
    call("restored", lambda j: j.restored(), rows),
    # It comes by the clock: counted, it would move the writes that are meant.
    call("renew", lambda j: j.renew("held", HELD, ttl=9.0), leases),
    call("lease", lambda j: j.lease("a"), rows),
    call("living_lease", lambda j: j.living_lease("held/a"), leases),
    call("now", lambda j: j.now(), leases),
    call("events", lambda j: j.events("a"), rows),
    call("records", lambda j: j.records("a"), rows),
    call("row", lambda j: j.row("a"), rows),
    call("rows", lambda j: j.rows(prefix="a", limit=1), rows),
    call("page", lambda j: j.page(RunFilter(prefix="a"), "", 1), rows),
    call("tally", lambda j: j.tally(RunFilter(), 60.0), rows),
    call("tail", at_end, rows),
    call("changed", told_of_change, rows),
    call("inbox", lambda j: j.inbox("a"), rows),
    call("message", lambda j: j.message("a", "first"), rows),
    call("blob", lambda j: j.blob("x"), rows),
    call("snapshot", lambda j: j.snapshot("a"), rows),
]


def make(case: Call, journal: Journal) -> Any:
    async def made() -> Any:
        return await case.make(journal)

    return by_hand(made())


def test_every_method_of_the_port_is_here_with_its_parameters() -> None:
    declared = {**vars(Leases), **vars(Journal)}
    port = {n: f for n, f in declared.items() if inspect.iscoroutinefunction(f)}
    assert {c.id for c in WRITES} | {c.id for c in READS} | {"close"} == port.keys()
    for name, method in port.items():
        mine = inspect.signature(getattr(CrashAt, name))
        assert list(mine.parameters.values()) == list(inspect.signature(method).parameters.values())


@pytest.mark.parametrize("case", [*WRITES, *READS], ids=lambda case: case.id)
def test_without_a_crash_it_is_the_journal_behind_it(case: Call) -> None:
    mine, bare = prepared(), prepared()
    journal = CrashAt(mine)
    assert make(case, journal) == make(case, bare)
    assert case.seen(mine) == case.seen(bare)
    assert journal.writes == (case in WRITES)


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case.id)
def test_before_a_write_it_never_happens_and_after_it_it_has(case: Call) -> None:
    untouched, done, bare = prepared(), prepared(), prepared()
    with pytest.raises(Crashed, match="before write 1"):
        make(case, CrashAt(untouched, 1))
    assert case.seen(untouched) == case.seen(bare)
    with pytest.raises(Crashed, match="after write 1"):
        make(case, CrashAt(done, 1, before=False))
    make(case, bare)
    assert case.seen(done) == case.seen(bare)


@pytest.mark.parametrize("case", [*WRITES, *READS], ids=lambda case: case.id)
def test_the_dead_do_nothing_more(case: Call) -> None:
    behind = prepared()
    journal = CrashAt(behind, 1)
    with pytest.raises(Crashed):
        by_hand(journal.put_blob("x"))
    before = case.seen(behind)
    with pytest.raises(Crashed, match="dead"):
        make(case, journal)
    assert case.seen(behind) == before
    by_hand(journal.close())  # the system closes what the dead had open


@given(n=st.integers(1, 8), before=st.booleans(), reads=st.integers(0, 3))
def test_it_counts_writes_and_only_writes(n: int, before: bool, reads: int) -> None:
    behind = MemoryJournal()
    journal = CrashAt(behind, n, before=before)

    def live() -> None:
        for number in range(20):
            for _ in range(reads):
                by_hand(journal.rows())
            by_hand(journal.create(RunRow(str(number))))

    with pytest.raises(Crashed):
        live()
    assert journal.writes == n
    assert len(rows(behind)) == (n - 1 if before else n)


def test_a_crash_is_caught_by_nothing_that_lives_on() -> None:
    assert not issubclass(Crashed, Exception)


def test_it_suspends_as_the_journal_behind_it_does() -> None:
    journal = CrashAt(MemoryJournal())
    assert (journal.suspends, journal.name) == (False, "memory")
