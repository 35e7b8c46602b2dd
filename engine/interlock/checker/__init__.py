"""What is wrong with a machine, before it runs.

Structure (what can be reached, what ends, what loops, what is declared and not enforced), and what
guards can do: `proof` refutes them, `knowledge` says what is known where they stand.

Source: design "language", sections 2, 4, 9; the classic mistakes of section 9 are all found.
"""

from __future__ import annotations

from dataclasses import dataclass

from interlock.checker.children import check_children, starts_of
from interlock.checker.exact import check_exact
from interlock.checker.forks import check_forks
from interlock.checker.guards import check_guards
from interlock.checker.hidden import check_hidden
from interlock.checker.knowledge import Knowledge
from interlock.checker.labels import check_labels
from interlock.checker.limits import check_limits
from interlock.checker.loops import check_budgets, check_loops
from interlock.checker.never import check_never
from interlock.checker.proof.ask import Solver
from interlock.checker.secrets import check_secrets
from interlock.checker.structure import check_structure
from interlock.checker.subject import Subject
from interlock.checker.trust import check_trust
from interlock.checker.unused import check_unused
from interlock.checker.waiting import check_detours, check_waits
from interlock.core.errors import Finding
from interlock.language.file.unread import Unread
from interlock.language.spec import MachineSpec
from interlock.language.yaml.document import dotted
from interlock.machine.build import Chart


@dataclass(frozen=True)
class Report:
    """What is wrong with a machine and its children, and what could not be told."""

    findings: tuple[Finding, ...]
    unsettled: tuple[str, ...] = ()
    """The places of guards of which nobody knows whether they can hold."""


def check(chart: Chart, tainted: Unread | None = None) -> tuple[Finding, ...]:
    """Everything that is wrong with a machine and its children.

    `tainted` is what could not be read, `Loaded.tainted`: nothing more is said about it.
    """
    return examine(chart, tainted).findings


def examine(
    chart: Chart, tainted: Unread | None = None, *, solver: Solver | None = None,
    starts: frozenset[str] = frozenset(), broken: bool = False,
) -> Report:  # fmt: skip
    """The same, and what could not be settled; `solver` is asked where intervals do not do.

    `starts` are states at which a parent begins the machine instead of at its start; `broken` says
    that reading the file has found errors.
    """
    unread = tainted or Unread()
    subject = Subject(chart, unread.outside(), starts=starts, solver=solver, broken=broken)
    knowledge = Knowledge(subject)
    check_structure(subject)
    check_forks(subject)
    check_loops(subject)
    check_guards(subject, knowledge)
    check_never(subject, knowledge)
    check_hidden(subject, knowledge)
    check_exact(subject)
    check_waits(subject)
    check_detours(subject)
    check_labels(subject)
    check_limits(subject)
    check_unused(subject)
    check_children(subject)
    check_trust(subject)
    check_secrets(subject)
    check_budgets(subject)
    found = [f for f in subject.findings if not _accepted(chart.spec, f)]
    unsettled = [*subject.prover.unsettled]
    for name, child in chart.spec.machines.items():
        inline = child.base  # one of another file was read without a mistake
        inner = unread.inside(f"machines.{name}") if inline else None
        begun = frozenset(starts_of(chart.spec, name))
        below = examine(chart.child(name), inner, solver=solver, starts=begun, broken=broken)
        found += below.findings
        unsettled += below.unsettled
    return Report(tuple(found), tuple(unsettled))


def _accepted(spec: MachineSpec, found: Finding) -> bool:
    """Whether the machine's own `ignore` names the finding, in the machine's own words."""
    base = dotted(spec.base)
    at = found.at.removeprefix(base + ".") if base else found.at
    return any(
        i.code == found.code and (not i.at or f"{at}.".startswith(f"{i.at}.")) for i in spec.ignore
    )
