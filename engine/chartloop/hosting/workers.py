"""Workers: threads that take orders to drive runs from the journal and carry them out.

    order in the journal ─▶ worker claims it ─▶ lease ─▶ record, record, ... ─▶ outcome

Each worker is a thread with its own event loop, separate from the loop that handles requests. An
action may block: a custom action computes, a certificate is proved, a large run is opened. On the
web loop that would delay every response and every stream; here it delays the runs of one worker.
Workers are threads, not processes, because tools and models are Python objects of the caller, and
mostly wait for the network. For more cores, start more servers on the same journal.

The queue is the journal: a worker holds nothing that is not in it. A killed server leaves open
orders and leases that lapse, and the next process that looks takes them. The order of a run that
waits for an answer stays open, and is taken again when a message arrives or the wait is due.

Belongs here: which runs are driven, and when. Never: HTTP, what a run does.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from chartloop.api import Run
from chartloop.core.errors import ChartloopError, UnknownRunError
from chartloop.hosting.problems import problem_of
from chartloop.hosting.runs import Runs
from chartloop.run.events import Event as StreamEvent
from chartloop.run.journal import Journal, RunRow
from chartloop.run.lease import CHILD_MARK
from chartloop.run.loop import leave
from chartloop.run.requests import StoredRequest
from chartloop.view_model.orders import is_held

T = TypeVar("T")
POLL = 0.2
"""Seconds between two polls of the journal for changes by other processes."""
AGAIN = 1.0
"""Seconds after which the orders are read even if the journal did not change."""
GRACE = 5.0
"""Seconds that a stopping server waits for the actions in progress."""
_log = logging.getLogger(__name__)

Hear = Callable[[str, StreamEvent], None]
"""Called on the worker's thread with the id of a run and each of its events."""


class _Resting(NamedTuple):
    """A waiting run with an open order, as it was last seen."""

    head: int
    due: float | None
    seen: frozenset[str]
    """The messages that it left unread in its inbox and in those of its children."""


class Workers:
    """The workers of a server and the runs that they drive. Safe from any thread."""

    def __init__(self, runs: Runs, hear: Hear) -> None:
        self.runs = runs
        self.hear = hear
        self.driven: dict[str, str] = {}
        """The runs being driven, by the keys of their orders."""
        self.finished = 0
        """The number of orders that this process has finished."""
        self._lock = threading.Lock()
        self._workers = [_Worker(self, number) for number in range(runs.settings.workers)]

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            worker.start()

    def wake(self) -> None:
        """Look for new orders at once."""
        for worker in self._workers:
            worker.wake()

    def stop(self) -> None:
        """Take no more orders, let the actions in progress finish, and release every run."""
        for worker in self._workers:
            worker.stop()
        end = time.monotonic() + GRACE
        for worker in self._workers:
            if worker.ident is not None:
                worker.join(max(0.1, end - time.monotonic()))

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on a worker's loop: for runs that are driven without an order."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._workers[0].loop)

    def claim(self, request: StoredRequest) -> bool:
        """Claim an order for the calling worker; False if its run is being driven already."""
        with self._lock:
            if request.key in self.driven or request.run_id in self.driven.values():
                return False
            self.driven[request.key] = request.run_id
            return True

    def release(self, request: StoredRequest) -> None:
        """Give up the claim of an order."""
        with self._lock:
            self.driven.pop(request.key, None)


