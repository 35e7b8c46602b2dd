"""A run in a journal, before it is opened: its machine, its command line, its driver.

The machine is the one that the run was started with: the journal holds its canonical text by hash.
The first record of a run that a command line started holds the options of that command, so that
they need not be repeated to continue it.

Belongs here: what every face needs of a recorded run. Never: trust, options, wording for one face.
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
from chartloop.run.lease import ancestry
from chartloop.run.session import upkeep_of
from chartloop.run.sync import by_hand

REMEMBERED = "cli"
"""The key in the first record's data of the options of the command line."""


def begun_with(begun: Input, how: Mapping[str, Any]) -> Input:
    """A `start` with the options of the command that started the run, without empty ones."""
    return begun.replace(data={**begun.data, REMEMBERED: {n: v for n, v in how.items() if v}})


def recall_start(journal: Journal, row: RunRow) -> Mapping[str, Any]:
    """The options stored by `begun_with`; empty if no command line started the run."""
    first = _first(journal, row)
    options: Any = first.data.get(REMEMBERED) if first is not None else None
    return cast("Mapping[str, Any]", options) if isinstance(options, Mapping) else {}


def top_row(journal: Journal, row: RunRow) -> RunRow:
    """The row of the topmost run: this one, or the ancestor that it is a child of."""
    *_, top = ancestry(row.run_id)
    return (by_hand(journal.row(top)) if top != row.run_id else None) or row


def recall_upkeep(journal: Journal, row: RunRow) -> tuple[str, ...]:
    """The custom actions of the run that are upkeep."""
    first = _first(journal, row)
    return tuple(upkeep_of(first)) if first is not None else ()


def _first(journal: Journal, row: RunRow) -> Input | None:
    """The run's `start`. What follows it may be damaged."""
    records = by_hand(journal.records(row.run_id, 0, 1))
    return records[0].input if records else None


def machine_to_read(journal: Journal, row: RunRow, tools: Own = ()) -> Machine:
    """The machine of the run, for reading only.

    Its own tools, actions and guards are not needed: their results are on the record. `SetupError`
    or `JournalCorrupt` if the journal does not hold the machine.
    """
    text = machine_text(journal, row.machine_hash, f"run `{row.run_id}`")
    own = tools or upkeep_stand_ins(recall_upkeep(journal, row))
    machine, findings = find_faults(text, tools=own, assume=True)
    if machine is None:
        raise SpecError(findings)
    return machine


def machine_to_drive(journal: Journal, row: RunRow, tools: Own = ()) -> Machine:
    """The machine of the run, with the tools that it names. Raises the errors of `load`.

    `MissingPluginError` if `tools` lack a plugin that the run was started with.
    """
    refuse_missing(row.run_id, recall_plugins(journal, row.run_id), specs_of(tools).plugins)
    return load(machine_text(journal, row.machine_hash, f"run `{row.run_id}`"), tools=tools)


def machine_text(journal: Journal, machine_hash: str, of: str) -> str:
    """The canonical text of a machine that a journal holds, for `load`."""
    text = by_hand(journal.blob(machine_hash))
    if text is None:
        raise SetupError(
            f"the journal does not hold the machine of {of}",
            hint="`chartloop resume RUN --machine FILE` continues a run with its file",
        )
    try:
        json.loads(text)
    except ValueError as error:
        raise JournalCorrupt(
            f"the machine of {of} cannot be read from the journal",
            hint="the file was changed by hand or by another program; give --machine FILE",
        ) from error
    # without a newline `load` would take the text for a path
    return text if "\n" in text else f"{text}\n"
