"""The Graphviz text of a chart, and what the engines make of it."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chartloop.core.errors import RunError, SetupError
from chartloop.extras import install
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.compare.difference import differences
from chartloop.pictures.dot.engine import Engine, render
from chartloop.pictures.dot.write import PAINTS, PLAIN, Dress, Style, as_shown, to_dot
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, Role, Shape

SOURCES = Path(__file__).parents[1] / "cases" / "sources"
SVG = "{http://www.w3.org/2000/svg}"
TIP = "{http://www.w3.org/1999/xlink}title"

ENGINES = [
    pytest.param(
        "dot", marks=pytest.mark.system("dot", install="apt-get install graphviz"), id="dot"
    ),
    pytest.param(
        "pygraphviz",
        marks=pytest.mark.extra(  # noqa: S610 - no Django
            "pygraphviz", install=install("diagrams")
        ),
        id="pygraphviz",
    ),
]

HOSTILE = [
    "<b>bold</b>",
    "<<b>x</b>>",
    "<",
    'say "x"',
    "back\\slash",
    "ends with \\",
    "\\N \\G \\L \\T \\E",
    "a\\nb\\lc\\rd",
    "&lt;b&gt; &amp;lt; &#60; &",
    '"]; evil [label="',
    "// comment /* x */ # y",
    "{a|b|<p>c}",
    "é 🎉 ≥",
    "%3Cscript%3E",
]


def drawn(chart: Flowchart, engine: Engine) -> ET.Element:
    return ET.fromstring(render(to_dot(chart), "svg", engine=engine))  # noqa: S314 - ours


def group(svg: ET.Element, name: str) -> ET.Element:
    (found,) = (element for element in svg.iter() if element.get("id") == name)
    return found


def words(element: ET.Element) -> str:
    return "\n".join(text.text or "" for text in element.iter(f"{SVG}text"))


def tips(element: ET.Element) -> set[str]:
    return {link.attrib[TIP] for link in element.iter(f"{SVG}a")}


def test_the_look_is_the_one_that_was_agreed() -> None:
    text = to_dot(Flowchart(boxes=(Box("a", "A"), Box("b", "B", "diamond", "decision"))))
    for attribute in (
        "rankdir=TB newrank=true nodesep=.28 ranksep=.42 pad=.35 splines=spline remincross=true "
        "outputorder=edgesfirst labelloc=t labeljust=l shape=box "
        'style="rounded,filled" fontname="Inter,Helvetica,Arial,sans-serif" fontsize=11 '
        'penwidth=1.2 margin="0.16,0.09" arrowsize=.65 color="#64748b" '
        "shape=diamond width=1.6 height=1.0"
    ).split():
        assert attribute in text


THREE = Flowchart(boxes=(Box("box", "A"), Box("pill", "A", "pill"), Box("diamond", "A", "diamond")))


def test_a_box_a_pill_and_a_diamond_differ_in_dot() -> None:
    forms = {
        line.strip().partition(" ")[0]: re.sub(r"[^[]*\[|(label|id|tooltip)=\S+ ?", "", line)
        for line in to_dot(THREE).splitlines()
        if re.match(r"\s+(box|pill|diamond) \[", line)
    }
    assert len(set(forms.values())) == 3, forms


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pill_has_round_corners_and_a_box_has_none(engine: Engine) -> None:
    svg = drawn(THREE, engine)
    groups = {name: group(svg, f"node-{name}") for name in ("box", "pill", "diamond")}
    (box,), (diamond,) = (list(groups[n].iter(f"{SVG}polygon")) for n in ("box", "diamond"))
    corners = {tuple(p.split(",")) for p in box.attrib["points"].split()}
    assert (len({x for x, _ in corners}), len({y for _, y in corners})) == (2, 2)
    points = {tuple(p.split(",")) for p in diamond.attrib["points"].split()}
    assert (len({x for x, _ in points}), len({y for _, y in points})) == (3, 3)
    (pill,) = groups["pill"].iter(f"{SVG}path")
    assert "C" in pill.attrib["d"]
    assert not list(groups["pill"].iter(f"{SVG}polygon"))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("shape", "filled"), [("rect", True), ("pill", False)])
def test_in_a_png_the_corner_of_a_pill_is_background(
    shape: Shape, filled: bool, engine: Engine
) -> None:
    chart = Flowchart(boxes=(Box("a", "A wide box", shape, "stop"),))
    rows = pixels(render(to_dot(chart), "png", engine=engine))
    inked = [
        (x, y)
        for y, row in enumerate(rows)
        for x, p in enumerate(row)
        if sum(p[:3]) < 700 and p[-1]
    ]
    left, top = min(x for x, _ in inked), min(y for _, y in inked)
    red, green, *_ = rows[top + 2][left + 2]
    assert (red - green > 20) is filled


def pixels(png: bytes) -> list[list[tuple[int, ...]]]:
    """The pixels of a PNG of 8 bits without interlacing, row by row."""
    data, at, size = b"", 8, (0, 0, 0)
    while at < len(png):
        length, kind = int.from_bytes(png[at : at + 4]), png[at + 4 : at + 8]
        chunk = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            wide, high, depth, colour, *_ = struct.unpack(">IIBBBBB", chunk)
            assert (depth, colour in (2, 6)) == (8, True)
            size = wide, high, 3 if colour == 2 else 4
        data += chunk if kind == b"IDAT" else b""
        at += 12 + length
    wide, high, step = size
    raw, line = zlib.decompress(data), wide * step
    above = bytearray(line)
    rows: list[list[tuple[int, ...]]] = []
    for y in range(high):
        method, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1 : (y + 1) * (line + 1)])
        for x in range(line):
            left, up = row[x - step] if x >= step else 0, above[x]
            corner = above[x - step] if x >= step else 0
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda value: abs(guess - value))
            row[x] = (row[x] + (0, left, up, (left + up) // 2, paeth)[method]) % 256
        rows.append([tuple(row[x : x + step]) for x in range(0, line, step)])
        above = row
    return rows


class Alike(Dress):
    """A look in which pills are boxes."""

    def box(self, box: Box) -> Style:
        """As the plain look, but for pills."""
        return PLAIN.box(replace(box, shape="rect") if box.shape == "pill" else box)


def test_what_the_picture_does_not_show_is_a_difference() -> None:
    assert as_shown(THREE) == THREE
    found = differences(THREE, as_shown(THREE, dress=Alike()))
    assert [str(one) for one in found] == ["shape of pill: pill became rect"]


def test_what_stands_on_arrows_is_as_large_as_what_stands_in_boxes() -> None:
    text = to_dot(Flowchart(boxes=(Box("a", "A"),), arrows=(Arrow("a", "a", "again"),)))
    sizes = {
        kind: re.search(rf"^\t{kind} \[.*?fontsize=(\d+)", text, re.MULTILINE)
        for kind in ("node", "edge")
    }
    assert {kind: found and found[1] for kind, found in sizes.items()} == {
        "node": "11",
        "edge": "11",
    }


@pytest.mark.parametrize(
    ("role", "fill", "border"),
    [
        ("completed", "#c8e6c9", "#16a34a"),
        ("stop", "#ffcdd2", "#dc2626"),
        ("start", "#e1f5ff", "#0284c7"),
        ("end", "#e1f5ff", "#0284c7"),
        ("hub", "#fff9c4", "#a16207"),
        ("decision", "#f5f3ff", "#8b5cf6"),
        ("action", "#f8fafc", "#7c8aa0"),
    ],
)
def test_a_role_has_its_colours(role: Role, fill: str, border: str) -> None:
    assert PAINTS[role] == (fill, border)
    text = to_dot(Flowchart(boxes=(Box("a", "A", role=role),)))
    assert f'fillcolor="{fill}"' in text
    assert f' color="{border}"' in text


def declared(text: str) -> list[str]:
    """The ids of the boxes, in the order in which Graphviz is told of them."""
    return re.findall(r"^\t(\w+) \[.*\bid=", text, re.MULTILINE)


def test_boxes_are_declared_as_they_are_reached() -> None:
    ways = [("a", "c"), ("a", "b"), ("c", "d"), ("b", "d"), ("d", "a")]
    chart = Flowchart(
        boxes=tuple(Box(name, name) for name in "abdce"),
        arrows=tuple(Arrow(source, target) for source, target in ways),
    )
    assert declared(to_dot(chart)) == ["a", "c", "b", "d", "e"]


@pytest.mark.parametrize("entry", [True, False])
def test_rules_stand_above_the_start(entry: bool) -> None:
    chart = Flowchart(
        boxes=(
            Box("a", "A", entry=entry),
            Box("prune", "Prune"),
            Box("rules-1", "after every step", role="rules"),
            Box("rules-2", "before a", role="rules"),
            Box("on", "go on", role="rules"),
        ),
        arrows=(
            Arrow("rules-2", "prune", kind="rule"),
            Arrow("prune", "rules-2", kind="return"),
            Arrow("rules-2", "on", kind="rule"),
        ),
    )
    text = to_dot(chart)
    assert declared(text) == ["a", "rules_1", "rules_2", "prune", "on"]
    top = '"a-entry"' if entry else "a"
    unseen = re.findall(r"^\t(\S+) -> (\S+) \[.*style=invis", text, re.MULTILINE)
    assert unseen == [("rules_1", top), ("rules_2", top)]


def test_a_colour_of_the_document_goes_before_that_of_the_role() -> None:
    text = to_dot(Flowchart(boxes=(Box("a", "A", fill="#ABCDEF"), Box("b", "B", fill="x;y"))))
    assert 'fillcolor="#abcdef"' in text
    assert 'fillcolor="#f8fafc"' in text
    assert "x;y" not in text


def test_labels_are_never_html() -> None:
    chart = Flowchart(
        title="<b>t</b>",
        boxes=tuple(Box(f"n{at}", label) for at, label in enumerate(HOSTILE)),
        arrows=tuple(Arrow("n0", "n1", label) for label in HOSTILE),
    )
    assert "=<" not in to_dot(chart)


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_are_drawn_as_they_are_written(engine: Engine) -> None:
    chart = Flowchart(
        title="<i>title</i> \\N",
        boxes=tuple(Box(f"n{at}", label) for at, label in enumerate(HOSTILE)),
        arrows=tuple(Arrow(f"n{at}", f"n{at}", label) for at, label in enumerate(HOSTILE)),
    )
    svg = drawn(chart, engine)
    for at, label in enumerate(HOSTILE):
        assert words(group(svg, f"node-n{at}")) == label
        assert tips(group(svg, f"node-n{at}")) == {label}
        assert words(group(svg, f"edge-n{at}-n{at}-0")) == f" {label} "  # off the line
        assert tips(group(svg, f"edge-n{at}-n{at}-0")) == {label}
    assert "<i>title</i> \\N" in words(group(svg, "chart"))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_document_is_drawn_whole_with_stable_ids(engine: Engine) -> None:
    text = (SOURCES / "seed001_repaired.mmd").read_text(encoding="utf-8")
    chart = read_mermaid(text)
    svg = drawn(chart, engine)
    for box in chart.boxes:
        assert words(group(svg, f"node-{box.id}")).split() == box.label.split()
    assert words(group(svg, "edge-CheckTerm-StopSuccess-0")).strip() == "Status == Finished"
    assert words(group(svg, "edge-CheckTerm-StopSuccess-1")).strip() == "[FINALIZE] in PLAN"
    assert len([g for g in svg.iter(f"{SVG}g") if g.get("class") == "edge"]) == len(chart.arrows)


@pytest.mark.parametrize("engine", ENGINES)
def test_ids_can_be_found_in_the_text_of_the_svg(engine: Engine) -> None:
    chart = Flowchart(boxes=(Box("a", ' id="x&#45;y"'),), arrows=(Arrow("a", "a"),))
    svg = render(to_dot(chart, prefix="p-"), "svg", engine=engine).decode()
    for name in ("p-node-a", "p-edge-a-a-0", "p-chart"):
        assert f' id="{name}"' in svg
    assert words(group(ET.fromstring(svg), "p-node-a")) == ' id="x&#45;y"'  # noqa: S314 - ours


@pytest.mark.parametrize("engine", ENGINES)
def test_start_and_end_are_bold_where_browsers_look_for_it(engine: Engine) -> None:
    chart = Flowchart(boxes=(Box("a", "A", "pill", "start"), Box("b", "B")))
    svg = drawn(chart, engine)
    fonts = [
        (text.get("font-family"), text.get("font-weight"))
        for name in "ab"
        for text in group(svg, f"node-{name}").iter(f"{SVG}text")
    ]
    family = "Inter,Helvetica,Arial,sans-serif"
    assert fonts == [(family, "bold"), (family, None)]


@pytest.mark.parametrize("engine", ENGINES)
def test_png(engine: Engine) -> None:
    image = render(to_dot(Flowchart(boxes=(Box("a", "A"),))), "png", engine=engine)
    assert image.startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_layout_that_takes_too_long_is_ended(engine: Engine) -> None:
    with pytest.raises(RunError, match=r"not lay the chart out within 0\.001 s"):
        render(to_dot(Flowchart(boxes=(Box("a", "A"),))), "svg", engine=engine, timeout=0.001)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_fails_says_why(engine: Engine) -> None:
    with pytest.raises(SetupError, match="drew nothing: "):
        render("/etc/hostname", "svg", engine=engine)


def test_without_graphviz_the_error_names_the_line_that_installs_it() -> None:
    with pytest.raises(SetupError, match="there is no Graphviz: SVG cannot be drawn") as missing:
        render("digraph {}", "svg", engine="mermaid")
    assert missing.value.hint == install("diagrams")


@pytest.mark.system("dot", install="apt-get install graphviz")
def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SetupError, match="dot is not installed: PNG cannot be drawn"):
        render("digraph {}", "png", engine="dot")


def test_ids_take_a_prefix_and_nothing_that_a_page_could_stumble_over() -> None:
    chart = Flowchart(boxes=(Box('a"b', "A"), Box("a'b", "B")), arrows=(Arrow('a"b', "a'b"),))
    text = to_dot(chart, prefix='p">1-')
    for name in ("p__1-node-a_b", "p__1-node-a_b_1", "p__1-edge-a_b-a_b_1-0", "p__1-chart"):
        assert f'id="{name}"' in text


def test_what_is_drawn_with_dashes_and_dots() -> None:
    chart = Flowchart(
        boxes=(Box("a", "A", entry=True), Box("rules-1", "after every step", role="rules")),
        arrows=(Arrow("rules-1", "a", kind="rule"), Arrow("a", "rules-1", kind="return")),
    )
    text = to_dot(chart)
    assert text.count("style=dashed") == 2
    assert 'style="rounded,filled,dashed"' in text
    assert '"a-entry" -> a' in text
    assert "shape=point" in text


def test_nothing_of_graphviz_is_imported_before_something_is_drawn() -> None:
    script = (
        "import sys, chartloop.pictures.picture, chartloop.pictures.compare.difference, chartloop.pictures.from_graph\n"
        "print([m for m in ('graphviz', 'pygraphviz', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def far_reaching(boxes: int) -> Flowchart:
    """A row of boxes with a second arrow from each, to somewhere else in the row."""
    names = [f"s{n}" for n in range(boxes)]
    ways = [(n, to) for n in range(boxes - 1) for to in (n + 1, n * 7919 % boxes)]
    return Flowchart(
        boxes=tuple(Box(name, name) for name in names),
        arrows=tuple(Arrow(names[n], names[to]) for n, to in ways),
    )


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("engine", ENGINES)
def test_what_rows_cannot_hold_is_drawn_without_them(engine: Engine) -> None:
    chart = far_reaching(400)
    svg = render(to_dot(chart), "svg", engine=engine, timeout=60.0).decode()
    assert (svg.count('class="edge"'), svg.count('class="node"')) == (798, 400)
    assert "layout" not in to_dot(far_reaching(40))


@pytest.mark.parametrize(
    ("title", "side"),
    [("Agent", "l"), ("שלום Agent", "r"), ("12 مرحبا", "r"), ("Agent שלום", "l"), ("12", "l")],
)
def test_a_title_stands_where_its_reader_begins(title: str, side: str) -> None:
    justified = re.findall(r"labeljust=(\w)", to_dot(Flowchart(title, (Box("a", "A"),))))
    assert justified[-1] == side
