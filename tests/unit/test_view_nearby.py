"""A part of a chart: what is near a box, and how many boxes are hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import RunError, live, load
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.focus import HIDDEN, around, near, part

LOOP = read_mermaid("flowchart LR\n a --> b --> c --> d --> e --> a\n c --> x\n")


def with_rules(chart: Flowchart) -> Flowchart:
    """The chart with a box of rules that leads to `x` and `e`."""
    rules = Box("rules-1", "after every step\nrun.steps >= 9 → stop", role="rules", origin="rule")
    arrows = (Arrow("rules-1", "x", "a", kind="rule"), Arrow("rules-1", "e", "b", kind="rule"))
    return replace(chart, boxes=(*chart.boxes, rules), arrows=(*chart.arrows, *arrows))


@pytest.mark.parametrize(
    ("hops", "shown"), [(0, "c"), (1, "bcdx"), (2, "abcdex"), (99, "abcdex")], ids=str
)
def test_what_is_so_many_arrows_away(hops: int, shown: str) -> None:
    assert near(LOOP, "c", hops) == set(shown)


def test_rules_are_shown_and_not_passed() -> None:
    """They lead to every stop, which would bring the whole machine near everything."""
    assert near(with_rules(LOOP), "x", 1) == {"c", "x", "rules-1"}
    assert "e" not in near(with_rules(LOOP), "x", 2)
    assert near(with_rules(LOOP), "rules-1", 1) == {"rules-1", "x", "e"}


def test_what_is_hidden_is_counted_and_the_rest_stays_as_it_is() -> None:
    found = around(LOOP, "c")
    assert found.direction == "lr"
    assert {box.id for box in found.boxes} == {*"bcdx", HIDDEN}
    assert [(a.source, a.target) for a in found.arrows] == [("b", "c"), ("c", "d"), ("c", "x")]
    assert found.boxes[-1].label == "… 2 boxes hidden"
    assert around(LOOP, "c", hops=2) is LOOP


def test_to_say_that_one_is_hidden_would_take_its_room() -> None:
    assert around(part(LOOP, "abc"), "a") == part(LOOP, "abc")


@given(st.sampled_from("abcdex"), st.integers(0, 5))
def test_a_wider_neighbourhood_has_all_of_a_narrower_one(name: str, hops: int) -> None:
    assert name in near(LOOP, name, hops)
    assert near(LOOP, name, hops) <= near(LOOP, name, hops + 1)


def test_a_state_that_is_not_there() -> None:
    with pytest.raises(RunError, match="no state `llm_inferense`") as caught:
        load("agent").draw(around="llm_inferense")
    assert "did you mean `llm_inference`?" in caught.value.hint
    with pytest.raises(RunError, match="neighbourhood of -1"):
        load("agent").draw(around="done", hops=-1)
    with pytest.raises(RunError, match="no direction `up`"):
        load("agent").draw(direction="up")  # pyright: ignore[reportArgumentType]


def test_of_a_machine_and_of_its_run() -> None:
    machine = load("moderator")
    assert len(machine.draw(around="check_tokens").chart.boxes) < 8
    sideways = machine.draw(direction="lr")
    assert sideways.chart.direction == "lr"
    assert "rankdir=LR" in sideways.dot()
    run = machine.start("Talk.")
    assert "rankdir=LR" in run.draw(look="live", direction="lr").dot()
    assert run.draw(look="live", around="check_tokens").chart.boxes[-1].id == HIDDEN
    assert live(run, direction="lr").picture.chart == run.draw(direction="lr").chart
    assert "• " in machine.draw(direction="lr").outline()
