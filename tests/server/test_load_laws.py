"""What a look at a run costs does not grow with the run, nor what an event costs with its watchers.

Counted, never timed: functions that are called, and what the journal is asked.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.hosting.reading import records_page
from chartloop.run.journal import Event, MemoryJournal, RunRow
from chartloop.run.redact import Redactor
from chartloop.run.sync import by_hand
from tests.effort import calls
from tests.server.conftest import Serve, Served, events_of, wait_for

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.hosting.runs import Runs
    from chartloop.hosting.server.watch import Hub

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django

TALK = """\
chartloop: 1
machine: talk
model: {name: scripted}
limits: {steps: 100_000}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  take: {do: receive, next: talk}
  talk: {do: infer, next: talk}
"""


class Read(NamedTuple):
    """A run that is driven here and read by a server's runs."""

    run: Run
    runs: Runs

    def to(self, records: int) -> None:
        while self.run.session.tally.records < records:
            self.run.step()


@pytest.fixture
def read(machines: Path, tmp_path: Path) -> Read:
    from chartloop.hosting.machines import Machines  # noqa: PLC0415
    from chartloop.hosting.runs import Runs  # noqa: PLC0415
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    journal = SqliteJournal(tmp_path / "journal.db")
    settings = Settings(machines=(machines,), journal=journal)
    run = load(TALK).start("x", journal=journal, run_id="r", script=["Yes."] * 2_000)
    return Read(run, Runs(settings, journal, Machines(settings, journal)))


def history(read: Read, seq: int) -> Any:
    return read.runs.past(read.runs.open("r"), seq).after


