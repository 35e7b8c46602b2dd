"""What streams may hold: bytes queued and texts encoded are counted, never timed.

The events are large, as a model's long replies are, and readers read nothing or all.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.hosting.settings import Limits
from chartloop.run.journal import Event, Journal, MemoryJournal, RunRow
from chartloop.run.redact import Redactor
from chartloop.run.sync import by_hand
from tests.server.conftest import Serve, Served, events_in, events_of, wait_for

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

LARGE = 150_000
WRITE_BUFFER = 64 * 1024 + 64_000 + 100
"""What uvicorn lets a connection queue before it waits, one part more, and the frame of a chunk."""


def text(seq: int) -> str:
    """A text that is like no other, so that the journal keeps it once for each event."""
    return random.Random(seq).randbytes(LARGE // 2).hex()  # noqa: S311  only to be different


async def write(journal: Journal, run_id: str, seqs: Sequence[int]) -> None:
    """Write large events of a run, which begins with the first."""
    if seqs[0] == 0:
        await journal.create(RunRow(run_id, status="running"))
    row, _ = await journal.acquire(run_id)
    for seq in seqs:
        event = Event(seq, "result", 1.0, None, {"key": f"{seq}", "data": text(seq)})
        await journal.append(run_id, seq, row.epoch, [event])


class NotedRedactor(Redactor):
    """Notes which thread redacts, once for each event that is encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    def text(self, text: str) -> str:
        self.threads.append(threading.get_ident())
        return super().text(text)


@pytest.mark.parametrize("what", ["all", "run", "family"])
def test_a_page_is_encoded_once_off_the_loop_for_all_who_catch_up(what: str) -> None:
    from chartloop.hosting.server.watch import SIZE, Hub  # noqa: PLC0415

    events, readers = 24, 20

    async def scene() -> None:
        journal, redactor = MemoryJournal(), NotedRedactor()
        await write(journal, "r", range(events))
        first = (await journal.tail("", 1)).cursor
        hub = Hub(journal, Limits(), redactor)
        await hub.start()

        async def read() -> list[int]:
            watcher = hub.add("" if what == "all" else "r", family=what == "family")
            pages = hub.of_run(watcher, 0) if what == "run" else hub.of_all(watcher, first)
            heard: list[int] = []
            async for page in pages:
                assert page.size <= SIZE + LARGE + 1_000
                heard += [one.data["seq"] for one in events_of(page)]
                if heard[-1] == events - 1:
                    break
            return heard

        heard = await asyncio.gather(*(read() for _ in range(readers)))
        assert heard == [list(range(1, events))] * readers
        assert len(redactor.threads) == events - 1
        assert threading.get_ident() not in redactor.threads
        await hub.stop()

    asyncio.run(scene())


def test_readers_who_began_at_different_events_soon_share_pages() -> None:
    from chartloop.hosting.server import watch  # noqa: PLC0415

    events = 3 * watch.PAGE

    async def scene() -> None:
        journal, redactor = MemoryJournal(), NotedRedactor()
        await journal.create(RunRow("r", status="running"))
        row, _ = await journal.acquire("r")
        small = [Event(seq, "intent", 1.0, None, {"key": f"{seq}"}) for seq in range(events)]
        await journal.append("r", 0, row.epoch, small)
        hub = watch.Hub(journal, Limits(), redactor)
        await hub.start()
        for after in range(10):
            heard = after
            async for page in hub.of_run(hub.add("r"), after):
                heard += page.count
                if heard == events - 1:
                    break
        assert len(redactor.threads) <= 10 * watch.PAGE + 2 * watch.PAGE
        await hub.stop()

    asyncio.run(scene())


def test_the_streams_end_that_wait_longest_if_all_hold_too_much() -> None:
    """However large an event is, and wherever in the journal each reader stands."""
    from chartloop.hosting.server.watch import Hub, Watcher  # noqa: PLC0415

    most, readers = 1_000_000, 12

    async def scene() -> None:
        journal = MemoryJournal()
        await write(journal, "r", range(readers))
        hub = Hub(journal, Limits(queue=most))
        await hub.start()
        dropped: list[int] = []
        watchers: list[Watcher] = []
        streams: list[Any] = []
        for number in range(readers):
            watcher = hub.add("r")
            watcher.abort = lambda number=number: dropped.append(number)
            watchers.append(watcher)
            stream = hub.parts_for(watcher, hub.of_run(watcher, number - 1))
            streams.append(stream)
            assert await anext(stream) == b": open\n\n"
            await anext(stream)  # the first part: its reader takes no other
            assert hub.held <= most // 2
        kept = most // 2 // LARGE
        assert dropped == list(range(readers - kept))
        assert [one.closed for one in watchers] == [one in dropped for one in range(readers)]
        for watcher in watchers:
            hub.remove(watcher)
        assert hub.held == 0
        await hub.stop()

    asyncio.run(scene())


