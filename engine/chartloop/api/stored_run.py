"""A run that is in a journal, before it is opened: its machine, how it was begun, who drives it.

The machine is the one that the run was started with: its canonical text, which the journal holds by
hash. A command line that begins a run keeps in its first record how it was called, so that whoever
continues it need not be told again, or knows that only a command line can.

Belongs here: what every face asks of a recorded run. Never: trust, options, wording for one face.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from chartloop.actions.declare import specs_of
from chartloop.actions.undeclared import upkeep_stand_ins
from chartloop.api.loader import Own, find_faults, load
from chartloop.api.machine import Machine
from chartloop.api.plugins import recall_plugins, refuse_missing
from chartloop.core.errors import JournalCorrupt, SetupError, SpecError
from chartloop.core.records import Input
from chartloop.run.journal import Journal, RunRow
from chartloop.run.lease import Lease, ancestry, how_left
from chartloop.run.session import upkeep_of
from chartloop.run.sync import by_hand

REMEMBERED = "cli"
"""The key of the first record's data under which the command line keeps how it was called."""


def begun_with(begun: Input, how: Mapping[str, Any]) -> Input:
    """A `start` that remembers how the run was begun; what is empty is left out."""
    return begun.replace(data={**begun.data, REMEMBERED: {n: v for n, v in how.items() if v}})


def recall_start(journal: Journal, row: RunRow) -> Mapping[str, Any]:
    """How the run was begun, as far as a command line did it: `begun_with` kept it."""
    first = _first(journal, row)
    found: Any = first.data.get(REMEMBERED) if first is not None else None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def top_row(journal: Journal, row: RunRow) -> RunRow:
    """The row of the run that somebody began: this one, or the one that it is a child of."""
    *_, top = ancestry(row.run_id)
    return (by_hand(journal.row(top)) if top != row.run_id else None) or row


def recall_upkeep(journal: Journal, row: RunRow) -> tuple[str, ...]:
    """The custom actions of the run that are upkeep."""
    first = _first(journal, row)
    return tuple(upkeep_of(first)) if first is not None else ()


def _first(journal: Journal, row: RunRow) -> Input | None:
    """The run's `start`."""
    events = by_hand(journal.events(row.run_id, limit=8))
    return next((e.record.input for e in events if e.record is not None), None)


def machine_to_read(journal: Journal, row: RunRow, tools: Own = ()) -> Machine:
    """The machine of the run, to look at it.

    Its own tools, actions and guards are not needed: what they gave is on the record. `SetupError`
    or `JournalCorrupt` where the journal does not hold it.
    """
    text = _machine_text(journal, row)
    own = tools or upkeep_stand_ins(recall_upkeep(journal, row))
    machine, findings = find_faults(text, tools=own, assume=True)
    if machine is None:
        raise SpecError(findings)
    return machine


def machine_to_drive(journal: Journal, row: RunRow, tools: Own = ()) -> Machine:
    """The machine of the run, with the tools that it names. The errors of `load`.

    `MissingPluginError` where `tools` lack a plugin that the run was started with.
    """
    refuse_missing(row.run_id, recall_plugins(journal, row.run_id), specs_of(tools).plugins)
    return load(_machine_text(journal, row), tools=tools)


def _machine_text(journal: Journal, row: RunRow) -> str:
    text = by_hand(journal.blob(row.machine_hash))
    if text is None:
        raise SetupError(
            f"the journal does not hold the machine of run `{row.run_id}`",
            hint=f"`chartloop resume {row.run_id} --machine FILE` continues with its file",
        )
    try:
        json.loads(text)
    except ValueError as error:
        raise JournalCorrupt(
            f"the machine of run `{row.run_id}` cannot be read from the journal",
            hint="the file was changed by hand or by another program; give --machine FILE",
        ) from error
    # a newline makes it be taken for the text that it is
    return text if "\n" in text else f"{text}\n"


def living_lease(journal: Journal, run_id: str, now: float) -> tuple[str, Lease] | None:
    """The lease that keeps another driver from the run now, and the run that it is of.

    That is its own, or that of a run that it is a child of. None where whoever wants may drive it.
    """
    for of in ancestry(run_id):
        lease = by_hand(journal.lease(of))
        if lease is not None and how_left(lease, now) == "alive":
            return of, lease
    return None
