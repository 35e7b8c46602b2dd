"""`chartloop review`: write one comment on every machine that a change touches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from chartloop.cli import console, parameters
from chartloop.cli.commands.diff import CompareOptions, save
from chartloop.cli.error_report import USAGE, MisuseError, say_error
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import own_of
from chartloop.cli.options import option, pass_options
from chartloop.core.errors import ChartloopError

with at_first_use(__name__):
    from chartloop.actions import declare
    from chartloop.studies.review import changed_machines, comment
    from chartloop.studies.review import sources as revisions

if TYPE_CHECKING:
    from chartloop.studies.review.changed_machines import Reviewed, Scope


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ReviewOptions(CompareOptions):
    """The options of `review`."""

    format: str | None = option(
        "--format", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True
    )
    pictures: str | None = option(
        "--pictures",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Write the pictures there, as SVG.",
    )
    link: str | None = option(
        "--link",
        metavar="URL",
        help="The address of a picture; {picture} stands for its file name.",
    )


@click.command(
    epilog="""\b
Examples:
  chartloop review main
  chartloop review main machines/
  chartloop review origin/main..HEAD -o comment.md --pictures pictures

\b
Compares the YAML files with a `chartloop:` key that changed since HEAD left BASE, and machines
whose child files changed. Without HEAD the newer side is the files of the working tree. Nothing
that a file names is imported or run, and no link is followed out of the repository. docs/review.md
has a workflow and a pre-commit hook.

\b
Exit codes: 0 no machine changed, 1 some did, 2 one cannot be loaded, 7 with --fail-on loosened:
calls no longer wait for a person, or it is not known whether they do.
"""
)
@click.argument("base", metavar="BASE[..HEAD]")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@parameters.options_of(ReviewOptions)
@parameters.options_of(CompareOptions)
@parameters.tools_option
@pass_options(ReviewOptions)
def review(base: str, paths: tuple[str, ...], options: ReviewOptions) -> None:
    """Write one comment on every machine that a change touches."""
    try:
        scope = changed_machines.Scope.of(Path.cwd(), *_sides(base))
        looking = revisions.Looking(declare.specs_of(own_of(options)))
        inside = [_from_root(scope, path) for path in paths]
        reviewed = list(changed_machines.review(scope, looking, inside))
        reviewed = [one._replace(diff=one.diff and options.on_record(one.diff)) for one in reviewed]
        names = _picture_names(reviewed, options.pictures)
        if options.format == "json":
            text = f"{console.as_json(comment.review_data(scope, reviewed))}\n"
        else:
            text = _markdown(scope, reviewed, names, options)
        if options.output in (None, "-"):
            console.result(text.rstrip("\n"))
        else:
            save(Path(options.output), text)
    except ChartloopError as error:
        say_error(error)
        raise click.exceptions.Exit(USAGE) from None
    invalid = any(one.invalid for one in reviewed)
    found, unasked = [one.diff for one in reviewed], any(one.unasked for one in reviewed)
    code = USAGE if invalid else options.exit_code(found, unasked=unasked)
    raise click.exceptions.Exit(code)


def _sides(revisions: str) -> tuple[str, str | None]:
    """BASE and HEAD of ``BASE..HEAD``, as git writes a range."""
    base, _, head = revisions.replace("...", "..").partition("..")
    return base, head or None


def _from_root(scope: Scope, path: str) -> str:
    """Convert a path relative to the current folder to one relative to the repository."""
    root = scope.repository.root.resolve()
    found = Path(os.path.relpath(Path(path).absolute(), root)).as_posix()
    if not scope.has(found):
        hint = "PATH is a file or a folder of the repository, as it is now or as it was"
        raise MisuseError(f"there is no `{path}` in `{scope.base.name}` or {scope.now}", hint=hint)
    return found


def _picture_names(found: Sequence[Reviewed], folder: str | None) -> Mapping[tuple[str, str], str]:
    """The file names of the pictures. With a folder, writes them and omits those that failed."""
    names = comment.file_names(found)
    if folder is None:
        return names
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{folder} cannot be made: {error.strerror or error}"
        raise MisuseError(message) from None
    return dict(_write_pictures(found, names, Path(folder)))


def _write_pictures(
    found: Sequence[Reviewed], names: Mapping[tuple[str, str], str], folder: Path
) -> Iterator[tuple[tuple[str, str], str]]:
    """Write the pictures and yield the names of those that could be drawn.

    The others are reported, one line for each cause; the comment is written without them.
    """
    missing: dict[str, list[str]] = {}
    for one in found:
        for kind, picture in comment.pictures(one).items():
            name = names[one.path, kind]
            try:
                picture.svg()
            except ChartloopError as error:
                cause = f"{error.message}; {error.hint}" if error.hint else error.message
                missing.setdefault(cause, []).append(name)
            else:
                picture.save(folder / name)
                yield (one.path, kind), name
    for cause, left in missing.items():
        console.say(console.plain(f"not drawn: {', '.join(left)}: {cause}"), "yellow")


def _markdown(
    scope: Scope, found: Sequence[Reviewed], names: Mapping[tuple[str, str], str],
    options: ReviewOptions,
) -> str:  # fmt: skip
    def links(one: Reviewed) -> Mapping[str, str]:
        return {
            kind: comment.link(options.link, name)
            for (path, kind), name in names.items()
            if options.link is not None and path == one.path
        }

    return comment.comment(scope, found, links=links)
