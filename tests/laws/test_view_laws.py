"""What holds for every chart: written text is read back, and comparing is exact."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Any, get_args
from xml.etree import ElementTree as ET

import networkx as nx
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from chartloop.api import lifecycle
from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.machine.build import Chart
from chartloop.machine.graph import graph, visited_graph
from chartloop.pictures.compare.difference import Difference, differences
from chartloop.pictures.dot.engine import render
from chartloop.pictures.dot.write import svg_ids, to_dot
from chartloop.pictures.flowchart import (
    Arrow,
    Box,
    Direction,
    Flowchart,
    Role,
    Shape,
    one_line,
    printable,
    visited_part,
)
from chartloop.pictures.from_graph import flowchart
from chartloop.pictures.ids import KEYWORDS, safe_ids
from chartloop.pictures.mermaid import WIDE, to_mermaid
from chartloop.pictures.picture import Picture
from chartloop.pictures.text.outline import to_outline
from tests.effort import calls
from tests.laws.test_machine_laws import spec_of
from tests.strategies import machines

HOSTILE = [
    *('"', '""', "`x`", "#quot;", "#35;", "&lt;", "&#60;", "<b>x</b>", "<br/>", "<script>", "\\n"),
    *("%%{init: {}}%%", "%% x", "$$x$$", "fa:fa-bell", "direction TB", "style x:#fff;", "a;b"),
    *("end", "subgraph", "-->", "-- x -->", "|", "[x]", "{x}", "(x)", "((x))", "@{shape: x}"),
    *(
        "2 · x",
        "2 ·",
        "12",
        "ﬂ°°35¶ß",
        "\x00",
        "\x1f",
        "\x1b[2J",
        "\ud800",
        "\u202ex",
        "\u2028",
        "\r\n",
    ),
    *("", "   ", "\n\n", "\t", "'", "=<x>=", "\\", 'ends with \\"', "🎉", "a\xa0b", "accTitle: x"),
]
WRITTEN = [
    *(
        "שלום עולם",
        "مرحبا بالعالم",
        "\u200fשלם 12 (x)",
        "नमस्ते",
        "你好 世界",
        "e\u0301",
        "a\u200bb",
    ),
    *(
        "👩\u200d👩\u200d👧\u200d👦",
        "🇩🇪",
        "👍🏽",
        "❤\ufe0f",
        "x" * 2000,
        "some words " * 180,
        "שלום " * 400,
    ),
    *("🎉" * 200, "a\xa0b " * 100, "-" * 100, "long_name_with_underscores_" * 12),
]
"""What people write in other languages, or at length."""
labels = st.one_of(
    st.sampled_from(WRITTEN),
    st.text(max_size=12),
    st.lists(st.sampled_from([*HOSTILE, "x", " ", "\n", ":", "#"]), max_size=5).map("".join),
)
few_labels = st.sampled_from(["x", "y"])
ids = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    st.sampled_from([*sorted(KEYWORDS), "end_1", "a-b", "a_b", "", "é", "v", "direction"]),
    st.text(max_size=6),
)
shapes: st.SearchStrategy[Shape] = st.sampled_from(get_args(Shape))
roles: st.SearchStrategy[Role] = st.sampled_from(get_args(Role))
fills = st.one_of(st.none(), st.sampled_from(["#e1f5ff", "#ABC", "red", "url(x)", "#12345"]))


@st.composite
def charts(draw: st.DrawFn) -> Flowchart:
    """Any chart at all."""
    names = draw(st.lists(ids, unique=True, max_size=7))
    boxes = [
        Box(name, draw(labels), draw(shapes), draw(roles), draw(fills), draw(st.booleans()))
        for name in names
    ]
    kinds = st.sampled_from(["advance", "rule", "return", "retry"])
    numbers = st.one_of(st.none(), st.integers(1, 99))
    arrows = [
        Arrow(source, target, draw(labels), kind=draw(kinds), number=draw(numbers))
        for source, target in draw(_pairs(names))
    ]
    ways = st.sampled_from(get_args(Direction))
    return Flowchart(draw(labels), tuple(boxes), tuple(arrows), direction=draw(ways))


def _pairs(names: list[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    if not names:
        return st.just([])
    name = st.sampled_from(names)
    return st.lists(st.tuples(name, name), max_size=10)


@st.composite
def alike_charts(draw: st.DrawFn) -> Flowchart:
    """Small charts in which many boxes and arrows say the same: the hard ones to compare."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 7)))]
    two_shapes: st.SearchStrategy[Shape] = st.sampled_from(["rect", "diamond"])
    boxes = tuple(Box(name, draw(few_labels), draw(two_shapes)) for name in names)
    arrows = tuple(Arrow(*pair, draw(few_labels)) for pair in draw(_pairs(names)))
    return Flowchart("", boxes, arrows)


