"""Explanations: every rule and edge that a decision evaluated, with its values.

Made from a traced decision (`evolve(..., trace=True)`), which `run.explanations` gives for any
record: the guards are evaluated again on the facts of each look. The table is laid out here too, so
that `print(run.why())` and `chartloop why` show the same.

Source: docs/stuck.md, "Why did it go there?"; 002 "Diagnostic Output".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from chartloop.core.phase import PHASES, ending_of
from chartloop.core.plain import plain
from chartloop.core.reports import Notebook, Part, Report, Table, pairs
from chartloop.core.text_table import Cell, Line
from chartloop.core.text_table import Row as Cells
from chartloop.core.visible import printable
from chartloop.language.expression import Expression
from chartloop.language.spec import HIGHEST
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision, Look
from chartloop.machine.guard_text import say_left, say_value, type_of
from chartloop.machine.regions import Holds, Is
from chartloop.machine.transition_table import ENGINE_ENDS

MARKS = {True: "✓", False: "✗", None: "·"}
"""The marks of guards that held, did not hold, or were not evaluated."""
FAILED = "!"
"""The mark of a guard that raised."""
_LEFT = 3
_MAYBE = (2, _LEFT)
"""The columns of the table that are left out if no row fills them."""


class Atom(NamedTuple):
    """One comparison of a guard, with its values."""

    text: str
    holds: bool | None
    """None if it raised, or has no value because the guard was decided before it."""
    left: str = ""
    right: str = ""
    margin: str = ""
    """The remainder of a budget; empty for other guards and for a spent budget."""
    share: float | None = None
    """`fact / bound`."""
    error: str = ""

    @property
    def values(self) -> str:
        """Both sides, or what it raised."""
        return self.error or (f"{self.left} against {self.right}" if self.right else self.left)


class Row(NamedTuple):
    """One rule or edge that was evaluated."""

    kind: Literal["rule", "edge"]
    id: str
    text: str
    """The guard; for an edge without one, ``otherwise``."""
    holds: bool | None
    taken: bool
    state: str
    to: str
    atoms: tuple[Atom, ...] = ()
    reason: str = ""
    """The consequence of a rule: ``stop: steps_limit``."""
    ending: str = ""
    """For a rule that stops the run: the name of the phase in which it ends."""

    @property
    def group(self) -> str:
        """The group of the row: the rules at a state, or its edges."""
        return f"rules at {self.state}" if self.kind == "rule" else f"edges of {self.state}"

    @property
    def mark(self) -> str:
        """The result in one character."""
        if any(a.error for a in self.atoms):
            return FAILED
        return PHASES[self.ending].sign if self.holds and self.ending else MARKS[self.holds]


@dataclass(frozen=True, repr=False)
class Explanation(Report):
    """A decision in words. Prints as the table of `chartloop why`."""

    state: str
    kind: str
    rows: tuple[Row, ...]
    decision: Decision
    ending: str = ""
    """The name of the phase in which the decision ended the run; empty if it did not."""

    @property
    def title(self) -> str:
        """The input and its state: ``step at think``."""
        input = self.decision.input
        event = f" `{input.event}`" if input.event else ""
        ahead = ", given ahead of the question" if input.ahead is not None else ""
        via = f" via {input.via}" if input.via else ""
        return f"{self.kind}{event} at {self.state}{ahead}{via}"

    def parts(self) -> Iterator[Part]:
        """Everything that was evaluated, as one table, and where it led."""
        yield Notebook([Line(self.title, "bold")])
        if self.rows:
            yield from (Line(""), _table(self.rows), Line(""))
        yield pairs((name, printable(text)) for name, text in self.consequences())

    def consequences(self) -> Iterator[tuple[str, str]]:
        """Where it led, as names and values: signals, warnings, the path."""
        d = self.decision
        yield from (("signal", str(signal)) for signal in d.signals)
        yield from (("warning", warning) for warning in d.warnings)
        begun = () if self.kind == "start" else (self.state,)  # a start enters its own state
        shown = [state for state in d.path if state not in ENGINE_ENDS]
        path = " → ".join([*begun, *shown]) if shown else f"stays at {self.state}"
        if d.status not in ENGINE_ENDS.values():
            yield "led to", f"{path}, {d.status}"
            return
        ending = PHASES.get(self.ending) or ending_of(d.status, d.winner)
        why = "" if d.winner in ("", "completed") else f": {d.winner}"
        yield "led to", f"{path}, {ending.marked}{why}"

    def plain_text(self) -> str:
        """The title and the lines."""
        return f"{self.title}\n{super().plain_text()}"

    def __repr__(self) -> str:
        return f"<Explanation of {self.title}: next {self.decision.next}, {self.decision.status}>"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, as `chartloop why --format json` prints it."""
        d = self.decision
        return {
            "kind": self.kind, "state": self.state, "event": d.input.event or None,
            "ahead": d.input.ahead,
            "via": d.input.via or None,
            "looked_at": plain(self.rows),
            "taken": list(d.taken), "path": list(d.path), "signals": d.signals.to_list(),
            "winner": d.winner or None, "warnings": list(d.warnings), "next": d.next,
            "status": d.status,
        }  # fmt: skip


