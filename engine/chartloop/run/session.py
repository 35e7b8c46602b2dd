"""One run in hand: its position, its place in the journal, its ports.

Every change goes through `apply`: evolve, append, and only then adopt. What is not in the
journal has not happened.

What belongs together is one transaction. A record that leads straight to a paid call is held, and
written with that call's intent; the result of the last paid call of an action is written with the
record that it leads to. While something is held nothing happens outside: whoever does something
else first calls `settle`.

Source: design "architecture", sections 3 and 4.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, NamedTuple, cast

import anyio

from chartloop.core.errors import Fenced, JournalCorrupt, RunError, UnknownRunError
from chartloop.core.facts import EMPTY, Facts
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.core.transcript import Conversation
from chartloop.machine.build import Chart
from chartloop.machine.evolve import RULES, evolve
from chartloop.run import rules_version
from chartloop.run.breakpoints import Breakpoints, Watch
from chartloop.run.context import PARENT, TOO_LATE, NoteType, Ports, StopRequest
from chartloop.run.events import Delta, Recorded
from chartloop.run.events import Event as StreamEvent
from chartloop.run.job import Job, job_of
from chartloop.run.journal import (
    Event,
    Journal,
    Letter,
    MemoryJournal,
    RunRow,
    Snapshot,
    Update,
    digest,
    refuse_damaged,
)
from chartloop.run.lease_holder import Holder, Turn, say_doubt
from chartloop.run.migrate import refuse_moved
from chartloop.run.ports import Cancel
from chartloop.run.redact_events import Veil, veil_of
from chartloop.run.renaming import Names, as_now
from chartloop.run.tally import Tally
from chartloop.run.validate_record import UNFIT, wrong_with

UPKEEP = "upkeep"
"""In the data of a `start`: the names of the application's own actions that are upkeep."""
SNAPSHOT_AFTER = 256
"""Records before the first snapshot; each next one waits for half as many again as there are,
so that what snapshots cost stays in proportion to the run."""
SNAPSHOT_FORMAT = 4
"""A snapshot of another format is passed over: the log has everything."""

PAGE = 256
"""Events that are read from the journal at a time."""
_UNDECIDED = (*rules_version.OTHERWISE, *UNFIT)
"""What deciding raises where a record holds something else than was written."""


class _Held(NamedTuple):
    """Events that are part of the run, and are written with the next one."""

    events: tuple[Event, ...] = ()
    update: Update | None = None
    consumed: tuple[str, ...] = ()

    def with_event(self, event: Event, update: Update | None, consumed: Sequence[str]) -> _Held:
        """With one more event, the newest update, and more letters that are done with."""
        events, known, letters = self
        return _Held((*events, event), update or known, (*letters, *consumed))


_NOTHING_HELD = _Held()
_AT_ONCE = nullcontext()
"""In place of a lock, for a journal that writes without giving the event loop away."""


