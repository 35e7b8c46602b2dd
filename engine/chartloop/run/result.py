"""The result of a run, final or so far, and its description in words.

Source: docs/design.md, "The nouns"; 000 `AgentExecutionResult`,
002 "Inspecting Stop Reasons", 004 `execution-result`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

from chartloop.core.facts import Facts
from chartloop.core.format import json_text
from chartloop.core.phase import DONE, FAILED, Phase, phase_of
from chartloop.core.plain import plain
from chartloop.core.position import METADATA, Position
from chartloop.core.reasons import NO_SIGNALS, ResultKind, StopReason, StopSignals
from chartloop.core.reports import Group, Part, Shown, Table, pairs
from chartloop.core.text_table import Cell, Line, Row
from chartloop.core.types import Type
from chartloop.core.units import say_count, say_elapsed
from chartloop.language.expression import Expression, GuardFailed
from chartloop.language.spec import MachineSpec
from chartloop.machine.evolve import Oracle
from chartloop.machine.guard_text import fact_value, say_value
from chartloop.machine.transition_table import ENGINE_ENDS
from chartloop.run.journal_records import MOVED
from chartloop.run.question import last_state, question_of
from chartloop.run.session import Session
from chartloop.run.tally import StateProfile


class Moment(NamedTuple):
    """When an action was finished."""

    at: float
    """Seconds since the start."""
    state: str
    tokens: int
    """Tokens that the run had used by then."""


class Moments(Sequence[Moment]):
    """The moments of a run, each built on access: a look at a long run builds none."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Iterable[tuple[float, str, int]] = ()) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Moment: ...
    @overload
    def __getitem__(self, index: slice) -> Moments: ...
    def __getitem__(self, index: int | slice) -> Moment | Moments:
        if isinstance(index, slice):
            return Moments(self._rows[index])
        return Moment(*self._rows[index])

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Moments):
            return self._rows == other._rows
        return self._rows == other

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """The result of a run, or its state so far. Times in seconds, cost in USD (None: not known).

    `explain` returns it in words, `to_dict` as plain data. The outcome of each step and every tool
    call are read from the journal, by `Run.trace`.
    """

    run_id: str
    machine: str
    reason: StopReason | None
    """The signal with the highest priority; None while the run has not ended."""
    status: str
    state: str
    steps: int
    facts: Facts
    output: Any = None
    """The value of the file's `output`. Without one: the last text of the model if the run came to
    its natural end, else None, since nothing has accepted that text."""
    question: str | None = None
    """The question of the run, if it waits for an answer."""
    events: tuple[str, ...] = ()
    """The events that the wait accepts."""
    wait: str | None = None
    """The id of the wait, which an answer may name."""
    signals: StopSignals = NO_SIGNALS
    """Every signal raised, in order; suppressed ones included."""
    warnings: tuple[str, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    partial: tuple[str, ...] = ()
    """Partial results, in order."""
    path: tuple[str, ...] = ()
    """Every state entered, in order."""
    messages: Sequence[Mapping[str, Any]] = ()
    """The conversation."""
    timeline: Sequence[Moment] = ()
    """One moment for each finished action, in order."""
    profile: Mapping[str, StateProfile] = field(default_factory=dict[str, StateProfile])
    """Time and tokens of each state that acted, in the order of first action."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The metadata of the run: the file's, overridden by that of the start."""
    moved_to: str = ""
    """The run that continues this one under a changed machine; empty for none."""
    wake_at: float | None = None
    """When it goes on by itself, in seconds since the epoch; None if it does not."""

    @property
    def phase(self) -> Phase:
        """How it stands, in the words of every face."""
        raised = (one for one in reversed(self.signals) if one.reason == self.reason)
        return phase_of(
            self.status, next(raised, self.reason), lost=self.facts.unfinished,
            asks=bool(self.question or self.events), wakes=self.wake_at is not None,
        )  # fmt: skip

    @property
    def stopped_at(self) -> str:
        """The state of the file at which it is or ended, for people."""
        return last_state(self.state, self.path)

    @property
    def last_activity(self) -> float:
        """When the last record was made, in seconds since 1970-01-01 UTC; 0.0 without records."""
        return self.facts.marks.now

    @property
    def kind(self) -> ResultKind:
        """`natural`, `human`, `limit`, `error`, or `waiting` while the run has not ended."""
        if self.reason is None:
            return "waiting"
        return self.reason.kind_of_end(self.status, self.facts.unfinished)

    @property
    def success(self) -> bool:
        """Whether the run came to its natural end, with its last reply whole and no task lost."""
        return self.kind == "natural"

    @property
    def forced(self) -> bool:
        """Whether it was cut short. Source: 002 `wasForceStopped()`."""
        return self.reason is not None and self.reason.forced

    @property
    def elapsed(self) -> float:
        """Seconds from the start to the last record."""
        return self.facts.run.elapsed

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens of all model calls."""
        return self.facts.usage.total_tokens

    @property
    def usage(self) -> dict[str, Any]:
        """The section `usage` of the facts, as plain data."""
        return {
            **self.facts.usage.to_mapping(),
            "calls": {k: v for k, v in self.facts.usage.calls.items() if v},
        }

    def explain(self) -> str:
        """Why the run stopped, in words."""
        return "\n".join([stands(self), *describe_signals(self), *describe_warnings(self)])

    def to_dict(self) -> dict[str, Any]:
        """The public shape of `chartloop run --format json`."""
        return {
            "run": self.run_id, "machine": self.machine,
            "reason": None if self.reason is None else str(self.reason), "kind": self.kind,
            "success": self.success, "forced": self.forced, "status": self.status,
            "phase": self.phase.name,
            "state": self.state, "steps": self.steps, "usage": self.usage, "elapsed": self.elapsed,
            "output": self.output, "question": self.question, "wait": self.wait,
            "signals": self.signals.to_list(), "warnings": list(self.warnings),
            "errors": [dict(e) for e in self.errors], "partial": list(self.partial),
            "path": list(self.path), "timeline": [m._asdict() for m in self.timeline],
            "profile": plain(self.profile), "metadata": plain(self.metadata),
            "last_activity": self.last_activity, "moved_to": self.moved_to or None,
        }  # fmt: skip

    def __str__(self) -> str:
        return self.explain()

    def parts(self) -> Iterator[Part]:
        """Why the run stopped, its output, and where time went."""
        first, *more = self.explain().splitlines()
        yield Line(first, "bold" if self.reason is None else self.phase.ink)
        yield from map(Line, more)
        usage = self.facts.usage
        spent = say_count(usage.llm_calls, "model call") + f", {usage.tokens}"
        errors = (
            f"step {e['step']} at {e['state']}: {e['category']} {e['message']}" for e in self.errors
        )
        path = [
            name for name in self.path if name not in ENGINE_ENDS
        ]  # of a long one, the first states and the last
        states = path if len(path) <= _LISTED else (*path[:5], "…", *path[5 - _LISTED :])
        yield pairs(
            (
                ("output", "" if self.output is None else say_output(self.output)),
                ("run", Cell(f"{self.run_id} of {self.machine}", "code")),
                ("steps", f"{self.steps:,} in {say_elapsed(self.elapsed)}"),
                ("spent", spent if usage.llm_calls else ""),
                ("wait", Cell(self.wait or "", "code")),
                ("takes", Cell(", ".join(self.events), "code")),
                ("partial", "\n".join(self.partial)),
                ("errors", Cell("\n".join(errors), "red")),
                ("path", Cell(" → ".join(states), "code")),
            )
        )
        if self.profile:
            rows = [
                Row((
                    Cell(state, "code"), str(of.attempts), str(of.failed or ""),
                    str(of.failed_calls or ""), say_elapsed(of.total),
                    say_elapsed(of.longest), f"{of.tokens:,}" if of.tokens else "",
                ))
                for state, of in self.profile.items()
            ]  # fmt: skip
            head = ("state", "actions", "failed", "failed calls", "time", "longest", "tokens")
            table = Table(rows, head, range(1, 7))
            title = "where time and tokens went"
            yield Group(title, [table], folded=title)

    def plain_text(self) -> str:
        """Why the run stopped, and its output."""
        message = "" if self.output is None else f"\n{say_output(self.output)}"
        return f"{self.explain()}{message}"

    def __repr__(self) -> str:
        why = self.kind if self.reason is None else f"{self.reason} ({self.kind})"
        output = "" if self.output is None else f", output {reprlib.repr(self.output)}"
        steps = say_count(self.steps, "step")
        return f"<Result of {self.machine}: {why} at {self.stopped_at}, {steps}{output}>"


def say_output(output: Any) -> str:
    """An output as text: a string as it is, anything else as JSON."""
    return output if isinstance(output, str) else json_text(output)


_LISTED = 24
"""The number of states of a path that a notebook names."""


# in words -----------------------------------------------------------------------------------


def stands(result: Result) -> str:
    """Why the run stopped, or where it is."""
    if result.moved_to:
        return f"The run continues as run `{result.moved_to}`, under a changed file."
    if result.reason is None:
        asked = f" (wait {result.wait}): {result.question}" if result.question else "."
        return f"The run has not ended. It is {result.status} at `{result.state}`{asked}"
    spent = f"{say_count(result.steps, 'step')} and {say_elapsed(result.elapsed)}"
    phase = result.phase
    why = f" (`{result.reason}`"
    if result.reason.kind == "error" and phase is not FAILED:
        why += f", an error that the file ends as {result.status}"
    why = "" if phase is DONE and result.reason == "completed" else f"{why})"
    return f"{phase.word.capitalize()}{why} at `{result.stopped_at}` after {spent}."


def describe_signals(result: Result, told: str | None = None) -> Iterator[str]:
    """Sentences on what raised a run's stop reason, unless that is `told`, and on other signals."""
    if result.reason is None:
        return
    # the newest of that reason: an earlier one may have been suppressed
    top = next((s for s in reversed(result.signals) if s.reason == result.reason), None)
    # an end raises its own reason, which is not worth a sentence
    if top is not None and (top.message or top.source != result.state) and top.message != told:
        message = f": {top.message}" if top.message else ""
        by = "from outside" if top.source == "outside" else f"by {top.source}"
        yield _sentence(f"Raised {by}{message}")
    if others := [str(s) for s in result.signals if s is not top]:
        yield _sentence(f"Also raised: {'; '.join(others)}")


def describe_warnings(result: Result) -> list[str]:
    """A sentence for each warning of a run."""
    return [_sentence(f"Warning: {warning}") for warning in result.warnings]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def result_of(session: Session) -> Result:
    """The result of a run as it is now."""
    position, tally, chart = session.position, session.tally, session.chart
    top = position.signals.highest
    output, warning = output_of(session)
    asked = question_of(session)
    warnings = [*tally.warnings, *([warning] if warning else []), *unenforceable(session)]
    if lost := position.facts.queue.failed:
        were = f"{say_count(lost, 'task')} {'was' if lost == 1 else 'were'}"
        warnings.append(f"{were} given up: the work is not complete")
    if position.ended and position.facts.marks.cut_short:
        warnings.append("its last reply was cut off: the work is not complete")
    return Result(
        session.run_id, chart.name, top.reason if position.ended and top else None,
        MOVED if session.row.moved_to else position.status, position.state,
        position.facts.run.steps, position.facts, output,
        asked.text if asked else None, tuple(asked.answers) if asked else (),
        asked.wait if asked else None, StopSignals(tally.signals),
        tuple(dict.fromkeys(warnings)), tuple(tally.errors), tuple(tally.partial),
        tuple(tally.path), position.messages,
        Moments(zip(tally.elapsed, tally.acted, tally.tokens, strict=True)),
        dict(tally.profile), metadata_of(session), session.row.moved_to, position.wake_at,
    )  # fmt: skip


def metadata_of(session: Session) -> Mapping[str, Any]:
    """The file's metadata, overridden by that of the start."""
    own: Mapping[str, Any] | None = session.position.kept.get(METADATA)
    if own is None and session.begun is not None:  # no record yet
        own = session.begun.data.get(METADATA)
    own = own or {}
    return {**session.chart.spec.metadata, **own}


def output_of(session: Session) -> tuple[Any, str]:
    """The run's output, and a warning if the file's `output` failed.

    Without an `output` in the file: the last text of the model, once the run came to its natural
    end. Before, or after another end, variables that still have the values of the file are no
    output: nothing has saved a result.
    """
    spec, facts = session.chart.spec, session.position.facts
    if not is_natural(session.position):
        parts = spec.output.values() if isinstance(spec.output, Mapping) else [spec.output]
        reads = {name for part in parts if part is not None for name in part.reads}
        first = {f"vars.{name}": variable.value for name, variable in spec.vars.items()}
        if all(name in first and fact_value(facts, name) == first[name] for name in reads):
            return None, ""
    return read_output(spec, facts, session.tally.last_text, session.ask)


def is_natural(position: Position) -> bool:
    """Whether a run has come to its natural end."""
    top = position.signals.highest
    if not position.ended or top is None:
        return False
    return top.reason.kind_of_end(position.status, position.facts.unfinished) == "natural"


def read_output(spec: MachineSpec, facts: Facts, text: str, ask: Oracle) -> tuple[Any, str]:
    """The output for facts at an end: `text` is the last of a model, `ask` calls guards."""
    output = spec.output
    try:
        if output is None:
            return text or facts.last.text or None, ""
        if isinstance(output, Expression):
            return plain(output.value(facts, ask)), ""
        return {n: plain(e.value(facts, ask)) for n, e in output.items()}, ""
    except GuardFailed as error:
        return None, f"`output` could not be read: {error}"


def unenforceable(session: Session) -> list[str]:
    """Cost limits that could not be enforced because no price is known."""
    facts, rules = session.position.facts, session.chart.spec.rules
    if facts.usage.cost is not None or not facts.usage.llm_calls:
        return []
    return [
        f"{r.id} could not be enforced: the model's price is not known"
        for r in rules
        if "usage.cost" in r.when.reads
    ]


def say_facts(facts: Facts, roots: Mapping[str, Type]) -> list[tuple[str, str]]:
    """Every fact by its full name, with its value as people write it."""
    out: list[tuple[str, str]] = []
    for root, section in roots.items():
        for name, type in section.fields:
            full = f"{root}.{name}"
            out.append((full, say_value(fact_value(facts, full), type)))
    return out
