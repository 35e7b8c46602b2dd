"""What holds for every flowchart that is imported: it loads, it draws itself, it can be stepped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.api.loader import find_faults
from chartloop.interchange.documents import flowcharts, read
from chartloop.interchange.import_chart import Imported, import_chart
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.interchange.verify import verify
from chartloop.pictures.compare.difference import differences
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, Shape
from chartloop.pictures.mermaid import to_mermaid

HOSTILE = [
    *('"', "'", "`x`", "{x}", "{{x}}", "{limits.x}", "}", "# x", "a: b", "- x", "\\", "null"),
    *("yes", "No", "STOP: tokens", "done", "end", "on", "true", "1", "1.5", "~", "@x", "&a", "*a"),
    *("🎉", "שלום", "\u202ex", "\x00", "\x85", "\ufeff", "\u2028", "", " ", "\n", "\t", "<b>x</b>"),
    *("x" * 2_000, "[x]", "(x)", "%%", "|", ">", "!tag", "? x", ", ", "é", "advance", "Ünïcode"),
]
labels = st.one_of(
    st.text(max_size=10),
    st.lists(st.sampled_from([*HOSTILE, "x", " "]), max_size=4).map("".join),
    st.sampled_from(["Yes", "No", "Work", "Again"]),
).filter(lambda label: "\\n" not in label)  # what a label of the language cannot hold
names = st.one_of(
    st.sampled_from(["A", "B", "C1", "Start", "end", "return", "n1", "CheckTokens", "true", "x-y"]),
    st.text(max_size=6),
)
shapes: st.SearchStrategy[Shape] = st.sampled_from(
    ["rect", "rect", "diamond", "diamond", "pill", *get_args(Shape)]
)
fills = st.sampled_from([None, None, None, "#e1f5ff", "#ffcdd2", "#c8e6c9", "#fff9c4", "red"])


@st.composite
def charts(draw: st.DrawFn) -> Flowchart:
    """Any chart with a box: parallel arrows, loops, islands, several starts or none."""
    found = draw(st.lists(names, unique=True, min_size=1, max_size=8))
    name = st.sampled_from(found)
    ends = draw(st.lists(st.tuples(name, name), max_size=12))
    boxes = tuple(Box(n, draw(labels), draw(shapes), fill=draw(fills)) for n in found)
    return Flowchart(draw(labels), boxes, tuple(Arrow(*pair, draw(labels)) for pair in ends))


@st.composite
def plain_charts(draw: st.DrawFn) -> Flowchart:
    """Charts as documents have them: boxes, diamonds and pills without colours."""
    found = [f"step{n}" for n in range(draw(st.integers(1, 8)))]
    name = st.sampled_from(found)
    ends = draw(st.lists(st.tuples(name, name), max_size=14))
    left = {source for source, _ in ends}
    kinds: st.SearchStrategy[Shape] = st.sampled_from(["rect", "diamond", "pill"])
    ends_as: st.SearchStrategy[Shape] = st.sampled_from(["rect", "pill"])
    words = st.sampled_from(["Plan", "Ask?", "STOP: tokens", "Done", "Line\nbreak", "{x}"])
    boxes = tuple(Box(n, draw(words), draw(kinds if n in left else ends_as)) for n in found)
    said = st.sampled_from(["", "Yes", "No", "on: it", "Yes, Fix"])
    return Flowchart("", boxes, tuple(Arrow(*pair, draw(said)) for pair in ends))


def imported(text: str) -> Imported:
    (found,) = flowcharts(text, file="flow.mmd")
    return import_chart(read(found))


@settings(max_examples=30)
@given(charts())
def test_an_imported_chart_loads_and_declares_all_that_it_draws_otherwise(
    chart: Flowchart,
) -> None:
    text = to_mermaid(chart)
    made = imported(text)
    assert not [finding for finding in made.machine.findings if finding.is_error]
    loaded, findings = find_faults(made.text)
    assert {finding.code for finding in findings if finding.is_error} <= {"CL304"}
    assert (loaded is None) == bool(made.unreached)
    assert "\nignore" not in made.text
    if loaded is not None:
        assert loaded.spec.states == made.machine.spec.states
    (found,) = flowcharts(text, file="flow.mmd")
    assert verify(found, loaded or made.machine).holds
    changed = {d.change for d in made.deviations}
    assert changed <= {"shape", "fill", "label"}
    assert len(made.machine.spec.states) == len(chart.boxes)


@settings(max_examples=30)
@given(plain_charts())
def test_a_chart_of_boxes_diamonds_and_pills_is_drawn_as_it_was(chart: Flowchart) -> None:
    made = imported(to_mermaid(chart))
    assert differences(chart, made.machine.draw(rules="none").chart) == ()
    assert made.deviations == ()


@settings(max_examples=25)
@given(st.data(), plain_charts())
def test_an_imported_chart_can_be_stepped_by_hand(data: st.DataObject, chart: Flowchart) -> None:
    made = imported(to_mermaid(chart))
    machine = made.machine
    run = machine.start("x")
    for _ in range(12):
        if run.ended:
            break
        if run.answers:
            run.send(data.draw(st.sampled_from(sorted(run.answers))))
        run.advance()
    assert run.state in machine.spec.states


class Grouped(NamedTuple):
    """A flowchart with groups in groups, as text, and what it is made of."""

    text: str
    boxes: list[str]
    owners: dict[str, str]
    """The group of each box and group that is in one; `g0` is in none."""


@st.composite
def grouped(draw: st.DrawFn) -> Grouped:
    """Groups of boxes and of groups, with any arrows within and between them."""
    groups = [f"g{n}" for n in range(draw(st.integers(1, 4)))]
    owners = {g: draw(st.sampled_from(groups[:n])) for n, g in enumerate(groups) if n}
    boxes = [f"b{n}" for n in range(draw(st.integers(1, 7)))]
    owners |= {box: draw(st.sampled_from(groups)) for box in boxes}
    end = st.sampled_from(boxes + groups[1:])
    arrows = draw(st.lists(st.tuples(end, end), max_size=8))

    def lines(group: str) -> list[str]:
        inside = [part for part, owner in owners.items() if owner == group]
        return [
            f"subgraph {group}",
            *(line for part in inside for line in (lines(part) if part in groups else [part])),
            "end",
        ]

    drawn = [*lines("g0"), *(f"{a} --> {b}" for a, b in arrows), "before --> g0", "g0 --> after"]
    return Grouped("flowchart TD\n" + "\n".join(drawn) + "\n", boxes, owners)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(grouped())
def test_an_arrow_to_a_group_reaches_all_of_it_and_one_from_it_leaves_all_of_it(
    drawn: Grouped,
) -> None:
    chart = read_mermaid(drawn.text)
    joined = {(arrow.source, arrow.target) for arrow in chart.arrows}
    full = {owner for box in drawn.boxes for owner in around(box, drawn.owners)}
    assert not {end for pair in joined for end in pair} & full
    assert reached("before", joined) >= {*drawn.boxes, "after"}
    assert reached("after", {(b, a) for a, b in joined}) >= {*drawn.boxes, "before"}
    empty = {*drawn.owners.values(), *drawn.owners} - full - {*drawn.boxes}
    assert {*imported(drawn.text).unreached} <= empty


@given(grouped())
def test_a_group_begins_with_as_few_boxes_as_reach_all_of_it(drawn: Grouped) -> None:
    joined = {(a.source, a.target) for a in read_mermaid(drawn.text).arrows}
    within = {pair for pair in joined if {*pair} <= {*drawn.boxes}}
    begins = [b for a, b in joined if a == "before"]
    for box in begins:
        others = [reached(other, within) for other in begins if other != box]
        assert not any(box in found for found in others)


def around(part: str, owners: dict[str, str]) -> Iterator[str]:
    while (part := owners.get(part, "")) != "":
        yield part


def reached(first: str, joined: set[tuple[str, str]]) -> set[str]:
    seen, waiting = set[str](), [first]
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            waiting += [b for a, b in joined if a == name]
    return seen


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(plain_charts(), st.data())
def test_one_arrow_that_leads_elsewhere_is_found(chart: Flowchart, data: st.DataObject) -> None:
    made = imported(to_mermaid(chart))
    name = st.sampled_from([box.id for box in chart.boxes])
    more = replace(chart, arrows=(*chart.arrows, Arrow(data.draw(name), data.draw(name), "more")))
    (found,) = flowcharts(to_mermaid(more), file="flow.mmd")
    verdict = verify(found, made.machine)
    assert not verdict.holds
    assert len(verdict.undeclared) >= 1
