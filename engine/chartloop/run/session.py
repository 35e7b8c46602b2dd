"""One open run: its log, and what the events of it add up to.

A `Session` is the whole state of a run that is read or driven. `run.loop` changes it: it decides an
input, appends or holds the record (`run.log`), and then adopts it.

Belongs here: the state, and folding the log into it. Never: deciding or doing (`run.loop`).
Source: docs/design.md, "A step" and "The journal".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

from chartloop.core.errors import RunError
from chartloop.core.facts import EMPTY
from chartloop.core.outcome import ToolResult, written_result
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.machine.build import Chart
from chartloop.machine.evolve import RULES, evolve
from chartloop.run import rules_version
from chartloop.run.breakpoints import Breakpoint, Breakpoints, times_reached
from chartloop.run.calls import doubt_data, fields_digest, say_doubt
from chartloop.run.components import Ports
from chartloop.run.events import Delta, ReasoningDelta, Recorded, ToolCallDelta
from chartloop.run.events import Event as StreamEvent
from chartloop.run.job import Jobs
from chartloop.run.journal import Event, Journal, RunRow
from chartloop.run.journal_records import FORKED, MOVED, Intent
from chartloop.run.lease_holder import Holder, Turn
from chartloop.run.log import PAGE, RunLog
from chartloop.run.ports import Cancel
from chartloop.run.redact import Redactor
from chartloop.run.redact_events import EventRedactor
from chartloop.run.renaming import Names, as_now
from chartloop.run.tally import Tally
from chartloop.run.tracing import CARRIER, RunTracer, TracedRun
from chartloop.run.validate_record import UNFIT, wrong_with

UPKEEP = "upkeep"
"""Key in the data of a `start`: the names of the application's own actions that are upkeep."""
_UNDECIDED = (*rules_version.OTHERWISE, *UNFIT)
"""The exceptions that deciding an altered record may raise."""


PARENT, CALLER, LATE = "parent", "caller", "time_limit"
"""The source of a signal that a parent raises in its child, and the reason when its time is up."""


class StopRequest(NamedTuple):
    """A request that a run stop: its reason, message and source."""

    reason: str
    message: str
    source: str


TOO_LATE = StopRequest(LATE, "the action of its parent had to be done by now", PARENT)
"""The stop request to a child at its parent's deadline."""

IfExists = Literal["refuse", "use"]
"""How a start treats a run that has its id."""
Piece = Delta | ReasoningDelta | ToolCallDelta
"""A piece of a model's reply, as a listener receives it."""


class Folded(NamedTuple):
    """The content of a snapshot: the result of folding the first events of a run."""

    head: int
    """The number of events folded."""
    records: int
    """The number of records among them."""
    rules: int | None
    position: Position
    tally: Tally
    unknown: dict[str, Mapping[str, Any]]
    """The calls that are unknown."""


