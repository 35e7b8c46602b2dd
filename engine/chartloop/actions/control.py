"""Control of a run: `back_off`, `ask_user`, `signal`, `continue_run`, `nothing`.

Source: 003 "Retry with Exponential Backoff", "Request User Intervention"; 002 "Emitting Stop
Signals", "Overriding Stop Signals with Continuation".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.reasons import StopSignal
from chartloop.core.specs import ActionSpec, ArgSpec, Effect
from chartloop.core.traits import ActionTraits
from chartloop.core.types import COUNT, DURATION, FLOAT, STR, struct
from chartloop.core.units import say_elapsed
from chartloop.run.context import Context

LONGEST = 300.0
"""The longest wait of `back_off` in seconds, unless its `most` is set."""


def back_off(
    ctx: Context, base: float = 1.0, factor: float = 2.0, most: float = LONGEST
) -> Outcome | Blocked:
    """Wait ``base * factor ** errors.retries`` seconds, then reset `errors.consecutive`.

    Wait longer if the provider requested it with the last failure, but at most `most` seconds.
    """
    errors = ctx.facts.errors
    requested = errors.last.retry_after if errors.last is not None and errors.consecutive else None
    own = min(base * factor ** min(errors.retries, 64), most)
    wait = max(own, min(requested or 0.0, most))
    if ctx.blocked_until is None and wait > 0:
        return Blocked(ctx.now + wait, "back-off")
    if ctx.blocked_until is not None and ctx.blocked_until > ctx.now:
        return Blocked(ctx.blocked_until, "back-off")  # resumed before the wait has ended
    warnings: tuple[str, ...] = ()
    if requested is not None and wait > own:
        warnings = (f"the provider asked to wait {say_elapsed(requested)}",)
    return Outcome(result={"waited": wait}, forgiven=True, warnings=warnings)


def ask_user(_ctx: Context, text: str = "") -> Outcome:
    """Set the question of the wait that follows."""
    return Outcome(result={"question": text}, kept={"ask_user": text})


def signal(ctx: Context, reason: str, message: str = "") -> Outcome:
    """Raise a stop signal: the run stops at the next decision unless it is continued."""
    stop = StopSignal(ctx.machine.reason(reason), message, {}, ctx.state.name)
    return Outcome(result={"reason": reason, "message": message}, signals=(stop,))


def continue_run(ctx: Context, times: int = 1) -> Outcome:
    """Defer the pending signals until the next work action, at most `times` times in a run."""
    granted = ctx.facts.run.continuations < times
    return Outcome(result={"granted": granted}, continued=times)


def nothing(_ctx: Context, input: Mapping[str, Any] | None = None) -> Outcome:
    """Do nothing and return the input. Source: 004 "System Step"."""
    return Outcome(result=input)


ACTIONS = (
    ActionSpec(
        "back_off",
        back_off,
        (
            ArgSpec("base", "duration", DURATION, about="The first wait; default 1s."),
            ArgSpec(
                "factor",
                "value",
                FLOAT,
                about="The factor by which each further wait is longer; default 2.",
            ),
            ArgSpec(
                "most",
                "duration",
                DURATION,
                at_least="base",
                about="The longest wait; default 5m.",
            ),
        ),
        result=struct({"waited": FLOAT}, keyed=True),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        may_wait=True,
        changes=frozenset({"errors.consecutive", "errors.retries"}),
        declares=ActionTraits(
            asks="never",
            calls="none",
            runs="none",
            fails="never",
            step="system",
            family="pure",
            waits=("most", LONGEST),
        ),
        about="Waits base · factor^retries, clears `errors.consecutive`, adds to `errors.retries`.",
    ),
    ActionSpec(
        "ask_user",
        ask_user,
        (ArgSpec("text", "text", STR, about="The question; default: the wait's own."),),
        result=struct({"question": STR}, keyed=True),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        for_wait=True,
        declares=ActionTraits(
            asks="never", calls="none", runs="none", fails="by_fields", step="system", family="pure"
        ),
        about="Sets the question of the wait that follows.",
    ),
    ActionSpec(
        "signal",
        signal,
        (
            ArgSpec("reason", "name", STR, required=True, names="reason", about="The stop reason."),
            ArgSpec("message", "text", STR, about="The message with it."),
        ),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        changes=frozenset({"signals.*"}),
        declares=ActionTraits(
            asks="never", calls="none", runs="none", fails="by_fields", step="system", family="pure"
        ),
        about="Raises a stop signal.",
    ),
    ActionSpec(
        "continue_run",
        continue_run,
        (ArgSpec("times", "value", COUNT, about="How often in a run; default 1."),),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        changes=frozenset({"signals.continued", "run.continuations"}),
        declares=ActionTraits(
            asks="never",
            calls="none",
            runs="none",
            fails="never",
            step="system",
            family="pure",
            continues="times",
        ),
        about="Defers the pending stop signals until the next work action.",
    ),
    ActionSpec(
        "nothing",
        nothing,
        (
            ArgSpec(
                "input",
                "texts",
                about="The recorded input: every text is a template.",
            ),
        ),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        declares=ActionTraits(
            asks="never", calls="none", runs="none", fails="never", step="system", family="pure"
        ),
        about="Does nothing, and returns its input: for notes on the record, and for sketches.",
        example="""\
note:
  do: nothing
  with: {input: {plan: "{{ vars.plan }}", turn: "{{ run.steps }}"}}
  next: work""",
    ),
)
