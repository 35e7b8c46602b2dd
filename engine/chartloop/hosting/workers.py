"""Workers: threads that claim the runs that are due and drive them.

    due in the journal ─▶ claim ─▶ lease ─▶ record, record, ... ─▶ outcome, or hand back

Each worker is a thread with its own event loop, separate from the loop that handles requests. An
action may block: a custom action computes, a certificate is proved, a large run is opened. On the
web loop that would delay every response and every stream; here it delays the runs of one worker.
Workers are threads, not processes, because tools and models are Python objects of the caller, and
mostly wait for the network. For more cores, start more processes on the same journal.

The queue is the journal (`run.schedule`): a worker holds nothing that is not in it. A killed
process leaves claims and leases that end with it or lapse, and another one takes its runs up. A run
that waits is handed back, and is due again when a message arrives or its wait ends.

A run that has lapsed is driven in a process of its own (`own_processes`). A program that cannot be
started again, because its tools are its own functions, drives it itself, while it drives nothing
else.

Belongs here: the loop of a worker. Never: HTTP, what a run does, what makes it due.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from chartloop.api import Run
from chartloop.core.errors import ChartloopError, StatusError, UnknownRunError
from chartloop.hosting.own_processes import FINISHED, NOTHING, OwnProcesses
from chartloop.hosting.problems import problem_of
from chartloop.hosting.questions import LOST, PROMPT, notice_of, tell_question
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import EVERY
from chartloop.hosting.ticks import take_ticks
from chartloop.run.events import Event as StreamEvent
from chartloop.run.fleet_calls import waits_long
from chartloop.run.inbox import next_due
from chartloop.run.journal import InboxMessage, Journal, RunRow
from chartloop.run.lease import TTL
from chartloop.run.lease_holder import RENEWALS
from chartloop.run.loop import leave
from chartloop.run.processes import this_process
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import Activation, Claimed, Engine, Schedule, WorkerRow
from chartloop.run.sync import by_hand
from chartloop.run.tenants import tenant_of
from chartloop.ui.view_model.orders import is_held

T = TypeVar("T")
POLL = 0.2
"""Seconds between two looks at the journal's clock while a run is due later."""
QUICK = 0.015
"""Seconds between two questions for news, for which no journal reads a table."""
AGAIN = 1.0
"""Seconds after which a run is tried again that could not be driven, and dead workers are looked
for."""
STUCK = 300.0
"""Seconds without a turn of a worker's loop after which it is stuck. A journal that is away holds a
turn up for a minute or two, and an action may block the loop for a while."""
CUT = 2.0
"""Seconds that actions are given to end after their grace, when they are cancelled."""
PATIENCE = 60.0
"""Seconds that a run may wait to be driven alone while this process drives others. Then it claims
no others until the run has had its turn."""
PROBATION = 5.0
"""Seconds after which a run that is driven alone, and has a new record, is driven beside others."""
DRIVES_ON = ("answer", "cancel", "resume")
"""The messages whose sender orders their run to be driven."""
_log = logging.getLogger(__name__)

Hear = Callable[[str, StreamEvent], None]
"""Called on the worker's thread with the id of a run and each of its events."""


