"""The public `Machine`, and how one is made from a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Unpack

from interlock import catalog
from interlock.actions import builtin, own_sources, with_own
from interlock.actions.declare import specs_of
from interlock.api.detached import DetachedRun
from interlock.api.run import Run, new_run_id
from interlock.api.values import limit_value, var_value
from interlock.api.wiring import PortOptions, make_ports, prepare, suspends, window_of
from interlock.checker import check as check_chart
from interlock.core.errors import Finding, MachineChangedError, SetupError, SpecError
from interlock.core.facts import Facts
from interlock.core.outcome import Message
from interlock.core.records import Input
from interlock.core.specs import Own, Registry
from interlock.language.dump import canonical
from interlock.language.load import load as load_text
from interlock.language.spec import MachineSpec
from interlock.machine.build import Chart
from interlock.machine.graph import graph, region_graph
from interlock.run.journal import Journal, MemoryJournal, RunRow, digest
from interlock.run.result import Result
from interlock.run.session import Session, start_data
from interlock.run.sync import wait
from interlock.view.flowchart import RuleDrawing
from interlock.view.from_graph import flowchart
from interlock.view.picture import Picture


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
        self._text = self._hash = ""

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
            self._hash = digest(self._canonical())
        return self._hash

    def _canonical(self) -> str:
        if not self._text:
            self._text = canonical(self.spec)
        return self._text

    def __repr__(self) -> str:
        return f"<Machine {self.name}: {len(self.spec.states)} states, {self.hash[:8]}>"

    def __reduce__(self) -> tuple[Any, tuple[str, tuple[object, ...]]]:
        return (_from_canonical, (self._canonical(), own_sources(self.spec.registry)))

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
            status = Chart(lifecycle())
            live = region_graph(status, self.chart.status, status.position("").facts)
            return Picture(flowchart(live, rules="none"))
        return Picture(flowchart(graph(self.chart, facts=facts, engine=all), rules=rules, all=all))

    def start(
        self,
        task: str = "",
        *,
        limits: Mapping[str, Any] | None = None,
        vars: Mapping[str, Any] | None = None,
        messages: Sequence[Message] = (),
        journal: Journal | None = None,
        run_id: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        **ports: Unpack[PortOptions],
    ) -> Run:
        """A run at its very beginning: nothing has been decided yet. Step it, or run it.

        `limits` and `vars` replace the file's values; `messages` are a conversation to go on
        with. The journal is in memory unless one is given. `model` is a litellm model name or
        anything that honours the `Model` port, `script` gives scripted replies instead; for the
        other components see `PortOptions`. Raises `SetupError` for what would fail later: no
        model, no key, an extra that is not installed.
        """
        spec = self.spec
        made = self._session(run_id or new_run_id(), journal or MemoryJournal(), ports)
        prepare(spec, made.ports)
        data = start_data(
            task=task, agent=agent or spec.agent, session=session or "",
            limits={n: limit_value(spec, n, v) for n, v in (limits or {}).items()},
            vars={n: var_value(spec, n, v) for n, v in (vars or {}).items()},
            messages=[dict(m) for m in messages], context_window=window_of(spec, made.ports),
            tasks=[{**t._asdict(), "by": dict(t.by)} for t in self.chart.tasks()],
        )  # fmt: skip
        at = made.ports.clock.now()
        made.begun = Input("start", started=at, at=at, data=data)
        made.row = RunRow(
            made.run_id, self.name, self.hash, state=spec.start, agent=agent or spec.agent,
            session=session or "", created=at, updated=at,
        )  # fmt: skip
        made.spec_text = self._canonical
        return Run(self, made)

    def run(self, task: str = "", **options: Any) -> Result:
        """Start and run to the end, or to where the run waits for somebody; see `start`."""
        return self.start(task, **options).run()

    async def arun(self, task: str = "", **options: Any) -> Result:
        """The same inside a running event loop."""
        return await self.start(task, **options).arun()

    def open(self, run_id: str, *, journal: Journal, **ports: Unpack[PortOptions]) -> Run:
        """A run that is in the journal, where it stands. Nothing is written until it is driven.

        `UnknownRunError` when there is none of that id. What driving it needs (a key, say) is
        looked for when it is driven: a run can be read without.
        """
        made = self._session(run_id, journal, ports)
        wait(made.open(), suspends=made.journal.suspends)
        return Run(self, made, lambda: prepare(self.spec, made.ports))

    def attach(
        self, kept: DetachedRun, *, journal: Journal | None = None, **ports: Unpack[PortOptions]
    ) -> Run:
        """A run that was pickled, to be driven on with these components; see `start`.

        `journal` is the one that holds the run; it may be left out where that was in memory.
        `MachineChangedError` when the run was started with another machine.
        """
        if kept.row.machine_hash != self.hash:
            raise MachineChangedError(
                f"run `{kept.run_id}` was started with another machine than this `{self.name}`",
                hint=f"it was {kept.row.machine_hash[:8]}, this one is {self.hash[:8]}",
            )
        if kept.begun is not None:
            run = self.start(run_id=kept.run_id, journal=journal, **ports)
            run.session.begun, run.session.row = kept.begun, kept.row
            return run
        if journal is None and kept.events is None:
            raise SetupError(
                f"the log of run `{kept.run_id}` is not part of what was pickled",
                hint="give the journal that holds it: `journal=`",
            )
        return self.open(kept.run_id, journal=journal or kept.journal(), **ports)

    def _session(self, run_id: str, journal: Journal, ports: PortOptions) -> Session:
        made = Session(self.chart, journal, run_id, make_ports(self.spec, self.folder, ports))
        cancel = ports.get("cancel")
        made.cancels = [cancel] if cancel is not None else []
        if suspends(made):  # on an event loop the appends of one tick share a transaction
            made.journal = getattr(journal, "grouped", journal)
        return made


def _from_canonical(text: str, own: tuple[object, ...]) -> Machine:
    loaded = load_text(text, "<canonical>", with_own(specs_of(*own)))
    if loaded.spec is None:
        raise SpecError(loaded.findings)
    return Machine(Chart(loaded.spec, lifecycle()))
