"""`chartloop diff`: what differs between two machines."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import console, parameters
from chartloop.cli.error_report import OK, USAGE, MisuseError, say_error
from chartloop.cli.options import RunOptions, pass_options
from chartloop.core.errors import ChartloopError, RunError

if TYPE_CHECKING:
    from chartloop.versions.diff.change import Change
    from chartloop.versions.diff.diff import Diff

DIFFERS = 1
_FORMATS = ("text", "json", "mermaid", "svg", "png", "dot")
_BY_SUFFIX = {
    ".svg": "svg", ".png": "png", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot",
    ".gv": "dot", ".json": "json", ".txt": "text",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DiffOptions(RunOptions):
    """The options of `diff`."""

    output: str | None = None
    full: bool = False


@click.command(
    epilog="""\b
Examples:
  chartloop diff old.yaml new.yaml
  chartloop diff main:machines/agent.yaml machines/agent.yaml
  chartloop diff v1.0:agent.yaml agent.yaml -o diff.svg
  chartloop diff old.yaml new.yaml --format mermaid --full

\b
Each side is a file, the name of a shipped machine, or REV:PATH in a git repository. Comments, order
of keys and notation make no difference. Nothing that a file names is imported or run; tools
that are not given count as known.

\b
Exit codes: 0 the same machine, 1 the machines differ, 2 one of them cannot be read.
"""
)
@click.argument("before", shell_complete=parameters.completion.machines)
@click.argument("after", shell_complete=parameters.completion.machines)
@click.option(
    "--format", type=click.Choice(_FORMATS),
    help="Default: by the name of the output, else text.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
)
@click.option("--full", is_flag=True, help="In pictures the whole machine, not what changed alone.")
@parameters.tools_option
@parameters.define_option
@pass_options(DiffOptions)
def diff(before: str, after: str, options: DiffOptions) -> None:
    """Show what differs between two machines, in words and pictures."""
    form = options.format or _form_of(options.output)
    try:
        made = _compare(before, after, options)
        if made is not None:
            _write(made, form, options.output, options.full)
    except ChartloopError as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    if made is None:
        raise click.exceptions.Exit(USAGE)
    raise click.exceptions.Exit(OK if made.same else DIFFERS)


def _form_of(output: str | None) -> str:
    """The format that the name of a file says; text for a name that says none."""
    suffix = "" if output is None else Path(output).suffix.lower()
    if suffix and suffix not in _BY_SUFFIX:
        known = " ".join(_BY_SUFFIX)
        raise click.UsageError(f"`{suffix}` is not a format: end the name with one of {known}")
    return _BY_SUFFIX.get(suffix, "text")


def _compare(before: str, after: str, options: RunOptions) -> Diff | None:
    """The difference; None, and its findings are said, when a side is not a machine."""
    from chartloop.cli.compare_inputs import machines_at
    from chartloop.versions.diff.diff import diff as difference

    found = machines_at((before, after), options)
    if found is None:
        return None
    (one, old), (other, new) = found
    return difference(old, new, names=(one, other))


# output -------------------------------------------------------------------------------------


def _write(made: Diff, form: str, output: str | None, full: bool) -> None:
    if output is None or output == "-":
        if form == "text":
            for line in diff_lines(made):
                console.result(line)
            return
        _print(_render(made, form, full), form)
        return
    path = Path(output)
    save(path, _render(made, form, full))
    console.say(f"{path}: {console.plain(made.verdict)}", "dim")


def save(path: Path, content: str | bytes) -> None:
    """Write a file. `MisuseError` where it cannot be: an exit code of 1 would mean a difference."""
    from chartloop.view.save import write_whole

    data = content if isinstance(content, bytes) else content.encode(errors="replace")
    try:
        write_whole(path, data)
    except RunError as error:
        raise MisuseError(error.message) from None


def _render(made: Diff, form: str, full: bool) -> str | bytes:
    match form:
        case "text":
            return made.text()
        case "json":
            return console.as_json(made.to_dict()) + "\n"
        case "mermaid":
            return made.picture(full=full).mermaid()
        case "dot":
            return made.picture(full=full).dot()
        case "svg":
            return made.picture(full=full).svg()
        case _:
            return made.picture(full=full).png()


def _print(drawn: str | bytes, form: str) -> None:
    if isinstance(drawn, str):
        console.result(drawn.rstrip("\n"))
    elif sys.stdout.isatty():
        raise click.UsageError(f"a terminal cannot show a {form.upper()}: give -o FILE.{form}")
    else:
        sys.stdout.buffer.write(drawn)


# words --------------------------------------------------------------------------------------

_COLOURS = {"+": "green", "−": "red", "~": "yellow"}


def diff_lines(made: Diff) -> Iterator[str]:
    """The verdict, the two names, then every difference with its place, under its heading."""
    yield console.style(console.plain(made.verdict), "green" if made.same else "", bold=True)
    if made.same:
        return
    for sign, name in zip("−+", made.names, strict=True):
        yield console.style(f"{sign} {console.plain(name)}", _COLOURS[sign])
    for group, changes in made.groups.items():
        yield ""
        yield console.style(group, bold=True)
        for change in changes:
            yield from _change(change, made)


def _change(change: Change, made: Diff) -> Iterator[str]:
    from chartloop.versions.diff.diff import say, where

    sign = console.style(change.sign, _COLOURS[change.sign], bold=True)
    place = f"({found})" if (found := console.plain(where(change, made.files))) else ""
    if not console.is_terminal(sys.stdout):
        yield f"  {sign} {say(change)}  {place}".rstrip()
        return
    columns = max(40, shutil.get_terminal_size().columns)
    lines = [line.strip() for line in console.wrap_to_terminal(f"    {say(change)}", sys.stdout)]
    fits = len(lines[-1]) + len(place) + 6 <= columns
    shown = [*_mark_code(lines), *([] if fits else [""])]
    shown[-1] += console.style(f"  {place}" if fits else place, "dim")
    yield f"  {sign} {shown[0]}"
    yield from (f"    {line}" for line in shown[1:])


def _mark_code(lines: list[str]) -> Iterator[str]:
    """What is between backticks, in bold, across the ends of lines."""
    paired = sum(line.count("`") for line in lines) % 2 == 0
    inside = False
    for line in lines:
        if not paired:  # the file has some of its own
            yield line
            continue
        parts = line.split("`")
        yield "".join(console.style(p, bold=(n % 2 == 1) != inside) for n, p in enumerate(parts))
        inside = (len(parts) % 2 == 0) != inside
