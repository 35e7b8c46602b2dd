"""No reader can stop the server: every route, beside what a caller may do to it.

    python benchmarks/bounds.py                    # the whole table: about ten minutes
    python benchmarks/bounds.py --runs 5000 --at-once 20 --only records,trace

Every cell is measured on a journal of 100,000 runs, two of which are huge: one has 150 results of
250 kB, the other 5,000 steps. The columns are one request, 200 at the same moment, and 200 whose
callers hang up at once. Beside the last two an order is sent, and compared with one that is sent
beside 200 other orders. Times of the web loop are its own processor time; the ratio is wall time.

A route that stands in no row of the table is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from serving import program

from chartloop import load, tool
from chartloop.hosting.asking import BYTES, ROWS

RUNS, STEPS, RESULTS, AT_ONCE = 100_000, 5_000, 150, 200
LONGEST_CALLBACK = 0.05
MEMORY = 100
"""MB above what the server has before."""
FOLDED = 21_000
"""The most rows of a scan that is no search: of a coverage."""
PICTURE = 1_000_000
"""Bytes of a picture: it grows with the machine, not with the run."""
STREAMED = 400_000
"""Bytes of a stream that are read here before it is left."""
MACHINES: Mapping[str, str] = {
    "big": """\
tools: [big]
limits: {steps: 5_000}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
vars: {i: 0}
states:
  q: {do: nothing, next: act}
  act:
    do: tool
    with: {name: big, arguments: {n: 1}}
    set: {vars.i: vars.i + 1}
    next: [{when: vars.i >= RESULTS, to: done}, {to: act}]
  done: {stop: completed}
""",
    "long": """\
limits: {steps: 100_000}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
vars: {i: 0}
states:
  work:
    do: nothing
    set: {vars.i: vars.i + 1}
    next: [{when: vars.i >= STEPS, to: done}, {to: work}]
  done: {stop: completed}
""",
    "asks": """\
limits: {steps: 50}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: draft}
  draft: {do: infer, next: approve}
  approve: {ask: Publish it?, on: {approve: done, reject: draft}}
  done: {stop: completed}
""",
}


@tool(effect="pure")
def big(n: int) -> str:
    """Give much.

    Args:
        n: Its first digit.
    """
    return f"{n}{'y' * 500_000}"


class Row(NamedTuple):
    """What a route is asked with: `{}` in the path becomes the run."""

    method: str
    path: str
    query: str = ""
    body: Any = None
    runs: Sequence[str] = ("big", "long")
    """The runs that it is asked about, one after the other."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}{self.query and '?' + self.query}"


_RUN = "/runs/{run_id}"
_ASKS = ("asks",)
ROWS_OF_ROUTES = (
    *(Row("GET", path) for path in ("/livez", "/readyz", "/metrics", "/me", "/openapi.json", "/")),
    Row("GET", "/problems/{code}"), Row("GET", "/counts", "since=0"),
    Row("GET", "/counts", "since=0&search=zzzz"),
    *(Row("GET", "/runs", query) for query in (
        "limit=500", "search=zzzz", "search=o&sort=cost&limit=500", "sort=tokens&limit=500",
        "phase=unattended&limit=500", "phase=running&limit=500", "machine=asks&status=error",
        "machine=asks&agent=nobody&status=idle", "waiting=true&limit=500", "until=1&sort=steps",
        "parent=big&children=true", "since=1&until=2&sort=duration",
    )),
    Row("GET", "/machines"),
    *(Row("GET", f"/machines/{{name}}{end}") for end in (
        "", "/findings", "/bound", "/coverage", "/changes", "/facts", "/picture",
    )),
    Row("GET", "/machines/{name}/picture", "look=heat"),
    Row("GET", "/requests/{request_id}"), Row("GET", "/events"), Row("GET", "/events", "run=long"),
    *(Row("GET", f"{_RUN}{end}") for end in (
        "", "/events", "/result", "/picture", "/painting", "/children", "/place", "/spending",
        "/question", "/question/link", "/retry", "/decision", "/moment",
    )),
    Row("GET", f"{_RUN}/records", "limit=1000"), Row("GET", f"{_RUN}/trace", "limit=1000"),
    Row("GET", f"{_RUN}/decision", "seq=100"), Row("GET", f"{_RUN}/moment", "seq=140"),
    Row("GET", f"{_RUN}/compare", "other=big&limit=1000"),
    Row("GET", f"{_RUN}/timeline", "limit=1000"),
    Row("GET", f"{_RUN}/conversation", "limit=200"),
    Row("GET", f"{_RUN}/conversation", "limit=200&before=140.0"),
    Row("GET", f"{_RUN}/passage", "place=100.0&name=/outcome/result", runs=("big",)),
    Row("GET", "/fleet"), Row("POST", "/schedules/{name}/{order}", body={}),
    Row("POST", "/limits", body={"scope": "fleet", "what": "cost", "per": "day", "most": 50}),
    Row("POST", "/limits/settle", body={"run": "asks", "call": "asks/draft/1"}),
    Row("GET", "/answer/question"), Row("POST", "/answer", body={"event": "reject"}),
    Row("POST", "/runs", body={"machine": "asks", "task": "x", "drive": "none"}),
    *(Row("POST", f"/agent/{end}", body={"task": "x"}) for end in (
        "initialize_task_and_tick", "execute", "execute/stream",
    )),
    Row("POST", "/agent/complete_text", body={"prompt": "x"}),
    Row("POST", f"{_RUN}/answer", body={"event": "reject", "wait": "none"}, runs=_ASKS),
    Row("POST", f"{_RUN}/enqueue", body={"tasks": ["x"]}, runs=_ASKS),
    Row("POST", f"{_RUN}/set", body={"name": "limits.steps", "value": 9}, runs=_ASKS),
    Row("POST", f"{_RUN}/question/link", body={"to": "eve@example.org"}, runs=_ASKS),
    Row("DELETE", f"{_RUN}/question/link", "link=none", runs=_ASKS),
    Row("POST", f"{_RUN}/fork", body={"at": 3}, runs=("asks", "long")),
    *(Row("POST", f"{_RUN}/{order}", body={}, runs=("asks", "long")) for order in (
        "step", "run", "pause", "resume", "back", "retry", "cancel",
    )),
)  # fmt: skip
"""Every route, with what makes it read most."""
ORDER = Row("POST", "/runs", body={"machine": "asks", "task": "beside", "drive": "none"})


