"""The check of a scenario against its machine: whether its names exist there and its values fit.

All findings come before the run starts, with places in the scenario's file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from chartloop.api import Machine, limit_value, var_value
from chartloop.api.caller_values import checked_tasks
from chartloop.core import codec
from chartloop.core.codes import finding
from chartloop.core.errors import Finding, LimitError, SpecError, TaskError, nearest
from chartloop.core.facts import FACTS, FleetFacts
from chartloop.core.units import read_duration
from chartloop.core.visible import short
from chartloop.language.spec import MachineSpec
from chartloop.language.yaml.document import Path, dotted_path
from chartloop.scenarios.expectation import Expectation, expectation
from chartloop.scenarios.file import OutsideEvent, Scenario


def check_scenario(scenario: Scenario, machine: Machine) -> Expectation:
    """Check a scenario and compile its expectations. Raises `SpecError` with every finding."""
    spec = machine.spec
    expected, findings = expectation(scenario, spec)
    findings += _values(scenario, "limits", scenario.limits, spec, limit_value)
    findings += _values(scenario, "vars", scenario.vars, spec, var_value)
    findings += _fleet(scenario)
    findings += _tools(scenario, spec)
    findings += _tasks(scenario, spec, ("tasks",), scenario.tasks or ())
    for event in scenario.events:
        findings += _tasks(scenario, spec, ("events", event.number, "enqueue"), event.tasks)
    findings += [f for e in scenario.events if (f := _event(scenario, spec, e)) is not None]
    if findings:
        raise SpecError(sorted(findings, key=lambda f: (f.place.line, f.place.column, f.code)))
    return expected


def _values(
    scenario: Scenario, root: str, given: Mapping[str, Any], spec: MachineSpec,
    read: Callable[[MachineSpec, str, Any], Any],
) -> Iterator[Finding]:  # fmt: skip
    known = spec.limits if root == "limits" else spec.vars
    for name, value in given.items():
        try:
            read(spec, name, value)
        except LimitError as error:
            place = scenario.document.at if name in known else scenario.document.key
            at = f"{root}.{name}"
            yield finding("CL603", error.message, place((root, name)), hint=error.hint, at=at)


def fleet_facts(given: Mapping[str, Any]) -> tuple[FleetFacts, ...]:
    """The facts of `fleet` of a scenario, record by record. `ValueError` for a wrong value."""
    each = dict[str, list[Any]]()
    for name, value in given.items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        each[name] = [_seconds(v) if name == "requests_wait" else v for v in values] or [None]
    count = max(map(len, each.values()), default=0)
    rows = ({n: e[min(k, len(e) - 1)] for n, e in each.items()} for k in range(count))
    return tuple(codec.read(row, FleetFacts, {}) for row in rows)


def _seconds(value: Any) -> Any:
    read = read_duration(value)
    return value if read is None else read


def _fleet(scenario: Scenario) -> Iterator[Finding]:
    known = FleetFacts.defaults()
    for name, value in scenario.fleet.items():
        at, path = f"fleet.{name}", ("fleet", name)
        if name not in known:
            message = f"there is no fact `{at}`"
            place = scenario.document.key(path)
            yield finding("CL103", message, place, hint=nearest(name, known), at=at)
            continue
        try:
            fleet_facts({name: value})
        except ValueError:
            message = f"`{at}` cannot be {short(str(value))}"
            hint = f"it is {FACTS[at].type}; a list has one for each record"
            yield finding("CL603", message, scenario.document.at(path), hint=hint, at=at)


def _tools(scenario: Scenario, spec: MachineSpec) -> Iterator[Finding]:
    tasks = [*(scenario.tasks or ()), *(t for event in scenario.events for t in event.tasks)]
    used = _used(spec) | {*_doing(tasks)}
    for name in scenario.tools:
        if name not in used:
            place = scenario.document.key(("tools", name))
            message = f"machine `{spec.name}` calls no tool `{name}`"
            yield finding("CL405", message, place, hint=nearest(name, used), at=f"tools.{name}")


def _doing(tasks: Iterable[Any]) -> Iterator[str]:
    """The tools that tasks of a scenario name in `by`: the machine need not name them."""
    for task in tasks:
        by: Any = cast("Mapping[str, Any]", task).get("by") if isinstance(task, Mapping) else None
        if isinstance(by, Mapping) and "tool" in by:
            yield str(cast("Mapping[str, Any]", by)["tool"])


def _used(spec: MachineSpec) -> set[str]:
    """The tools of a machine and of its children."""
    return {*spec.tools, *_tools_of_states(spec)}.union(
        *(_used(child) for child in spec.machines.values())
    )


def _tools_of_states(spec: MachineSpec) -> Iterator[str]:
    """The tools that states call directly, without a model."""
    for state in spec.states.values():
        for arg in state.action.args if state.action is not None else ():
            if arg.names == "tool" and arg.name in state.args:
                yield str(state.args[arg.name].value)


def _tasks(
    scenario: Scenario, spec: MachineSpec, path: Path, tasks: Sequence[Any]
) -> Iterator[Finding]:
    try:
        checked_tasks(spec, tasks)
    except TaskError as error:
        path = (*path, error.number)
        place = scenario.document.at(path)
        yield finding("CL611", error.message, place, hint=error.hint, at=dotted_path(path))


def _event(scenario: Scenario, spec: MachineSpec, event: OutsideEvent) -> Finding | None:
    at, path = f"events.{event.number}", ("events", event.number, event.kind)
    if event.kind == "cancel" and event.word not in (*spec.reasons, scenario.own_reason):
        message, hint = f"unknown reason `{event.word}`", nearest(event.word, spec.reasons)
        return finding("CL408", message, scenario.document.at(path), hint=hint, at=at)
    known = {e.trigger for part in spec.family() for e in part.edges() if e.role == "on"}
    if event.kind == "send" and event.word not in known:
        message = f"machine `{spec.name}` waits for no event `{event.word}`"
        hint = nearest(event.word, known, otherwise="" if known else "it has no waits")
        return finding("CL410", message, scenario.document.at(path), hint=hint, at=at)
    return None
