"""Pictures in characters: every box and every arrow can be read back by following the lines."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chartloop import load
from chartloop.catalog import shipped_machines
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, printable
from chartloop.pictures.text.cells import size, wrap_text
from chartloop.pictures.text.draw import FORMS, draw
from chartloop.pictures.text.neighborhood import Note, neighbourhood
from chartloop.pictures.text.order import all_nodes, order_chart
from chartloop.pictures.text.place import ENTRY, HERE, MARKS, Form
from tests.following import Found, Reader
from tests.laws.test_view_laws import charts

WIDE = 100_000


def bare(text: str) -> str:
    """The words of a text, and no mark that stands for what has no width of its own.

    What has none before the first character is drawn into the blank before it: it is not read.
    """
    words = "".join(printable(text).split()).replace("\ufffd", "")
    while words and unicodedata.category(words[0]) in ("Mn", "Me", "Cf"):
        words = words[1:]
    return words


def is_read_back(
    chart: Flowchart, width: int, forms: Iterable[Form] = FORMS, here: str = ""
) -> None:
    for form in forms:
        drawing = draw(chart, width=width, here=here, forms=(form,))
        if drawing is None:
            continue
        reader = Reader(drawing)
        read = Counter(found._replace(label=bare(found.label)) for found in reader.arrows())
        assert read == Counter(Found(a.source, a.target, bare(a.drawn_text)) for a in chart.arrows)
        assert {n: bare(t) for n, t in reader.boxes().items()} == {
            box.id: bare(
                HERE * (box.id == here) + ENTRY * box.entry + MARKS.get(box.role, "")
                + (box.label if bare(box.label) or box.label.split() else box.id)
            )
            for box in chart.boxes
        }  # fmt: skip
        for line in drawing.text().splitlines():
            assert size(line) <= width


some_form = st.sampled_from(FORMS).map(lambda form: (form,))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(charts(), some_form)
@example(
    Flowchart("", (Box("a", "a"), Box("b", "b")), (Arrow("a", "b", "\u200fשלם 12 (x)"),)),
    (Form(depth=2, words=34),),
)
@settings(max_examples=150)
def test_every_box_and_arrow_is_read_back(chart: Flowchart, forms: tuple[Form, ...]) -> None:
    is_read_back(chart, WIDE, forms, here=chart.boxes[0].id if chart.boxes else "")


@st.composite
def tangles(draw: st.DrawFn) -> Flowchart:
    """Many boxes with many arrows, loops, parallel ones and ways back among them."""
    count = draw(st.integers(1, 40))
    ends = st.integers(0, count - 1)
    near = st.tuples(ends, st.integers(-3, 6)).map(lambda p: (p[0], (p[0] + p[1]) % count))
    arrows = draw(st.lists(st.one_of(near, st.tuples(ends, ends)), max_size=3 * count))
    said = st.sampled_from(
        ["", "", "Yes", "No", "a guard that is much longer than thirty-six columns are"]
    )
    return Flowchart(
        "tangle",
        tuple(Box(f"b{n}", f"Box {n}", "diamond" if n % 3 == 0 else "rect") for n in range(count)),
        tuple(
            Arrow(f"b{a}", f"b{b}", draw(said), number=draw(st.sampled_from([None, 1])))
            for a, b in arrows
        ),
    )


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(tangles(), some_form)
@settings(max_examples=80, deadline=None)
def test_no_arrow_is_lost_in_a_tangle(chart: Flowchart, forms: tuple[Form, ...]) -> None:
    is_read_back(chart, WIDE, forms)


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("name", sorted(shipped_machines()))
@pytest.mark.parametrize("rules", ["box", "chain"])
def test_the_shipped_machines_are_read_back_at_the_widths_of_terminals(
    name: str, rules: str
) -> None:
    chart = load(name).draw(rules=rules, all=True).chart  # pyright: ignore[reportArgumentType]
    is_read_back(chart, 100)


@given(tangles(), st.integers(0, 2))
def test_every_box_is_placed_once_and_every_arrow_leaves_once(chart: Flowchart, depth: int) -> None:
    nodes = list(all_nodes(order_chart(chart, depth=depth)))
    assert Counter(n.box.id for n in nodes) == Counter(b.id for b in chart.boxes)
    assert Counter(id(w.arrow) for n in nodes for w in n.exits) == Counter(map(id, chart.arrows))


@given(st.text(), st.integers(2, 40))
@example("00 \u0300", 2)
def test_lines_fit_and_no_word_is_lost(text: str, width: int) -> None:
    lines = wrap_text(printable(text), width)
    assert all(size(line) <= width for line in lines)
    assert bare("".join(lines)) == bare(text)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(charts(), st.integers(40, 120), st.data())
def test_a_neighbourhood_fits_and_names_what_is_round_it(
    chart: Flowchart, width: int, data: st.DataObject
) -> None:
    if not chart.boxes:
        return
    state = data.draw(st.sampled_from(chart.boxes)).id
    notes = {a.id: Note("✓", "1 against 0") for a in chart.arrows}
    drawing = neighbourhood(chart, state, width=width, notes=notes)
    assert all(size(line) <= width for line in drawing.text().splitlines())
    ways = sum(a.source == state for a in chart.arrows)
    assert sum("▶" in s.text and s.kind == "line" for line in drawing.lines for s in line) == ways
