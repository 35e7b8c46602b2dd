"""Forks, and recorded runs continued under a changed machine, as far as the verdict allows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.journal_access import display_path
from chartloop.cli.late import at_first_use
from chartloop.cli.machine_loader import locate
from chartloop.core.errors import MachineChangedError, RunError, SetupError

with at_first_use(__name__):
    from chartloop import api
    from chartloop.api import continuing
    from chartloop.run import sync

if TYPE_CHECKING:
    from chartloop.analysis.versions.migration.verdict import Verdict
    from chartloop.api import Machine
    from chartloop.core.records import Record
    from chartloop.run.journal import Journal, RunRow


def count_of(row: RunRow, records: Sequence[Record], at: int | None) -> int:
    """The number of records of a fork at `at`. Raises `RunError` if there is no such record."""
    seq = len(records) if at is None else at
    if not 1 <= seq <= len(records):
        hint = f"its records are numbered 0 to {len(records) - 1}" if records else "it has none"
        raise RunError(f"run `{row.run_id}` has no record {seq} to fork at", hint=hint)
    return seq


def records_of(journal: Journal, row: RunRow, at: int | None = None) -> list[Record]:
    """The records of a run, or those before record `at`, whatever damage follows them."""
    return sync.by_hand(journal.records(row.run_id, limit=at))


def judge_run(journal: Journal, row: RunRow, machine: Machine, at: int | None = None) -> Verdict:
    """Judge whether a run, or a fork of it at `at`, can continue with the machine."""
    count_of(row, records_of(journal, row, at), at)
    now = sync.by_hand(journal.now())
    verdict = sync.by_hand(continuing.judge_stored_run(journal, row, machine.chart, at=at, now=now))
    if verdict is None:
        raise SetupError(f"run `{row.run_id}` cannot be read as one run")
    return verdict


def refusal(row: RunRow, verdict: Verdict, file: str) -> MachineChangedError:
    """The error for a run that cannot continue with the file, with a hint for the verdict."""
    name = display_path(locate(file))
    return MachineChangedError(
        f"{name} is not the machine that run `{row.run_id}` was started with;"
        f" {console.plain(str(verdict))}",
        hint=_cure(row, verdict, name),
        verdict=verdict,
    )


def _cure(row: RunRow, verdict: Verdict, file: str) -> str:
    if verdict.goes_on:
        return "leave --machine out to continue with the old one, or add --use-new-file"
    if verdict.kind == "map":
        return f"put `renamed: {verdict.flow}` into {file}"
    cause = verdict.cause
    if cause is not None and cause.record:
        line = f"chartloop fork {row.run_id} --at {cause.record} --machine {shlex.quote(file)}"
        return f"`{line}` starts before it"
    return cause.cure if cause is not None else ""


def row_under(journal: Journal, row: RunRow, machine: Machine, run_id: str | None = None) -> RunRow:
    """The row of a new run of this machine, which the journal stores."""
    hash = sync.by_hand(journal.put_blob(machine.canonical()))
    new = continuing.sibling_row(row, run_id or api.new_run_id(), sync.by_hand(journal.now()))
    return new.replace(machine=machine.name, machine_hash=hash)
