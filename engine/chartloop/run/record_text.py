"""Records in words: the action, its outcome, where it led and why; and their table.

Belongs here: what is said of one record, wherever records are listed. Never: printing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from chartloop.core.conversation import arguments_of
from chartloop.core.format import json_text
from chartloop.core.outcome import made_of_calls
from chartloop.core.phase import ending_of
from chartloop.core.position import ELICITATION
from chartloop.core.reasons import StopSignals
from chartloop.core.reports import Table
from chartloop.core.text_table import Cell, Row
from chartloop.core.units import say_elapsed
from chartloop.core.visible import short
from chartloop.machine.guard_text import say_value
from chartloop.machine.transition_table import ENGINE_ENDS

if TYPE_CHECKING:  # the command line uses this module before it loads a machine
    from chartloop.core.facts import ToolCall
    from chartloop.core.records import Record
    from chartloop.machine.build import Chart

LONGEST_RESULT = 160
"""The most characters shown of the result of a call, and of its arguments."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record: its action, its outcome, the states it led to, and why."""

    seq: int
    kind: str
    state: str
    action: str
    outcome: str
    duration: str
    path: tuple[str, ...]
    """The states of the file, and how the run ended if it did so at an end of the engine."""
    because: str
    failed: bool

    @classmethod
    def of(cls, chart: Chart, record: Record) -> Self:
        """What is said of a record."""
        path = shown_path(path_of(chart, record), record)
        return cls(
            record.seq, record.kind, record.state, action_of(chart, record), outcome_of(record),
            duration_of(record), path, because(chart, record),
            bool(record.failures),
        )  # fmt: skip


def record_table(
    rows: Iterable[RecordRow], clean: Callable[[str], str], *, ends: int = 0, reasons: bool = True
) -> Table:
    """A row for each record, cleaned for its reader; red if something failed.

    `ends` is how many states a long path keeps at each of its ends, all if 0; without `reasons`,
    the last column is empty.
    """
    listed: list[Row] = []
    for one in rows:
        path = one.path
        if ends and len(path) > 2 * ends + 1:
            path = (*path[:ends], "…", *path[-ends:])
        cells = (
            (str(one.seq), ""), (one.kind, ""), (one.state, "code"), (one.action, "code"),
            (one.outcome, ""), (one.duration, ""), (" → ".join(path), "code"),
            (one.because if reasons else "", "dim"),
        )  # fmt: skip
        colour = "red" if one.failed else ""
        listed.append(Row(tuple(Cell(clean(text), tone) for text, tone in cells), colour))
    head = ("#", "kind", "state", "action", "outcome", "duration", "path")
    return Table(listed, (*head, "because" if reasons else ""), {0, 5}, spare=(5, 3, 1))


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


def shown_path(path: Sequence[str], record: Record) -> tuple[str, ...]:
    """The states for people: in place of an end of the engine stands how the run ended."""
    if not path or path[-1] not in ENGINE_ENDS:
        return tuple(path)
    top = StopSignals(record.signals).highest
    return (*path[:-1], ending_of(record.status, top).marked)


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
        if outcome.tool_errors or outcome.denied:
            result: Any = outcome.result
            made = len(asked) or (len(cast("list[Any]", result)) if isinstance(result, list) else 0)
            return "; ".join(
                f"{len(texts)} of {max(len(texts), made)} calls {word}: "
                + "; ".join(text.replace(": error: ", ": ", 1) for text in texts)
                for word, texts in (("failed", outcome.tool_errors), ("denied", outcome.denied))
                if texts
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
    if given.via:
        return f"{given.event} via {given.via}"
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


def call_lines(record: Record, asked: Sequence[ToolCall] = ()) -> list[str]:
    """The tool calls of a record, a line each: those of a reply, or those made, with results.

    `asked` are the calls of the newest reply before the record: they have the arguments.
    """
    outcome = record.outcome
    if outcome is None:
        return []
    if outcome.reply is not None:
        return [call_text(call) for call in outcome.reply.tool_calls]
    results = outcome.held_result
    if not made_of_calls(results):
        return []
    known = {call.id: call for call in asked}
    return [
        f"{call_text(known[one.id]) if one.id in known else one.name} → "
        + ("" if one.ok else "failed: ") + short(one.content, LONGEST_RESULT)
        for one in results
    ]  # fmt: skip


def call_text(call: ToolCall) -> str:
    """A call as code: ``search(query="lithium")``, shortened."""
    arguments = arguments_of(call)
    if isinstance(arguments, dict):
        given = cast("dict[str, Any]", arguments)
        text = ", ".join(f"{name}={short(json_text(one))}" for name, one in given.items())
    else:
        text = short(str(arguments))
    return f"{call.name}({short(text, LONGEST_RESULT)})"


def duration_of(record: Record) -> str:
    """How long the action took; empty for a record without one."""
    given = record.input
    took = given.at - given.started
    return say_elapsed(max(0.0, took)) if record.kind == "step" and given.started else ""
