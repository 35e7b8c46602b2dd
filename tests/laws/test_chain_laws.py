"""Laws of the hash chain: whatever is changed in a stored run is found, and its place is named."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Run, load
from chartloop.core.outcome import Outcome
from chartloop.core.records import Input, Record
from chartloop.run.chain import SIZE, Chain
from chartloop.run.copies import PART, lines_of, read_tree
from chartloop.run.journal import Event, Journal, RunRow
from chartloop.run.payload import LARGE
from chartloop.run.recorded import RecordedRun, Unread, check_chain, read_export
from chartloop.run.sync import by_hand
from chartloop.testing import CrashAt, Crashed, ManualClock
from tests.effort import examples
from tests.laws.test_journal_laws import FAST, RECORDS

MACHINE = """\
chartloop: 1
machine: shop
machines:
  clerk:
    states:
      look: {do: infer, next: sure}
      sure: {ask: Sure?, on: {yes: z}}
      z: {stop: completed}
states:
  think: {do: infer, next: serve}
  serve: {do: run_machine, with: {machine: clerk}, next: done}
  done: {stop: completed}
"""
NEW = MACHINE.replace("serve", "attend") + "renamed: {serve: attend}\n"
SAID = ["Well.", "Here."]


def event(seq: int, number: int | None) -> Event:
    """An event of the run that is changed; the second record has a large payload."""
    if number is None:
        return Event(seq, "intent", 10.0 + seq, None, {"key": f"r/{seq}", "state": "é"})
    outcome = Outcome(result="é" * (LARGE + number) if number == 1 else {"n": number})
    given = Input("step", "", outcome, 10.0 + seq, 11.25 + seq)
    return Event(seq, "record", 11.25 + seq, Record(number, "a", given, next="b", status="running"))


NUMBERS = (0, None, None, 1, None, 2, 3, None)
"""The records of the events of the changed run; None for a note."""


@pytest.fixture(scope="module")
def written() -> Iterator[Path]:
    """A journal with a run to be changed, a run that has it as its parent, and a fork."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        path = Path(folder) / "written.db"
        journal = SqliteJournal(path)
        by_hand(journal.create(RunRow("r")))
        epoch = by_hand(journal.acquire("r"))[0].epoch
        for seq, number in enumerate(NUMBERS):
            by_hand(journal.append("r", seq, epoch, [event(seq, number)]))
        by_hand(journal.create(RunRow("child", parent="r")))
        by_hand(journal.fork("r", 2, RunRow("fork")))
        by_hand(journal.close())
        yield path


def faults(path: Path) -> dict[str, str]:
    """The fault of each run of a journal, by its id."""
    journal = SqliteJournal(path)
    rows = by_hand(journal.rows())
    found = {row.run_id: by_hand(check_chain(journal, row.run_id)) for row in rows}
    by_hand(journal.close())
    return {run: "?" if checked is None else checked.fault for run, checked in found.items()}


EVENTS = st.integers(0, len(NUMBERS) - 1)
BYTES = st.tuples(st.integers(0, 10**6), st.integers(1, 255))
"""A byte of a text, modulo its length, and what is changed in it."""


def flipped(data: bytes, change: tuple[int, int]) -> bytes:
    at = change[0] % len(data)
    return data[:at] + bytes([data[at] ^ change[1]]) + data[at + 1 :]


CHANGES = st.one_of(
    st.tuples(st.sampled_from(["data", "type", "digest"]), EVENTS, BYTES),
    st.tuples(st.just("at"), EVENTS, st.floats(0, 1e15)),
    st.tuples(st.just("seq"), EVENTS, st.integers(-1, 9)),
    st.tuples(st.just("record"), st.sampled_from([0, 3, 5, 6]), st.integers(-1, 9) | st.none()),
    st.tuples(st.sampled_from(["payload", "no-payload"]), st.just(3), BYTES),
    st.tuples(st.just("removed"), EVENTS, st.none()),
    st.tuples(st.just("swapped"), EVENTS, EVENTS),
    st.tuples(st.just("cut-off"), EVENTS, st.booleans()),
    st.tuples(st.sampled_from(["chain", "origin"]), st.just(0), BYTES),
)


def place(numbers: Sequence[int | None], at: int) -> str:
    """What the fault says of event `at`: the record whose digest it is under."""
    following = next((n for n in numbers[at:] if n is not None), None)
    return "its end was changed" if following is None else f"record {following} or a note"


def edit_row(db: sqlite3.Connection, what: str, _: int, how: tuple[int, int]) -> set[str]:
    [data] = db.execute(f"SELECT {what} FROM run WHERE run_id = 'r'").fetchone()  # noqa: S608
    db.execute(f"UPDATE run SET {what} = ? WHERE run_id = 'r'", (flipped(data, how),))  # noqa: S608
    return {"its end was changed" if what == "chain" else "record 0 or"}


