"""The checks of a machine before it runs.

One module for each group of findings: structure (reachability, ends, loops, declarations that are
not enforced) and guards, which `proofs.guards` refutes with what `knowledge` knows at their state.

Source: docs/checks.md, a row for each finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chartloop.analysis.checker.approvals import check_approvals
from chartloop.analysis.checker.certain_failures import check_failing, check_fields
from chartloop.analysis.checker.check_context import ALONE, CheckContext, Embedding
from chartloop.analysis.checker.child_limits import check_children, embedding_in
from chartloop.analysis.checker.cut_calls import check_cut_calls
from chartloop.analysis.checker.data_leaks import check_leaks
from chartloop.analysis.checker.endless_loops import check_denied, check_endless
from chartloop.analysis.checker.exact_budgets import check_exact
from chartloop.analysis.checker.forks import check_forks
from chartloop.analysis.checker.guards import check_guards
from chartloop.analysis.checker.knowledge import Knowledge
from chartloop.analysis.checker.labels import check_labels
from chartloop.analysis.checker.limit_guards import check_limits
from chartloop.analysis.checker.loops import LOOPS, check_budgets, check_loops
from chartloop.analysis.checker.memory_edits import check_memory
from chartloop.analysis.checker.missing_inputs import check_supplies
from chartloop.analysis.checker.missing_values import check_values
from chartloop.analysis.checker.no_effect import check_pointless
from chartloop.analysis.checker.secrets import check_secrets
from chartloop.analysis.checker.server_tools import check_server_tools
from chartloop.analysis.checker.shadowed import check_hidden
from chartloop.analysis.checker.stops import check_endings
from chartloop.analysis.checker.structure import check_structure
from chartloop.analysis.checker.tool_arguments import check_tool_arguments
from chartloop.analysis.checker.trust import check_trust
from chartloop.analysis.checker.unsatisfiable import check_never
from chartloop.analysis.checker.unused import check_unused
from chartloop.analysis.checker.waits import check_detours, check_waits
from chartloop.core.errors import Finding
from chartloop.core.units import say_count
from chartloop.extras import install as install
from chartloop.language.file.unreadable import Unread
from chartloop.machine.build import Chart


@dataclass(frozen=True)
class Report:
    """The findings of a machine and its children, and the questions that stay open."""

    findings: tuple[Finding, ...]
    unsettled: tuple[str, ...] = ()
    """The places of guards that may or may not hold; `LOOPS` if the search for loops gave up."""


def describe_unsettled(places: Sequence[str]) -> str:
    """Describe the undecided part of a check; empty if everything was decided."""
    guards = [place for place in places if place != LOOPS]
    which = ", ".join(guards[:3]) + (", …" if len(guards) > 3 else "")
    count = say_count(len(guards), "guard")
    lines = [f"whether {count} can hold is not known ({which})"] if guards else []
    if len(guards) < len(places):
        given_up = "the search for loops that no budget cuts was given up"
        lines.append(f"{given_up}; `bound` searches longer")
    return ", ".join(lines)


def check(chart: Chart, tainted: Unread | None = None) -> tuple[Finding, ...]:
    """Return the findings of a machine and its children.

    Findings about unreadable parts (`tainted`, from `Loaded.tainted`) are left out.
    """
    return examine(chart, tainted).findings


def examine(
    chart: Chart, tainted: Unread | None = None, *, embedding: Embedding = ALONE,
    broken: bool = False,
) -> Report:  # fmt: skip
    """Check a machine and its children, and report what could not be settled.

    `embedding`: how a parent starts the machine. `broken`: reading the file found errors.
    """
    unread = tainted or Unread()
    outside = unread.outside()
    context = CheckContext(chart, outside, embedding=embedding, broken=broken)
    knowledge = Knowledge(context)
    check_structure(context)
    check_forks(context)
    check_loops(context)
    check_guards(context, knowledge)
    check_failing(context)
    check_never(context, knowledge)
    check_hidden(context, knowledge)
    check_exact(context)
    check_waits(context)
    check_cut_calls(context)
    check_detours(context)
    check_labels(context)
    check_limits(context)
    check_unused(context)
    check_fields(context)
    check_children(context)
    check_approvals(context)
    check_leaks(context)
    check_tool_arguments(context)
    check_values(context)
    check_memory(context)
    check_server_tools(context)
    check_supplies(context)
    check_endings(context)
    check_endless(context)
    check_denied(context)
    check_pointless(context)
    check_trust(context)
    check_secrets(context)
    check_budgets(context)
    findings = [f for f in context.findings if not chart.spec.accepts(f)]
    unsettled = [*context.prover.unsettled]
    for name, child in chart.spec.machines.items():
        inline = child.base  # a child of another file was read without errors
        inner = unread.inside(f"machines.{name}") if inline else None
        use = embedding_in(chart.spec, name)
        below = examine(chart.child(name), inner, embedding=use, broken=broken)
        findings += below.findings
        unsettled += below.unsettled
    return Report(tuple(findings), tuple(unsettled))
