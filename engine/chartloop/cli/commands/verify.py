"""`chartloop verify`: whether a machine is what a document's flowchart says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from chartloop.cli import console, parameters
from chartloop.cli.charts import (
    ChartOptions,
    chart_option,
    find_chart,
    repair_option,
    report_repairs,
)
from chartloop.cli.error_report import ERROR, OK, USAGE, say_error
from chartloop.cli.options import pass_options
from chartloop.core.errors import SpecError
from chartloop.core.units import say_count

if TYPE_CHECKING:
    from chartloop.interchange.verify import Deviation, Verdict


@click.command(
    epilog="""\b
Examples:
  chartloop verify FLOW.md machine.yaml
  chartloop verify docs/design.md agent --chart "Main loop"
  chartloop verify flow.mmd machine.yaml --format json

\b
Declare an intended difference in the machine, with its reason:
  deviations:
    - {difference: "edge ask → stop added", reason: the document has no edge out of it}

\b
Exit codes: 0 the same but for what the machine declares; 1 a difference that it does not declare,
or one that it declares and that is not there; 2 the document or the machine cannot be read.
"""
)
@click.argument("document", type=click.Path(dir_okay=False))
@parameters.machine_argument
@chart_option
@repair_option
@parameters.tools_option
@parameters.format_option()
@pass_options(ChartOptions)
def verify(document: str, machine: str, options: ChartOptions) -> None:
    """Compare a machine with the flowchart of a document.

    DOCUMENT is a Markdown file with a Mermaid flowchart in a fence, or a .mmd file.
    """
    from chartloop.cli.machine_loader import read_machine
    from chartloop.interchange.verify import verify as compared

    found = find_chart(document, options)
    try:
        verdict = compared(found, read_machine(machine, options), repair=options.repair)
    except SpecError as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    if options.is_json:
        console.result(console.as_json(verdict.to_dict()))
    else:
        report_repairs(verdict.read)
        for line in _verdict_lines(verdict):
            console.result(line)
    raise click.exceptions.Exit(OK if verdict.holds else ERROR)


def _verdict_lines(verdict: Verdict) -> list[str]:
    found = verdict.read.found
    lines: list[str] = []
    for d in verdict.undeclared:
        lines.append(f"{console.style('✗', 'red')} {_place(found.file, d)}{d.text}")
    for d in verdict.stale:
        told = f"{d.text}: declared, and not there"
        lines.append(f"{console.style('✗', 'red')} {told}")
    for d in verdict.accepted:
        accepted = f"{_place(found.file, d)}{d.text}: accepted, {d.reason}"
        lines.append(console.style(f"· {accepted}", "dim"))
    boxes = say_count(len(verdict.read.reading.chart.boxes), "box").replace("boxs", "boxes")
    arrows = say_count(len(verdict.read.reading.chart.arrows), "arrow")
    lines = [console.plain(line) if "\x1b" not in line else line for line in lines]
    if verdict.holds:
        but = " but for what it declares" if verdict.accepted else ""
        told = f"{verdict.machine} is the flowchart of {found.file}{but}: {boxes}, {arrows}"
        return [*lines, console.style(told, "green")]
    wrong = say_count(len(verdict.undeclared), "difference")
    parts = [f"{wrong} that {verdict.machine} does not declare"] if verdict.undeclared else []
    stale = say_count(len(verdict.stale), "declared difference")
    parts += [f"{stale} that is not there"] if verdict.stale else []
    return [*lines, "", "; ".join(parts)]


def _place(file: str, deviation: Deviation) -> str:
    return "" if deviation.line is None else f"{file}:{deviation.line}: "
