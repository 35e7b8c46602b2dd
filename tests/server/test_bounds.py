"""No reader can stop the server: bytes, rows, callbacks and memory of every route, and who waits."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.adapters.journal.face import Read
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.hosting.asking import (
    ASKING,
    BYTES,
    SCANS,
    Asking,
    Lanes,
    fit,
    in_lane,
    text_at,
)
from chartloop.hosting.metrics import Turns
from chartloop.hosting.problems import Refusal
from chartloop.hosting.settings import Limits
from chartloop.run.journal import Journal
from chartloop.run.reader import READER
from chartloop.run.sync import by_hand
from chartloop.testing import Scripted
from tests.postgres import NEEDED
from tests.server.conftest import Serve, Served, wait_for

pytestmark = pytest.mark.extra("fastapi", install='pip install -e ".[server]"')  # noqa: S610 - no Django
SCRIPTS = Path(__file__).parents[2] / "benchmarks"
LONG = "word and more " * 40_000


@pytest.fixture
def bounds() -> Iterator[Any]:
    """The script that measures the whole table."""
    sys.path.insert(0, str(SCRIPTS))
    yield import_module("bounds")
    sys.path.remove(str(SCRIPTS))


@pytest.mark.slow("a server in a process of its own, asked some thousand times")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the most memory is Linux's")
def test_every_route_keeps_its_bounds_beside_many_of_its_kind(
    bounds: Any, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """The figures of the script but for wall times, on a smaller journal."""
    bounds.populate(tmp_path, runs=20_000, steps=1_000, results=30)

    async def measure(lab: Any) -> None:
        await lab.prepare()
        assert not await lab.missing(), "a new route: give it a row in benchmarks/bounds.py"
        for row in bounds.ROWS_OF_ROUTES:
            for column in ("one", "many", "gone"):
                with subtests.test(f"{row.name} {column}"):
                    cell = await lab.cell(row, column, 10)
                    assert not [*cell.wrong()], cell

    with bounds.lab(tmp_path) as lab:
        asyncio.run(measure(lab))


def test_every_router_has_bounds() -> None:
    """One of FastAPI's own would call its functions in other threads, and bound nothing."""
    from fastapi import APIRouter  # noqa: PLC0415

    from chartloop.hosting import server  # noqa: PLC0415
    from chartloop.hosting.server.common import Rooms  # noqa: PLC0415

    names = [path.stem for path in Path(server.__file__).parent.glob("routes_*.py")]
    modules = [import_module(f"{server.__name__}.{name}") for name in names]
    routers = [one for of in modules for one in vars(of).values() if isinstance(one, APIRouter)]
    assert len(routers) >= 7
    assert all(isinstance(router, Rooms) for router in routers)


# scans --------------------------------------------------------------------------------------------


def endless(rows: Any) -> Any:
    """A statement that never ends by itself."""
    sql = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT 2 FROM n) SELECT count(*) FROM n"
    return rows.db.execute(sql).fetchone()


