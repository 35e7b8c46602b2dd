"""Scenarios: whole runs of a machine, written down in YAML and played without Python.

    report = run_scenario("tests/adds.scenario.yaml")
    assert report.passed, str(report)

A scenario names a machine, what its model and its tools answer, what comes from outside, and
what the run must come to. The clock is simulated: waits and back-offs take no time. Replies and
results must fit exactly: one too few or left over is a failure.

`pytest` collects the files through `testing.plugin`; `interlock test` runs them from a shell;
`scenario` is the same thing written in a Python test.

Source: design "language", section 10
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from interlock import catalog
from interlock.actions import builtin
from interlock.actions.declare import specs_of
from interlock.adapters.scripted import Scripted
from interlock.api import Machine, Own, Run, load
from interlock.core.codes import finding
from interlock.core.errors import RunError, ScriptError, SetupError, SpecError, nearest
from interlock.core.specs import Registry
from interlock.language.yaml.document import short
from interlock.language.yaml.reading import Document
from interlock.run.ports import Model
from interlock.testing.clock import ManualClock
from interlock.testing.expecting import Expectation
from interlock.testing.outside import play
from interlock.testing.report import ScenarioFailed, ScenarioReport
from interlock.testing.scenario_check import checked
from interlock.testing.scenario_file import (
    OutsideEvent,
    Scenario,
    read_scenario,
    scenario_of,
)
from interlock.testing.scripted_tools import ScriptedTool

SUFFIX = ".scenario.yaml"
LONGEST = 10_000
"""Records of a run. One that takes more never ends."""


def find_scenarios(paths: Iterable[str | Path]) -> list[Path]:
    """The scenario files among these, and in these folders and all below; each once, sorted.

    Hidden folders are passed over. `SetupError` for a path that is not there.
    """
    found: set[Path] = set()
    for given in map(Path, paths):
        if given.is_file():
            found.add(given)
        elif given.is_dir():
            found.update(_below(given))
        else:
            raise SetupError(f"there is no file or folder `{given}`")
    return sorted(found)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(place, name) for name in files if name.endswith(SUFFIX))


def load_scenario(path: str | Path) -> Scenario:
    """The scenario of a file. Raises `SpecError` with every fault of its form.

    Whether the machine has what the scenario names is checked when it is run.
    """
    path = Path(path)
    shown = catalog.shown(path)
    name = path.name.removesuffix(SUFFIX)
    text = catalog.read_text(path)
    return read_scenario(text, file=shown, name=name, folder=path.parent)


def run_scenario(
    source: str | Path | Scenario, *, tools: Own = (), model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ScenarioReport:  # fmt: skip
    """Play a scenario, and compare.

    `tools` are the tools, actions and guards that the machine names and that are not built in;
    a tool for which the scenario gives results needs none. `model` with its `settings` takes the
    place of the scenario's replies, as in `Machine.start`: a `LoopbackServer` gives the same ones
    over HTTP. Raises `SpecError` when the scenario
    or its machine has faults; whatever goes wrong after that is in the report.
    """
    made = source if isinstance(source, Scenario) else load_scenario(source)
    return _play(made, machine_of(made), tools, model=model, settings=settings)


class ScenarioKeys(TypedDict, total=False):
    """The keys of a scenario file, as `scenario` takes them."""

    replies: Sequence[Any]
    events: Sequence[Mapping[str, Any]]
    tools: Mapping[str, Sequence[Any]]
    tasks: Sequence[Any]
    limits: Mapping[str, Any]
    vars: Mapping[str, Any]
    expect: Mapping[str, Any]


def scenario(
    machine: str | Path, task: str = "", *, own: Own = (), **keys: Unpack[ScenarioKeys]
) -> ScenarioReport:
    """A scenario in a Python test, with the keys of a file. `ScenarioFailed` when it is not met.

        scenario("agent", "Say hello.", replies=["Hello."], expect={"reason": "completed"})

    `machine` is a path, the name of a shipped machine, or YAML text with a newline in it; `own`
    are the tools, actions and guards that it names. What `expect` leaves out can be asserted on
    the report's `result` and `run`.
    """
    data = {"machine": str(machine), "task": task, **keys}
    document = Document(_listed(data), "", "")
    made = scenario_of(document, name="scenario", folder=None)
    report = _play(made, machine, own)
    if not report.passed:
        raise ScenarioFailed(report)
    return report


def _listed(value: Any) -> Any:
    """Python data as YAML would have given it: tuples as lists."""
    if isinstance(value, Mapping):
        return {str(k): _listed(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_listed(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def machine_of(made: Scenario) -> Path:
    """The file of a scenario's machine: beside the scenario, or a shipped one."""
    beside = (made.folder or Path()) / made.machine
    if os.path.isfile(beside):  # noqa: PTH113  a name that no file can have is no error here
        return beside
    shipped = catalog.shipped()
    if made.machine in shipped:
        return shipped[made.machine]
    hint = nearest(made.machine, shipped, otherwise=f"a path, or one of {', '.join(shipped)}")
    name = short(made.machine)
    said = f"there is no machine `{name}`, neither as a file nor among the shipped ones"
    raise SpecError([finding("IL411", said, made.place("machine"), hint=hint, at="machine")])


