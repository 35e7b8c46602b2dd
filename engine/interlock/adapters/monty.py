"""The sandbox: Python that a model wrote, run by Monty, an interpreter without a host.

Monty knows a part of Python and no operating system: no files, sockets, processes, no
environment, no host functions. Each turn runs in a worker process of its own, started for it
(3 ms) and ended with it, so that nothing outlives a turn but the checkpoint of its variables,
and a resumed run is served exactly as one that never stopped.

A turn is a transaction. It ends, with or without an exception, and its variables are the next
checkpoint; or it is cut (time, memory, a crash, variables too large to keep) and the variables
are as they were before it. They are lost only when their checkpoint cannot be read: then the
code runs with none, and the result says so.

A checkpoint is checked for damage, not for who made it. Whoever can write the journal can forge
one: that code would still be in the worker, under the tighter of both sets of limits.

Belongs here: the only door to `pydantic_monty`, which needs an asyncio event loop.
Source: 001 "Code Execution"; design "traps", "pydantic-monty".
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import RunVar

from interlock.adapters.monty_values import Printed, as_json
from interlock.core.errors import SetupError
from interlock.core.units import say_duration
from interlock.run.ports import SandboxResult

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, AsyncMontySession, MontyError, OSPolicy, ResourceLimits

LONGEST = 600.0
"""Seconds that a turn may take at most, whatever its caller allows."""
SETTLE = 10.0
"""Seconds more for a worker to start, to load a checkpoint, to write one and to end."""
CODE = 1_000_000
"""Characters of code that are run."""
CHECKPOINT = 4_000_000
"""Bytes that a session's variables may take between turns. Every turn writes them down."""

LOST = "The variables of earlier turns are gone: their checkpoint could not be read.\n"
AS_BEFORE = "The variables are as they were before this code."
INSTALL = 'pip install "interlock[sandbox]"'

POLICY: OSPolicy = {
    "datetime": "system",
    "timezone": "utc",
    "sleep": "zero",  # a sleep would be outside Monty's own time limit
    "process_time": "zero",
    "random_start": "system",
}
"""What the code learns of the time and of chance."""

_SEAL = b"interlock.monty.1\n"
_slots: RunVar[anyio.CapacityLimiter] = RunVar("interlock.monty.slots")


class MontySandbox:
    """Runs code in Monty.

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
            raise SetupError(f"the sandbox is not installed: {error}", hint=INSTALL) from error
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
        async with _slot():
            with anyio.move_on_after(seconds + SETTLE):
                return await self._turn(code, session, seconds)
        # Neither Monty nor its pool kept its time: as in the fork of a process that used them.
        return SandboxResult(ok=False, error=f"the sandbox did not answer. {AS_BEFORE}")

    async def _turn(self, code: str, session: bytes | None, seconds: float) -> SandboxResult:
        payload = None if session is None else unsealed(session)
        async with _started(_pool()) as pool:
            if payload is not None:
                async with pool.checkout(limits=self.limits, os_policy=POLICY) as worker:
                    if await _loads(worker, payload):
                        return await _feed(worker, code, seconds)
            async with pool.checkout(limits=self.limits, os_policy=POLICY) as worker:
                done = await _feed(worker, code, seconds)
        if session is None:
            return done
        return done._replace(session_lost=True, stderr=LOST + done.stderr)


def _pool() -> AsyncMonty:
    from pydantic_monty import AsyncMonty  # noqa: PLC0415 - an extra, and 50 ms

    return AsyncMonty(
        min_processes=1,
        max_processes=2,  # a second one after a checkpoint that could not be read
        checkout_timeout=SETTLE,
        request_timeout=LONGEST + SETTLE,
        feed_duration_limit_grace=1.0,
        turn_duration_limit_grace=1.0,
    )


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


@asynccontextmanager
async def _started(pool: AsyncMonty) -> AsyncGenerator[AsyncMonty]:
    try:
        await pool.__aenter__()
    except (RuntimeError, OSError) as error:
        raise SetupError(f"the sandbox does not start: {error}", hint=INSTALL) from error
    try:
        yield pool
    finally:
        await pool.__aexit__(None, None, None)


async def _loads(worker: AsyncMontySession, payload: bytes) -> bool:
    """Whether the checkpoint could be read; else the worker is not to be used."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    try:
        await worker.load_session(payload)
    except MontyError:
        return False
    return True


async def _feed(worker: AsyncMontySession, code: str, seconds: float) -> SandboxResult:
    """Run the code and write down its variables."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    printed, value, faults, cut = Printed(), None, list[str](), True
    with anyio.move_on_after(seconds):
        try:
            value = as_json(await worker.feed_run(code, print_callback=printed.write))
            cut = False
        except MontyError as raised:
            faults, cut = [_told(raised)], _is_cut(raised)
    if cut and not faults:
        faults = [f"TimeoutError: the code was stopped after {say_duration(seconds)}"]
    checkpoint = None if cut else await _checkpoint(worker)
    if not cut and checkpoint is None:
        faults.append(f"MemoryError: its variables take more than {CHECKPOINT:,} bytes to keep")
    if checkpoint is None:
        faults.append(AS_BEFORE)
    stdout, stderr = printed.text("stdout"), printed.text("stderr")
    return SandboxResult(not faults, value, stdout, stderr, "\n".join(faults), checkpoint)


def _is_cut(raised: MontyError) -> bool:
    """Whether Monty stopped in the middle of something: the session may not be used any more.

    Code that raises such an error itself is taken for it.
    """
    from pydantic_monty import MontyCrashedError  # noqa: PLC0415

    limits = (MemoryError, TimeoutError)
    return isinstance(raised, MontyCrashedError) or isinstance(raised.exception(), limits)


def _told(raised: MontyError) -> str:
    """What was raised, as Python shows it; of a long trace its beginning and its end."""
    from pydantic_monty import MontyRuntimeError, MontySyntaxError  # noqa: PLC0415

    shown = isinstance(raised, (MontyRuntimeError, MontySyntaxError))
    text = raised.display() if shown else str(raised)
    lines = [line if len(line) <= 200 else line[:199] + "…" for line in text.splitlines()]
    return "\n".join(lines if len(lines) <= 40 else [*lines[:10], "  …", *lines[-29:]])


async def _checkpoint(worker: AsyncMontySession) -> bytes | None:
    """The session's variables, sealed; None when they are too large to keep."""
    from pydantic_monty import MontyError  # noqa: PLC0415

    try:
        payload = await worker.dump()
    except MontyError:
        return None
    return sealed(payload) if len(payload) <= CHECKPOINT else None


def sealed(payload: bytes) -> bytes:
    """A checkpoint that tells whether it was damaged."""
    return _SEAL + hashlib.sha256(payload).digest() + payload


def unsealed(session: bytes) -> bytes | None:
    """What was sealed; None when it was damaged, is none of ours or is too large."""
    start = len(_SEAL) + hashlib.sha256().digest_size
    payload = session[start:]
    return payload if len(payload) <= CHECKPOINT and sealed(payload) == session else None
