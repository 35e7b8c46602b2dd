"""The journal for event loops, over a database that threads call: runs share its transactions.

A short call takes less time than a switch to another thread and back, so while few runs write, the
loop makes it in place, where the database can. It never waits there: if the database is in use, or
the call must wait for the disk or a server, the call goes to a worker thread.

A transaction costs far more than its rows. When many runs write, the calls of one tick of the loop,
and those that arrive while the previous group is written, form a group for the worker. Each caller
gets its own result or error; a refusal (`Fenced`) affects only its caller, because it comes before
anything is written. A caller that is cancelled before its group starts has written nothing.

Belongs here: groups and their loops. Never: transactions, SQL.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from chartloop.adapters.journal.face import Call, Done, JournalFace, is_long
from chartloop.adapters.journal.writes import Writer
from chartloop.core.durability import Durability
from chartloop.core.errors import JournalError

PACE = 0.001
"""The least time in seconds between the starts of two groups. With a thousand agents it turns
groups of ten into groups of dozens, for a third less CPU."""
FEW = 4
"""The number of runs that may call in turn, with less than `PACE` in between, before calls are
grouped. A smaller group costs more than separate transactions."""


class Direct(Protocol):
    """The same journal for threads without an event loop: no method suspends."""

    durability: Durability

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path | None: ...

    def perform(self, calls: Sequence[Call]) -> list[Done]:
        """Perform calls in one transaction; each has its own outcome."""
        ...

    def attempt(self, call: Call) -> Done | None:
        """Perform a short call in this thread; None if it would wait, and then nothing was done."""
        ...

    def worker(self) -> Executor:
        """The executor with one thread. Raises if the journal is closed."""
        ...

    def close_file(self) -> None:
        """Close it, once a transaction in progress is finished."""
        ...


class GroupedJournal(JournalFace):
    """The journal for event loops.

    Several loops in several threads may use it concurrently; each has its own groups.
    """

    suspends = True

    def __init__(self, direct: Direct, writer: Writer) -> None:
        super().__init__(writer)
        self.direct = direct
        """The same journal for threads without an event loop: no method suspends."""
        self.path = direct.path
        """The file, if it is in one."""
        self.name = direct.name
        self.durability: Durability | None = direct.durability
        """The failures that a completed write survives."""
        self._gathered: WeakKeyDictionary[asyncio.AbstractEventLoop, _Group] = WeakKeyDictionary()

    async def close(self) -> None:
        """Close the file. A write in progress is finished, a waiting one is refused."""
        await asyncio.get_running_loop().run_in_executor(None, self.direct.close_file)

    async def _perform(self, call: Call) -> Any:
        loop = asyncio.get_running_loop()
        if is_long(call):
            done = await loop.run_in_executor(None, self.direct.perform, (call,))
            return done[0].get()
        group = self._gathered.get(loop)
        if group is None:
            group = self._gathered[loop] = _Group(self.direct)
        if group.has_room(call.run_id, loop.time()):
            at_once = self.direct.attempt(call)
            group.last = loop.time()
            if at_once is not None:
                return at_once.get()
        return await group.add(loop, call)


class _Waiting(NamedTuple):
    call: Call
    answer: asyncio.Future[Any]


class _Group:
    """The calls that one loop has collected. Used only in the thread of that loop."""

    def __init__(self, direct: Direct) -> None:
        self._direct = direct
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._begun = 0.0
        self._recent: set[str] = set()
        """The runs that have called since the last pause."""
        self.last = 0.0
        """The loop's time of the last call that was made at once."""

    def has_room(self, run_id: str, now: float) -> bool:
        """Whether a call may be made at once, because no group is pending and few runs call."""
        if self._busy:
            return False
        if now - self.last > PACE:
            self._recent.clear()
        self._recent.add(run_id)
        return len(self._recent) <= FEW

    def add(self, loop: asyncio.AbstractEventLoop, call: Call) -> asyncio.Future[Any]:
        answer = loop.create_future()
        self._waiting.append(_Waiting(call, answer))
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
        """Hand the collected calls to the worker, except those whose caller was cancelled."""
        self._begun = loop.time()
        group = [waiting for waiting in self._waiting if not waiting.answer.cancelled()]
        self._waiting = []
        calls = [waiting.call for waiting in group]
        try:
            written = loop.run_in_executor(self._direct.worker(), self._direct.perform, calls)
        except Exception as error:  # noqa: BLE001 - passed to the callers
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
