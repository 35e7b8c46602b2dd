"""What is wrong with a machine, before it runs.

This version checks structure: what can be reached, what ends, what loops, what is never taken,
what is declared and not enforced. Bounds and proofs come on top of the same graph.

Source: design "language", sections 2, 4, 9; the classic mistakes of section 9 are all found.
"""

from __future__ import annotations

from interlock.checker.children import check_children
from interlock.checker.forks import check_forks
from interlock.checker.guards import check_guards
from interlock.checker.labels import check_labels
from interlock.checker.limits import check_limits
from interlock.checker.loops import check_loops
from interlock.checker.structure import check_structure
from interlock.checker.subject import Subject
from interlock.checker.trust import check_trust
from interlock.core.errors import Finding
from interlock.language.file.unread import Unread
from interlock.language.spec import MachineSpec
from interlock.language.yaml.document import dotted
from interlock.machine.build import Chart


def check(chart: Chart, tainted: Unread | None = None) -> tuple[Finding, ...]:
    """Everything that is wrong with the structure of a machine and of its children.

    `tainted` is what could not be read, `Loaded.tainted`: nothing more is said about it.
    """
    unread = tainted or Unread()
    subject = Subject(chart, unread.outside())
    check_structure(subject)
    check_forks(subject)
    check_loops(subject)
    check_guards(subject)
    check_labels(subject)
    check_limits(subject)
    check_children(subject)
    check_trust(subject)
    found = [f for f in subject.findings if not _accepted(chart.spec, f)]
    for name, child in chart.spec.machines.items():
        inline = child.base  # one of another file was read without a mistake
        found += check(chart.child(name), unread.inside(f"machines.{name}") if inline else None)
    return tuple(found)


def _accepted(spec: MachineSpec, found: Finding) -> bool:
    """Whether the machine's own `ignore` names the finding, in the machine's own words."""
    base = dotted(spec.base)
    at = found.at.removeprefix(base + ".") if base else found.at
    return any(
        i.code == found.code and (not i.at or f"{at}.".startswith(f"{i.at}.")) for i in spec.ignore
    )