class Workers:
    """The workers of a process and the runs that they drive. Safe from any thread."""

    def __init__(
        self, runs: Runs, hear: Hear, engine: Engine | None = None, *, only_one: str = ""
    ) -> None:
        """`only_one` is the name of a process that drives one run that has lapsed."""
        self.runs = runs
        self.hear = hear
        self.journal: Journal = getattr(runs.journal, "grouped", runs.journal)
        self.engine = engine
        self.schedule: Schedule = engine or self.journal
        """Who delivers due runs: an engine, or the journal's own table."""
        process = this_process()
        self.id = only_one or f"{process.host}-{process.pid}-{secrets.token_hex(3)}"
        """The name of this process in claims, unique even if a host and a pid come again."""
        self.driven: set[str] = set()
        """The runs being driven."""
        self.claims: dict[str, Activation] = {}
        """The claims that were not handed back, by run."""
        self.finished: Counter[str] = Counter()
        """The number of orders that this process has finished, by tenant. `EVERY` is for those of
        runs in processes of their own."""
        self.made = 0
        """The number of records that this process has made."""
        self.lacks: dict[str, str] = {}
        """Why this process cannot drive runs, by what they need; empty if it can."""
        self.notices: dict[str, bool] = {}
        """The notices on their way, and those that did not arrive, which are not tried again here:
        whether that is known."""
        self.stopping = False
        """Whether no run is claimed any more."""
        self.over = threading.Event()
        """Set when the only run was driven, or nothing was there to claim."""
        self.found_nothing = False
        """Whether nothing was there to claim."""
        self.apart = OwnProcesses(
            runs.settings.command, self.id, self._ended_apart,
            quiet=runs.settings.face == "chartloop mcp",
        )  # fmt: skip
        self.only_one = bool(only_one)
        self._lock = threading.Lock()
        self._claiming = 0
        """The threads that are claiming runs to drive beside each other."""
        self._alone = False
        """Whether this process drives one run, or is about to, and nothing else."""
        self._lapsed: float | None = None
        """Since when a run is known to wait for that; None if none is."""
        self._stopped = threading.Event()
        self._keeper = threading.Thread(
            target=self._keep_alive, name="chartloop-keeper", daemon=True
        )
        self._listener = threading.Thread(
            target=self._listen, name="chartloop-listener", daemon=True
        )
        self._workers = [_Worker(self, number) for number in range(runs.settings.workers)]

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            worker.start()
        if self._workers:
            if self.engine is not None:
                self.engine.start(self.id, self._room, self.wake)
            self._keeper.start()
            self._listener.start()

    def wake(self) -> None:
        """Look for due runs at once."""
        for worker in self._workers:
            worker.wake()

    def stop(self) -> None:
        """Claim no more, let the actions in progress finish, and hand every run back.

        After `Settings.grace` seconds actions are cancelled: a paid call in flight is in doubt.
        """
        self.stopping = True
        self.apart.stop()
        if self.engine is not None and self._workers:
            self.engine.stop(self.runs.settings.grace)
        for worker in self._workers:
            worker.stop()
        end = time.monotonic() + self.runs.settings.grace + CUT
        for worker in self._workers:
            if worker.ident is not None:
                worker.join(max(0.1, end - time.monotonic()))
        self.apart.close(end + CUT)  # they need as long, and a moment
        for run_id, claimed in [*self.claims.items()]:  # its action blocks the loop of its worker
            _log.warning("run `%s` was cut: a call in flight is in doubt", run_id)
            with suppress(ChartloopError):
                by_hand(self.runs.journal.hand_back(self.id, claimed, 0.0))
        self._stopped.set()
        if self._keeper.ident is not None:
            self._keeper.join(CUT)
            self._listener.join(CUT)
            if self.engine is not None:
                self.engine.close()

    def _ended_apart(self, finished: bool) -> None:
        if finished:
            self.finished[EVERY] += 1
            self.made += 1
        self.wake()

    # one run alone --------------------------------------------------------------------------------

    def begin_claim(self) -> Literal["", "alone", "beside"]:
        """Whether a worker may claim now, and what: a run to drive alone, or others.

        `end_claim` must follow, unless it may not.
        """
        with self._lock:
            busy = bool(self._claiming or self.claims)
            now = time.monotonic()
            if self._alone or (self.only_one and self.over.is_set()):
                return ""
            if not busy and (self.only_one or self._lapsed is not None):
                self._alone = True
                return "alone"
            if self._lapsed is not None and now - self._lapsed > PATIENCE:
                return ""
            self._claiming += 1
            return "beside"

    def end_claim(self, how: str, claimed: Claimed) -> None:
        """Take note of what a worker has claimed."""
        with self._lock:
            if how == "beside":
                self._claiming -= 1
                if claimed.lapsed and not self.apart.command:
                    self._lapsed = self._lapsed or time.monotonic()
            else:
                self._alone, self._lapsed = bool(claimed.runs), None
        if how == "beside" and claimed.lapsed:
            if self.apart.command:
                self.apart.start(claimed.lapsed)
            elif not self.claims:
                self.wake()

    def end_run(self, claimed: Activation) -> None:
        """Take note that a run was handed back."""
        with self._lock:
            self.claims.pop(claimed.request.run_id, None)
            if claimed.alone:
                self._alone = False
                if self.only_one:
                    self.over.set()
        if not self.claims:
            self.wake()

    def drive_one(self) -> int:
        """Drive the only run, until a signal says stop; gives the exit code of the process."""
        stopped, parent = threading.Event(), os.getppid()
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda _, __: stopped.set())
        self.start()
        # if its worker is gone, it hands the run back: somebody may have ended them both
        while not (stopped.is_set() or self.over.wait(POLL)) and os.getppid() == parent:
            pass
        self.stop()
        if self.finished:
            return FINISHED
        return NOTHING if self.found_nothing else 0

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on a worker's loop: for runs that are driven without an order."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._workers[0].loop)

    def stuck(self) -> str:
        """What does not turn any more, for a probe; empty while all do, and when they stop."""
        for thread in (*self._workers, self._keeper) if self._workers and not self.stopping else ():
            if thread.ident is None or not thread.is_alive():
                return f"the thread {thread.name} has ended"
        for worker in self._workers if not self.stopping else ():
            if (silent := time.monotonic() - worker.turned) > STUCK:
                return f"the thread {worker.name} has not turned for {silent:.0f} s"
        return ""

    async def keep(self, ttl: float = TTL) -> None:
        """List this process as alive in the journal, with what it can drive and what it lacks."""
        row = WorkerRow(
            self.id, self.runs.settings.face, this_process(), self._room, dict(self.lacks)
        )  # fmt: skip
        await self.schedule.keep(row, ttl=ttl)

    @property
    def _room(self) -> int:
        """The number of runs that this process drives at once."""
        return self.runs.settings.workers * self.runs.settings.limits.at_once

    def _listen(self) -> None:
        """Wake the workers when anybody has written to the journal."""
        token, pause = "", QUICK
        while not self._stopped.is_set():
            time.sleep(pause)  # cheaper than a wait with a timeout
            try:
                news, pause = by_hand(self.runs.journal.changed(token)), QUICK
            except ChartloopError:  # `_keep_alive` tells
                news, pause = token, AGAIN
            if news is not None:
                token = news
                self.wake()

    def _keep_alive(self) -> None:
        """List this process, sweep the runs of dead ones, and start those of cron schedules.

        In a thread that no action blocks. It also judges the needs of runs that rest, one a turn,
        so that the view of the fleet knows whether another worker may end.
        """
        kept = time.monotonic()
        unjudged: dict[str, str] | None = None
        with asyncio.Runner() as runner:
            while not self._stopped.wait(AGAIN):
                try:
                    if lapses := time.monotonic() - kept > TTL / RENEWALS:
                        runner.run(self.keep())
                        kept = time.monotonic()
                        if self.apart.any:
                            listed = runner.run(self.schedule.workers())
                            self.apart.end_silent({one.id for one in listed})
                    swept = runner.run(self.schedule.sweep(lost=lapses))
                    if take_ticks(self.runs.journal, self.runs.machines, self.lacks) or swept:
                        self.wake()
                    if unjudged is None:
                        living = by_hand(self.runs.journal.living())
                        unjudged = {one.needs: one.run_id for one in living if one.place}
                    if unjudged:
                        needs, run_id = unjudged.popitem()
                        row = by_hand(self.runs.journal.row(run_id))
                        if needs not in self.lacks and row is not None:
                            self.lacks[needs] = self.runs.machines.lacks(row)
                except ChartloopError as error:
                    _log.warning("a worker could not write to the journal: %s", error.message)
            with suppress(ChartloopError):
                runner.run(self.keep(0))


