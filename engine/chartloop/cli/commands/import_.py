"""`chartloop import`: the skeleton of a machine that draws a flowchart of a document."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chartloop.cli import console, parameters
from chartloop.cli.charts import (
    ChartOptions,
    chart_option,
    find_chart,
    repair_option,
    report_repairs,
)
from chartloop.cli.error_report import MisuseError
from chartloop.cli.options import pass_options
from chartloop.core.errors import SetupError
from chartloop.core.units import say_count

if TYPE_CHECKING:
    from chartloop.interchange.import_chart import Imported


@dataclass(frozen=True, kw_only=True)
class ImportOptions(ChartOptions):
    """The options of `import`."""

    name: str | None = None


@click.command(
    "import",
    epilog="""\b
Examples:
  chartloop import FLOW.md -o machine.yaml
  chartloop import docs/design.md --chart 2 -o agent.yaml --name agent
  chartloop import flow.mmd -o machine.yaml --repair

\b
The file draws the same flowchart, and can be stepped: `chartloop step machine.yaml`. Where boxes of
the document have no arrow that leads to them, `chartloop check` reports them until you fix them.
Parts that a machine cannot draw are declared in it under `deviations`, with reasons;
`chartloop verify` compares the two from then on.
""",
)
@click.argument("document", type=click.Path(dir_okay=False))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
)
@click.option(
    "--name", metavar="NAME", help="The machine's name. Default: the heading, else the file."
)
@chart_option
@repair_option
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@parameters.format_option()
@pass_options(ImportOptions)
def import_(document: str, output: str | None, force: bool, options: ImportOptions) -> None:
    """Write the skeleton of a machine that draws a flowchart.

    DOCUMENT is a Markdown file with a Mermaid flowchart in a fence, or a .mmd file.
    """
    from chartloop.interchange.documents import read
    from chartloop.interchange.import_chart import import_chart

    path = None if output in (None, "-") else Path(str(output))
    if path is not None and path.exists() and not force:
        raise MisuseError(f"`{path}` is there already", hint="say --force to write over it")
    found = find_chart(document, options)
    if path is not None and path.exists() and path.samefile(document):
        raise MisuseError(f"`{path}` is the document itself", hint="name another file")
    chart = read(found, repair=options.repair)
    source = document if path is None else os.path.relpath(document, path.parent)
    try:
        made = import_chart(chart, name=options.name or "", source=Path(source).as_posix())
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None
    if path is not None:
        _write_whole(path, made.text)
    if options.is_json:
        console.result(console.as_json(_public(made, path)))
        return
    if path is None:
        console.result(made.text.rstrip("\n"))
    _say(made, path)


def _write_whole(path: Path, text: str) -> None:
    from chartloop.view.save import write_whole

    if not path.parent.is_dir():
        raise MisuseError(f"there is no folder `{path.parent}`", hint="make it first")
    write_whole(path, text.encode())


def _say(made: Imported, path: Path | None) -> None:
    report_repairs(made.read)
    for note in made.notes:
        console.say(f"note: {console.plain(str(note))}", "yellow")
    for difference in made.deviations:
        console.say(f"drawn otherwise: {console.plain(str(difference))}", "yellow")
    if made.unreached:
        some = ", ".join(f"`{name}`" for name in made.unreached[:5])
        some += ", ..." if made.unreached[5:] else ""
        console.say(f"error: no arrow leads to {some}", "red")
        console.say("the file does not load before one does, or they are removed", "red")
    if path is not None:
        todo = f"{made.text.count('# TODO'):,} TODO"
        states = say_count(len(made.machine.spec.states), "state")
        console.say(f"{path}: {made.machine.name}, {states}, {todo}", "dim")


def _public(made: Imported, path: Path | None) -> dict[str, Any]:
    return {
        "file": None if path is None else str(path),
        "machine": made.machine.name,
        "states": len(made.machine.spec.states),
        "repairs": [repair._asdict() for repair in made.read.repairs],
        "not_kept": [note._asdict() for note in made.notes],
        "deviations": [str(difference) for difference in made.deviations],
        "unreached": list(made.unreached),
        **({} if path is not None else {"text": made.text}),
    }
