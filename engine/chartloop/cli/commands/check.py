"""`chartloop check`: every mistake of a file, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import ERROR, report
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.units import say_count
from chartloop.extras import install

if TYPE_CHECKING:
    from chartloop.api import Machine
    from chartloop.core.errors import Finding


@click.command(
    epilog="""\b
Examples:
  chartloop check my.yaml
  chartloop check my.yaml --tools tools.py
  chartloop check machines/*.yaml --format json

\b
The exit code is 1 when a file has an error; warnings alone give 0. Every code has its cause and
fix in docs/reference/errors.md; docs/checks.md describes the proofs.
"""
)
@click.argument("machines", nargs=-1, required=True, shell_complete=parameters.completion.machines)
@parameters.tools_option
@parameters.define_option
@parameters.format_option()
@pass_options(RunOptions)
def check(machines: tuple[str, ...], options: RunOptions) -> None:
    """Find every mistake of a machine file, before anything runs.

    Nothing is run, imported or fetched but the modules given with --tools.
    """
    found = [_check(source, options) for source in machines]
    if options.is_json:
        told = [_public(checked) for checked in found]
        console.result(console.as_json(told[0] if len(told) == 1 else told))
    else:
        console.result("\n\n".join("\n".join(_report_lines(checked)) for checked in found))
    wrong = any(finding.is_error for checked in found for finding in checked.findings)
    raise click.exceptions.Exit(ERROR if wrong else 0)


class Checked(NamedTuple):
    """One file: its name, the machine if it loads, and what was found and not found out."""

    file: str
    machine: Machine | None
    findings: Sequence[Finding]
    unsettled: tuple[str, ...]


def _check(source: str, options: RunOptions) -> Checked:
    from chartloop.api import examine
    from chartloop.cli.journal_access import display_path
    from chartloop.cli.machine_loader import load_tools, locate, with_tools_hint

    name = display_path(locate(source))
    own = load_tools(options.tools)
    found = examine(source, tools=own, define=dict(options.define), prove=True)
    return Checked(name, found.machine, with_tools_hint(found.findings, options), found.unsettled)


def _public(checked: Checked) -> dict[str, Any]:
    """The public shape. Source: design "language", section 11."""
    machine = checked.machine
    return {
        "machine": machine.name if machine is not None else None,
        "findings": [f.to_dict() for f in checked.findings],
        "unsettled": list(checked.unsettled),
        "notes": [note.to_dict() for note in machine.check().notes] if machine is not None else [],
        "bound": _bound(machine),
    }


def _bound(machine: Machine | None) -> dict[str, Any] | None:
    """The worst that a run can cost; where that is not known in the time of a check, why."""
    from chartloop.api.bounds import AT_CHECK

    if machine is None:
        return None
    found = machine.bound(effort=AT_CHECK)
    return {"unknown": found.unknown} if found.unknown else found.to_dict()["bounds"]


def _report_lines(checked: Checked) -> list[str]:
    file, machine, findings, _ = checked
    lines = report(findings, file=file)
    if lines and checked.unsettled:
        lines[-1] += f", {_describe_unsettled(checked)}"
    if machine is None:
        return lines
    spec = machine.spec
    states, rules = say_count(len(spec.states), "state"), say_count(len(spec.rules), "rule")
    told = f"{file}: {machine.name}, {states}, {rules}"
    head = [console.style(f"{told}: no mistakes", "green")] if not findings else [*lines, told]
    if checked.unsettled and not findings:
        head.append(_describe_unsettled(checked))
    return [*head, *(note.text for note in machine.check().notes)]


def _describe_unsettled(checked: Checked) -> str:
    """What is not known: which guards can hold, and whether budgets cut all loops."""
    from chartloop.checker.loops import LOOPS

    guards = [place for place in checked.unsettled if place != LOOPS]
    said = [_describe_unsettled_guards(guards)] if guards else []
    if len(guards) < len(checked.unsettled):
        said.append(
            "the search for loops that no budget cuts was given up; `bound` searches longer"
        )
    return ", ".join(said)


def _describe_unsettled_guards(places: Sequence[str]) -> str:
    from chartloop.proofs.guards import z3_solver as solver

    count = say_count(len(places), "guard")
    which = ", ".join(places[:3]) + (", …" if len(places) > 3 else "")
    if solver.solver() is None:
        return f"whether {count} can hold is not known without z3 ({which}): {install('prove')}"
    return f"whether {count} can hold is not known ({which})"