def edit_payload(db: sqlite3.Connection, what: str, _: int, how: tuple[int, int]) -> set[str]:
    [data] = db.execute("SELECT data FROM blob").fetchone()
    if what == "no-payload":
        db.execute("DELETE FROM blob")
    else:
        db.execute("UPDATE blob SET data = CAST(? AS TEXT)", (flipped(data.encode(), how),))
    return {"event 3: "}


def cut_off(db: sqlite3.Connection, _: str, at: int, row_too: bool) -> set[str]:
    db.execute("DELETE FROM event WHERE run_id = 'r' AND seq >= ?", (at,))
    if row_too:
        db.execute("UPDATE run SET head = ? WHERE run_id = 'r'", (at,))
        return {"its end was changed"}
    return {f"its end is missing: {at} of 8 events are there"}


def remove(db: sqlite3.Connection, _: str, at: int, how: None) -> set[str]:
    db.execute("DELETE FROM event WHERE run_id = 'r' AND seq = ?", (at,))
    return {"its end is missing" if at == len(NUMBERS) - 1 else f"event {at} is missing"}


def swap(db: sqlite3.Connection, _: str, at: int, other: int) -> set[str]:
    first, second = sorted((at, other))
    if first == second:
        return set()
    for old, new in ((first, -7), (second, first), (-7, second)):
        db.execute("UPDATE event SET seq = ? WHERE run_id = 'r' AND seq = ?", (new, old))
    order = [*NUMBERS]
    order[first], order[second] = order[second], order[first]
    return {place(order, first)}


def edit_event(db: sqlite3.Connection, what: str, at: int, how: Any) -> set[str]:
    sql = f"SELECT {what} FROM event WHERE run_id = 'r' AND seq = ?"  # noqa: S608
    [before] = db.execute(sql, (at,)).fetchone()
    value: Any = how
    cast = "?"
    if what in ("data", "type"):
        value, cast = flipped(before.encode(), how), "CAST(? AS TEXT)"
    elif what == "digest":
        value = flipped(before or bytes(SIZE), how)
    sql = f"UPDATE OR IGNORE event SET {what} = {cast} WHERE run_id = 'r' AND seq = ?"  # noqa: S608
    if value == before or (what == "seq" and value in range(len(NUMBERS))):
        return set()  # the same, or a number that is taken
    db.execute(sql, (value, at))
    if what == "seq":
        return {f"event {min(at, max(value, 0))} is missing", "its end is missing", "event 7 is"}
    if what == "record":
        return {place([*NUMBERS[:at], value, *NUMBERS[at + 1 :]], at), f"event {at} "}
    return {place(NUMBERS, at), f"event {at} "}


EDITS: dict[str, Callable[..., set[str]]] = {
    **dict.fromkeys(("chain", "origin"), edit_row),
    **dict.fromkeys(("payload", "no-payload"), edit_payload),
    "cut-off": cut_off, "removed": remove, "swapped": swap,
}  # fmt: skip
"""Changes by hand. Each returns how its fault may begin; nothing if it changed nothing."""


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(max_examples=examples(200))
@given(given=CHANGES)
def test_what_is_changed_in_a_run_is_found_and_named(written: Path, given: Any) -> None:
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        path = Path(folder) / "journal.db"
        shutil.copy(written, path)
        with closing(sqlite3.connect(path)) as db, db:
            named = EDITS.get(given[0], edit_event)(db, *given)
        found = faults(path)
    if not named:
        assert found == {"r": "", "child": "", "fork": ""}
        return
    assert any(found["r"].startswith(name) for name in named), (found, named)
    assert found["child"] in ("", "it does not begin with a record of its parent")
    # a fork has copies of the events, and the same payload
    assert bool(found["fork"]) == ("payload" in given[0])


# -- what is not changed ---------------------------------------------------------------------------


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(records=st.lists(RECORDS, min_size=1, max_size=3), notes=st.integers(0, 2))
def test_what_is_exported_is_read_back_with_its_chain(records: list[Record], notes: int) -> None:
    """Any record at all: large texts, keys that look like ours, and lone surrogates too."""
    kinds = ("start", *["step"] * 2)
    run = [
        record.replace(seq=seq, input=record.input.replace(kind=kind))
        for seq, (record, kind) in enumerate(zip(records, kinds, strict=False))
    ]
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        journal = SqliteJournal(Path(folder) / "journal.db", redactor=None)
        by_hand(journal.create(RunRow("r")))
        epoch, head = by_hand(journal.acquire("r"))[0].epoch, 0
        for record in run:
            events = [Event(head, "record", 3.25, record)]
            events += [event(head + 1 + n, None) for n in range(notes)]
            head = by_hand(journal.append("r", head, epoch, events))
        checked = by_hand(check_chain(journal, "r"))
        assert checked is not None
        assert checked.fault == ""
        lines = exported(journal, "r")
        by_hand(journal.close())
    assert "digest" in json.loads(lines[1])
    for text in (lines, map(to_ascii, lines)):
        [read] = read_export("\n".join(text), "r.jsonl")
        # a record may hold anything here, so the run may be refused, but not for its chain
        assert "r.jsonl" not in read.why if isinstance(read, Unread) else list(read.records) == run