class _Worker(threading.Thread):
    """A thread with its own event loop."""

    def __init__(self, workers: Workers, number: int) -> None:
        super().__init__(name=f"chartloop-worker-{number}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers = workers
        self._runs = workers.runs
        self._journal: Journal = getattr(workers.runs.journal, "grouped", workers.runs.journal)
        self._news = asyncio.Event()
        self._stopping = False
        self._token = ""
        self._again = 0.0
        """When to look even if nothing changed: a lease may have lapsed."""
        self._resting: dict[str, _Resting] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which it drives; only after the start."""
        assert self._loop is not None, "the worker has not started"
        return self._loop

    def start(self) -> None:
        """Start the thread, with a loop that accepts calls at once."""
        self._loop = asyncio.new_event_loop()
        super().start()

    def wake(self) -> None:
        """Look for orders now. Safe from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the server stops
                self._loop.call_soon_threadsafe(self._news.set)

    def stop(self) -> None:
        """End after the actions in progress. Safe from any thread."""
        self._stopping = True
        self.wake()

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._work())

    async def _work(self) -> None:
        while not self._stopping:
            try:
                if await self._has_news():
                    await self._take_orders()
            except ChartloopError as error:  # a locked journal, say: the next poll tries again
                _log.warning("a worker could not read the journal: %s", error.message)
                self._again = 0.0
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), POLL)
            self._news.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)

    async def _has_news(self) -> bool:
        """Whether to look: the journal changed, a wait is due, or leases may have lapsed."""
        now, token = time.monotonic(), await self._journal.changed(self._token)
        self._token = token or self._token
        dues = [rest.due for rest in self._resting.values() if rest.due is not None]
        due = bool(dues) and min(dues) <= await self._journal.now()
        if token is None and not due and now < self._again:
            return False
        self._again = now + AGAIN
        return True

    async def _take_orders(self) -> None:
        """Take the open orders, up to the limit of runs that a worker drives at once."""
        orders = await self._journal.requests(open_only=True)
        keys = {request.key for request in orders}
        self._resting = {key: rest for key, rest in self._resting.items() if key in keys}
        for request in reversed(orders):  # the oldest first
            if len(self._tasks) >= self._runs.settings.limits.at_once or self._stopping:
                break
            if not await self._is_due(request) or not self._workers.claim(request):
                continue
            task = self.loop.create_task(self._carry_out(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _is_due(self, request: StoredRequest) -> bool:
        """Whether the run can continue: if it waits, it has a message or its time is up."""
        rest = self._resting.get(request.key)
        if rest is None:
            return True
        row = await self._journal.row(request.run_id)
        if row is None or row.head != rest.head:
            return True
        if rest.due is not None and rest.due <= await self._journal.now():
            return True
        return bool(await self._messages(row) - rest.seen)

    async def _messages(self, row: RunRow) -> frozenset[str]:
        """The messages in the inboxes of a run and of those of its children that have not ended."""
        below = await self._journal.rows(prefix=row.run_id + CHILD_MARK)
        run_ids = [row.run_id, *(child.run_id for child in below if not child.ended)]
        inboxes = [(run_id, await self._journal.inbox(run_id)) for run_id in run_ids]
        return frozenset(f"{of} {message.msg_id}" for of, inbox in inboxes for message in inbox)

    # one order ------------------------------------------------------------------------------------

    async def _carry_out(self, request: StoredRequest) -> None:
        """Drive the run of an order and settle it, or leave it open to be tried again.

        The journal lets only the driver of the run settle it. What passes by itself, such as a
        locked file, a full disk or another driver, is no outcome.
        """
        driven = _Driven()
        try:
            try:
                outcome = await self._drive(request, driven)
            except Exception as error:  # noqa: BLE001  stored as the outcome of the order
                if isinstance(error, OSError) or getattr(error, "passes", False):
                    _log.info("run `%s` is driven later: %s", request.run_id, error)
                    return
                _log.warning("run `%s` could not be driven", request.run_id, exc_info=error)
                outcome = {"problem": problem_of(error).body}
            if outcome is not None and await self._journal.settle_request(
                request.key, outcome, driven.epoch
            ):
                self._workers.finished += 1
        except ChartloopError as error:  # the outcome could not be written: the order is still open
            _log.warning("an order of run `%s` stays open: %s", request.run_id, error.message)
        finally:
            self._workers.release(request)

    async def _drive(
        self, request: StoredRequest, driven: _Driven
    ) -> Mapping[str, Any] | None:  # fmt: skip
        """Drive the run for an order; the outcome, or None where the order stays open."""
        run_id = request.run_id
        row = driven.row = await self._journal.row(run_id)
        if row is None:
            raise UnknownRunError("there is no run of this id")
        if row.ended:
            return _outcome(row, 0)
        seen = await self._messages(row)
        run = driven.run = await asyncio.to_thread(self._runs.to_drive, row)
        run.session.ports.questions = "stay"  # questions of MCP servers are answered over HTTP
        stop = run.listen(lambda event: self._workers.hear(run_id, event))
        try:
            progress = await self._act(run, request)
        finally:
            stop()
            await leave(run.session)
        row = await self._journal.row(run_id) or row
        if request.kind != "run" or run.ended or is_held(run) or progress.at_breakpoint:
            return _outcome(row, progress.records)
        if self._stopping:
            return None
        left = await self._messages(row)
        self._resting[request.key] = _Resting(row.head, row.wake_at, seen & left)
        return None

    async def _act(self, run: Run, request: StoredRequest) -> _Progress:
        if request.kind in ("take", "step"):
            record = await (run.aadvance() if request.kind == "take" else run.astep())
            return _Progress(int(record is not None) + await self._finish_step(run), False)
        before = run.session.tally.records
        until = str(request.data.get("until") or "") or None
        await run.arun(until=until, rest=lambda: self._stopping)
        return _Progress(run.session.tally.records - before, bool(run.breakpoints.hit))

    async def _finish_step(self, run: Run) -> int:
        """Finish a step in which an MCP server asks a question: its call is open in this process.

        Returns the number of new records.
        """
        session = run.session
        servers, steps = session.ports.servers, session.position.facts.run.steps
        if servers is None or not servers.asks(session.run_id):
            return 0
        before = session.tally.records
        await run.arun(rest=lambda: self._stopping or session.position.facts.run.steps > steps)
        return session.tally.records - before


@dataclass(slots=True)
class _Driven:
    """The run of an order, as far as it was read and opened."""

    row: RunRow | None = None
    run: Run | None = None

    @property
    def epoch(self) -> int:
        """The epoch in which this process drove the run, or read it."""
        if self.run is not None:
            return self.run.session.epoch
        return 0 if self.row is None else self.row.epoch


class _Progress(NamedTuple):
    records: int
    at_breakpoint: bool


def _outcome(row: RunRow, records: int) -> Mapping[str, Any]:
    """The outcome of an order: where it left its run."""
    return {
        "status": row.status, "state": row.state, "reason": row.reason, "steps": row.steps,
        "records": records, **({"moved_to": row.moved_to} if row.moved_to else {}),
    }  # fmt: skip
