"""A pydantic class and the schema that it gives agree about every JSON value."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from chartloop.language.json_schema.faults import schema_faults
from chartloop.language.json_schema.reply import BrokenReplyError, ReplySchema

SCALARS: list[Any] = [int, float, str, bool, None, Literal["a", "b"]]
BOUNDED = st.sampled_from(
    [(int, Field(ge=0, le=3)), (str, Field(min_length=1, max_length=2)), (float, Field(gt=0))]
)


def strict(fields: dict[str, Any]) -> type[BaseModel]:
    config = ConfigDict(extra="forbid", strict=True)
    return create_model("Made", __config__=config, **fields)


types = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda t: list[t]),
        inner.map(lambda t: t if t is None else t | None),
        inner.map(lambda t: dict[str, t]),
        st.dictionaries(st.sampled_from("xy"), inner, max_size=2).map(
            lambda fields: strict({n: (t, ...) for n, t in fields.items()})
        ),
    ),
    max_leaves=5,
)
fields = st.one_of(types.map(lambda t: (t, ...)), BOUNDED)
models = st.dictionaries(st.sampled_from(["a", "b", "n"]), fields, min_size=1).map(strict)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 5), st.sampled_from([0.5, 1.0, -1.5]),
        st.sampled_from(["", "a", "b", "abc", "2"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abnxy"), inner, max_size=3)
    ),
    max_leaves=6,
)  # fmt: skip


def accepts(model: type[BaseModel], data: Any) -> bool:
    try:
        model.model_validate_json(json.dumps(data))
    except ValidationError:
        return False
    return True


def has_whole_float(data: Any) -> bool:
    """`1.0` is an integer for JSON Schema and none for a strict class."""
    if isinstance(data, dict):
        return any(map(has_whole_float, data.values()))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(data, list):
        return any(map(has_whole_float, data))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(data, float) and data.is_integer()


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(model=models, data=st.data())
def test_the_schema_accepts_what_the_class_accepts(
    model: type[BaseModel], data: st.DataObject
) -> None:
    schema = model.model_json_schema()
    assert schema_faults(schema) == []
    asked = ReplySchema(schema)
    near = st.fixed_dictionaries(dict.fromkeys(model.model_fields, values))
    reply = data.draw(st.one_of(near, values).filter(lambda value: not has_whole_float(value)))
    try:
        asked.data_of(reply)
    except BrokenReplyError:
        assert not accepts(model, reply)
    else:
        assert accepts(model, reply)
