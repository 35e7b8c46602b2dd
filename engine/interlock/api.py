"""The composition root: the public `Machine` and `Run`, and what is wired behind them.

Everything else in the package is a part; here the parts become one thing to use:

    machine = load("agent")
    run = machine.start("What is 2 + 2?", script=[{"text": "4"}])
    print(run.run().explain())
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from interlock import catalog
from interlock.actions import builtin, with_own
from interlock.actions.declare import specs_of
from interlock.adapters.clock import SystemClock
from interlock.adapters.notify import LogNotifier
from interlock.checker import check as check_chart
from interlock.core.errors import (
    AnswerError,
    Finding,
    LimitError,
    RunError,
    SetupError,
    SpecError,
    StatusError,
    nearest,
)
from interlock.core.facts import Facts
from interlock.core.outcome import Message, Outcome
from interlock.core.records import Input, Record
from interlock.core.specs import ActionSpec, GuardSpec, Registry, ToolSpec
from interlock.core.types import accepts
from interlock.language.dump import canonical, hash_of
from interlock.language.load import load as load_text
from interlock.language.parts import coerce
from interlock.language.spec import MachineSpec
from interlock.machine.build import Chart
from interlock.machine.explain import Explanation
from interlock.machine.graph import graph, region_graph
from interlock.run.context import Ports
from interlock.run.events import Event as StreamEvent
from interlock.run.journal import Journal, Letter, MemoryJournal, RunRow
from interlock.run.loop import advance, drive
from interlock.run.ports import Cancel, Clock, Model, Notifier, Sandbox, Tokenizer
from interlock.run.replay import Replay, replay, why
from interlock.run.result import Result, result_of
from interlock.run.session import Session, start_data
from interlock.run.stream import astream, stream
from interlock.run.sync import by_hand, wait
from interlock.view.flowchart import RuleDrawing
from interlock.view.from_graph import flowchart
from interlock.view.picture import Picture

Own = Iterable[Any]
"""Tools, actions or guards: decorated functions, their specs, or modules that hold them."""


@cache
def lifecycle() -> MachineSpec:
    """The machine of the status region, from `machines/lifecycle.yaml`."""
    path = catalog.shipped()["lifecycle"]
    loaded = load_text(catalog.read_text(path), path.name, builtin())
    if loaded.spec is None or not loaded.ok:
        raise SpecError(loaded.findings)
    return loaded.spec


def _registry(tools: Own, actions: Own, guards: Own) -> Registry:
    own = specs_of([*tools, *actions, *guards])
    return with_own(own)


def find_faults(
    source: str | Path, *, tools: Own = (), actions: Own = (), guards: Own = (),
    define: Mapping[str, str] | None = None,
) -> tuple[Machine | None, tuple[Finding, ...]]:  # fmt: skip
    """A machine and everything that is wrong with it, errors and warnings, sorted by place.

    The machine is None when there is an error. See `load` for the arguments.
    """
    text, name, folder = _text_of(source)
    registry = _registry(tools, actions, guards)
    loaded = load_text(text, name, registry, define=define)
    if loaded.spec is None:
        return None, loaded.findings
    chart = Chart(loaded.spec, lifecycle())
    findings = [*loaded.findings, *check_chart(chart, loaded.tainted)]
    findings = sorted(
        {f for f in findings if not _ignored(loaded.spec, f)},
        key=lambda f: (f.place.file, f.place.line, f.place.column, f.code),
    )
    if any(f.is_error for f in findings):
        return None, tuple(findings)
    return Machine(chart, tuple(findings), folder), tuple(findings)


def _ignored(spec: MachineSpec, found: Finding) -> bool:
    return any(i.code == found.code and found.at.startswith(i.at) for i in spec.ignore)


def _text_of(source: str | Path) -> tuple[str, str, Path | None]:
    if isinstance(source, str) and "\n" in source:
        return source, "<text>", None
    path = catalog.find(source)
    shown = os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
    return catalog.read_text(path), shown, path.parent


def load(
    source: str | Path, *, tools: Own = (), actions: Own = (), guards: Own = (),
    define: Mapping[str, str] | None = None,
) -> Machine:  # fmt: skip
    """A machine from a file.

    `source` is a path, the name of a shipped machine, or YAML text with a newline in it.
    `tools`, `actions` and `guards` are what the file may name besides the built-in ones;
    `define` replaces named expressions of the file. Raises `SpecError` with every finding when
    the file has an error; warnings are in `Machine.findings`.
    """
    machine, findings = find_faults(
        source, tools=tools, actions=actions, guards=guards, define=define
    )
    if machine is None:
        raise SpecError(findings)
    return machine


def check(
    source: str | Path | Machine, *, tools: Own = (), actions: Own = (), guards: Own = ()
) -> tuple[Finding, ...]:
    """Everything that is wrong with a file, or with a machine's; nothing is run."""
    if isinstance(source, Machine):
        return source.findings
    return find_faults(source, tools=tools, actions=actions, guards=guards)[1]


