"""A state's action, prepared once per run and state.

The constant fields of `with`, and whether the action may yield to the event loop, are needed
before every step, and so computed in advance. The other fields of `with` are evaluated just before
the action is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from chartloop.core.facts import Facts
from chartloop.core.specs import ActionSpec, Effect, ToolSpec
from chartloop.language.expression import Oracle
from chartloop.language.spec import Given, MachineSpec, StateSpec
from chartloop.language.template.template import Template
from chartloop.machine.assignment import template_names
from chartloop.machine.build import Chart
from chartloop.run.components import Ports
from chartloop.run.journal_records import Intent

FIXED = frozenset({"constant", "data", "schema"})
"""The kinds of fields that are constant."""


class Job(Struct, frozen=True):
    """A state's action, ready to be done."""

    state: StateSpec
    action: ActionSpec | None
    constant: Mapping[str, Any]
    """The constant fields of `with`."""
    given: Mapping[str, Given]
    """The other fields, evaluated before each call."""
    tools: tuple[ToolSpec, ...]
    """The tools that the state may use, in file order."""
    tool_schemas: tuple[Mapping[str, Any], ...]
    """The same tools in the form of chat APIs."""
    writes_intent: bool
    """Whether an intent is written before it: it is paid, and writes none of its own."""
    follows_held: bool
    """Whether the record before it may wait for an intent: nothing else happens before that."""
    waits: bool
    """Whether it may wait, and be called again."""
    cuttable: bool
    """Whether a deadline can end it: it awaits something, or time is simulated."""
    named_tool: ToolSpec | None = None
    """The tool that the state itself calls; None for any other action."""

    def intent(self, key: str) -> Intent:
        """The intent of the action itself, with the tool that it calls."""
        assert self.action is not None
        tool = "" if self.named_tool is None else self.named_tool.name
        return Intent(key, self.state.name, self.action.name, tool)

    @property
    def uses(self) -> frozenset[str]:
        """The ports that the action uses."""
        return frozenset() if self.action is None else self.action.uses | self.action.may_use


def job_of(chart: Chart, name: str, ports: Ports) -> Job:
    """The job of a state, given the components of the run."""
    spec, state = chart.spec, chart.spec.states[name]
    action = state.action
    fixed = {n: g.value for n, g in state.args.items() if g.kind in FIXED}
    given = {n: g for n, g in state.args.items() if n not in fixed}
    tools, schemas = tuple(chart.tools_at(name).values()), chart.offered_at(name)
    if action is None:
        return Job(state, None, fixed, given, tools, schemas, False, False, False, False)
    paid = action.effect is Effect.PAID
    return Job(
        state, action, fixed, given, tools, schemas,
        writes_intent=paid and not action.own_intents,
        follows_held=paid and (action.settles_itself or not action.own_intents),
        waits=action.may_wait,
        cuttable=not action.own_deadline
        and (may_suspend(spec, state, action, ports) or not ports.clock.suspends),
        named_tool=spec.registry.tools.get(state.named_tool)
        if action.traits.calls == "named" else None,
    )  # fmt: skip


class Jobs(dict[str, Job]):
    """The jobs of a run's states, by name; each is prepared when it is first done."""

    def __init__(self, chart: Chart, ports: Ports) -> None:
        super().__init__()
        self._chart, self._ports = chart, ports

    def __missing__(self, state: str) -> Job:
        job = self[state] = job_of(self._chart, state, self._ports)
        return job


def suspends(spec: MachineSpec, ports: Ports, *, threads: bool = True) -> bool:
    """Whether anything that a run of a machine may do yields to the event loop.

    `threads`: whether a plain tool, which is called in another thread, counts.
    """
    return any(
        _state_suspends(part, state, state.action, ports, threads)
        for part in spec.family()
        for state in part.states.values()
        if state.action is not None
    )


def _state_suspends(
    spec: MachineSpec, state: StateSpec, action: ActionSpec, ports: Ports, threads: bool
) -> bool:
    if may_suspend(spec, state, action, ports, threads=threads):
        return True
    if ports.clock.suspends and (action.may_wait or state.retry is not None):
        return True
    return "notifier" in action.uses and getattr(ports.notifier, "suspends", True)


def may_suspend(
    spec: MachineSpec, state: StateSpec, action: ActionSpec, ports: Ports, *, threads: bool = True
) -> bool:
    """Whether an action with these components may yield to the event loop; see `suspends`."""
    named = (action.uses | action.may_use) & {"model", "sandbox"}
    used = (getattr(ports, name) for name in named)
    if action.suspends or any(port is not None and port.suspends for port in used):
        return True
    return action.traits.calls != "none" and any(
        tool.suspends and (threads or not tool.blocking) for tool in tools_of(spec, state, action)
    )


def tools_of(spec: MachineSpec, state: StateSpec, action: ActionSpec) -> tuple[ToolSpec, ...]:
    """The tools that an action may call: the one named by a field, else those of its state."""
    if action.traits.calls != "named":
        return spec.tools_at(state)
    named = spec.registry.tools.get(state.named_tool)
    return () if named is None else (named,)


def fields_of(job: Job, spec: MachineSpec, facts: Facts, ask: Oracle) -> dict[str, Any]:
    """Evaluate the fields of a state's `with`. Raises what expressions and templates raise."""
    fields = dict(job.constant)
    for name, given in job.given.items():
        fields[name] = _value(given, spec, facts, ask)
    return fields


def _value(given: Given, spec: MachineSpec, facts: Facts, ask: Oracle) -> Any:
    match given.kind:
        case "constant" | "data" | "schema":
            return given.value
        case "value":
            return given.value.value(facts, ask)
        case "values":
            return _each(given.value, spec, facts, ask)
        case "fields":
            named = cast(Mapping[str, Mapping[str, Given]], given.value)
            return {name: _each(fields, spec, facts, ask) for name, fields in named.items()}
        case _:
            return _render_value(given.value, spec, facts)


def _each(
    fields: Mapping[str, Given], spec: MachineSpec, facts: Facts, ask: Oracle
) -> dict[str, Any]:
    return {name: _value(part, spec, facts, ask) for name, part in fields.items()}


def _render_value(value: Any, spec: MachineSpec, facts: Facts) -> Any:
    """The value with every template in it rendered."""
    if isinstance(value, Template):
        if value.constant:
            return value.text
        return value.render(template_names(spec, facts, value.reads))
    if isinstance(value, dict):
        parts = cast(dict[str, Any], value)
        return {name: _render_value(part, spec, facts) for name, part in parts.items()}
    if isinstance(value, list):
        return [_render_value(part, spec, facts) for part in cast(list[Any], value)]
    return value
