"""Doing one action: its fields, its intent, its deadline and its outcome.

Whatever an action does, the result is an `Outcome` or `Blocked`. Only a cancellation, and errors
of the caller or the journal, pass through (`run.exceptions`).

Source: docs/language.md, "When an action fails"; docs/design.md, "The journal".
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from chartloop.core.errors import Category
from chartloop.core.facts import EMPTY, FACTS
from chartloop.core.fold import falling
from chartloop.core.outcome import NOTHING_SPENT, Blocked, Outcome, problem_with
from chartloop.core.position import ELICITATION
from chartloop.core.specs import ActionSpec
from chartloop.core.types import accepts
from chartloop.language.expression import GUARD_ERRORS, GuardFailed
from chartloop.run.abandon import or_leave
from chartloop.run.context import Context
from chartloop.run.doubts import has_effect, is_restorable, same_key, settle, settle_said
from chartloop.run.events import Started
from chartloop.run.exceptions import (
    A_HAIR,
    describe,
    failure_of,
    stop_with_parent,
    too_long,
)
from chartloop.run.fleet_calls import FLEET_WAIT, CallLater
from chartloop.run.job import Job, fields_of
from chartloop.run.sanitize import is_sound, sound_data, sound_signal
from chartloop.run.session import Session
from chartloop.run.sync import running_loop


async def act(session: Session, started: float) -> Outcome | Blocked:
    """Do the action of the current state."""
    position, ports = session.position, session.ports
    job = session.jobs[position.state]
    state, action, facts = job.state, job.action, position.facts
    assert action is not None, f"{state.name} has no action"
    fields = job.constant
    if job.given:
        try:
            fields = fields_of(job, session.chart.spec, facts, session.ask)
        except (GuardFailed, ValueError, *GUARD_ERRORS) as error:
            message = f"`with` of {state.name}: {error}"
            return Outcome.failure(Category.CRITICAL, message, kind="with")
    key = same_key(session, job, fields)
    in_flight = False
    if ports.servers is not None:
        ports.servers.let_go(session.run_id, key)
        in_flight = ports.servers.in_flight(key)
    if not in_flight and (doubt := await _settle_doubts(session, job, key, started)) is not None:
        return doubt
    waited = 0.0
    if job.waits or position.waited is not None:
        waited = await _time_waited(session, action, started, key)
    context = Context(
        session.chart.spec, state, position, facts, ports, host=session, now=started, key=key,
        recorded=session.calls.results, messages=position.messages, prompt=position.prompt,
        kept=position.kept, tools=job.tools, tool_schemas=job.tool_schemas,
        streaming=session.listener is not None, failed_calls=session.tally.failed_calls,
        waited=waited,
    )  # fmt: skip
    if session.listener is not None:
        session.listener(Started(context.step, state.name, action.name, started))
    if job.writes_intent and not in_flight:
        await session.note("intent", key, job.intent(key), started)
    if ports.tracer is None:
        outcome = await _call(job, action, context, fields)
    else:
        with (await session.trace()).action(position, action.name):
            outcome = await _call(job, action, context, fields)
    if type(outcome) is Outcome and outcome.in_doubt and not action.own_intents:
        return await settle_said(session, job, key, outcome)
    return outcome


async def _settle_doubts(
    session: Session, job: Job, key: str, started: float
) -> Outcome | Blocked | None:
    """The outcome or the wait in place of the action, if a call that it made before is unknown."""
    calls = session.calls
    if calls.intents:
        await session.note_unknown(session.holder.doubt)
    if session.restored and is_restorable(session, job):
        await session.note_restored(key, job.intent(key))
    by_itself = job.action is not None and job.action.traits.calls == "task"
    if not by_itself and (session.doubt(key) is not None or key in calls.decided):
        return settle(session, job, key, started)
    return None


async def _call(
    job: Job, action: ActionSpec, context: Context, fields: Mapping[str, Any]
) -> Outcome | Blocked:
    scope = _NO_BOUND
    if job.cuttable and (deadline := context.deadline) is not None:
        clock = context.ports.clock
        if not clock.suspends or running_loop() is not None:  # else its worker keeps it
            scope = clock.deadline(deadline)
    entered: Any = None
    try:
        with scope as entered:
            assert action.run is not None
            outcome = (
                action.run(context, **fields)
                if action.targets is None
                else action.run(context, dict(fields))
            )
            if inspect.iscoroutine(outcome) or inspect.isawaitable(outcome):
                bounded = scope is not _NO_BOUND and context.ports.clock.suspends
                outcome = await (or_leave(outcome) if bounded and not action.leaves else outcome)
    except CallLater as later:
        context.so_far = context.at_end = None
        return Blocked(later.at, FLEET_WAIT)
    except TimeoutError as error:
        if await _was_cut(context, entered):
            return await _cut_off(job, action, context)
        return failure_of(error, context)
    except BaseException as error:  # noqa: BLE001  most exceptions go on the record
        return failure_of(error, context)
    context.so_far = context.at_end = None  # no cycle is left to the garbage collector
    if (action.sound and type(outcome) is Outcome) or isinstance(outcome, Blocked):
        return outcome
    return _validate_outcome(action, context, outcome)


_NO_BOUND: AbstractContextManager[Any] = nullcontext()


async def _was_cut(context: Context, scope: Any) -> bool:
    """Whether the deadline ended the action, rather than a timeout of its own."""
    clock, deadline = context.ports.clock, context.deadline
    if deadline is None:
        return False
    left = deadline - clock.now()
    if left <= 0:
        return True
    if not getattr(scope, "expired", False):
        return False
    if left <= A_HAIR:  # without this wait the record would show an unreached deadline
        await clock.sleep(left)
    return True


async def _cut_off(job: Job, action: ActionSpec, context: Context) -> Outcome | Blocked:
    """The failure of an action at its deadline, with its outcome so far.

    A call that it cut in two is unknown. Where a person decides on those, the action waits.
    """
    session, key = context.host, context.key
    assert context.deadline is not None
    error = too_long(action.name, context.deadline - context.now)
    context.gone.append(True)
    settled: Outcome | Blocked | None = None
    unknown = key in session.calls.pending and has_effect(session, job)
    if unknown:
        await session.note_unknown({"left": "cut"}, key)
        settled = settle(session, job, key, context.ports.clock.now())
    elif context.at_end is not None:
        settled = await context.at_end()
    if isinstance(settled, Blocked):
        return settled
    outcome = context.so_far() if context.so_far is not None else Outcome()
    outcome = _validate_outcome(action, context, outcome)
    if unknown:
        error = error.replace(message=f"{error.message}; whether it was carried out is not known")
        doubtful = settled or Outcome(unknown=1)
        outcome = outcome.replace(
            in_doubt=doubtful.in_doubt, unknown=1, spent=doubtful.spent.plus(outcome.spent)
        )
    return outcome.replace(
        ok=False, error=error, timed_out=True,
        signals=(*outcome.signals, *stop_with_parent(context)),
        unanswered=max(outcome.unanswered, 1 if "model" in action.uses else 0),
    )  # fmt: skip


def _validate_outcome(action: ActionSpec, context: Context, outcome: Any) -> Outcome:
    """The outcome in a form that every journal can hold; a failure if it has no such form."""
    if not isinstance(outcome, Outcome):
        return Outcome(result=sound_data(outcome))
    if action.sound:
        return outcome
    if outcome.result is not None and not is_sound(outcome.result):
        outcome = outcome.replace(result=sound_data(outcome.result))
    if outcome.signals:
        try:
            outcome = outcome.replace(signals=tuple(sound_signal(s) for s in outcome.signals))
        except (AttributeError, TypeError, ValueError) as error:
            text = f"{action.name} gave an invalid signal: {describe(error)}"
            return Outcome.failure(Category.CRITICAL, text, kind="signals")
    if outcome.changes and (wrong := _wrong_change(action, context, outcome)):
        return Outcome.failure(Category.CRITICAL, f"{action.name} {wrong}", kind="changes")
    if outcome.spent is not NOTHING_SPENT and (wrong := problem_with(outcome.spent)):
        text = f"{action.name} says that it used {wrong}, which cannot be"
        return Outcome.failure(Category.CRITICAL, text, kind="spent")
    return outcome


def _wrong_change(action: ActionSpec, context: Context, outcome: Outcome) -> str:
    machine = context.machine
    for name, value in outcome.changes.items():
        root, _, field = name.partition(".")
        if name not in action.changes and f"{root}.*" not in action.changes:
            return f"changed `{name}`, which it does not declare"
        declared = machine.vars.get(field) if root == "vars" else None
        if root == "vars" and (
            declared is None or not accepts(declared.type, value) or not is_sound(value)
        ):
            return f"gave `{name}` a value that it cannot have"
        if root == "memory" and (field not in machine.memory or not isinstance(value, str)):
            return f"gave `{name}`, which is not a memory block, or no text"
        if name in FACTS and not accepts(FACTS[name].type, value):
            return f"gave `{name}` a value that is not of its type, {FACTS[name].type}"
    if fell := falling(context.facts, outcome.changes):
        return f"set `{fell}` back, which only grows"
    return ""


async def _time_waited(
    session: Session, action: ActionSpec, started: float, key: str
) -> float:  # fmt: skip
    """Seconds since a waiting action first started; 0 on its first call."""
    if session.position.waited is not None:
        asked = session.position.kept.get(ELICITATION, EMPTY)
        if asked.get("action") == key:
            return started - asked["since"]
    if not action.may_wait:
        return 0.0
    if children := await session.find_children():
        return started - min(child.created for child in children)
    return 0.0 if session.position.waited is None else started - session.position.entered_at