ENDLESS = Read("", endless, ())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NEEDED)])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A journal of each database."""
    if request.param == "sqlite":
        made: Any = SqliteJournal(tmp_path / "j.db")
    else:
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

        made = PostgresJournal(request.getfixturevalue("postgres").of(tmp_path))
    yield made
    made.close_file()


class Reading(threading.Thread):
    """Reads for a caller, and keeps what came of it."""

    def __init__(self, journal: Any, asking: Asking) -> None:
        super().__init__(daemon=True)
        self._journal, self._asking = journal, asking
        self.error: BaseException | None = None

    def run(self) -> None:
        READER.set(self._asking)
        self.error = self._journal.perform((ENDLESS,))[0].error
        self._asking.end()


def scanning(journal: Any, lanes: Lanes) -> tuple[Reading, Asking]:
    asking = Asking(lanes, lanes.reads)
    reading = Reading(journal, asking)
    reading.start()
    wait_for(lambda: asking.until or reading.error)
    return reading, asking


def test_a_read_that_takes_long_is_a_scan_and_few_scan(journal: Any) -> None:
    lanes = Lanes()
    many = [scanning(journal, lanes) for _ in range(SCANS)]
    assert lanes.scans == SCANS
    beyond, _ = scanning(journal, lanes)
    beyond.join(60)
    assert isinstance(beyond.error, Refusal)
    assert (beyond.error.status, beyond.error.headers) == (503, {"Retry-After": "1"})
    for _, asking in many:
        asking.leave()
    for reading, _ in many:
        reading.join(60)
        assert isinstance(reading.error, Refusal)
    again, asking = scanning(journal, lanes)  # their places are free again
    assert again.error is None
    asking.leave()
    again.join(60)
    assert not again.is_alive()


def test_a_scan_holds_up_no_other_read_and_no_write(journal: Any) -> None:
    lanes = Lanes()
    reading, asking = scanning(journal, lanes)
    machine = load(
        "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: b}\n  b: {stop: completed}\n"
    )
    run = machine.start("x", journal=journal, run_id="r")
    assert run.run().success
    context = Asking(lanes, lanes.reads)
    token = READER.set(context)
    try:
        assert run.records  # as another reader
    finally:
        READER.reset(token)
    assert context.until == 0.0
    assert reading.is_alive()
    asking.leave()
    reading.join(60)


@pytest.mark.slow("it waits for that time")
def test_a_scan_ends_after_its_time_with_a_cure(journal: Any) -> None:
    reading, _ = scanning(journal, Lanes())
    reading.join(60)
    assert isinstance(reading.error, Refusal)
    assert reading.error.status == 422
    assert "`since`" in reading.error.hint


def test_what_is_given_many_rows_is_a_scan_too() -> None:
    lanes = Lanes()
    asking = Asking(lanes, lanes.reads)
    for _ in range(20):
        asking.took(100)
    assert not asking.until
    asking.took(1)
    assert asking.until


def test_searches_beyond_two_are_asked_to_come_again_and_lists_are_not(served: Served) -> None:
    lanes = served.server.metrics.lanes
    run = served.start()
    for _ in range(SCANS):
        assert lanes.slots.acquire(blocking=False)
    for path in ("/runs?search=x", "/counts?since=0"):
        answer = served.client.get(path)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["hint"]
    for path in ("/runs", f"/runs/{run}", "/runs?waiting=true", "/machines"):
        served.get(path)
    for _ in range(SCANS):
        lanes.slots.release()
    assert len(served.get("/runs?search=x")["runs"]) == 1


def test_events_of_a_tenant_are_found_without_looking_through_all_others(tmp_path: Path) -> None:
    from chartloop.adapters.journal.rows import SPAN  # noqa: PLC0415

    path = tmp_path / "j.db"
    text = (
        "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: b}\n  b: {stop: completed}\n"
    )
    machine = load(text)
    machine.start("x", journal=path, run_id="other").run()
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x <= ?) "
            "INSERT INTO event (run_id, seq, epoch, type, record, at, digest, data) "
            "SELECT 'other', seq + 10 * x, epoch, type, NULL, at, NULL, data FROM event, n "
            "WHERE run_id = 'other' AND type = 'intent' OR number = 1",
            (SPAN,),
        )
        database.commit()
    machine.start("x", journal=path, run_id="acme:own").run()
    journal = SqliteJournal(path)
    tails = [by_hand(journal.tail(run="acme:"))]
    while tails[-1].cursor != tails[-1].newest:
        tails.append(by_hand(journal.tail(tails[-1].cursor, run="acme:")))
    assert tails[0].events == []
    assert {entry.run_id for entry in tails[-1].events} == {"acme:own"}
    assert len(tails) >= 2


# who waits ----------------------------------------------------------------------------------------


def test_orders_to_one_run_come_one_by_one_and_hold_up_no_other() -> None:
    async def scene() -> None:
        lanes, busy, seen = Lanes(), threading.Semaphore(0), list[str]()
        ASKING.set(Asking(lanes, lanes.orders))

        def slow() -> None:
            seen.append("slow")
            assert busy.acquire(timeout=60)

        held = [asyncio.ensure_future(in_lane(slow, "huge")) for _ in range(50)]
        await in_lane(lambda: seen.append("other"), "small")
        assert seen.count("slow") <= 1
        busy.release(50)
        await asyncio.gather(*held)
        assert seen.count("slow") == 50
        assert not lanes.turns

    asyncio.run(scene())


def test_a_read_whose_caller_hangs_up_in_the_queue_is_not_made(served: Served) -> None:
    """Orders that wait there are carried out all the same."""
    lanes = served.server.metrics.lanes
    run = served.start()
    before = lanes.rows
    held = [(lane, at) for lane in (lanes.reads, lanes.orders) for at in range(20)]
    held = [(lane, at) for lane, at in held if at < lane.total_tokens]
    served.get("/runs")
    for lane, at in held:
        lane.acquire_on_behalf_of_nowait(at)
    port = served.client.base_url.port or 80
    texts = [f"GET /runs/{run} HTTP/1.1\r\nHost: localhost\r\n\r\n"] * 20
    body = json.dumps({"machine": "review", "task": "y", "run_id": "gone", "drive": "none"})
    texts.append(
        "POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in texts]
    for connection, text in zip(connections, texts, strict=True):
        connection.sendall(text.encode())
    wait_for(lambda: lanes.reads.statistics().tasks_waiting == 20)
    wait_for(lambda: lanes.orders.statistics().tasks_waiting == 1)
    for connection in connections:
        connection.close()
    wait_for(lambda: lanes.reads.statistics().tasks_waiting == 0)
    assert lanes.orders.statistics().tasks_waiting == 1
    for lane, at in held:
        lane.release_on_behalf_of(at)
    wait_for(lambda: served.client.get("/runs/gone").status_code == 200)
    assert lanes.rows - before < 100


# bytes --------------------------------------------------------------------------------------------

TELLS = """\
chartloop: 1
machine: tells
model: {name: scripted}
limits: {steps: 50}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
vars: {i: 0}
states:
  take: {do: receive, next: think}
  think: {do: infer, set: {vars.i: vars.i + 1}, next: [{when: vars.i >= 6, to: done}, {to: think}]}
  done: {stop: completed}