class Cell(NamedTuple):
    """What was measured of a route in a column."""

    row: Row
    column: str
    statuses: Mapping[int, int]
    longest: float
    """Seconds of processor time of the longest callback."""
    rows: float
    """Of the journal, for one request."""
    scans: int
    size: int
    """Bytes of the largest answer."""
    memory: int
    """MB above what the server had before."""
    beside: float
    """Seconds that an order took meanwhile; 0 for none."""

    def wrong(self) -> Iterator[str]:
        """What is beyond its bound, apart from wall time."""
        if self.longest > LONGEST_CALLBACK:
            yield f"a callback took {1_000 * self.longest:.0f} ms"
        if self.rows > (FOLDED if self.scans else ROWS + 1_000):
            yield f"{self.rows:,.0f} rows"
        streams = self.row.path.endswith(("/events", "/stream"))
        if self.size > (PICTURE if "pi" in self.row.path or streams else BYTES):
            yield f"{self.size:,} bytes"
        if self.memory > MEMORY:
            yield f"{self.memory} MB"
        if self.statuses.keys() & {0, 500}:
            yield f"statuses {dict(self.statuses)}"


# the journal ------------------------------------------------------------------------------------


def populate(folder: Path, runs: int = RUNS, steps: int = STEPS, results: int = RESULTS) -> None:
    """Write the machines and the journal of a folder."""
    (folder / "machines").mkdir()
    journal = folder / "journal.db"
    for name, text in MACHINES.items():
        text = text.replace("RESULTS", str(results)).replace("STEPS", str(steps))
        text = f"chartloop: 1\nmachine: {name}\nmodel: {{name: scripted}}\n{text}"
        (folder / "machines" / f"{name}.yaml").write_text(text, "utf-8")
        if name != "asks":
            load(text, tools=[big]).start("x", journal=journal, run_id=name).run()
    database = sqlite3.connect(journal)
    names: list[str] = [
        name for _, name, *_, hidden in database.execute("PRAGMA table_xinfo(run)") if not hidden
    ]
    new: dict[str, str] = {
        "run_id": "'copy-' || n",
        "created": "created - n",
        "machine": "'asks'",
        "head": "0",
    }
    database.execute(
        "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?) "  # noqa: S608
        f"INSERT INTO run ({', '.join(names)}) SELECT {', '.join(new.get(n, n) for n in names)} "
        "FROM run, number WHERE run_id = 'long'",
        (runs,),
    )
    database.commit()
    database.close()


# asking -----------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """The answer to a request."""

    status: int
    body: bytes
    seconds: float


