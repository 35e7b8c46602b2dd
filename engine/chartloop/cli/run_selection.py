"""Selection of recorded runs for a study: the argument `[RUN]...`, its options, and reading.

A run that cannot be read is reported on stderr and skipped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from chartloop.cli import completion, console, parameters
from chartloop.cli.journal_access import find_run, open_journal
from chartloop.cli.late import at_first_use
from chartloop.cli.options import AGE, FilterOptions, at_least, option
from chartloop.core.errors import SetupError
from chartloop.core.units import say_count

with at_first_use(__name__):
    from chartloop.actions import undeclared
    from chartloop.run import recorded, sync

if TYPE_CHECKING:
    from chartloop.language.spec import MachineSpec
    from chartloop.run.journal import Journal, RunRow
    from chartloop.run.recorded import Recorded, Unread

REPORTED = 5
"""The most skipped runs that are reported with their reasons; the others are counted."""


ALL = "all"
"""In place of a run: all runs of the machine in the journal."""

runs_argument = click.argument("runs", nargs=-1, metavar="[RUN]...", shell_complete=completion.runs)
"""Ids or their beginnings, `last`, `all`, exported ``.jsonl`` files, `-` for one on stdin."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class SelectionOptions(FilterOptions):
    """The options of commands that study recorded runs."""

    newest: int | None = option(
        "--newest", type=at_least(1), metavar="N", help="Only the N newest runs."
    )
    since: float | None = option(
        "--since", type=AGE, metavar="DURATION",
        help="Only runs started within this time: 30d, 12h.",
    )  # fmt: skip
    """Seconds."""


choice_options = parameters.together(
    parameters.options_of(SelectionOptions), parameters.of_runs, parameters.journal_option
)
"""Options that select runs of a journal if none is named."""


_UNKNOWN: Mapping[str, str] = MappingProxyType(
    {
        "action": "your own action: how it counts is not known",
        "class": "your own class: the shape of a reply is not known",
    }
)


def refuse_undeclared(spec: MachineSpec) -> None:
    """Raise `SetupError` if a machine or one of its children names an undeclared action or class.

    Undeclared tools and guards are accepted: tools are not called, guard results are recorded.
    """
    for named in undeclared.assumed_in(spec):
        kind, _, name = named.partition(" ")
        if kind in _UNKNOWN:
            hint = "give the Python file that declares it: --tools FILE"
            raise SetupError(f"{name} is {_UNKNOWN[kind]}", hint=hint)


@dataclass
class Selection:
    """The selected runs, read one by one when iterated."""

    sources: list[Callable[[], list[Recorded]]]
    count: int
    """How many runs were selected, including unreadable ones."""
    unread: list[Unread] = field(default_factory=list["Unread"])
    """The unreadable runs skipped so far."""

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[recorded.RecordedRun]:
        for read in self.sources:
            for run in read():
                if isinstance(run, recorded.RecordedRun):
                    yield run
                else:
                    self.unread.append(run)

    def say_unread(self) -> None:
        """Report on stderr which runs were skipped, and why."""
        for one in self.unread[:REPORTED]:
            console.say(console.plain(str(one)), "yellow")
        if (more := len(self.unread) - REPORTED) > 0:
            console.say(f"and {say_count(more, 'more run')} skipped", "yellow")


def select_runs(
    names: tuple[str, ...], options: SelectionOptions, machine: str = "", *, children: bool = False
) -> Selection:
    """Select the named runs; without names, or for `all`, the journal's runs of `machine`.

    `machine` is a name; empty means every machine. Child runs are selected only when named, or,
    with `children`, after their parent.
    """
    names = () if ALL in names else names
    sources: list[Callable[[], list[Recorded]]] = []
    journal: Journal | None = None
    count = 0
    for name in names:
        if name == "-" or name.endswith(".jsonl"):
            runs = _read_exported(name)
            sources.append(runs.copy)
            count += len(runs)
        else:
            journal = journal or open_journal(options)
            sources.append(_journal_reader(journal, find_run(journal, name), children))
            count += 1
    if not names:
        journal = open_journal(options)
        sources = [
            _journal_reader(journal, row, children) for row in _rows(journal, options, machine)
        ]
        count = len(sources)
    return Selection(sources, count)


def _journal_reader(journal: Journal, row: RunRow, children: bool) -> Callable[[], list[Recorded]]:
    def read() -> list[Recorded]:
        below = sync.by_hand(recorded.read_children(journal, row.run_id)) if children else []
        return [sync.by_hand(recorded.read_run(journal, row)), *below]

    return read


_EXPORT = "`chartloop journal export RUN --to FILE.jsonl` writes one"


def _read_exported(name: str) -> list[Recorded]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        hint = _EXPORT
        raise SetupError(f"`{name}` cannot be read: {why}", hint=hint) from error
    runs = recorded.read_export(text, "stdin" if name == "-" else name)
    if not runs:
        raise SetupError(f"`{name}` holds no run", hint=_EXPORT)
    return runs


def _rows(journal: Journal, options: SelectionOptions, machine: str) -> list[RunRow]:
    since, newest = options.since, options.newest
    rows = sync.by_hand(
        journal.rows(
            machine=machine or None, status=options.status, agent=options.agent,
            session=options.session, tenant=options.tenant, children=False,
            limit=newest if since is None else None,
        )
    )  # fmt: skip
    if since is not None:
        after = sync.by_hand(journal.now()) - since
        rows = [row for row in rows if row.created >= after][:newest]
    return rows
