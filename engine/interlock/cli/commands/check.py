"""`interlock check`: every mistake of a file, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from interlock.cli import options, out
from interlock.cli.faults import ERROR, report
from interlock.cli.how import How
from interlock.core.units import say_count

if TYPE_CHECKING:
    from interlock.api import Machine
    from interlock.core.errors import Finding


@click.command(
    epilog="""\b
Examples:
  interlock check my.yaml
  interlock check my.yaml --tools tools.py
  interlock check machines/*.yaml --format json

\b
The exit code is 1 when a file has an error; warnings alone give 0. Every code has its cause and
cure in docs/reference/errors.md.
"""
)
@click.argument("machines", nargs=-1, required=True, shell_complete=options.completion.machines)
@options.tools_option
@options.define_option
@options.format_option()
def check(machines: tuple[str, ...], **given: Any) -> None:
    """Find every mistake of a machine file, before anything runs.

    Nothing is run, imported or fetched but the modules given with --tools.
    """
    how = How.of(given)
    found = [_checked(source, how) for source in machines]
    if how.is_json:
        told = [_public(machine, findings) for _, machine, findings in found]
        out.result(out.as_json(told[0] if len(told) == 1 else told))
    else:
        out.result("\n\n".join("\n".join(_said(*f)) for f in found))
    wrong = any(finding.is_error for _, _, findings in found for finding in findings)
    raise click.exceptions.Exit(ERROR if wrong else 0)


Checked = tuple[str, "Machine | None", "Sequence[Finding]"]


def _checked(source: str, how: How) -> Checked:
    from interlock.api import find_faults
    from interlock.cli.loading import load_tools, locate, with_tools_hint
    from interlock.cli.stored import shown

    name = shown(locate(source))
    own = load_tools(how.tools)
    machine, findings = find_faults(source, tools=own, define=dict(how.define))
    return name, machine, with_tools_hint(findings, how)


def _public(machine: Machine | None, findings: Sequence[Finding]) -> dict[str, Any]:
    """The public shape. Source: design "language", section 11."""
    name = machine.name if machine is not None else None
    return {"machine": name, "findings": [f.to_dict() for f in findings], "bound": None}


def _said(file: str, machine: Machine | None, findings: Sequence[Finding]) -> list[str]:
    lines = report(findings, file=file)
    if machine is None:
        return lines
    spec, chart = machine.spec, machine.chart
    states, rules = say_count(len(spec.states), "state"), say_count(len(spec.rules), "rule")
    told = f"{file}: {machine.name}, {states}, {rules}"
    head = [out.style(f"{told}: no mistakes", "green")] if not findings else [*lines, told]
    acting = sorted(chart.acting)
    handled = [n for n in acting if n in chart.handled]
    if spec.on_error is not None:
        rest = f"go to {spec.on_error.target}"
    else:
        rest = "stop the run with `error`"
    if handled and len(handled) == len(acting):
        return [*head, "failures of all actions are handled by the file"]
    where = f"failures at {', '.join(handled)} are handled by the file, others {rest}"
    return [*head, where if handled else f"failed actions {rest}"]
