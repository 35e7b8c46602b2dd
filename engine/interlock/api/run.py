"""The public `Run`: one execution, in its sync and async faces."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from interlock.api.detached import DetachedRun, detached
from interlock.api.values import check_answer, limit_value, var_value
from interlock.api.wiring import suspends
from interlock.core.errors import LimitError, RunError, StatusError
from interlock.core.facts import Facts
from interlock.core.outcome import Message
from interlock.core.records import Input, Record
from interlock.language.spec import MachineSpec
from interlock.machine.build import Chart
from interlock.machine.explain import Explanation
from interlock.run.events import Event as StreamEvent
from interlock.run.journal import Letter
from interlock.run.loop import IN_DOUBT, advance, drive
from interlock.run.replay import Replay, position_before, replay, why
from interlock.run.result import Result, result_of
from interlock.run.session import Session
from interlock.run.stream import astream, stream
from interlock.run.sync import wait
from interlock.view.flowchart import RuleDrawing
from interlock.view.picture import Picture

T = TypeVar("T")


class OfMachine(Protocol):
    """What a run uses of its machine. `Machine` is one."""

    chart: Chart

    @property
    def name(self) -> str:
        """The machine's name."""
        ...

    @property
    def spec(self) -> MachineSpec:
        """What its file says."""
        ...

    def draw(
        self, *, rules: RuleDrawing = "box", all: bool = False, region: str = "state",
        facts: Facts | None = None,
    ) -> Picture:  # fmt: skip
        """Its picture, with the limits of the facts."""
        ...


