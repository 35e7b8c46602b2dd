"""Why a run went where it went: every rule and edge that was looked at, with its values.

Made from a traced decision (`evolve(..., trace=True)`), which replay gives for any record.
Source: design "language", section 11 (`interlock why`); 002 "Diagnostic Output".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from interlock.core.plain import plain
from interlock.language.expression import Expression
from interlock.machine.build import Chart
from interlock.machine.decision import Decision, Look
from interlock.machine.regions import GuardedTransition, Holds, Is
from interlock.machine.saying import say_value, type_at


class Atom(NamedTuple):
    """One comparison of a guard, with the values it had."""

    text: str
    holds: bool | None
    """None when it raised."""
    left: str = ""
    right: str = ""
    margin: str = ""
    """What was left up to the bound, for `fact >= bound`."""
    share: float | None = None
    """`fact / bound`."""
    error: str = ""


class Row(NamedTuple):
    """One rule or edge that was looked at."""

    kind: Literal["rule", "edge"]
    id: str
    text: str
    """The guard; for an edge without one, ``otherwise``."""
    holds: bool | None
    taken: bool
    state: str
    to: str
    atoms: tuple[Atom, ...] = ()


class Explanation(NamedTuple):
    """A decision in words."""

    state: str
    kind: str
    rows: tuple[Row, ...]
    decision: Decision

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `interlock why --format json` prints it."""
        d = self.decision
        return {
            "kind": self.kind, "state": self.state, "event": d.input.event or None,
            "looked_at": plain(self.rows),
            "taken": list(d.taken), "path": list(d.path), "signals": d.signals.to_list(),
            "winner": d.winner or None, "warnings": list(d.warnings), "next": d.next,
            "status": d.status,
        }  # fmt: skip


def explain(chart: Chart, decision: Decision) -> Explanation:
    """Everything a traced decision looked at, in order."""
    rows: list[Row] = []
    for look in decision.looks:
        rows += _rules(chart, look, decision) if look.kind == "rules" else _edges(chart, look)
    return Explanation(decision.state, decision.input.kind, tuple(rows), decision)


def _rules(chart: Chart, look: Look, decision: Decision) -> Iterator[Row]:
    raised = {s.source for s in decision.signals}
    for number in look.rules:
        rule = chart.spec.rules[number]
        atoms = atoms_of(chart, rule.when, look)
        holds = rule.id in raised or _holds(rule.when, look)
        to = rule.to or (chart.route(rule.stop) if rule.stop else "")
        yield Row(
            "rule", rule.id, rule.when.text, holds, rule.id == look.taken, look.state, to, atoms
        )


def _edges(chart: Chart, look: Look) -> Iterator[Row]:
    event = chart.event(look.trigger)
    found = event.at(look.state) if event else ()
    over = False
    for t in found:
        if over:
            yield Row("edge", t.origin, _text(t), None, False, look.state, t.dest or "")
            continue
        taken = t.origin == look.taken
        guard = next((g.expression for g in t.guards if isinstance(g, (Holds, Is))), None)
        atoms = atoms_of(chart, guard, look) if guard is not None else ()
        yield Row("edge", t.origin, _text(t), taken, taken, look.state, t.dest or "", atoms)
        over = over or taken


def _text(t: GuardedTransition) -> str:
    return " and ".join(g.__name__ for g in t.guards) or "otherwise"


def _holds(guard: Expression, look: Look) -> bool | None:
    try:
        return bool(guard.fn(look.facts, look.oracle.again()))
    except Exception:  # noqa: BLE001  whatever a guard raised is on its atoms
        return None


def atoms_of(chart: Chart, guard: Expression, look: Look) -> tuple[Atom, ...]:
    """The comparisons of a guard with their values, as people write them."""
    out: list[Atom] = []
    for r in guard.readings(look.facts, look.oracle.again()):
        fact = next(
            (f for f in sorted(guard.reads, key=len, reverse=True) if r.text.startswith(f)), ""
        )
        type = type_at(chart.spec.roots, fact)
        margin = "" if r.margin is None else say_value(r.margin, type)
        left = say_value(r.left, type) if r.left is not None or r.right is not None else ""
        right = say_value(r.right, type) if r.right is not None else ""
        out.append(Atom(r.text, r.holds, left, right, margin, r.share, r.error))
    return tuple(out)
