"""Validation of journal contents: whether values have the types and ranges that we write.

Journals and exports are files that others may have written. Studies add up the numbers of many runs
and print their names, so each value is checked here, once. A damaged run is skipped, a damaged
message is dropped, a damaged row is marked in the list of runs.

Belongs here: the types of values. Never: whether a machine would decide the same (`replay`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from chartloop.core.approvals import is_request
from chartloop.core.codec import read
from chartloop.core.facts import Task
from chartloop.core.outcome import NOTHING_SPENT, Message, Outcome, problem_with
from chartloop.core.position import APPROVAL, ELICITATION, REMEMBERED
from chartloop.core.reasons import REASONS
from chartloop.core.records import Record
from chartloop.run.elicitation import is_form
from chartloop.run.journal_records import DAMAGED, OpenQuestion, RunRow

MOST = 1e15
"""The greatest count, time in seconds or amount of USD."""


UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions that reading a value of an unexpected type may raise."""


def wrong_with(record: Record) -> str:
    """The invalid part of a record, in words; empty if it is valid."""
    try:
        return _wrong_with(record)
    except UNFIT as error:  # such as a list for a text: there are too many cases to test each
        return f"{type(error).__name__} {error}"


def _wrong_with(record: Record) -> str:
    given = record.input
    if given.kind == "blocked" and given.data.get("on") == ELICITATION:
        if not is_form(given.data.get("asks")):
            return "the form of an MCP server is not valid"
    return _outcome(given.outcome) if given.outcome is not None else ""


_DEFAULTS = RunRow.defaults()


def as_row(columns: Iterable[Any]) -> RunRow:
    """The row of a run; if damaged, its readable columns with the status `DAMAGED` and why."""
    row = RunRow(*columns)
    if isinstance(row.question, dict):
        row = row.replace(question=_question(row))
    fit: dict[str, Any] = {n: v for n, v in row.to_mapping().items() if _fits(n, v)}
    wrong = next((n for n in RunRow.__struct_fields__ if n not in fit), None)
    if wrong is None:
        return row
    why = f"`{wrong}` of its row cannot be {ascii(getattr(row, wrong))[:40]}"
    fit = {"run_id": ascii(row.run_id), **fit, "status": DAMAGED, "reason": why}
    return RunRow(**fit)


def _question(row: RunRow) -> object:
    """The question in the data of a row; the data themselves if they are invalid."""
    try:
        asked = read(row.question, OpenQuestion, REASONS)
    except ValueError:
        return row.question
    return asked if all(_texts(one.values()) for one in asked.calls) else row.question


def _fits(column: str, value: object) -> bool:
    if column == "question":
        return value is None or isinstance(value, OpenQuestion)
    if column == "parked":
        died = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ("",)
        return value is None or all(map(is_number, died))
    if column == "tokens":
        return value is None or (type(value) is int and is_number(value))
    default = _DEFAULTS.get(column, "")
    if isinstance(default, str):
        return isinstance(value, str)
    if value is None:
        return default is None
    return is_number(value) and not (type(default) is int and type(value) is not int)


def wrong_with_message(at: object, data: object) -> str:
    """Why a message of the inbox is unreadable, in words; empty if it is valid."""
    if not is_number(at):
        return "its time is not a number"
    if not isinstance(data, dict):
        return "it is not a mapping"
    given = cast("dict[str, Any]", data)
    texts = ("kind", "event", "wait", "ahead", "reason")
    if not _texts(given.get(name, "") for name in texts):
        return "a name in it is not a text"
    if not isinstance(given.get("data") or {}, dict):
        return "its data is not a mapping"
    if given.get("kind") == "enqueue" and not _tasks(given.get("tasks")):
        return "what it adds is not a list of tasks"
    return ""


def _tasks(value: object) -> bool:
    try:
        read(value, list[Task], REASONS)
    except ValueError:
        return False
    return True


def _outcome(outcome: Outcome) -> str:
    if outcome.spent is not NOTHING_SPENT and (wrong := problem_with(outcome.spent)):
        return f"it cannot have used {wrong}"
    if (request := outcome.kept.get(APPROVAL)) is not None and not is_request(request):
        return "the calls of an approval are not valid"
    if known := outcome.kept.get(REMEMBERED):
        if not _texts((known["run"], *known["marks"])):
            return "the calls that need no more approval are not valid"
    messages = (*outcome.messages, *(outcome.rewrite or ()), *(outcome.prompt or ()))
    return "" if all(map(_message, messages)) else "a message of the conversation is not valid"


def _message(message: Message) -> bool:
    content: object = message.get("content")
    if not isinstance(message.get("reasoning", {}), Mapping):
        return False
    return content is None or isinstance(content, (str, list, tuple))


def _texts(values: Iterable[object]) -> bool:
    for value in values:  # noqa: SIM110  a loop: half the time of `all`, and there are many records
        if not isinstance(value, str):
            return False
    return True


def is_number(value: object) -> bool:
    """Whether a value is a number from 0 to `MOST`."""
    return isinstance(value, (int, float)) and 0 <= value <= MOST
