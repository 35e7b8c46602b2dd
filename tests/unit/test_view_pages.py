"""A large picture in parts that can be read on a page."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.core.errors import RunError
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.pages import PAPERS, Room, fitting, shorten_title, split
from chartloop.pictures.picture import Picture

DOT = pytest.mark.system("dot", install="apt-get install graphviz")


@st.composite
def charts(draw: st.DrawFn) -> Flowchart:
    names = [f"s{n}" for n in range(draw(st.integers(1, 20)))]
    ends = st.tuples(st.sampled_from(names), st.sampled_from(names))
    arrows = (Arrow(a, b, f"{a}{b}", f"{a}.{n}") for n, (a, b) in enumerate(draw(st.lists(ends))))
    return Flowchart("Any", tuple(Box(n, n.upper()) for n in names), tuple(arrows))


@given(charts(), st.integers(1, 12))
def test_every_box_and_every_arrow_stands_on_a_page(chart: Flowchart, most: int) -> None:
    pages = split(chart, lambda part: sum(b.origin != "page" for b in part.boxes) <= most)
    own = [[box.id for box in page.boxes if box.origin != "page"] for page in pages]
    assert sorted(name for names in own for name in names) == sorted(b.id for b in chart.boxes)
    assert all(0 < len(names) <= most for names in own)
    leaving = Counter(a.id for page in pages for a in page.arrows if a.id)
    assert leaving == Counter(arrow.id for arrow in chart.arrows)
    page_of = {name: n for n, names in enumerate(own, 1) for name in names}
    for number, page in enumerate(pages, 1):
        known = {box.id for box in page.boxes}
        assert all({arrow.source, arrow.target} <= known for arrow in page.arrows)
        marks = {b.id for b in page.boxes if b.origin == "page" and b.label.startswith("on page")}
        away = {a.target for a in chart.arrows if page_of[a.source] == number != page_of[a.target]}
        assert marks == {f"on-{page_of[name]}-{name}" for name in away}
        into = {a.target for a in chart.arrows if page_of[a.target] == number != page_of[a.source]}
        assert {b.id for b in page.boxes if b.id.startswith("from-")} == {f"from-{n}" for n in into}


@given(charts())
def test_a_box_that_fits_nowhere_has_a_page_of_its_own(chart: Flowchart) -> None:
    pages = split(chart, lambda _: False)
    assert len(pages) == len(chart.boxes)


def test_a_chart_that_fits_is_one_page() -> None:
    chart = Flowchart("One", (Box("a", "A"), Box("b", "B")), (Arrow("a", "b"),))
    assert split(chart, lambda _: True) == (chart,)


def test_marks_say_where_an_arrow_goes_on_and_where_it_comes_from() -> None:
    boxes = tuple(Box(name, f"Do {name}") for name in "abc")
    chart = Flowchart("T", boxes, (Arrow("a", "b", "go"), Arrow("b", "c"), Arrow("a", "c")))
    first, second, third = split(
        chart, lambda part: sum(b.origin != "page" for b in part.boxes) < 2
    )
    assert [page.title for page in (first, second, third)] == [f"T ({n} of 3)" for n in (1, 2, 3)]
    assert {box.label for box in first.boxes} == {"Do a", "on page 2\nDo b", "on page 3\nDo c"}
    assert {box.label for box in second.boxes} == {"from page 1\nDo a", "Do b", "on page 3\nDo c"}
    assert {box.label for box in third.boxes} == {"from pages 1, 2\n2 boxes", "Do c"}
    assert [arrow.label for arrow in first.arrows] == ["go", ""]


def test_a_title_leaves_a_narrow_page_narrow() -> None:
    long = Flowchart("A title of so many words that no phone has room for it")
    assert shorten_title(long, PAPERS["phone"]).title == "A title of so many word…"
    assert shorten_title(long, PAPERS["a4"]).title == "A title of so many words that no phone…"


def test_letters_stay_large_enough_to_be_read() -> None:
    room = Room(400, 400)
    assert fitting(room, 550, 550)
    assert not fitting(room, 551, 10)
    assert not fitting(room, 10, 551)


@pytest.mark.slow("starts processes for seconds")
@DOT
@pytest.mark.parametrize("paper", ["a4", "letter"])
def test_each_page_of_a_large_machine_fits(paper: str) -> None:
    pages = load("moderator").draw().pages(paper)  # pyright: ignore[reportArgumentType]
    assert 3 < len(pages) < 12
    room = PAPERS[paper]  # pyright: ignore[reportArgumentType]
    assert all(fitting(room, *page.size()) for page in pages)


@pytest.mark.slow("starts processes for seconds")
@DOT
def test_a_run_is_split_with_its_moment() -> None:
    run = load("agent").start("x", script=["Hi."])
    run.run(until="llm_inference")
    pages = run.draw(look="live").pages("phone")
    assert len(pages) > 1
    assert sum("● NOW" in page.svg() for page in pages) == 1
    assert len({page.prefix for page in pages}) == len(pages)
    dark = run.draw(look="live").with_theme("dark").pages("phone")
    assert [page.svg() == other.svg() for page, other in zip(pages, dark, strict=True)] == [
        False
    ] * len(pages)


@DOT
def test_a_picture_that_fits_is_itself() -> None:
    picture = load("agent").draw()
    assert picture.pages("a4") == (picture,)
    with pytest.raises(RunError, match="there is no paper `a7`"):
        Picture(picture.chart).pages("a7")  # pyright: ignore[reportArgumentType]
