"""`evolve`: position and input to the next position, and why. Pure.

The one function that the driver, replay, what-if, upgrade verdicts, simulation and stepping
in a notebook all call. Given the same chart, position and input it gives the same result: it
reads no clock, and what registered Python guards say comes in with the input.

The order within one decision: fold the outcome, `save`, rules, edge guards, the edge's `set`
and `stop`; on entering a state: `visits`, `status`, `set`, `stop`. See `machine.transition`.

Source: design "architecture", section 3; "language", sections 2-5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chartloop.core.errors import Category, StatusError
from chartloop.core.facts import EMPTY, Task
from chartloop.core.fold import assign, fold, named, queued, tick
from chartloop.core.outcome import Outcome
from chartloop.core.position import (
    APPROVAL,
    CHILD,
    METADATA,
    Position,
    repaired,
)
from chartloop.core.reasons import StopSignal
from chartloop.core.records import Input
from chartloop.core.tokens import estimate_messages
from chartloop.core.transcript import NO_MESSAGES
from chartloop.core.units import say_elapsed
from chartloop.language.spec import Retry, StateSpec
from chartloop.machine.assignment import saved_values
from chartloop.machine.build import Chart
from chartloop.machine.cursor import Walk
from chartloop.machine.decision import Decision
from chartloop.machine.transition import decide, settle

QUESTION = "ask_user"
"""Under this name `ask_user` keeps its question until the wait that follows is over."""

RULES = 1
"""The number of the rules of deciding, kept with every run (`run.rules_version`).