class Run:
    """One execution of a machine.

    Every method has a sync face and, with an ``a`` before its name, an async one; both work
    inside a running event loop.
    """

    def __init__(
        self, machine: OfMachine, session: Session, prepare: Callable[[], None] | None = None
    ) -> None:
        self.machine = machine
        self.session = session
        self._prepare = prepare
        """What must be there before the run is driven; None once it is known to be."""

    # where it stands ------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's id."""
        return self.session.run_id

    @property
    def state(self) -> str:
        """The state it is in."""
        return self.session.position.state

    @property
    def status(self) -> str:
        """`idle`, `running`, `paused`, `debugging`, `completed` or `error`."""
        return self.session.position.status

    @property
    def facts(self) -> Facts:
        """What guards read, as it is now."""
        return self.session.position.facts

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation."""
        return self.session.position.messages.whole()

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.session.position.ended

    @property
    def result(self) -> Result:
        """How it ended, or how it stands."""
        return result_of(self.session)

    @property
    def records(self) -> list[Record]:
        """What has been recorded, from the journal."""
        return self._wait(self.arecords())

    async def arecords(self) -> list[Record]:
        """What has been recorded, from the journal."""
        if not self.session.head:
            return []
        events = await self.session.journal.events(self.id)
        return [e.record for e in events if e.record is not None]

    def __repr__(self) -> str:
        at = f"{self.status} at {self.state}, {self.facts.run.steps} steps"
        return f"<Run {self.id} of {self.machine.name}: {at}>"

    def __reduce__(self) -> tuple[type[DetachedRun], tuple[Any, ...]]:
        return (DetachedRun, tuple(detached(self.session)))

    # going on -------------------------------------------------------------------------------

    def step(self) -> Record | None:
        """One record: start, or do the action at hand. None when it has ended or waits."""
        return self._wait(self.astep())

    async def astep(self) -> Record | None:
        """One record: start, or do the action at hand. None when it has ended or waits."""
        self._ready()
        return await advance(self.session)

    def run(self) -> Result:
        """On to the end, or to where the run waits for somebody."""
        return self._wait(self.arun())

    async def arun(self) -> Result:
        """On to the end, or to where the run waits for somebody."""
        self._ready()
        await drive(self.session)
        return self.result

    def stream(self) -> Iterator[StreamEvent]:
        """Run, and give typed events as they happen. Leaving the loop cancels cooperatively."""
        self._ready()
        return stream(self.session, suspends=self.suspends)

    def astream(self) -> AsyncIterator[StreamEvent]:
        """Run, and give typed events as they happen. Leaving the loop cancels cooperatively."""
        self._ready()
        return astream(self.session)

    def send(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        at: float | None = None,
        message_id: str | None = None,
    ) -> None:
        """Answer the wait that the run is at. It goes on with the next `step` or `run`.

        `AnswerError` names what the wait takes. `message_id` makes a repeated delivery harmless.
        """
        return self._wait(self.asend(event, data, at=at, message_id=message_id))

    async def asend(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        at: float | None = None,
        message_id: str | None = None,
    ) -> None:
        """Answer the wait that the run is at; see `send`."""
        check_answer(self.session, event, data or {})
        await self._post(
            {"kind": "answer", "event": event, "data": dict(data or {})}, at, message_id
        )

    def pause(self) -> None:
        """Pause before the next action. At a wait it takes effect once the wait is over."""
        return self._wait(self._post({"kind": "pause"}))

    def resume(self) -> None:
        """Go on after a pause, with the next `step` or `run`. At a wait, an error."""
        position = self.session.position
        if position.status != "paused":
            raise StatusError(f"the run is {position.status}, not paused")
        if position.blocked_on == IN_DOUBT:
            raise StatusError(
                f"a paid call of `{position.state}` is in doubt", hint="send `retry` or `fail`"
            )
        if position.state in self.session.chart.waiting and not position.pause_asked:
            events = ", ".join(f"`{e}`" for e in self.session.chart.events_at(position.state))
            raise StatusError(
                f"`{position.state}` waits for an answer", hint=f"send one of {events}"
            )
        return self._wait(self._post({"kind": "resume"}))

    def cancel(self, reason: str = "user_requested", message: str = "") -> None:
        """Stop before the next action. Works from any thread."""
        data = {"kind": "cancel", "reason": reason, "data": {"message": message}}
        return self._wait(self._post(data))

    async def _post(
        self, data: Mapping[str, Any], at: float | None = None, message_id: str | None = None
    ) -> None:
        session = self.session
        if not session.head:
            await advance(session)
        if session.position.ended:
            raise StatusError(f"the run has ended: it is {session.position.status}")
        when = session.ports.clock.now() if at is None else at
        await session.journal.send(self.id, Letter(message_id or secrets.token_hex(8), when, data))

    def set(self, name: str, value: Any) -> Record:
        """Change a limit or variable by hand: ``run.set("limits.tokens", 5000)``.

        It is on the record as an `edit`.
        """
        return self._wait(self.aset(name, value))

    async def aset(self, name: str, value: Any) -> Record:
        """Change a limit or variable by hand; see `set`."""
        root, _, field = name.partition(".")
        read = {"limits": limit_value, "vars": var_value}.get(root)
        if read is None:
            raise LimitError(f"`{name}` cannot be set", hint="write `limits.NAME` or `vars.NAME`")
        made = read(self.machine.spec, field, value)
        if not self.session.head:
            await advance(self.session)
        with self.session.turn:
            if not self.session.owned:
                await self.session.take_over()
            return await self.session.apply(
                Input("edit", at=self.session.ports.clock.now(), data={name: made})
            )

    # asking ---------------------------------------------------------------------------------

    def why(self, seq: int | None = None) -> Explanation:
        """Everything that was looked at when a record was decided; default: the newest."""
        records = self.records
        number = seq if seq is not None else (records[-1].seq if records else 0)
        return why(self.machine.chart, records, number, self.id)

    def replay(self) -> Replay:
        """The records, decided again by this machine and compared."""
        return replay(self.machine.chart, self.records, self.id)

    def fork(self, at: int | None = None, *, run_id: str | None = None) -> Run:
        """A new run with the records below `at` (default: all); this one stays as it is."""
        return self._wait(self.afork(at, run_id=run_id))

    async def afork(self, at: int | None = None, *, run_id: str | None = None) -> Run:
        """A new run with the records below `at`; see `fork`."""
        old, count = self.session, self.session.tally.records
        seq = count if at is None else at
        if not 1 <= seq <= count:
            raise RunError(
                f"there is no record {seq} to fork at",
                hint=f"records are numbered 0 to {count - 1}; `at` is the first that is left out",
            )
        new_id, now = run_id or new_run_id(), old.ports.clock.now()
        there = position_before(old.chart, await self.arecords(), seq, new_id)
        row = old.row._replace(
            run_id=new_id, epoch=0, created=now, updated=now, status=there.status,
            state=there.state, reason="", steps=there.facts.run.steps, wake_at=there.wake_at,
        )  # fmt: skip
        await old.journal.fork(self.id, seq, row)
        made = Session(old.chart, old.journal, new_id, old.ports)
        made.cancels = old.cancels
        await made.open(snapshot=False)
        return Run(self.machine, made)

    def back(self, records: int = 1) -> Run:
        """Take back the newest records: this object goes on as a fork, with a new id."""
        forked = self.fork(self.session.tally.records - records)
        self.session = forked.session
        return self

    def draw(self, *, rules: RuleDrawing = "box", all: bool = False) -> Picture:
        """The machine's picture with this run's limits; see `Machine.draw`."""
        return self.machine.draw(rules=rules, all=all, facts=self.facts)

    # faces ----------------------------------------------------------------------------------

    @property
    def suspends(self) -> bool:
        """Whether driving this run may give the event loop away."""
        return suspends(self.session)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return wait(coroutine, suspends=self.suspends)

    def _ready(self) -> None:
        if self._prepare is not None:
            self._prepare()
            self._prepare = None


def new_run_id() -> str:
    """A new run's id: 12 letters and digits at random."""
    return "".join(secrets.choice("0123456789abcdefghjkmnpqrstvwxyz") for _ in range(12))
