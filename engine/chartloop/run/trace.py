"""The trace of a run and its children, step by step, read from their records on demand.

Its cost grows with the run, so it is not part of a result. Nothing here decides or runs anything.

Source: 000 "Observability" (`tick_history`, `function_calls`, `token_usage_timeline`,
`execution_timeline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from chartloop.core.conversation import arguments_of, open_calls
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Outcome, child_results
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.run.journal import Journal


class Call(NamedTuple):
    """One tool call with its arguments and result."""

    run: str
    """The id of the run that made it: this one, or a child."""
    step: int
    """The step that made it, from 1."""
    state: str
    """The state in which it was made."""
    name: str
    """The tool's name."""
    arguments: Any
    """The model's arguments: data, or text that is not JSON. None for a call by the file itself,
    whose `with` has the arguments."""
    ok: bool
    """Whether it succeeded."""
    result: Any
    """The tool's return value as JSON data; if it failed, the text of its error."""


class TraceStep(NamedTuple):
    """One finished action. Times in seconds since the start of the run."""

    number: int
    """From 1; failed and retried actions count."""
    state: str
    """The state whose action it is."""
    started: float
    """When it started."""
    ended: float
    """When it was finished."""
    ok: bool
    """Whether it succeeded."""
    error: Mapping[str, Any] | None
    """`category` and `message` if it failed, else None."""
    tokens: int
    """Tokens that it used."""
    total_tokens: int
    """Tokens used by the run up to the end of this step."""
    result: Any
    """The action's return value, as JSON data."""
    calls: tuple[Call, ...]
    """The tool calls that it made itself."""
    inside: tuple[Trace, ...] = ()
    """The traces of the children that it ran."""


class Trace(tuple[TraceStep, ...]):
    """The steps of a run, in order."""

    __slots__ = ()

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every tool call, in order; those of children follow their step's own."""
        return tuple(
            call
            for step in self
            for call in (*step.calls, *(c for child in step.inside for c in child.calls))
        )

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data."""
        return [
            {
                **plain(step._asdict()),
                "calls": [plain(call._asdict()) for call in step.calls],
                "inside": [child.to_list() for child in step.inside],
            }
            for step in self
        ]


class TraceStart(NamedTuple):
    """The part of a run before the records of a trace that does not begin with the first."""

    steps: int = 0
    """How many actions were finished."""
    tokens: int = 0
    """The tokens that these used."""
    begun: float | None = None
    """When the run began, in seconds since the epoch; None for the time of the first record."""
    asked: Sequence[ToolCall] = ()
    """The calls that a model asked for last: they may be made later."""


START = TraceStart()


async def trace(
    journal: Journal, run_id: str, records: Iterable[Record], start: TraceStart = START,
    most: tuple[int | None, int | None] = (None, None),
) -> Trace:  # fmt: skip
    """The trace of a run and its children; of each of these at most so many records, and bytes."""
    steps: list[TraceStep] = []
    for step in _steps(run_id, records, start):
        inside: list[Trace] = []
        for child in (str(one["run"]) for one in child_results(step.result)):
            found = await journal.records(child, 0, most[0], size=most[1])
            inside.append(await trace(journal, child, found, most=most))
        steps.append(step._replace(inside=tuple(inside)))
    return Trace(steps)


def _steps(run_id: str, records: Iterable[Record], start: TraceStart) -> Iterator[TraceStep]:
    number, tokens, begun, asked = start
    now = 0.0
    for record in records:
        given, outcome = record.input, record.input.outcome
        begun = given.at if begun is None else begun
        before, asked = asked, asked_after(record, asked)
        if outcome is None:
            continue
        number += 1
        spent = outcome.spent.prompt_tokens + outcome.spent.completion_tokens
        tokens += spent
        started = max(given.started - begun, now)  # a clock may jump back
        now = max(given.at - begun, started)
        error = outcome.error
        failure = None if error is None else {"category": error.category, "message": error.message}
        by_child = type(outcome.result) not in (list, tuple) and any(child_results(outcome.result))
        made = () if by_child else _calls(outcome, before)
        yield TraceStep(
            number, record.state, started, now, outcome.ok, failure, spent, tokens,
            plain(outcome.result),
            tuple([Call(run_id, number, record.state, *call) for call in made]),
        )  # fmt: skip


def asked_after(record: Record, before: Sequence[ToolCall]) -> Sequence[ToolCall]:
    """The calls that a model asked for last, after a record."""
    if record.input.kind == "start":  # open calls of a conversation that it continues
        return open_calls(record.input.data.get("messages", ()))
    outcome = record.input.outcome
    return before if outcome is None or outcome.reply is None else outcome.reply.tool_calls


def _calls(outcome: Outcome, asked: Sequence[ToolCall]) -> Iterator[tuple[str, Any, bool, Any]]:
    """The calls that an action made: those of a reply, or the one that the file names."""
    if not outcome.spent.tools and not outcome.tool_errors and not outcome.denied:
        return
    if not _answers_a_reply(outcome.result):
        message = "" if outcome.error is None else outcome.error.message
        result = plain(outcome.result) if outcome.ok else message
        for name in outcome.spent.tools:
            yield name, None, outcome.ok, result
        return
    left = list(asked)
    for done in cast("Sequence[Mapping[str, Any]]", outcome.result):
        call = next((c for c in left if c.id == done["id"]), None)
        if call is not None:
            left.remove(call)
        given = None if call is None else arguments_of(call)
        result = done["result"] if done["ok"] and done["result"] is not None else done["content"]
        yield done["name"], given, done["ok"], plain(result)


_CALLED = frozenset({"id", "name", "ok", "content", "result"})


def _answers_a_reply(result: Any) -> bool:
    """Whether an action's result has the form of `call_tools`."""
    if not isinstance(result, (list, tuple)):
        return False
    return len(result) > 0 and all(  # pyright: ignore[reportUnknownArgumentType]
        isinstance(part, Mapping) and _CALLED.issuperset(part)  # pyright: ignore[reportUnknownArgumentType]
        for part in result  # pyright: ignore[reportUnknownVariableType]
    )
