"""Runs that continue earlier ones: the next message, a fork, a run of an older file.

A next message to a finished run starts a new run: conversation, memory and variables are
carried over, counters start at zero. A run that was started with another machine is continued
only if its records, decided again, come out as recorded. A fork has the first records of another
run.

Source: docs/language.md, "The file" (`renamed`); docs/chat.md; docs/upgrading.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from chartloop.actions.undeclared import assuming
from chartloop.core.errors import JournalCorrupt, MachineChangedError, RunError, StatusError
from chartloop.core.facts import EMPTY
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.core.units import say_count
from chartloop.language.load import load
from chartloop.language.spec import NEVER, MachineSpec
from chartloop.language.values import var_value
from chartloop.machine.build import Chart
from chartloop.run.doubts import carried
from chartloop.run.journal import (
    CHILD_MARK,
    Event,
    InboxMessage,
    Journal,
    MemoryJournal,
    RunRow,
    WholeRun,
    digest,
    events_below,
)
from chartloop.run.migrate import fork_point, fork_under, move
from chartloop.run.question import update_at
from chartloop.run.recorded import Unread, read_run
from chartloop.run.refold import refold_last
from chartloop.run.session import Session
from chartloop.run.sync import by_hand
from chartloop.run.tenants import in_tenant, tenant_of

if TYPE_CHECKING:
    from chartloop.analysis.versions.migration.verdict import Verdict


RECORDED = "<recorded>"
"""The file name, in messages, of a machine from a journal."""


class CarriedOver(NamedTuple):
    """The values that a run inherits from the finished one that it follows."""

    agent: str = ""
    session: str = ""
    messages: Sequence[Mapping[str, Any]] = ()
    memory: Mapping[str, str] = EMPTY
    vars: Mapping[str, Any] = EMPTY


def carry_over(spec: MachineSpec, parent: Session) -> CarriedOver:
    """The values that a run of `spec` inherits from a finished one.

    Memory blocks and variables that `spec` does not have are left out. `StatusError` if the run
    has not ended, `LimitError` for a variable that has another type here, `RunError` if the file
    says `continues: never`.
    """
    if spec.continues == NEVER:
        raise RunError(
            f"no run of machine `{spec.name}` continues another: its file says `continues: never`",
            hint="start a new run; what it needs of the old one is given to it as an input",
        )
    position = parent.position
    if not position.ended:
        raise StatusError(
            f"run `{parent.run_id}` has not ended: it is {position.status} at `{position.state}`",
            hint="`run` drives it on and `send` answers it; what follows its end is a new run",
        )
    facts = position.facts
    kept = {name: plain(value) for name, value in facts.vars.items() if name in spec.vars}
    return CarriedOver(
        facts.run.agent,
        facts.run.session,
        [dict(message) for message in position.messages],
        {name: text for name, text in facts.memory.items() if name in spec.memory},
        {name: var_value(spec, name, value) for name, value in kept.items()},
    )


async def judge_stored_run(
    journal: Journal, row: RunRow, chart: Chart, *, at: int | None = None, now: float | None = None
) -> Verdict | None:
    """The verdict on a recorded run, or on its records before `at`, under the machine of `chart`.

    None for a run that has no record yet, or is unreadable.
    """
    # imported here: two dozen modules that a run of an unchanged machine does not need
    from chartloop.analysis.versions.migration.judge import Upgrade  # noqa: PLC0415

    run = await read_run(journal, row)
    if isinstance(run, Unread):
        return None
    if at is not None:
        children = run.children if at >= len(run.records) else ()
        run = run._replace(records=run.records[:at], pending=(), children=children)
    return Upgrade(recorded_chart(run.machine, chart), chart).judge(run, now=now)


def recorded_chart(text: str, chart: Chart) -> Chart | None:
    """The chart of a machine's text from a journal, beside another; None if it does not load.

    Undeclared names of tools, actions and guards are accepted, since nothing of it is run.
    """
    loaded = load(text, RECORDED, assuming(chart.spec.registry)) if text else None
    return None if loaded is None or loaded.spec is None else chart.beside(loaded.spec)


async def take_up(session: Session, row: RunRow, *, accepted: bool) -> None:
    """Let a session read a run of another machine, with its states and edges renamed.

    `MachineChangedError` unless the run can continue, and the caller or the file says so.
    """
    chart, now = session.chart, session.ports.clock.now()
    verdict = await judge_stored_run(session.journal, row, chart, now=now)
    meant = accepted or bool(chart.spec.renamed)
    if not meant or (verdict is not None and not verdict.goes_on):
        raise machine_changed_error(row, chart, verdict)
    if verdict is not None:
        session.names, session.origin = verdict.names, verdict.origin(row.machine_hash)


def machine_changed_error(
    row: RunRow, chart: Chart, verdict: Verdict | None
) -> MachineChangedError:
    """The error for a run that was started with another machine, with a hint at the cure."""
    message = f": {verdict}" if verdict is not None else ""
    return MachineChangedError(
        f"run `{row.run_id}` was started with another machine than this `{chart.name}`{message}",
        hint=_cure(row, chart, verdict),
        verdict=verdict,
    )


def _cure(row: RunRow, chart: Chart, verdict: Verdict | None) -> str:
    if verdict is None or verdict.goes_on:
        hashes = f"it was {row.machine_hash[:8]}, this one is {digest(chart.text)[:8]}"
        return f"{hashes}; `open(..., changed=True)` continues with this one"
    if verdict.kind == "map":
        return f"put `renamed: {verdict.flow}` into the file"
    cause = verdict.cause
    if cause is not None and cause.record:
        with_old = "with the machine it was started with"
        return f"{with_old}, `fork(at={cause.record})` starts before that"
    return "start a new run with it" if cause is None else cause.cure


def first_taken_back(session: Session, records: int) -> int:
    """The number of the first of the newest `records`; `RunError` if there are fewer.

    The start record cannot be taken back: without it there is no run.
    """
    most = max(0, session.tally.records - 1)
    if not 1 <= records <= most:
        can = f"{say_count(most, 'record')} can: the start of a run stays"
        hint = can if most else "the run has done nothing yet"
        raise RunError(f"{say_count(records, 'record')} cannot be taken back", hint=hint)
    return session.tally.records - records


async def fork_session(
    old: Session, records: Sequence[Record], at: int | None, *, run_id: str, machine: str | None
) -> Session:
    """A new run with the records before `at` (default: all), under another `machine` if given.

    It keeps fewer if these end with an answer that it may not take along: see `fork_point`.
    `machine` is its canonical text. `RunError` if `at` is out of range.
    """
    count = old.tally.records
    seq = count if at is None else at
    if not 1 <= seq <= count:
        numbers = f"records are numbered 0 to {count - 1}; `at` is the first that is left out"
        hint = numbers if count else "the run has no records yet"
        raise RunError(f"there is no record {seq} to fork at", hint=hint)
    now, seq = old.ports.clock.now(), fork_point(old.chart, records, seq)
    run_id = in_tenant(tenant_of(old.run_id), run_id)
    if machine is None:
        await fork_below(old.journal, old.row, old.chart, records, seq, run_id=run_id, now=now)
    else:
        hash = await old.journal.put_blob(machine)
        row = sibling_row(old.row, run_id, now).replace(machine=old.chart.name, machine_hash=hash)
        await fork_under(
            old.journal, old.run_id, seq, row, old.chart, names=old.names, origin=old.origin
        )
    return await open_sibling(old, run_id)


async def move_session(old: Session, *, run_id: str, machine: str) -> Session:
    """The run that replaces one that was started with another machine.

    `machine` is the canonical text of the new one. If another process has moved it to that since
    it was opened, the run that this made. For the errors see `run.migrate.move`.
    """
    now, hash = old.ports.clock.now(), await old.journal.put_blob(machine)
    row = sibling_row(old.row, run_id, now).replace(machine=old.chart.name, machine_hash=hash)
    read = old.row.replace(head=old.head, epoch=old.epoch)
    row = await move(
        old.journal, read, row, old.chart, names=old.names, origin=old.origin,
        take_over=old.holder.take_over,
    )  # fmt: skip
    return await open_sibling(old, row.run_id)


def sibling_row(row: RunRow, run_id: str, now: float) -> RunRow:
    """The row of a new run with records of the run of `row`; its status is still that one's."""
    whole = in_tenant(row.tenant, run_id)
    return row.replace(run_id=whole, epoch=0, moved_to="", follows="", created=now, updated=now)


