"""Values from a caller: settings of the model, answers. Checked as a file's.

Imported by: api.machine, api.run, cli, testing
Source: design "language", sections 3 ("Limits changed from outside are checked again") and 5.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from chartloop.core.errors import AnswerError, LimitError, nearest
from chartloop.core.types import accepts
from chartloop.core.units import parse_duration, parse_number
from chartloop.language.file.parts import ModelShape
from chartloop.run.loop import IN_DOUBT
from chartloop.run.result import answers_of
from chartloop.run.session import Session


def own_metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a caller says about a run, as JSON has it. `LimitError` for what JSON cannot hold."""
    try:
        said = json.loads(json.dumps(dict(given or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        hint = "give texts, numbers, lists and mappings with texts as keys"
        raise LimitError(f"`metadata` is no JSON data: {error}", hint=hint) from None
    return said


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
    position, taken = session.position, answers_of(session)
    if event not in taken:
        if not taken and not position.ended and event in _known(session):
            return  # it comes early, and stays in the inbox
        raise _not_taken(session, event, taken)
    if position.blocked_on == IN_DOUBT:
        return
    fields = taken[event]
    for name in data:
        if fields and name not in fields:
            raise AnswerError(f"`{event}` has no field `{name}`", hint=nearest(name, fields))
    for name, type in fields.items():
        if name not in data:
            raise AnswerError(f"`{event}` needs `{name}` ({type})")
        if not accepts(type, data[name]):
            raise AnswerError(f"`{name}` of `{event}` is {type}: `{data[name]}` is not")


def _known(session: Session) -> set[str]:
    return {e.trigger for e in session.chart.spec.edges() if e.role == "on"}


def _not_taken(session: Session, event: str, taken: Iterable[str]) -> AnswerError:
    position = session.position
    if position.blocked_on == IN_DOUBT:
        said = f"`{event}` is no answer to a call in doubt"
        return AnswerError(said, hint="answer `retry` or `fail`")
    if listed := ", ".join(f"`{e}`" for e in taken):
        said = f"`{position.state}` does not take `{event}`"
        return AnswerError(said, hint=f"it takes {listed}")
    stands = f"has ended ({position.status})" if position.ended else f"is {position.status}"
    return AnswerError(f"the run waits for nothing: it {stands} at `{position.state}`")
