"""Records in words: the action, its outcome, where it led and why.

Belongs here: cells about one record. Never: tables, printing, colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from chartloop.core.position import ELICITATION
from chartloop.core.units import say_elapsed
from chartloop.machine.guard_text import say_value

if TYPE_CHECKING:  # the command line uses this module before it loads a machine
    from chartloop.core.records import Record
    from chartloop.machine.build import Chart


def path_of(chart: Chart, record: Record) -> tuple[str, ...]:
    """The states that a record entered, in order."""
    entered: list[str] = []
    for origin in record.taken:
        transition = chart.by_origin.get(origin)
        if transition is not None and transition.dest is not None:
            entered.append(transition.dest)
    if record.next and (not entered or entered[-1] != record.next):
        moved = record.next != record.state or record.kind == "start"
        entered += [record.next] if moved else []
    return tuple(entered)


def because(chart: Chart, record: Record) -> str:
    """Why a record led where it did: the guards of the edges and rules taken."""
    reasons: list[str] = []
    for origin in record.taken:
        transition = chart.by_origin.get(origin)
        if transition is None:
            continue
        if transition.rule is not None:
            rule = transition.rule
            reasons.append(f"rule {rule.when.text}" + (f": {rule.stop}" if rule.stop else ""))
        elif transition.guards and transition.kind != "raised" and not transition.forks:
            reasons.append(" and ".join(g.__name__ for g in transition.guards))
    return ", ".join(dict.fromkeys(reasons))


def outcome_of(record: Record) -> str:
    """The outcome of a record's input: ``ok``, the failure, the event, the reason."""
    outcome = record.outcome
    if record.kind == "step" and outcome is not None:
        if not outcome.ok:
            error = outcome.error
            return f"failed: {error.category} {error.message}" if error is not None else "failed"
        asked = outcome.reply.tool_calls if outcome.reply is not None else ()
        if outcome.tool_errors:
            failed = len(outcome.tool_errors)
            result: Any = outcome.result
            made = len(asked) or (len(cast("list[Any]", result)) if isinstance(result, list) else 0)
            return f"{failed} of {max(failed, made)} calls failed: " + "; ".join(
                text.replace(": error: ", ": ", 1) for text in outcome.tool_errors
            )
        names = ", ".join(call.name for call in asked)
        return f"ok, calls {names}" if names else "ok"
    given = record.input
    if record.kind == "edit":
        return ", ".join(f"{n} = {say_value(v)}" for n, v in given.data.items())
    if record.kind == "enqueue":
        return ", ".join(task["text"] for task in given.data["tasks"])
    if record.kind == "drop":
        return ": ".join(filter(None, (given.event, str(given.data.get("why", "")))))
    if given.ahead is not None:
        return f"{given.event}, given ahead of the question"
    if record.kind == "blocked" and given.data.get("on") == ELICITATION:
        return f"MCP server `{given.data['asks']['server']}` asks: {given.data['asks']['text']}"
    if record.kind == "blocked":
        return f"waits: {given.data.get('on', '')}"
    return given.event


def action_of(chart: Chart, record: Record) -> str:
    """The action that a record finished."""
    state = chart.spec.states.get(record.state)
    is_step = record.kind in ("step", "blocked")
    return state.action.name if is_step and state is not None and state.action is not None else ""


def duration_of(record: Record) -> str:
    """How long the action took; empty for a record without one."""
    given = record.input
    took = given.at - given.started
    return say_elapsed(max(0.0, took)) if record.kind == "step" and given.started else ""