class Lab:
    """A server on a journal, and who asks it."""

    def __init__(self, served: Any, port: int) -> None:
        self._served, self._port = served, port
        self.token = self.request = ""

    def measured(self, what: str = "begin") -> dict[str, Any]:
        """What the server has measured since `begin`."""
        return json.loads(self._served.ask(what))

    def text(self, row: Row, number: int = 0) -> bytes:
        """A request of a row."""
        path = row.path.replace("{run_id}", row.runs[number % len(row.runs)])
        path = path.replace("{name}", "long").replace("{code}", "CL103").replace("{order}", "pause")
        path = path.replace("{request_id}", self.request) + (row.query and f"?{row.query}")
        body = b"" if row.body is None else json.dumps(row.body).encode()
        lines = [f"{row.method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
        if row.path.startswith("/answer"):
            lines.append(f"Authorization: Link {self.token}")
        if row.method != "GET":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def ask(
        self, row: Row, number: int = 0, *, hangs_up: bool = False, sent: list[int] | None = None
    ) -> Asked:
        """Send a request; of a stream only its beginning is read."""
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return Asked(0, b"", 0.0)
        writer.write(self.text(row, number))
        answer, streams = bytearray(), row.path.endswith("/events")
        try:
            await writer.drain()
            if sent is not None:
                sent.append(number)
            while not hangs_up and len(answer) < (STREAMED if streams else 2**40):
                part = await asyncio.wait_for(reader.read(65_536), 1 if streams else 600)
                if not part:
                    break
                answer += part
        except (TimeoutError, OSError):
            pass
        writer.close()
        head, _, body = bytes(answer).partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head else 200 if hangs_up else 0
        return Asked(status, body, time.perf_counter() - began)

    async def order(self) -> float:
        """The seconds that an order takes now."""
        asked = await self.ask(ORDER)
        assert asked.status == 201, asked
        return asked.seconds

    async def quiet(self) -> None:
        """Wait until nothing is left to do: orders and reads are answered at once again."""
        for row in (ORDER, Row("GET", "/runs")):
            for _ in range(600):
                if (await self.ask(row)).seconds < 0.5:
                    break

    async def cell(self, row: Row, column: str, at_once: int) -> Cell:
        """Measure a route in a column."""
        await self.quiet()
        base = self.measured()["peak"]
        beside = 0.0
        if column == "one":
            asked = [await self.ask(row, number) for number in range(len(row.runs))]
        else:
            gone, sent = column == "gone", list[int]()
            many = [
                asyncio.ensure_future(self.ask(row, number, hangs_up=gone, sent=sent))
                for number in range(at_once)
            ]
            for _ in range(1_000):
                if len(sent) == at_once:
                    break
                await asyncio.sleep(0.005)
            beside = await self.order()
            asked = [await one for one in many]
            if gone:
                await self.quiet()
        found = self.measured("end")
        statuses = [one.status for one in asked]
        return Cell(
            row, column, {one: statuses.count(one) for one in sorted({*statuses})},
            found["longest"], found["rows"] / len(asked), found["scans"],
            max(len(one.body) for one in asked), found["peak"] - base, beside,
        )  # fmt: skip

    async def prepare(self) -> None:
        """A run that asks, a link to its question, and each page once: what is imported late is."""
        body = {"machine": "asks", "task": "x", "run_id": "asks"}
        started = await self.ask(Row("POST", "/runs", body=body))
        assert started.status == 201, started
        self.request = "start-asks"
        asks = Row("GET", _RUN, runs=_ASKS)
        for _ in range(600):
            if json.loads((await self.ask(asks)).body)["status"] == "paused":
                break
            await asyncio.sleep(0.05)
        link = Row("POST", f"{_RUN}/question/link", body={"to": "eve@example.org"}, runs=_ASKS)
        self.token = json.loads((await self.ask(link)).body)["url"].partition("#")[2]
        for row in ROWS_OF_ROUTES:
            if row.method == "GET" and "/answer" not in row.path:
                await self.ask(row._replace(runs=_ASKS))

    async def missing(self) -> set[str]:
        """The routes that stand in no row."""
        paths = json.loads((await self.ask(Row("GET", "/openapi.json"))).body)["paths"]
        known = {f"{row.method} {row.path}" for row in ROWS_OF_ROUTES}
        return {f"{m.upper()} {path}" for path, of in paths.items() for m in of} - known


@contextmanager
def lab(folder: Path) -> Generator[Lab]:
    """A server on the journal of a folder."""
    with program("bounds_server.py", folder) as served:
        yield Lab(served, int(served.line()))


# the table --------------------------------------------------------------------------------------


async def table(found: Lab, at_once: int, only: Sequence[str] = ()) -> int:
    """Print each cell; gives how many are beyond a bound."""
    await found.prepare()
    assert not (missing := await found.missing()), f"no row for {missing}"
    baseline = [(await found.cell(ORDER, "200", at_once)).beside for _ in range(3)]
    base = statistics.median(baseline)
    print(f"an order beside {at_once} others: {base:.2f} s of {[round(b, 2) for b in baseline]}")
    print(f"{'':58} callback      rows scans   bytes   MB  order ×  statuses")
    wrong = 0
    for row in ROWS_OF_ROUTES:
        if only and not any(word in row.name for word in only):
            continue
        for column in ("one", "200", "gone"):
            cell = await found.cell(row, column, at_once)
            said = [*cell.wrong()]
            if (ratio := cell.beside / base) > 3:
                again = await found.cell(row, column, at_once)
                ratio = min(ratio, again.beside / base)
                said += [f"an order takes {ratio:.1f} ×"] if ratio > 3 else []
            wrong += bool(said)
            print(
                f"{row.name[:52]:53} {column:4} {1_000 * cell.longest:5.1f} ms {cell.rows:9,.0f} "
                f"{cell.scans:5} {cell.size:8,} {cell.memory:4} {ratio:7.2f}  "
                f"{dict(cell.statuses)} {'; '.join(said).upper()}",
                flush=True,
            )
    return wrong


def main() -> None:
    """Measure, and say what is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--only", default="", help="parts of names of routes, with commas between")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        populate(folder, given.runs)
        with lab(folder) as found:
            only = [one for one in given.only.split(",") if one]
            wrong = asyncio.run(table(found, given.at_once, only))
    print(f"{wrong} cells beyond a bound")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
