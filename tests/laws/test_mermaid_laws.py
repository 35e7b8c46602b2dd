"""Mermaid and our reader agree on any text, and Mermaid reads what we write as we meant it."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.read import read_flowchart
from chartloop.interchange.quote_labels import read_and_quote
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, Shape, one_line
from chartloop.pictures.ids import KEYWORDS, safe_ids
from chartloop.pictures.mermaid import to_mermaid
from tests.mermaid import Oracle, ours

pytestmark = pytest.mark.node("mermaid")


beside_mermaid = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

# ------------------------------------------------------------------- texts that are nearly charts

IDS = st.sampled_from(
    [
        *(
            "A",
            "B",
            "b-2",
            "c.d",
            "é",
            "日本",
            "x",
            "o",
            "v",
            "default",
            "1",
            "a&b",
            "a:b",
            "#x",
            "end1",
        ),
        *("end", "graph", "class", "x1", "o-1", "e1", "L_A_B_0", "A/B", "!", "日a"),
    ]
)
LABELS = st.sampled_from(
    [
        *("x", "a b", '"q"', '"a (b) [c]"', '"`md **b**`"', "#35;", '"#quot;"', "a<br/>b", r"a\nb"),
        *("<b>t</b>", "a,b", "a=b", "a-b", "a--b", "🎉", "end", "a/b", "a\\b", "a?", "a]b", '"a"b'),
        *(
            'a"b"',
            "%% c",
            "a;b",
            "a > b",
            "a < b",
            "a | b",
            "",
            '" "',
            "~~~x",
            "a@b",
            "direction TB",
        ),
        *("a&b", "&lt;", "`x`", '"a\nb"', "a\nb", "No", "o", "x", "2 · x"),
    ]
)
BRACKETS = st.sampled_from(
    "[ ]|( )|([ ])|[[ ]]|[( )]|(( ))|((( )))|{ }|{{ }}|> ]|[/ /]|[\\ \\]|[/ \\]|[\\ /]|(- -)".split(
        "|"
    )
)
DATA = st.sampled_from(
    [
        *(
            "@{ shape: cyl }",
            '@{ label: "l x" }',
            "@{ shape: nope }",
            "@{\n shape: hex\n}",
            "@{}",
        ),
        *("@{ animate: true }", "@{ view: collapsed }", '@{ icon: "i" }', ":::hot"),
    ]
)
LINKS = st.sampled_from(
    [
        *("-->", "---", "--x", "--o", "<-->", "x--x", "==>", "-.->", "-.-", "~~~", "---->", "x-->"),
        *("-- t -->", "-- No-->", "-. t .->", "== t ==>", '-- "t" -->', "-->|t|", '-->|"t"|', "--"),
        *(" e1@-->", " e1@-- t -->", "-- t --x", "<-- t -->", "x-- t --o", "-->|t| "),
    ]
)
STATEMENTS = st.sampled_from(
    [
        *(
            "style A fill:#f9f",
            "style A fill:red;",
            "classDef hot fill:#f9f",
            "class A hot",
            "class A",
        ),
        *("linkStyle 0 stroke:red", "linkStyle default interpolate basis", "click A callback"),
        *(
            'click A "u" "t" _blank',
            "click A",
            "subgraph s",
            "subgraph s [T]",
            "subgraph a b",
            "end",
        ),
        *("direction LR", "accTitle: t", "accDescr {\n d }", "%% c", "%%", "%%{init: {}}%%", "  "),
    ]
)


@st.composite
def boxes(draw: st.DrawFn) -> str:
    opening, closing = draw(BRACKETS).split(" ")
    label = draw(st.one_of(st.just(None), LABELS))
    brackets = "" if label is None else f"{opening}{label}{closing}"
    return draw(IDS) + brackets + draw(st.one_of(st.just(""), st.just(""), st.just(""), DATA))


@st.composite
def chains(draw: st.DrawFn) -> str:
    parts = [draw(boxes())]
    for _ in range(draw(st.integers(0, 3))):
        parts.append(draw(st.sampled_from([" & ", "", " ", "\n"])) + draw(LINKS))
        parts.append(draw(st.sampled_from(["", " "])) + draw(boxes()))
    return "".join(parts)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A chart, or something close to one."""
    first = draw(
        st.sampled_from(["flowchart TD\n", "graph LR;", "graph\n", "---\ntitle: t\n---\ngraph\n"])
    )
    statements = draw(st.lists(st.one_of(chains(), chains(), STATEMENTS), max_size=5))
    text = first + draw(st.sampled_from(["\n", ";", "\r\n"])).join(statements)
    if draw(st.integers(0, 7)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(list(' \n"-[](){}x;@|>=.~:&'))) + text[at:]
    return text


