"""The targets of generated scenarios: each edge, rule and stop reason of a machine.

Belongs here: which targets a machine has, and which of them a run shows. Never: a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from chartloop.api import Run
from chartloop.core.digraph import reachable
from chartloop.language.spec import HIGHEST
from chartloop.machine.build import Chart

CANCELLED = "user_requested"
"""The default reason of a cancel."""
_FAILED = "error"
"""The reason of an action's failure that the machine does not handle."""


class Target(NamedTuple):
    """An edge, a rule or a stop reason that a scenario can show."""

    kind: Literal["edge", "rule", "reason"]
    name: str
    """The id of an edge or rule, as in records and pictures; or a stop reason."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def targets_of(chart: Chart) -> tuple[Target, ...]:
    """All targets of a machine, in the order of the file."""
    rules = {rule.id for rule in chart.spec.rules}
    moves = (t for t in chart.step.transitions() if t.kind != "raised")
    origins = dict.fromkeys((*(t.origin for t in moves), *rules))
    edges = [Target("edge", o) for o in origins if o not in rules]
    numbered = sorted(rules, key=lambda rule: int(rule.partition(".")[2]))
    reasons = dict.fromkeys(_reasons(chart))
    return (
        *edges, *(Target("rule", rule) for rule in numbered),
        *(Target("reason", reason) for reason in reasons),
    )  # fmt: skip


def _reasons(chart: Chart) -> Iterator[str]:
    """The reasons that the file names, that of a cancel, and that of an unhandled failure."""
    spec = chart.spec
    named = [
        *(state.stop for state in spec.states.values()),
        *(edge.stop for edge in spec.edges()),
        *(rule.stop or rule.signal for rule in spec.rules),
    ]
    yield from (reason for reason in named if reason and reason != HIGHEST)
    yield from (s.end for s in spec.states.values() if s.end in ("completed", _FAILED))
    if any(state.rests and state.job != "end" for state in spec.states.values()):
        yield CANCELLED  # a machine that never rests cannot be cancelled

    def onward(name: str) -> Iterator[str]:
        edges = spec.states[name].edges if not spec.states[name].stop else ()
        yield from (e.target for e in edges if not e.stop and e.target in spec.states)

    # a run may be in these before a stop; after one, a failure is only a warning
    before = reachable(spec.entries, onward)
    acting = (spec.states[name] for name in before if name not in chart.handled)
    if spec.on_error is None and any(state.traits.fails == "by_world" for state in acting):
        yield _FAILED


def targets_of_run(taken: Iterable[str], reason: str, rules: frozenset[str]) -> frozenset[Target]:
    """The targets of a run that took these edges and rules, and stopped for this reason."""
    targets = {Target("rule" if name in rules else "edge", name) for name in taken}
    return frozenset(targets | ({Target("reason", reason)} if reason else set()))


def shown_by(run: Run) -> frozenset[Target]:
    """The targets that a run shows, by its records."""
    rules = frozenset(rule.id for rule in run.machine.spec.rules)
    reason = run.result.reason
    signalled = {s.source for record in run.records for s in record.signals}
    taken = {name for record in run.records for name in record.taken} | (signalled & rules)
    return targets_of_run(taken, "" if reason is None else str(reason), rules)
