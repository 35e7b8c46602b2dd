"""What a run takes from an earlier one: a finished run's conversation, an older file's records.

A next message to a finished run starts a new run: conversation, memory and variables are
carried over, counters begin at zero. A run that was started with another machine is taken up
only where its records, decided again, come out as they were recorded.

Imported by: api.machine
Source: design "language", sections 1 (`renamed`) and 5; "architecture", sections 2 and 4.
"""

from __future__ import annotations

from typing import Any

from interlock.core.errors import MachineChangedError, StatusError
from interlock.core.plain import plain
from interlock.language.spec import MachineSpec
from interlock.language.values import var_value
from interlock.run.journal import RunRow
from interlock.run.replay import replay
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
