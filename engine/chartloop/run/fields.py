"""The fields of `with`, evaluated just before an action is called.

Source: design "language", section 8: text fields are templates, value fields are expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from chartloop.core.position import Position
from chartloop.language.spec import Given
from chartloop.language.template.template import Template
from chartloop.machine.assignment import template_names
from chartloop.machine.build import Chart
from chartloop.run.job import Job


class Asked(Protocol):
    """What fields are evaluated over: a run at its position. A `Session` is one."""

    @property
    def chart(self) -> Chart:
        """The machine."""
        ...

    @property
    def position(self) -> Position:
        """Where the run is."""
        ...

    def ask(self, name: str, args: tuple[Any, ...]) -> bool:
        """Ask a registered Python guard."""
        ...


def fields_of(session: Asked, job: Job) -> dict[str, Any]:
    """Every field of a state's `with`. Raises what its expressions and templates raise."""
    fields = dict(job.constant)
    for name, given in job.given.items():
        fields[name] = _value(session, given)
    return fields


def _value(session: Asked, given: Given) -> Any:
    match given.kind:
        case "constant" | "data" | "schema":
            return given.value
        case "value":
            return given.value.value(session.position.facts, session.ask)
        case "values":
            return _each(session, given.value)
        case "fields":
            named = cast(Mapping[str, Mapping[str, Given]], given.value)
            return {name: _each(session, fields) for name, fields in named.items()}
        case _:
            return _render_value(session, given.value)


def _each(session: Asked, fields: Mapping[str, Given]) -> dict[str, Any]:
    return {name: _value(session, part) for name, part in fields.items()}


def _render_value(session: Asked, value: Any) -> Any:
    """The value with every template in it rendered."""
    if isinstance(value, Template):
        if value.constant:
            return value.text
        facts = session.position.facts
        return value.render(template_names(session.chart.spec, facts, value.reads))
    if isinstance(value, dict):
        parts = cast(dict[str, Any], value)
        return {name: _render_value(session, part) for name, part in parts.items()}
    if isinstance(value, list):
        return [_render_value(session, part) for part in cast(list[Any], value)]
    return value
