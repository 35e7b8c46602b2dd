"""Recorded runs, read from runs, journals, the files of journals, and exports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from chartloop.adapters.journal.opening import file_of, is_server, journal_of
from chartloop.api.run import Run
from chartloop.core.errors import SetupError
from chartloop.run.journal import Journal
from chartloop.run.recorded import (
    Recorded,
    RecordedRun,
    Unread,
    read_children,
    read_export,
    read_run,
)
from chartloop.run.sync import wait

Runs: TypeAlias = "Journal | Run | RecordedRun | Unread | str | Path | Iterable[Runs]"
"""A journal, its path or URL, a run, an exported ``.jsonl``, or any of these in a list."""


def recorded_runs(given: Runs, machine: str = "", *, children: bool = False) -> Iterator[Recorded]:
    """Yield recorded runs, each read when it is reached; an unreadable one as `Unread`.

    From a journal come the runs of the machine named `machine` (empty: of all machines), the newest
    first. With `children`, the runs of its child machines follow each run. `SetupError` for
    anything that holds no runs.
    """
    if isinstance(given, (RecordedRun, Unread)):
        yield given
    elif isinstance(given, Run):
        yield _of_run(given)
        if children:
            yield from _below(given.session.journal, given.id)
    elif is_server(given):
        yield from _of_journal(journal_of(str(given), make=False), machine, children)
    elif isinstance(given, (str, Path)):
        yield from _of_file(file_of(given), machine, children)
    elif hasattr(given, "rows"):
        yield from _of_journal(given, machine, children)  # pyright: ignore[reportArgumentType]
    elif isinstance(given, Iterable):
        for one in given:
            yield from recorded_runs(one, machine, children=children)
    else:
        hint = "give a run, a journal, the path of one, or a list of these"
        raise SetupError(f"a {type(given).__name__} holds no recorded runs", hint=hint)


def _of_run(run: Run) -> Recorded:
    journal = run.session.journal
    row = wait(journal.row(run.id), suspends=journal.suspends) or run.session.row
    read = wait(read_run(journal, row), suspends=journal.suspends)
    if isinstance(read, RecordedRun) and not read.machine:  # a journal in memory keeps no text
        return read._replace(machine=run.machine.canonical())
    return read


def _of_file(path: Path, machine: str, children: bool) -> Iterator[Recorded]:
    if not path.is_file():
        hint = "give a journal's file, or what `chartloop journal export` wrote"
        raise SetupError(f"there is no file `{path}`", hint=hint)
    if path.suffix == ".jsonl":
        yield from read_export(path.read_text("utf-8"), path.name)
        return
    yield from _of_journal(journal_of(path), machine, children)


def _of_journal(journal: Journal, machine: str, children: bool) -> Iterator[Recorded]:
    rows = journal.rows(machine=machine or None, children=False)
    for row in wait(rows, suspends=journal.suspends):
        yield wait(read_run(journal, row), suspends=journal.suspends)
        if children:
            yield from _below(journal, row.run_id)


def _below(journal: Journal, run_id: str) -> list[Recorded]:
    return wait(read_children(journal, run_id), suspends=journal.suspends)