@pytest.mark.slow("asks Mermaid")
@beside_mermaid
@given(text=texts())
def test_a_text_is_read_or_refused_as_mermaid_does(text: str, mermaid: Oracle) -> None:
    assert ours(text).without_cause == mermaid.read(text).without_cause


@settings(beside_mermaid, max_examples=50)
@given(text=texts())
def test_what_is_read_with_quotes_is_read_by_mermaid(text: str, mermaid: Oracle) -> None:
    try:
        _, quoted = read_and_quote(text)
    except SpecError:
        return
    lines = re.split(r"\r\n?|\n", text)
    for number, before, after in quoted:
        assert lines[number - 1] == before
        lines[number - 1] = after
    assert not mermaid.read("\n".join(lines)).refused
    assert bool(quoted) == bool(mermaid.read(text).refused)


# ------------------------------------------------------------------------------ what we write

HOSTILE = [
    *('"', "`x`", "#quot;", "#35;", "&lt;", "<b>x</b>", "<br/>", "<script>alert(1)</script>"),
    *("%%{init: {}}%%", "%% x", "$$x$$", "fa:fa-bell", "direction TB", "style x:#fff;", "a;b"),
    *("end", "graph", "subgraph", "o", "x", "-->", "|", "[x]", "{x}", "((x))", "@{shape: x}"),
    *(
        "C4Container",
        "C4Deployment",
        "2 · x",
        "ﬂ°°35¶ß",
        "\\n",
        "\\",
        "~~~",
        "🎉👩‍👧",
        "שלום",
        "مرحبا",
    ),
    *(
        "<img src=x onerror=alert(1)>",
        "a" * 2_000,
        "\u202ex",
        "\ud800",
        "\x00",
        "",
        " ",
        "\n",
        "\t",
    ),
    *("<", "x <y", "a<b>c", "}", "} \n", "---\n", "_a_", "**b**", "&", "&amp", "classDef a:#f;"),
]
hostile = st.one_of(
    st.text(max_size=12),
    st.lists(st.sampled_from([*HOSTILE, "x", " ", "\n", ":", "#"]), max_size=5).map("".join),
)
names = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    st.sampled_from(
        [*sorted(KEYWORDS), "a-b", "", "é", "v", "direction", "L_a_b_0", "C4Container"]
    ),
    st.text(max_size=6),
)
shapes: st.SearchStrategy[Shape] = st.sampled_from(get_args(Shape))


@st.composite
def charts(draw: st.DrawFn) -> Flowchart:
    """Any chart at all."""
    found = draw(st.lists(names, unique=True, min_size=1, max_size=6))
    name = st.sampled_from(found)
    ends = draw(st.lists(st.tuples(name, name), max_size=8))
    return Flowchart(
        draw(hostile),
        tuple(Box(n, draw(hostile), draw(shapes), fill=draw(fills)) for n in found),
        tuple(Arrow(*pair, draw(hostile), kind=draw(kinds)) for pair in ends),
    )


fills = st.sampled_from([None, "#e1f5ff", "#ABC", "red", "url(x)"])
kinds = st.sampled_from(["advance", "rule"])


@pytest.mark.slow("asks Mermaid")
@beside_mermaid
@given(chart=charts())
def test_mermaid_reads_what_we_write_as_it_was_meant(chart: Flowchart, mermaid: Oracle) -> None:
    text = to_mermaid(chart)
    theirs = mermaid.read(text)
    assert not theirs.refused, text
    ids = safe_ids(box.id for box in chart.boxes)
    assert [(n, label) for n, label, _ in theirs.nodes] == [
        (ids[box.id], one_line(box.label)) for box in chart.boxes
    ]
    assert [edge[:3] for edge in theirs.edges] == [
        (ids[a.source], ids[a.target], one_line(a.label)) for a in chart.arrows
    ]
    assert {head for *_, head, _ in theirs.edges} <= {"arrow_point"}
    back = read_flowchart(text).chart
    assert [box.shape for box in back.boxes] == [box.shape for box in chart.boxes]
    assert theirs.without_cause == ours(text).without_cause
