"""Each key of a file with each wrong kind of value is a finding, never a fault of the program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import deepcopy
from datetime import date
from typing import Any, cast

import pytest
import yaml

from chartloop import check
from chartloop.core.errors import ChartloopError
from tests.unit.test_every_key_in_change import BASE, find, refund

Path_ = tuple[str | int, ...]
FILE: dict[str, Any] = yaml.safe_load(BASE)
KINDS: list[Any] = [
    None, True, 0, -1, 1.5, float("nan"), 10**30, "", "x", " ", "{{", "{{ x }}", "5s", "a.b", date(2026, 1, 1),
    b"x", [], ["a"], [[]], [None], [{}], {}, {"a": 1}, {"a": None}, {"when": "x"}, {1: 2}, {"": ""},
]  # fmt: skip
"""Values of every kind that YAML has; some of them fit here and there."""
MANY = 5 if os.environ.get("CHARTLOOP_TESTS") == "all" else 1
"""How many kinds each place is tried with; another choice at each place."""


def places(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Every place in a file: each key of a mapping, each item of a list."""
    if at:
        yield at
    inside: Any = ()
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value).items()
    elif isinstance(value, list):
        inside = enumerate(cast("list[Any]", value))
    for key, part in inside:
        yield from places(part, (*at, key))


def with_value(place: Path_, value: Any) -> str:
    file = deepcopy(FILE)
    holder: Any = file
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return yaml.safe_dump(file, sort_keys=False)


ALL = list(places(FILE))


@pytest.mark.parametrize("part", sorted({str(place[0]) for place in ALL}))
def test_a_wrong_kind_is_a_finding(part: str) -> None:
    for number, place in enumerate(ALL):
        if str(place[0]) != part:
            continue
        for step in range(MANY):
            value = KINDS[(number * 7 + step * 5) % len(KINDS)]
            try:
                check(with_value(place, value), tools=[find, refund])
            except ChartloopError:
                continue
            except Exception as error:  # noqa: BLE001  any other one is the fault
                pytest.fail(f"{place} = {value!r}: {type(error).__name__}: {error}")


@pytest.mark.parametrize("value", ["str", "5", "[a]", "", "{}", "{from: me}", "{task: {}}"])
@pytest.mark.parametrize("key", ["inputs", "data"])
def test_the_first_line_a_newcomer_writes(key: str, value: str) -> None:
    text = BASE.replace("inputs: {task: {from: untrusted}", f"inputs: {{task: {value}")
    if key == "data":
        text = BASE.replace(
            "data: {find: {reads: private, from: untrusted}", f"data: {{find: {value}"
        )
    found = check(text, tools=[find, refund])
    assert value == "{}" or any(one.at.startswith(f"{key}.") for one in found)