async def fork_below(
    journal: Journal, row: RunRow, chart: Chart, records: Sequence[Record], seq: int, *,
    run_id: str, now: float,
) -> RunRow:  # fmt: skip
    """Create a run of the same machine with the records of the run `row` before record `seq`.

    It keeps the key and the doubts of the action that comes next: no call is repeated unasked.
    """
    run_id = in_tenant(row.tenant, run_id)
    last = refold_last(chart, records[:seq], run_id)
    update = update_at(chart, run_id, last.after, last.rest, last.decision)
    made = sibling_row(row, run_id, now).replace(**update.to_mapping())
    events = await _readable(journal, row.run_id)
    head = events_below(events, seq)
    facts = last.after.facts
    old = facts.replace(run=facts.run.replace(id=row.run_id))
    before = last.after.replace(facts=old)
    left = [events[head:]]
    if chart.spec.machines:
        first = f"{row.run_id}{CHILD_MARK}{before.state}{CHILD_MARK}{before.facts.run.steps}"
        children = await journal.rows(prefix=first)
        left += [await _readable(journal, child.run_id) for child in children]
    notes = carried(chart, before, events[:head], left, now)
    await journal.fork(row.run_id, seq, made, notes)
    return made


async def _readable(journal: Journal, run_id: str) -> list[Event]:
    """The events of a run, up to the first that is damaged."""
    try:
        return await journal.events(run_id)
    except JournalCorrupt:
        events = list[Event]()
        with suppress(JournalCorrupt):
            while page := await journal.events(run_id, len(events), 1):
                events += page
        return events