LOOKS: dict[str, Callable[[Read, int], Any]] = {
    "what-is-new": lambda read, last: read.runs.view("r", known=last - 1),
    "the-newest-records": lambda read, _: read.runs.view("r"),
    "the-newest-decision": lambda read, _: read.runs.decision("r", None),
    "records-in-the-middle": lambda read, last: records_page(read.runs.open("r"), last // 2, 20),
    "the-newest-moment": history,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_costs_the_same_however_long_the_run_is(read: Read, look: str) -> None:
    def cost(records: int) -> int:
        """The least of some looks, each after a step."""
        read.to(records)
        found: list[int] = []
        for more in range(4):
            read.to(records + more)
            LOOKS[look](read, records + more - 1)
            read.to(records + more + 1)
            found.append(calls(lambda at=records + more: LOOKS[look](read, at)))
        return min(found)

    early, late = cost(250), cost(1_300)
    last = read.run.session.tally.records - 1
    again = calls(lambda: LOOKS[look](read, last))
    assert late <= again + 600  # the step is read, and nothing else once more
    # finding a record among six times as many takes two or three more looks at the journal
    assert late <= early + 400
    assert late < 1.3 * early


def test_a_server_that_looks_first_opens_the_run_from_its_snapshot(read: Read) -> None:
    read.to(700)
    snapshot = by_hand(read.runs.journal.snapshot("r"))
    assert snapshot is not None
    assert 200 < snapshot.record_seq < 700
    view = read.runs.view("r")
    assert (view["head"], view["left_out"], len(view["records"])) == (699, 500, 200)
    assert view["last_event"] == str(read.run.session.head - 1)


def test_what_was_is_what_is_decided_from_the_first(read: Read) -> None:
    read.to(700)
    for seq in (0, 1, 255, 256, 300, 600, 698, 699):
        past = read.runs.past(read.runs.open("r"), seq)
        assert past.record == read.run.records[seq]
        assert str(past.why(read.run.machine.chart).explanation) == str(read.run.why(seq))
        assert past.after.facts.run.steps == past.tally.records - 1 == seq
    assert read.runs.past(read.runs.open("r"), 699).after == read.run.session.position


def test_who_reads_a_run_has_it_as_it_was(read: Read) -> None:
    read.to(70)
    before = read.runs.open("r")
    standing = before.session.position, before.result.path
    read.to(90)
    after = read.runs.open("r")
    assert (before.session.position, before.result.path) == standing
    assert after.session.position == read.run.session.position
    assert after.result.path == read.run.result.path
    assert after.result.timeline == read.run.result.timeline
    assert after is read.runs.open("r")


def test_another_run_of_the_same_id_is_read_anew(read: Read) -> None:
    read.to(20)
    read.runs.open("r")
    by_hand(read.runs.journal.remove(["r"]))
    other = load(TALK.replace("talk", "chat")).start(
        "y", journal=read.runs.journal, run_id="r", script=["No."] * 100
    )
    for _ in range(40):
        other.step()
    assert read.runs.open("r").machine.name == "chat"


# delivery -------------------------------------------------------------------------------------------


class CountedJournal(MemoryJournal):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def tail(self, cursor: str = "", limit: int = 256, **more: Any) -> Any:
        found = await super().tail(cursor, limit, **more)
        self.asked["tail"] += len(found.events)
        return found

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, **more: Any
    ) -> Any:
        found = await super().events(run_id, start, limit, **more)
        self.asked["events"] += len(found)
        return found

    async def row(self, run_id: str) -> Any:
        self.asked["row"] += 1
        return await super().row(run_id)


class CountedRedactor(Redactor):
    """Counts the texts that it clears: each event is one when it is encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def text(self, text: str) -> str:
        self.texts += 1
        return super().text(text)


async def delivered(watchers: int, events: int) -> tuple[Counter[str], int]:
    """What the journal was asked, and what was encoded, until all had all of them."""
    from chartloop.hosting.server.watch import Hub  # noqa: PLC0415
    from chartloop.hosting.settings import Limits  # noqa: PLC0415

    journal, redactor = CountedJournal(), CountedRedactor()
    hub = Hub(journal, Limits(watchers=watchers), redactor)
    for run in ("r", "other"):
        await journal.create(RunRow(run, status="running"))
    row, _ = await journal.acquire("r")
    await hub.start()

    async def hear() -> None:
        watcher, heard = hub.add("r"), 0
        async for page in hub.of_run(watcher, -1):
            heard += page.count
            assert len(events_of(page)) == page.count
            if heard == events:
                break
        hub.remove(watcher)

    listening = [asyncio.ensure_future(hear()) for _ in range(watchers - 1)]
    bystander = hub.add("other")
    await asyncio.sleep(0.01)
    journal.asked.clear()
    for seq in range(events):
        event = Event(seq, "intent", 1.0, None, {"key": str(seq)})
        await journal.append("r", seq, row.epoch, [event])
    await asyncio.gather(*listening)
    assert bystander.log.end == 0  # an event of another run is nothing to it
    await hub.stop()
    return journal.asked, redactor.texts


def test_an_event_costs_the_same_for_two_and_for_many_watchers() -> None:
    few, many = asyncio.run(delivered(3, 40)), asyncio.run(delivered(60, 40))
    assert few == many == (Counter({"tail": 40}), 40)


def test_text_between_two_events_leaves_their_order() -> None:
    from chartloop.hosting.server.watch import Hub  # noqa: PLC0415
    from chartloop.hosting.settings import Limits  # noqa: PLC0415
    from chartloop.run.events import Delta  # noqa: PLC0415

    async def scene() -> None:
        journal = MemoryJournal()
        hub = Hub(journal, Limits())
        await journal.create(RunRow("r", status="running"))
        row, _ = await journal.acquire("r")
        await hub.start()
        watcher = hub.add("r")
        for seq in range(3):
            hub.hear("r", Delta(seq, "a", f"piece {seq}"))
            while watcher.log.end == 2 * seq:  # noqa: ASYNC110  the text comes first
                await asyncio.sleep(0.01)
            event = Event(seq, "intent", 1.0, None, {"key": str(seq)})
            await journal.append("r", seq, row.epoch, [event])
            while watcher.log.end < 2 * seq + 2:  # noqa: ASYNC110  nobody says it but the log
                await asyncio.sleep(0.01)
        await journal.append("r", 3, row.epoch, [Event(3, "intent", 1.0, None, {"key": "3"})])
        ids: list[str] = []
        async for page in hub.of_run(watcher, -1):
            ids += [one.id for one in events_of(page) if one.id]
            if "3" in ids:
                break
        assert ids == ["0", "1", "2", "3"]
        await hub.stop()

    asyncio.run(scene())


def test_a_reader_that_was_away_a_moment_costs_the_journal_nothing() -> None:
    from chartloop.hosting.server.watch import Hub  # noqa: PLC0415
    from chartloop.hosting.settings import Limits  # noqa: PLC0415

    async def scene() -> None:
        journal = CountedJournal()
        hub = Hub(journal, Limits(), Redactor())
        await journal.create(RunRow("r", status="running"))
        row, _ = await journal.acquire("r")
        await hub.start()
        stays = hub.add()
        for seq in range(30):
            event = Event(seq, "intent", 1.0, None, {"key": str(seq)})
            await journal.append("r", seq, row.epoch, [event])
        heard = await first(hub, None, stays)
        assert [item.data["seq"] for item in heard] == list(range(30))
        journal.asked.clear()
        again = await first(hub, heard[20].id, hub.add())
        assert [item.data["seq"] for item in again] == list(range(21, 30))
        assert journal.asked["tail"] == 0
        whole = await first(hub, (await journal.tail("", 1)).cursor, hub.add())
        assert [item.data["seq"] for item in whole] == list(range(1, 30))
        await hub.stop()

    async def first(hub: Hub, cursor: str | None, watcher: Any) -> list[Any]:
        found: list[Any] = []
        async for page in hub.of_all(watcher, cursor):
            found += events_of(page)
            if found and found[-1].data["seq"] == 29:
                return found
        return found

    asyncio.run(scene())


def test_a_stream_of_a_run_has_its_children_and_no_other(served: Served) -> None:
    from chartloop.hosting.server.watch import Hub  # noqa: PLC0415
    from chartloop.hosting.settings import Limits  # noqa: PLC0415

    async def scene() -> None:
        journal = MemoryJournal()
        hub = Hub(journal, Limits())
        await hub.start()
        own = hub.add("r", family=True)
        for run in ("r", "r/state/1", "r2", "q", "q/r"):
            await journal.create(RunRow(run))
            row, _ = await journal.acquire(run)
            await journal.append(run, 0, row.epoch, [Event(0, "intent", 1.0, None, {"key": run})])
        heard: list[str] = []
        async for page in hub.of_all(own, None):
            heard += [one.data["run"] for one in events_of(page)]
            if len(heard) == 2:
                break
        assert heard == ["r", "r/state/1"]
        missed: list[str] = []
        async for page in hub.of_all(hub.add("q", family=True), (await journal.tail("", 1)).cursor):
            missed += [one.data["run"] for one in events_of(page)]
            if len(missed) == 2:
                break
        assert missed == ["q", "q/r"]
        await hub.stop()

    asyncio.run(scene())
    assert served.client.get("/events?run=" + "x" * 500).status_code == 422


# connections ----------------------------------------------------------------------------------------

KINDS = ("H11Protocol", "EventStream", "Watcher", "Log")


def left_behind() -> Counter[str]:
    """Connections, streams, watchers and tasks that are there."""
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        name = type(one).__name__
        if name in KINDS and type(one).__module__.partition(".")[0] in ("uvicorn", "chartloop"):
            found[name] += 1
        elif isinstance(one, asyncio.Task) and not one.done():
            found["Task"] += 1
    return found


@pytest.mark.parametrize("read_bytes", [0, 20, 10_000], ids=["at-once", "in-the-head", "in-mid"])
def test_a_connection_that_is_dropped_leaves_nothing(serve: Serve, read_bytes: int) -> None:
    served = serve(["x" * 200_000, "y" * 200_000])
    run = served.start()
    served.until(run, "paused")
    before = left_behind()
    address = ("127.0.0.1", served.client.base_url.port)
    for path in (f"/runs/{run}/events", "/events", f"/events?run={run}") * 3:
        with socket.create_connection(address) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            if read_bytes:
                one.settimeout(10)
                one.recv(read_bytes)
    wait_for(lambda: left_behind() - before == Counter())
    wait_for(lambda: "chartloop_watchers 0" in served.get("/metrics"))
