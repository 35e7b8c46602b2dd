"""What a run takes from an earlier one: its conversation, its first records, an older file's.

A next message to a finished run starts a new run: conversation, memory and variables are
carried over, counters begin at zero. A run that was started with another machine is taken up
only where its records, decided again, come out as they were recorded. A fork has the first
records of another run.

Imported by: api.machine, api.run
Source: design "language", sections 1 (`renamed`) and 5; "architecture", sections 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.errors import MachineChangedError, RunError, StatusError
from interlock.core.plain import plain
from interlock.core.records import Record
from interlock.core.units import say_count
from interlock.language.spec import MachineSpec
from interlock.language.values import var_value
from interlock.run.journal import RunRow
from interlock.run.replay import position_before, replay
from interlock.run.session import Session


def carried(spec: MachineSpec, parent: Session) -> dict[str, Any]:
    """The data that a run of `spec` starts with after a finished one, as a `start` record has it.

    Of another machine's memory and variables, those that this one has too. `StatusError` when
    the run has not ended, `LimitError` for a variable that is of another type here.
    """
    position = parent.position
    if not position.ended:
        raise StatusError(
            f"run `{parent.run_id}` has not ended: it is {position.status} at `{position.state}`",
            hint="`run` drives it on and `send` answers it; what follows its end is a new run",
        )
    facts = position.facts
    kept = {name: plain(value) for name, value in facts.vars.items() if name in spec.vars}
    return {
        "agent": facts.run.agent,
        "session": facts.run.session,
        "messages": [dict(message) for message in position.messages],
        "memory": {name: text for name, text in facts.memory.items() if name in spec.memory},
        "vars": {name: var_value(spec, name, value) for name, value in kept.items()},
    }


def changed(row: RunRow, name: str, hash: str) -> MachineChangedError:
    """The refusal of a run that was started with another machine."""
    return MachineChangedError(
        f"run `{row.run_id}` was started with another machine than this `{name}`",
        hint=f"it was {row.machine_hash[:8]}, this one is {hash[:8]}; `open(..., changed=True)`"
        " goes on with this one, if it decides what is recorded as it was",
    )


async def refuse_otherwise(session: Session) -> None:
    """`MachineChangedError` unless the session's machine decides every record as it was."""
    events = await session.journal.events(session.run_id)
    records = [e.record for e in events if e.record is not None]
    found = replay(session.chart, records, session.run_id)
    if found.same:
        return
    first = found.differences[0]
    hint = "start a new run with it"
    if first.seq > 0:
        hint = f"with the machine it was started with, `fork(at={first.seq})` begins before that"
    raise MachineChangedError(
        f"this `{session.chart.name}` decides run `{session.run_id}` otherwise than was recorded:"
        f" {first}",
        hint=hint,
    )


def first_taken_back(session: Session, records: int) -> int:
    """The number of the first of the newest `records`; `RunError` when there are not as many.

    The record of the start stays: without it there is no run.
    """
    most = max(0, session.tally.records - 1)
    if not 1 <= records <= most:
        can = f"{say_count(most, 'record')} can: the start of a run stays"
        hint = can if most else "the run has done nothing yet"
        raise RunError(f"{say_count(records, 'record')} cannot be taken back", hint=hint)
    return session.tally.records - records


async def forked(
    old: Session, records: Sequence[Record], at: int | None, *, run_id: str, machine: str | None
) -> Session:
    """A new run with the records below `at` (default: all), under another `machine` if it is given.

    `machine` is its canonical text. `RunError` when there is no such record.
    """
    count = old.tally.records
    seq = count if at is None else at
    if not 1 <= seq <= count:
        numbers = f"records are numbered 0 to {count - 1}; `at` is the first that is left out"
        hint = numbers if count else "the run has no records yet"
        raise RunError(f"there is no record {seq} to fork at", hint=hint)
    now, there = old.ports.clock.now(), position_before(old.chart, records, seq, run_id)
    row = old.row._replace(
        run_id=run_id, epoch=0, created=now, updated=now, status=there.status,
        state=there.state, reason="", steps=there.facts.run.steps, wake_at=there.wake_at,
    )  # fmt: skip
    if machine is not None:
        row = row._replace(machine_hash=await old.journal.put_blob(machine))
    await old.journal.fork(old.run_id, seq, row)
    made = Session(old.chart, old.journal, run_id, old.ports)
    made.cancels = old.cancels
    await made.open(snapshot=False)
    return made