@st.composite
def distinct_charts(draw: st.DrawFn) -> Flowchart:
    """Charts in which every box has a label of its own."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 9)))]
    boxes = tuple(Box(name, f"{name} {name[::-1]} {n**5}") for n, name in enumerate(names))
    arrows = tuple(Arrow(*pair, draw(few_labels)) for pair in draw(_pairs(names)))
    return Flowchart("", boxes, arrows)


@st.composite
def shuffled(draw: st.DrawFn, chart: Flowchart) -> Flowchart:
    """The same chart under other ids and in another order."""
    places = draw(st.permutations(range(len(chart.boxes))))
    names = {box.id: f"t{place}" for box, place in zip(chart.boxes, places, strict=True)}
    boxes = tuple(replace(box, id=names[box.id]) for box in chart.boxes)
    arrows = tuple(replace(a, source=names[a.source], target=names[a.target]) for a in chart.arrows)
    order = draw(st.permutations(boxes)), draw(st.permutations(arrows))
    return replace(chart, boxes=tuple(order[0]), arrows=tuple(order[1]))


# ------------------------------------------------------------------------------- texts of a chart


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(charts())
def test_mermaid_is_read_back_as_the_same_chart(chart: Flowchart) -> None:
    back = read_mermaid(to_mermaid(chart))
    assert differences(_with_colours_only(chart), back) == ()
    assert one_line(back.title) == one_line(chart.title)
    assert [one_line(a.label) for a in back.arrows] == [one_line(a.label) for a in chart.arrows]
    assert [a.number for a in back.arrows] == [a.number for a in chart.arrows]
    assert [one_line(b.label) for b in back.boxes] == [one_line(b.label) for b in chart.boxes]


def _with_colours_only(chart: Flowchart) -> Flowchart:
    """Without the fills that are no colours, which no format writes."""
    colours = {None, "#e1f5ff", "#ABC", "red"}
    boxes = (replace(b, fill=b.fill if b.fill in colours else None) for b in chart.boxes)
    return replace(chart, boxes=tuple(boxes))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(charts())
def test_mermaid_text_that_was_read_is_written_the_same_again(chart: Flowchart) -> None:
    text = to_mermaid(read_mermaid(to_mermaid(chart)))
    assert to_mermaid(read_mermaid(text)) == text


QUOTED = re.compile(
    r'^    \w+(?: -\.?->)?[\[({>|/\\-]*"([^"]*)"[\])}|/\\-]*(?:@\{ shape: [a-z-]+ \})?(?: \w+)?$'
)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(charts())
@example(Flowchart("", (Box("a", "\n", role="rules"),), ()))
@example(Flowchart("", (Box("a", "x\ny", role="rules"),), ()))
def test_nothing_in_a_label_means_anything_to_mermaid(chart: Flowchart) -> None:
    first, *rest = to_mermaid(chart).split("\n")
    lines = rest if first == WIDE else [first, *rest]  # what we say ourselves to Mermaid
    written = [QUOTED.match(line) for line in lines if '"' in line]
    for line in written:
        assert line is not None
        rest = re.sub(r"#\w+;|<br/>", "", line[1])
        assert not re.search(r'["#&<`\\]|%%|\$\$|:fa-|direction\s+(?:TB|BT|RL|LR|TD)', rest)
        assert not re.search(r"style.*:\S*#.*;|classDef.*:\S*#.*;", line[1])
        assert line[1].strip()


@given(st.lists(ids, max_size=12))
def test_ids_are_words_that_mermaid_knows_no_other_meaning_of(names: list[str]) -> None:
    given_ids = safe_ids(names)
    assert set(given_ids) == set(names)
    assert len(set(given_ids.values())) == len(set(names))
    for name in given_ids.values():
        assert re.fullmatch(r"\w+", name, re.ASCII)
        assert name not in KEYWORDS


@given(st.text())
def test_printable_text_stays_as_it_is(text: str) -> None:
    clean = printable(text)
    assert printable(clean) == clean
    assert one_line(one_line(text)) == one_line(text)
    clean.encode()
    assert all(sign == "\n" or sign >= " " for sign in clean)


@given(charts())
def test_the_outline_names_every_state_and_holds_no_control(chart: Flowchart) -> None:
    text = to_outline(chart)
    assert all(sign == "\n" or sign >= " " for sign in text)
    ways = sum(line.startswith("    ") and "→" in line for line in text.split("\n"))
    assert ways >= len(chart.arrows)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(charts())
def test_dot_never_holds_html(chart: Flowchart) -> None:
    assert not re.search(r"[\w\"]\s*=\s*<", re.sub(r'"(?:[^"\\]|\\.)*"', '""', to_dot(chart)))


@pytest.mark.system("dot", install="apt-get install graphviz")
@settings(max_examples=15)
@given(charts())
def test_dot_draws_what_the_chart_says(chart: Flowchart) -> None:
    svg = ET.fromstring(render(to_dot(chart), "svg", engine="dot"))  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    names = safe_ids(box.id for box in chart.boxes)
    groups = {group.get("id", ""): group for group in svg.iter(f"{space}g")}
    for box in chart.boxes:
        texts = groups[f"node-{names[box.id]}"].iter(f"{space}text")
        assert _signs(text.text for text in texts) == _signs([printable(box.label)])
    assert len([name for name in groups if name.startswith("edge-")]) == len(chart.arrows)
    count: Counter[tuple[str, str]] = Counter()
    for arrow in chart.arrows:
        ends = names[arrow.source], names[arrow.target]
        texts = groups[f"edge-{ends[0]}-{ends[1]}-{count[ends]}"].iter(f"{space}text")
        count[ends] += 1
        assert _signs(text.text for text in texts) == _signs([printable(arrow.drawn_text)])


@pytest.mark.system("dot", install="apt-get install graphviz")
@settings(max_examples=15)
@given(charts())
def test_an_svg_says_what_it_is_to_who_does_not_see_it(chart: Flowchart) -> None:
    picture = Picture(chart, engine="dot")
    svg = ET.fromstring(picture.svg())  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    title, description, *_ = svg
    assert svg.get("role") == "img"
    assert (title.tag, svg.get("aria-labelledby")) == (f"{space}title", title.get("id"))
    assert (description.tag, svg.get("aria-describedby")) == (f"{space}desc", description.get("id"))
    assert title.text == (one_line(chart.title) or "Flowchart")
    whole = printable(picture.outline())
    assert (description.text or "").split() == whole.split() or len(whole) > 8_000
    names = {group.get("id"): group.findtext(f"{space}title") for group in svg.iter(f"{space}g")}
    ids = svg_ids(chart, picture.prefix)
    labels = {box.id: one_line(box.label) or printable(box.id) for box in chart.boxes}
    assert {box: names[name] for box, name in ids.boxes.items()} == labels
    for arrow, name in zip(chart.arrows, ids.arrows, strict=True):
        assert (names[name] or "").startswith(f"{labels[arrow.source]} → {labels[arrow.target]}")
    assert names[ids.chart] == title.text


def _signs(texts: Iterable[str | None]) -> str:
    """What is written, wherever lines are broken."""
    return "".join("".join(text or "" for text in texts).split())


@pytest.mark.system("dot", install="apt-get install graphviz")
@pytest.mark.parametrize("label", WRITTEN, ids=range(len(WRITTEN)))
def test_a_label_of_any_language_and_length_is_drawn_whole(label: str) -> None:
    shapes = ("rect", "diamond", "pill")
    boxes = tuple(Box(f"b{n}", label, shape) for n, shape in enumerate(shapes))
    chart = Flowchart(label, boxes, (Arrow("b0", "b1", label), Arrow("b1", "b2", label)))
    drawn = render(to_dot(chart), "svg", engine="dot")
    svg = ET.fromstring(drawn)  # noqa: S314 - our own
    texts = [text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert _signs(texts).count(_signs([printable(label)])) == 6
    assert max(len(text) for text in texts) <= 110
    assert differences(chart, read_mermaid(to_mermaid(chart))) == ()


@pytest.mark.system("dot", install="apt-get install graphviz")
@pytest.mark.parametrize("jump", [15, 499])
def test_five_hundred_boxes_are_drawn(jump: int) -> None:
    boxes = tuple(Box(f"s{n}", f"State {n}") for n in range(500))
    onward = [Arrow(f"s{n}", f"s{n + 1}") for n in range(499)]
    back = [
        Arrow(f"s{n}", f"s{(n * 7) % (jump + 1) + n - jump}", "x") for n in range(499, jump, -8)
    ]
    chart = Flowchart("big", boxes, (*onward, *back, Arrow("s0", "s499"), Arrow("s499", "s0")))
    svg = ET.fromstring(render(to_dot(chart), "svg", engine="dot", timeout=100))  # noqa: S314 - our own
    ids = [group.get("id", "") for group in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert sum(name.startswith("node-") for name in ids) == 500
    assert sum(name.startswith("edge-") for name in ids) == len(chart.arrows)
    assert differences(chart, read_mermaid(to_mermaid(chart))) == ()


# --------------------------------------------------------------------------------------- reading

pieces = st.sampled_from(
    [
        *("A", "B", "end", "style", "class", "accDescr", "%%", "%%{", "---", "flowchart TD", "\n"),
        *(" ", ";", "-->", "--", "-.", "==", "-.->", "|", '"', "[", "]", "(", ")", "{", "}", "&"),
        *(":::", ">", "#35;", "<br/>", "`", "A[x]", "\\", "x", "é", "\x00", "A --> B"),
    ]
)


@given(st.one_of(st.text(), st.lists(pieces, max_size=25).map("".join)))
def test_a_text_is_read_or_refused_at_a_place_that_it_has(text: str) -> None:
    for given_text in (text, f"flowchart TD\n{text}"):
        try:
            chart = read_mermaid(given_text)
        except SpecError as refused:
            (found,) = refused.findings
            lines = re.split(r"\r\n?|\n", given_text)  # as Mermaid breaks them
            place = found.place
            inside = (
                1 <= place.line <= len(lines)
                and 1 <= place.column <= len(lines[place.line - 1]) + 1
            )
            if not inside:
                raise
        else:
            known = {box.id for box in chart.boxes}
            assert {end for a in chart.arrows for end in (a.source, a.target)} <= known


# ------------------------------------------------------------------------------------- comparing


def _as_graph(chart: Flowchart) -> Any:
    """The chart with its parallel arrows as one edge, for networkx to compare."""
    graph: Any = nx.DiGraph()  # pyright: ignore[reportUnknownVariableType]
    for box in chart.boxes:
        graph.add_node(box.id, like=(one_line(box.label), box.shape))
    between = Counter((arrow.source, arrow.target, arrow.label) for arrow in chart.arrows)
    for (source, target, label), count in between.items():
        said: frozenset[Hashable] = graph.get_edge_data(source, target, {"like": frozenset()})[
            "like"
        ]
        graph.add_edge(source, target, like=said | {(label, count)})
    return graph


def _same(a: Flowchart, b: Flowchart) -> bool:
    def like(one: Any, other: Any) -> bool:
        return one["like"] == other["like"]

    return nx.is_isomorphic(_as_graph(a), _as_graph(b), node_match=like, edge_match=like)


@given(st.data(), st.one_of(charts(), alike_charts(), distinct_charts()))
def test_other_ids_and_another_order_are_no_difference(
    data: st.DataObject, chart: Flowchart
) -> None:
    assert differences(chart, data.draw(shuffled(chart))) == ()


@given(st.data(), alike_charts())
def test_no_difference_is_found_exactly_when_the_charts_are_isomorphic(
    data: st.DataObject, chart: Flowchart
) -> None:
    other = data.draw(shuffled(chart))
    if other.arrows:
        name = st.sampled_from([box.id for box in other.boxes])
        arrow = Arrow(data.draw(name), data.draw(name), data.draw(few_labels))
        other = replace(other, arrows=(arrow, *other.arrows[1:]))
    assert (differences(chart, other) == ()) == _same(chart, other)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(alike_charts(), alike_charts())
def test_what_is_added_one_way_is_removed_the_other_way(a: Flowchart, b: Flowchart) -> None:
    def counted(found: tuple[Difference, ...]) -> int:
        grown = {"added": 1, "removed": -1}
        return sum(grown.get(d.change, 0) for d in found if d.what == "edge")

    assert counted(differences(a, b)) == len(b.arrows) - len(a.arrows)
    assert counted(differences(b, a)) == len(a.arrows) - len(b.arrows)


@given(st.data(), distinct_charts())
def test_one_arrow_more_or_less_is_exactly_that(data: st.DataObject, chart: Flowchart) -> None:
    less = data.draw(shuffled(chart))
    name = st.sampled_from([box.id for box in less.boxes])
    arrow = Arrow(data.draw(name), data.draw(name), data.draw(few_labels))
    more = replace(less, arrows=(*less.arrows, arrow))
    words = f"edge {arrow.source} → {arrow.target}"
    assert [str(d) for d in differences(chart, more)] == [f"{words} added"]
    assert [str(d) for d in differences(more, less)] == [f"{words} removed"]


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.data(), distinct_charts())
def test_an_arrow_that_leads_elsewhere_is_exactly_that(
    data: st.DataObject, chart: Flowchart
) -> None:
    assume(chart.arrows)
    other = data.draw(shuffled(chart))
    at = data.draw(st.integers(0, len(other.arrows) - 1))
    before = other.arrows[at]
    after = replace(before, target=data.draw(st.sampled_from([box.id for box in other.boxes])))
    assume(after != before)
    arrows = (*other.arrows[:at], after, *other.arrows[at + 1 :])
    assert sorted(str(d) for d in differences(chart, replace(other, arrows=arrows))) == sorted(
        [
            f"edge {before.source} → {before.target} removed",
            f"edge {after.source} → {after.target} added",
        ]
    )


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.data(), alike_charts())
def test_where_all_looks_alike_no_more_is_said_than_was_changed(
    data: st.DataObject, chart: Flowchart
) -> None:
    other = data.draw(shuffled(chart))
    name = st.sampled_from([box.id for box in other.boxes])
    arrow = Arrow(data.draw(name), data.draw(name), data.draw(few_labels))
    assert len(differences(chart, replace(other, arrows=(*other.arrows, arrow)))) == 1
    if other.arrows:
        moved = replace(other, arrows=(*other.arrows[1:], arrow))
        assert len(differences(chart, moved)) <= 2


@given(st.data(), alike_charts())
def test_where_all_looks_alike_a_new_label_is_exactly_that(
    data: st.DataObject, chart: Flowchart
) -> None:
    other = data.draw(shuffled(chart))
    renamed = replace(other.boxes[0], label=other.boxes[0].label * 2)
    (found,) = differences(chart, replace(other, boxes=(renamed, *other.boxes[1:])))
    assert str(found) == f'label of {renamed.id}: "{renamed.label[0]}" became "{renamed.label}"'


# the way of a run -------------------------------------------------------------------------------


@given(machines(), st.data())
def test_the_way_of_a_run_is_drawn_as_a_part_of_the_whole_machine(
    machine: dict[str, Any], data: st.DataObject
) -> None:
    chart = Chart(spec_of(machine), lifecycle())
    facts = chart.position("").facts
    whole = flowchart(graph(chart, facts=facts, engine=True), rules="none", all=True)
    counts = st.integers(0, 3)
    visits = {box.id: data.draw(counts) for box in whole.boxes}
    taken = {arrow.id: data.draw(counts) for arrow in whole.arrows} | {"rules.0": 1}
    states, edges = ({name for name, n in counted.items() if n} for counted in (visits, taken))
    part = flowchart(
        visited_graph(chart, facts, states=states, edges=edges), rules="none", all=True
    )
    assert visited_part(part, visits, taken) == visited_part(whole, visits, taken)


def test_drawing_the_way_of_a_run_costs_what_was_visited_and_not_the_machine() -> None:
    """A `report` draws it, in a machine of any size."""

    def cost(size: int) -> int:
        states = {f"s{n}": {"do": "act", "next": [
            {"to": f"s{n + 1}", "when": f"run.steps >= {n}"}, {"to": "end"}
        ]} for n in range(size)}  # fmt: skip
        rules = [{"when": f"run.steps >= {n + 9}", "stop": "steps_limit"} for n in range(size)]
        states |= {f"s{size}": {"end": "completed"}, "end": {"end": "completed"}}
        machine = {"chartloop": 1, "machine": "m", "states": states, "rules": rules}
        chart = Chart(spec_of(machine), lifecycle())
        facts = chart.position("").facts
        edges = {t.origin for t in chart.step.transitions() if t.source in ("s0", "s1")}
        return calls(lambda: visited_graph(chart, facts, states={"s0", "s1"}, edges=edges))

    cost(3)  # imports
    assert cost(60) < 1.5 * cost(6)