class Session:
    """One run in hand. Driven by `run.loop`."""

    upkeep: tuple[str, ...] = ()
    """The application's own actions that are upkeep: who reads the run need not have them."""

    save_now = False
    """The next record is followed by a snapshot."""
    goes_on = False
    """Whoever drives it does the next action at once, or calls `settle`."""

    def __init__(self, chart: Chart, journal: Journal, run_id: str, ports: Ports) -> None:
        self.chart, self.journal, self.run_id, self.ports = chart, journal, run_id, ports
        self.position: Position = chart.position(run_id)
        self.names = Names(chart.spec.renamed)
        """What the states and edges of its records are called in this machine."""
        self.origin: Mapping[str, Any] = EMPTY
        """What is known of a run that was started with another machine: what goes on from it
        under this one keeps that in its `start`."""
        self.tally = Tally()
        self.head, self.epoch = 0, 0
        self.engine = ""
        """The version of chartloop, as a `start` records it."""
        self.rules: int | None = RULES
        """The rules of deciding that its records were decided by; None where they do not say."""
        self.begun: Input | None = None
        """The `start` input of a run that is not in the journal yet."""
        self.row = RunRow(run_id, machine=chart.name)
        self.spec_text: Callable[[], str] | None = None
        """The canonical spec, kept in the journal by hash with the first record."""
        self.certify: Callable[[], str] | None = None
        """What the run can cost at worst, kept likewise where the journal outlives the process."""
        self.breakpoints: Breakpoints | None = None
        """Where it rests although it could go on; a child has none."""
        self._watch: Watch | None = None
        self.cancels: list[Cancel] = []
        self.above: Session | None = None
        """The run that this one is a child of, where its action drives it."""
        self.spending: Callable[[], StopRequest | None] | None = None
        """Asked by a child that shares a budget: why it may not do the action at hand."""
        self.deadline: float | None = None
        """When a child has to be done, on the run's clock: its parent's action ends then."""
        self.intents: dict[str, Mapping[str, Any]] = {}
        """Paid calls that were begun since the last record, by key."""
        self.results: dict[str, Mapping[str, Any]] = {}
        self.listener: Callable[[StreamEvent], None] | None = None
        self.owned = False
        """This process drives the run: it has raised the epoch."""
        self.turn = Turn(run_id)
        self.holder = Holder(run_id, self.turn)
        """Its lease; a child's is that of the run that it is a child of."""
        self.closing = False
        """This run is to be stopped, after the child that it waits for."""
        self.spent: Sequence[str] = ()
        """Letters that change nothing: they go out of the inbox with the next record."""
        self.doubted = False
        """What is in doubt about the present action has been said."""
        self._snapshot_at = SNAPSHOT_AFTER
        self._jobs: dict[str, Job] = {}
        self._held = _NOTHING_HELD
        # calls that are made at once write their intents one after the other: each names its head
        self._writing = Lock()

    # reading --------------------------------------------------------------------------------

    async def open(self, *, snapshot: bool = True, upto: int | None = None) -> None:
        """Fold the run's log: from the snapshot when there is one. Nothing is written."""
        row = await self.journal.row(self.run_id)
        if row is None:
            raise UnknownRunError(f"there is no run `{self.run_id}` in {self.journal.name}")
        refuse_damaged(row)
        self.row, self.epoch = row, row.epoch
        if snapshot and upto is None:
            await self._from_snapshot()
        await self._read_on(upto)

    async def _read_on(self, upto: int | None = None) -> None:
        """Fold what the log has beyond the head, below record `upto`.

        In pages: a long log is neither held whole nor left to the garbage collector.
        """
        while True:
            page = await self.journal.events(self.run_id, self.head, PAGE)
            for event in page:
                if event.record is not None and (wrong := wrong_with(event.record)):
                    raise self._damaged(f"record {event.record.seq}: {wrong}")
                if event.record is not None and event.record.kind == "start":
                    self.rules = rules_version.rules_of(event.record.input)
                    if not rules_version.is_known(self.rules):
                        raise await self._of_other_rules(upto)
                if event.record is not None and upto is not None and event.record.seq >= upto:
                    return
                if event.seq != self.head:
                    raise self._damaged(f"event {self.head} is not there")
                if event.epoch > self.epoch:
                    await self._refuse_future(event)
                try:
                    self._fold(event)
                except _UNDECIDED as error:
                    raise await self._undecided(event, error, upto) from error
            if len(page) < PAGE:
                break
        if upto is None and self.head < self.row.head:
            raise self._damaged(f"it ends before event {self.row.head}")

    async def _refuse_future(self, event: Event) -> None:
        """An event of an epoch that the run has not come to was not written by a driver of it."""
        row = await self.journal.row(self.run_id)  # another process may have taken it over since
        if row is None or event.epoch > row.epoch:
            what = f"event {event.seq} is of epoch {event.epoch}"
            raise self._damaged(f"{what}, which the run has not come to")

    async def _undecided(self, event: Event, error: Exception, upto: int | None) -> RunError:
        if self.rules is None and isinstance(error, rules_version.OTHERWISE):
            return await self._of_other_rules(upto)
        said = f"event {event.seq} cannot be decided: {type(error).__name__} {error}"
        return self._damaged(said)

    async def _of_other_rules(self, upto: int | None) -> RunError:
        events = await self.journal.events(self.run_id)
        records = [e.record for e in events if e.record is not None][:upto]
        return rules_version.other_rules(self.chart, records, self.run_id, self.names, self.engine)

    def _damaged(self, how: str) -> JournalCorrupt:
        return JournalCorrupt(
            f"the log of run `{self.run_id}` is damaged: {how}",
            hint="it was changed by hand or by another program; a fork below it still works",
        )

    async def _from_snapshot(self) -> None:
        kept = await self.journal.snapshot(self.run_id)
        known = (self.row.machine_hash, SNAPSHOT_FORMAT)
        if kept is None or (kept.data.get("machine"), kept.data.get("format")) != known:
            return
        if not rules_version.is_known(rules := kept.data.get("rules")):
            return  # the log says by which, and is not decided by these
        reasons = self.chart.spec.reasons
        try:
            position = Position.from_dict(kept.data["position"], reasons)
            tally = Tally.from_dict(plain(kept.data["tally"]), reasons)
        except _UNDECIDED:
            return  # it is a cache: the log says the same
        run = position.facts.run.replace(id=self.run_id)
        self.position = position.replace(facts=position.facts.replace(run=run))
        self.rules, self.tally, self.head = rules, tally, kept.seq
        self._snapshot_at = _next_snapshot(kept.record_seq)

    def _fold(self, event: Event) -> None:
        if event.record is not None:
            record = as_now(event.record, *self.names)
            self.position, decision = evolve(self.chart, self.position, record.input)
            self.tally.add(record, decision, self.position.facts)
            self._settle(record)
            if decision.next != record.next:
                if self.rules is None:
                    raise rules_version.Otherwise
                what = f"record {record.seq} went to `{event.record.next}`"
                raise self._damaged(f"{what}, and what it holds leads to `{decision.next}`")
        else:
            self._noted(event)
        self.head = event.seq + 1

    def _noted(self, event: Event) -> None:
        key = event.data.get("key")
        if not isinstance(key, str):
            raise self._damaged(f"event {event.seq} says not of which call it is")
        match event.type:
            case "intent":
                self.intents[key] = event.data
            case "result":
                self.results[key] = event.data
            case _:
                state = self.names.state(str(event.data.get("state", "")))
                what = f"{event.data.get('action', key)} at {state}"
                self.tally.warnings.append(say_doubt(what, event.data))

    def _settle(self, record: Record) -> None:
        """What a record leaves of the calls that were begun before it.

        While the action at hand stays the same its answers are kept: they are not paid again.
        """
        if not self.intents or record.aside:
            return
        if record.kind == "blocked":  # it will be called again, and what is in doubt was said
            self.intents = {key: self.intents[key] for key in self.intents.keys() & self.results}
        else:
            self.intents, self.results = {}, {}
        self.doubted = False

    # writing --------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Become the one that drives this run; whoever did before is fenced."""
        row = await self.holder.acquire(self.journal, self.run_id)
        if row.epoch != self.epoch + 1:
            await refuse_moved(self.journal, self.run_id, self.epoch)
        self._look_for_held(row)
        self.row, self.epoch, self.owned = row, row.epoch, True
        if not self._held.events and self.row.head != self.head:
            await self._read_on()

    def _look_for_held(self, row: RunRow) -> None:
        """See whether what is held was written: its answer may have been lost."""
        held = self._held.events
        if not held or row.head == held[0].seq:
            return
        if row.epoch != self.epoch + 1:
            raise Fenced(
                f"run `{self.run_id}` was driven by another process meanwhile",
                hint="nothing more was done here; open the run anew to go on where it is now",
            )
        self._held = _NOTHING_HELD

    async def create(self) -> None:
        """Put a new run into the journal."""
        if self.spec_text is not None:
            await self.journal.put_blob(self.spec_text())
        try:
            await self.journal.create(self.row)
        except RunError:  # begun before, by a process that died before the first record
            begun = await self.journal.row(self.run_id)
            if begun is None or begun.head or begun.machine_hash != self.row.machine_hash:
                raise
        self.row = await self.holder.acquire(self.journal, self.run_id)
        self.epoch, self.head = self.row.epoch, self.row.head
        self.owned = True

    async def certified(self, begun: Input) -> Input:
        """The `start` with what decides it, and where the journal outlives us, its certificate."""
        own = {UPKEEP: [*self.upkeep]} if self.upkeep else {}
        begun = begun.replace(data={**begun.data, **rules_version.marks(self.engine), **own})
        if self.certify is None or self.journal.name == MemoryJournal.name:
            return begun
        hash = await self.journal.put_blob(self.certify())
        return begun.replace(data={**begun.data, "certificate": hash})

    async def apply(self, input: Input, *, consumed: Sequence[str] = ()) -> Record:
        """One input: decide, write, adopt."""
        before = self.position
        position, decision = evolve(self.chart, before, input, oracle=self.ask)
        if decision.opaque:
            input = input.replace(opaque=decision.opaque)
        record = Record(
            self.tally.records, before.state, input, decision.taken, decision.signals,
            decision.next, decision.status, position.wake_at, decision.warnings,
        )  # fmt: skip
        reason = decision.winner if position.ended else ""
        steps = position.facts.run.steps
        update = Update(position.status, position.state, reason, steps, position.wake_at)
        event = Event(self.head, "record", input.at, record, EMPTY, self.epoch)
        if self.spent:
            consumed, self.spent = (*consumed, *self.spent), ()
        if self._leads_to_a_call(position):
            self._hold(event, update, consumed)
        else:
            await self._append(event, update, consumed)
        self.position = position
        if self.journal.suspends:
            self._writing = Lock()  # the next action may be done on another event loop
        self.tally.add(record, decision, position.facts)
        self._settle(record)
        if self.listener is not None:
            self._tell_of(Recorded(record, decision, position))
        if (self.save_now or self.tally.records >= self._snapshot_at) and not self.intents:
            await self.put_snapshot()
        return record

    async def note(
        self, type: NoteType, key: str, data: Mapping[str, Any], *, last: bool = False
    ) -> None:
        """Write an intent, a result or a doubt about a paid call.

        The `last` one before the record is written with it.
        """
        noted = {"key": key, **data}
        async with self._writing if self.journal.suspends else _AT_ONCE:
            event = Event(self.head, type, self.ports.clock.now(), None, noted, self.epoch)
            if last:
                self._hold(event)
            else:
                await self._append(event)
        self._noted(event)

    async def settle(self) -> None:
        """What the run has come to is in the journal when this returns."""
        if self._held.events:
            async with self._writing:
                if self._held.events:
                    await self._write(self._held)

    async def rest(self) -> None:
        """Settle, although a cancellation was met, unless the journal is to be looked at first."""
        if self._held.events and self.owned:
            with anyio.CancelScope(shield=True) if self.journal.suspends else nullcontext():
                await self.settle()

    def _leads_to_a_call(self, position: Position) -> bool:
        """Whether the next that happens is that an intent is written."""
        if not self.goes_on or self.listener is not None or self.save_now:
            return False
        if self._held.update is not None:  # one at a time, or a kill would take many
            return False
        if position.status != "running" or self.tally.records + 1 >= self._snapshot_at:
            return False
        job = self.job(position.state)
        action = job.action
        return job.paid and action is not None and (action.settles_itself or not action.own_intents)

    def _hold(
        self, event: Event, update: Update | None = None, consumed: Sequence[str] = ()
    ) -> None:
        self._held = self._held.with_event(event, update, consumed)
        self.head += 1

    async def _append(
        self, event: Event, update: Update | None = None, consumed: Sequence[str] = ()
    ) -> None:
        await self._write(self._held.with_event(event, update, consumed))

    async def _write(self, held: _Held) -> None:
        events, update, consumed = held
        try:
            self.head = await self.journal.append(
                self.run_id, events[0].seq, self.epoch, events, update=update, consumed=consumed
            )
            self._held = _NOTHING_HELD
        except Fenced as error:
            raise await self.holder.fenced(error) from error
        except BaseException:  # whether it was written is not known: the next step looks first
            self.owned = False
            raise

    async def letters(self) -> list[Letter]:
        """What has come from outside and was not yet looked at."""
        return await self.journal.letters(self.run_id)

    async def put_snapshot(self) -> None:
        """Keep the position as it is now, so that the run opens without folding its log."""
        self.save_now = False
        self._snapshot_at = _next_snapshot(self.tally.records)
        data = {
            "machine": self.row.machine_hash,
            "format": SNAPSHOT_FORMAT,
            "rules": self.rules,
            "tally": self.tally.to_dict(),
            "position": self.position.to_dict(),
        }
        await self.journal.put_snapshot(self.run_id, Snapshot(self.head, self.tally.records, data))

    def ask(self, name: str, args: tuple[Any, ...]) -> bool:
        """Ask a registered Python guard."""
        guard = self.chart.spec.registry.guards.get(name)
        if guard is None:
            raise RunError(f"guard `{name}` is not registered")
        return bool(guard.call(*args))

    def job(self, state: str) -> Job:
        """What the action of a state needs."""
        found = self._jobs.get(state)
        if found is None:
            spec = self.chart.spec
            found = self._jobs[state] = job_of(spec, spec.states[state], self.ports)
        return found

    def tell(self, state: str, text: str) -> None:
        """Give a piece of text to whoever listens."""
        if self.listener is None:
            return
        if self._veil is not None and not (text := self._veil.piece(text)):
            return
        self.listener(Delta(self.position.facts.run.steps + 1, state, text))

    def _tell_of(self, event: Recorded) -> None:
        """Tell of a record, after the rest of the text that led to it."""
        assert self.listener is not None
        if (veil := self._veil) is not None:
            record = event.record
            if rest := veil.rest():
                self.listener(Delta(event.position.facts.run.steps, record.state, rest))
            event = event._replace(record=veil.record(record, self.chart.spec.reasons))
        self.listener(event)

    @cached_property
    def _veil(self) -> Veil | None:
        """Hides from listeners what the journal does not keep either."""
        return veil_of(self.journal)

    def ask_to_save(self) -> None:
        """The next record is followed by a snapshot."""
        self.save_now = True

    def watch_breakpoints(self) -> None:
        """A drive begins: from here on breakpoints count."""
        self._watch = self.breakpoints.watch(self) if self.breakpoints is not None else None

    def at_breakpoint(self) -> bool:
        """Whether one was reached since this was asked last. Never, once they are taken away."""
        watch = None if self.breakpoints is None else self._watch
        return watch is not None and watch.reached()

    @property
    def facts(self) -> Facts:
        """What guards read, as it is now."""
        return self.position.facts

    @property
    def taken(self) -> Mapping[str, int]:
        """How often each edge and rule was taken, by id."""
        return self.tally.taken

    @property
    def messages(self) -> Conversation:
        """The conversation as it is now."""
        return self.position.messages

    def cancel_requested(self) -> bool:
        """Whether somebody asked, in this process, that the run stop."""
        run = self.position.facts.run
        return bool(self.cancels) and any(c.is_requested(run) for c in self.cancels)

    @property
    def may_be_asked(self) -> bool:
        """Whether anybody could ask it to stop, other than by letter."""
        return bool(self.cancels) or self.above is not None

    async def asked_to_stop(self) -> StopRequest | None:
        """Who wants that this run stop before its next action: a caller, or its parent's."""
        if self.deadline is not None and self.ports.clock.now() >= self.deadline:
            return TOO_LATE
        asked = await self.above.asked_at_all() if self.above is not None else None
        if asked is not None:
            return asked._replace(source=PARENT)
        if self.spending is not None and (asked := self.spending()) is not None:
            return asked
        return StopRequest("user_requested", "", "caller") if self.cancel_requested() else None

    async def asked_at_all(self) -> StopRequest | None:
        """The same, by letter too: for a child, while this run's own loop stands still.

        Nobody, once this run is on its way out: what that runs is to come to its end.
        """
        if self.position.stopping:
            return None
        if (asked := await self.asked_to_stop()) is not None:
            return asked
        for letter in await self.letters():
            if letter.data.get("kind") == "cancel":
                said: Mapping[str, Any] = letter.data.get("data") or EMPTY
                reason = str(letter.data.get("reason", "user_requested"))
                return StopRequest(reason, str(said.get("message", "")), "outside")
        return None

    def child(self, machine: str, run_id: str) -> Session:
        """A run of a child machine, not begun: beside this one in the journal, asked with it."""
        made = Session(self.chart.child(machine), self.journal, run_id, self.ports)
        made.above, made.holder, made.engine = self, self.holder, self.engine
        made.upkeep = self.upkeep
        return made

    async def children_at_hand(self) -> list[RunRow]:
        """The children that the action at hand has begun, ended ones too."""
        if not self.chart.spec.machines:
            return []
        prefix = f"{self.run_id}/{self.position.state}/{self.position.facts.run.steps}"
        rows = await self.journal.rows(prefix=prefix)
        return [row for row in rows if row.parent == self.run_id]

    async def opened_children(self) -> list[Session]:
        """The same, each where it stands; without those of a machine that this one has not."""
        found = [(self._machine_of(row), row) for row in await self.children_at_hand()]
        made = [self.child(name, row.run_id) for name, row in found if name]
        for child in made:
            await child.open()
        return made

    def _machine_of(self, row: RunRow) -> str:
        """The name that this machine has for a child's; of two that are called alike the same."""
        alike = [n for n, m in self.chart.spec.machines.items() if m.name == row.machine]
        same = (n for n in alike if len(alike) == 1 or self._has_hash(n, row.machine_hash))
        return next(same, "")

    def _has_hash(self, machine: str, hash: str) -> bool:
        return digest(self.chart.child(machine).text) == hash


def _next_snapshot(records: int) -> int:
    """How many records there must be for the snapshot after one at so many."""
    return records + records // 2 + SNAPSHOT_AFTER


def upkeep_of(start: Input) -> list[str]:
    """The own actions that a `start` says are upkeep."""
    found: Any = start.data.get(UPKEEP)
    names = cast("list[Any]", found) if isinstance(found, (list, tuple)) else []
    return [name for name in names if isinstance(name, str)]


def start_data(**given: Any) -> Mapping[str, Any]:
    """The data of a `start`, without what is empty."""
    return {k: v for k, v in given.items() if v} or EMPTY
