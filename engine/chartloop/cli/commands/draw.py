"""`chartloop draw`: draw a machine as a flowchart, or a run in the flowchart of its machine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.error_report import MisuseError
from chartloop.cli.journal_access import find_run, machine_of, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import seen_machine
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.cli.terminal_picture import colour_lines, columns
from chartloop.core.errors import RunError
from chartloop.core.units import say_count
from chartloop.pictures.mermaid import too_large

with at_first_use(__name__):
    from chartloop.pictures import save as saving

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.pictures.flowchart import Direction
    from chartloop.pictures.picture import Picture

LARGE = 30
"""The most boxes of a picture that is easy to read whole."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DrawOptions(RunOptions):
    """The options of `draw`."""

    run: str | None = option(
        "--run",
        metavar="RUN",
        shell_complete=completion.runs,
        help="Draw a run instead of a machine: an id, the beginning of one, or `last`.",
    )
    look: Literal["live", "plain"] = option(
        "--look",
        type=click.Choice(["live", "plain"]),
        default="live",
        show_default=True,
        help="With --run: show the state and the path (`live`), or neither (`plain`).",
    )
    format: str | None = option(
        "--format",
        type=click.Choice(["text", "outline", "mermaid", "dot", "svg", "png"]),
        help="Default: by the suffix of the output, else text.",
    )
    output: str | None = option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
    )
    rules: Literal["box", "chain", "none"] = option(
        "--rules",
        type=click.Choice(["box", "chain", "none"]),
        default="box",
        show_default=True,
        help="How stop rules are drawn.",
    )
    everything: bool = option(
        "--all",
        is_flag=True,
        help="Also draw the ends that the engine adds, the edges to them, and the waits for a"
        " person who decides on a call in doubt.",
    )
    region: str = option(
        "--region",
        type=click.Choice(["state", "status"]),
        default="state",
        show_default=True,
        help="The machine's states, or the status that every run also has.",
    )
    direction: Direction = option(
        "--direction",
        type=click.Choice(["tb", "lr"]),
        default="tb",
        show_default=True,
        help="Direction of the chart: down, or to the right. Text is always top to bottom.",
    )
    theme: Literal["light", "dark", "auto"] = option(
        "--theme",
        type=click.Choice(["light", "dark", "auto"]),
        default="light",
        show_default=True,
        help="Colours of SVG and PNG. `auto`: an SVG that follows its reader's preference.",
    )
    around: str | None = option(
        "--around",
        metavar="STATE",
        help="Draw only a state and its neighbours, with the number of boxes left out.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop draw agent
  chartloop draw agent --format outline
  chartloop draw agent -o agent.svg
  chartloop draw my.yaml --format mermaid --rules chain
  chartloop draw agent --region status
  chartloop draw agent --direction lr -o agent.svg
  chartloop draw agent --theme dark -o agent.png
  chartloop draw my.yaml --around think
  chartloop draw --run last -o run.svg

\b
How to read the text: the arrows of a box leave at its right border and from the line below it, in
order; a line to the right ends in a lane, which leads to one box only; `◀` enters above a box, and
`┼` is a crossing. If the picture is too wide or has too many boxes, an outline is printed.

\b
Rules are checked after every step: `box` lists them beside the chart, `chain` draws them as
decisions, `none` leaves them out. SVG and PNG need `dot`, or the extra `diagrams`: see
`chartloop doctor`.
"""
)
@click.argument("machine", required=False, shell_complete=completion.machines)
@parameters.options_of(DrawOptions)
@parameters.tools_option
@parameters.define_option
@parameters.journal_option
@pass_options(DrawOptions)
def draw(machine: str | None, options: DrawOptions) -> None:
    """Draw a machine as a flowchart."""
    form = options.format
    settings: dict[str, Any] = {
        "rules": options.rules, "region": options.region, "direction": options.direction,
        "around": options.around, "all": options.everything,
    }  # fmt: skip
    if (machine is None) == (options.run is None):
        raise click.UsageError("name a machine, or a run with --run")
    written = Path(options.output or "-").suffix.lower()
    is_text = form in ("text", "outline") or (form is None and written in ("", ".txt"))
    if options.direction != "tb" and is_text:
        message = "a picture in characters goes down: give -o FILE.svg, or --format mermaid"
        raise click.UsageError(message)
    try:
        if machine is not None:
            picture = seen_machine(machine, options).draw(**settings)
        else:
            picture = _run(str(options.run), options).draw(look=options.look, **settings)
        picture = picture.with_theme(options.theme)
    except RunError as error:  # there is no such state
        raise MisuseError(error.message, hint=error.hint) from None
    if options.output is None or options.output == "-":
        _show(picture, form or "text")
        _say_too_large(picture, form or "text")
        return
    path = Path(options.output)
    _say_too_large(picture, form or path.suffix)
    if form is None:
        try:
            picture.save(path)  # by the suffix
        except RunError as error:
            if error.hint:  # the suffix is unknown; without a hint, writing failed
                raise MisuseError(error.message, hint=f"{error.hint}, or say --format") from None
            raise
    else:
        drawn = _render(picture, form)
        saving.write_whole(path, drawn if isinstance(drawn, bytes) else drawn.encode())
    boxes, arrows = len(picture.chart.boxes), say_count(len(picture.chart.arrows), "arrow")
    console.say(f"{path}: {boxes} {'box' if boxes == 1 else 'boxes'}, {arrows}", "dim")
    if boxes > LARGE and options.around is None:
        console.say("too large to be read whole: --around STATE shows a part", "dim")


def _say_too_large(picture: Picture, form: str) -> None:
    """Warn if Mermaid draws the picture only with a higher limit."""
    if form in ("mermaid", ".mmd", ".mermaid") and (warning := too_large(picture.mermaid())):
        console.say(warning, "yellow")


def _run(name: str, options: RunOptions) -> Run:
    journal = open_journal(options)
    row = find_run(journal, name)
    return machine_of(journal, row, options).open(row.run_id, journal=journal)


def _render(picture: Picture, form: str) -> str | bytes:
    match form:
        case "outline":
            return picture.outline()
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
    if form == "text":
        _show_text(picture)
        return
    drawn = _render(picture, form)
    if isinstance(drawn, str):
        whole = form != "outline"
        for line in (
            [drawn.rstrip("\n")]
            if whole
            else console.wrap_to_terminal(drawn.rstrip("\n"), sys.stdout)
        ):
            console.result(line)
    elif sys.stdout.isatty():
        raise click.UsageError("a terminal cannot show a PNG: give -o FILE.png")
    else:
        sys.stdout.buffer.write(drawn)


def _show_text(picture: Picture) -> None:
    """Print the picture, or the outline with a note if the terminal is too narrow."""
    wide = columns()
    drawing = picture.drawing() if wide is None else picture.drawing(width=wide)
    if drawing is None:
        _show(picture, "outline")
        console.say(
            "an outline: the picture has too many boxes, or more columns than there are", "dim"
        )
        return
    for line in colour_lines(drawing.lines):
        console.result(line)
