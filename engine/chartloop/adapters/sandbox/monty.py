"""The sandbox: Python that a model wrote, run by Monty, an interpreter without a host.

Monty knows a part of Python and no operating system: no files, sockets, processes, no
environment, no host functions. Each turn runs in its own worker process, started for it
(3 ms) and ended with it, so that nothing outlives a turn but the checkpoint of its variables,
and a resumed run is served exactly as one that never stopped.

A turn is a transaction. It ends, with or without an exception, and its variables are the next
checkpoint; or it is cut (time, memory, a crash, variables too large to keep) and the variables
are as they were before it. They are lost only when their checkpoint cannot be read: then the
code runs with none, and the result says so.

A checkpoint is checked for damage, not for who made it. Whoever can write the journal can forge
one; its code would still be in the worker, under the tighter of both sets of limits.

Belongs here: the only door to `pydantic_monty`, which is imported when a sandbox is made.
Source: 001 "Code Execution"; design "traps", "pydantic-monty".
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import signal
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import RunVar

from chartloop.adapters.sandbox.monty_values import Printed, as_json
from chartloop.core.errors import SetupError
from chartloop.core.units import say_duration
from chartloop.extras import install
from chartloop.run.ports import SandboxResult

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyError, MontySession, OSPolicy, ResourceLimits

LONGEST = 300.0
"""Seconds that a turn may take at most, whatever its caller allows. A worker whose host was
killed lives on for no longer."""
SETTLE = 10.0
"""Seconds more for a worker to start, to load a checkpoint, to write one and to end."""
CODE = 1_000_000
"""Characters of code that are run."""
CHECKPOINT = 4_000_000
"""Bytes that a session's variables may take between turns. Every turn writes them down."""

LOST = "The variables of earlier turns are gone: their checkpoint could not be read.\n"
AS_BEFORE = "The variables are as they were before this code."

POLICY: OSPolicy = {
    "datetime": "system",
    "timezone": "utc",
    "sleep": "zero",  # a sleep would be outside Monty's own time limit
    "process_time": "zero",
    "random_start": "system",
}
"""The code's access to time and randomness."""

_SEAL = b"chartloop.monty.1\n"
_slots: RunVar[anyio.CapacityLimiter] = RunVar("chartloop.monty.slots")


class MontySandbox:
    """Runs code in Monty. Needs an asyncio event loop, and none for as long as code runs.

    `timeout`, in seconds of wall clock, is for turns whose caller names none; it does not count
    the wait for a free core. `memory` is in bytes, for all variables of a session, and for what
    writing them down takes; a session made under less stays under less.

    Raises:
        SetupError: pydantic-monty is not installed, or only a part of it.
    """

    suspends = True

    def __init__(self, *, timeout: float = 60.0, memory: int = 128 * 2**20) -> None:
        try:
            _pool()
        except (ImportError, FileNotFoundError) as error:
            raise SetupError(
                f"the sandbox is not installed: {error}", hint=install("sandbox")
            ) from error
        self._timeout = timeout
        # A checkpoint carries its limits, and the tighter of both hold: so these do not vary by
        # turn, and the wall clock of a turn is kept outside.
        self.limits: ResourceLimits = {
            "max_feed_duration_secs": LONGEST,
            "max_turn_duration_secs": LONGEST,
            "max_memory": memory,
            "gc_interval": 10_000,
            "max_recursion_depth": 1_000,
            "max_suspensions": 1_000,
            "max_total_sleep_secs": 1.0,
        }
        """Every limit that Monty knows: each is off unless it is set."""

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        """Run `code` after the session's earlier code; see `run.ports.Sandbox`.

        Raises:
            SetupError: no worker can be started.
        """
        if len(code) > CODE:
            error = f"the code is {len(code):,} characters long; at most {CODE:,} are run"
            return SandboxResult(ok=False, error=error)
        seconds = min(self._timeout if timeout is None else timeout, LONGEST)
        if seconds <= 0:
            return SandboxResult(ok=False, error=f"TimeoutError: no time is left. {AS_BEFORE}")
        turn = _Turn(self.limits, code, session, seconds)
        async with _slot():
            done = await _answer(turn)
        return done._replace(timed_out=done.timed_out and seconds == timeout)


@asynccontextmanager
async def _slot() -> AsyncGenerator[None]:
    """One of as many turns at once as there are cores; the others wait."""
    try:
        slots = _slots.get()
    except LookupError:
        slots = anyio.CapacityLimiter(os.cpu_count() or 1)
        _slots.set(slots)
    async with slots:
        yield


async def _answer(turn: _Turn) -> SandboxResult:
    """The result of a turn. One that is cancelled or does not answer is stopped and abandoned."""
    turn.start()
    answer = asyncio.wrap_future(turn.answer)
    try:
        await asyncio.wait([answer], timeout=turn.seconds + SETTLE)
    finally:
        if not answer.done():
            turn.stop()
            with anyio.move_on_after(SETTLE, shield=True):
                await asyncio.wait([answer])
    if answer.done():
        return answer.result()
    # No one kept their time: as in the fork of a process that had used Monty before.
    return SandboxResult(ok=False, error=f"the sandbox did not answer. {AS_BEFORE}")


