"""What a page may ask of a run, and what it is told when it asks for something else."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.errors import RunError
from chartloop.ui.view_model.orders import (
    LONGEST,
    Answer,
    Back,
    Cancel,
    Order,
    Pause,
    RunUntil,
    Set,
    Show,
    Step,
    Why,
    number_of,
    order_of,
)


class Good(NamedTuple):
    id: str
    message: Any
    order: Order


@pytest.mark.parametrize(
    "case",
    [
        Good("step", {"do": "step"}, Step()),
        Good("step-with-more", {"do": "step", "id": 3, "other": None}, Step()),
        Good("run", {"do": "run"}, RunUntil()),
        Good("run-to", {"do": "run", "until": " think "}, RunUntil("think")),
        Good("pause", {"do": "pause"}, Pause()),
        Good("cancel", {"do": "cancel"}, Cancel()),
        Good("answer", {"do": "answer", "event": "yes"}, Answer("yes", {})),
        Good(
            "answer-with-data",
            {"do": "answer", "event": "no", "data": {"why": "x", "sure": True}},
            Answer("no", {"why": "x", "sure": True}),
        ),
        Good("back", {"do": "back"}, Back(1)),
        Good("back-by-two", {"do": "back", "records": 2}, Back(2)),
        Good("set", {"do": "set", "name": "limits.steps", "value": "3"}, Set("limits.steps", "3")),
        Good("why", {"do": "why", "seq": 2}, Why(2)),
        Good("why-the-newest", {"do": "why"}, Why(None)),
        Good("show", {"do": "show"}, Show()),
    ],
    ids=lambda case: case.id,
)
def test_an_order_is_read(case: Good) -> None:
    assert order_of(case.message) == case.order


class Bad(NamedTuple):
    id: str
    message: Any
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Bad("nothing", None, "a NoneType is not an order"),
        Bad("list", [{"do": "step"}], "a list is not an order"),
        Bad("empty", {}, "there is no order NoneType"),
        Bad("unknown", {"do": "stepp"}, "there is no order 'stepp'"),
        Bad("unhashable", {"do": ["step"]}, "there is no order list"),
        Bad("until-a-number", {"do": "run", "until": 3}, "`until`: expected `str`, got `int`"),
        Bad("no-event", {"do": "answer"}, "required field `event`"),
        Bad(
            "data-a-list",
            {"do": "answer", "event": "no", "data": [1]},
            "`data`: expected `object`, got `array`",
        ),
        Bad(
            "field-a-number",
            {"do": "answer", "event": "no", "data": {"why": 1}},
            "`data[...]`: expected `bool | str`, got `int`",
        ),
        Bad(
            "back-by-true", {"do": "back", "records": True}, "`records`: expected `int`, got `bool`"
        ),
        Bad("back-by-text", {"do": "back", "records": "2"}, "`records`: expected `int`, got `str`"),
        Bad("set-without-value", {"do": "set", "name": "limits.steps"}, "required field `value`"),
        Bad(
            "too-long",
            {"do": "set", "name": "x", "value": "x" * 20_001},
            "`value`: expected `str` of length <= 20000",
        ),
        Bad("why-a-float", {"do": "why", "seq": 1.5}, "`seq`: expected `int | null`, got `float`"),
    ],
    ids=lambda case: case.id,
)
def test_anything_else_is_refused_in_words(case: Bad) -> None:
    with pytest.raises(RunError) as refused:
        order_of(case.message)
    assert case.says in refused.value.message


def test_a_misspelt_order_is_told_the_nearest() -> None:
    with pytest.raises(RunError) as refused:
        order_of({"do": "stepp"})
    assert refused.value.hint == "did you mean `step`?"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    max_leaves=8,
)
NAMES = st.sampled_from(["step", "run", "pause", "answer", "back", "set", "why", "show"])
MESSAGES = JSON | st.fixed_dictionaries(
    {"do": NAMES | JSON},
    optional=dict.fromkeys(
        ("id", "until", "event", "data", "records", "name", "value", "seq"), JSON
    ),
)


def _read(message: Any) -> tuple[Order | None, str]:
    try:
        return order_of(message), ""
    except RunError as refused:
        return None, refused.message


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(MESSAGES)
def test_every_message_is_an_order_or_refused(message: Any) -> None:
    assert 0 <= number_of(message) < 2**53
    order, refused = _read(message)
    assert (order is None) == bool(refused)
    assert len(refused) < 400
    parts = () if order is None else astuple(order)
    assert all(len(part) <= LONGEST for part in parts if isinstance(part, str))
