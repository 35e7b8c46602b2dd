"""What a guard says of a limit that is off: it is never reached, and anything else needs a test."""

from __future__ import annotations

import pytest

from chartloop import load
from chartloop.core.errors import SpecError

TEXT = """chartloop: 1
machine: m
limits: {{x: {{type: int, value: null}}}}
rules: [{{when: run.steps >= 3, stop: steps_limit}}]
states:
  a: {{do: nothing, next: [{{when: "{guard}", to: z}}, a]}}
  z: {{stop: completed}}
"""


@pytest.mark.parametrize(
    ("guard", "holds"),
    [
        ("run.steps >= limits.x", False),
        ("run.steps > limits.x", False),
        ("run.steps < limits.x", True),
        ("run.steps <= limits.x", True),
        ("limits.x > run.steps", True),
        ("not (run.steps >= limits.x)", True),
        ("errors.consecutive >= limits.x", False),
        ("limits.x is not None and errors.consecutive < limits.x", False),
    ],
)
def test_a_limit_that_is_off_is_never_reached(guard: str, holds: bool) -> None:
    result = load(TEXT.format(guard=guard)).run("x")
    assert result.reason == ("completed" if holds else "steps_limit")


@pytest.mark.parametrize(
    "guard",
    ["run.steps == limits.x", "errors.consecutive < limits.x", "run.steps + limits.x > 3"],
)
def test_any_other_reading_asks_for_a_test(guard: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(TEXT.format(guard=guard))
    assert [f.code for f in caught.value.findings if f.is_error] == ["CL109"]
