"""What an exception that comes out of an action or tool means.

Most are failures of the action and go on the record. A few are not its own: those that blame
the caller or the journal, a cancellation from outside, Ctrl-C.

Source: 002 "AgentStopException"; 003 "Error Categories".
"""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import replace
from typing import cast

from chartloop.core.errors import Category, ModelError, RunError, ToolError
from chartloop.core.facts import Failure
from chartloop.core.outcome import Outcome
from chartloop.core.reasons import AgentStop, StopSignal
from chartloop.core.units import say_elapsed
from chartloop.run.context import TOO_LATE, Context
from chartloop.run.sanitize import cut_text, sound_signal

A_HAIR = 0.05
"""Seconds by which the loop's clock, which ends an action, may be ahead of the run's."""


def stop_signal(context: Context, stop: AgentStop, source: str) -> StopSignal:
    """The signal that an `AgentStop` asks for. Source: 002 `fromStopException()`."""
    if stop.step is None:
        stop.step = context.step
    signal = sound_signal(StopSignal.from_exception(stop, source=source))
    return replace(signal, reason=context.machine.reason(signal.reason))


def failure_of(error: BaseException, context: Context) -> Outcome:
    """The outcome of an action that raised. What is not the action's own is raised again."""
    if (blaming := _blaming(error)) is not None:
        raise blaming
    if isinstance(error, AgentStop):
        return Outcome(signals=(stop_signal(context, error, context.state.name),))
    if isinstance(error, ModelError):
        return Outcome(ok=False, error=failure_of_call(error), unanswered=1)
    if isinstance(error, ToolError):
        return Outcome.failure(error.category, cut_text(error.message), kind="raised")
    if isinstance(error, TimeoutError):
        return Outcome.failure(Category.TRANSIENT, cut_text(describe(error)), kind="timeout")
    return Outcome.failure(Category.CRITICAL, cut_text(describe(error)), kind="raised")


def failure_of_call(error: ModelError) -> Failure:
    """A model call that failed, with the wait that the provider asked for."""
    asked, wait = error.retry_after, None
    if isinstance(asked, (int, float)) and not isinstance(asked, bool) and 0 < asked < math.inf:
        wait = min(float(asked), LONGEST_ASKED)
    return Failure(str(error.category), cut_text(error.message), "", error.kind, wait)


LONGEST_ASKED = 1e9
"""Seconds: no longer wait is told apart from for ever."""


def too_long(name: str, seconds: float) -> Failure:
    """The failure of what was ended at its deadline."""
    text = f"{name} took too long: stopped after {say_elapsed(seconds)}"
    return Failure(str(Category.TRANSIENT), text, "", "timeout")


def stop_with_parent(context: Context) -> tuple[StopSignal, ...]:
    """What the run is stopped for where its parent's action has to be done by the deadline."""
    above = context.host.deadline
    if above is None or context.deadline is None or context.deadline < above - A_HAIR:
        return ()
    reason, said, source = TOO_LATE
    return (StopSignal(context.machine.reason(reason), said, {}, source),)


def is_own(error: BaseException) -> bool:
    """Whether an exception is the action's own failure."""
    if isinstance(error, Exception):
        return not isinstance(error, RunError)
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        # signals are handled in the main thread: elsewhere no one but the action can raise these
        return threading.current_thread() is not threading.main_thread()
    return isinstance(error, asyncio.CancelledError) and not _is_cancelled()


def describe(error: BaseException) -> str:
    """An exception's class and text; its class alone where its text cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  `__str__` may raise anything
        return type(error).__name__


def _is_cancelled() -> bool:
    """Whether someone outside cancelled the current task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # driven by hand: there is no task
        return False
    return task is not None and task.cancelling() > 0


def _blaming(error: BaseException) -> BaseException | None:
    """What is not the action's own: the exception itself, or the first such of a group."""
    if not isinstance(error, BaseExceptionGroup):
        return None if is_own(error) else error
    parts = cast(BaseExceptionGroup[BaseException], error).exceptions
    return next((found for part in parts if (found := _blaming(part)) is not None), None)
