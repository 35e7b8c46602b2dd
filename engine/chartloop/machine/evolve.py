"""`evolve`: from a position and an input to the next position and the decision. Pure.

The driver, replay, what-if, upgrade verdicts and stepping in a notebook all call this one
function. Given the same chart, position and input it returns the same result: it reads no
clock, and the answers of registered Python guards are part of the input.

The order within one decision: `save`, over the result and the facts before it; fold the outcome and
what was saved; rules, edge guards, the edge's `set` and `stop`; on entering a state: `visits`,
`status`, `set`, `stop`. See `machine.transition`.

Source: docs/design.md, "A step"; docs/language.md, "The order of things".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from chartloop.core import approvals
from chartloop.core.errors import Category, StatusError
from chartloop.core.facts import EMPTY, Failure, Task
from chartloop.core.fold import assign, fold, name_tasks, queue_facts, tick, used
from chartloop.core.outcome import CallResult, Outcome, Spent
from chartloop.core.position import (
    APPROVAL,
    CHILD,
    ELICITATION,
    ENDED,
    FILES,
    IN_DOUBT,
    METADATA,
    SUBMITTER,
    Position,
    repair_count,
)
from chartloop.core.reasons import NO_SIGNALS, StopSignal, StopSignals
from chartloop.core.records import Input
from chartloop.core.transcript import NO_MESSAGES, NOT_KNOWN
from chartloop.core.units import say_elapsed
from chartloop.language.spec import Retry, StateSpec
from chartloop.machine.assignment import saved_values
from chartloop.machine.build import Chart
from chartloop.machine.cursor import Cursor
from chartloop.machine.decision import Decision
from chartloop.machine.transition import come_to_rest, decide

QUESTION = "ask_user"
"""The key under which `ask_user` keeps its question until the wait after it ends."""

RULES = 3
"""The version of the decision rules, recorded with every run (`run.rules_version`).

Increment it with every change to how `evolve` decides an input that a released version could have
recorded: another edge, rule, next state, status, signal or reason. A change of wording, or an error
that now works, needs no new version. Runs of an older version are refused unless `evolve` can still
decide by its rules. The golden journals reveal a change that was overlooked.

