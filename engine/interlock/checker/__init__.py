"""What is wrong with a machine, before it runs.

This version checks structure: what can be reached, what ends, what loops, what is never taken,
what is declared and not enforced. Bounds and proofs come on top of the same graph.

Source: design "language", sections 2, 4, 9; the classic mistakes of section 9 are all found.
"""

from __future__ import annotations

from collections.abc import Collection

from interlock.checker.guards import check_guards
from interlock.checker.loops import check_loops
from interlock.checker.structure import check_structure
from interlock.checker.subject import Subject
from interlock.checker.trust import reaches_out
from interlock.core.errors import Finding
from interlock.machine.build import Chart


def check(chart: Chart, tainted: Collection[str] = ()) -> tuple[Finding, ...]:
    """Everything that is wrong with the structure of a machine.

    `tainted` are states that could not be read whole: nothing more is said about them, and with
    `*` among them nothing is said about what can be reached.
    """
    subject = Subject(chart, frozenset(tainted))
    check_structure(subject)
    check_loops(subject)
    check_guards(subject)
    for at, what in reaches_out(chart.spec):
        subject.say("IL324", at, f"the file {what}", hint="run it with `--trust` when it is yours")
    return tuple(subject.findings)
