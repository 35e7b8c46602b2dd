"""`chartloop diff`: show the differences between two machines."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.compare_inputs import machines_at
from chartloop.cli.error_report import OK, USAGE, MisuseError, say_error
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.cli.printing import print_lines
from chartloop.core.errors import ChartloopError, RunError

with at_first_use(__name__):
    from chartloop.analysis.versions.diff import diff as differences
    from chartloop.pictures import save as saving

if TYPE_CHECKING:
    from chartloop.analysis.versions.diff.diff import Diff

DIFFERS = 1
_FORMATS = ("text", "json", "mermaid", "svg", "png", "dot")
_BY_SUFFIX = {
    ".svg": "svg", ".png": "png", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot",
    ".gv": "dot", ".json": "json", ".txt": "text",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DiffOptions(RunOptions):
    """The options of `diff`."""

    format: str | None = option(
        "--format",
        type=click.Choice(_FORMATS),
        help="Default: by the suffix of the output, else text.",
    )
    output: str | None = option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
    )
    full: bool = option(
        "--full", is_flag=True, help="Draw the whole machine, not only what changed."
    )


@click.command(
    epilog="""\b
Examples:
  chartloop diff old.yaml new.yaml
  chartloop diff main:machines/agent.yaml machines/agent.yaml
  chartloop diff v1.0:agent.yaml agent.yaml -o diff.svg
  chartloop diff old.yaml new.yaml --format mermaid --full

\b
Each side is a file, the name of a shipped machine, or REV:PATH in a git repository. Comments, the
order of keys and notation do not count as differences. Nothing that a file names is imported or
run; undeclared tools count as known.

\b
Exit codes: 0 the same machine, 1 the machines differ, 2 one of them cannot be read.
"""
)
@click.argument("before", shell_complete=completion.machines)
@click.argument("after", shell_complete=completion.machines)
@parameters.options_of(DiffOptions)
@parameters.tools_option
@parameters.define_option
@pass_options(DiffOptions)
def diff(before: str, after: str, options: DiffOptions) -> None:
    """Show what differs between two machines, in words and pictures."""
    form = options.format or _form_of(options.output)
    try:
        result = _compare(before, after, options)
        if result is not None:
            _write(result, form, options.output, options.full)
    except ChartloopError as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    if result is None:
        raise click.exceptions.Exit(USAGE)
    raise click.exceptions.Exit(OK if result.same else DIFFERS)


def _form_of(output: str | None) -> str:
    """The format for the suffix of a file; text without a suffix."""
    suffix = "" if output is None else Path(output).suffix.lower()
    if suffix and suffix not in _BY_SUFFIX:
        known = " ".join(_BY_SUFFIX)
        raise click.UsageError(f"`{suffix}` is not a format: end the name with one of {known}")
    return _BY_SUFFIX.get(suffix, "text")


def _compare(before: str, after: str, options: RunOptions) -> Diff | None:
    """Compare two machines. None, with findings on stderr, if a side is not a machine."""
    machines = machines_at((before, after), options)
    if machines is None:
        return None
    (one, old), (other, new) = machines
    return differences.diff(old, new, names=(one, other))


# output -------------------------------------------------------------------------------------


def _write(result: Diff, form: str, output: str | None, full: bool) -> None:
    if output is None or output == "-":
        if form == "text":
            print_lines(result.lines())
            return
        drawn = _render(result, form, full)
        if isinstance(drawn, str):
            console.result(drawn.rstrip("\n"))
        elif sys.stdout.isatty():
            raise click.UsageError(f"a terminal cannot show a {form.upper()}: give -o FILE.{form}")
        else:
            sys.stdout.buffer.write(drawn)
        return
    path = Path(output)
    save(path, _render(result, form, full))
    console.say(f"{path}: {console.plain(result.verdict)}", "dim")


def save(path: Path, content: str | bytes) -> None:
    """Write a file. Raises `MisuseError` on failure: exit code 1 would mean a difference."""
    data = content if isinstance(content, bytes) else content.encode(errors="replace")
    try:
        saving.write_whole(path, data)
    except RunError as error:
        raise MisuseError(error.message) from None


def _render(result: Diff, form: str, full: bool) -> str | bytes:
    match form:
        case "text":
            return result.text()
        case "json":
            return console.as_json(result.to_dict()) + "\n"
        case "mermaid":
            return result.picture(full=full).mermaid()
        case "dot":
            return result.picture(full=full).dot()
        case "svg":
            return result.picture(full=full).svg()
        case _:
            return result.picture(full=full).png()