Since 2 an action is not tried again while the outcome of its call is unknown. Since 3 a denied call
is a decision: it counts in `approvals.denied` instead of `errors`, and fails no action.
"""
RULES_KEY = "rules"
"""Key in the data of a `start`: the number of its decision rules."""

Oracle = Callable[[str, tuple[Any, ...]], bool]


def evolve(
    chart: Chart, position: Position, input: Input, *, oracle: Oracle | None = None,
    trace: bool = False,
) -> tuple[Position, Decision]:  # fmt: skip
    """Return the position after an input, and the decision that led there.

    `oracle` calls registered Python guards; without one their answers come from `input.opaque`, as
    in a replay. `trace` keeps where it looked and at which facts, from which `machine.explain`
    evaluates again. Raises `StatusError` if the input is impossible at this position, and changes
    nothing.
    """
    if position.status in ENDED:
        raise StatusError(f"the run has ended ({position.status}) at `{position.state}`")
    cursor = Cursor(chart, position, input, oracle, trace)
    _KINDS[input.kind](cursor, input)
    come_to_rest(cursor)
    after = cursor.draft.replace(state=cursor.state, status=cursor.status, facts=cursor.facts)
    return after, Decision(
        state=position.state, input=input, taken=cursor.taken, path=cursor.path,
        signals=StopSignals(cursor.new) if cursor.new else NO_SIGNALS, winner=cursor.winner,
        warnings=cursor.warnings, next=cursor.state, status=cursor.status,
        looks=tuple(cursor.looks or ()), opaque=tuple(cursor.oracle.given),
        unsaved=cursor.unsaved,
    )  # fmt: skip


def _start(cursor: Cursor, input: Input) -> None:
    if cursor.position.status != "idle":
        raise StatusError("the run has been started already")
    data, at = input.data, input.at
    facts = cursor.facts
    messages = NO_MESSAGES.add(data.get("messages", ()))
    queue = tuple(Task(**t) for t in data.get("tasks", ()))
    run = facts.run.replace(
        task=data.get("task", ""), agent=data.get("agent", ""), session=data.get("session", ""),
        started_at=at, depth=data.get("depth", 0),
    )  # fmt: skip
    usage = facts.usage.replace(
        messages=len(messages), context_tokens=messages.tokens,
        prunable=len(messages) > 2,
        context_window=data.get("context_window") or facts.usage.context_window,
    )  # fmt: skip
    cursor.facts = facts.replace(
        run=run, usage=usage,
        limits={**facts.limits, **data.get("limits", EMPTY)},
        vars={**facts.vars, **data.get("vars", EMPTY)},
        memory={**facts.memory, **data.get("memory", EMPTY)},
        queue=queue_facts(facts.queue, queue),
        marks=facts.marks.replace(
            now=at, progress_at=at, has_queue=bool(queue), rules=data.get(RULES_KEY) or 1
        ),
    )  # fmt: skip
    cursor.draft = cursor.draft.replace(messages=messages, queue=queue)
    if given := {name: data[name] for name in (SUBMITTER, METADATA, FILES) if name in data}:
        cursor.keep(given)
    cursor.fire("start")
    cursor.state = data.get("start") or cursor.chart.spec.start
    cursor.enter(cursor.state)
    decide(cursor, None)


def _step(cursor: Cursor, input: Input) -> None:
    chart, position, outcome = cursor.chart, cursor.position, input.outcome
    state = chart.spec.states.get(position.state)
    if outcome is None or state is None or state.action is None:
        raise StatusError(f"`{position.state}` has no action to finish")
    if position.status not in ("running", "debugging"):
        raise StatusError(f"the run is {position.status}: no action can finish")
    action = state.action
    saved: Mapping[str, Any] = EMPTY
    if state.save and outcome.ok:  # before the fold: one that fails makes the outcome a failure
        outcome, saved = saved_values(chart.spec, state, outcome, cursor.facts)
        cursor.unsaved = None if outcome.ok else outcome.error
    if action.work and cursor.facts.signals.continued:
        cursor.suppress()
    draft, unsent = cursor.draft, outcome.reply is None and outcome.prompt is None
    messages = draft.messages if outcome.rewrite is None else NO_MESSAGES.add(outcome.rewrite)
    messages = messages.add(outcome.held_messages)
    cursor.draft = draft.replace(
        messages=messages,
        prompt=draft.prompt if unsent else outcome.prompt,
        queue=draft.queue if outcome.queue is None else outcome.queue,
        kept={**draft.kept, **outcome.kept} if outcome.kept else draft.kept,
        # a detour is skipped only until the first action after its own target
        skip=draft.skip if draft.skip and chart.detours[draft.skip] == state.name else "",
    )
    cursor.facts = fold(
        cursor.facts, outcome, state=state.name, action=action, started=input.started,
        at=input.at, saved=saved, messages=messages, stopping=draft.stopping,
    )  # fmt: skip
    for signal in outcome.signals:
        cursor.raise_signal(signal)
    if outcome.continued is not None:
        cursor.continue_run(outcome.continued)
    cursor.warnings += outcome.warnings
    trigger = "advance" if outcome.ok else _fail(cursor, state, outcome)
    if outcome.unsettled and not cursor.retrying:
        _add_results(cursor, Outcome(messages=outcome.unsettled))
    if draft.attempt and not cursor.retrying:
        cursor.draft = cursor.draft.replace(attempt=0)
    decide(cursor, trigger)


def _add_results(cursor: Cursor, outcome: Outcome) -> None:
    """Add what the model reads of calls that no further attempt settles."""
    messages = cursor.draft.messages.add(outcome.held_messages)
    cursor.draft = cursor.draft.replace(messages=messages)
    facts = cursor.facts
    cursor.facts = facts.replace(usage=used(facts.usage, outcome, messages))


def _fail(cursor: Cursor, state: StateSpec, outcome: Outcome) -> str:
    """Decide whether a failed action is tried again; return the trigger by which it leaves.

    A failure that no edge handles may still be handled by a rule: see `machine.rules`.
    """
    if cursor.draft.stopping:
        if outcome.error is not None:
            message = f"{state.name} failed after the stop: {outcome.error.message}"
            cursor.warnings += (message,)
        return "advance"
    cursor.failed = True
    wait = _try_again(cursor, state, outcome)
    if wait is not None:
        cursor.retrying, cursor.retry_in = True, wait
        return "advance"
    late = outcome.timed_out and any(state.edges_of("expired"))
    settled = late or bool(outcome.signals)  # the action itself asked to stop
    handled = state.name in cursor.chart.handled or cursor.chart.spec.on_error is not None
    cursor.unhandled = not (settled or handled)
    return "expired" if late else "advance"


def _try_again(cursor: Cursor, state: StateSpec, outcome: Outcome) -> float | None:
    """The seconds before a failed action is tried again; None if it is not."""
    if outcome.in_doubt and cursor.facts.marks.rules > 1:
        return None
    if outcome.again and cursor.draft.attempt < state.attempts:
        return 0.0
    retry = state.retry
    if retry is None or not retry.covers(outcome.error or Failure(Category.CRITICAL, "")):
        return None
    retried = cursor.draft.attempt - repair_count(
        cursor.draft.kept, state.name, cursor.draft.attempt
    )
    if retried >= retry.times or not _may_wait(cursor, state.name, outcome, retry, retried):
        return None
    return retry.wait(retried, outcome.error.retry_after if outcome.error is not None else None)


def _may_wait(cursor: Cursor, name: str, outcome: Outcome, retry: Retry, retried: int) -> bool:
    """Whether the next attempt can wait as long as the provider asks. Adds a warning if longer."""
    retry_after = outcome.error.retry_after if outcome.error is not None else None
    if retry_after is None or retry_after <= retry.wait(retried):
        return True
    message = f"{name}: the provider asked to wait {say_elapsed(retry_after)}"
    if retry_after > retry.most:
        cursor.warnings += (f"{message}; `retry` waits at most {say_elapsed(retry.most)}",)
        return False
    cursor.warnings += (f"{message}: the next attempt is made then",)
    return True


def _answer(cursor: Cursor, input: Input) -> None:
    position = cursor.position
    if position.blocked_on == ELICITATION:
        _fill_form(cursor, input, {"action": str(input.event), "content": dict(input.data)})
        return
    if position.blocked_on == IN_DOUBT:
        _settle_doubt(cursor, input)
        return
    if position.state not in cursor.chart.waiting:
        raise StatusError(f"`{position.state}` waits for nothing")
    if input.event not in cursor.chart.events_at(position.state):
        raise StatusError(f"`{position.state}` does not take `{input.event}`")
    facts = tick(cursor.facts, input.at)
    cursor.facts = facts.replace(last=facts.last.replace(answer=dict(input.data)))
    _settle_wait(cursor, str(input.event), input.data)
    cursor.resume()
    decide(cursor, input.event)


def _fill_form(cursor: Cursor, input: Input, answer: Mapping[str, Any]) -> None:
    """Answer a server's question. Its action continues; rules are evaluated when it ends."""
    cursor.facts = tick(cursor.facts, input.at)
    kept = cursor.draft.kept[ELICITATION]
    answers = {**kept["answers"], kept["form"]["id"]: dict(answer)}
    cursor.keep({ELICITATION: {**kept, "answers": answers}})
    _go_on(cursor)


