"""The public `Run`: one execution, in its sync and async faces."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeVar, Unpack, cast, get_args

from chartloop.api.continuing import (
    DetachedRun,
    detach,
    first_taken_back,
    fork_session,
    move_session,
)
from chartloop.api.drawn import DrawOptions
from chartloop.api.run_messages import post, refuse_resume, tasks_message
from chartloop.api.tables import KnownFacts, Records
from chartloop.api.wiring import JournalOrPath, PortOptions, suspends
from chartloop.core.errors import LimitError, RunError, refuse_unknown
from chartloop.core.facts import EMPTY
from chartloop.core.outcome import Message
from chartloop.core.reasons import Continuation
from chartloop.core.records import Record
from chartloop.core.types import Type
from chartloop.core.units import say_count
from chartloop.language.values import limit_value, var_value
from chartloop.machine.explain import Explanation
from chartloop.run.answer import Answer, Sent, send_answer
from chartloop.run.breakpoints import Breakpoints
from chartloop.run.certificate import stored_certificate
from chartloop.run.events import Event, Rewound
from chartloop.run.events import Event as StreamEvent
from chartloop.run.explanations import explain_record
from chartloop.run.journal import direct_journal
from chartloop.run.loop import act_once, advance, change, drive, leave
from chartloop.run.progress import meters_of, standing_of, status_of
from chartloop.run.question import Question, question_of
from chartloop.run.renaming import as_now
from chartloop.run.replay import Replay, replay
from chartloop.run.result import Result, metadata_of, result_of
from chartloop.run.session import Session
from chartloop.run.steps import Step, steps_of
from chartloop.run.stream import astream, stream
from chartloop.run.sync import off_loop, wait
from chartloop.run.trace import Trace, trace
from chartloop.view.live.bundle import live_bundle
from chartloop.view.live.live_picture import LivePicture
from chartloop.view.of_machine import OfMachine
from chartloop.view.picture import Picture
from chartloop.view.report.run_picture import Look, RunPicture

T = TypeVar("T")


class StartOptions(PortOptions, total=False):
    """Options for starting a run; see `Machine.start`."""

    limits: Mapping[str, Any] | None
    vars: Mapping[str, Any] | None
    memory: Mapping[str, str] | None
    messages: Sequence[Message]
    tasks: Sequence[Any] | None
    continues: Run | str | None
    journal: JournalOrPath | None
    run_id: str | None
    agent: str | None
    session: str | None
    metadata: Mapping[str, Any] | None
    require_bound: Mapping[str, float] | None


class Startable(OfMachine, Protocol):
    """A machine that a run may be followed by another run of. `Machine` is one."""

    def start(self, task: str | Sequence[Any] = "", **options: Unpack[StartOptions]) -> Run:
        """A new run of it."""
        ...


class Run:
    """One execution of a machine: step it, run it, answer it, ask it why.

        run = machine.start("What is 2 + 2?", script=["4"])
        print(run.run().explain())

    Whatever drives a run or touches the journal has a sync method and, with an ``a`` before its
    name, an async one; both work inside a running event loop. A run is not copied: `fork` makes
    another. It pickles as data, which `Machine.attach` makes a run again.
    """

    def __init__(
        self,
        machine: Startable,
        session: Session,
        *,
        given: PortOptions | None = None,
        prepare: Callable[[], None] | None = None,
        moved: bool = False,
    ) -> None:
        self.machine = machine
        self.session = session
        self._given: PortOptions = given or {}
        """The components that the caller gave: a next run has the same."""
        self._prepare = prepare
        """Checks that everything the run needs is there; None once it has passed."""
        self._moved = moved
        """It was started with another machine: driven, it continues as a fork under this one."""
        self.breakpoints = Breakpoints(machine.chart)
        """Where `run` and the streams stop although the run could continue."""
        self._listeners = Listeners()
        self._painter: LivePicture | None = None
        self._suspends: tuple[Session, bool] | None = None

    # where it is ------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's id."""
        return self.session.run_id

    @property
    def parent(self) -> str:
        """The id of the run that this one follows or was forked from; empty when of no run."""
        return self.session.row.parent

    @property
    def state(self) -> str:
        """The state it is in."""
        return self.session.position.state

    @property
    def status(self) -> str:
        """`idle`, `running`, `paused`, `debugging`, `completed` or `error`."""
        return self.session.position.status

    @property
    def facts(self) -> KnownFacts:
        """The values that guards read, as they are now; `frame()` gives it as pandas."""
        return KnownFacts(*self.session.position.facts.to_tuple())

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of this run: the file's, overridden by those of the start."""
        return metadata_of(self.session)

    @property
    def last_activity(self) -> float:
        """When something last happened to it, in seconds since 1970-01-01 UTC; 0.0: never."""
        return self.session.position.facts.marks.now

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
        """How it ended, or its state so far."""
        return result_of(self.session)

    @property
    def question(self) -> Question | None:
        """The question of a waiting run: the id of the wait, its text and its answers."""
        return question_of(self.session)

    @property
    def answers(self) -> Mapping[str, Mapping[str, Type]]:
        """The events that the current wait takes, each with the fields of its answer."""
        return asked.answers if (asked := self.question) is not None else {}

    @property
    def continuation(self) -> Continuation:
        """The signals that wait, and whether a continuation was asked for: `explain` says it."""
        position = self.session.position
        return Continuation(position.signals, position.facts.signals.continued)

    @property
    def records(self) -> Records:
        """The records, from the journal; `frame()` gives it as pandas."""
        return self._wait(self.arecords())

    async def arecords(self) -> Records:
        """The records so far, from the journal."""
        events = await self.session.journal.events(self.id) if self.session.head else ()
        names = self.session.names
        found = (as_now(e.record, *names) for e in events if e.record is not None)
        return Records(found, self.machine.chart)

    @property
    def history(self) -> tuple[Step, ...]:
        """The steps: the finished actions, and the current one of a run that is not over."""
        return self._wait(self.ahistory())

    async def ahistory(self) -> tuple[Step, ...]:
        """The steps; see `history`."""
        return await steps_of(self.session, await self.arecords())

    def __repr__(self) -> str:
        steps = say_count(self.facts.run.steps, "step")
        return f"<Run {self.id} of {self.machine.name}: {self.status} at {self.state}, {steps}>"

    def __copy__(self) -> Run:
        raise RunError(
            f"run `{self.id}` is one: it cannot be copied", hint="`run.fork()` makes another"
        )

    def __deepcopy__(self, memo: object) -> Run:
        return self.__copy__()

    def __reduce__(self) -> tuple[type[DetachedRun], tuple[Any, ...]]:
        return (DetachedRun, tuple(detach(self.session)))

    # continuing -------------------------------------------------------------------------------

    def step(self) -> Record | None:
        """Run the current action and return its record. None when the run has ended or waits.

        Anything due before it is recorded too: the start, an answer that was sent, a resume.
        A run that comes to rest on the way, at a wait say, gives the record of that.
        """
        return self._wait(self.astep())

    async def astep(self) -> Record | None:
        """Do the current action; see `step`."""
        if self._prepare is not None or self._moved or self._listeners:  # a step costs microseconds
            await self._ready()
        return await act_once(self.session)

    def advance(self) -> Record | None:
        """One record, whatever it is of: the start, an answer, an action. None as of `step`."""
        return self._wait(self.aadvance())

    async def aadvance(self) -> Record | None:
        """One record; see `advance`."""
        if self._prepare is not None or self._moved or self._listeners:
            await self._ready()
        return await advance(self.session)

    def run(self, *, until: str | None = None) -> Result:
        """Run to the end, to a breakpoint, or to where the run waits for a person.

        `until` is one more breakpoint for this call: ``run.run(until="think")`` stops before the
        action of that state, ``run.run(until="usage.cost > 0.10")`` as soon as that holds.
        """
        return self._wait(self.arun(until=until))

    async def arun(
        self, *, until: str | None = None, rest: Callable[[], bool] | None = None
    ) -> Result:
        """On to the end, to a breakpoint, or to where the run waits for somebody; see `run`.

        `rest` is asked before each action: where it is true the run stops there, as if nobody had
        driven it on. Whoever drives many runs, and is to end, leaves them so.
        """
        with self.breakpoints.until(until):
            await self._ready()
            await drive(self.session, rest)
        return self.result

    def stream(self) -> Iterator[StreamEvent]:
        """Run, and give typed events as they happen. Leaving the loop cancels cooperatively."""
        self._wait(self._ready())
        return stream(self.session, suspends=self.suspends)

    async def astream(self) -> AsyncIterator[StreamEvent]:
        """Run, and give typed events as they happen; see `stream`."""
        await self._ready()
        async with aclosing(astream(self.session)) as events:
            async for event in events:
                yield event

    def listen(self, callback: Callable[[StreamEvent], None]) -> Callable[[], None]:
        """Call back with each typed event, however the run is driven; gives what ends that.

        The callback is called where the run is driven, perhaps on another thread, and the run
        waits for it. One that raises is logged and not called again: it never fails the run.
        """

        def stop() -> None:
            self._listeners.remove(callback)
            self._listeners.attach(self.session)

        self._listeners.add(callback)
        self._listeners.attach(self.session)
        return stop

    @property
    def listeners(self) -> tuple[Callable[[StreamEvent], None], ...]:
        """The callbacks of `listen` that are called now."""
        return self._listeners.callbacks

    def next(self, task: str | Sequence[Any], **options: Unpack[StartOptions]) -> Run:
        """A next message to a run that has ended: a new run that continues this one.

        Conversation, memory and variables are carried over, counters start at zero, limits are
        the file's. Journal and components are those of this run, and a script starts anew;
        `options` are those of `Machine.start` and win. `StatusError` when the run has not ended.

            after = run.next("And in French?")
            after.run()
        """
        replies = {"model", "script"}
        given = dict(self._given)
        if replies & options.keys():
            given = {n: part for n, part in given.items() if n not in replies}
        return self.machine.start(
            task, **cast(StartOptions, {"continues": self, **given, **options})
        )

    def set(self, name: str, value: Any) -> Record:
        """Change a limit or variable by hand: ``run.set("limits.tokens", 5000)``.

        It is on the record as an `edit`. `LimitError` for a value of another type.
        """
        return self._wait(self.aset(name, value))

    async def aset(self, name: str, value: Any) -> Record:
        """Change a limit or variable by hand; see `set`."""
        root, _, field = name.partition(".")
        read = {"limits": limit_value, "vars": var_value}.get(root)
        if read is None:
            raise LimitError(f"`{name}` cannot be set", hint="write `limits.NAME` or `vars.NAME`")
        made = read(self.machine.spec, field, value)
        await self._move()
        if not self.session.head:
            await advance(self.session)
        return await change(self.session, {name: made})

    # answering, and other messages -----------------------------------------------------------

    def send(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        wait: str = "",
        ahead: str = "",
        at: float | None = None,
        message_id: str | None = None,
    ) -> Sent:
        """Answer the wait that the run is at. It continues with the next `step` or `run`.

        `wait` is the id of the wait that is answered, `run.question.wait`; without one it is the
        wait at hand. `ahead` names a state instead, whose first wait takes the answer when it
        comes: no one has seen its question then, and the record says so. `message_id` makes a
        repeated delivery harmless.

        `AnswerError` for an event or data that the wait does not take; `WaitError` for a wait that
        is not at hand, `AnsweredError` for one that is answered, `AheadError`.
        """
        coroutine = self.asend(event, data, wait=wait, ahead=ahead, at=at, message_id=message_id)
        return self._wait(coroutine)

    async def asend(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        wait: str = "",
        ahead: str = "",
        at: float | None = None,
        message_id: str | None = None,
    ) -> Sent:
        """Answer the wait that the run is at; see `send`."""
        if ahead and not self.session.head:
            await advance(self.session)
        answer = Answer(event, data or EMPTY, wait, ahead)
        return await send_answer(self.session, answer, at=at, message_id=message_id)

    def enqueue(self, tasks: Any, *, message_id: str | None = None) -> None:
        """Add tasks at the end of the queue: texts, or mappings as in a file. See `send`.

        A run that waits continues waiting, and does them when its machine next does `work`.
        """
        return self._wait(self.aenqueue(tasks, message_id=message_id))

    async def aenqueue(self, tasks: Any, *, message_id: str | None = None) -> None:
        """Add tasks at the end of the queue; `TaskError` for what is none. See `enqueue`."""
        message = tasks_message(self.session, tasks, fresh=message_id is None)
        await post(self.session, message, message_id=message_id)

    def pause(self) -> None:
        """Pause before the next action. At a wait it takes effect once the wait is over.

        A second one adds nothing: one `resume` ends all that were sent before it.
        """
        return self._wait(self.apause())

    async def apause(self) -> None:
        """Pause before the next action; see `pause`."""
        await post(self.session, {"kind": "pause"})

    def resume(self) -> None:
        """End a pause: the run continues with the next `step` or `run`. At a wait, an error."""
        return self._wait(self.aresume())

    async def aresume(self) -> None:
        """End a pause; see `resume`."""
        refuse_resume(self.session)
        await post(self.session, {"kind": "resume"})

    def cancel(self, reason: str = "user_requested", message: str = "") -> None:
        """Stop before the next action, for a reason of the machine. Works from any thread."""
        return self._wait(self.acancel(reason, message))

    async def acancel(self, reason: str = "user_requested", message: str = "") -> None:
        """Stop before the next action; see `cancel`."""
        data = {"message": message}
        await post(self.session, {"kind": "cancel", "reason": reason, "data": data})

    # asking ---------------------------------------------------------------------------------

    def why(self, seq: int | None = None) -> Explanation:
        """Everything that was evaluated for a record; default: the newest."""
        journal = direct_journal(self.session.journal)
        asked = explain_record(self.session, seq, journal, snapshot=not self._moved)
        return wait(asked, suspends=journal.suspends)

    async def awhy(self, seq: int | None = None) -> Explanation:
        """Everything that was evaluated when a record was decided; see `why`.

        It is found in another thread: the event loop goes on meanwhile.
        """
        return await off_loop(lambda: self.why(seq))

    def trace(self) -> Trace:
        """The actions that it and its children did: times, tokens, results, tool calls."""
        return self._wait(self.atrace())

    async def atrace(self) -> Trace:
        """The steps and calls of the run; see `trace`."""
        return await trace(self.session.journal, self.id, await self.arecords())

    def replay(self) -> Replay:
        """The records, decided again by this machine and compared. Nothing is run."""
        return self._wait(self.areplay())

    async def areplay(self) -> Replay:
        """The records, decided again and compared; see `replay`."""
        return replay(self.machine.chart, await self.arecords(), self.id)

    def fork(self, at: int | None = None, *, run_id: str | None = None) -> Run:
        """A new run with the records below `at` (default: all); this one stays as it is.

        `at` is the number of the first record that is left out. `RunError` when there is none.
        """
        return self._wait(self.afork(at, run_id=run_id))

    async def afork(self, at: int | None = None, *, run_id: str | None = None) -> Run:
        """A new run with the records below `at`; see `fork`."""
        other = self.machine.canonical() if self._moved else None
        made = await fork_session(
            self.session, await self.arecords(), at, run_id=run_id or new_run_id(), machine=other
        )
        return Run(self.machine, made, given=self._given, prepare=self._prepare)

    def back(self, records: int = 1) -> Run:
        """Take back the newest records: this object continues as a fork, with a new id."""
        return self._wait(self.aback(records))

    async def aback(self, records: int = 1) -> Run:
        """Take back the newest records; see `back`."""
        with self.session.turn:  # else what drives it would continue with a run that no one sees
            forked = await self.afork(first_taken_back(self.session, records))
            await leave(self.session)
        self.session, self._moved = forked.session, False
        if self._listeners:
            self._listeners.attach(self.session)
            self._listeners.notify(Rewound(self.id, self.session.position))
        return self

    # its certificate and its picture -----------------------------------------------------------

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The proofs made when it started: bounds, limits, assumptions, by which version.

        It is stored where the journal is a file. None: the run is in memory, has not started, is
        a child (its parent's holds for it), or was written before there were certificates.
        """
        return self._wait(self.acertificate())

    async def acertificate(self) -> Mapping[str, Any] | None:
        """The certificate of the bounds proven at its start."""
        session = self.session
        if not session.head:
            return None
        text = await stored_certificate(session.journal, session.run_id)
        return None if text is None else json.loads(text)

    def draw(
        self, *, look: Look = "plain", **shown: Unpack[DrawOptions]
    ) -> Picture:  # fmt: skip
        """The machine's picture with this run's limits, and what `look` adds.

        What is shown, and how, is said as for `Machine.draw`: ``direction="lr"``.

        `plain` adds nothing. `live` shows where the run is and the path that it took, with counts.
        `report` also shows what every decision and rule reads now, against its bound.
        """
        refuse_unknown("look", look, get_args(Look))
        session = self.session
        picture = self.machine.draw(**shown, facts=session.position.facts)
        if look == "plain":
            return picture
        if shown.get("region") == "status":
            return RunPicture(picture.chart, status_of(session))
        meters = meters_of(session) if look == "report" else None
        return RunPicture(picture.chart, standing_of(session), meters=meters)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the picture of the run as it is now."""
        chart = self.draw().chart
        if self._painter is None or self._painter.chart != chart:
            self._painter = LivePicture(chart)
        standing = standing_of(self.session)
        bundle = live_bundle(self._painter, standing)
        if "text/html" in bundle:
            return bundle | {"image/svg+xml": self._painter.svg(standing), "text/plain": repr(self)}
        return bundle

    # faces ----------------------------------------------------------------------------------

    @property
    def suspends(self) -> bool:
        """Whether driving this run may give the event loop away."""
        known = self._suspends
        if known is None or known[0] is not self.session or self._prepare is not None:
            known = self._suspends = (self.session, suspends(self.session))
        return known[1]

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return wait(coroutine, suspends=self.suspends)

    async def _ready(self) -> None:
        """Before the run is driven: its components are there, and it is this machine's."""
        if self._prepare is not None:
            self._prepare()
            self._prepare = None
        await self._move()
        self._listeners.attach(self.session)
        self.session.breakpoints = self.breakpoints

    async def _move(self) -> None:
        """A run that was started with another machine continues as a fork under this one."""
        if not self._moved:
            return
        self.session = await move_session(
            self.session, await self.arecords(), run_id=new_run_id(),
            machine=self.machine.canonical(),
        )  # fmt: skip
        self._moved = False


def new_run_id() -> str:
    """A new run's id: 12 letters and digits at random."""
    return "".join([_LETTERS[byte % 32] for byte in secrets.token_bytes(12)])


_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


Callback = Callable[[Event], None]
_log = logging.getLogger(__name__)


class Listeners:
    """The listeners of one run. They receive its events; nothing that they do changes it."""

    def __init__(self) -> None:
        self._callbacks: tuple[Callback, ...] = ()

    @property
    def callbacks(self) -> tuple[Callback, ...]:
        """The callbacks, in the order in which they were added."""
        return self._callbacks

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callback) -> None:
        """Call back with each event from now on."""
        self._callbacks = (*self._callbacks, callback)

    def remove(self, callback: Callback) -> None:
        """Stop calling it back."""
        self._callbacks = tuple(c for c in self._callbacks if c is not callback)

    def attach(self, session: Session) -> None:
        """Receive the events of this session, unless another listener is in place."""
        if session.listener == self.notify:
            session.listener = None
        if self._callbacks and session.listener is None:
            session.listener = self.notify

    def notify(self, event: Event) -> None:
        """Pass an event to every callback. One that raises is removed: it must not fail the run."""
        for callback in self._callbacks:
            try:
                callback(event)
            except Exception:  # noqa: BLE001  whatever it is, it is not the run's
                _log.exception("a listener raised and is not called again: %r", callback)
                self.remove(callback)
