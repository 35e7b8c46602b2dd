"""Files of older and newer versions of the journal."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS, Connection, Migration
from chartloop.core.errors import JournalError, JournalTooNew, JournalTooOld
from chartloop.core.outcome import Outcome
from chartloop.core.records import Input, Record
from chartloop.run.journal import Event, InboxMessage, Snapshot, digest
from chartloop.run.journal_records import OpenQuestion
from chartloop.run.sync import by_hand

VERSION_1 = """
CREATE TABLE schema_version (number INTEGER PRIMARY KEY, title TEXT NOT NULL);
INSERT INTO schema_version VALUES(1,'the tables of version 0.1.0');
CREATE TABLE journal (id TEXT NOT NULL);
INSERT INTO journal VALUES('0a1b2c3d');
CREATE TABLE run (
    run_id TEXT PRIMARY KEY, machine TEXT NOT NULL, machine_hash TEXT NOT NULL,
    epoch INTEGER NOT NULL, head INTEGER NOT NULL, status TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, steps INTEGER NOT NULL, wake_at REAL,
    agent TEXT NOT NULL, session TEXT NOT NULL, parent TEXT NOT NULL,
    fork_seq INTEGER, moved_to TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 5,
    created REAL NOT NULL, updated REAL NOT NULL, question, tokens INTEGER, cost REAL,
    origin BLOB NOT NULL, chain BLOB NOT NULL,
    tenant TEXT GENERATED ALWAYS AS (
        CASE WHEN instr(run_id, ':') BETWEEN 1 AND instr(run_id || '/', '/')
        THEN substr(run_id, 1, instr(run_id, ':') - 1) ELSE '' END
    ) VIRTUAL
);
INSERT INTO run VALUES('old','agent','0bb5c22e9fc424f342b3391a0111542348044d2c7a949aba56212a6c25f8efe1',2,3,'paused','ask','',1,99.5,'me','','',NULL,'',5,1.0,3.0,'{"wait":"1","text":"Ship it?","answers":{"yes":{}},"run":"old","state":"ask"}',12,0.5,X'0000000000000000000000000000000000000000000000000000000000000000',X'8653f8994ad451de1fef70db85e47f55cddc4eb003fa8516a56048210acfcbec');
CREATE INDEX run_created ON run (created);
CREATE INDEX run_agent ON run (agent, created);
CREATE INDEX run_session ON run (session, created);
CREATE INDEX run_machine ON run (machine, created);
CREATE INDEX run_status ON run (status, created);
CREATE INDEX run_reason ON run (reason, created) WHERE reason != '';
CREATE INDEX run_parent ON run (parent, created) WHERE parent != '';
CREATE INDEX run_tenant ON run (tenant, created) WHERE tenant != '';
CREATE INDEX run_waiting ON run (created) WHERE question IS NOT NULL;
CREATE TABLE event (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL,
    epoch INTEGER NOT NULL, type TEXT NOT NULL, record INTEGER, at REAL NOT NULL,
    digest BLOB, data NOT NULL, UNIQUE (run_id, seq)
);
INSERT INTO event VALUES(1,'old',0,1,'record',0,1.0,X'9adef5ee48f85580f3cdf99c571185ecd7a62c968f1afc24bf2ef73fd68d0310','{"kind":"start","state":"","at":1.0,"data":{"task":"x"},"next":"think","status":"running"}');
INSERT INTO event VALUES(2,'old',1,2,'intent',NULL,2.0,NULL,'{"key":"old/1","state":"think"}');
INSERT INTO event VALUES(3,'old',2,2,'record',1,3.0,X'8653f8994ad451de1fef70db85e47f55cddc4eb003fa8516a56048210acfcbec','{"kind":"step","state":"think","at":3.0,"started":2.0,"outcome":{"result":{"$blob":"f0e1510f1d4697741ef5b447f7ca34d0429e83f16e2ba9a79759c476d727a529"}},"next":"ask","status":"paused","wake_at":99.5}');
CREATE INDEX event_record ON event (run_id, record) WHERE record IS NOT NULL;
CREATE TABLE inbox (
    number INTEGER PRIMARY KEY, run_id TEXT NOT NULL, msg_id TEXT NOT NULL,
    at REAL NOT NULL, data NOT NULL, seq INTEGER, UNIQUE (run_id, msg_id)
);
INSERT INTO inbox VALUES(1,'old','m1',2.5,'{"kind":"pause"}',2);
INSERT INTO inbox VALUES(2,'old','m2',3.5,'{"kind":"answer"}',NULL);
CREATE INDEX inbox_open ON inbox (run_id) WHERE seq IS NULL;
CREATE TABLE blob (hash TEXT PRIMARY KEY, data NOT NULL, kept INTEGER NOT NULL);
INSERT INTO blob VALUES('f0e1510f1d4697741ef5b447f7ca34d0429e83f16e2ba9a79759c476d727a529','a large text',0);
INSERT INTO blob VALUES('0bb5c22e9fc424f342b3391a0111542348044d2c7a949aba56212a6c25f8efe1','the machine',1);
CREATE TABLE event_blob (
    run_id TEXT NOT NULL, seq INTEGER NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (run_id, seq, hash)
) WITHOUT ROWID;
INSERT INTO event_blob VALUES('old',2,'f0e1510f1d4697741ef5b447f7ca34d0429e83f16e2ba9a79759c476d727a529');
CREATE INDEX event_blob_hash ON event_blob (hash);
CREATE TABLE snapshot (
    run_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, record_seq INTEGER NOT NULL,
    data NOT NULL
);
INSERT INTO snapshot VALUES('old',3,2,'9fa9c95fe7a9e7ba360a9c4708576717d15ed434e8a2bfc97d7aa100db2ec920 {"position":{}}');
CREATE TABLE lease (
    run_id TEXT PRIMARY KEY, token TEXT NOT NULL, face TEXT NOT NULL,
    host TEXT NOT NULL, pid INTEGER NOT NULL, place TEXT NOT NULL, born TEXT NOT NULL,
    since REAL NOT NULL, renewed REAL NOT NULL, until REAL NOT NULL
);
CREATE TABLE request (
    key TEXT PRIMARY KEY, run_id TEXT NOT NULL, kind TEXT NOT NULL,
    digest TEXT NOT NULL, at REAL NOT NULL, data NOT NULL, outcome,
    needs TEXT NOT NULL DEFAULT '', due REAL, wakes INTEGER NOT NULL DEFAULT 0,
    worker TEXT, since REAL, events INTEGER, lapses TEXT NOT NULL DEFAULT '[]',
    parked INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 5,
    share TEXT NOT NULL DEFAULT '', turn INTEGER
);
CREATE INDEX request_run ON request (run_id);
CREATE INDEX request_open ON request (run_id) WHERE outcome IS NULL;
CREATE INDEX request_due ON request (due) WHERE outcome IS NULL AND worker IS NULL;
CREATE INDEX request_later ON request (due)
WHERE outcome IS NULL AND worker IS NULL AND turn IS NULL;
CREATE INDEX request_turn ON request (priority, turn, due)
WHERE outcome IS NULL AND worker IS NULL AND turn IS NOT NULL;
CREATE INDEX request_share ON request (priority, share, turn)
WHERE outcome IS NULL AND worker IS NULL AND turn IS NOT NULL;
CREATE INDEX request_held ON request (worker) WHERE outcome IS NULL AND worker IS NOT NULL;
CREATE INDEX request_parked ON request (run_id) WHERE outcome IS NULL AND parked;
CREATE TABLE worker (
    id TEXT PRIMARY KEY, face TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
    place TEXT NOT NULL, born TEXT NOT NULL, until REAL NOT NULL, room INTEGER NOT NULL,
    lacks TEXT NOT NULL
);
CREATE TABLE cron (
    name TEXT PRIMARY KEY, version INTEGER NOT NULL, due REAL, data NOT NULL
);
CREATE TABLE quota (
    scope TEXT NOT NULL, what TEXT NOT NULL, per TEXT NOT NULL, most REAL NOT NULL,
    used REAL NOT NULL, held REAL NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (scope, what, per)
);
CREATE TABLE reservation (
    run_id TEXT NOT NULL, head INTEGER NOT NULL, key TEXT NOT NULL, scope TEXT NOT NULL,
    what TEXT NOT NULL, per TEXT NOT NULL, amount REAL NOT NULL,
    doubt INTEGER NOT NULL, PRIMARY KEY (run_id, head, key, scope, what, per)
);
PRAGMA journal_mode = WAL;
"""
"""A file as version 1 left it. Later versions must read it; it is never edited."""


def rename_agents(database: Connection) -> None:
    database.execute("UPDATE run SET agent = 'agent ' || agent")


def fail(database: Connection) -> None:
    database.execute("CREATE TABLE half_done (x)")
    database.execute("this is not SQL")


NEXT = (
    *MIGRATIONS,
    Migration(len(MIGRATIONS) + 1, "statements", ["ALTER TABLE run ADD COLUMN note TEXT", "CREATE TABLE more (x)"]),
    Migration(len(MIGRATIONS) + 2, "a function", rename_agents),
)  # fmt: skip


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    database = sqlite3.connect(path)
    database.executescript(VERSION_1)
    database.close()
    return path


def schema(path: Path) -> dict[str, str]:
    database = sqlite3.connect(path)
    found = database.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL").fetchall()
    database.close()
    return {name: " ".join(sql.split()) for name, sql in found}


def dump(path: Path) -> list[str]:
    database = sqlite3.connect(path)
    lines = [*database.iterdump()]
    database.close()
    return lines


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [migration.number for migration in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


def test_the_first_migration_still_makes_the_tables_that_it_made(old: Path) -> None:
    new = old.with_name("new.db")
    by_hand(SqliteJournal(new, migrations=MIGRATIONS[:1]).close())
    assert schema(new) == schema(old)


MACHINE = digest("the machine")


@pytest.mark.parametrize("migrations", [MIGRATIONS, NEXT], ids=["today", "later"])
def test_a_file_of_version_1_is_read(old: Path, migrations: tuple[Migration, ...]) -> None:
    journal = SqliteJournal(old, migrations=migrations)
    row = by_hand(journal.row("old"))
    assert row is not None
    assert row.to_tuple()[:12] == (
        "old",
        "agent",
        MACHINE,
        2,
        3,
        "paused",
        "ask",
        "",
        1,
        99.5,
        "me" if migrations is MIGRATIONS else "agent me",
        "",
    )
    assert row.to_tuple()[15:] == (
        "", 5, 1.0, 3.0, "", "", "", "", OpenQuestion("1", "Ship it?", {"yes": {}}, "old", "ask"), 12,
        0.5, "", None,
    )  # fmt: skip
    assert by_hand(journal.events("old")) == [
        Event(0, "record", 1.0, Record(0, "", Input("start", at=1.0, started=1.0, data={"task": "x"}), next="think", status="running"), {}, 1),
        Event(1, "intent", 2.0, None, {"key": "old/1", "state": "think"}, 2),
        Event(2, "record", 3.0, Record(1, "think", Input("step", "", Outcome(result="a large text"), 2.0, 3.0), next="ask", status="paused", wake_at=99.5), {}, 2),
    ]  # fmt: skip
    assert by_hand(journal.inbox("old")) == [InboxMessage("m2", 3.5, {"kind": "answer"})]
    assert by_hand(journal.snapshot("old")) == Snapshot(3, 2, {"position": {}})
    assert by_hand(journal.blob(MACHINE)) == "the machine"
    assert by_hand(journal.append("old", 3, 2, [Event(3, "intent", 4.0, None, {"key": "x"})])) == 4
    by_hand(journal.close())


def test_migrations_run_once(old: Path) -> None:
    for _ in range(2):
        by_hand(SqliteJournal(old, migrations=NEXT).close())
    database = sqlite3.connect(old)
    titles = [title for (title,) in database.execute("SELECT title FROM schema_version")]
    assert titles == [migration.title for migration in NEXT]
    assert database.execute("SELECT agent, note FROM run").fetchall() == [("agent me", None)]
    database.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(old: Path) -> None:
    before = schema(old), old.read_bytes()
    failing = (*NEXT, Migration(len(NEXT) + 1, "fails", fail))
    with pytest.raises(JournalError, match="syntax error"):
        SqliteJournal(old, migrations=failing)
    assert (schema(old), old.read_bytes()) == before


def test_a_newer_file_is_refused_and_stays_as_it_is(old: Path) -> None:
    by_hand(SqliteJournal(old, migrations=NEXT).close())
    before, beside = old.read_bytes(), {file.name for file in old.parent.iterdir()}
    with pytest.raises(JournalTooNew, match="newer version of chartloop") as refused:
        SqliteJournal(old)
    assert "update chartloop" in refused.value.hint
    assert {file.name for file in old.parent.iterdir()} == beside
    assert beside == {old.name, f"{old.name}.version-1"}
    assert old.read_bytes() == before


def test_an_older_file_is_copied_before_it_is_changed(old: Path) -> None:
    before, rows = schema(old), dump(old)
    by_hand(SqliteJournal(old, migrations=NEXT).close())
    kept = old.with_name("journal.db.version-1")
    assert (schema(kept), dump(kept)) == (before, rows)
    assert schema(old) != before
    by_hand(SqliteJournal(kept, migrations=NEXT).close())  # it opens as the other did


@pytest.mark.parametrize("newest", [1, 5])
def test_a_file_from_before_the_first_release_is_refused_and_stays_as_it_is(
    old: Path, newest: int
) -> None:
    with closing(sqlite3.connect(old)) as database:
        database.execute("UPDATE schema_version SET title = 'the first tables'")
        for number in range(2, newest + 1):
            database.execute("INSERT INTO schema_version VALUES (?, 'more')", (number,))
        database.commit()
    before, beside = old.read_bytes(), {file.name for file in old.parent.iterdir()}
    with pytest.raises(JournalTooOld, match="written before the first release") as refused:
        SqliteJournal(old)
    assert str(old) in refused.value.message
    assert "name another file" in refused.value.hint
    assert (old.read_bytes(), {file.name for file in old.parent.iterdir()}) == (before, beside)


def test_a_new_file_has_no_copy(tmp_path: Path) -> None:
    for _ in range(2):
        by_hand(SqliteJournal(tmp_path / "journal.db").close())
    assert [file.name for file in tmp_path.iterdir()] == ["journal.db"]