def _settle_doubt(cursor: Cursor, input: Input) -> None:
    """End the wait for a decision on a call. Its action continues, as the log says."""
    cursor.facts = tick(cursor.facts, input.at)
    _go_on(cursor)


def _go_on(cursor: Cursor) -> None:
    """Continue the action after its own wait, or honour the pause that was asked for."""
    if cursor.draft.pause_asked:
        cursor.draft = cursor.draft.replace(pause_asked=False, wake_at=None, blocked_on="")
        return
    cursor.resume()
    decide(cursor, None, general=False)


def _expire(cursor: Cursor, input: Input) -> None:
    if cursor.position.blocked_on == IN_DOUBT:
        _settle_doubt(cursor, input)
        return
    if cursor.position.state not in cursor.chart.waiting:
        raise StatusError(f"`{cursor.position.state}` does not wait")
    cursor.facts = tick(cursor.facts, input.at)
    _settle_wait(cursor, "expired", EMPTY)
    cursor.resume()
    decide(cursor, "expired")


def _settle_wait(cursor: Cursor, event: str, data: Mapping[str, Any]) -> None:
    """Forget the question of a wait. The answer to an approval is kept with its calls."""
    kept = {n: v for n, v in cursor.draft.kept.items() if n != QUESTION}
    approval = kept.get(APPROVAL)
    if approval is not None and approval["wait"] == cursor.position.state:
        kept[APPROVAL] = approvals.settle(approval, event, data)
    cursor.draft = cursor.draft.replace(kept=kept)


