"""The sandbox: model-written Python, run by Monty, an interpreter without access to the host.

Monty implements a part of Python without an operating system: no files, sockets, processes,
environment or host functions. Each turn runs in its own worker process, which is started for it
(3 ms) and ended with it, so that only the checkpoint of its variables outlives a turn, and a
resumed run behaves exactly like one that never stopped.

A turn is a transaction. Either it ends, with or without an exception, and its variables become the
next checkpoint; or it is cut off (time, memory, a crash, variables too large to keep) and the
variables are unchanged. They are lost only if their checkpoint cannot be read: then the code runs
without them, and the result tells so.

A checkpoint is checked for damage, but not authenticated. Whoever can write the journal can forge
one; its code would still run in the worker, under the tighter of both sets of limits.

Belongs here: the only import of `pydantic_monty`, when a sandbox is made.
Source: 001 "Code Execution"; docs/coding-agent.md.
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
from contextlib import asynccontextmanager, contextmanager, suppress
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
"""The longest turn in seconds, whatever its caller allows. A worker whose host was killed ends
after this time at the latest."""
SETTLE = 10.0
"""The additional seconds for a worker to start, to load and write checkpoints, and to end."""
CODE = 1_000_000
"""The longest code, in characters."""
CHECKPOINT = 4_000_000
"""The most bytes of a session's variables, which every turn writes to the journal."""

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
    """Runs code in Monty. Needs an asyncio event loop, which it does not block.

    `timeout`, in seconds of wall-clock time, is the default for turns without one; the wait for a
    free core is not included. `memory` is in bytes, for all variables of a session and for writing
    them; a session made with a lower limit keeps that.

    Raises:
        SetupError: if pydantic-monty is not installed, or only in part.
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
        # A checkpoint contains its limits, and the tighter of both apply. So they must not vary by
        # turn, and the timeout of a turn is enforced outside.
        self.limits: ResourceLimits = {
            "max_feed_duration_secs": LONGEST,
            "max_turn_duration_secs": LONGEST,
            "max_memory": memory,
            "gc_interval": 10_000,
            "max_recursion_depth": 1_000,
            "max_suspensions": 1_000,
            "max_total_sleep_secs": 1.0,
        }
        """All limits of Monty, because each is off unless it is set."""

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        """Run `code` after the session's earlier code; see `run.ports.Sandbox`.

        Raises:
            SetupError: if no worker can be started.
        """
        if len(code) > CODE:
            error = f"the code is {len(code):,} characters long; at most {CODE:,} are run"
            return SandboxResult(ok=False, error=error)
        seconds = min(self._timeout if timeout is None else timeout, LONGEST)
        if seconds <= 0:
            return SandboxResult(ok=False, error=f"TimeoutError: no time is left. {AS_BEFORE}")
        turn = Turn(self.limits, code, session, seconds)
        async with _slot():
            done = await _answer(turn)
        return done._replace(timed_out=done.timed_out and seconds == timeout)


@asynccontextmanager
async def _slot() -> AsyncGenerator[None]:
    """A slot for a turn: there are as many as cores, and other turns wait."""
    try:
        slots = _slots.get()
    except LookupError:
        slots = anyio.CapacityLimiter(os.cpu_count() or 1)
        _slots.set(slots)
    async with slots:
        yield


async def _answer(turn: Turn) -> SandboxResult:
    """Run a turn to its result. A turn that is cancelled or does not answer is stopped."""
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
    # neither limit worked, as in the fork of a process that had used Monty before
    return SandboxResult(ok=False, error=f"the sandbox did not answer. {AS_BEFORE}")


class Turn:
    """One turn in a thread, because Monty's own event loop aborts an interpreter that ends soon."""

    def __init__(
        self, limits: ResourceLimits, code: str, session: bytes | None, seconds: float
    ) -> None:
        self.answer: Future[SandboxResult] = Future()
        self.seconds = seconds
        self._limits = limits
        self._code = code
        self._session = session
        self._lock = threading.Lock()
        self.worker: int | None = None
        """The process of the worker, as long as it is in use."""
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="chartloop sandbox", daemon=True)

    def start(self) -> None:
        """Start the turn, whose result will be set on `answer`."""
        atexit.register(self._leave)
        self._thread.start()

    def stop(self) -> None:
        """Kill the worker, now or as soon as there is one."""
        with self._lock:
            self._stopped = True
            if self.worker is not None:
                # a worker that its own limit ended just now needs no second end
                with suppress(ProcessLookupError):
                    os.kill(self.worker, signal.SIGKILL)

    def _run(self) -> None:
        try:
            self.answer.set_result(self._result())
        except BaseException as error:  # noqa: BLE001 - raised again by `answer`
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
                self.worker = worker.worker_pid
            if self._stopped:
                self.stop()
            yield worker
        finally:
            with self._lock:
                self.worker = None
            checkout.__exit__(None, None, None)

    @contextmanager
    def _time_limit(self) -> Generator[None]:
        """A block in which the worker is killed after `seconds`."""
        timer = threading.Timer(self.seconds, self.stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _leave(self) -> None:
        """Stop at the end of the process, which a thread that returns later would abort."""
        self.stop()
        self._thread.join(SETTLE)

    def _feed(self, worker: MontySession) -> SandboxResult:
        """Run the code and make the checkpoint of its variables."""
        from pydantic_monty import MontyCrashedError, MontyError  # noqa: PLC0415

        printed, value, faults, cut = Printed(), None, list[str](), False
        with self._time_limit():
            try:
                value = as_json(worker.feed_run(self._code, print_callback=printed.write))
            except MontyError as raised:
                faults = [_format_traceback(raised)]
                # such a session must not be used any more; code that raises these itself counts too
                limits = (MemoryError, TimeoutError)
                cut = isinstance(raised, MontyCrashedError)
                cut = cut or isinstance(raised.exception(), limits)
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
        max_processes=2,  # a second one if a checkpoint cannot be read
        checkout_timeout=SETTLE,
        request_timeout=LONGEST + SETTLE,
        feed_duration_limit_grace=1.0,
        turn_duration_limit_grace=1.0,
    )


def _loads(worker: MontySession, payload: bytes) -> bool:
    """Load a checkpoint; False if it cannot be read, and then the worker must not be used."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    try:
        worker.load_session(payload)
    except MontyError:
        return False
    return True


def _format_traceback(raised: MontyError) -> str:
    """The traceback as Python prints it, without the middle of a long one."""
    from pydantic_monty import MontyRuntimeError, MontySyntaxError  # noqa: PLC0415

    has_traceback = isinstance(raised, (MontyRuntimeError, MontySyntaxError))
    text = raised.display() if has_traceback else str(raised)
    lines = [line if len(line) <= 200 else line[:199] + "…" for line in text.splitlines()]
    return "\n".join(lines if len(lines) <= 40 else [*lines[:10], "  …", *lines[-29:]])


def _checkpoint(worker: MontySession) -> bytes | None:
    """The sealed variables of the session; None if they are too large to keep."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    try:
        payload = worker.dump()
    except MontyError:
        return None
    return seal(payload) if len(payload) <= CHECKPOINT else None


def seal(payload: bytes) -> bytes:
    """Prepend the checksum to a checkpoint."""
    return _SEAL + hashlib.sha256(payload).digest() + payload


def unseal(session: bytes) -> bytes | None:
    """The payload of a sealed checkpoint; None if it is damaged, foreign or too large."""
    start = len(_SEAL) + hashlib.sha256().digest_size
    payload = session[start:]
    return payload if len(payload) <= CHECKPOINT and seal(payload) == session else None
