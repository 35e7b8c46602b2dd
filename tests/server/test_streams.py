"""Streams of events: from the journal, in order, resumed by id, bounded for each watcher."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from chartloop.hosting.problems import Refusal
from chartloop.hosting.settings import Limits
from chartloop.run.journal import Event, MemoryJournal, RunRow
from chartloop.run.sync import by_hand
from tests.server.conftest import Heard, Serve, Served, events_in, events_of, wait_for

if TYPE_CHECKING:
    import httpx

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django


def listen(served: Served, path: str, last: str | None = None) -> list[Heard]:
    """Everything of a stream, to its end."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with served.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(events_in(answer.iter_lines()))


def stored(heard: list[Heard]) -> list[Heard]:
    return [one for one in heard if one.id]


def finished(served: Served) -> str:
    run = served.start()
    wait = served.until(run, "paused")["wait"]
    served.post(f"/runs/{run}/answer", {"event": "approve", "wait": wait})
    served.until(run, "completed")
    return run


def test_a_stream_has_every_event_in_order_and_ends_with_its_run(served: Served) -> None:
    run = finished(served)
    heard = listen(served, f"/runs/{run}/events")
    assert heard[-1].event == "end"
    kept = stored(heard)
    assert [int(one.id) for one in kept] == list(range(len(kept)))
    recorded = [one.data["record"] for one in kept if one.event == "record"]
    assert recorded == [r["seq"] for r in served.get(f"/runs/{run}/records")["records"]]


def test_a_stream_goes_on_behind_the_last_id(served: Served) -> None:
    run = finished(served)
    whole = stored(listen(served, f"/runs/{run}/events"))
    for at in (0, len(whole) // 2, len(whole) - 1):
        assert stored(listen(served, f"/runs/{run}/events", whole[at].id)) == whole[at + 1 :]


@pytest.mark.parametrize("last", ["99", "-1", "four", "9" * 40, ""])
def test_an_id_that_is_not_there_is_gone(served: Served, last: str) -> None:
    run = finished(served)
    answer = served.client.get(f"/runs/{run}/events", headers={"Last-Event-ID": last})
    assert answer.status_code == 410
    problem = answer.json()
    assert (problem["oldest"], int(problem["newest"])) == ("0", len(stored(listen(served, f"/runs/{run}/events"))) - 1)  # fmt: skip


def test_who_listens_hears_a_run_that_is_driven(served: Served) -> None:
    run = served.start(drive="none")
    heard: list[Heard] = []
    thread = threading.Thread(target=lambda: heard.extend(listen(served, f"/runs/{run}/events")))
    thread.start()
    served.post(f"/runs/{run}/run", status=202)
    wait = served.until(run, "paused")["wait"]
    served.post(f"/runs/{run}/answer", {"event": "approve", "wait": wait})
    thread.join(30)
    assert [int(one.id) for one in stored(heard)] == list(range(len(stored(heard))))
    assert heard[-1].event == "end"
    live = [one for one in heard if not one.id]
    assert "".join(one.data["text"] for one in live if one.event == "text") in ("First.", "")


def test_the_stream_of_all_runs_resumes_by_its_cursor(served: Served) -> None:
    import httpx  # noqa: PLC0415

    with closing(httpx.Client(base_url=served.client.base_url)) as other:  # a connection of its own
        with other.stream("GET", "/events", timeout=30) as answer:
            runs = {finished(served), finished(served)}
            heard: list[Heard] = []
            for one in events_in(answer.iter_lines()):
                heard += [one] if one.id else []
                ended = [e for e in heard if e.data.get("status") == "completed"]
                if len(ended) == 2:
                    break
        assert {one.data["run"] for one in heard} == runs
        for run in runs:
            seqs = [one.data["seq"] for one in heard if one.data["run"] == run]
            assert seqs == list(range(len(seqs)))
        half = len(heard) // 2
        with other.stream(
            "GET", "/events", headers={"Last-Event-ID": heard[half].id}, timeout=30
        ) as answer:
            again: list[Heard] = []
            for one in events_in(answer.iter_lines()):
                again += [one] if one.id else []
                if one.id == heard[-1].id:
                    break
        assert again == heard[half + 1 :]


def test_a_cursor_of_another_journal_is_gone(served: Served) -> None:
    finished(served)
    for last, status in (("abcdabcd-1", 410), ("no cursor", 422)):
        answer = served.client.get("/events", headers={"Last-Event-ID": last})
        assert answer.status_code == status, answer.text
        if status == 410:
            assert answer.json()["newest"].count("-") == 1


def test_there_are_as_many_streams_as_may_be_and_each_leaves_nothing(serve: Serve) -> None:
    served = serve(limits=Limits(watchers=2))
    run = served.start(drive="none")

    def watchers() -> str:
        return next(line for line in served.get("/metrics").splitlines() if line.startswith("chartloop_watchers "))  # fmt: skip

    import httpx  # noqa: PLC0415

    clients = [httpx.Client(base_url=served.client.base_url) for _ in range(2)]
    streams = [client.stream("GET", f"/runs/{run}/events") for client in clients]
    answers = [stream.__enter__() for stream in streams]
    wait_for(lambda: watchers() == "chartloop_watchers 2")
    answer = served.client.get(f"/runs/{run}/events")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    for one in answers:
        one.close()  # in mid-stream
    for client in clients:
        client.close()
    wait_for(lambda: watchers() == "chartloop_watchers 0")


@pytest.mark.slow("drives many runs while many listen")
def test_nobody_misses_an_event_while_many_runs_are_driven(serve: Serve) -> None:
    served = serve(workers=2, limits=Limits(watchers=200, rate=1e6, burst=10_000))
    base, runs, each = str(served.client.base_url), 15, 4

    async def watch(client: httpx.AsyncClient, run: str) -> list[int]:
        found: list[int] = []
        async with client.stream("GET", f"/runs/{run}/events") as answer:
            async for line in answer.aiter_lines():
                found += [int(line.removeprefix("id: "))] if line.startswith("id: ") else []
                if line == "event: end":
                    return found
        return [-1]

    async def one(client: httpx.AsyncClient) -> None:
        body = {"machine": "review", "task": "x", "drive": "none"}
        run = (await client.post("/runs", json=body)).json()["run"]
        watching = [asyncio.ensure_future(watch(client, run)) for _ in range(each)]
        await client.post(f"/runs/{run}/run", json={})
        while True:
            answer = await client.post(f"/runs/{run}/answer", json={"event": "approve"})
            if answer.status_code == 200:
                break
            assert answer.status_code == 409, answer.text
            await asyncio.sleep(0.1)
        heard = await asyncio.gather(*watching)
        assert heard == [list(range(len(heard[0])))] * each

    async def scene() -> None:
        import httpx  # noqa: PLC0415

        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=base, timeout=100, limits=limits) as client:
            await asyncio.gather(*(one(client) for _ in range(runs)))

    asyncio.run(scene())


