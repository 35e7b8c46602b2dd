"""`chartloop import`: write the skeleton of a machine from the flowchart of a document."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import click

from chartloop.cli import console, parameters
from chartloop.cli.charts import (
    ChartOptions,
    find_chart,
)
from chartloop.cli.error_report import MisuseError
from chartloop.cli.late import at_first_use
from chartloop.cli.options import option, pass_options
from chartloop.cli.printing import say_lines
from chartloop.core.errors import SetupError

with at_first_use(__name__):
    from chartloop.interchange import documents, import_chart
    from chartloop.pictures import save as saving


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ImportOptions(ChartOptions):
    """The options of `import`."""

    output: str | None = option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
    )
    name: str | None = option(
        "--name", metavar="NAME", help="The machine's name. Default: the heading, else the file."
    )
    force: bool = option("--force", is_flag=True, help="Overwrite an existing file.")


@click.command(
    "import",
    epilog="""\b
Examples:
  chartloop import FLOW.md -o machine.yaml
  chartloop import docs/design.md --chart 2 -o agent.yaml --name agent
  chartloop import flow.mmd -o machine.yaml

\b
The machine draws the same chart and can be stepped: `chartloop step machine.yaml`. Boxes that
no arrow leads to are reported by `chartloop check` until you fix them. Parts that a machine cannot
draw are declared in it under `deviations`, with reasons; `chartloop verify` compares the machine
with the document from then on.
""",
)
@click.argument("document", type=click.Path(dir_okay=False))
@parameters.options_of(ImportOptions, "output", "name")
@parameters.options_of(ChartOptions)
@parameters.options_of(ImportOptions, "force")
@parameters.format_option()
@pass_options(ImportOptions)
def import_(document: str, options: ImportOptions) -> None:
    """Write the skeleton of a machine that has the shape of a chart.

    DOCUMENT is a Markdown file with a Mermaid flowchart or state diagram in a fence, or a .mmd
    file.
    """
    path = None if options.output in (None, "-") else Path(str(options.output))
    if path is not None and path.exists() and not options.force:
        raise MisuseError(f"`{path}` exists already", hint="--force overwrites it")
    flowchart = find_chart(document, options)
    if path is not None and path.exists() and path.samefile(document):
        raise MisuseError(f"`{path}` is the document itself", hint="name another file")
    chart = documents.read(flowchart)
    source = document if path is None else os.path.relpath(document, path.parent)
    try:
        skeleton = import_chart.import_chart(
            chart, name=options.name or "", source=Path(source).as_posix()
        )
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None
    if path is not None:
        _write_whole(path, skeleton.text)
    if options.is_json:
        text = {} if path is not None else {"text": skeleton.text}
        file = None if path is None else str(path)
        console.result(console.as_json({"file": file, **skeleton.to_dict(), **text}))
        return
    if path is None:
        console.result(skeleton.text.rstrip("\n"))
    say_lines(skeleton.lines())
    if path is not None:
        console.say(f"{path}: {skeleton.summary}", "dim")


def _write_whole(path: Path, text: str) -> None:
    if not path.parent.is_dir():
        raise MisuseError(f"there is no folder `{path.parent}`", hint="make it first")
    saving.write_whole(path, text.encode())
