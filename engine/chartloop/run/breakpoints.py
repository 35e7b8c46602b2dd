"""Breakpoints: places where a run rests although it could continue, so that a person can look.

Belongs here: the kinds of breakpoints, and when one is reached. Never: driving a run, a display.
A breakpoint is not part of the run: no record holds it, and a run that is continued elsewhere has
none.

Source: docs/stepping.md
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from chartloop.core.errors import RunError, nearest
from chartloop.core.facts import Facts
from chartloop.core.types import BOOL
from chartloop.language.expression import (
    GUARD_ERRORS,
    Expression,
    ExpressionFault,
    GuardFailed,
    Oracle,
    Scope,
    parse,
)
from chartloop.language.readers.reader import NULLABLE
from chartloop.machine.build import Chart


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A place to stop at. `text` is as the person wrote it."""

    text: str
    kind: Literal["state", "edge", "guard"]
    """A `state` is reached when it is entered, before its action. An `edge` or a rule, by its id,
    when it is taken. A `guard` when it starts to hold."""
    guard: Expression | None = None


class Breakpoints:
    """The breakpoints of one run: `run.breakpoints`.

        run.breakpoints.add("think")
        run.breakpoints.add("usage.total_tokens > 500")
        run.run()
        run.breakpoints.hit  # the text of the one where it stopped

    A breakpoint is the name of a state, the id of an edge or a rule, or a guard. `run`, `arun` and
    the streams stop there, before the action of the state reached; the next call continues.
    """

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._set: dict[str, Breakpoint] = {}
        self._until: Breakpoint | None = None
        self.hit = ""
        """The text of the breakpoint where the last drive stopped; empty if it stopped at none."""

    def __iter__(self) -> Iterator[Breakpoint]:
        return iter(tuple(self._set.values()))

    def __len__(self) -> int:
        return len(self._set)

    def __contains__(self, text: object) -> bool:
        return text in self._set

    def __repr__(self) -> str:
        at = f", stopped at {self.hit!r}" if self.hit else ""
        return f"<Breakpoints {', '.join(map(repr, self._set)) or 'none'}{at}>"

    def add(self, text: str) -> Breakpoint:
        """Add a breakpoint. `RunError` if the text is not a state, edge, rule or guard."""
        breakpoint = self._set[text] = breakpoint_of(self._chart, text)
        return breakpoint

    def remove(self, text: str) -> None:
        """Remove a breakpoint. `RunError` if it does not exist."""
        if self._set.pop(text, None) is None:
            known = nearest(text, self._set, otherwise="`run.breakpoints` lists them")
            raise RunError(f"there is no breakpoint `{text}`", hint=known)

    def clear(self) -> None:
        """Remove all breakpoints."""
        self._set.clear()

    @contextmanager
    def until(self, text: str | None) -> Generator[None]:
        """A context with one more breakpoint, for the drive within."""
        self._until = None if text is None else breakpoint_of(self._chart, text)
        try:
            yield
        finally:
            self._until = None

    def watch(self, count: Callable[[Breakpoint], int]) -> Callable[[], bool] | None:
        """A test of a run that is about to be driven; None without breakpoints.

        It says whether one was hit since it was last asked. `count` is the `Session.reached` of
        that run.
        """
        self.hit, until = "", self._until
        if until is None and not self._set:
            return None
        watched = (*(() if until is None else (until,)), *self)
        counts = [count(b) for b in watched]
        # a drive `until` a guard stops at once if it holds; a breakpoint must become true first
        at_once = until if until and until.guard and counts[0] else None

        def hits_breakpoint() -> bool:
            nonlocal counts, at_once
            before, counts = counts, [count(b) for b in watched]
            grown = (b for b, old, new in zip(watched, before, counts, strict=True) if new > old)
            first, at_once = at_once or next(grown, None), None
            if first is not None:
                self.hit = first.text
            return first is not None

        return hits_breakpoint


def times_reached(of: Breakpoint, facts: Facts, taken: Mapping[str, int], ask: Oracle) -> int:
    """How often a breakpoint was reached so far; for a guard, whether it holds.

    A guard that fails, or reads a value not yet there, does not hold. `taken` is how often each
    edge and rule was taken, by id.
    """
    if of.kind == "state":
        return facts.run.visits.get(of.text, 0)
    if of.guard is None:
        return taken.get(of.text, 0)
    try:
        return bool(of.guard.fn(facts, ask))
    except (*GUARD_ERRORS, GuardFailed):
        return False


def breakpoint_of(chart: Chart, text: str) -> Breakpoint:
    """Parse a breakpoint: a state, an edge or rule, or a guard of this machine."""
    if text in chart.spec.states:
        return Breakpoint(text, "state")
    if text in chart.by_origin:
        return Breakpoint(text, "edge")
    spec = chart.spec  # the names that a guard may use; the nullable ones are taken to have a value
    nullable = {f"{r}.{n}" for r, root in spec.roots.items() for n, t in root.fields if t.nullable}
    defines = {name: e.text for name, e in spec.define.items()}
    scope = Scope(spec.roots, defines=defines, guards=spec.registry.guards)
    try:
        return Breakpoint(text, "guard", parse(text, scope.narrow(NULLABLE | nullable), want=BOOL))
    except ExpressionFault as fault:
        if text.isidentifier():
            known = nearest(text, chart.spec.states)
            raise RunError(f"there is no state `{text}`", hint=known) from None
        hint = fault.hint or "a state, the id of an edge or a rule, or a guard"
        raise RunError(f"no run stops at `{text}`: {fault.message}", hint=hint) from None