# playing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stage:
    """A scenario, ready to be played."""

    scenario: Scenario
    expected: Expectation
    machine: Machine
    tools: tuple[ScriptedTool, ...]
    model: Scripted | None
    """None when another model than the scenario's is asked."""


def _play(
    made: Scenario, source: str | Path, own: Own, *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ScenarioReport:  # fmt: skip
    """Play it; whatever goes wrong is in the report."""
    tools = tuple(ScriptedTool(name, results) for name, results in made.tools.items())
    machine = load(source, tools=[_with(tools, specs_of(own))])
    clock = ManualClock()
    script = Scripted(made.replies, clock=clock) if model is None else None
    stage = _Stage(made, checked(made, machine), machine, tools, script)
    try:
        run = machine.start(
            made.task, script=script, model=model, settings=settings, clock=clock,
            limits=made.limits, vars=made.vars, tasks=made.tasks,
        )  # fmt: skip
    except RunError as error:
        return ScenarioReport(made.name, passed=False, problems=(str(error),))
    problems = [*_drive(stage, run), *_left_over(stage, run)]
    problems += [str(d) for d in stage.expected.differences(run.result)]
    return ScenarioReport(made.name, not problems, tuple(problems), run.result, run)


def _with(tools: Sequence[ScriptedTool], own: Registry) -> Registry:
    """The caller's registry, with scripted tools in the place of those they stand for."""
    known = {**builtin().tools, **own.tools}
    scripted = {t.name: t.spec(known.get(t.name)) for t in tools}
    return Registry(own.actions, {**own.tools, **scripted}, own.guards)


def _drive(stage: _Stage, run: Run) -> Iterator[str]:
    """Drive the run, and say what kept it from going on or from hearing an event."""
    made = stage.scenario
    try:
        for event in play(run, made.events, most=LONGEST):
            at = made.at("events", event.number)
            yield f"`{event}` never came{at}\n  {_why_not(run, event)}"
    except RunError as error:
        spent = [t.name for t in stage.tools if t.asked > len(t.results)]
        key = "replies" if isinstance(error, ScriptError) else "events"
        at = made.at("tools", *spent[:1]) if spent else made.at(key)
        yield f"step {run.facts.run.steps + 1} at `{run.state}`{at}\n  {error}"


def _why_not(run: Run, event: OutsideEvent) -> str:
    steps = run.facts.run.steps
    count = "1 step" if steps == 1 else f"{steps} steps"
    stands = f"the run {'ended' if run.ended else 'rests'} at `{run.state}` after {count}"
    if event.kind == "resume":
        return f"{stands}, and was not paused"
    if steps < event.after:
        return f"{stands}; it was to come after {event.after}"
    return f"{stands}, and did not wait then" if event.kind == "send" else stands


def _left_over(stage: _Stage, run: Run) -> Iterator[str]:
    made = stage.scenario
    failed = sum(r.outcome.unanswered for r in run.records if r.outcome is not None)
    used = run.facts.usage.llm_calls + failed
    if stage.model is not None and (left := stage.model.left_over(used)):
        said = f"{left} of {len(made.replies)} replies were never asked for"
        yield f"{said}{made.at('replies', used)}"
    for tool in stage.tools:
        if (left := len(tool.results) - tool.asked) > 0:
            said = f"{left} of {len(tool.results)} results were never asked for"
            yield f"tool `{tool.name}`: {said}{made.at('tools', tool.name, tool.asked)}"


__all__ = [
    "SUFFIX",
    "ScenarioFailed",
    "ScenarioKeys",
    "ScenarioReport",
    "find_scenarios",
    "load_scenario",
    "run_scenario",
    "scenario",
]
