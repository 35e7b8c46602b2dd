"""What a journal in PostgreSQL keeps when connections, transactions and the server itself break."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chartloop.core.errors import JournalLocked
from chartloop.run.journal import InboxMessage, RunRow, Snapshot, WholeRun, digest
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand
from chartloop.testing.journal_suite.desk import intent, step
from tests.cli.shell import until
from tests.durable.links import Proxy
from tests.postgres import NEEDED, Cluster

if TYPE_CHECKING:
    from chartloop.adapters.journal.postgres import PostgresJournal

pytestmark = [*NEEDED]
FAR = Driver("far", "chartloop run", Process("another-box", 7, "elsewhere", "1"))


def opened(url: str, **options: Any) -> PostgresJournal:
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415  an extra

    return PostgresJournal(url, redactor=None, **options)


@pytest.fixture
def proxy(postgres: Cluster) -> Generator[Proxy]:
    before = Proxy(postgres)
    yield before
    before.end()


@contextmanager
def journal_at(url: str, **options: Any) -> Generator[PostgresJournal]:
    journal = opened(url, **options)
    try:
        yield journal
    finally:
        by_hand(journal.close())


def asked(key: str, run_id: str) -> StoredRequest:
    return StoredRequest(key, run_id, "run", "d", 1.0, {})


Call = Callable[["PostgresJournal"], Coroutine[Any, Any, Any]]
WRITES: dict[str, tuple[Call, Any]] = {
    "create": (lambda j: j.create(RunRow("n")), None),
    "whole": (lambda j: j.create_whole([WholeRun(RunRow("n"), [step(0)])]), None),
    "append": (lambda j: j.append("r", 0, 1, [intent(0)]), 1),
    "send": (lambda j: j.send("r", InboxMessage("m", 1.0, {})), True),
    "fork": (lambda j: j.fork("r", 0, RunRow("n")), 0),
    "remove": (lambda j: j.remove(["other"]), 1),
    "release": (lambda j: j.release("r", FAR), None),
    "renew": (lambda j: j.renew("r", FAR), True),
    "place": (lambda j: j.place_request(asked("n", "other")), asked("n", "other")),
    "withdraw": (lambda j: j.withdraw_request("k"), None),
    "settle": (lambda j: j.settle_request("k", {}, 1), True),
    "blob": (lambda j: j.put_blob("x"), digest("x")),
    "snapshot": (lambda j: j.put_snapshot("r", Snapshot(0, 0, {})), None),
}
"""Each way to write, and what it returns."""


@pytest.mark.parametrize("lose", ["asked", "answer"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_whose_connection_is_lost_at_its_commit_has_the_same_outcome(
    postgres: Cluster, proxy: Proxy, tmp_path: Path, write: str, lose: str
) -> None:
    url = postgres.of(tmp_path)
    with journal_at(proxy.leads_to(url)) as journal:
        for run_id in ("r", "other"):
            by_hand(journal.create(RunRow(run_id)))
        by_hand(journal.acquire("r"))
        by_hand(journal.place_request(asked("k", "r")))
        if write in ("release", "renew"):
            by_hand(journal.acquire("r", FAR))
        call, expected = WRITES[write]
        proxy.lose = lose
        assert by_hand(call(journal)) == expected
        assert proxy.lost == 1


def test_what_was_acknowledged_outlives_the_server_and_its_clients_go_on(tmp_path: Path) -> None:
    """Ended with its memory, three times, while two clients append to runs of their own."""
    server = Cluster()
    heads = {"a": 0, "b": 0}
    try:
        with journal_at(server.of(tmp_path)) as one, journal_at(server.of(tmp_path)) as two:
            ending = threading.Event()

            def beyond(run_id: str, head: int) -> bool:
                return heads[run_id] > head

            def write(journal: PostgresJournal, run_id: str) -> None:
                by_hand(journal.create(RunRow(run_id)))
                while not ending.is_set():
                    head = heads[run_id]
                    heads[run_id] = by_hand(journal.append(run_id, head, 0, [step(head)]))

            with ThreadPoolExecutor(2) as threads:
                writing = [threads.submit(write, one, "a"), threads.submit(write, two, "b")]
                for _ in range(3):
                    for run_id, head in [*heads.items()]:
                        until(partial(beyond, run_id, head + 5))
                    server.stop("immediate")
                    server.start()
                ending.set()
                for each in writing:
                    each.result()
            for run_id, head in heads.items():
                events = by_hand(one.events(run_id))
                assert [event.seq for event in events] == list(range(head))
                chain = by_hand(one.chain(run_id))
                assert chain is not None
                assert chain.first_fault() == ""
            cursors = [event.cursor for event in by_hand(one.tail(limit=100_000)).events]
            assert len({*cursors}) == sum(heads.values())
    finally:
        server.end()


def test_a_server_that_stays_away_is_waited_for_so_long(tmp_path: Path) -> None:
    server = Cluster()
    try:
        with journal_at(server.of(tmp_path), wait=0.2) as journal:
            by_hand(journal.create(RunRow("r")))
            server.stop("fast")
            with pytest.raises(JournalLocked, match="cannot be reached") as caught:
                by_hand(journal.append("r", 0, 0, [step(0)]))
            assert "start the server" in caught.value.hint
            server.start()
            assert by_hand(journal.append("r", 0, 0, [step(0)])) == 1
    finally:
        server.end()


def test_what_another_client_writes_is_news(postgres: Cluster, tmp_path: Path) -> None:
    with journal_at(postgres.of(tmp_path)) as one, journal_at(postgres.of(tmp_path)) as two:
        token = by_hand(one.changed())
        assert token is not None
        assert by_hand(one.changed(token)) is None
        by_hand(two.create(RunRow("r")))
        until(lambda: by_hand(one.changed(token)))
