"""No face shows a value as Python writes it: facts, changes, outputs and fields are JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.core.format import json_text, say_value
from chartloop.ui.view_model.build import view_run
from chartloop.ui.view_model.text import changes, output_lines

pytestmark = pytest.mark.law

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
MACHINE = """\
chartloop: 1
machine: keeper
output: vars.kept
vars: {kept: {type: any, value: null}}
rules: [{when: run.steps >= 5, stop: steps_limit}]
states:
  take: {do: receive, next: done}
  done: {stop: completed}
"""


@given(VALUES)
def test_a_value_is_read_back_from_what_is_shown(value: Any) -> None:
    assert json.loads(json_text(value)) == value
    assert json.loads(json_text(value, indent=2)) == value


@given(st.booleans() | st.text(max_size=10) | st.lists(SCALARS, max_size=3))
def test_a_short_value_in_a_table_is_whole_json(value: Any) -> None:
    shown = say_value(value)
    if not shown.endswith("…"):
        assert json.loads(shown) == value


@given(VALUES)
def test_no_part_of_a_view_is_pythons(value: Any) -> None:
    run = load(MACHINE).start("x", vars={"kept": value})
    run.run()
    view = view_run(run)
    sent = view.to_dict()
    shown = {fact["name"]: fact["value"] for fact in sent["facts"]}
    if value and not isinstance(value, (str, int, float)):
        assert shown["vars.kept"] == say_value(value)
        assert shown["vars.kept"] != repr(value) or repr(value) == json_text(value)
    if value is not None and not isinstance(value, str):
        assert sent["output_kind"] == "json"
        assert sent["output_rest"] or json.loads(sent["output"]) == value
        lines = [line.text for line in output_lines(view)]
        assert lines or value is None
    python = {"True", "False", "None", "{}'", "''"}
    told = {text for change in changes(view) for text in change[1:]}
    assert not told & python