It rises with every change to what `evolve` makes of an input that any released version could have
recorded: another edge or rule taken, another next state, status, signal or reason. It stays where
only what is said changes, or what was an error works. The rules before stay known only if
`evolve` still decides by them; else their runs are refused. The golden journals show a change that
was overlooked.
"""

Oracle = Callable[[str, tuple[Any, ...]], bool]


def evolve(
    chart: Chart, position: Position, input: Input, *, oracle: Oracle | None = None,
    trace: bool = False,
) -> tuple[Position, Decision]:  # fmt: skip
    """The position after an input, and the decision that led there.

    `oracle` asks registered Python guards; without one their answers are taken from
    `input.opaque`, as a replay does. `trace` keeps what was looked at for an explanation.
    Raises `StatusError` when the input cannot happen at this position; nothing has changed
    then.
    """
    if position.ended:
        raise StatusError(f"the run has ended ({position.status}) at `{position.state}`")
    walk = Walk(chart, position, input, oracle, trace)
    _KINDS[input.kind](walk, input)
    settle(walk)
    return walk.finish()


def _start(walk: Walk, input: Input) -> None:
    if walk.position.status != "idle":
        raise StatusError("the run has been started already")
    data, at = input.data, input.at
    facts = walk.facts
    messages = NO_MESSAGES.add(data.get("messages", ()))
    queue = tuple(Task(**t) for t in data.get("tasks", ()))
    run = facts.run.replace(
        task=data.get("task", ""), agent=data.get("agent", ""), session=data.get("session", ""),
        started_at=at, depth=data.get("depth", 0),
    )  # fmt: skip
    usage = facts.usage.replace(
        messages=len(messages), context_tokens=estimate_messages(messages),
        prunable=len(messages) > 2,
        context_window=data.get("context_window") or facts.usage.context_window,
    )  # fmt: skip
    walk.facts = facts.replace(
        run=run, usage=usage,
        limits={**facts.limits, **data.get("limits", EMPTY)},
        vars={**facts.vars, **data.get("vars", EMPTY)},
        memory={**facts.memory, **data.get("memory", EMPTY)},
        queue=queued(facts.queue, queue),
        marks=facts.marks.replace(now=at, progress_at=at, has_queue=bool(queue)),
    )  # fmt: skip
    walk.messages, walk.queue = messages, queue
    if "metadata" in data:
        walk.kept = {**walk.kept, METADATA: data["metadata"]}
    walk.fire("start")
    walk.state = data.get("start") or walk.chart.spec.start
    walk.enter(walk.state)
    decide(walk, None)


def _step(walk: Walk, input: Input) -> None:
    chart, position, outcome = walk.chart, walk.position, input.outcome
    state = chart.spec.states.get(position.state)
    if outcome is None or state is None or state.action is None:
        raise StatusError(f"`{position.state}` has no action to finish")
    if position.status not in ("running", "debugging"):
        raise StatusError(f"the run is {position.status}: no action can finish")
    action = state.action
    saved: Mapping[str, Any] = EMPTY
    if state.save and outcome.ok:
        outcome, saved = saved_values(chart.spec, state, outcome, walk.facts)
        walk.unsaved = None if outcome.ok else outcome.error
    _take_in(walk, outcome)
    if action.work and walk.raising.continued:
        walk.suppress()
    if walk.skip and chart.detours[walk.skip] != state.name:
        walk.skip = ""  # straight after its own target a detour is passed over, no longer
    walk.facts = fold(
        walk.facts, outcome, state=state.name, action=action, started=input.started,
        at=input.at, saved=saved, messages=len(walk.messages), stopping=walk.stopping,
    )  # fmt: skip
    for signal in outcome.signals:
        walk.signal(signal)
    if outcome.continued is not None:
        walk.go_on(outcome.continued)
    if outcome.warnings:
        walk.warnings += outcome.warnings
    _after_action(walk, state.name, outcome)


def _take_in(walk: Walk, outcome: Outcome) -> None:
    """What an outcome changes beside the facts: conversation, prompt, queue, kept data."""
    if outcome.rewrite is not None:
        walk.messages = NO_MESSAGES.add(outcome.rewrite)
    if outcome.messages:
        walk.messages = walk.messages.add(outcome.messages)
    if outcome.prompt is not None:
        walk.prompt = outcome.prompt
    elif outcome.reply is not None:
        walk.prompt = None
    if outcome.queue is not None:
        walk.queue = outcome.queue
    if outcome.kept:
        walk.kept = {**walk.kept, **outcome.kept}


def _after_action(walk: Walk, name: str, outcome: Outcome) -> None:
    """Which of its ways a finished action takes."""
    chart, late = walk.chart, False
    if not outcome.ok and not walk.stopping:
        walk.failed = True
        wait = _try_again(walk, chart.spec.states[name], outcome)
        if wait is not None:
            walk.retrying, walk.retry_in = True, wait
        else:
            late = outcome.timed_out and any(chart.spec.states[name].edges_of("expired"))
            settled = late or bool(outcome.signals)  # it asks to stop by itself
            walk.unhandled = (
                not settled and name not in chart.handled and chart.spec.on_error is None
            )
    elif not outcome.ok and outcome.error is not None:
        walk.warnings += (f"{name} failed after the stop: {outcome.error.message}",)
    if not walk.retrying:
        walk.attempt = 0
    decide(walk, "expired" if late else "advance")


def _try_again(walk: Walk, state: StateSpec, outcome: Outcome) -> float | None:
    """The wait before a failed action is done again; None when it is not."""
    if outcome.again and walk.attempt < state.attempts:
        return 0.0
    retry = state.retry
    category = outcome.error.category if outcome.error is not None else Category.CRITICAL
    if retry is None or category not in retry.on:
        return None
    retried = walk.attempt - repaired(walk.kept, state.name, walk.attempt)
    if retried >= retry.times or not _may_wait(walk, state.name, outcome, retry, retried):
        return None
    return retry.wait(retried, outcome.error.retry_after if outcome.error is not None else None)


def _may_wait(walk: Walk, name: str, outcome: Outcome, retry: Retry, retried: int) -> bool:
    """Whether the next attempt can wait for as long as the provider asks; it goes on the record."""
    asked = outcome.error.retry_after if outcome.error is not None else None
    if asked is None or asked <= retry.wait(retried):
        return True
    said = f"{name}: the provider asked to wait {say_elapsed(asked)}"
    if asked > retry.most:
        walk.warnings += (f"{said}; `retry` waits at most {say_elapsed(retry.most)}",)
        return False
    walk.warnings += (f"{said}: the next attempt is made then",)
    return True


def _answer(walk: Walk, input: Input) -> None:
    position = walk.position
    if position.state not in walk.chart.waiting:
        raise StatusError(f"`{position.state}` waits for nothing")
    if input.event not in walk.chart.events_at(position.state):
        raise StatusError(f"`{position.state}` does not take `{input.event}`")
    facts = tick(walk.facts, input.at)
    walk.facts = facts.replace(last=facts.last.replace(answer=dict(input.data)))
    _settle_wait(walk, str(input.event), str(input.data.get("note", "")))
    walk.resume()
    decide(walk, input.event)


def _expired(walk: Walk, input: Input) -> None:
    if walk.position.state not in walk.chart.waiting:
        raise StatusError(f"`{walk.position.state}` does not wait")
    walk.facts = tick(walk.facts, input.at)
    _settle_wait(walk, "expired", "")
    walk.resume()
    decide(walk, "expired")


def _settle_wait(walk: Walk, event: str, note: str) -> None:
    """The question is answered. Of one for an approval the answer stays with the calls."""
    kept = {n: v for n, v in walk.kept.items() if n != QUESTION}
    asked = kept.get(APPROVAL)
    if asked is not None and asked["wait"] == walk.position.state:
        kept[APPROVAL] = {**asked, "answer": event, "note": note}
    walk.kept = kept


def _blocked(walk: Walk, input: Input) -> None:
    walk.facts = tick(walk.facts, input.at)
    walk.pause()
    walk.wake_at = input.data.get("until")
    walk.blocked_on = str(input.data.get("on", ""))
    if walk.blocked_on == CHILD:
        walk.kept = {**walk.kept, CHILD: input.data.get("asks")}


def _pause(walk: Walk, input: Input) -> None:
    walk.facts = tick(walk.facts, input.at)
    if walk.position.status == "paused":  # at a wait or a back-off: it takes effect after that
        walk.pause_asked = True
    else:
        walk.pause()


def _resume(walk: Walk, input: Input) -> None:
    if walk.position.state in walk.chart.waiting:
        if not walk.pause_asked:
            raise StatusError(f"`{walk.position.state}` waits for an answer, not for a resume")
        walk.pause_asked = False
        return
    walk.facts = tick(walk.facts, input.at)
    if walk.pause_asked:  # the back-off is over, and somebody wants the run paused
        walk.pause_asked = False
        walk.wake_at, walk.blocked_on = None, ""
        return
    walk.kept = {n: v for n, v in walk.kept.items() if n != CHILD}
    walk.resume()
    # where a child has begun, rules are for when the action is done: it stops the child before
    decide(walk, None, rules=CHILD not in input.data)


def _stop(walk: Walk, input: Input) -> None:
    walk.facts = tick(walk.facts, input.at)
    if walk.position.status == "idle":
        walk.fire("start")
        walk.enter(walk.chart.spec.start)
    elif walk.position.status == "paused":
        walk.resume()
    if walk.raising.continued:  # it puts off what was raised before, not what a caller wants now
        walk.suppress()
    reason = walk.chart.spec.reason(input.event or "user_requested")
    data = input.data
    walk.signal(
        StopSignal(
            reason,
            str(data.get("message", "")),
            data.get("context", {}),
            str(data.get("source", "outside")),
        )
    )
    decide(walk, None, rules=False)


def _edit(walk: Walk, input: Input) -> None:
    walk.facts = assign(tick(walk.facts, input.at), input.data)


def _enqueue(walk: Walk, input: Input) -> None:
    facts, added = tick(walk.facts, input.at), [Task(**t) for t in input.data["tasks"]]
    walk.queue += named(added, (task.id for task in walk.queue), facts.queue)
    walk.facts = facts.replace(
        queue=queued(facts.queue, walk.queue), marks=facts.marks.replace(has_queue=True)
    )


def _drop(walk: Walk, input: Input) -> None:
    walk.facts = tick(walk.facts, input.at)
    what = f"the answer `{input.event}`" if input.event else "a message"
    walk.warnings += (f"{what} was dropped: {input.data.get('why', '')}",)


_KINDS: Mapping[str, Callable[[Walk, Input], None]] = {
    "start": _start,
    "step": _step,
    "answer": _answer,
    "expired": _expired,
    "blocked": _blocked,
    "pause": _pause,
    "resume": _resume,
    "stop": _stop,
    "edit": _edit,
    "enqueue": _enqueue,
    "drop": _drop,
}
