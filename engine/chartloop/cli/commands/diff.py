"""`chartloop diff`: show the differences between two machines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.compare_inputs import machines_at
from chartloop.cli.error_report import LOOSENED, OK, USAGE, MisuseError, say_error
from chartloop.cli.journal_access import open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import RunOptions, option, pass_options
from chartloop.cli.printing import print_lines
from chartloop.core.errors import ChartloopError, RunError

with at_first_use(__name__):
    from chartloop.analysis.versions.diff import diff as differences
    from chartloop.pictures import save as saving
    from chartloop.studies.review import recorded_calls

if TYPE_CHECKING:
    from chartloop.analysis.versions.diff.diff import Diff

DIFFERS = 1
_FORMATS = ("text", "json", "mermaid", "svg", "png", "dot")
_BY_SUFFIX = {
    ".svg": "svg", ".png": "png", ".mmd": "mermaid", ".mermaid": "mermaid", ".dot": "dot",
    ".gv": "dot", ".json": "json", ".txt": "text",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CompareOptions(RunOptions):
    """The options that `diff` and `review` share."""

    output: str | None = option(
        "-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Default: stdout."
    )
    journal: str | None = option(
        "--journal", type=click.Path(dir_okay=False), metavar="PATH|URL",
        help="Also say which calls of its runs asked and no longer would, or the other way round.",
    )  # fmt: skip
    fail_on: str = option(
        "--fail-on", type=click.Choice(["differs", "loosened", "invalid"]), default="differs",
        show_default=True,
        help="`loosened`: exit with 7 if consent is loosened, else with 0. `invalid`: with 0 unless"
        " a machine cannot be loaded.",
    )  # fmt: skip

    def on_record(self, found: Diff) -> Diff:
        """The comparison, with what it would have meant for the calls of the journal."""
        if self.journal is None:
            return found
        return recorded_calls.with_recorded_calls(found, open_journal(self))

    def exit_code(self, found: Sequence[Diff | None], *, unasked: bool = False) -> int:
        """The exit code of comparisons; None where one of the two machines does not exist.

        `unasked`: whether a new machine asks nobody about calls that wait in another one.
        """
        if self.fail_on == "loosened":
            loosened = unasked or any(one is not None and one.loosened for one in found)
            return LOOSENED if loosened else OK
        same = self.fail_on == "invalid" or all(one is not None and one.same for one in found)
        return OK if same else DIFFERS


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class DiffOptions(CompareOptions):
    """The options of `diff`."""

    format: str | None = option(
        "--format",
        type=click.Choice(_FORMATS),
        help="Default: by the suffix of the output, else text.",
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
Exit codes: 0 the same machine, 1 the machines differ, 2 one of them cannot be read, 7 with
--fail-on loosened: calls no longer wait for a person, or it is not known whether they do.
"""
)
@click.argument("before", shell_complete=completion.machines)
@click.argument("after", shell_complete=completion.machines)
@parameters.options_of(DiffOptions)
@parameters.options_of(CompareOptions)
@parameters.tools_option
@parameters.define_option
@pass_options(DiffOptions)
def diff(before: str, after: str, options: DiffOptions) -> None:
    """Show what differs between two machines, in words and pictures."""
    form = options.format or _form_of(options.output)
    code = USAGE
    try:
        if (machines := machines_at((before, after), options)) is not None:
            (one, old), (other, new) = machines
            result = options.on_record(differences.diff(old, new, names=(one, other)))
            _write(result, form, options.output, options.full)
            code = options.exit_code([result])
    except ChartloopError as error:
        say_error(error)
    raise click.exceptions.Exit(code)


def _form_of(output: str | None) -> str:
    """The format for the suffix of a file; text without a suffix."""
    suffix = "" if output is None else Path(output).suffix.lower()
    if suffix and suffix not in _BY_SUFFIX:
        known = " ".join(_BY_SUFFIX)
        raise click.UsageError(f"`{suffix}` is not a format: end the name with one of {known}")
    return _BY_SUFFIX.get(suffix, "text")


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
        case _:
            return getattr(result.picture(full=full), form)()
