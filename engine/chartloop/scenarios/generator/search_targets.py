"""What is to be shown: each edge, each rule and each reason that a machine can stop for.

Belongs here: which targets a machine has, which of them a run has shown. Never: a search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from chartloop.api import Run
from chartloop.language.spec import HIGHEST, MachineSpec, StateSpec
from chartloop.machine.build import Chart

CANCELLED = "user_requested"
"""The reason of a cancel, when no one gives another."""
_FAILED = "error"
"""The reason of a failed action that nothing handles."""


class Target(NamedTuple):
    """One thing that a scenario can show."""

    kind: Literal["edge", "rule", "reason"]
    name: str
    """The id of an edge or rule, as records and pictures have it; or a stop reason."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def targets_of(chart: Chart) -> tuple[Target, ...]:
    """Everything that scenarios of a machine are to show, in the file's order."""
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
    """The reasons that the file names, a cancel, and what an action that fails may come to."""
    spec = chart.spec
    named = [
        *(state.stop for state in spec.states.values()),
        *(edge.stop for edge in spec.edges()),
        *(rule.stop or rule.signal for rule in spec.rules),
    ]
    yield from (reason for reason in named if reason and reason != HIGHEST)
    yield from (s.end for s in spec.states.values() if s.end in ("completed", _FAILED))
    if any(state.rests and state.job != "end" for state in spec.states.values()):
        yield CANCELLED  # else there is no moment at which it could come
    acting = (spec.states[name] for name in _before_a_stop(spec) - chart.handled)
    if spec.on_error is None and any(_may_fail(state) for state in acting):
        yield _FAILED


def _may_fail(state: StateSpec) -> bool:
    """Whether what the world says can make the action of a state fail."""
    return state.traits.fails == "by_world"


def _before_a_stop(spec: MachineSpec) -> frozenset[str]:
    """The states that a run may be in before anything stops it: later a failure is a warning."""
    found, pending = {spec.start}, [spec.start]
    while pending:
        state = spec.states[pending.pop()]
        ways = [edge.target for edge in state.edges if not edge.stop and not state.stop]
        for name in ways:
            if name in spec.states and name not in found:
                found.add(name)
                pending.append(name)
    return frozenset(found)


def targets_of_run(taken: Iterable[str], reason: str, rules: frozenset[str]) -> frozenset[Target]:
    """The targets covered by a run that took these edges and rules, and stopped for this reason."""
    found = {Target("rule" if name in rules else "edge", name) for name in taken}
    return frozenset(found | ({Target("reason", reason)} if reason else set()))


def shown_by(run: Run) -> frozenset[Target]:
    """What a run has shown, by its records."""
    rules = frozenset(rule.id for rule in run.machine.spec.rules)
    reason = run.result.reason
    signalled = {s.source for record in run.records for s in record.signals}
    taken = {name for record in run.records for name in record.taken} | (signalled & rules)
    return targets_of_run(taken, "" if reason is None else str(reason), rules)