def test_what_comes_is_kept_in_a_bounded_number_of_bytes() -> None:
    from chartloop.hosting.server.watch import Hub  # noqa: PLC0415

    most, runs = 2_000_000, 6

    async def scene() -> None:
        journal = MemoryJournal()
        hub = Hub(journal, Limits(queue=most))
        await hub.start()
        watchers = [hub.add(), *(hub.add(f"r{number}") for number in range(runs))]
        for number in range(runs):
            await write(journal, f"r{number}", range(4))
        numbers = 4 * runs
        while watchers[0].log.end < numbers:
            await asyncio.sleep(0.01)
            assert sum(one.log.size for one in watchers) <= most // 2
        heard: list[Any] = []  # who was not quick enough has missed nothing
        async for page in hub.of_all(watchers[0], f"{(await journal.tail(limit=0)).newest[:8]}-0"):
            heard += events_of(page)
            if len(heard) == numbers:
                break
        assert [one.data["data"]["data"] for one in heard] == [text(seq) for seq in range(4)] * runs
        for watcher in watchers:
            hub.remove(watcher)
        assert hub.held == 0
        await hub.stop()

    asyncio.run(scene())


# on real connections ---------------------------------------------------------------------------------


def queued(served: Served) -> list[int]:
    """The bytes that each connection of the server holds for a reader."""
    connections = list(served.server.server_state.connections)
    return [one.transport.get_write_buffer_size() for one in connections]


def open_stream(served: Served, path: str, last: str | None) -> socket.socket:
    """A stream whose reader has taken the status line, and reads no further."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(("127.0.0.1", served.client.base_url.port))
    head = "" if last is None else f"Last-Event-ID: {last}\r\n"
    one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode())
    one.settimeout(30)
    assert one.recv(12) == b"HTTP/1.1 200"
    return one


def filled(tmp_path: Path, events: int) -> tuple[SqliteJournal, str]:
    """A journal with large events, and the id of the first."""
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(write(journal, "r", range(events)))
    return journal, by_hand(journal.tail("", 1)).cursor


@pytest.mark.parametrize("live", [False, True], ids=["catching-up", "live"])
def test_a_reader_that_takes_nothing_is_dropped_with_all_that_it_held(
    serve: Serve, tmp_path: Path, live: bool
) -> None:
    events, readers = 60, 12
    journal, first = filled(tmp_path, 1 if live else events)
    served = serve(journal=journal, workers=0, limits=Limits(silence=0.5, queue=4_000_000))
    hub = served.server.hub
    paths = ["/events", "/events?run=r", "/runs/r/events"]
    opened = [
        open_stream(served, paths[number % 3], None if live or number % 3 == 2 else first)
        for number in range(readers)
    ]
    seen: list[int] = []

    def bounded() -> bool:
        seen.extend(queued(served))
        assert max(seen) <= WRITE_BUFFER
        assert hub.held <= 2_000_000
        assert served.client.get("/readyz").status_code == 200
        return not hub.watchers

    if live:
        wait_for(lambda: len(hub.watchers) == readers)
        for seq in range(1, events):
            by_hand(write(journal, "r", [seq]))
            seen.extend(queued(served))
    wait_for(bounded)
    assert max(seen) > 0  # they were full
    wait_for(lambda: queued(served) == [0])  # the client's own connection
    assert hub.held == 0
    for one in opened:
        one.close()
    by_hand(journal.close())


def test_a_reader_that_takes_all_of_it_gets_every_byte(serve: Serve, tmp_path: Path) -> None:
    events = 40
    journal, first = filled(tmp_path, events)
    served = serve(journal=journal, workers=0)
    for path, last, begin in (
        ("/events", first, 1), ("/events?run=r", first, 1), ("/runs/r/events", None, 0),
    ):  # fmt: skip
        headers = {} if last is None else {"Last-Event-ID": last}
        with served.client.stream("GET", path, headers=headers) as answer:
            heard: list[Any] = []
            for one in events_in(answer.iter_lines()):
                heard.append(one.data["data"]["data"])
                if len(heard) == events - begin:
                    break
        assert heard == [text(seq) for seq in range(begin, events)]
    by_hand(journal.close())


def test_a_secret_is_hidden_where_a_part_ends_within_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chartloop.hosting.server.watch import PART  # noqa: PLC0415

    secret = "s3cret-of-the-environment-42"
    journal = SqliteJournal(tmp_path / "journal.db", redactor=None)
    by_hand(journal.create(RunRow("r", status="running")))
    row, _ = by_hand(journal.acquire("r"))
    data = {"key": "0", "data": "x" * (PART - 250) + f"{secret} " * 20}
    by_hand(journal.append("r", 0, row.epoch, [Event(0, "result", 1.0, None, data)]))
    monkeypatch.setenv("SOME_API_KEY", secret)
    served = serve(journal=journal, workers=0)
    with served.client.stream("GET", "/runs/r/events") as answer:
        heard = next(events_in(answer.iter_lines()))
    assert secret not in str(heard.data)
    assert "«redacted:SOME_API_KEY»" in heard.data["data"]["data"]
    by_hand(journal.close())
