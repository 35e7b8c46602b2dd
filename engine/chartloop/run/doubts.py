"""The treatment of a call in doubt: the run makes it again, leaves it, or asks a person.

Belongs here: the decision about one call. Never: which calls are in doubt (`run.calls`).

Source: docs/stuck.md, "A call in doubt".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeGuard

from chartloop.core.approvals import keyed
from chartloop.core.errors import Category
from chartloop.core.facts import EMPTY
from chartloop.core.outcome import NOTHING_SPENT, Blocked, Outcome, Spent
from chartloop.core.position import IN_DOUBT, REPLY_KEY, Position
from chartloop.core.specs import ActionSpec, Effect, ToolSpec
from chartloop.language.spec import InDoubt, StateSpec
from chartloop.machine.build import Chart
from chartloop.machine.evolve import RULES
from chartloop.machine.in_doubt import policy, provider_acts
from chartloop.machine.rules import time_allowed
from chartloop.run.calls import EXPIRED, begun_in, fields_digest, say_doubt
from chartloop.run.job import Job
from chartloop.run.journal_records import FORKED, Event
from chartloop.run.rules_version import rules_of
from chartloop.run.session import Session


def has_key(action: ActionSpec | None) -> TypeGuard[ActionSpec]:
    """Whether the calls of an action keep their key when it is done again.

    Those of a model do not, since each is paid.
    """
    if action is None or action.effect is Effect.PURE:
        return False
    return "model" not in action.uses | action.may_use


def action_key(
    chart: Chart, position: Position, rules: int | None, inherited: tuple[int, str] | None = None,
    root: str = "",
) -> str:  # fmt: skip
    """The key of the action at a position, which names its calls for good.

    It is the same when the action is done again after a crash, a pause, a failure or a decision.
    The calls of a reply have the key of that reply as long as its record is kept, in a fork too,
    and those of a child have that of the action which runs it as their `root`. A model call has
    another one at each attempt, since it is paid each time.
    """
    facts, action = position.facts, chart.spec.states[position.state].action
    steps, run_id = facts.run.steps, facts.run.id
    if (rules or 1) > 1 and has_key(action):
        if action.traits.calls in ("all", "first"):
            open_ = position.messages.open_calls(chart.spec.wire_names)
            reply = position.kept.get(REPLY_KEY, "")
            if reply and set(open_) <= {*facts.last.tool_calls}:
                return reply
        steps -= position.attempt
        if inherited is not None and inherited[0] == steps:
            return inherited[1]
        run_id = root or run_id
    return f"{run_id}/{position.state}/{steps}"


def key_of(session: Session) -> str:
    """The key of the current action of a run."""
    above, root = session.above, ""
    if above is not None:
        root = key_of(above) + session.run_id.removeprefix(above.place)
    position, inherited = session.position, session.inherited
    return action_key(session.chart, position, session.rules, inherited, root)


def same_key(session: Session, job: Job, fields: Mapping[str, Any]) -> str:
    """The key of the action that begins now, which is that of a call in doubt if it is the same.

    An edge that leads back to a state whose call is unknown, with the same fields, makes no other
    call: its outcome is still not known.
    """
    key, calls = key_of(session), session.calls
    if not has_key(job.action) or job.action.traits.calls in ("all", "first"):
        return key
    if calls.pending or calls.unknown:
        mine = {"state": job.state.name, "fields": fields_digest(fields)}
        known = (k for k, data in calls.unknown.items() if mine.items() <= data.items())
        begun = (k for k in calls.pending if k.rpartition("/")[0] == key.rpartition("/")[0])
        key = next(chain(known, begun), key)
    session.doing = key, fields
    return key


def carried(
    chart: Chart, position: Position, kept: Sequence[Event], left: Sequence[Sequence[Event]],
    at: float,
) -> list[Event]:  # fmt: skip
    """The events that follow those which a fork keeps: what is known of its next action's calls.

    It has the key of that action in the run that it is forked from, unless its calls are those of
    a reply, and the doubts about its calls among the events that are `left` out, of the run and of
    the children of that action.
    """
    notes = list[Event]()
    start = next((event.record.input for event in kept if event.record is not None), None)
    rules = RULES if start is None else rules_of(start)
    if position.ended or (rules or 1) < 2:
        return notes
    action = chart.spec.states[position.state].action
    inherited = [(e.data["steps"], e.data["key"]) for e in kept if e.type == FORKED]
    roots = {position.kept.get(REPLY_KEY, "")}
    if has_key(action):
        key = action_key(chart, position, rules, inherited[-1] if inherited else None)
        if key not in roots:
            steps = position.facts.run.steps - position.attempt
            notes.append(Event(len(kept), FORKED, at, None, {"key": key, "steps": steps}))
        roots.add(key)
    for call in (call for log in left for call in begun_in(log).values()):
        mine = any(call.key == root or call.key.startswith(f"{root}/") for root in roots if root)
        if call.standing == "unknown" and mine:
            data = {field: value for field, value in call.data.items() if field != "warned"}
            notes.append(Event(len(kept) + len(notes), "in_doubt", at, None, data))
    return notes


def is_restorable(session: Session, job: Job) -> bool:
    """Whether what an action does itself is unknown in a run that was restored from a backup.

    A mere call of the model is made again, whatever the file says of one in doubt.
    """
    action = job.action
    if action is None or action.traits.calls in ("all", "first", "task"):
        return False
    if job.named_tool is not None:
        return job.named_tool.effect is Effect.PAID
    if "model" in job.uses:
        return provider_acts(session.chart.spec, job.state)
    return action.effect is Effect.PAID


def has_effect(session: Session, job: Job) -> bool:
    """Whether what an action does itself is a call with effects, and no mere call of the model."""
    if job.named_tool is not None:
        return job.named_tool.effect is Effect.PAID
    spec, action = session.chart.spec, job.action
    assert action is not None
    if action.traits.calls == "task":  # a task settles its own call
        return False
    if "model" not in job.uses:
        return True
    return policy(spec, job.state, action, None, rules=session.rules) != "retry"


def treatment(session: Session, state: StateSpec, tool: ToolSpec | None, key: str) -> InDoubt:
    """The policy for a call in doubt. A person who tries a run again is asked about it."""
    assert state.action is not None
    given = policy(session.chart.spec, state, state.action, tool, rules=session.rules)
    asks = (session.doubt(key) or EMPTY).get("ask")
    return "ask" if asks and given != "retry" else given


async def settle_said(session: Session, job: Job, key: str, outcome: Outcome) -> Outcome | Blocked:
    """The outcome of an action that says itself that the outcome of its call is not known."""
    if key not in session.calls.pending or not has_effect(session, job):
        return outcome.replace(in_doubt=False)
    await session.note_unknown({"left": "said", "warned": bool(outcome.warnings)}, key)
    settled = settle(session, job, key, session.ports.clock.now())
    if isinstance(settled, Blocked):
        return settled
    spent = outcome.spent if settled is None or outcome.spent.tools else settled.spent
    return outcome.replace(in_doubt=settled is not None, unknown=1, spent=spent)


def settle(
    session: Session, job: Job, key: str, now: float, tool: ToolSpec | None = None
) -> Outcome | Blocked | None:  # fmt: skip
    """The outcome or the wait of an action whose call is unknown; None: it is made again.

    `tool` is what it calls, for an action whose state does not name it.
    """
    tool, action = tool or job.named_tool, job.action
    assert action is not None
    name = action.name if tool is None else tool.name
    word = session.calls.decided.get(key)
    if word == "fail":
        text = f"a person says that {name} was not carried out"
        return Outcome.failure(Category.RECOVERABLE, text, kind="in_doubt")
    word = word or treatment(session, job.state, tool, key)
    if word == "retry":
        return None
    if word == "ask":
        asked = {"calls": [], "keys": [key], "what": name}
        if (wait := ask_about(session, job.state, tool, asked, now)) is not None:
            return wait
    text = say_doubt(name, session.doubt(key) or EMPTY)
    spent = NOTHING_SPENT if tool is None else Spent(tools={tool.name: 1})
    kind = "timeout" if word == EXPIRED else "in_doubt"  # a time limit may be about the first
    return Outcome.failure(
        Category.RECOVERABLE, text, kind=kind, in_doubt=True, unknown=1, spent=spent
    )


def ask_about(
    session: Session, state: StateSpec, tool: ToolSpec | None, about: Mapping[str, Any], now: float
) -> Blocked | None:
    """The wait for a person to decide on a call in doubt; None without time for a wait.

    `about` is what the person reads of it. The approval that the call needed says who decides, and
    in what time: all waits of one action have it together. They end no later than the run's time
    limits, or its parent's deadline.
    """
    chart, position, ends = session.chart, session.position, list[float]()
    key, before = key_of(session), position.kept.get(IN_DOUBT) or EMPTY
    since = before["since"] if before.get("action") == key else now
    about = {**about, "action": key, "since": since}
    bare = replace(state, within=None)
    if (left := time_allowed(chart, bare, position)) is not None:
        ends.append(position.facts.marks.now + left)
    if session.deadline is not None:
        ends.append(session.deadline)
    approve = chart.spec.approve
    if approve is not None and tool is not None and tool.name in approve.tools:
        gate, alone = replace(state, within=approve.within), position.replace(stopping=True)
        if (left := time_allowed(chart, gate, alone)) is not None:
            ends.append(since + left)
        about = {**about, "by": approve.by, "not_by": approve.not_by}
    until = min(ends, default=None)
    return None if until is not None and until <= now else Blocked(until, IN_DOUBT, about)


async def leave_unknown(session: Session) -> dict[str, Any]:
    """Record that the calls of the current action are unknown, as a stop comes between.

    Returns what the input of the stop says of them: the id of each in its reply, and its tool.
    """
    calls, position = session.calls, session.position
    if not calls.pending:
        return {}
    await session.note_unknown(session.holder.doubt or {"left": "stopped"})
    key, job = key_of(session), session.jobs[position.state]
    open_ = position.messages.open_calls(session.chart.spec.wire_names)
    found = [
        [call.id, call.name] for name, call in keyed(open_) if f"{key}/{name}" in calls.pending
    ]
    if key in calls.pending and has_effect(session, job):
        found.append(["", "" if job.named_tool is None else job.named_tool.name])
    return {"unknown": found} if found else {}