class _Turn:
    """One turn, in a thread: Monty's own event loop aborts interpreters that end soon after."""

    def __init__(
        self, limits: ResourceLimits, code: str, session: bytes | None, seconds: float
    ) -> None:
        self.answer: Future[SandboxResult] = Future()
        self.seconds = seconds
        self._limits = limits
        self._code = code
        self._session = session
        self._lock = threading.Lock()
        self._worker: int | None = None
        """The process to end, as long as it is ours."""
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="chartloop sandbox", daemon=True)

    def start(self) -> None:
        """Start. The answer comes by itself."""
        atexit.register(self._leave)
        self._thread.start()

    def stop(self) -> None:
        """End the worker in whatever it does, now or as soon as there is one."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                os.kill(self._worker, signal.SIGKILL)

    def _run(self) -> None:
        try:
            self.answer.set_result(self._result())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self.answer.set_exception(error)
        finally:
            atexit.unregister(self._leave)

    def _result(self) -> SandboxResult:
        payload = None if self._session is None else unseal(self._session)
        with _pool() as pool:
            if payload is not None:
                with self._worker_of(pool) as worker:
                    if _loads(worker, payload):
                        return self._feed(worker)
            with self._worker_of(pool) as worker:
                done = self._feed(worker)
        if self._session is None:
            return done
        return done._replace(session_lost=True, stderr=LOST + done.stderr)

    @contextmanager
    def _worker_of(self, pool: Monty) -> Generator[MontySession]:
        checkout = pool.checkout(limits=self._limits, os_policy=POLICY)
        try:
            worker = checkout.__enter__()
        except (RuntimeError, OSError) as error:
            raise SetupError(
                f"the sandbox does not start: {error}", hint=install("sandbox")
            ) from error
        try:
            with self._lock:
                self._worker = worker.worker_pid
            if self._stopped:
                self.stop()
            yield worker
        finally:
            with self._lock:
                self._worker = None
            checkout.__exit__(None, None, None)

    @contextmanager
    def _time_limit(self) -> Generator[None]:
        """End the worker when it takes longer than `seconds` in this block."""
        timer = threading.Timer(self.seconds, self.stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _leave(self) -> None:
        """When the process ends: a thread that came back any later would abort it."""
        self.stop()
        self._thread.join(SETTLE)

    def _feed(self, worker: MontySession) -> SandboxResult:
        """Run the code and write down its variables."""
        from pydantic_monty import MontyError  # noqa: PLC0415

        printed, value, faults, cut = Printed(), None, list[str](), False
        with self._time_limit():
            try:
                value = as_json(worker.feed_run(self._code, print_callback=printed.write))
            except MontyError as raised:
                faults, cut = [_format_traceback(raised)], _is_cut(raised)
        if self._stopped:
            after = say_duration(self.seconds)
            faults, cut = [f"TimeoutError: the code was stopped after {after}"], True
        checkpoint = None if cut else _checkpoint(worker)
        if not cut and checkpoint is None:
            faults.append(f"MemoryError: its variables take over {CHECKPOINT:,} bytes to keep")
        if checkpoint is None:
            faults.append(AS_BEFORE)
        stdout, stderr = printed.text("stdout"), printed.text("stderr")
        return SandboxResult(
            not faults, value, stdout, stderr, "\n".join(faults), checkpoint,
            timed_out=self._stopped,
        )  # fmt: skip


def _pool() -> Monty:
    from pydantic_monty import Monty  # noqa: PLC0415 - an extra, and 50 ms

    return Monty(
        min_processes=0,
        max_processes=2,  # a second one after a checkpoint that could not be read
        checkout_timeout=SETTLE,
        request_timeout=LONGEST + SETTLE,
        feed_duration_limit_grace=1.0,
        turn_duration_limit_grace=1.0,
    )


def _loads(worker: MontySession, payload: bytes) -> bool:
    """Whether the checkpoint could be read; else the worker is not to be used."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    try:
        worker.load_session(payload)
    except MontyError:
        return False
    return True


def _is_cut(raised: MontyError) -> bool:
    """Whether Monty stopped in the middle of something: the session may not be used any more.

    Code that raises such an error itself is taken for it.
    """
    from pydantic_monty import MontyCrashedError  # noqa: PLC0415

    limits = (MemoryError, TimeoutError)
    return isinstance(raised, MontyCrashedError) or isinstance(raised.exception(), limits)


def _format_traceback(raised: MontyError) -> str:
    """The traceback as Python prints it; the middle of a long one is left out."""
    from pydantic_monty import MontyRuntimeError, MontySyntaxError  # noqa: PLC0415

    shown = isinstance(raised, (MontyRuntimeError, MontySyntaxError))
    text = raised.display() if shown else str(raised)
    lines = [line if len(line) <= 200 else line[:199] + "…" for line in text.splitlines()]
    return "\n".join(lines if len(lines) <= 40 else [*lines[:10], "  …", *lines[-29:]])


def _checkpoint(worker: MontySession) -> bytes | None:
    """The session's variables, sealed; None when they are too large to keep."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    try:
        payload = worker.dump()
    except MontyError:
        return None
    return seal(payload) if len(payload) <= CHECKPOINT else None


def seal(payload: bytes) -> bytes:
    """A checkpoint with its checksum in front."""
    return _SEAL + hashlib.sha256(payload).digest() + payload


def unseal(session: bytes) -> bytes | None:
    """The payload of a sealed checkpoint; None when damaged, foreign or too large."""
    start = len(_SEAL) + hashlib.sha256().digest_size
    payload = session[start:]
    return payload if len(payload) <= CHECKPOINT and seal(payload) == session else None
