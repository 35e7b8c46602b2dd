"""One open run: its position, its log, its ports.

Every change goes through `apply`: evolve, append, and only then adopt. A step that is not in the
journal has not happened. `run.log` decides which events share a transaction.

Source: design "architecture", sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

from chartloop.core.errors import Fenced, RunError
from chartloop.core.facts import EMPTY, Facts, ToolCall
from chartloop.core.plain import plain
from chartloop.core.position import ELICITATION, Position
from chartloop.core.records import Input, Record
from chartloop.core.transcript import Conversation
from chartloop.machine.build import Chart
from chartloop.machine.evolve import RULES, evolve
from chartloop.run import rules_version
from chartloop.run.breakpoints import Breakpoints, Watch
from chartloop.run.context import CALLER, PARENT, TOO_LATE, NoteType, Ports, StopRequest
from chartloop.run.events import Delta, ReasoningDelta, Recorded, ToolCallDelta
from chartloop.run.events import Event as StreamEvent
from chartloop.run.job import Job, job_of
from chartloop.run.journal import (
    Event,
    InboxMessage,
    Journal,
    RunRow,
    digest,
)
from chartloop.run.journal_records import MOVED
from chartloop.run.lease_holder import Holder, Turn, say_doubt
from chartloop.run.log import PAGE, RunLog
from chartloop.run.ports import Cancel
from chartloop.run.question import update_at
from chartloop.run.redact_events import EventRedactor, event_redactor
from chartloop.run.renaming import Names, as_now
from chartloop.run.sync import off_loop
from chartloop.run.tally import Tally
from chartloop.run.tracing import CARRIER, RunTracer, TracedRun
from chartloop.run.validate_record import UNFIT, wrong_with

UPKEEP = "upkeep"
"""Key in the data of a `start`: the names of the application's own actions that are upkeep."""
_UNDECIDED = (*rules_version.OTHERWISE, *UNFIT)
"""The exceptions that deciding an altered record may raise."""


class OpenCalls:
    """Paid calls started since the last record, with the results that arrived."""

    __slots__ = ("doubt_noted", "intents", "results")

    def __init__(self) -> None:
        self.intents: dict[str, Mapping[str, Any]] = {}
        """The intent of each call, by its key: written before the call."""
        self.results: dict[str, Mapping[str, Any]] = {}
        """The result of each call, by its key: written after the call."""
        self.doubt_noted = False
        """The journal already says that the remaining results are unknown."""

    def copy(self) -> OpenCalls:
        """An independent copy."""
        copy = OpenCalls()
        copy.intents, copy.results = {**self.intents}, {**self.results}
        copy.doubt_noted = self.doubt_noted
        return copy

    @property
    def in_doubt(self) -> list[str]:
        """The keys of the calls without a result; none once the doubt is in the journal."""
        return [] if self.doubt_noted else [key for key in self.intents if key not in self.results]

    def add(self, event: Event, key: str) -> None:
        """Add the intent or the result of a call."""
        if event.type == "intent":
            self.intents[key] = event.data
        else:
            self.results[key] = event.data

    def close(self, record: Record) -> None:
        """Drop the calls that a record settles.

        While the current action stays the same, its results are kept: no call is paid twice.
        """
        if not (self.intents or self.results) or record.aside:
            return
        if record.kind != "step" and _is_of_server(record):
            self.doubt_noted = False  # the calls stay in flight
            return
        if record.kind == "blocked":  # it is called again, and its doubtful calls are on record
            self.intents = {key: self.intents[key] for key in self.intents.keys() & self.results}
        else:
            self.intents, self.results = {}, {}
        self.doubt_noted = False


def _is_of_server(record: Record) -> bool:
    """Whether a record holds a question of an MCP server, or the answer to one."""
    if record.kind == "answer":
        return True  # a waiting state makes no calls, so the answer is to a server
    return record.kind == "blocked" and record.input.data.get("on") == ELICITATION


class Folded(NamedTuple):
    """The content of a snapshot: the result of folding the first events of a run."""

    head: int
    """The number of events folded."""
    records: int
    """The number of records among them."""
    rules: int | None
    position: Position
    tally: Tally


