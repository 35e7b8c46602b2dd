"""`interlock draw`: a machine as a flowchart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli import options, out
from interlock.cli.faults import MisuseError
from interlock.cli.how import How
from interlock.core.errors import RunError
from interlock.core.units import say_count

if TYPE_CHECKING:
    from interlock.view.picture import Picture


@click.command(
    epilog="""\b
Examples:
  interlock draw agent
  interlock draw agent -o agent.svg
  interlock draw my.yaml --format mermaid --rules chain
  interlock draw agent --region status

\b
Rules hold after every step: `box` lists them beside the chart, `chain` draws them as decisions,
`none` leaves them out. SVG and PNG need `dot`, or: pip install "interlock[diagrams]"
"""
)
@options.machine_argument
@click.option(
    "--format", type=click.Choice(["text", "mermaid", "dot", "svg", "png"]),
    help="Default: what the name of the output says, else text.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
)
@click.option(
    "--rules", type=click.Choice(["box", "chain", "none"]), default="box", show_default=True,
    help="How stop rules are drawn.",
)  # fmt: skip
@click.option(
    "--all", "everything", is_flag=True, help="Also what the engine adds: ends, ways out."
)
@click.option(
    "--region", type=click.Choice(["state", "status"]), default="state", show_default=True,
    help="The machine's states, or the status that every run has beside them.",
)  # fmt: skip
@options.tools_option
@options.define_option
def draw(machine: str, output: str | None, everything: bool, **given: Any) -> None:
    """Draw a machine as a flowchart."""
    from interlock.cli.loading import seen_machine

    form = given.pop("format")
    how = How.of(given)
    loaded = seen_machine(machine, how)
    picture = loaded.draw(rules=how.more["rules"], all=everything, region=how.more["region"])
    if output is None or output == "-":
        _show(picture, form or "text")
        return
    path = Path(output)
    if form is None:
        _save(picture, path)
    else:
        drawn = _drawn(picture, form)
        path.write_bytes(drawn if isinstance(drawn, bytes) else drawn.encode())
    boxes, arrows = len(picture.chart.boxes), say_count(len(picture.chart.arrows), "arrow")
    out.say(f"{path}: {boxes} {'box' if boxes == 1 else 'boxes'}, {arrows}", "dim")


def _save(picture: Picture, path: Path) -> None:
    """Write the picture in the format that the file's name says."""
    try:
        picture.save(path)
    except RunError as error:
        if error.hint:  # the name says none; else the file cannot be written
            raise MisuseError(error.message, hint=f"{error.hint}, or say --format") from None
        raise


def _drawn(picture: Picture, form: str) -> str | bytes:
    match form:
        case "mermaid":
            return picture.mermaid()
        case "dot":
            return picture.dot()
        case "svg":
            return picture.svg()
        case "png":
            return picture.png()
        case _:
            return picture.text()


def _show(picture: Picture, form: str) -> None:
    drawn = _drawn(picture, form)
    if isinstance(drawn, str):
        whole = form != "text"
        for line in [drawn.rstrip("\n")] if whole else out.fitted(drawn.rstrip("\n"), sys.stdout):
            out.result(line)
    elif sys.stdout.isatty():
        raise click.UsageError("a PNG is no text for a terminal: give -o FILE.png")
    else:
        sys.stdout.buffer.write(drawn)
