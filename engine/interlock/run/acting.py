"""Doing one action: its arguments, its intent, its deadline, and what its failures mean.

Whatever an action does, an `Outcome` or `Blocked` comes out of here; only errors that blame
the caller or the journal (`RunError`) and cancellation pass through.

Imported by: run.loop
Source: design "language", section 8; "architecture", section 4; 003 "Error Categories".
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from interlock.core.errors import Category, ModelError, RunError, SetupError
from interlock.core.outcome import Blocked, Outcome
from interlock.core.reasons import StopSignal
from interlock.core.specs import ActionSpec, Effect
from interlock.language.expression import GUARD_ERRORS, Expression, GuardFailed
from interlock.language.spec import Given, StateSpec
from interlock.language.template import Template
from interlock.machine.saving import template_names
from interlock.run.context import Context
from interlock.run.events import Delta, Started
from interlock.run.session import Session


class AgentStop(Exception):
    """Raised inside a tool or action: the run should stop. Not an error.

    Source: 002 "AgentStopException" (signal, step, context, source).
    """

    def __init__(
        self, message: str = "", *, reason: str = "stop_requested",
        context: Mapping[str, Any] | None = None, source: str = "",
    ) -> None:  # fmt: skip
        self.message = message
        self.reason = reason
        self.context = dict(context or {})
        self.source = source
        super().__init__(message or reason)


async def act(session: Session, started: float) -> Outcome | Blocked:
    """Do the action of the state at hand."""
    position = session.position
    state = session.chart.spec.states[position.state]
    action = state.action
    if action is None or action.run is None:
        name = action.name if action else state.name
        raise SetupError(
            f"action `{name}` is not in this version",
            hint="the file loads and draws; it cannot be run past this state",
        )
    key = f"{session.run_id}/{state.name}/{position.facts.run.steps}"
    if action.effect is Effect.PAID and (doubt := await _doubt(session, state, action, key)):
        return doubt
    context = _context(session, state, started, key)
    if session.listener is not None:
        session.listener(Started(context.step, state.name, action.name, started))
    try:
        args = {n: _value(session, g) for n, g in state.args.items()}
    except (GuardFailed, ValueError, *GUARD_ERRORS) as error:
        return Outcome.failed(Category.CRITICAL, f"`with` of {state.name}: {error}", kind="with")
    if action.effect is Effect.PAID and not action.own_intents:
        await session.note("intent", key, {"state": state.name, "action": action.name})
    return await _call(action, context, args)


async def _call(action: ActionSpec, context: Context, args: dict[str, Any]) -> Outcome | Blocked:
    assert action.run is not None
    clock, deadline = context.ports.clock, context.deadline
    bound = (
        clock.deadline(deadline)
        if deadline is not None and (action.suspends or not clock.suspends)
        else nullcontext()
    )
    try:
        with bound:
            given = (
                action.run(context, **args) if action.targets is None else action.run(context, args)
            )
            done = await given if inspect.isawaitable(given) else given
    except TimeoutError:
        late = deadline is not None and clock.now() >= deadline
        limit = f" after {deadline - context.now:.3g} s" if deadline is not None and late else ""
        return Outcome.failed(
            Category.TRANSIENT,
            f"{action.name} took too long: stopped{limit}",
            kind="timeout",
            timed_out=late,
            unanswered=1 if "model" in action.uses else 0,
        )
    except ModelError as error:
        return Outcome.failed(error.category, error.message, kind=error.kind, unanswered=1)
    except AgentStop as stop:
        return Outcome(signals=(stop_signal(context, stop, context.state.name),))
    except RunError:
        raise
    except BaseExceptionGroup as group:
        return _of_group(group)
    except Exception as error:  # noqa: BLE001  an action may raise anything; it goes on the record
        return _raised(error)
    if isinstance(done, (Outcome, Blocked)):
        return done
    return Outcome(result=done)


def _of_group(group: BaseExceptionGroup[Any]) -> Outcome:
    """Of several failures at once, what blames the caller or the journal comes out alone."""
    blame: BaseException | None = group.subgroup(
        lambda e: isinstance(e, RunError) or not isinstance(e, Exception)
    )
    while isinstance(blame, BaseExceptionGroup):
        blame = blame.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if blame is not None:
        raise blame
    return _raised(group)


def _raised(error: BaseException) -> Outcome:
    return Outcome.failed(Category.CRITICAL, f"{type(error).__name__}: {error}", kind="raised")


def stop_signal(context: Context, stop: AgentStop, source: str) -> StopSignal:
    """The signal that an `AgentStop` asks for. Source: 002 `fromStopException()`."""
    reason = context.machine.reason(stop.reason)
    more = {"step": context.step, **stop.context}
    return StopSignal(reason, stop.message, more, stop.source or source)


def _context(session: Session, state: StateSpec, started: float, key: str) -> Context:
    position = session.position
    step = position.facts.run.steps + 1
    listener = session.listener

    def tell(text: str) -> None:
        if listener is not None:
            listener(Delta(step, state.name, text))

    async def note_intent(name: str, data: Mapping[str, Any]) -> None:
        await session.note("intent", name, data)

    async def note_result(name: str, data: Mapping[str, Any]) -> None:
        await session.note("result", name, data)

    return Context(
        session.run_id, session.chart.spec, state, position.facts, position.messages, session.ports,
        step, started, key, _deadline(session, state, started), position.prompt, position.queue,
        position.kept, position.waited, session.results, tell, note_intent, note_result,
        listener is not None, session.tally.failed_calls, session.ask_to_save,
    )  # fmt: skip


def _deadline(session: Session, state: StateSpec, started: float) -> float | None:
    """The smaller of `within` and what the nearest time rule leaves."""
    facts = session.position.facts
    left = [x for e in session.chart.time_left if (x := _seconds(e, facts)) is not None and x > 0]
    if state.within is not None:
        own = state.within
        within = _seconds(own, facts) if isinstance(own, Expression) else own
        if within is not None:
            left.append(within)
    return started + min(left) if left else None


def _seconds(expression: Expression, facts: Any) -> float | None:
    try:
        return expression.fn(facts, _no_guard)
    except GUARD_ERRORS:
        return None


def _no_guard(name: str, args: tuple[Any, ...]) -> bool:
    raise LookupError(name)


def _value(session: Session, given: Given) -> Any:
    """A field of `with`, evaluated."""
    facts = session.position.facts
    match given.kind:
        case "constant" | "data":
            return given.value
        case "value":
            return given.value.value(facts, session.ask)
        case "values":
            return {n: _value(session, g) for n, g in given.value.items()}
        case "text":
            return _render(session, given.value)
        case _:
            return _rendered(session, given.value)


def _render(session: Session, template: Template) -> str:
    if template.constant:
        return template.text
    return template.render(
        template_names(session.chart.spec, session.position.facts, template.reads)
    )


def _rendered(session: Session, value: Any) -> Any:
    if isinstance(value, Template):
        return _render(session, value)
    if isinstance(value, dict):
        return {k: _rendered(session, v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_rendered(session, v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


async def _doubt(
    session: Session, state: StateSpec, action: ActionSpec, key: str
) -> Outcome | Blocked | None:
    """What to do about paid calls that were begun before a crash and never answered.

    None: go on and make them again. They are on the record either way.
    """
    open_calls = [k for k in session.intents if k not in session.results]
    if not open_calls or session.doubted:
        return None
    session.doubted = True
    for call in open_calls:
        await session.note("in_doubt", call, {"state": state.name, "action": action.name})
    policy = state.in_doubt or session.chart.spec.in_doubt
    if policy == "ask":
        return Blocked(None, "in-doubt")
    if policy == "fail":
        text = f"{action.name} was begun before an interruption; whether it happened is not known"
        return Outcome.failed(Category.RECOVERABLE, text, kind="in_doubt", in_doubt=True)
    return None
