"""`interlock draw`: a machine as a flowchart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli import options, out
from interlock.cli.how import How

if TYPE_CHECKING:
    from interlock.view.picture import Picture

_SUFFIXES = {
    ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot", ".gv": "dot", ".svg": "svg",
    ".png": "png", ".txt": "text",
}  # fmt: skip


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
    from interlock.api import load
    from interlock.cli.loading import load_tools, locate

    form = given.pop("format") or _by_name(output)
    how = How.of(given)
    locate(machine)
    loaded = load(machine, tools=load_tools(how.tools), define=dict(how.define))
    picture = loaded.draw(rules=how.more["rules"], all=everything, region=how.more["region"])
    if output is None or output == "-":
        _show(picture, form)
        return
    path = Path(output)
    if _SUFFIXES.get(path.suffix.lower()) == form:
        picture.save(path)
    else:
        drawn = _drawn(picture, form)
        path.write_bytes(drawn if isinstance(drawn, bytes) else drawn.encode())
    out.say(f"{path}: {len(picture.chart.boxes)} boxes, {len(picture.chart.arrows)} arrows", "dim")


def _by_name(output: str | None) -> str:
    if output is None or output == "-":
        return "text"
    suffix = Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        known = " ".join(_SUFFIXES)
        raise click.UsageError(
            f"`{output}` does not say which format: end it with {known}, or say --format"
        )
    return _SUFFIXES[suffix]


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
        out.result(drawn.rstrip("\n"))
    elif sys.stdout.isatty():
        raise click.UsageError("a PNG is no text for a terminal: give -o FILE.png")
    else:
        sys.stdout.buffer.write(drawn)