def draw(source: str | Path | Machine, **options: Any) -> Picture:
    """The picture of a machine or file; see `Machine.draw`."""
    return (source if isinstance(source, Machine) else load(source)).draw(**options)


class Machine:
    """A compiled machine: start it, run it, check it, draw it.

    Immutable, and shared by all its runs and by threads. It pickles as its canonical text.
    """

    def __init__(
        self, chart: Chart, findings: tuple[Finding, ...] = (), folder: Path | None = None
    ) -> None:
        self.chart = chart
        self.findings = findings
        """Warnings that the file loads with."""
        self.folder = folder
        self._hash = ""

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.chart.name

    @property
    def spec(self) -> MachineSpec:
        """What the file says."""
        return self.chart.spec

    @property
    def hash(self) -> str:
        """The hash of the canonical text: the same for files that mean the same."""
        if not self._hash:
            self._hash = hash_of(self.spec)
        return self._hash

    def __repr__(self) -> str:
        return f"<Machine {self.name}: {len(self.spec.states)} states, {self.hash[:8]}>"

    def __reduce__(self) -> tuple[Any, tuple[str, Registry]]:
        return (_from_canonical, (canonical(self.spec), self.spec.registry))

    def check(self) -> tuple[Finding, ...]:
        """The findings of the file; there are no errors among them, or it would not have loaded."""
        return self.findings

    def draw(
        self, *, rules: RuleDrawing = "box", all: bool = False, region: str = "state",
        facts: Facts | None = None,
    ) -> Picture:  # fmt: skip
        """The flowchart of the live machine.

        `rules`: one dashed `box`, a `chain` of decisions, or `none`. `all` shows what the engine
        adds. `region` is ``state`` or ``status``. Labels show the limits of `facts`.
        """
        if region == "status":
            lifecycle = Chart(lifecycle())
            live = region_graph(lifecycle, self.chart.status, lifecycle.position("").facts)
            return Picture(flowchart(live, rules="none"))
        return Picture(flowchart(graph(self.chart, facts=facts, engine=all), rules=rules, all=all))

    def start(
        self, task: str = "", *, model: Model | str | None = None, script: Any = None,
        limits: Mapping[str, Any] | None = None, vars: Mapping[str, Any] | None = None,
        messages: Sequence[Message] = (), journal: Journal | None = None, clock: Clock | None = None,
        cancel: Cancel | None = None, run_id: str | None = None, agent: str | None = None,
        session: str | None = None, sandbox: Sandbox | None = None, notifier: Notifier | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> Run:  # fmt: skip
        """A run at its very beginning: nothing has been decided yet. Step it, or run it.

        `model` is a litellm model name or anything that honours the `Model` port; `script` gives
        scripted replies instead. `limits` and `vars` replace the file's values. The journal is
        in memory unless one is given. Raises `SetupError` for what would fail later: no model,
        no key, an extra that is not installed.
        """
        run_id = run_id or new_run_id()
        ports = self._ports(model, script, clock, sandbox, notifier, tokenizer)
        made = Session(self.chart, journal or MemoryJournal(), run_id, ports)
        made.cancels = [cancel] if cancel is not None else []
        window = ports.model.context_window(self.spec.model) if ports.model is not None else None
        data = start_data(
            task=task, agent=agent or self.spec.agent, session=session or "",
            limits=self._limits(limits or {}), vars=self._vars(vars or {}),
            messages=[dict(m) for m in messages], context_window=window,
            tasks=[{**t._asdict(), "by": dict(t.by)} for t in self.chart.tasks()],
        )  # fmt: skip
        at = ports.clock.now()
        made.begun = Input("start", started=at, at=at, data=data)
        made.row = RunRow(
            run_id, self.name, self.hash, status="idle", state=self.spec.start,
            agent=agent or self.spec.agent, session=session or "", created=at, updated=at,
        )  # fmt: skip
        made.spec_text = lambda: canonical(self.spec)
        return Run(self, made)

    def run(self, task: str = "", **options: Any) -> Result:
        """Start and run to the end, or to where the run waits for somebody; see `start`."""
        return self.start(task, **options).run()

    async def arun(self, task: str = "", **options: Any) -> Result:
        """The same inside a running event loop."""
        return await self.start(task, **options).arun()

    def open(
        self, run_id: str, *, journal: Journal, model: Model | str | None = None, script: Any = None,
        clock: Clock | None = None, cancel: Cancel | None = None, sandbox: Sandbox | None = None,
        notifier: Notifier | None = None, tokenizer: Tokenizer | None = None,
    ) -> Run:  # fmt: skip
        """A run that is in the journal, where it stands. Nothing is written until it is driven."""
        ports = self._ports(model, script, clock, sandbox, notifier, tokenizer, lenient=True)
        made = Session(self.chart, journal, run_id, ports)
        made.cancels = [cancel] if cancel is not None else []
        wait(made.open(), suspends=journal.suspends)
        return Run(self, made)

    # wiring ---------------------------------------------------------------------------------

    def _ports(
        self, model: Model | str | None, script: Any, clock: Clock | None, sandbox: Sandbox | None,
        notifier: Notifier | None, tokenizer: Tokenizer | None, *, lenient: bool = False,
    ) -> Ports:  # fmt: skip
        clock = clock or SystemClock()
        uses = {u for s in self.spec.states.values() if s.action is not None for u in s.action.uses}
        made = Ports(clock, None, sandbox, notifier, tokenizer, folder=self.folder)
        if isinstance(model, str):
            made.settings = {"name": model}
        if "model" in uses:
            made.model = self._model(model, script, clock, lenient=lenient)
        if "sandbox" in uses and sandbox is None:
            made.sandbox = _sandbox()
        if notifier is None:
            made.notifier = LogNotifier()
        if not lenient:
            self._whole()
        return made

    def _whole(self) -> None:
        later = [
            s.name
            for s in self.spec.states.values()
            if s.action is not None and s.action.run is None
        ]
        if later:
            action = self.spec.states[later[0]].action
            raise SetupError(
                f"`{later[0]}` does `{action.name if action else ''}`, which this version does not carry out",
                hint="the file can be checked, drawn and reviewed; it cannot be run yet",
            )

    def _model(
        self, model: Model | str | None, script: Any, clock: Clock, *, lenient: bool
    ) -> Model | None:
        from interlock.adapters.scripted import Scripted

        if script is not None:
            return script if isinstance(script, Scripted) else Scripted(script, clock=clock)
        if model is not None and not isinstance(model, str):
            model.prepare(self.spec.model)
            return model
        settings = {**self.spec.model, **({"name": model} if isinstance(model, str) else {})}
        name = settings.get("name", "")
        if not name or name == "scripted":
            if lenient:
                return None
            what = "names no model" if not name else "is scripted"
            raise SetupError(
                f"machine `{self.name}` {what}",
                hint="give `model=` or `script=` (`--model NAME` or `--script FILE`)",
            )
        from interlock.adapters.litellm import LiteLLM

        made = LiteLLM()
        if not lenient:
            made.prepare(settings)
        return made

    def _limits(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {n: limit_value(self.spec, n, v) for n, v in given.items()}

    def _vars(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {n: var_value(self.spec, n, v) for n, v in given.items()}


def _from_canonical(text: str, registry: Registry) -> Machine:
    loaded = load_text(text, "<canonical>", registry)
    if loaded.spec is None:
        raise SpecError(loaded.findings)
    return Machine(Chart(loaded.spec, lifecycle()))


def _sandbox() -> Sandbox:
    from interlock.adapters.monty import MontySandbox

    return MontySandbox()


def new_run_id() -> str:
    """A new run's id: 12 letters and digits at random."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    return "".join(secrets.choice(alphabet) for _ in range(12))


def limit_value(spec: MachineSpec, name: str, value: Any) -> Any:
    """A value for a limit, checked. `LimitError` when it does not fit; None switches it off."""
    limit = spec.limits.get(name)
    if limit is None:
        raise LimitError(
            f"machine `{spec.name}` has no limit `{name}`", hint=nearest(name, spec.limits)
        )
    if value is None or value == "off":
        if not limit.type.nullable:
            raise LimitError(
                f"limit `{name}` cannot be switched off",
                hint=f"declare it as `{{type: {limit.type}, value: ...}}`",
            )
        return None
    fits, made = coerce(limit.type, value)
    if not fits or (limit.type.nonneg and isinstance(made, (int, float)) and made < 0):
        raise LimitError(f"limit `{name}` is {limit.type.known()}: `{value}` is none")
    return made


def var_value(spec: MachineSpec, name: str, value: Any) -> Any:
    """A value for a variable, checked. `LimitError` when it does not fit."""
    var = spec.vars.get(name)
    if var is None:
        raise LimitError(
            f"machine `{spec.name}` has no variable `{name}`", hint=nearest(name, spec.vars)
        )
    fits, made = (True, value) if accepts(var.type, value) else coerce(var.type, value)
    if not fits:
        raise LimitError(f"variable `{name}` is {var.type}: `{value}` is none")
    return tuple(made) if isinstance(made, list) else made  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


class Run:
    """One execution of a machine.

    Every method has a sync face and, with an ``a`` before its name, an async one; both work
    inside a running event loop.
    """

    def __init__(self, machine: Machine, session: Session) -> None:
        self.machine = machine
        self.session = session

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
        return f"<Run {self.id} of {self.machine.name}: {self.status} at {self.state}, {self.facts.run.steps} steps>"

    # going on -------------------------------------------------------------------------------

    def step(self) -> Record | None:
        """One record: start, or do the action at hand. None when it has ended or waits."""
        return self._wait(self.astep())

    async def astep(self) -> Record | None:
        """One record: start, or do the action at hand. None when it has ended or waits."""
        return await advance(self.session)

    def run(self) -> Result:
        """On to the end, or to where the run waits for somebody."""
        return self._wait(self.arun())

    async def arun(self) -> Result:
        """On to the end, or to where the run waits for somebody."""
        await drive(self.session)
        return self.result

    def stream(self) -> Iterator[StreamEvent]:
        """Run, and give typed events as they happen. Leaving the loop cancels cooperatively."""
        return stream(self.session, suspends=self.suspends)

    def astream(self) -> AsyncIterator[StreamEvent]:
        """Run, and give typed events as they happen. Leaving the loop cancels cooperatively."""
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
        """Change a limit or variable by hand: ``run.set("limits.tokens", 5000)``. Recorded as an edit."""
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
        new_id = run_id or new_run_id()
        row = old.row._replace(
            run_id=new_id, epoch=0, created=old.ports.clock.now(), updated=old.ports.clock.now()
        )
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

    def draw(self, **options: Any) -> Picture:
        """The machine's picture with this run's limits."""
        return self.machine.draw(facts=self.facts, **options)

    # faces ----------------------------------------------------------------------------------

    @property
    def suspends(self) -> bool:
        """Whether driving this run may give the event loop away."""
        return suspends(self.session)

    def _wait(self, coroutine: Any) -> Any:
        return wait(coroutine, suspends=self.suspends) if self.suspends else by_hand(coroutine)


def suspends(session: Session) -> bool:
    """Whether anything that a run may do gives the event loop away."""
    ports, spec = session.ports, session.chart.spec
    if session.journal.suspends:
        return True
    for state in spec.states.values():
        action = state.action
        if action is None:
            continue
        if (
            action.suspends
            or (state.retry is not None and ports.clock.suspends)
            or (action.name == "back_off" and ports.clock.suspends)
        ):
            return True
        if "model" in action.uses and ports.model is not None and ports.model.suspends:
            return True
        if "sandbox" in action.uses and ports.sandbox is not None and ports.sandbox.suspends:
            return True
    return False


def check_answer(session: Session, event: str, data: Mapping[str, Any]) -> None:
    """`AnswerError` unless the wait at hand takes this event with this data."""
    position, chart = session.position, session.chart
    if position.blocked_on == "in-doubt":
        if event not in ("retry", "fail"):
            raise AnswerError(
                f"`{event}` is no answer to a call in doubt", hint="answer `retry` or `fail`"
            )
        return
    known = {e.trigger for e in chart.spec.edges() if e.role == "on"}
    if position.state not in chart.waiting:
        if event in known and not position.ended:
            return
        raise AnswerError(
            f"the run waits for nothing: it is {position.status} at `{position.state}`"
        )
    taken = chart.events_at(position.state)
    if event not in taken:
        raise AnswerError(
            f"`{position.state}` does not take `{event}`",
            hint=f"it takes {', '.join(f'`{e}`' for e in taken)}",
        )
    edge = next(e for e in chart.spec.states[position.state].edges_of("on") if e.trigger == event)
    fields = dict(edge.data)
    for name in data:
        if fields and name not in fields:
            raise AnswerError(f"`{event}` has no field `{name}`", hint=nearest(name, fields))
    for name, type in fields.items():
        if name not in data:
            raise AnswerError(f"`{event}` needs `{name}` ({type})")
        if not accepts(type, data[name]):
            raise AnswerError(f"`{name}` of `{event}` is {type}: `{data[name]}` is none")


__all__ = [
    "ActionSpec", "GuardSpec", "Machine", "Outcome", "Own", "Run", "ToolSpec", "check", "draw",
    "find_faults", "limit_value", "load", "new_run_id", "suspends", "var_value",
]  # fmt: skip
