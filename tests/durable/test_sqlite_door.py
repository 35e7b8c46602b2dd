"""What passes the journal's door: secrets stay outside, large texts are kept once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.outcome import Outcome, Reply
from chartloop.core.records import Input, Record
from chartloop.run.journal import Event, InboxMessage, RunRow, Snapshot, digest
from chartloop.run.payload import LARGE
from chartloop.run.redact import Redactor
from chartloop.run.sync import by_hand

SECRET = "correct-horse-battery"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def step(seq: int, **outcome: Any) -> Event:
    given = Input("step", outcome=Outcome(**outcome), started=1.0, at=1.0)
    return Event(seq, "record", 1.0, Record(seq, "think", given, next="act", status="running"))


def everything(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


def tell_secrets(journal: SqliteJournal) -> None:
    by_hand(journal.create(RunRow("r")))
    events = [
        step(0, result={"text": f"it is {SECRET}"}, reply=Reply(f"{SECRET}!" * LARGE)),
        Event(1, "result", 1.0, None, {"key": "r/1", "env": [SECRET]}),
    ]
    by_hand(journal.append("r", 0, 0, events))
    by_hand(journal.send("r", InboxMessage("m", 1.0, {"kind": "answer", "data": {"x": SECRET}})))
    by_hand(journal.put_snapshot("r", Snapshot(2, 1, {"position": {"state": "act", "v": SECRET}})))


def test_no_secret_reaches_the_file(path: Path) -> None:
    journal = SqliteJournal(path, redactor=Redactor(environ={"DB_PASSWORD": SECRET}))
    tell_secrets(journal)
    key = by_hand(journal.put_blob(f"url: {SECRET}"))
    assert SECRET.encode() not in everything(path)
    mark = "«redacted:DB_PASSWORD»"
    first, second = by_hand(journal.events("r"))
    assert first.record is not None
    assert first.record.outcome == Outcome(
        result={"text": f"it is {mark}"}, reply=Reply(f"{mark}!" * LARGE)
    )
    assert second.data == {"key": "r/1", "env": [mark]}
    assert by_hand(journal.inbox("r"))[0].data == {"kind": "answer", "data": {"x": mark}}
    assert by_hand(journal.snapshot("r")) == Snapshot(
        2, 1, {"position": {"state": "act", "v": mark}}
    )
    # a text is found by the hash of what was given, not of what was left of it
    assert key == digest(f"url: {SECRET}")
    assert by_hand(journal.blob(key)) == f"url: {mark}"
    by_hand(journal.close())
    assert SECRET.encode() not in everything(path)


def test_the_environment_is_what_is_hidden_by_default(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    journal = SqliteJournal(path)
    tell_secrets(journal)
    assert SECRET.encode() not in everything(path)
    by_hand(journal.close())


def test_without_a_redactor_everything_is_written(path: Path) -> None:
    journal = SqliteJournal(path, redactor=None)
    tell_secrets(journal)
    assert SECRET.encode() in everything(path)
    by_hand(journal.close())


def test_the_face_for_loops_has_the_same_door(path: Path) -> None:
    journal = SqliteJournal(path, redactor=Redactor([SECRET], environ={}))

    async def write() -> None:
        await journal.grouped.create(RunRow("r"))
        await journal.grouped.append("r", 0, 0, [step(0, result=SECRET)])

    asyncio.run(write())
    assert SECRET.encode() not in everything(path)
    by_hand(journal.close())


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(path)
    yield opened
    by_hand(opened.close())


def blobs(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    found = [text for (text,) in database.execute("SELECT data FROM blob ORDER BY data")]
    database.close()
    return found


def test_a_large_text_is_kept_once_and_leaves_the_event(path: Path, journal: SqliteJournal) -> None:
    text = "long " * LARGE
    event = step(
        0, result=text, reply=Reply(text), messages=({"role": "assistant", "content": text},)
    )
    for name in ("a", "b"):
        by_hand(journal.create(RunRow(name)))
        by_hand(journal.append(name, 0, 0, [event]))
        assert by_hand(journal.events(name)) == [event]
    assert blobs(path) == [text]
    database = sqlite3.connect(path)
    assert database.execute("SELECT max(length(data)) FROM event").fetchone()[0] < 600
    database.close()


def test_nobody_can_name_a_blob_from_outside(journal: SqliteJournal) -> None:
    key = by_hand(journal.put_blob("the text of another run"))
    by_hand(journal.create(RunRow("r")))
    event = step(0, result={"$blob": key}, messages=({"$blob": key, "$$blob": "x"},))
    by_hand(journal.append("r", 0, 0, [event]))
    assert by_hand(journal.events("r")) == [event]


def test_payloads_go_with_the_last_run_that_has_them(path: Path, journal: SqliteJournal) -> None:
    shared, own, late = "s" * LARGE * 2, "o" * LARGE * 2, "z" * LARGE * 2
    by_hand(journal.create(RunRow("a")))
    by_hand(journal.append("a", 0, 0, [step(0, result=shared), step(1, result=late)]))
    by_hand(journal.fork("a", 1, RunRow("fork")))
    by_hand(journal.create(RunRow("b")))
    by_hand(journal.append("b", 0, 0, [step(0, result=own)]))
    assert blobs(path) == [own, shared, late]
    by_hand(journal.remove(["b"]))
    assert blobs(path) == [shared, late]
    by_hand(journal.remove(["a"]))  # the fork was made before `late`
    assert blobs(path) == [shared]
    assert by_hand(journal.events("fork")) == [step(0, result=shared)]
    by_hand(journal.remove(["fork"]))
    assert blobs(path) == []


def test_a_step_with_a_message_of_200_bytes_takes_less_than_a_kilobyte(
    path: Path, journal: SqliteJournal
) -> None:
    """The intent of the paid call counts with it, and so do the indexes and what pages waste."""
    turns = 1_000  # beside which the pages of tables and indexes that are empty are few
    by_hand(journal.create(RunRow("r", "agent", "f" * 64)))
    head = 0
    for turn in range(turns):
        text = f"{turn:04} " + "word " * 39
        reply = Reply(text, "stop", (), False, "gpt-4o-mini")
        events = [
            Event(head, "intent", 1.7e9, None, {"key": f"r/{turn}", "state": "think"}),
            Event(head + 1, "record", 1.7e9, Record(
                turn, "think",
                Input("step", "", Outcome(result=reply, reply=reply, messages=(reply,)), 1.7e9, 1.7e9 + 1.5),
                ("think.next.0",), next="act", status="running",
            )),
        ]  # fmt: skip
        head = by_hand(journal.append("r", head, 0, events))
    by_hand(journal.close())
    assert path.stat().st_size / turns < 1024
