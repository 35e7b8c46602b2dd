"""The public `Run`: one execution of a machine, sync and async."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack, cast, get_args

from chartloop.adapters.journal.opening import JournalOrPath
from chartloop.api.continuing import (
    DetachedRun,
    detach,
    first_taken_back,
    fork_session,
    move_session,
)
from chartloop.api.drawn import DrawOptions
from chartloop.api.run_messages import post, refuse_resume, tasks_message
from chartloop.api.tables import KnownFacts, KnownRecord, Records
from chartloop.api.wiring import PortOptions, suspends
from chartloop.core.errors import LimitError, RunError, refuse_unknown
from chartloop.core.facts import EMPTY, ToolCall
from chartloop.core.outcome import Message
from chartloop.core.position import SUBMITTER
from chartloop.core.reasons import Continuation
from chartloop.core.records import Record
from chartloop.core.types import Type
from chartloop.core.units import say_count
from chartloop.language.values import limit_value, var_value
from chartloop.machine.explain import Explanation
from chartloop.pictures.of_machine import OfMachine
from chartloop.run.answer import Answer, Sent, send_answer
from chartloop.run.answer_links import AnswerLink
from chartloop.run.breakpoints import Breakpoints
from chartloop.run.certificate import stored_certificate
from chartloop.run.events import Event, Rewound
from chartloop.run.events import Event as StreamEvent
from chartloop.run.explanations import explain_record
from chartloop.run.journal import direct_journal
from chartloop.run.loop import act_once, advance, change, drive, leave
from chartloop.run.progress import standing_of, status_of
from chartloop.run.question import Question, question_of
from chartloop.run.recorded import check_chain
from chartloop.run.renaming import as_now
from chartloop.run.replay import Replay, replay
from chartloop.run.result import Result, metadata_of, result_of
from chartloop.run.session import IfExists, Session
from chartloop.run.steps import Step, steps_of
from chartloop.run.stream import astream, stream
from chartloop.run.sync import off_loop, on_loop_thread, running_loop, wait
from chartloop.run.trace import Trace, trace
from chartloop.run.workers import on_worker

if TYPE_CHECKING:
    from chartloop.pictures.live.live_picture import LivePicture
    from chartloop.pictures.live.run_picture import Look
    from chartloop.pictures.picture import Picture

T = TypeVar("T")


class StartOptions(PortOptions, total=False):
    """Options for starting a run; see `Machine.start`."""

    limits: Mapping[str, Any] | None
    vars: Mapping[str, Any] | None
    memory: Mapping[str, str] | None
    messages: Sequence[Message]
    tasks: Sequence[Any] | None
    continues: Run | str | None
    branch: bool
    start: str
    journal: JournalOrPath | None
    run_id: str | None
    agent: str | None
    session: str | None
    metadata: Mapping[str, Any] | None
    submitter: str
    tenant: str | None
    priority: int | None
    require_bound: Mapping[str, float] | None
    if_exists: IfExists


class Startable(OfMachine, Protocol):
    """A machine that can start the run which follows another. `Machine` is one."""

    def start(self, task: str | Sequence[Any] = "", **options: Unpack[StartOptions]) -> Run:
        """Return a new run."""
        ...


class Run:
    """One execution of a machine: step it, run it, answer it, ask it why.

        run = machine.start("What is 2 + 2?", script=["4"])
        print(run.run().explain())

    Each method that drives the run or uses the journal is sync, and has an async twin with the
    prefix ``a``; both work inside a running event loop. A run cannot be copied: `fork` makes
    another. It pickles as data, which `Machine.attach` turns back into a run.
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
        """The caller's components, which the next run inherits."""
        self._prepare = prepare
        """Checks that the run has everything it needs; None once it has passed."""
        self._moved = moved
        """It was started with another machine: when driven, it moves to a new run."""
        self.breakpoints = Breakpoints(machine.chart)
        """Where `run` and the streams stop although the run could continue."""
        self._listeners = Listeners()
        self._painter: LivePicture | None = None
        self._suspends: tuple[Session, bool, bool] | None = None

    # where it is ------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's id."""
        return self.session.run_id

    @property
    def parent(self) -> str:
        """The id of the parent, or of the run that this one follows or is forked from; or empty."""
        return self.session.row.parent

    @property
    def moved_to(self) -> str:
        """The id of the run that continues this one under a changed machine; empty for none.

        A moved run can be read, replayed and forked. It takes no messages, and is driven no more.
        """
        return self.session.row.moved_to

    @property
    def state(self) -> str:
        """The current state."""
        return self.session.position.state

    @property
    def status(self) -> str:
        """`idle`, `running`, `paused`, `debugging`, `completed` or `error`."""
        return self.session.position.status

    @property
    def facts(self) -> KnownFacts:
        """The current values that guards read; its `frame()` returns a pandas frame."""
        return KnownFacts(*self.session.position.facts.to_tuple())

    @property
    def submitter(self) -> str:
        """Who submitted this run; empty where that was not said."""
        begun = self.session.begun
        first = "" if begun is None else begun.data.get(SUBMITTER, "")
        return str(self.session.position.kept.get(SUBMITTER, first))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of this run: the file's, overridden by that of the start."""
        return metadata_of(self.session)

    @property
    def last_activity(self) -> float:
        """When the last record was made, in seconds since 1970-01-01 UTC; 0.0 without records."""
        return self.session.position.facts.marks.now

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation."""
        return self.session.position.messages.whole()

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.session.position.ended

    @property
    def result(self) -> Result:
        """Its result, final or so far."""
        return result_of(self.session)

    @property
    def question(self) -> Question | None:
        """The question of a waiting run: the id of the wait, its text and its answers."""
        return question_of(self.session)

    @property
    def answers(self) -> Mapping[str, Mapping[str, Type]]:
        """The events that the current wait accepts, each with the fields of its answer."""
        return asked.answers if (asked := self.question) is not None else {}

    @property
    def continuation(self) -> Continuation:
        """The pending signals, and whether a continuation was requested; its `explain` words it."""
        position = self.session.position
        return Continuation(position.signals, position.facts.signals.continued)

    @property
    def records(self) -> Records:
        """The records, from the journal; its `frame()` returns a pandas frame."""
        return self._wait(self.arecords())

    async def arecords(self) -> Records:
        """The records so far, from the journal."""
        stored = await self.session.journal.records(self.id) if self.session.head else ()
        records = (as_now(record, *self.session.names) for record in stored)
        return Records(records, self.machine.chart)

    @property
    def history(self) -> tuple[Step, ...]:
        """The steps: the finished actions, and the current one if the run has not ended."""
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
        """Do the current action and return its record. None if the run has ended or waits.

        Anything due before the action is recorded too: the start, an answer, a resume. If the run
        comes to rest on the way, such as at a wait, the record of that is returned.
        """
        return self._wait(self.astep())

    async def astep(self) -> Record | None:
        """Do the current action; see `step`."""
        if self._prepare is not None or self._moved or self._listeners.callbacks:  # else ready
            await self._ready()
        asked = self.session.position.facts.last.tool_calls
        return self._known(await act_once(self.session), asked)

    def advance(self) -> Record | None:
        """Make one record of any kind: the start, an answer, an action. None as for `step`."""
        return self._wait(self.aadvance())

    async def aadvance(self) -> Record | None:
        """Make one record; see `advance`."""
        if self._prepare is not None or self._moved or self._listeners.callbacks:
            await self._ready()
        asked = self.session.position.facts.last.tool_calls
        return self._known(await advance(self.session), asked)

    def _known(self, record: Record | None, asked: tuple[ToolCall, ...]) -> Record | None:
        return None if record is None else KnownRecord.of(record, self.machine.chart, asked)

    def run(self, *, until: str | None = None) -> Result:
        """Run to the end, to a breakpoint, or to where the run waits for a person.

        `until` is one more breakpoint for this call: ``run.run(until="think")`` stops before the
        action of that state, ``run.run(until="usage.cost > 0.10")`` as soon as that holds.
        """
        return self._wait(self.arun(until=until))

    async def arun(
        self, *, until: str | None = None, rest: Callable[[], bool] | None = None
    ) -> Result:
        """Run to the end, to a breakpoint, or to where the run waits for a person; see `run`.

        `rest` is called before each action. Once it returns true, the run stops there, ready to be
        continued: a process that drives many runs can so shut down.
        """
        with self.breakpoints.until(until):
            await self._ready()
            await drive(self.session, rest)
        return self.result

    def stream(self) -> Iterator[StreamEvent]:
        """Run, and yield typed events as they happen. Leaving the loop cancels cooperatively."""
        self._wait(self._ready())
        return stream(self.session, suspends=self.suspends)

    async def astream(self) -> AsyncIterator[StreamEvent]:
        """Run, and yield typed events as they happen; see `stream`."""
        await self._ready()
        async with aclosing(astream(self.session)) as events:
            async for event in events:
                yield event

    def listen(self, callback: Callable[[StreamEvent], None]) -> Callable[[], None]:
        """Call back with each typed event, however the run is driven; returns a function to stop.

        The callback runs where the run is driven, perhaps on another thread, and the run waits
        for it. One that raises is logged and not called again: it never fails the run.
        """

        def stop() -> None:
            self._listeners.remove(callback)
            self._listeners.attach(self.session)

        self._listeners.callbacks += (callback,)
        self._listeners.attach(self.session)
        return stop

    @property
    def listeners(self) -> tuple[Callable[[StreamEvent], None], ...]:
        """The active callbacks of `listen`."""
        return self._listeners.callbacks

    def next(self, task: str | Sequence[Any], **options: Unpack[StartOptions]) -> Run:
        """Send a next message to a run that has ended: a new run that continues this one.

        Conversation, memory and variables are carried over, counters start at zero, limits are
        the file's. Journal and components are those of this run, and a script starts over;
        `options` are those of `Machine.start` and win: with ``start="review"`` it begins at a state
        that the file lists under `resume_at`. `StatusError` if the run has not ended, and
        `FollowedError` when it is driven if another message came first: ``branch=True`` starts
        another conversation from here.

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
        checked = read(self.machine.spec, field, value)
        await self._move()
        if not self.session.head:
            await advance(self.session)
        return await change(self.session, {name: checked})

    # answering, and other messages -----------------------------------------------------------

    def send(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        wait: str = "",
        ahead: str = "",
        shown: str | None = None,
        link: AnswerLink | None = None,
        at: float | None = None,
        message_id: str | None = None,
    ) -> Sent:
        """Answer the current wait. The run continues with the next `step` or `run`.

        `wait` is the id of the wait to answer, `run.question.wait`; by default the current one.
        `ahead` names a state instead, whose next wait takes the answer as soon as it begins; the
        record then says that the question was not seen; a state that `approve` made takes none.
        `shown` is the `digest` of the question that a person was shown: another one is refused.
        `link` is the link that it comes by, which the record names. `message_id` makes
        a repeated delivery harmless.

        `AnswerError` for an event or data that the wait does not accept, `WaitError` for a wait
        that is not the current one, `AnsweredError` for one already answered, `AheadError` for an
        invalid `ahead`.
        """
        answer = self.asend(
            event,
            data,
            wait=wait,
            ahead=ahead,
            shown=shown,
            link=link,
            at=at,
            message_id=message_id,
        )
        return self._wait(answer)

    async def asend(
        self,
        event: str,
        data: Mapping[str, Any] | None = None,
        *,
        wait: str = "",
        ahead: str = "",
        shown: str | None = None,
        link: AnswerLink | None = None,
        at: float | None = None,
        message_id: str | None = None,
    ) -> Sent:
        """Answer the current wait; see `send`."""
        await self._move()  # the question is the one that this machine asks
        if ahead and not self.session.head:
            await advance(self.session)
        answer = Answer(event, data or EMPTY, wait, ahead, shown, link)
        return await send_answer(self.session, answer, at=at, message_id=message_id)

    def enqueue(self, tasks: Any, *, message_id: str | None = None) -> None:
        """Append tasks to the queue: texts, or mappings as in a file. For `message_id` see `send`.

        A waiting run keeps waiting, and does them when its machine next does `work`.
        """
        return self._wait(self.aenqueue(tasks, message_id=message_id))

    async def aenqueue(self, tasks: Any, *, message_id: str | None = None) -> None:
        """Append tasks to the queue; `TaskError` for an invalid one. See `enqueue`."""
        message = tasks_message(self.session, tasks, fresh=message_id is None)
        await post(self.session, message, message_id=message_id)

    def pause(self) -> None:
        """Pause before the next action. At a wait it takes effect once the wait has ended.

        A second pause has no effect: one `resume` ends every pause sent before it.
        """
        return self._wait(self.apause())

    async def apause(self) -> None:
        """Pause before the next action; see `pause`."""
        await post(self.session, {"kind": "pause"})

    def resume(self) -> None:
        """End a pause: the run continues with the next `step` or `run`. `StatusError` at a wait."""
        return self._wait(self.aresume())

    async def aresume(self) -> None:
        """End a pause; see `resume`."""
        await refuse_resume(self.session)
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
        """Everything evaluated for a record; by default the newest."""
        journal = direct_journal(self.session.journal)
        explanation = explain_record(self.session, seq, journal, snapshot=not self._moved)
        return wait(explanation, suspends=journal.suspends)

    async def awhy(self, seq: int | None = None) -> Explanation:
        """Everything evaluated when a record was decided; see `why`.

        Works in another thread, so that the event loop stays free.
        """
        return await off_loop(lambda: self.why(seq))

    def trace(self) -> Trace:
        """The actions of the run and its children: times, tokens, results, tool calls."""
        return self._wait(self.atrace())

    async def atrace(self) -> Trace:
        """The steps and calls of the run; see `trace`."""
        return await trace(self.session.journal, self.id, await self.arecords())

    def replay(self) -> Replay:
        """Decide the records again by this machine, and compare. No action is done.

        `Replay.chain` says whether they are as they were written, by the hash chain of the run.
        """
        return self._wait(self.areplay())

    async def areplay(self) -> Replay:
        """Decide the records again, and compare; see `replay`."""
        found = replay(self.machine.chart, await self.arecords(), self.id)
        journal = self.session.journal
        return replace(found, chain=await check_chain(journal, self.id) if found.of else None)

    def fork(self, at: int | None = None, *, run_id: str | None = None) -> Run:
        """A new run with the records before `at` (default: all); this one stays unchanged.

        `at` is the number of the first record left out; `RunError` if it is out of range. A fork
        takes no answer to an approval along whose calls were not executed yet: it asks again.
        """
        return self._wait(self.afork(at, run_id=run_id))

    async def afork(self, at: int | None = None, *, run_id: str | None = None) -> Run:
        """A new run with the records before `at`; see `fork`."""
        other = self.machine.canonical() if self._moved else None
        session = await fork_session(
            self.session, await self.arecords(), at, run_id=run_id or new_run_id(), machine=other
        )
        return Run(self.machine, session, given=self._given, prepare=self._prepare)

    def back(self, records: int = 1) -> Run:
        """Take back the newest records: this object continues as a fork, with a new id."""
        return self._wait(self.aback(records))

    async def aback(self, records: int = 1) -> Run:
        """Take back the newest records; see `back`."""
        with self.session.turn:  # a driver must not go on with the run that this object leaves
            forked = await self.afork(first_taken_back(self.session, records))
            await leave(self.session)
        self.session, self._moved = forked.session, False
        if self._listeners.callbacks:
            self._listeners.attach(self.session)
            self._listeners.notify(Rewound(self.id, self.session.position))
        return self

    # its certificate and its picture -----------------------------------------------------------

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The proofs made at its start: bounds, limits, assumptions and the version of chartloop.

        It is stored if the journal is a file. None: the run is in memory, has not started, is a
        child (its parent's certificate covers it), or is older than certificates.
        """
        return self._wait(self.acertificate())

    async def acertificate(self) -> Mapping[str, Any] | None:
        """The certificate of the bounds proven at its start; see `certificate`."""
        session = self.session
        if not session.head:
            return None
        text = await stored_certificate(session.journal, session.run_id)
        return None if text is None else json.loads(text)

    def draw(self, *, look: Look = "plain", **options: Unpack[DrawOptions]) -> Picture:
        """The machine's picture with the limits and, depending on `look`, the state of this run.

        The other options are those of `Machine.draw`: ``direction="lr"``.

        `plain` adds nothing. `live` shows where the run is and the path that it took, with counts.
        """
        from chartloop.pictures.live.run_picture import (  # noqa: PLC0415 - few runs are drawn
            Look,
            RunPicture,
        )

        refuse_unknown("look", look, get_args(Look))
        session = self.session
        picture = self.machine.draw(**options, facts=session.position.facts)
        if look == "plain":
            return picture
        stands = status_of if options.get("region") == "status" else standing_of
        return RunPicture(picture.chart, stands(session)).at_scale(options.get("scale", 1.0))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the current picture of the run."""
        from chartloop.pictures.live.bundle import live_bundle  # noqa: PLC0415 - only a notebook asks
        from chartloop.pictures.live.live_picture import LivePicture  # noqa: PLC0415

        chart = self.draw().chart
        if self._painter is None or self._painter.chart != chart:
            self._painter = LivePicture(chart)
        standing = standing_of(self.session)
        bundle = live_bundle(self._painter, standing)
        if "text/html" in bundle:
            return bundle | {"image/svg+xml": self._painter.svg(standing), "text/plain": repr(self)}
        return bundle

    # sync and async -------------------------------------------------------------------------

    def prepare(self) -> None:
        """Load and check what driving the run needs, now instead of when it is first driven.

        A model's library may take many seconds to load. The run is not taken meanwhile: others may
        drive it. `SetupError` for what is missing.
        """
        return self._wait(self.aprepare())

    async def aprepare(self) -> None:
        """Load and check what driving the run needs; see `prepare`."""
        if self._prepare is not None:
            if running_loop() is not None and self.suspends:  # it drives other runs, with leases
                await off_loop(self._prepare)
            else:
                self._prepare()
            self._prepare = None

    @property
    def suspends(self) -> bool:
        """Whether driving this run may yield to the event loop."""
        return self._ways()[0]

    def _ways(self) -> tuple[bool, bool]:
        """Whether driving it may suspend, and whether calls in other threads alone do."""
        known = self._suspends
        if known is None or known[0] is not self.session or self._prepare is not None:
            session, yields = self.session, suspends(self.session)
            threads = yields and not suspends(session, threads=False)
            known = self._suspends = (session, yields, threads)
        return known[1:]

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        yields, threads = self._ways()
        # the journal may be another one by now: the command line gives its own to a run
        if threads and not self.session.journal.suspends and not on_loop_thread():
            return on_worker(coroutine)
        return wait(coroutine, suspends=yields)

    async def _ready(self) -> None:
        """Prepare to drive the run: load its components; move it if it is another machine's."""
        await self.aprepare()
        await self._move()
        self._listeners.attach(self.session)
        self.session.breakpoints = self.breakpoints

    async def _move(self) -> None:
        """Continue a run of another machine as a new one under this one."""
        if not self._moved:
            return
        self.session = await move_session(
            self.session, run_id=new_run_id(), machine=self.machine.canonical()
        )
        self._moved = False


def new_run_id() -> str:
    """A new run id: 12 random letters and digits."""
    return "".join([_LETTERS[byte % 32] for byte in secrets.token_bytes(12)])


_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


Callback = Callable[[Event], None]
_log = logging.getLogger(__name__)


class Listeners:
    """The listeners of one run. They receive its events, and cannot change it."""

    def __init__(self) -> None:
        self.callbacks: tuple[Callback, ...] = ()
        """The callbacks, in the order in which they were added."""

    def remove(self, callback: Callback) -> None:
        """Stop calling back."""
        self.callbacks = tuple(c for c in self.callbacks if c is not callback)

    def attach(self, session: Session) -> None:
        """Receive the events of this session, unless another listener is in place."""
        if session.listener == self.notify:
            session.listener = None
        if self.callbacks and session.listener is None:
            session.listener = self.notify

    def notify(self, event: Event) -> None:
        """Pass an event to every callback. One that raises is removed: it must not fail the run."""
        for callback in self.callbacks:
            try:
                callback(event)
            except Exception:  # noqa: BLE001  whatever it is, the run is not to blame
                _log.exception("a listener raised and is not called again: %r", callback)
                self.remove(callback)
