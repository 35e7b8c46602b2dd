"""Values that come from a caller: limits, variables, answers. Checked against the file's types.

Imported by: api.machine, api.run, cli, testing
Source: design "language", sections 3 ("Limits changed from outside are checked again") and 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from interlock.core.errors import AnswerError, LimitError, nearest
from interlock.core.types import accepts
from interlock.language.parts import coerce
from interlock.language.spec import MachineSpec
from interlock.run.loop import IN_DOUBT
from interlock.run.session import Session


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
    return tuple(cast(list[Any], made)) if isinstance(made, list) else made


def check_answer(session: Session, event: str, data: Mapping[str, Any]) -> None:
    """`AnswerError` unless the wait at hand takes this event with this data."""
    position, chart = session.position, session.chart
    if position.blocked_on == IN_DOUBT:
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
