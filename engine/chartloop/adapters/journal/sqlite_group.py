"""A SQLite journal for event loops: a run that is alone writes at once, many share transactions.

A short call takes less time than the way to another thread and back, so a loop on which few runs
write makes it where it is. It never waits there: where the file or the journal is in use, or the
disk has to be waited for, the call goes to a worker thread.

A transaction costs far more than the rows in it. Where many runs write, the calls of one tick of
the loop, and those that arrive while the group before them is written, are written together, by
the worker. Each caller gets its own result or its own error; a refusal (`Fenced`) concerns only
its caller, because it comes before anything is written. A caller that is cancelled before its
group starts has written nothing.

Belongs here: gathering. Never: SQL, transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from chartloop.adapters.journal.face import Done, Job, JournalFace
from chartloop.adapters.journal.sqlite_migrations import Connection
from chartloop.adapters.journal.sqlite_rows import Writer
from chartloop.core.durability import Durability
from chartloop.core.errors import JournalError

T = TypeVar("T")

PACE = 0.001
"""Seconds from the beginning of a group to that of the next, at least. With a thousand agents it
makes groups of dozens out of groups of ten, for a third less CPU."""
FEW = 4
"""Runs that may call in turn, with less than `PACE` between two calls, before the next one's are
gathered. A group of fewer costs more than as many transactions."""


class Engine(NamedTuple):
    """Carries groups out."""

    perform: Callable[[Sequence[Job]], list[Done]]
    """Performs jobs in one transaction; an outcome each."""
    attempt: Callable[[Job], Done | None]
    """Performs a job in this thread; None where it would have to wait."""
    worker: Callable[[], Executor]
    """One thread. Raises when the journal is closed."""
    name: str
    durability: Durability
    close: Callable[[], None]
    direct: Callable[[], JournalFace | None]
    """The face that performs each job at once."""


class GroupedJournal(JournalFace):
    """The face for event loops. Get it as `SqliteJournal.grouped`.

    Several loops, in several threads, may use it at once; each gathers its own groups.
    """

    suspends = True

    def __init__(self, engine: Engine, writer: Writer, now: Callable[[], float]) -> None:
        super().__init__(writer, now)
        self._engine = engine
        self._gathered: WeakKeyDictionary[asyncio.AbstractEventLoop, _Group] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        """The file."""
        return self._engine.name

    @property
    def durability(self) -> Durability:
        """The failures that a write survives once it has returned."""
        return self._engine.durability

    @property
    def direct(self) -> JournalFace:
        """The same journal for threads without an event loop: no method suspends."""
        return self._engine.direct() or self

    async def close(self) -> None:
        """Let the file go. What is being written is finished, what only waits is refused."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._engine.close)

    async def _perform(
        self,
        run_id: str,
        work: Callable[[Connection], T],
        *,
        writes: bool = True,
        long: bool = False,
    ) -> T:
        job = Job(work, writes, long)
        loop = asyncio.get_running_loop()
        if long:
            done = await loop.run_in_executor(None, self._engine.perform, [job])
            return done[0].get()
        group = self._gathered.get(loop)
        if group is None:
            group = self._gathered[loop] = _Group(self._engine)
        if group.has_room(run_id, loop.time()):
            at_once = self._engine.attempt(job)
            group.last = loop.time()
            if at_once is not None:
                return at_once.get()
        return await group.add(loop, job)


class _Waiting(NamedTuple):
    job: Job
    answer: asyncio.Future[Any]


class _Group:
    """The jobs that one loop has gathered. Used in that loop's thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._begun = 0.0
        self._recent: set[str] = set()
        """The runs that called since there was a pause."""
        self.last = 0.0
        """When a call was made at once last."""

    def has_room(self, run_id: str, now: float) -> bool:
        """Whether a call may be made at once: nothing is gathered, and few runs call."""
        if self._busy:
            return False
        if now - self.last > PACE:
            self._recent.clear()
        self._recent.add(run_id)
        return len(self._recent) <= FEW

    def add(self, loop: asyncio.AbstractEventLoop, job: Job) -> asyncio.Future[Any]:
        answer = loop.create_future()
        self._waiting.append(_Waiting(job, answer))
        if not self._busy:
            self._busy = True
            self._schedule(loop)
        return answer

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        pause = self._begun + PACE - loop.time()
        if pause > 0:
            loop.call_later(pause, self._begin, loop)
        else:
            loop.call_soon(self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand to the worker what was gathered, less what no one waits for any more."""
        self._begun = loop.time()
        group = [waiting for waiting in self._waiting if not waiting.answer.cancelled()]
        self._waiting = []
        jobs = [waiting.job for waiting in group]
        try:
            written = loop.run_in_executor(self._engine.worker(), self._engine.perform, jobs)
        except Exception as error:  # noqa: BLE001 - those who wait have to be told
            self._end(loop, group, [Done(error=error)] * len(group))
        else:
            written.add_done_callback(lambda written: self._finish_group(loop, group, written))

    def _finish_group(
        self,
        loop: asyncio.AbstractEventLoop,
        group: Sequence[_Waiting],
        written: asyncio.Future[list[Done]],
    ) -> None:
        error = None if written.cancelled() else written.exception()
        if written.cancelled() or error is not None:
            lost = JournalError(
                "the journal's worker was stopped; read the journal to see what was written"
            )
            lost.__cause__ = error
            self._end(loop, group, [Done(error=lost)] * len(group))
        else:
            self._end(loop, group, written.result())

    def _end(
        self, loop: asyncio.AbstractEventLoop, group: Sequence[_Waiting], outcomes: Sequence[Done]
    ) -> None:
        for (_, answer), (value, error) in zip(group, outcomes, strict=True):
            if answer.done():
                continue
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)
        if self._waiting:
            self._schedule(loop)
        else:
            self._busy = False
