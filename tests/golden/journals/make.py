"""Makes a golden journal: one run of each shipped machine, as this version writes it.

    python -m tests.golden.journals.make        # writes chartloop-VERSION.db beside this file

A file that was released is never made again: it stands for the journals that people have. Every
later version opens it, decides each of its records as it was recorded and goes on with its runs,
or the number of the rules (`machine.evolve.RULES`) rises. A new version adds a file.

Beside it stands `chartloop-VERSION.fields.json`: the fields of its records with their defaults.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

from msgspec import NODEFAULT, UNSET, structs

from chartloop import __version__
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run
from chartloop.catalog import shipped_machines
from chartloop.core.outcome import CallResult
from chartloop.core.plain import plain
from chartloop.core.records import StoredRecord
from chartloop.run.journal import CHILD_MARK, Journal, WholeRun
from chartloop.run.question import update_at
from chartloop.run.refold import refold_last
from chartloop.run.sync import by_hand
from chartloop.scenarios import find_scenarios, load_scenario, run_scenario

HERE = Path(__file__).parent
SCENARIOS = HERE.parents[1] / "scenarios"


def make(path: Path) -> None:
    """Play the longest scenario of each shipped machine, and keep its run."""
    journal = SqliteJournal(path)
    for name in sorted(shipped_machines()):
        run = max(
            (
                report.run
                for made in find_scenarios([SCENARIOS])
                if load_scenario(made).machine == name
                and (report := run_scenario(made)).run is not None
            ),
            key=lambda run: len(run.records),
        )
        copy(run, journal)
    by_hand(journal.close())
    with sqlite3.connect(path) as database:
        database.execute("VACUUM")
    database.close()


def copy(run: Run, target: Journal) -> None:
    """Put a run with its children into another journal, and its first half as another run."""
    source = run.session.journal
    by_hand(target.put_blob(run.machine.canonical()))
    rows = [by_hand(source.row(run.id)), *by_hand(source.rows(prefix=run.id + CHILD_MARK))]
    found = [row for row in rows if row is not None]
    for row in found:
        if (text := by_hand(source.blob(row.machine_hash))) is not None:
            by_hand(target.put_blob(text))
    half = found[0].replace(run_id=f"{run.id}-half", parent=run.id, fork_seq=len(run.records) // 2)
    by_hand(source.fork(run.id, len(run.records) // 2, half))
    assert isinstance(run.machine, Machine)
    records = run.machine.open(half.run_id, journal=source).records
    last = refold_last(run.machine.chart, records, half.run_id)
    now = update_at(run.machine.chart, half.run_id, last.after, last.rest, last.decision)
    found.append(half.replace(**now.to_mapping()))
    by_hand(
        target.create_whole([WholeRun(row, by_hand(source.events(row.run_id))) for row in found])
    )


NONE = (NODEFAULT, dataclasses.MISSING)
"""No default."""


def fields_of_records() -> dict[str, dict[str, Any]]:
    """The stored fields by struct, each with its default unless it is required."""
    found: dict[str, dict[str, Any]] = {}
    waiting: list[Any] = [StoredRecord, CallResult]
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        name = "Record" if kind is StoredRecord else getattr(kind, "__name__", "")
        if name in found or not (
            dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__")
        ):
            continue
        listed: Any = dataclasses.fields if dataclasses.is_dataclass(kind) else structs.fields
        hints, found[name] = get_type_hints(kind), {}
        for field in listed(kind):
            waiting.append(hints[field.name])
            one = found[name][field.name] = dict[str, Any]()
            if field.default_factory not in NONE:
                one["default"] = plain(field.default_factory())
            elif field.default not in NONE:
                one["default"] = "unset" if field.default is UNSET else plain(field.default)
    return dict(sorted(found.items()))


if __name__ == "__main__":
    file = HERE / f"chartloop-{__version__}.db"
    if file.exists():
        sys.exit(f"{file.name} is there: one that was released is never made again")
    make(file)
    fields = json.dumps(fields_of_records(), indent=1)
    file.with_suffix(".fields.json").write_text(fields + "\n")
