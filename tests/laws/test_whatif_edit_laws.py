"""Laws of the what-if of an edited file, against brute force: a real run of that file.

Both runs have the same outcomes, by the number of the step: so a real run under the edited file is
what the recorded one would have been.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from chartloop import whatif
from chartloop.core.errors import LimitError
from chartloop.core.outcome import Blocked
from chartloop.studies.whatif.question import reading
from chartloop.studies.whatif.verdict import Verdict
from tests.driving import Made, machine_of, made
from tests.laws.test_upgrade_edit_laws import edited, machine_after
from tests.laws.test_whatif_laws import agrees, limited, limits, lived


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits, st.data())
@settings(max_examples=100)
def test_what_is_said_of_an_edited_file_is_what_a_real_run_of_it_does(
    data: Any, what: list[Made], before: Any, more: st.DataObject
) -> None:
    what = [one for one in what if not isinstance(one, Blocked)] or [None]
    edit = more.draw(edited(data))
    now = more.draw(limits)
    old = machine_of(data, what)
    new = machine_after(edit, what)
    try:
        recorded, real = lived(old, before), lived(new, {**before, **now})
    except LimitError:  # a limit is of another type in the edited file
        assume(False)
        return
    (judged,) = whatif(new, recorded, limits=now).runs
    event(f"{judged.verdict}: {edit.what if ' ' not in edit.what else 'two'}")
    agrees(judged, recorded, real, reading(new.chart)(old.chart).proposed)
    if judged.verdict in (Verdict.EARLIER, Verdict.OTHERWISE):
        assert judged.reason


HEADS: dict[str, st.SearchStrategy[Any]] = {
    "tasks": st.lists(st.sampled_from(["one", "two", "three"]), max_size=3),
    "agent": st.sampled_from(["a", "b"]),
    "on_stop": st.sampled_from(["stopped", "done"]),
    "on_error": st.just("s0"),
    "in_doubt": st.sampled_from(["ask", "fail"]),
    "instructions": st.sampled_from(["Be short.", "Be long."]),
    "memory": st.sampled_from([{"note": {"value": "x"}}, {"note": {"value": "y"}}]),
    "reasons": st.sampled_from([{"custom": {"priority": 2}}, {"custom": {"priority": 8}}]),
    "title": st.just("T"),
    "output": st.just("run.steps"),
    "approve": st.sampled_from([{"tools": ["poke"]}, {"tools": ["poke"], "by": "the owner"}]),
}
"""What the head of a file may say. Each may come, go or become another."""
_READING = (
    {"when": "queue.size > 1", "stop": "custom"},
    {"when": "queue.size < limits.few", "signal": "custom"},
    {"when": "queue.size == 0 and run.steps > 2", "signal": "no_progress"},
    {"when": "run.agent == 'b' and run.steps > 1", "stop": "custom"},
)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(limited(), made, limits, st.data())
@settings(max_examples=100)
def test_what_is_said_of_an_edited_head_is_what_a_real_run_does(
    data: Any, what: list[Made], before: Any, more: st.DataObject
) -> None:
    what = [one for one in what if not isinstance(one, Blocked)] or [None]
    data["rules"] += more.draw(st.lists(st.sampled_from(_READING), min_size=1, unique_by=str))
    name = more.draw(st.sampled_from(sorted(HEADS)))
    files = [
        {**data, **({} if value is None else {name: value})}
        for value in (more.draw(st.none() | HEADS[name]), more.draw(st.none() | HEADS[name]))
    ]
    helped = more.draw(st.sampled_from([0, 1, 60]))
    try:
        old, new = (machine_of(one, what) for one in files)
    except AssertionError:  # a state that is named has gone
        assume(False)
        return
    recorded, real = lived(old, before, helped), lived(new, before, helped)
    (judged,) = whatif(new, recorded).runs
    event(f"{judged.verdict}: {name}")
    agrees(judged, recorded, real, reading(new.chart)(old.chart).proposed)