class Session(RunLog):
    """One open run. Driven by `run.loop`; its actions see it as `Context.host`."""

    if_exists: IfExists = "refuse"
    """How its first record treats a run in the journal that has its id."""
    doing: tuple[str, Mapping[str, Any]] | None = None
    """The key and the fields of the current action, if it is one call with effects."""
    inherited: tuple[int, str] | None = None
    """For a fork: the number of finished actions at which it began, and the key of the action that
    comes next, which is that of the run that it was forked from."""

    def __init__(
        self, chart: Chart, journal: Journal, run_id: str, ports: Ports, *,
        above: Session | None = None,
    ) -> None:  # fmt: skip
        self.turn = Turn(run_id)
        holder = above.holder if above else Holder(run_id, self.turn, ports.clock)
        super().__init__(journal, run_id, holder)
        self.chart, self.ports = chart, ports
        self.above = above
        """The parent run, if its action drives this one."""
        self.engine = "" if above is None else above.engine
        """The version of chartloop, as a `start` records it."""
        self.upkeep: tuple[str, ...] = () if above is None else above.upkeep
        """The application's own actions that are upkeep: a reader of the run need not have them."""
        # folded from its records
        self.position: Position = chart.position(run_id)
        self.tally = Tally()
        self.rules: int | None = RULES
        """The version of the decision rules that its records were made with; None if unrecorded."""
        self._last_read: tuple[Record, Position] | None = None
        # how it starts, and how its records are read
        self.begun: Input | None = None
        """The `start` input of a run that is not yet in the journal."""
        self.spec_text: Callable[[], str] | None = None
        """Returns its canonical spec, stored by hash with the first record."""
        self.certify: Callable[[], str] | None = None
        """Returns its worst-case cost, stored likewise if the journal outlives the process."""
        self.names = Names(chart.spec.renamed)
        """Maps the names of states and edges in its records to those of this machine."""
        self.origin: Mapping[str, Any] = EMPTY
        """Where a run that was started with another machine came from: a run that continues it
        under this machine records that in its `start`."""
        # set while it is driven
        self.returned: dict[str, Callable[[], ToolResult]] = {}
        """What calls came to that returned, by key. Only those that were cut off stay here."""
        self.breakpoints: Breakpoints | None = None
        """Where the run pauses although it could continue; None for a child."""
        self.goes_on = False
        """It does one action after another: a record may wait for the intent that follows."""
        self.rest_asked: Callable[[], bool] | None = None
        """Returns whether its driver wants it to rest before the next action."""
        self.cancels: list[Cancel] = []
        self.spending: Callable[[], StopRequest | None] | None = None
        """Set for a child that shares a budget: returns why it may not do the current action."""
        self.deadline: float | None = None
        """When a child must be done, on the run's clock: its parent's action ends then."""
        self.closing = False
        """The run stops as soon as the child that it waits for has stopped."""
        self.without_effect: Sequence[str] = ()
        """The ids of messages without effect, which leave the inbox with the next record."""
        self.jobs = Jobs(chart, ports)
        self.listener: Callable[[StreamEvent], None] | None = None
        self._unfinished: dict[Hashable, Piece] = {}
        """The newest piece of each part of a reply whose end the redactor may hold back."""
        self._trace: RunTracer | None = None

    # reading --------------------------------------------------------------------------------

    async def open(self, *, snapshot: bool = True, upto: int | None = None) -> None:
        """Fold the run's log, from its snapshot if it has one. Writes nothing."""
        await super().open()
        if self.above is None:
            self.ports.clock.follow(await self.journal.now())
        if snapshot and upto is None and (folded := await self.read_snapshot()) is not None:
            self.position, self.rules, self.tally = folded.position, folded.rules, folded.tally
            self.calls.unknown = folded.unknown
            self.start_after(folded.head, folded.records)
        await self._read_on(upto)

    async def follow(self) -> Session:
        """Return a new session, for reading, of the run as the journal has it now.

        Only new events are folded. This session stays unchanged, for its other readers.
        """
        copy = Session(self.chart, self.journal, self.run_id, self.ports)
        copy.engine, copy.upkeep, copy.inherited = self.engine, self.upkeep, self.inherited
        copy.names, copy.origin = self.names, self.origin
        copy.position, copy.tally, copy.rules = self.position, self.tally.copy(), self.rules
        copy.calls, copy._last_read = self.calls.copy(), self._last_read
        await RunLog.open(copy)
        copy.start_after(self.head, self.tally.records)
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
        while True:
            page = await self.journal.events(self.run_id, self.head, PAGE)
            for event in page:
                if event.record is not None:
                    record = event.record
                    if wrong := wrong_with(record):
                        raise self.corrupt_error(f"record {record.seq}: {wrong}")
                    if record.kind == "start":
                        self.rules = rules_version.rules_of(record.input)
                        if not rules_version.is_known(self.rules):
                            raise await self._of_other_rules(upto)
                    if upto is not None and event.record.seq >= upto:
                        return
                await self.check(event)
                try:
                    self._fold(event)
                except _UNDECIDED as error:
                    if self.rules is None and isinstance(error, rules_version.OTHERWISE):
                        raise await self._of_other_rules(upto) from error
                    what = f"event {event.seq} cannot be decided: {type(error).__name__} {error}"
                    raise self.corrupt_error(what) from error
            if len(page) < PAGE:
                break
        if upto is None and self.head < self.row.head:
            raise self.corrupt_error(f"it ends before event {self.row.head}")

    async def _of_other_rules(self, upto: int | None) -> RunError:
        records = await self.journal.records(self.run_id, 0, upto)
        return rules_version.other_rules(self.chart, records, self.run_id, self.names, self.engine)

    async def read_snapshot(self, journal: Journal | None = None) -> Folded | None:
        """The content of the run's snapshot; None if there is none that this machine can use.

        A snapshot is a cache: folding the log gives the same.
        """
        kept = await self.snapshot(journal)
        if kept is None:
            return None
        if not rules_version.is_known(rules := kept.data.get("rules")):
            return None  # folding the log raises the error that names its rules
        reasons = self.chart.spec.reasons
        try:
            position = Position.from_dict(kept.data["position"], reasons)
            tally = Tally.from_dict(plain(kept.data["tally"]), reasons)
            unknown = {**kept.data["unknown"]}
        except _UNDECIDED:
            return None
        run = position.facts.run.replace(id=self.run_id)
        position = position.replace(facts=position.facts.replace(run=run))
        return Folded(kept.seq, kept.record_seq, rules, position, tally, unknown)

    def _fold(self, event: Event) -> None:
        if event.record is not None:
            record, before = as_now(event.record, *self.names), self.position
            self._last_read = record, before
            position, decision = evolve(self.chart, before, record.input)
            self.position = position
            self.tally.add(record, decision, position.facts)
            self.close_calls(record, before)
            if decision.next != record.next:
                if self.rules is None:
                    raise rules_version.Otherwise
                what = f"record {record.seq} went to `{event.record.next}`"
                raise self.corrupt_error(f"{what}, and what it holds leads to `{decision.next}`")
        elif event.type != MOVED:
            key = event.data.get("key")
            if event.type == FORKED and isinstance(key, str):
                self.inherited = event.data["steps"], key
            elif not isinstance(key, str):
                what = f"event {event.seq} does not name the call it belongs to"
                raise self.corrupt_error(what)
            else:
                self.calls.add(event.type, key, event.data)
            if event.type == "in_doubt":
                self._warn_of_doubt(key, event.data)
        self.head = event.seq + 1

    def _warn_of_doubt(self, key: str, data: Mapping[str, Any]) -> None:
        if data.get("warned"):
            return
        state = self.names.state(str(data.get("state", "")))
        name = data.get("tool") or data.get("action") or key
        self.tally.warnings.append(say_doubt(f"{name} at {state}", data))

    # writing --------------------------------------------------------------------------------

    async def become_driver(self) -> bool:
        """Become the driver of this run, and read what the previous driver, now fenced, wrote."""
        if unread := await super().become_driver():
            await self._read_on()
        return unread

    async def note_unknown(self, why: Mapping[str, Any], *keys: str) -> None:
        """Record that the outcomes of calls are unknown, once for each. Default: of all pending."""
        for key in keys or self.calls.pending:
            if key not in self.calls.unknown and key not in self.calls.decided:
                about = doubt_data(self.calls.intents.get(key, EMPTY), why)
                if self.doing is not None and self.doing[0] == key:
                    about["fields"] = fields_digest(self.doing[1])
                await self.note("in_doubt", key, about, self.ports.clock.now())
                self._warn_of_doubt(key, about)

    async def note_restored(self, key: str, intent: Mapping[str, Any] | Intent) -> bool:
        """Record that a call may have been made before the journal was restored from a backup.

        In a run that was, each call with effects is unknown before it is made, unless more is known
        of it or somebody has decided on it. Returns whether it is.
        """
        calls = self.calls
        known = (calls.intents, calls.results, calls.unknown, calls.decided)
        if not self.restored or any(key in found for found in known):
            return False
        about = doubt_data(intent, {"left": "restored"})
        await self.note("in_doubt", key, about, self.ports.clock.now())
        self._warn_of_doubt(key, about)
        return True

    async def note_returned(self) -> None:
        """Record the results of calls that were cut off and have returned since: that settles them.

        A call that still does not know how it ended stays unknown.
        """
        for key in [*self.returned]:
            made = self.returned.pop(key)
            if key in self.calls.unknown and not (result := made()).in_doubt:
                data = {"late": True, **written_result(result)}
                await self.note("result", key, data, self.ports.clock.now())

    async def trace(self) -> RunTracer:
        """The run's trace, begun now if needed; it lasts until the run rests. Requires a tracer."""
        if self._trace is None:
            assert self.ports.tracer is not None
            origin: dict[str, str] | None = None
            if self.head:
                first = await self.journal.records(self.run_id, 0, 1)
                carrier = first[0].input.data.get(CARRIER) if first else None
                known = cast(
                    "Mapping[Any, Any]", carrier if isinstance(carrier, Mapping) else EMPTY
                )
                origin = {
                    n: v for n, v in known.items() if isinstance(n, str) and isinstance(v, str)
                }
            run = TracedRun(
                self.run_id, self.chart, self.position, self.row.parent, origin,
                getattr(self.journal, "redactor", None),
            )  # fmt: skip
            self._trace = self.ports.tracer.run(run)
        return self._trace

    def end_trace(self) -> None:
        """End the trace as the run rests; its next step begins a new one."""
        if (trace := self._trace) is not None:
            self._trace = None
            trace.rest(self.position)

    async def put_snapshot(self) -> None:
        """Store the current position, so that the run opens without folding its whole log."""
        data = {
            "rules": self.rules, "tally": self.tally.to_dict(),
            "position": self.position.to_dict(), "unknown": self.calls.unknown,
        }  # fmt: skip
        await self.store_snapshot(self.tally.records, data)

    def ask(self, name: str, args: tuple[Any, ...]) -> bool:
        """Call a registered Python guard."""
        guard = self.chart.spec.registry.guards.get(name)
        if guard is None:
            raise RunError(f"guard `{name}` is not registered")
        return bool(guard.call(*args))

    def reached(self, of: Breakpoint) -> int:
        """How often a breakpoint was reached so far; for a guard, whether it holds."""
        return times_reached(of, self.position.facts, self.tally.taken, self.ask)

    def tell(self, piece: Piece, of: Hashable = "") -> None:
        """Pass a piece of a reply, of its text or another part, to the listener, if there is one.

        The redactor may hold the end of it back, but not the beginning of a part, which is empty.
        """
        if self.listener is None:
            return
        if self._redactor is not None:
            self._unfinished[of] = piece
            begun = piece.arguments if isinstance(piece, ToolCallDelta) else piece.text
            text = self._redactor.piece(begun, of)
            if not text and (begun or of == ""):
                return
            piece = _with_text(piece, text)
        self.listener(piece)

    def tell_record(self, event: Recorded) -> None:
        """Pass a record to the listener, after the rest of the text that led to it."""
        assert self.listener is not None
        if (redactor := self._redactor) is not None:
            for of, rest in redactor.rest().items():
                self.listener(_with_text(self._unfinished[of], rest))
            self._unfinished.clear()
            record = redactor.record(event.record, self.chart.spec.reasons)
            event = event._replace(record=record)
        self.listener(event)

    @cached_property
    def _redactor(self) -> EventRedactor | None:
        """Hides from listeners the secrets that the journal hides; None if it hides none."""
        redactor: Redactor | None = getattr(self.journal, "redactor", None)
        return None if redactor is None else EventRedactor(redactor)

    @property
    def stays_for_answers(self) -> bool:
        """Whether it stays driven while an MCP server waits for an answer from elsewhere."""
        ports = self.ports
        if ports.servers is None or ports.questions != "stay" or self.above is not None:
            return False  # its parent passes a child's question on
        return ports.servers.asks(self.run_id)

    async def find_stop_request(self) -> StopRequest | None:
        """The request, by a caller or its parent, that the run stop before its next action."""
        if self.deadline is not None and self.ports.clock.now() >= self.deadline:
            return TOO_LATE
        asked = await self.above.find_any_stop_request() if self.above is not None else None
        if asked is not None:
            return asked._replace(source=PARENT)
        if self.spending is not None and (asked := self.spending()) is not None:
            return asked
        run = self.position.facts.run
        asked_here = any(cancel.is_requested(run) for cancel in self.cancels)
        return StopRequest("user_requested", "", CALLER) if asked_here else None

    async def find_any_stop_request(self) -> StopRequest | None:
        """Like `find_stop_request`, messages included: for a child, while this run's loop waits.

        None once this run is stopping: a child that runs on the way out may finish.
        """
        if self.position.stopping:
            return None
        if (asked := await self.find_stop_request()) is not None:
            return asked
        for message in await self.journal.inbox(self.run_id):
            if message.data.get("kind") == "cancel":
                data: Mapping[str, Any] = message.data.get("data") or EMPTY
                reason = str(message.data.get("reason", "user_requested"))
                return StopRequest(reason, str(data.get("message", "")), "outside")
        return None

    def child(self, machine: str, run_id: str, ports: Ports | None = None) -> Session:
        """A run of a child machine, not yet started, with the same journal and ports."""
        chart, ports = self.chart.child(machine), ports or self.ports
        return Session(chart, self.journal, run_id, ports, above=self)

    @property
    def place(self) -> str:
        """The beginning of the ids of the children that the current action starts."""
        return f"{self.run_id}/{self.position.state}/{self.position.facts.run.steps}"

    def doubt(self, key: str) -> Mapping[str, Any] | None:
        """The doubt about a call, noted here or by a run above; None for a call without one."""
        known = self.calls.unknown.get(key)
        return known if known is not None or self.above is None else self.above.doubt(key)

    async def find_children(self) -> list[RunRow]:
        """The children that the current action has started, ended ones too."""
        if not self.chart.spec.machines:
            return []
        rows = await self.journal.rows(prefix=self.place)
        return [row for row in rows if row.parent == self.run_id]


def upkeep_of(start: Input) -> list[str]:
    """The application's own actions that are upkeep, according to a `start`."""
    value: Any = start.data.get(UPKEEP)
    names = cast("list[Any]", value) if isinstance(value, (list, tuple)) else []
    return [name for name in names if isinstance(name, str)]


def _with_text(piece: Piece, text: str) -> Piece:
    """A piece of a reply with another text."""
    if isinstance(piece, ToolCallDelta):
        return piece._replace(arguments=text)
    return piece._replace(text=text)


def start_data(**fields: Any) -> Mapping[str, Any]:
    """The data of a `start`, without empty fields."""
    return {k: v for k, v in fields.items() if v} or EMPTY
