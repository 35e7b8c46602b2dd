"""`why` of one record: from the nearest moment that is known, kept, and off the event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run
from chartloop.core.errors import UnknownRunError
from chartloop.run.journal import Event, Journal, MemoryJournal
from chartloop.run.sync import by_hand
from tests.support import machine

COUNTS = """\
limits: {steps: 10000}
vars: {n: 0}
states:
  a: {do: act, set: {vars.n: vars.n + 1}, next: [{when: vars.n >= 600, to: z}, b]}
  b: {do: act, next: a}
  z: {stop: completed}
"""


class Watched(MemoryJournal):
    """A journal in memory that notes how it is read: from where, and in which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, **more: Any
    ) -> list[Event]:
        self.reads.append((start, threading.get_ident()))
        return await super().events(run_id, start, limit, **more)

    def starts(self) -> list[int]:
        """Where was read from since this was asked last."""
        found, self.reads = [start for start, _ in self.reads], []
        return found

    def threads(self) -> set[int]:
        """Who read since this was asked last."""
        found, self.reads = {thread for _, thread in self.reads}, []
        return found


@pytest.fixture(scope="module")
def counted() -> tuple[Machine, Watched, Run]:
    """A run of 1,200 records, with the snapshot that the engine made on the way."""
    made, journal = machine(COUNTS), Watched()
    run = made.start(journal=journal, run_id="r")
    run.run()
    return made, journal, run


def test_it_starts_at_the_snapshot_and_is_kept(counted: tuple[Machine, Watched, Run]) -> None:
    made, journal, run = counted
    snapshot = by_hand(journal.snapshot("r"))
    assert snapshot is not None
    at = snapshot.record_seq + 7
    opened = made.open("r", journal=journal)
    journal.starts()
    told = opened.why(at)
    assert journal.starts() == [snapshot.seq]
    assert opened.why(at) is told
    assert made.open("r", journal=journal).why(at) is told  # by another that has the run in hand
    assert journal.starts()[-1] == at
    assert told.to_dict() == run.why(at).to_dict()


def test_one_before_the_snapshot_starts_where_an_earlier_question_came_by(
    counted: tuple[Machine, Watched, Run],
) -> None:
    _, journal, run = counted
    run.why(700)
    journal.starts()
    run.why(690)
    assert min(journal.starts()) >= 600


def test_the_newest_is_the_default(counted: tuple[Machine, Watched, Run]) -> None:
    _, _, run = counted
    newest = run.records[-1].seq
    assert run.why().to_dict() == run.why(newest).to_dict()
    assert run.why().decision.next == "z"


def test_the_newest_may_be_the_one_that_the_snapshot_follows() -> None:
    made, journal = machine(COUNTS), MemoryJournal()
    run = made.start(journal=journal)
    for _ in range(5):
        run.step()
    by_hand(run.session.put_snapshot())
    newest = run.records[-1].seq
    assert run.why().to_dict() == made.open(run.id, journal=journal).why(newest).to_dict()


class Missing(NamedTuple):
    id: str
    seq: int | None
    steps: int
    hint: str


@pytest.mark.parametrize(
    "case",
    [
        Missing("beyond", 9, 2, "records are numbered 0 to 2"),
        Missing("negative", -1, 2, "records are numbered 0 to"),
        Missing("not-begun", None, 0, "the run has no records"),
        Missing("not-begun-and-numbered", 3, 0, "the run has no records"),
    ],
    ids=lambda case: case.id,
)
def test_a_record_that_is_not_there_is_said(case: Missing) -> None:
    run = machine(COUNTS).start()
    for _ in range(case.steps):
        run.step()
    with pytest.raises(UnknownRunError, match=f"there is no record {case.seq or 0}") as refused:
        run.why(case.seq)
    assert case.hint in refused.value.hint


def test_a_removed_run_leaves_its_id_but_not_its_answers() -> None:
    made, journal = machine(COUNTS), MemoryJournal()
    for n in (0, 300):
        run = made.start(journal=journal, run_id="r", vars={"n": n})
        for _ in range(300):
            run.step()
        assert f" {n + 101} " in str(run.why(201)), str(run.why(201))
        by_hand(journal.remove(["r"]))


# the event loop ---------------------------------------------------------------------------------


def journals(tmp_path: Path) -> dict[str, Any]:
    file = SqliteJournal(tmp_path / "journal.db")
    return {"file": file, "grouped": file.grouped}


def test_opened_and_asked_in_a_loop_another_thread_reads(
    counted: tuple[Machine, Watched, Run],
) -> None:
    made, journal, _ = counted

    async def ask() -> int:
        journal.threads()
        run = await made.aopen("r", journal=journal)
        await run.awhy(3)
        assert (run.status, run.facts.vars["n"]) == ("completed", 600)
        return threading.get_ident()

    loop = asyncio.run(ask())
    others = journal.threads()
    assert others
    assert loop not in others


@pytest.mark.parametrize("which", ["file", "grouped"])
def test_a_run_in_a_file_is_opened_asked_and_driven_on(tmp_path: Path, which: str) -> None:
    journal: Journal = journals(tmp_path)[which]
    made = machine(COUNTS)

    async def go() -> None:
        run = made.start(journal=journal, run_id="r")
        for _ in range(3):
            await run.astep()
        again = await made.aopen("r", journal=journal)
        assert again.session.journal.name == journal.name
        assert (await again.awhy(1)).to_dict() == (await run.awhy(1)).to_dict()
        assert again.why(1).to_dict() == run.why(1).to_dict()
        await again.astep()
        assert [r.seq for r in await again.arecords()] == [0, 1, 2, 3, 4]
        with pytest.raises(UnknownRunError, match="there is no run `no`"):
            await made.aopen("no", journal=journal)

    asyncio.run(go())


def test_a_certificate_is_proved_in_another_thread(tmp_path: Path) -> None:
    journal: Journal = journals(tmp_path)["grouped"]
    proved: list[int] = []

    def certify() -> str:
        proved.append(threading.get_ident())
        return "{}"

    async def go() -> int:
        run = machine(COUNTS).start(journal=journal)
        session = run.session
        assert session.begun is not None
        text = run.machine.chart.text
        session.spec_text, session.certify = lambda: text, certify
        await run.astep()
        assert await run.acertificate() == {}
        return threading.get_ident()

    loop = asyncio.run(go())
    assert proved
    assert loop not in proved
