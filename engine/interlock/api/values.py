"""Values from a caller: limits, variables, settings of the model, answers. Checked as a file's.

Imported by: api.machine, api.run, cli, testing
Source: design "language", sections 3 ("Limits changed from outside are checked again") and 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from interlock.core.errors import AnswerError, LimitError, nearest
from interlock.core.types import accepts
from interlock.core.units import parse_duration, parse_number
from interlock.language.file.parts import ModelShape
from interlock.language.readers.parts import coerce
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


def model_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the model as a file's `model` has them, checked. `LimitError` for any other.

    Only those that were given; quantities are read: ``30s`` is 30.0.
    """
    try:
        shape = ModelShape.model_validate({"name": "", **given})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            known = nearest(name, ModelShape.model_fields)
            raise LimitError(f"a model has no setting `{name}`", hint=known) from None
        raise LimitError(f"setting `{name}` of the model: {first['msg']}") from None
    if not (shape.api_key_env or "x").isidentifier():  # it may be a key: it is not repeated
        hint = "write `OPENAI_API_KEY`, and set the variable"
        raise LimitError("`api_key_env` is the name of an environment variable", hint=hint)
    out = {n: v for n, v in shape.model_dump(exclude_unset=True).items() if n in given}
    for name, read in _QUANTITIES.items():
        value = out.get(name)
        if value is not None:
            out[name] = _positive(name, read(value) if isinstance(value, str) else value)
    return out


_QUANTITIES = {
    "timeout": parse_duration,
    "max_tokens": parse_number,
    "context_window": parse_number,
}


def _positive(name: str, value: Any) -> int | float:
    number = isinstance(value, int if name != "timeout" else (int, float))
    if not number or isinstance(value, bool) or not 0 < value < math.inf:
        hint = "write seconds, or `30s`" if name == "timeout" else "write a whole number above 0"
        raise LimitError(f"setting `{name}` of the model is no such quantity", hint=hint)
    return value


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
