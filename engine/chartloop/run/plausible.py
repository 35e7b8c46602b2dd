"""Whether a record holds what an engine writes: values of the right kind, and numbers in reach.

Records come from files that others may have written. Whoever asks many runs adds up their numbers
and prints their names: what is no number or no text is found here, once, and the run passed over.

Belongs here: the kinds of values. Never: whether a machine would decide so (`replay`).

Imported by: run.recorded, run.session
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chartloop.core.amounts import problem_with
from chartloop.core.outcome import NOTHING_SPENT, Outcome, Reply
from chartloop.core.records import Record

MOST = 1e15
"""No count, no time in seconds and no amount of USD goes beyond this."""


def wrong_with(record: Record) -> str:
    """What no engine would have written, in words; empty where everything may be."""
    given = record.input
    if not _texts((record.state, record.next, record.status, given.kind, given.event)):
        return "a state, status or event is no text"
    if not (_number(given.at) and _number(given.started)):
        return "a time is none"
    if not (record.wake_at is None or _number(record.wake_at)):
        return "the time at which it goes on is none"
    if not (_texts(record.taken) and _texts(record.warnings)):
        return "an edge or a warning is no text"
    return _outcome(given.outcome) if given.outcome is not None else ""


def _outcome(outcome: Outcome) -> str:
    if outcome.spent is not NOTHING_SPENT and (wrong := problem_with(outcome.spent)):
        return f"it cannot have used {wrong}"
    if outcome.reply is not None and not _reply(outcome.reply):
        return "what a model replied is no reply"
    error = outcome.error
    if error is not None and not _texts((error.category, error.message, error.kind)):
        return "a failure is none"
    if not (outcome.context_tokens is None or _number(outcome.context_tokens)):
        return "the size of the conversation is no number"
    if not _texts(outcome.tool_errors):
        return "the failure of a tool is no text"
    messages = (*outcome.messages, *(outcome.rewrite or ()), *(outcome.prompt or ()))
    return "" if all(map(_message, messages)) else "a message of the conversation is none"


def _reply(reply: Reply) -> bool:
    said = (reply.text, reply.finish_reason, reply.model)
    return _texts(said) and all(map(_texts, reply.tool_calls))


def _message(message: object) -> bool:
    if not isinstance(message, Mapping):
        return False
    content: object = message.get("content")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return content is None or isinstance(content, (str, list, tuple))


def _texts(values: Iterable[object]) -> bool:
    for value in values:  # noqa: SIM110  a loop: half the time of `all`, and there are many records
        if not isinstance(value, str):
            return False
    return True


def _number(value: object) -> bool:
    """A number from 0 on, and none that arithmetic would trip over."""
    return isinstance(value, (int, float)) and 0 <= value <= MOST