def _block(cursor: Cursor, input: Input) -> None:
    cursor.facts = tick(cursor.facts, input.at)
    cursor.pause()
    on = str(input.data.get("on", ""))
    cursor.draft = cursor.draft.replace(wake_at=input.data.get("until"), blocked_on=on)
    if cursor.position.waited is None and input.started:  # its first wait: it began just before
        cursor.draft = cursor.draft.replace(entered_at=input.started)
    if on in (CHILD, IN_DOUBT):
        cursor.keep({on: input.data.get("asks")})
    elif on == ELICITATION:
        form, before = input.data["asks"], cursor.draft.kept.get(ELICITATION, EMPTY)
        same = before.get("action") == form["action"]
        kept: dict[str, Any] = {"action": form["action"], "since": input.started, "answers": {}}
        cursor.keep({ELICITATION: {**(before if same else kept), "form": form}})


def _pause(cursor: Cursor, input: Input) -> None:
    cursor.facts = tick(cursor.facts, input.at)
    if cursor.position.status == "paused":  # in a wait or back-off the pause takes effect later
        cursor.draft = cursor.draft.replace(pause_asked=True)
    else:
        cursor.pause()


def _resume(cursor: Cursor, input: Input) -> None:
    if cursor.position.state in cursor.chart.waiting:
        if not cursor.draft.pause_asked:
            raise StatusError(f"`{cursor.position.state}` waits for an answer, not for a resume")
        cursor.draft = cursor.draft.replace(pause_asked=False)
        return
    due = cursor.position.wake_at
    form = cursor.position.blocked_on == ELICITATION
    if form and due is not None and input.at >= due:
        _fill_form(cursor, input, {"action": "cancel", "expired": True})
        return
    cursor.facts = tick(cursor.facts, input.at)
    if cursor.draft.pause_asked:  # the back-off has ended: honour the pending pause
        cursor.draft = cursor.draft.replace(pause_asked=False, wake_at=None, blocked_on="")
        return
    if CHILD in cursor.draft.kept:
        kept = {n: v for n, v in cursor.draft.kept.items() if n != CHILD}
        cursor.draft = cursor.draft.replace(kept=kept)
    cursor.resume()
    # with a child running, rules are evaluated when the action ends, which stops the child first
    decide(cursor, None, general=not (form or CHILD in input.data))


def _stop(cursor: Cursor, input: Input) -> None:
    cursor.facts = tick(cursor.facts, input.at)
    if cursor.position.status == "idle":
        cursor.fire("start")
        cursor.enter(cursor.chart.spec.start)
    elif cursor.position.status == "paused":
        cursor.resume()
    if cursor.facts.signals.continued:  # a continuation defers earlier signals, not a caller's stop
        cursor.suppress()
    reason = cursor.chart.spec.reason(input.event or "user_requested")
    data = input.data
    cursor.raise_signal(
        StopSignal(
            reason,
            str(data.get("message", "")),
            data.get("context", {}),
            str(data.get("source", "outside")),
        )
    )
    if unknown := data.get("unknown"):
        tools = Counter(str(tool) for _, tool in unknown if tool)
        replies = [CallResult(id, tool, False, NOT_KNOWN) for id, tool in unknown if id]
        spent = Spent(tools=dict(tools))
        outcome = Outcome(messages=tuple(replies), spent=spent, unknown=len(unknown))
        _add_results(cursor, outcome)
    decide(cursor, None, general=False)


def _edit(cursor: Cursor, input: Input) -> None:
    cursor.facts = assign(tick(cursor.facts, input.at), input.data)


def _enqueue(cursor: Cursor, input: Input) -> None:
    facts, added = tick(cursor.facts, input.at), [Task(**t) for t in input.data["tasks"]]
    queue = cursor.draft.queue
    queue += name_tasks(added, (task.id for task in queue), facts.queue)
    cursor.draft = cursor.draft.replace(queue=queue)
    cursor.facts = facts.replace(
        queue=queue_facts(facts.queue, queue), marks=facts.marks.replace(has_queue=True)
    )


def _drop(cursor: Cursor, input: Input) -> None:
    cursor.facts = tick(cursor.facts, input.at)
    what = f"the answer `{input.event}`" if input.event else "a message"
    cursor.warnings += (f"{what} was dropped: {input.data.get('why', '')}",)


_KINDS: Mapping[str, Callable[[Cursor, Input], None]] = {
    "start": _start,
    "step": _step,
    "answer": _answer,
    "expired": _expire,
    "blocked": _block,
    "pause": _pause,
    "resume": _resume,
    "stop": _stop,
    "edit": _edit,
    "enqueue": _enqueue,
    "drop": _drop,
}