"""


@pytest.fixture
def told(serve: Serve, machines: Path) -> tuple[Served, str]:
    """A server with a run of six replies, of 560 kB each."""
    (machines / "tells.yaml").write_text(TELLS)
    served = serve(script=[f"{n} {LONG}" for n in range(6)])
    run = served.start("tells")
    served.until(run, "completed")
    return served, run


def pages(served: Served, path: str, cursor: str, items: str) -> list[Any]:
    """Every entry of a list, and that each page keeps its bound."""
    found: list[Any] = []
    following: Any = None
    while True:
        answer = served.client.get(path, params={cursor: following} if following else {})
        assert answer.status_code == 200, answer.text
        assert len(answer.content) <= BYTES
        page = answer.json()
        found += page[items]
        if (following := page["next"]) is None:
            return found


def test_records_and_trace_are_given_page_by_page_and_whole(told: tuple[Served, str]) -> None:
    served, run = told
    records = pages(served, f"/runs/{run}/records", "start", "records")
    assert [one["seq"] for one in records] == [*range(len(records))]
    assert sum(one["kind"] == "step" for one in records) == 7
    steps = pages(served, f"/runs/{run}/trace", "after", "steps")
    whole = served.get(f"/runs/{run}/spending")["points"]
    assert [one["number"] for one in steps] == [*range(1, 8)]
    assert [one["total_tokens"] for one in steps] == [point[2] for point in whole[1:]]
    began = [one["started"] for one in steps]
    assert began == sorted(began)


def test_the_rest_of_a_text_that_was_cut_is_given_in_parts(told: tuple[Served, str]) -> None:
    served, run = told
    page = served.get(f"/runs/{run}/records", params={"start": 2, "limit": 1})
    places = {cut["at"].removeprefix("/records/0"): cut["rest"] for cut in page["cut"]}
    assert "/outcome/reply/text" in places
    for at, rest in places.items():
        words, start = "", 0
        while start is not None:
            asked = {"place": "2.0", "name": at, "start": start}
            answer = served.client.get(f"/runs/{run}/passage", params=asked)
            assert len(answer.content) <= BYTES
            part = answer.json()
            words, start = words + part["text"], part["next"]
        assert words == f"0 {LONG}"
        shown = text_at(page["records"][0], at)
        assert shown is not None
        assert words.startswith(shown)
        assert len(words) == len(shown) + rest
    asked = {"place": "2.0", "name": "/outcome/nothing"}
    served.get(f"/runs/{run}/passage", 404, params=asked)


def test_every_view_of_a_run_with_long_texts_keeps_its_bound(told: tuple[Served, str]) -> None:
    served, run = told
    for path in served.get("/openapi.json")["paths"]:
        if path.startswith("/runs/{run_id}") and not path.endswith("/events"):
            asked = {"other": run, "place": "2.0"}
            answer = served.client.get(path.replace("{run_id}", run), params=asked)
            assert len(answer.content) <= BYTES, path


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=400),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=9)
    ),
    max_leaves=60,
)


@pytest.mark.law
@given(
    value=st.dictionaries(st.sampled_from(["a", "b", "digest", "next"]), json_values),
    most=st.integers(300, 4_000),
)
def test_what_is_cut_fits_and_is_named(value: dict[str, Any], most: int) -> None:
    body = json.dumps(value, ensure_ascii=False).encode()
    fitted = fit(body, most)
    if len(body) <= most:
        assert fitted == body
        return
    kept = json.loads(fitted)
    assert len(fitted) <= most or len(kept["cut"]) >= 2
    for cut in kept["cut"]:
        if isinstance(shown := text_at(kept, cut["at"]), str) and not cut["at"].endswith("digest"):
            whole = text_at(value, cut["at"])
            assert whole is None or whole == shown + whole[len(whole) - cut["rest"] :]


def test_no_digest_is_given_of_what_was_cut() -> None:
    body = json.dumps({"text": LONG, "digest": "9f2c", "inner": {"digest": "kept"}}).encode()
    kept = json.loads(fit(body))
    assert (kept["digest"], kept["inner"]["digest"]) == ("", "kept")


def test_a_secret_at_a_cut_is_hidden_whole(serve: Serve, machines: Path) -> None:
    secret = "zirconium-quartz-0123456789"
    (machines / "tells.yaml").write_text(TELLS)
    journal = SqliteJournal(machines.parent / "open.db", redactor=None)
    text = "".join(f"xxx{secret}" for _ in range(16_000))
    served = serve(script=[text] * 6, journal=journal)
    served.server.hub.redactor = served.server.hub.redactor.also([secret])
    run = served.start("tells")
    served.until(run, "completed")
    for path in (
        "/records?start=2",
        "/passage?place=2.0&name=/outcome/reply/text",
        "/trace?after=2.1",
    ):
        shown = served.client.get(f"/runs/{run}{path}").text
        assert "redacted" in shown
        assert "zirc" not in shown


# the web loop -------------------------------------------------------------------------------------


def test_the_longest_callback_is_told_by_its_own_processor_time(served: Served) -> None:
    def work() -> None:
        end = time.thread_time() + 0.07
        while time.thread_time() < end:
            pass

    async def scene() -> float:
        turns = Turns.of(loop := asyncio.get_running_loop())
        assert turns is not None
        for callback in (work, lambda: time.sleep(0.3)):
            loop.call_soon(callback)
        await asyncio.sleep(0.01)
        return turns.longest

    assert 0.07 <= asyncio.run(scene()) < 0.25  # without the time in which it slept
    turns = served.server.metrics.turns
    assert turns is not None
    turns.longest = 7.5
    assert "chartloop_longest_callback_seconds 7.5" in served.get("/metrics")


def test_a_loop_that_is_not_asyncios_own_tells_nothing() -> None:
    assert Turns.of(object()) is None


def test_large_bodies_are_looked_through_off_the_loop(serve: Serve) -> None:
    served = serve(limits=Limits(body=3_000_000))
    turns = served.server.metrics.turns
    assert turns is not None
    turns.longest = 0.0
    body = {"machine": "review", "task": "x", "vars": {"a": [["x" * 2_000_000]]}}
    served.post("/runs", body, 422)
    served.get("/livez")
    assert turns.longest < 0.15


def test_few_large_bodies_are_held_at_once(served: Served) -> None:
    """The others wait in their connections; small ones do not."""
    lanes = served.server.metrics.lanes
    served.start()
    held = range(int(lanes.bodies.total_tokens))
    body = {"machine": "review", "task": "x" * 150_000, "drive": "none"}
    served.post("/runs", body, 201)
    for at in held:
        lanes.bodies.acquire_on_behalf_of_nowait(at)
    waiting = threading.Thread(target=served.post, args=("/runs", {**body, "run_id": "l"}, 201))
    waiting.start()
    wait_for(lambda: lanes.bodies.statistics().tasks_waiting)
    served.start(drive="none")
    served.get("/runs/l", 404)
    for at in held:
        lanes.bodies.release_on_behalf_of(at)
    waiting.join(60)
    served.get("/runs/l")


def test_a_direct_journal_reads_as_ever_for_programs(tmp_path: Path) -> None:
    """Without a caller nothing is a scan, and nothing is refused."""
    journal: Journal = SqliteJournal(tmp_path / "j.db")
    machine = load(
        "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nstates:\n  a: {do: infer, next: b}\n  b: {stop: completed}\n"
    )
    machine.start("x", journal=journal, model=Scripted(["y"]), run_id="r").run()
    assert READER.get() is None
    assert journal.path
