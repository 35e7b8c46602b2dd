"""Control of a run: `back_off`, `ask_user`, `signal`, `continue_run`, `nothing`.

Source: 003 "Retry with Exponential Backoff", "Request User Intervention"; 002 "Emitting Stop
Signals", "Overriding Stop Signals with Continuation".
"""

from __future__ import annotations

from typing import Annotated, Any

from chartloop.actions.annotations import Duration, Field, Name, Texts
from chartloop.actions.declare import action
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.reasons import StopSignal
from chartloop.core.traits import BY_FIELDS, SURE
from chartloop.core.types import COUNT, FLOAT, STR, struct
from chartloop.core.units import say_elapsed
from chartloop.machine.evolve import QUESTION
from chartloop.run.context import Context

LONGEST = 300.0
"""The longest wait of `back_off` in seconds, unless its `most` is set."""


@action(
    work=False, effect="pure", traits=SURE, result=struct({"waited": FLOAT}, keyed=True),
    changes=("errors.consecutive", "errors.retries"),
    reads=(),
)  # fmt: skip
def back_off(
    ctx: Context, base: Annotated[float, Duration] = 1.0, factor: float = 2.0,
    most: Annotated[float, Duration, Field(at_least="base", role="waits")] = LONGEST,
) -> Outcome | Blocked:  # fmt: skip
    """Waits base · factor^retries, clears `errors.consecutive`, adds to `errors.retries`.

    It waits longer if the provider requested it with the last failure.

    Args:
        base: The first wait; default 1s.
        factor: The factor by which each further wait is longer; default 2.
        most: The longest wait; default 5m.
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


@action(
    work=False, effect="pure", traits=BY_FIELDS, result=struct({"question": STR}, keyed=True),
    for_wait=True,
    reads=(),
)  # fmt: skip
def ask_user(_ctx: Context, text: str = "") -> Outcome:
    """Sets the question of the wait that follows.

    Args:
        text: The question; default: the wait's own.
    """
    return Outcome(result={"question": text}, kept={QUESTION: text})


@action(work=False, effect="pure", traits=BY_FIELDS, changes="signals.*", reads=())
def signal(ctx: Context, reason: Annotated[str, Name("reason")], message: str = "") -> Outcome:
    """Raises a stop signal.

    The run stops at the next decision unless it is continued.

    Args:
        reason: The stop reason.
        message: The message with it.
    """
    stop = StopSignal(ctx.machine.reason(reason), message, {}, ctx.state.name)
    return Outcome(result={"reason": reason, "message": message}, signals=(stop,))


@action(work=False, effect="pure", traits=SURE, changes="signals.continued", reads=())
def continue_run(
    ctx: Context, times: Annotated[int, Field(type=COUNT, role="continues")] = 1
) -> Outcome:
    """Defers the pending stop signals until the next work action.

    Args:
        times: How often in a run; default 1.
    """
    granted = ctx.facts.run.continuations < times
    return Outcome(result={"granted": granted}, continued=times)


@action(
    work=False, effect="pure", traits=SURE,
    example="""\
note:
  do: nothing
  with: {input: {plan: "{{ vars.plan }}", turn: "{{ run.steps }}"}}
  next: work""",
    reads=(),
)  # fmt: skip
def nothing(_ctx: Context, input: Annotated[Any, Texts] = None) -> Outcome:
    """Does nothing, and returns its input: for notes on the record, and for sketches.

    Source: 004 "System Step".

    Args:
        input: The recorded input: every text is a template.
    """
    return Outcome(result=input)
