"""What the actions say of themselves: `chartloop info actions NAME`, the reference and the schema show it."""

from __future__ import annotations

import re

import pytest

from chartloop import tool
from chartloop.actions import builtin, with_own
from chartloop.actions.declare import specs_of
from chartloop.core.specs import ActionSpec
from chartloop.language.load import load

ACTIONS = [action for _, action in sorted(builtin().actions.items())]
FREE = {"texts", "values", "fields"}
"""The notations whose keys the file chooses."""
MACHINE = """\
chartloop: 1
machine: example
model: scripted
tools: [price]
vars:
  plan: ""
  code: ""
  update: {type: "map[str]", value: {}}
  score: 0
  approach: ""
  progress: ""
  turns: 0
  mood: ""
  item: ""
  price: {type: any, value: 0}
  text: ""
  verdict: {type: any, value: null}
  verdicts: {type: "map[any]", value: {}}
  claims: {type: "list[str]", value: []}
  steps: {type: "list[str]", value: []}
machines:
  reviewer:
    model: scripted
    vars: {strict: false}
    limits: {tokens: 9_000}
    rules: [{when: usage.total_tokens >= limits.tokens, stop: token_limit}]
    states: {claim: {do: receive, next: judge}, judge: {do: infer, next: done}, done: {stop: completed}}
states:
%s
  work: {do: work, next: done}
  again: {do: infer, next: done}
  run_code: {do: python, with: {code: vars.code}, within: 10s, next: done}
  done: {stop: completed}
"""


@tool
def price(item: str, count: int) -> float:
    """The price of an item."""
    return float(len(item) * count)


def free(action: ActionSpec) -> bool:
    return action.targets is not None or any(
        a.kind in FREE or (a.type.kind == "map" and a.name != "extra") for a in action.args
    )


def test_an_action_whose_keys_are_free_shows_an_example() -> None:
    assert [action.name for action in ACTIONS if free(action) and not action.example] == []


def test_an_example_is_right(subtests: pytest.Subtests) -> None:
    for action in (a for a in ACTIONS if a.example):
        with subtests.test(action.name):
            assert re.search(rf"^  do: {action.name}$", action.example, re.MULTILINE)
            state = re.sub("^", "  ", action.example, flags=re.MULTILINE)
            loaded = load(MACHINE % state, "example.yaml", with_own(specs_of([price])))
            assert [f.message for f in loaded.findings if f.is_error] == []


def test_an_action_shows_each_of_its_fields(subtests: pytest.Subtests) -> None:
    for action in ACTIONS:
        with subtests.test(action.name):
            shown = "\n".join(line.text for line in action.lines(width=10_000))
            for field in (*action.args, *action.entry):
                assert f"{field.name} " in shown
                assert field.about
                assert field.about in shown
            assert action.run is not None
            assert action.about.endswith(".")
            assert action.details in shown
            assert action.example in shown
