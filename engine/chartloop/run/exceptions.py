"""Exceptions raised by actions and tools, turned into outcomes.

Most are failures of the action and are recorded. A few are not its own and pass through: errors of
the caller or the journal, a cancellation from outside, Ctrl-C.

Source: 002 "AgentStopException"; 003 "Error Categories".
"""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import replace
from typing import cast

from chartloop.core.errors import Category, ModelError, OutcomeUnknown, RunError, ToolError
from chartloop.core.facts import Failure
from chartloop.core.outcome import Outcome
from chartloop.core.reasons import AgentStop, StopSignal
from chartloop.core.units import say_elapsed
from chartloop.run.context import Context
from chartloop.run.sanitize import cut_text, sound_signal
from chartloop.run.session import TOO_LATE

A_HAIR = 0.05
"""Seconds by which the event loop's clock, which ends an action, may be ahead of the run's."""


UNSURE = (TimeoutError, ConnectionError, OutcomeUnknown)
"""The exceptions by which a tool or an action says that it does not know how its call ended."""


def stop_signal(context: Context, stop: AgentStop, source: str) -> StopSignal:
    """The signal for an `AgentStop`. Source: 002 `fromStopException()`."""
    if stop.step is None:
        stop.step = context.step
    signal = sound_signal(StopSignal.from_exception(stop, source=source))
    return replace(signal, reason=context.machine.reason(signal.reason))


def failure_of(error: BaseException, context: Context) -> Outcome:
    """The outcome of an action that raised. An error that is not its own is raised again."""
    if (foreign := _foreign(error)) is not None:
        raise foreign
    if isinstance(error, AgentStop):
        return Outcome(signals=(stop_signal(context, error, context.state.name),))
    if isinstance(error, ModelError):
        return outcome_of_call(error)
    unsure = isinstance(error, UNSURE)
    if isinstance(error, ToolError):
        text = cut_text(error.message)
        return Outcome.failure(error.category, text, kind="raised", in_doubt=unsure)
    text = cut_text(describe(error))
    if isinstance(error, TimeoutError):
        return Outcome.failure(Category.TRANSIENT, text, kind="timeout", in_doubt=unsure)
    return Outcome.failure(Category.CRITICAL, text, kind="raised", in_doubt=unsure)


def outcome_of_call(error: ModelError) -> Outcome:
    """The outcome of a failed model call, with what it used and the delay that was asked for."""
    delay, wait = error.retry_after, None
    if isinstance(delay, (int, float)) and not isinstance(delay, bool) and 0 < delay < math.inf:
        wait = min(float(delay), LONGEST_ASKED)
    failure = Failure(str(error.category), cut_text(error.message), "", error.kind, wait)
    if error.spent is not None:  # it was answered
        return Outcome(ok=False, error=failure, spent=error.spent)
    return Outcome(ok=False, error=failure, unanswered=1)


LONGEST_ASKED = 1e9
"""Seconds. A longer delay is as good as infinite."""


def too_long(name: str, seconds: float) -> Failure:
    """The failure of an action or tool that was ended at its deadline."""
    text = f"{name} took too long: stopped after {say_elapsed(seconds)}"
    return Failure(str(Category.TRANSIENT), text, "", "timeout")


def stop_with_parent(context: Context) -> tuple[StopSignal, ...]:
    """The signal that stops a child whose deadline is that of its parent's action; else empty."""
    above = context.host.deadline
    if above is None or context.deadline is None or context.deadline < above - A_HAIR:
        return ()
    reason, message, source = TOO_LATE
    return (StopSignal(context.machine.reason(reason), message, {}, source),)


def is_own(error: BaseException) -> bool:
    """Whether an exception is the action's own failure."""
    if isinstance(error, Exception):
        return not isinstance(error, RunError)
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
        # signals are handled in the main thread: in any other only the action can raise these
        return threading.current_thread() is not threading.main_thread()
    return isinstance(error, asyncio.CancelledError) and not _is_cancelled()


def describe(error: BaseException) -> str:
    """An exception's class and text; its class alone if `str` of it fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  `__str__` may raise anything
        return type(error).__name__


def _is_cancelled() -> bool:
    """Whether the current task was cancelled from outside."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # driven by hand: there is no task
        return False
    return task is not None and task.cancelling() > 0


def _foreign(error: BaseException) -> BaseException | None:
    """The exception, or the first of a group, that is not the action's own; else None."""
    if not isinstance(error, BaseExceptionGroup):
        return None if is_own(error) else error
    parts = cast(BaseExceptionGroup[BaseException], error).exceptions
    return next((other for part in parts if (other := _foreign(part)) is not None), None)