def exported(journal: Journal, run_id: str) -> list[str]:
    """The lines of a run, without its children, in a file of `journal export`."""
    run, *_ = by_hand(read_tree(journal, run_id))
    return list(lines_of(run))


def to_ascii(line: str) -> str:
    """A line as a terminal gets it that has nothing but ASCII."""
    return re.sub(r"[^\x00-\x7e]", lambda found: json.dumps(found[0])[1:-1], line)


def begun(journal: Journal, run_id: str = "r") -> Run:
    return load(MACHINE).start(
        "t", script=SAID, journal=journal, clock=ManualClock(), run_id=run_id
    )


@pytest.mark.parametrize("before", [True, False])
def test_a_run_that_was_killed_at_a_write_has_its_chain_and_goes_on(
    before: bool, tmp_path: Path
) -> None:
    killed = 0
    for write in range(1, 99):
        journal = SqliteJournal(tmp_path / f"{write}.db")
        try:
            begun(CrashAt(journal, write, before=before)).run()
        except Crashed:
            killed += 1
            assert not any(faults(journal.path).values())
        if by_hand(journal.row("r")) is not None and by_hand(journal.records("r")):
            run = load(MACHINE).open(
                "r", journal=journal, script=SAID, clock=ManualClock(ManualClock().now() + 500)
            )
            assert run.run().status == "paused"
            assert run.replay().chain == by_hand(check_chain(journal, "r"))
        assert not any(faults(journal.path).values())
        by_hand(journal.close())
        if killed < write:
            break
    assert killed > 9


def test_forks_children_continuations_and_moved_runs_have_their_chains(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    run = begun(journal)
    run.run()
    run.fork(2, run_id="fork").run()
    moved = load(NEW).open("r", journal=journal, script=SAID, clock=ManualClock())
    moved.send("yes")
    assert moved.run().reason == "completed"
    after = load(NEW).start("u", continues=moved, script=SAID, clock=ManualClock(), run_id="after")
    after.run()
    forked_under = load(NEW).open("fork", journal=journal, script=SAID, clock=ManualClock()).fork(2)
    found = faults(journal.path)
    assert {"r", "fork", "after", moved.id, forked_under.id} < set(found)
    assert len(found) > 8
    assert not any(found.values())

    def chain(run_id: str) -> Chain:
        read = by_hand(journal.chain(run_id))
        assert read is not None
        return read

    def digests(run_id: str) -> list[bytes | None]:
        return [link.digest for link in chain(run_id).links if link.digest is not None]

    assert chain(moved.id).origin == digests("r")[-1]
    assert chain("after").origin == digests(moved.id)[-1]
    assert digests("fork")[:2] == digests("r")[:2]
    child = next(run for run in found if run.startswith("after/"))
    assert chain(child).origin in digests("after")
    by_hand(journal.remove(["r", moved.id]))  # what they began with stands
    assert not any(faults(journal.path).values())
    by_hand(journal.close())


def test_what_is_changed_in_an_export_is_found_and_named(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    begun(journal).run()
    lines = [line for line in exported(journal, "r") if not line.startswith(PART)]
    by_hand(journal.close())
    [whole] = read_export("\n".join(lines), "r.jsonl")
    assert isinstance(whole, RecordedRun)
    for at in range(1, len(lines)):
        line = lines[at]
        for old, new in (('"state":"', '"state":"x'), ('"number":', '"number":1'),
                         ('"written":', '"written":1'), ('"notes":"', '"notes":"00')):  # fmt: skip
            changed = [*lines[:at], line.replace(old, new, 1), *lines[at + 1 :]]
            assert changed != lines
            [read] = read_export("\n".join(changed), "r.jsonl")
            assert isinstance(read, Unread)
            assert f"r.jsonl:{at + 1}: record {at - 1} was changed" in read.why
    [cut] = read_export("\n".join(lines[:-1]), "r.jsonl")
    assert isinstance(cut, Unread)
    assert "its end is missing" in cut.why
    bare = [
        re.sub(r'"(notes|digest|origin|chain)": ?"[0-9a-f]*",?', "", line) for line in lines[1:]
    ]
    [read] = read_export("\n".join([lines[0], *bare]), "r.jsonl")
    assert isinstance(read, Unread)