async def open_sibling(old: Session, run_id: str) -> Session:
    """Open another run of the journal with the same components."""
    session = Session(old.chart, old.journal, run_id, old.ports)
    session.cancels = old.cancels
    session.holder.face, session.holder.ttl = old.holder.face, old.holder.ttl
    await session.open(snapshot=False)
    return session


class StoredLog(NamedTuple):
    """The row, events and inbox messages of one run from a journal in memory."""

    row: RunRow
    events: tuple[Event, ...]
    messages: tuple[InboxMessage, ...]


class DetachedRun(NamedTuple):
    """A run as data: it can be read, and attached to its machine again (`Machine.attach`)."""

    row: RunRow
    """Its id, its machine's hash, and its status."""
    position: Position
    begun: Input | None
    """The first input, if the run had no record yet."""
    logs: tuple[StoredLog, ...] = ()
    """Its log and its children's, if their journal was in memory; empty otherwise."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id

    def __repr__(self) -> str:
        at = f"{self.position.status} at {self.position.state}"
        return f"<DetachedRun {self.run_id} of {self.row.machine}: {at}>"

    def journal(self) -> MemoryJournal:
        """A new journal in memory with these logs."""
        journal = MemoryJournal()
        for row, events, messages in self.logs:
            by_hand(journal.create_whole([WholeRun(row, events)]))
            for message in messages:
                by_hand(journal.send(row.run_id, message))
        return journal


def detach(session: Session) -> DetachedRun:
    """The run of a session, as data."""
    journal, row = session.journal, session.row
    if not session.head:
        return DetachedRun(row, session.position, session.begun)
    if not isinstance(journal, MemoryJournal):
        return DetachedRun(row, session.position, None)
    own = by_hand(journal.row(session.run_id)) or row
    below = by_hand(journal.rows(prefix=session.run_id + CHILD_MARK))
    logs = tuple(
        StoredLog(
            one, tuple(by_hand(journal.events(one.run_id))),
            tuple(by_hand(journal.inbox(one.run_id))),
        )
        for one in (own, *reversed(below))
    )  # fmt: skip
    return DetachedRun(own, session.position, None, logs)
