"""`tools: ["*"]`: every tool that the application brings, and none else."""

from __future__ import annotations

import pickle
from typing import NamedTuple

import pytest

from chartloop import Machine, SpecError, load, tool


@tool
def beta() -> None:
    """The second letter."""


@tool
def alpha() -> None:
    """The first letter."""


def machine(tools: str, *own: object) -> Machine:
    return load(
        "chartloop: 1\nmachine: m\nmodel: {name: scripted}\n"
        f"tools: {tools}\n"
        "states: {a: {do: receive, next: b}, b: {do: infer, next: z}, z: {stop: completed}}\n",
        tools=own,
    )


class Case(NamedTuple):
    id: str
    tools: str
    own: tuple[object, ...]
    expected: tuple[str, ...]


@pytest.mark.parametrize(
    "case",
    [
        Case("all-in-their-order", '["*"]', (beta, alpha), ("beta", "alpha")),
        Case("none-are-none", '["*"]', (), ()),
        Case("no-built-in-ones", '["*"]', (alpha,), ("alpha",)),
        Case("beside-others", '[send_message, "*"]', (alpha,), ("send_message", "alpha")),
        Case("named-before-is-named-once", '[alpha, "*"]', (beta, alpha), ("alpha", "beta")),
    ],
    ids=lambda case: case.id,
)
def test_a_star_is_every_tool_of_the_application(case: Case) -> None:
    assert machine(case.tools, *case.own).spec.tools == case.expected


def test_a_journal_holds_the_names_and_not_the_star() -> None:
    made = machine('["*"]', alpha)
    assert '"alpha"' in made.canonical()
    assert "*" not in made.canonical()
    assert pickle.loads(pickle.dumps(made)).spec.tools == ("alpha",)  # noqa: S301  our own


def test_a_star_twice_is_a_mistake() -> None:
    with pytest.raises(SpecError, match="CL211"):
        machine('["*", "*"]', alpha)