class Session:
    """One open run. Driven by `run.loop`."""

    def __init__(
        self, chart: Chart, journal: Journal, run_id: str, ports: Ports, *,
        above: Session | None = None,
    ) -> None:  # fmt: skip
        self.chart, self.ports = chart, ports
        self.above = above
        """The parent run, if its action drives this one."""
        self.turn = Turn(run_id)
        holder = Holder(run_id, self.turn, ports.clock) if above is None else above.log.holder
        self.log = RunLog(journal, run_id, holder)
        self.engine = "" if above is None else above.engine
        """The version of chartloop, as a `start` records it."""
        self.upkeep: tuple[str, ...] = () if above is None else above.upkeep
        """The application's own actions that are upkeep: a reader of the run need not have them."""
        # folded from its records
        self.position: Position = chart.position(run_id)
        self.tally = Tally()
        self.rules: int | None = RULES
        """The version of the decision rules that its records were made with; None if unrecorded."""
        self.calls = OpenCalls()
        self._last_read: tuple[Record, Position] | None = None
        # how it starts, and how its records are read
        self.begun: Input | None = None
        """The `start` input of a run that is not yet in the journal."""
        self._spec_text: Callable[[], str] | None = None
        self._certify: Callable[[], str] | None = None
        self.names = Names(chart.spec.renamed)
        """Maps the names of states and edges in its records to those of this machine."""
        self.origin: Mapping[str, Any] = EMPTY
        """Where a run that was started with another machine came from: a run that continues it
        under this machine records that in its `start`."""
        # set while it is driven
        self.breakpoints: Breakpoints | None = None
        """Where the run pauses although it could continue; None for a child."""
        self.cancels: list[Cancel] = []
        self.spending: Callable[[], StopRequest | None] | None = None
        """Set for a child that shares a budget: returns why it may not do the current action."""
        self.deadline: float | None = None
        """When a child must be done, on the run's clock: its parent's action ends then."""
        self.listener: Callable[[StreamEvent], None] | None = None
        self._unfinished: dict[Hashable, ReasoningDelta | ToolCallDelta] = {}
        """The newest piece of each part of a reply whose end the redactor may hold back."""
        self.closing = False
        """The run stops as soon as the child that it waits for has stopped."""
        self._trace: RunTracer | None = None
        self._watch: Watch | None = None
        self._goes_on = False
        self._rest: Callable[[], bool] | None = None
        self._spent: Sequence[str] = ()
        self._jobs: dict[str, Job] = {}

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.log.run_id

    @property
    def journal(self) -> Journal:
        """The journal that holds the run."""
        return self.log.journal

    @property
    def holder(self) -> Holder:
        """The lease under which it is driven."""
        return self.log.holder

    @property
    def row(self) -> RunRow:
        """The run's row in the journal, as of the last read or take-over."""
        return self.log.row

    @property
    def head(self) -> int:
        """The number of events in its log."""
        return self.log.head

    def prepare_start(
        self, begun: Input, row: RunRow, *, spec_text: Callable[[], str],
        certify: Callable[[], str] | None = None,
    ) -> None:  # fmt: skip
        """Prepare a run that is not yet in the journal.

        `spec_text` returns its canonical spec, stored by hash with the first record. `certify`
        returns its worst-case cost, stored likewise if the journal outlives the process.
        """
        self.begun, self.log.row = begun, row
        self._spec_text, self._certify = spec_text, certify

    # reading --------------------------------------------------------------------------------

    async def open(self, *, snapshot: bool = True, upto: int | None = None) -> None:
        """Fold the run's log, from its snapshot if it has one. Writes nothing."""
        await self.log.open()
        if self.above is None:
            self.ports.clock.follow(await self.journal.now())
        if snapshot and upto is None:
            await self._from_snapshot()
        await self._read_on(upto)

    async def follow(self) -> Session:
        """Return a new session, for reading, of the run as the journal has it now.

        Only new events are folded. This session stays unchanged, for its other readers.
        """
        copy = Session(self.chart, self.journal, self.run_id, self.ports)
        copy.engine, copy.upkeep = self.engine, self.upkeep
        copy.names, copy.origin = self.names, self.origin
        copy.position, copy.tally, copy.rules = self.position, self.tally.copy(), self.rules
        copy.calls, copy._last_read = self.calls.copy(), self._last_read
        await copy.log.open()
        copy.log.start_after(self.head, self.tally.records)
        await copy._read_on()
        return copy

    @property
    def newest(self) -> tuple[Record, Position] | None:
        """The newest record and the position before it; None if it was not read.

        In that case it is folded into a snapshot, or was made by this session.
        """
        last = self._last_read
        return last if last and last[0].seq == self.tally.records - 1 else None

    async def _read_on(self, upto: int | None = None) -> None:
        """Fold the events after the head, up to but excluding record `upto`."""
        log = self.log
        while True:
            page = await log.next_page()
            for event in page:
                if event.record is not None:
                    await self._check_record(event.record, upto)
                    if upto is not None and event.record.seq >= upto:
                        return
                await log.check(event)
                try:
                    self._fold(event)
                except _UNDECIDED as error:
                    raise await self._undecidable_error(event, error, upto) from error
            if len(page) < PAGE:
                break
        if upto is None:
            log.check_end()

    async def _check_record(self, record: Record, upto: int | None) -> None:
        """Refuse an invalid record, and a run whose decision rules this version does not have."""
        if wrong := wrong_with(record):
            raise self.log.corrupt_error(f"record {record.seq}: {wrong}")
        if record.kind == "start":
            self.rules = rules_version.rules_of(record.input)
            if not rules_version.is_known(self.rules):
                raise await self._of_other_rules(upto)

    async def _undecidable_error(
        self, event: Event, error: Exception, upto: int | None
    ) -> RunError:
        if self.rules is None and isinstance(error, rules_version.OTHERWISE):
            return await self._of_other_rules(upto)
        message = f"event {event.seq} cannot be decided: {type(error).__name__} {error}"
        return self.log.corrupt_error(message)

    async def _of_other_rules(self, upto: int | None) -> RunError:
        events = await self.journal.events(self.run_id)
        records = [e.record for e in events if e.record is not None][:upto]
        return rules_version.other_rules(self.chart, records, self.run_id, self.names, self.engine)

    async def _from_snapshot(self) -> None:
        if (folded := await self.read_snapshot()) is not None:
            self.position, self.rules, self.tally = folded.position, folded.rules, folded.tally
            self.log.start_after(folded.head, folded.records)

    async def read_snapshot(self, journal: Journal | None = None) -> Folded | None:
        """The content of the run's snapshot; None if there is none that this machine can use.

        A snapshot is a cache: folding the log gives the same.
        """
        kept = await self.log.snapshot(journal)
        if kept is None:
            return None
        if not rules_version.is_known(rules := kept.data.get("rules")):
            return None  # folding the log raises the error that names its rules
        reasons = self.chart.spec.reasons
        try:
            position = Position.from_dict(kept.data["position"], reasons)
            tally = Tally.from_dict(plain(kept.data["tally"]), reasons)
        except _UNDECIDED:
            return None
        run = position.facts.run.replace(id=self.run_id)
        position = position.replace(facts=position.facts.replace(run=run))
        return Folded(kept.seq, kept.record_seq, rules, position, tally)

    def _fold(self, event: Event) -> None:
        if event.record is not None:
            record, before = as_now(event.record, *self.names), self.position
            self._last_read = record, before
            self.position, decision = evolve(self.chart, before, record.input)
            self.tally.add(record, decision, self.position.facts)
            self.calls.close(record)
            if decision.next != record.next:
                if self.rules is None:
                    raise rules_version.Otherwise
                what = f"record {record.seq} went to `{event.record.next}`"
                raise self.log.corrupt_error(
                    f"{what}, and what it holds leads to `{decision.next}`"
                )
        elif event.type != MOVED:
            self._adopt_note(event)
        self.log.head = event.seq + 1

    def _adopt_note(self, event: Event) -> None:
        key = event.data.get("key")
        if not isinstance(key, str):
            raise self.log.corrupt_error(f"event {event.seq} does not name the call it belongs to")
        if event.type in ("intent", "result"):
            self.calls.add(event, key)
        else:
            state = self.names.state(str(event.data.get("state", "")))
            what = f"{event.data.get('action', key)} at {state}"
            self.tally.warnings.append(say_doubt(what, event.data))

    # writing --------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Become the driver of this run; the previous driver is fenced."""
        if await self.log.take_over():
            await self._read_on()

    async def create(self) -> None:
        """Put a new run into the journal, begun by the journal's clock."""
        begun, row = self.begun, self.log.row
        if begun is not None and self.above is None:
            shift = self.ports.clock.follow(await self.journal.now())
            self.begun = begun.replace(started=begun.started + shift, at=begun.at + shift)
            self.log.row = row.replace(created=row.created + shift, updated=row.updated + shift)
        await self.log.create(None if self._spec_text is None else self._spec_text())

    async def complete_start(self, begun: Input) -> Input:
        """Add the versions, upkeep, trace context and, in a lasting journal, the certificate."""
        own: dict[str, Any] = {UPKEEP: [*self.upkeep]} if self.upkeep else {}
        if self.ports.tracer is not None and (where := (await self.trace()).carrier):
            own[CARRIER] = dict(where)
        begun = begun.replace(data={**begun.data, **rules_version.marks(self.engine), **own})
        if self._certify is None or self.journal.durability is None:
            return begun
        if self.journal.suspends:  # a proof would block the event loop
            text = await off_loop(self._certify)
        else:
            text = self._certify()
        hash = await self.journal.put_blob(text)
        return begun.replace(data={**begun.data, "certificate": hash})

    async def apply(self, input: Input, *, consumed: Sequence[str] = ()) -> Record:
        """Decide one input, write its record, adopt the new position."""
        before = self.position
        position, decision = evolve(self.chart, before, input, oracle=self.ask)
        if decision.opaque:
            input = input.replace(opaque=decision.opaque)
        record = Record(
            self.tally.records, before.state, input, decision.taken, decision.signals,
            decision.next, decision.status, position.wake_at, decision.warnings,
        )  # fmt: skip
        reason = decision.winner if position.ended else ""
        rest = self.tally.rest_after(record, decision)
        update = update_at(self.chart, self.run_id, position, rest, reason=reason)
        log = self.log
        event = Event(log.head, "record", input.at, record, EMPTY, log.epoch)
        if self._spent:
            consumed, self._spent = (*consumed, *self._spent), ()
        # write at once: a held record would leave its message in the inbox, to be read again
        if not consumed and self._leads_to_a_call(position):
            log.hold(event, update)
        else:
            await log.append(event, update, consumed)
        self.position = position
        log.end_action()
        self.tally.add(record, decision, position.facts)
        self.calls.close(record)
        if self.listener is not None:
            self._tell_record(Recorded(record, decision, position))
        if self.ports.tracer is not None:
            (await self.trace()).record(before, record, position)
        if log.wants_snapshot(self.tally.records) and not self.calls.intents:
            await self.put_snapshot()
        return record

    async def note(
        self, type: NoteType, key: str, data: Mapping[str, Any], *, last: bool = False
    ) -> None:
        """Write an intent, a result or a doubt about a paid call.

        The `last` one before a record is written together with it.
        """
        content = {"key": key, **data}
        self._adopt_note(await self.log.note(type, content, self.ports.clock.now, last=last))

    async def note_doubts(self, about: Mapping[str, Any]) -> None:
        """Record that the results of the calls in doubt are unknown."""
        calls, self.calls.doubt_noted = self.calls.in_doubt, True
        for key in calls:
            await self.note("in_doubt", key, about)

    async def trace(self) -> RunTracer:
        """The run's trace, begun now if needed; it lasts until the run rests. Requires a tracer."""
        if self._trace is None:
            assert self.ports.tracer is not None
            origin = await self._traced_origin() if self.head else None
            run = TracedRun(
                self.run_id, self.chart, self.position, self.row.parent, origin,
                getattr(self.journal, "redactor", None),
            )  # fmt: skip
            self._trace = self.ports.tracer.run(run)
        return self._trace

    async def _traced_origin(self) -> Mapping[str, str]:
        """The trace context that the run's `start` recorded; empty if it has none."""
        first = await self.journal.events(self.run_id, 0, 1)
        record = first[0].record if first else None
        carrier: Any = EMPTY if record is None else record.input.data.get(CARRIER)
        if not isinstance(carrier, Mapping):
            return EMPTY
        items = cast("Mapping[Any, Any]", carrier).items()
        return {n: v for n, v in items if isinstance(n, str) and isinstance(v, str)}

    def end_trace(self) -> None:
        """End the trace as the run rests; its next step begins a new one."""
        if (trace := self._trace) is not None:
            self._trace = None
            trace.rest(self.position)

    def settle(self) -> Awaitable[None]:
        """Wait until the run's newest record is in the journal."""
        return self.log.settle()

    def _leads_to_a_call(self, position: Position) -> bool:
        """Whether the next thing to happen is that an intent is written."""
        if not self._goes_on or self.listener is not None:
            return False
        if position.status != "running" or not self.log.may_hold(self.tally.records):
            return False
        job = self.job(position.state)
        action = job.action
        return job.paid and action is not None and (action.settles_itself or not action.own_intents)

    def discard(self, messages: Sequence[str]) -> None:
        """Remove messages without effect, by id, from the inbox with the next record."""
        self._spent = messages

    async def complete_row(self) -> RunRow:
        """The run's row, with its question, tokens and cost if an older version left them out.

        They are written once, and lists of runs have them from then on. The run need not be
        driven for that; if it is, its driver is not disturbed.
        """
        row = self.row
        if row.tokens is not None or row.moved_to or not row.head or row.head != self.head:
            return row
        now = update_at(self.chart, self.run_id, self.position, self.tally.rest)
        update = row.standing().replace(question=now.question, tokens=now.tokens, cost=now.cost)
        try:
            await self.journal.append(row.run_id, row.head, row.epoch, (), update=update)
        except Fenced:  # driven on since it was read: its driver writes the row
            return await self.journal.row(row.run_id) or row
        return row.replace(**update.to_mapping())

    async def inbox(self) -> list[InboxMessage]:
        """The messages from outside that are not yet processed."""
        return await self.log.journal.inbox(self.log.run_id)

    async def put_snapshot(self) -> None:
        """Store the current position, so that the run opens without folding its whole log."""
        data = {
            "rules": self.rules, "tally": self.tally.to_dict(),
            "position": self.position.to_dict(),
        }  # fmt: skip
        await self.log.put_snapshot(self.tally.records, data)

    def ask(self, name: str, args: tuple[Any, ...]) -> bool:
        """Call a registered Python guard."""
        guard = self.chart.spec.registry.guards.get(name)
        if guard is None:
            raise RunError(f"guard `{name}` is not registered")
        return bool(guard.call(*args))

    def job(self, state: str) -> Job:
        """The prepared action of a state."""
        job = self._jobs.get(state)
        if job is None:
            spec = self.chart.spec
            job = self._jobs[state] = job_of(spec, spec.states[state], self.ports)
        return job

    def tell(self, state: str, text: str) -> None:
        """Pass a piece of text to the listener, if there is one."""
        if self.listener is None:
            return
        if self._redactor is not None and not (text := self._redactor.piece(text)):
            return
        self.listener(Delta(self.position.facts.run.steps + 1, state, text))

    def tell_reasoning(self, state: str, text: str) -> None:
        """Pass a piece of the model's reasoning to the listener, if there is one."""
        step = self.position.facts.run.steps + 1
        self._tell_piece("reasoning", ReasoningDelta(step, state, ""), text)

    def tell_call(self, state: str, number: int, call: ToolCall) -> None:
        """Pass a piece of a tool call, its `arguments`, to the listener, if there is one."""
        step = self.position.facts.run.steps + 1
        piece = ToolCallDelta(step, state, number, call.id, call.name, "")
        self._tell_piece(number, piece, call.arguments)

    def _tell_piece(self, of: str | int, piece: ReasoningDelta | ToolCallDelta, text: str) -> None:
        if self.listener is None:
            return
        begins = not text
        if self._redactor is not None:
            self._unfinished[of] = piece
            text = self._redactor.piece(text, of)
        if text or begins:
            self.listener(_with_text(piece, text))

    def _tell_record(self, event: Recorded) -> None:
        """Pass a record to the listener, after the rest of the text that led to it."""
        assert self.listener is not None
        if (redactor := self._redactor) is not None:
            record = event.record
            for of, rest in redactor.rest().items():
                unfinished = self._unfinished.get(of)
                piece = unfinished or Delta(event.position.facts.run.steps, record.state, "")
                self.listener(_with_text(piece, rest))
            self._unfinished.clear()
            event = event._replace(record=redactor.record(record, self.chart.spec.reasons))
        self.listener(event)

    @cached_property
    def _redactor(self) -> EventRedactor | None:
        """Hides from listeners the secrets that the journal hides; None if it hides none."""
        return event_redactor(self.journal)

    def ask_to_save(self) -> None:
        """Have a snapshot follow the next record."""
        self.log.ask_for_snapshot()

    def watch_breakpoints(self) -> None:
        """Start watching for breakpoints."""
        self._watch = self.breakpoints.watch(self) if self.breakpoints is not None else None

    def begin_drive(self, rest: Callable[[], bool] | None = None) -> None:
        """Start doing one action after another, up to a breakpoint or until `rest` is true."""
        self.watch_breakpoints()
        self._goes_on = True
        self._rest = rest

    def end_drive(self) -> None:
        """Write each record at once again: no action need follow it."""
        self._goes_on = False
        self._rest = None

    def wants_rest(self) -> bool:
        """Whether the driver wants the run to rest."""
        return self._rest is not None and self._rest()

    @property
    def stays_for_answers(self) -> bool:
        """Whether it stays driven while an MCP server waits for an answer from elsewhere."""
        ports = self.ports
        if ports.servers is None or ports.questions != "stay" or self.above is not None:
            return False  # its parent passes a child's question on
        return ports.servers.asks(self.run_id)

    def at_breakpoint(self) -> bool:
        """Whether a breakpoint was reached since the last call. Never after they were cleared."""
        watch = None if self.breakpoints is None else self._watch
        return watch is not None and watch.hits_breakpoint()

    @property
    def facts(self) -> Facts:
        """The values that guards read now."""
        return self.position.facts

    @property
    def edge_counts(self) -> Mapping[str, int]:
        """How often each edge and rule was taken, by id."""
        return self.tally.taken

    @property
    def messages(self) -> Conversation:
        """The conversation as it is now."""
        return self.position.messages

    def cancel_requested(self) -> bool:
        """Whether a caller in this process has asked the run to stop."""
        run = self.position.facts.run
        return bool(self.cancels) and any(c.is_requested(run) for c in self.cancels)

    @property
    def can_be_stopped(self) -> bool:
        """Whether something other than a message can ask the run to stop."""
        return bool(self.cancels) or self.above is not None

    async def find_stop_request(self) -> StopRequest | None:
        """The request, by a caller or its parent, that the run stop before its next action."""
        if self.deadline is not None and self.ports.clock.now() >= self.deadline:
            return TOO_LATE
        asked = await self.above.find_any_stop_request() if self.above is not None else None
        if asked is not None:
            return asked._replace(source=PARENT)
        if self.spending is not None and (asked := self.spending()) is not None:
            return asked
        return StopRequest("user_requested", "", CALLER) if self.cancel_requested() else None

    async def find_any_stop_request(self) -> StopRequest | None:
        """Like `find_stop_request`, messages included: for a child, while this run's loop waits.

        None once this run is stopping: a child that runs on the way out may finish.
        """
        if self.position.stopping:
            return None
        if (asked := await self.find_stop_request()) is not None:
            return asked
        for message in await self.inbox():
            if message.data.get("kind") == "cancel":
                data: Mapping[str, Any] = message.data.get("data") or EMPTY
                reason = str(message.data.get("reason", "user_requested"))
                return StopRequest(reason, str(data.get("message", "")), "outside")
        return None

    def child(self, machine: str, run_id: str) -> Session:
        """A run of a child machine, not yet started, with the same journal and ports."""
        return Session(self.chart.child(machine), self.journal, run_id, self.ports, above=self)

    async def find_children(self) -> list[RunRow]:
        """The children that the current action has started, ended ones too."""
        if not self.chart.spec.machines:
            return []
        prefix = f"{self.run_id}/{self.position.state}/{self.position.facts.run.steps}"
        rows = await self.journal.rows(prefix=prefix)
        return [row for row in rows if row.parent == self.run_id]

    async def open_children(self) -> list[Session]:
        """The same children, opened; without those whose machine this one does not declare."""
        named = [(self._machine_of(row), row) for row in await self.find_children()]
        children = [self.child(name, row.run_id) for name, row in named if name]
        for child in children:
            await child.open()
        return children

    def _machine_of(self, row: RunRow) -> str:
        """This machine's name for a child's machine, or empty. The hash resolves equal names."""
        alike = [n for n, m in self.chart.spec.machines.items() if m.name == row.machine]
        matches = (n for n in alike if len(alike) == 1 or self._has_hash(n, row.machine_hash))
        return next(matches, "")

    def _has_hash(self, machine: str, hash: str) -> bool:
        return digest(self.chart.child(machine).text) == hash


def upkeep_of(start: Input) -> list[str]:
    """The application's own actions that are upkeep, according to a `start`."""
    value: Any = start.data.get(UPKEEP)
    names = cast("list[Any]", value) if isinstance(value, (list, tuple)) else []
    return [name for name in names if isinstance(name, str)]


def _with_text(
    piece: Delta | ReasoningDelta | ToolCallDelta, text: str
) -> Delta | ReasoningDelta | ToolCallDelta:
    """A piece of a reply with another text."""
    if isinstance(piece, ToolCallDelta):
        return piece._replace(arguments=text)
    return piece._replace(text=text)


def start_data(**fields: Any) -> Mapping[str, Any]:
    """The data of a `start`, without empty fields."""
    return {k: v for k, v in fields.items() if v} or EMPTY
