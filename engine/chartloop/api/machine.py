"""The public `Machine`: a compiled chart that can be started, checked, bounded and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args

from chartloop import catalog
from chartloop.actions import builtin, own_sources, with_own
from chartloop.actions.declare import specs_of
from chartloop.actions.undeclared import own_upkeep, used_plugins
from chartloop.adapters.journal.opening import JournalOrPath, journal_of
from chartloop.analysis.checker.notes import notes_of
from chartloop.analysis.proofs.bound import Assume
from chartloop.api.bounds import Bounds
from chartloop.api.caller_values import (
    checked_memory,
    checked_values,
    first_tasks,
    history,
    own_metadata,
    refuse_undeclared,
)
from chartloop.api.continuing import (
    CarriedOver,
    DetachedRun,
    carry_over,
    machine_changed_error,
    open_sibling,
    take_up,
)
from chartloop.api.drawn import DrawnAnswer, DrawnBound, DrawnQuestions, arrange_chart
from chartloop.api.plugins import recall_plugins, refuse_missing
from chartloop.api.run import Run, StartOptions, new_run_id
from chartloop.api.wiring import PortOptions, make_ports, prepare, suspends
from chartloop.core.errors import Finding, Findings, RunError, SetupError, SpecError, refuse_unknown
from chartloop.core.facts import Facts
from chartloop.core.outcome import Message
from chartloop.core.person_names import person_name
from chartloop.core.records import Input
from chartloop.core.version import __version__
from chartloop.language.dump import canonical
from chartloop.language.load import load as load_text
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.graph import graph, region_graph
from chartloop.pictures.flowchart import Direction, RuleDrawing
from chartloop.run.journal import MemoryJournal, RunRow, digest, direct_journal
from chartloop.run.journal_records import LISTED, PRIORITY, check_priority
from chartloop.run.media import split_task
from chartloop.run.migrate import moved_before
from chartloop.run.result import Result
from chartloop.run.session import IfExists, Session, start_data
from chartloop.run.sync import off_loop, wait
from chartloop.run.tenants import in_tenant, refuse_stranger, tenant_of

if TYPE_CHECKING:
    from chartloop.pictures.picture import Picture


@cache
def lifecycle() -> MachineSpec:
    """The machine of the status region, from `machines/lifecycle.yaml`."""
    path = catalog.shipped_machines()["lifecycle"]
    loaded = load_text(catalog.read_text(path), path.name, builtin())
    if loaded.spec is None or not loaded.ok:
        raise SpecError(loaded.findings)
    return loaded.spec


class Machine:
    """A compiled machine: start it, run it, check it, draw it.

        machine = load("agent")
        result = machine.run("What is 2 + 2?", script=["4"])
        machine.draw().save("agent.svg")

    Immutable, and shared by all its runs and by threads. It pickles as its canonical text, with
    its own tools, actions and guards by name.
    """

    def __init__(
        self, chart: Chart, findings: tuple[Finding, ...] = (), folder: Path | None = None
    ) -> None:
        self.chart = chart
        self.findings = findings
        """The warnings of the file; it has no errors."""
        self.folder = folder
        self._hash = ""
        self._bounds = Bounds(self)

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.chart.name

    @property
    def spec(self) -> MachineSpec:
        """The content of the file."""
        return self.chart.spec

    @property
    def hash(self) -> str:
        """The hash of the canonical text: the same for files that mean the same."""
        if not self._hash:
            self._hash = digest(self.canonical())
        return self._hash

    def canonical(self) -> str:
        """The canonical text, one line of JSON. Journals store it; `hash` is its hash."""
        return self.chart.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        """The notebook view: the picture; a terminal shows the summary."""
        bundle = self.draw()._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
        return bundle | {"text/plain": repr(self)} if "image/svg+xml" in bundle else bundle

    def __repr__(self) -> str:
        return f"<Machine {self.name}: {len(self.spec.states)} states, {self.hash[:8]}>"

    def __copy__(self) -> Machine:
        return self

    def __deepcopy__(self, memo: object) -> Machine:
        return self

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        own = own_sources(self.spec.registry)
        return (_from_canonical, (self.canonical(), own, self.findings, self.folder))

    def check(self) -> Findings:
        """The findings of the file, and its `notes`: facts worth knowing before a run.

        The findings are warnings: a file with errors does not load.
        """
        return Findings(self.findings, notes_of(self.chart))

    def draw(
        self, *, rules: RuleDrawing = "box", all: bool = False, region: str = "state",
        direction: Direction = "tb", around: str | None = None, hops: int = 1, scale: float = 1.0,
        facts: Facts | None = None,
    ) -> Picture:  # fmt: skip
        """The flowchart of the live machine.

        `rules`: one dashed `box`, a `chain` of decisions, or `none`. `all` includes the edges that
        the engine adds. `region` is ``state`` or ``status``. Labels show the limits of `facts`.

        `direction`: down (``tb``) or to the right (``lr``); the picture in characters always goes
        down. `around` shows only the boxes at most `hops` arrows away from a state, and how many
        are hidden: for a machine that is too large to read whole. `RunError` if the picture has no
        such state. `scale`: how many times the pixels a PNG has each way; 2 for a sharp screen.
        """
        from chartloop.pictures.from_graph import flowchart  # noqa: PLC0415 - few runs are drawn
        from chartloop.pictures.picture import Picture  # noqa: PLC0415

        refuse_unknown("way to draw rules", rules, get_args(RuleDrawing))
        refuse_unknown("region", region, ("state", "status"))
        if region == "status":
            status = Chart(lifecycle())
            live = region_graph(status, self.chart.status, status.position("").facts)
            chart = flowchart(live, rules="none")
        else:
            chart = flowchart(graph(self.chart, facts=facts, engine=all), rules=rules, all=all)
        return Picture(arrange_chart(chart, direction, around, hops)).at_scale(scale)

    def bound(
        self, *, limits: Mapping[str, Any] | None = None, vars: Mapping[str, Any] | None = None,
        assume: Assume | None = None, effort: int = 0,
    ) -> DrawnBound:  # fmt: skip
        """The worst that a run can cost: actions, model and tool calls, tokens, USD, waiting.

        `limits` and `vars` are those of the run, as for `start`. `assume` holds assumptions about
        the model and its replies that the file does not state. `draw()` of the result shows the
        run that reaches a figure. `effort`: the most steps that the proof may take, by default
        6,000,000.
        """
        return self._bounds.of(*checked_values(self.spec, limits, vars), assume, effort=effort)

    def questions(self, *, limits: Mapping[str, Any] | None = None) -> DrawnQuestions:
        """The machine prepared for many queries: its graph is built once. See `query`."""
        return DrawnQuestions(self, checked_values(self.spec, limits, None)[0])

    def query(self, text: str, *, cancels: bool = True) -> DrawnAnswer:
        """Whether runs can or never take a path: ``machine.query("never publish before approve")``.

        ``"each tool:refund after its own accept"`` asks whether a person accepted each call.
        The answer holds for every limit and variable. `cancels`: a stop from outside may come at
        any moment. `draw()` of the answer shows the witness. Raises `QueryFault` for a query that
        does not fit this machine.
        """
        return self.questions().ask(text, cancels=cancels)

    def start(  # noqa: PLR0913  each is one thing that a caller may say
        self,
        task: str | Sequence[Any] = "",
        *,
        limits: Mapping[str, Any] | None = None,
        vars: Mapping[str, Any] | None = None,
        memory: Mapping[str, str] | None = None,
        messages: Sequence[Message] = (),
        tasks: Sequence[Any] | None = None,
        continues: Run | str | None = None,
        branch: bool = False,
        start: str = "",
        journal: JournalOrPath | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        submitter: str = "",
        tenant: str | None = None,
        priority: int | None = None,
        require_bound: Mapping[str, float] | None = None,
        if_exists: IfExists = "refuse",
        **ports: Unpack[PortOptions],
    ) -> Run:
        """A new run, before its first record. Step it, or run it.

        `task` is a text, or a list of texts, `Image`s and `File`s.

        `limits`, `vars`, `memory` and `tasks` replace those of the file (a task is a text, or a
        mapping); `messages` are a conversation to continue. `continues` is a run that has ended,
        or the id of one in `journal`, and `start` a state that the file lists under `resume_at`, at
        which it goes on: conversation, memory, variables, agent and session are
        carried over unless given here, and counters start at zero. A run has one next message in a
        session, unless this one starts a `branch`: a second one is refused when it is driven, with
        a `FollowedError`. `journal` is the path of a
        SQLite file, created if missing, or an open journal; by default that of `continues`, else
        one in memory. With ``durability="power"`` the run survives the loss of power.

        `metadata` is JSON data about this run, which overrides the file's: `Run.metadata`,
        `Result.metadata`. `submitter` is who submits the run: a gate with `not_by: submitter` takes
        no `accept` from the same person. `tenant` is whose run it is: its id is then
        ``TENANT:RUN_ID``, and a server shows it to that tenant only. `priority` is when workers
        take the run up, of all that are due: 1 first, 9 last, by default 5. A run has the tenant
        and the priority of the one that it `continues`.

        `model` is a litellm model name or any object with the `Model` port, `settings` override
        the file's `model`, and `script` gives scripted replies instead; for the other components
        see `PortOptions`.

        `require_bound` names figures that no run may exceed, ``{"usd": 2, "calls": 30}``: if
        `bound` cannot prove that, the run is not started.

        `if_exists` says what the first step does if the journal has a run of that `run_id` and this
        machine, whoever began it: "refuse" raises `RunError`, "use" continues that run.

        Raises:
            SetupError: for what would fail later: no model, no key, a missing extra, messages
                that are not a conversation.
            LimitError: a limit, variable, memory block or setting does not exist, cannot have
                this value, or is none of the file's `inputs`.
            TaskError: a task is invalid.
            SpecError: the file that the machine's `tasks` name cannot be read.
            StatusError: `continues` has not ended.
            RunError: it may not begin at the state `start`, or the file says `continues: never`.
            MachineChangedError: the run of `continues`, given by its id, is of another machine.
        """
        text, files = split_task(task)
        past, parent, rank = CarriedOver(), "", PRIORITY
        if continues is not None:
            before = self._earlier(continues, journal)
            past, parent = carry_over(self.spec, before.session), before.id
            rank = before.session.row.priority
            journal = journal or before.session.journal
        run_id = in_tenant(tenant or tenant_of(parent), run_id or new_run_id())
        refuse_stranger(run_id, parent)
        rank = check_priority(rank if priority is None else priority)
        opened = self._session(run_id, MemoryJournal() if journal is None else journal, ports)
        spec, made = self.spec, opened.ports
        refuse_undeclared(
            spec, vars, memory, task=text or files, messages=messages, tasks=tasks
        )  # fmt: skip
        first_limits, first_vars = checked_values(spec, limits, vars)
        bounded = {"limits": first_limits, "vars": {**past.vars, **first_vars}}
        queue = first_tasks(spec, self.folder or Path(), tasks)
        data = start_data(
            task=text,
            agent=agent or past.agent or spec.agent,
            session=session or past.session,
            memory={**past.memory, **checked_memory(spec, memory)},
            **bounded,
            messages=history(messages) or past.messages,
            context_window=made.window(spec),
            files=files,
            tasks=[task.to_dict() for task in queue],
            start=self._entry(start, continued=continues is not None),
            metadata=own_metadata(metadata),
            plugins=used_plugins(spec, [str(made.settings.get("name", ""))]),
            submitter=person_name(submitter, "`submitter`"),
        )
        # refuse a run that would fail later, or that might exceed the required bounds
        for child in (part for part in spec.family() if part is not spec):
            made.first_tasks(child)
        if require_bound:
            self._bounds.require(require_bound, made, **bounded)
        prepare(spec, made, queue)
        at = made.clock.now()
        opened.row = RunRow(
            opened.run_id, self.name, self.hash, state=start or spec.start,
            agent=data.get("agent", ""), session=data.get("session", ""), created=at, updated=at,
            parent=parent, follows="next" if parent and not branch else "", priority=rank,
            task=text[: 8 * LISTED],
        )  # fmt: skip
        opened.begun = Input("start", started=at, at=at, data=data)
        opened.spec_text, opened.if_exists = self.canonical, if_exists
        opened.certify = self._bounds.certificate(made, **bounded)
        return Run(self, opened, given=ports)

    def _entry(self, start: str, *, continued: bool) -> str:
        """The state at which a run begins; empty for the start state."""
        spec = self.spec
        if start in ("", spec.start):
            return ""
        if not continued:
            hint = "`run.next(task, start=...)` continues one; a new one begins at its start"
            raise RunError(f"only a run that continues another begins at `{start}`", hint=hint)
        if start not in spec.resume_at:
            listed = ", ".join(f"`{name}`" for name in spec.resume_at) or "no state"
            raise RunError(
                f"machine `{self.name}` does not let a run begin at `{start}`",
                hint=f"its `resume_at` lists {listed}",
            )
        return start

    def _earlier(self, continues: Run | str, journal: JournalOrPath | None) -> Run:
        """The run to continue."""
        if isinstance(continues, Run):
            return continues
        if journal is None:
            raise SetupError(
                f"no journal was given that holds run `{continues}`",
                hint="give `journal=`, or the run itself as `continues=`",
            )
        return self.open(continues, journal=journal)

    @cached_property
    def _upkeep(self) -> tuple[str, ...]:
        return own_upkeep(self.spec)

    def run(self, task: str | Sequence[Any] = "", **options: Unpack[StartOptions]) -> Result:
        """Start and run to the end, or to where the run waits for a person; see `start`."""
        return self.start(task, **options).run()

    async def arun(self, task: str | Sequence[Any] = "", **options: Unpack[StartOptions]) -> Result:
        """Start and run, inside a running event loop; see `start`."""
        return await self.start(task, **options).arun()

    def open(
        self, run_id: str, *, journal: JournalOrPath, changed: bool = False,
        take_over: bool = False,
        **ports: Unpack[PortOptions],
    ) -> Run:  # fmt: skip
        """A run from the journal, at its current position. Writes nothing until it is driven.

        `journal` is the path of its file, or an open journal. What only driving needs, such as a
        key, is checked when the run is driven: it can be read without.

        A run that was started with another machine is refused, unless `changed` or the file's
        `renamed` declare this one its successor. Then its records are decided again, and must come
        out as recorded. Reading leaves it as it is; when driven, it moves: it continues as a new
        run with another id, since the records of a run belong to one machine. A run moves once: if
        it was moved to this machine before, the run that continues it is opened.

        A run that another process drives can be read; driving it raises `Driven`, which names the
        driver, since when and until when. With `take_over` it is driven here anyway: the other
        driver can write nothing more, and a call that it has in flight may be paid twice.

        Raises:
            UnknownRunError: there is no run with that id, or no such file.
            MachineChangedError: it was started with another machine, or this one decides a
                record differently.
            MovedError: it continues as another run, under another machine than this one. With its
                own machine it can be read; driving it raises this error.
        """
        session = self._session(run_id, journal, ports, make=False)
        driven_through, session.journal = session.journal, direct_journal(session.journal)
        opened = wait(self._open(session, changed), suspends=session.journal.suspends)
        session, other = opened
        session.holder.take_over, session.journal = take_over, driven_through
        return Run(
            self,
            session,
            given=ports,
            prepare=partial(self._prepare_opened, session),
            moved=other,
        )

    def _prepare_opened(self, session: Session) -> None:
        """Check, before a recorded run is driven on, that its plugins and components are there."""
        wanted = recall_plugins(session.journal, session.run_id)
        refuse_missing(session.run_id, wanted, self.spec.registry.plugins)
        prepare(self.spec, session.ports, session.position.queue)

    async def aopen(
        self, run_id: str, *, journal: JournalOrPath, changed: bool = False,
        take_over: bool = False,
        **ports: Unpack[PortOptions],
    ) -> Run:  # fmt: skip
        """A run from the journal; see `open`.

        File and records are read, and decided again, in another thread, so that the event loop
        stays free. It may be cancelled: opening changes nothing.
        """
        return await off_loop(
            lambda: self.open(
                run_id, journal=journal, changed=changed, take_over=take_over, **ports
            )
        )

    async def _open(self, session: Session, accepted: bool) -> tuple[Session, bool]:
        """Fold the run's log; returns it, and whether the run is another machine's.

        A run that was moved to this machine before is opened as its successor.
        """
        row = await session.journal.row(session.run_id)
        other = row is not None and row.machine_hash != self.hash
        if row is not None and other:
            text = await session.journal.blob(row.machine_hash) or ""
            spec = load_text(text, "<canonical>", self.spec.registry).spec
            # an older version may have written the same machine in another way
            other = spec is None or canonical(spec) != self.canonical()
        if row is not None and other and row.moved_to:
            last = await moved_before(session.journal, row, self.hash)
            return await open_sibling(session, last.run_id), False
        if row is not None and other:
            await take_up(session, row, accepted=accepted)
        await session.open(snapshot=not other)
        return session, other

    def attach(
        self, kept: DetachedRun, *, journal: JournalOrPath | None = None, take_over: bool = False,
        **ports: Unpack[PortOptions],
    ) -> Run:  # fmt: skip
        """Restore a pickled run, to be driven on with these components; see `start`.

        `journal` is the one that holds the run; it may be omitted if that was in memory.
        `MachineChangedError` if the run was started with another machine. For this and for
        `take_over` see `open`.
        """
        if kept.begun is not None:
            if kept.row.machine_hash != self.hash:
                raise machine_changed_error(kept.row, self.chart, None)
            run = self.start(run_id=kept.run_id, journal=journal, tasks=(), **ports)
            run.session.begun, run.session.row = kept.begun, kept.row
            return run
        if journal is None and not kept.logs:
            raise SetupError(
                f"the log of run `{kept.run_id}` is not part of what was pickled",
                hint="give the journal that holds it: `journal=`",
            )
        where = journal or kept.journal()
        return self.open(kept.run_id, journal=where, take_over=take_over, **ports)

    def _session(
        self, run_id: str, journal: JournalOrPath, ports: PortOptions, *, make: bool = True
    ) -> Session:
        """A session with its components. `make` creates the journal's file if it is missing.

        On an event loop the appends of one tick share a transaction. `RunError` for an unknown
        option: a misspelt `limits` would leave a run without them.
        """
        for name in ports.keys() - PortOptions.__annotations__.keys():
            refuse_unknown("option", name, StartOptions.__annotations__)
        opened = journal_of(
            journal, make=make, durability=ports.get("durability"),
            plugins=self.spec.registry.plugins,
        )  # fmt: skip
        session = Session(self.chart, opened, run_id, make_ports(self.spec, self.folder, ports))
        session.engine, session.upkeep = __version__, self._upkeep
        cancel = ports.get("cancel")
        session.cancels = [cancel] if cancel is not None else []
        if suspends(session):
            session.journal = getattr(opened, "grouped", opened)
        return session


def _from_canonical(
    text: str, own: tuple[object, ...], findings: tuple[Finding, ...], folder: Path | None
) -> Machine:
    loaded = load_text(text, "<canonical>", with_own(specs_of(*own)))
    if loaded.spec is None:
        raise SpecError(loaded.findings)
    return Machine(Chart(loaded.spec, lifecycle()), findings, folder)