# the hub alone: a watcher that reads nothing ---------------------------------------------------


def test_a_watcher_whose_place_has_left_the_log_reads_on_from_the_journal() -> None:
    """What the log holds is bounded; what it no longer holds is read from the journal, once more."""
    from chartloop.hosting.server.watch import Hub  # noqa: PLC0415

    journal = MemoryJournal()
    count = 50

    async def scene() -> None:
        hub = Hub(journal, Limits(queue=8_000, watchers=2))
        await hub.start()
        await journal.create(RunRow("r", status="running"))
        row, _ = await journal.acquire("r")
        slow = hub.add("r")
        stream = hub.of_run(slow, -1)
        heard: list[str] = []

        async def write(seq: int) -> None:
            event = Event(seq, "intent", 1.0, None, {"key": str(seq)})
            await journal.append("r", seq, row.epoch, [event])

        async def hear(until: int) -> None:
            while heard[-1:] != [str(until)]:
                heard.extend(one.id for one in events_of(await anext(stream)))

        await write(0)
        await hear(0)
        coming = asyncio.ensure_future(anext(stream))  # it has caught up: what comes is in the log
        await asyncio.sleep(0.1)
        await write(1)
        heard += [one.id for one in events_of(await coming)] or []
        await hear(1)
        for seq in range(2, count):
            await write(seq)
        while slow.log.end < count - 1:
            await asyncio.sleep(0.01)
            assert slow.log.size <= 4_000
        await hear(count - 1)
        assert heard == [str(seq) for seq in range(count)]
        hub.add()
        with pytest.raises(Refusal):
            [hub.add() for _ in range(3)]
        await hub.stop()
        assert [page async for page in stream if events_of(page)] == []

    asyncio.run(scene())
    by_hand(journal.close())
