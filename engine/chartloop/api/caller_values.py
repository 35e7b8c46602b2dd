"""Values from a caller: settings of the model. Checked as a file's.

Source: design "language", section 3 ("Limits changed from outside are checked again").
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from chartloop.core.errors import LimitError, nearest
from chartloop.core.units import parse_duration, parse_number
from chartloop.language.file.parts import ModelShape


def own_metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a caller says about a run, as JSON has it. `LimitError` for what JSON cannot hold."""
    try:
        said = json.loads(json.dumps(dict(given or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        hint = "give texts, numbers, lists and mappings with texts as keys"
        raise LimitError(f"`metadata` is not JSON data: {error}", hint=hint) from None
    return said


def model_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the model as a file's `model` has them, checked. `LimitError` for any other.

    Only those that were given; quantities are read: ``30s`` is 30.0.
    """
    if not given:
        return {}
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