class _Worker(threading.Thread):
    """A thread with its own event loop."""

    def __init__(self, workers: Workers, number: int) -> None:
        super().__init__(name=f"chartloop-worker-{number}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._workers = workers
        self._runs = workers.runs
        self._journal = workers.journal
        self._news = asyncio.Event()
        self._stopping = False
        self._following: float | None = None
        """When the next run becomes due."""
        self._looks = True
        """Whether to claim: somebody wrote, or a run ended here."""
        self._asks = 0.0
        """When to ask for the journal's time again."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: set[asyncio.Task[None]] = set()
        """The notices that it sends; they keep neither a run nor its end waiting."""
        self.turned = time.monotonic()
        """When its loop last began to look for runs."""

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
        """Look for due runs now. Safe from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the server stops
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._looks = True
        self._news.set()

    def stop(self) -> None:
        """End after the actions in progress. Safe from any thread."""
        self._stopping = True
        self.wake()

    def run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._work())

    async def _work(self) -> None:
        listed = False
        while not self._stopping:
            self.turned = time.monotonic()
            try:
                if not listed:
                    await self._workers.keep()
                    listed = True
                due, at = False, self.loop.time()
                if (following := self._following) is not None and at >= self._asks:
                    due, self._asks = following <= await self._journal.now(), at + POLL
                if due or self._looks:
                    self._looks = False
                    await self._claim()
            except ChartloopError as error:  # a locked journal, say: the next poll tries again
                _log.warning("a worker could not read the journal: %s", error.message)
                self._looks = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), POLL)
            self._news.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._runs.settings.grace)
        if cut := [*self._tasks]:
            for task in cut:
                task.cancel()
            await asyncio.wait(cut, timeout=CUT)

    async def _claim(self) -> None:
        """Claim due runs, up to the limit of runs that a worker drives at once."""
        room, lacks = self._runs.settings.limits.at_once - len(self._tasks), self._workers.lacks
        if room <= 0 or self._stopping:
            return
        if not (how := self._workers.begin_claim()):
            return
        can = {needs: not why for needs, why in [*lacks.items()]}
        alone, claimed = how == "alone", Claimed([], {}, None)
        try:
            claimed = await self._workers.schedule.claim(
                self._workers.id, 1 if alone else room, can, alone=alone
            )
            for run in claimed.runs:
                self._workers.claims[run.request.run_id] = run
                task = self.loop.create_task(self._carry_out(run))
                self._tasks.add(task)
                task.add_done_callback(self._end)
        finally:
            self._workers.end_claim(how, claimed)
        if self._workers.only_one and not (claimed.runs or claimed.unjudged):
            self._workers.found_nothing = True
            self._workers.over.set()
        self._following = claimed.following
        for needs, run_id in claimed.unjudged.items():
            if (row := await self._journal.row(run_id)) is not None:
                lacks[needs] = await asyncio.to_thread(self._runs.machines.lacks, row)
        if claimed.unjudged:
            await self._workers.keep()
            self._look()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._look()

    # one run --------------------------------------------------------------------------------------

    async def _carry_out(self, claimed: Activation) -> None:
        """Drive a claimed run and settle its order, or hand it back.

        The journal lets only the driver of the run settle it. What passes by itself, such as a
        locked file, a full disk or another driver, is no outcome.
        """
        request, driven, due = claimed.request, _Driven(), _LATER
        self._workers.driven.add(request.run_id)
        try:
            try:
                outcome, due = await self._drive(claimed, driven)
            except Exception as error:  # noqa: BLE001  stored as the outcome of the order
                if isinstance(error, OSError) or getattr(error, "passes", False):
                    _log.info("run `%s` is driven later: %s", request.run_id, error)
                    return
                _log.warning("run `%s` could not be driven", request.run_id, exc_info=error)
                outcome = {"problem": problem_of(error).body}
            if outcome is not None and await self._journal.settle_request(
                request.key, outcome, driven.epoch
            ):
                self._workers.finished[tenant_of(request.run_id)] += 1
                await self._order_late(request, driven.run)
        except ChartloopError as error:  # the outcome could not be written: the order is still open
            _log.warning("an order of run `%s` stays open: %s", request.run_id, error.message)
        except asyncio.CancelledError:
            _log.warning("run `%s` was cut: a call in flight is in doubt", request.run_id)
            due = 0.0
            raise
        finally:
            self._workers.driven.discard(request.run_id)
            await self._hand_back(claimed, due)
            self._workers.end_run(claimed)

    async def _order_late(self, request: StoredRequest, run: Run | None) -> None:
        """Place the order of a message that came while `request` was being settled.

        The run had been left and did not read it, and its sender still found an open order.
        """
        if run is not None and (message := await self._drives_on(run)) is not None:
            kind = "take" if message.data["kind"] == "answer" else "run"
            key, at = f"late-{message.msg_id}", await self._journal.now()
            order = StoredRequest(key, run.id, kind, key, at, {}, needs=request.needs)
            with suppress(StatusError):  # a later sender has placed one
                await self._journal.place_request(order)

    async def _drives_on(self, run: Run) -> InboxMessage | None:
        """The message in the inbox that a run which rests is to be driven for."""
        for message in () if run.ended else await self._journal.inbox(run.id):
            due, _ = next_due(run.session, [message])
            if due is not None and not due.drop and message.data["kind"] in DRIVES_ON:
                return message
        return None

    async def _hand_back(self, claimed: Activation, due: float | None) -> None:
        """Hand a run back, until that is done: else it stays claimed while this process lives."""
        while True:
            try:
                at = await self._journal.now() + AGAIN if due == _LATER else due
                return await self._workers.schedule.hand_back(self._workers.id, claimed, at)
            except ChartloopError as error:
                _log.warning("a worker could not write to the journal: %s", error.message)
            if self._stopping:
                return None
            await asyncio.sleep(AGAIN)

    async def _drive(
        self, claimed: Activation, driven: _Driven
    ) -> tuple[Mapping[str, Any] | None, float | None]:
        """Drive the run for an order; the outcome, or None and when the run is due again."""
        request = claimed.request
        run_id = request.run_id
        row = driven.row = await self._journal.row(run_id)
        if row is None:
            raise UnknownRunError("there is no run of this id")
        if row.ended:
            return _outcome(row, 0), _LATER
        run = driven.run = await asyncio.to_thread(self._runs.to_drive, row)
        run.session.ports.questions = "stay"  # questions of MCP servers are answered over HTTP
        stop = run.listen(lambda event: self._workers.hear(run_id, event))
        try:
            progress = await self._act(run, claimed)
        finally:
            stop()
            await leave(run.session)
        self._workers.made += progress.records
        told = await self._tell(run)
        row = await self._journal.row(run_id) or row
        if not told:
            again = await self._journal.now() + LOST
            return None, 0.0 if self._stopping else min(again, row.wake_at or again)
        held = is_held(run) and await self._drives_on(run) is None
        if request.kind != "run" or run.ended or held or progress.at_breakpoint:
            return _outcome(row, progress.records), _LATER
        return None, 0.0 if self._stopping or progress.is_cleared else row.wake_at

    async def _tell(self, run: Run) -> bool:
        """Tell people what a run asks. False while that takes longer than `PROMPT`."""
        notices, key = self._workers.notices, notice_of(self._runs.settings, run)
        if not key or key in notices:
            return notices.get(key, True)
        notices[key] = False
        post = self.loop.create_task(self._post(run, key))
        self._posts.add(post)
        post.add_done_callback(self._posts.discard)
        await asyncio.wait({post}, timeout=PROMPT)
        return post.done()

    async def _post(self, run: Run, key: str) -> None:
        """Send the notice of a run. One that was left meanwhile is looked at once more."""
        began = self.loop.time()
        if await tell_question(self._runs.settings, self._journal, run):
            del self._workers.notices[key]
        else:
            self._workers.notices[key] = True
        if self.loop.time() - began > PROMPT:
            with suppress(ChartloopError):
                await self._workers.schedule.enqueue(run.id)

    async def _act(self, run: Run, claimed: Activation) -> _Progress:
        request, trusted = claimed.request, time.monotonic() + PROBATION
        if request.kind in ("take", "step"):
            record = await (run.aadvance() if request.kind == "take" else run.astep())
            return _Progress(int(record is not None) + await self._finish_step(run))
        before = run.session.tally.records
        until = str(request.data.get("until") or "") or None

        def is_cleared() -> bool:
            has_new = run.session.tally.records > before
            return claimed.alone and has_new and time.monotonic() > trusted

        await run.arun(
            until=until,
            rest=lambda: self._stopping or waits_long(run.session) or is_cleared(),
        )
        records = run.session.tally.records - before
        return _Progress(records, bool(run.breakpoints.hit), is_cleared())

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


_LATER = -1.0
"""A run that is due `AGAIN` seconds later."""


class _Progress(NamedTuple):
    records: int
    at_breakpoint: bool = False
    is_cleared: bool = False
    """Whether it was driven alone for long enough."""


def _outcome(row: RunRow, records: int) -> Mapping[str, Any]:
    """The outcome of an order: where it left its run."""
    return {
        "status": row.status, "state": row.state, "reason": row.reason, "steps": row.steps,
        "records": records, **({"moved_to": row.moved_to} if row.moved_to else {}),
    }  # fmt: skip