def explain(chart: Chart, decision: Decision) -> Explanation:
    """Explain a traced decision: everything that it evaluated, in order."""
    rows: list[Row] = []
    for look in decision.looks:
        if look.kind != "status":  # the file has no part in these
            rows += _rules(chart, look) if look.kind == "rules" else _edges(chart, look)
    ending = ""
    if decision.status in ENGINE_ENDS.values():
        lost = decision.looks[-1].facts.unfinished if decision.looks else 0
        raised = [one for one in decision.signals if one.reason == decision.winner]
        why = raised[0] if raised else chart.spec.reason(decision.winner)
        ending = ending_of(decision.status, why, lost).name
    return Explanation(decision.state, decision.input.kind, tuple(rows), decision, ending)


def _rules(chart: Chart, look: Look) -> Iterator[Row]:
    for number in look.rules:
        rule, guard = chart.rules[number]
        atoms = atoms_of(chart, guard, look)
        holds = _holds(guard, look)
        to = rule.to or (chart.route(rule.stop) if rule.stop else "")
        reason = f"{rule.kind}: {raises}" if (raises := rule.stop or rule.signal) else ""
        yield Row(
            "rule", rule.id, guard.text, holds, rule.id == look.taken, look.state, to, atoms,
            reason, _ending(chart, rule.stop),
        )  # fmt: skip


def _ending(chart: Chart, stop: str) -> str:
    """The phase in which a rule ends a run; empty for a rule that stops for signals, or not."""
    if stop in ("", HIGHEST):
        return ""
    reason = chart.spec.reason(stop)
    return ending_of(reason.status, reason).name


def _edges(chart: Chart, look: Look) -> Iterator[Row]:
    event = chart.event(look.trigger)
    candidates = event.at(look.state) if event else ()
    # a fork takes every branch, each in a look of its own
    candidates = tuple(t for t in candidates if t.origin == look.taken or not t.forks)
    decided = False
    for t in candidates:
        taken = not decided and t.origin == look.taken
        guard = next((g.expression for g in t.guards if isinstance(g, (Holds, Is))), None)
        atoms = () if guard is None or decided else atoms_of(chart, guard, look)
        text = " and ".join(g.__name__ for g in t.guards) or "otherwise"
        holds = None if decided else taken
        yield Row("edge", t.origin, text, holds, taken, look.state, t.dest or "", atoms)
        decided = decided or taken


def _holds(guard: Expression, look: Look) -> bool | None:
    try:
        return bool(guard.fn(look.facts, look.oracle.recall))
    except Exception:  # noqa: BLE001  the guard's atoms show what it raised
        return None


def atoms_of(chart: Chart, guard: Expression, look: Look) -> tuple[Atom, ...]:
    """Return the comparisons of a guard with their values, as people write them.

    A comparison that raises is not an error if the guard was decided before it, such as the second
    half of ``last.error is not None and last.error.category == "CRITICAL"``.
    """
    out: list[Atom] = []
    bounds = {b.text: b for b in guard.bounds}
    raised = _holds(guard, look) is None
    for r in guard.readings(look.facts, look.oracle.recall):
        type = type_of(r, guard, chart.spec.roots)
        margin = say_left(r, bounds.get(r.text), type)
        left = say_value(r.left, type) if r.left is not None or r.right is not None else ""
        right = say_value(r.right, type) if r.right is not None else ""
        out.append(Atom(r.text, r.holds, left, right, margin, r.share, r.error if raised else ""))
    return tuple(out)


# the table ----------------------------------------------------------------------------------


def _table(rows: tuple[Row, ...]) -> Table:
    """One table, so that all columns line up, with an empty line between groups."""
    listed: list[Cells] = []
    group = rows[0].group
    for row in rows:
        if row.group != group:
            group = row.group
            listed += [Cells(("",) * 5), Cells(("", Cell(group, "bold"), "", "", ""), "dim")]
        taken = PHASES[row.ending].ink if row.ending else "green"
        colour = taken if row.taken else "dim" if row.holds is None else ""
        wrong = "red" if row.mark == FAILED else ""
        # the values of the only atom stand beside the guard, else each atom has a line
        alone = row.atoms[0] if len(row.atoms) == 1 else Atom("", None)
        lines = [(row.mark, row.text, alone, row.reason or row.to)]
        if len(row.atoms) > 1:
            lines += [("", f"  {MARKS[atom.holds]} {atom.text}", atom, "") for atom in row.atoms]
        for mark, text, atom, to in lines:
            listed.append(Cells(
                (Cell(mark, wrong), Cell(printable(text), "code"),
                 Cell(printable(atom.values), wrong), printable(atom.margin),
                 printable(to)),
                colour,
            ))  # fmt: skip
    head = ("", rows[0].group, "values", "left", "leads to")
    return Table(listed, head, {_LEFT}, optional=_MAYBE)
