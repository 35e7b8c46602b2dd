"""No line of a picture touches a box that is not its own, and none the label of another."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings

from chartloop import load
from chartloop.api import lifecycle
from chartloop.machine.build import Chart
from chartloop.machine.graph import graph
from chartloop.pictures.dot.clear import lay_out
from chartloop.pictures.dot.engine import render
from chartloop.pictures.dot.touching import touches
from chartloop.pictures.dot.write import PLAIN, Dress, to_dot
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.from_graph import flowchart
from chartloop.pictures.live.live_style import LiveDress
from tests.laws.test_machine_laws import spec_of
from tests.strategies import machines

pytestmark = pytest.mark.system("dot", install="apt-get install graphviz")
ROOT = Path(__file__).parents[2]
SHIPPED = [*sorted(ROOT.glob("machines/*.yaml")), *sorted(ROOT.glob("examples/*/machine.yaml"))]
LEFT = {("moderator_full", "live"): 1}
"""The pictures for which no layout was found in which nothing touches, with what is left."""
GENERATED = 60


def left(chart: Flowchart, dress: Dress = PLAIN) -> list[Any]:
    """What touches in the layout that was chosen."""
    found = lay_out(chart, "", engine="dot", timeout=30, dress=dress)
    assert list(found.touches) == touches(found.svg)
    return list(found.touches)


def shipped(path: Path) -> Flowchart:
    """The chart of a file, with the tools beside it."""
    beside = path.with_name("tools.py")
    tools = (
        [v for v in runpy.run_path(str(beside)).values() if callable(v)] if beside.exists() else []
    )
    own = [tool for tool in tools if getattr(tool, "__module__", "") == "<run_path>"]
    return load(path, tools=own).draw().chart


@pytest.mark.parametrize("look", ["plain", "live"])
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_nothing_touches_in_a_shipped_picture(path: Path, look: str) -> None:
    chart = shipped(path)
    found = left(chart, LiveDress(chart) if look == "live" else PLAIN)
    assert len(found) <= LEFT.get((path.stem, look), 0), found


def test_few_generated_machines_have_a_picture_in_which_something_touches() -> None:
    counts = {"pictures": 0, "first layout": 0, "chosen layout": 0}

    @settings(
        max_examples=GENERATED, database=None, derandomize=True, deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )  # fmt: skip
    @given(machines())
    def look(data: Any) -> None:
        chart = Chart(spec_of(data), lifecycle())
        drawn = flowchart(graph(chart, facts=chart.position("").facts))
        dress = LiveDress(drawn)
        first = touches(render(to_dot(drawn, dress=dress), "svg", engine="dot").decode())
        chosen = left(drawn, dress)
        assert len(chosen) <= len(first)
        counts["pictures"] += 1
        counts["first layout"] += bool(first)
        counts["chosen layout"] += bool(chosen)

    look()
    assert counts["first layout"] > 5, counts  # there is something to mend
    assert counts["chosen layout"] <= counts["pictures"] / 10, counts


class Case(NamedTuple):
    """Two boxes, a line from the first, and what that touches."""

    id: str
    path: str
    kinds: list[str]
    label: str = ""


BOXES = """<svg>
<g id="node-a" class="node"><title>a</title><polygon points="0,0 0,20 40,20 40,0 0,0"/></g>
<g id="node-b" class="node"><title>b</title><polygon points="0,100 0,120 40,120 40,100 0,100"/></g>
<g id="node-c" class="node"><title>c</title><polygon points="100,40 70,60 100,80 130,60 100,40"/></g>
"""


@pytest.mark.parametrize(
    "case",
    [
        Case("past", "M20,20C20,40 20,80 20,100", []),
        Case("through", "M20,20C120,90 120,30 20,100", ["box"]),
        Case("beside-a-corner-of-a-diamond", "M20,20C60,40 100,30 120,44", []),
        Case("along-its-border", "M20,20C70,60 70,60 20,100", []),
        Case("at-its-border", "M20,20C40,50 60,50 69,60", ["box"]),
        Case("along-its-own-border", "M20,20C20,40 41,100 41,100 41,100 41,130 20,120", ["border"]),
        Case("own-label", "M20,20C20,40 20,80 20,100", [], '<text text-anchor="start" x="22" y="60" font-size="11.00">ok</text>'),
        Case("label-on-a-box", "M20,20C20,40 20,80 20,100", ["label on box"], '<text text-anchor="start" x="60" y="60" font-size="11.00">over it</text>'),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_what_counts_as_touching(case: Case) -> None:
    line = f'<g id="edge-a-b-0" class="edge"><title>a-&gt;b</title><path d="{case.path}"/>'
    found = touches(f"{BOXES}{line}{case.label}</g></svg>")
    assert [touch.kind for touch in found] == case.kinds
    assert all(touch.line == "edge-a-b-0" for touch in found)


def test_a_line_over_the_label_of_another_is_found() -> None:
    line = '<g id="{}" class="edge"><title>a-&gt;b</title><path d="{}"/>{}</g>'
    label = '<text text-anchor="start" x="50" y="60" font-size="11.00">the label</text>'
    one = line.format("one", "M20,20C20,40 20,80 20,100", label)
    two = line.format("two", "M20,20C90,40 90,80 20,100", "")
    (found,) = touches(f"<svg>{one}{two}</svg>")
    assert (found.line, found.on, found.kind) == ("two", "one", "label")


def test_a_line_through_the_head_of_another_is_found() -> None:
    down = (
        '<g id="down" class="edge"><title>a-&gt;b</title><path d="M20,20C20,40 20,60 20,90"/>'
        '<polygon points="23,90 20,100 17,90 23,90"/></g>'
    )
    across = (
        '<g id="{}" class="edge"><title>c-&gt;{}</title><path d="M80,94C60,94 40,94 2,94"/></g>'
    )
    (found,) = touches(f"<svg>{down}{across.format('across', 'd')}</svg>")
    assert (found.line, found.on, found.kind) == ("across", "down", "head")
    assert touches(f"<svg>{down}{across.format('there-too', 'b')}</svg>") == []


def test_a_picture_that_fits_at_once_is_laid_out_once() -> None:
    boxes = (Box("a", "A"), Box("b", "B"))
    chart = Flowchart(boxes=boxes, arrows=(Arrow("a", "b", "on", "a.next"),))
    found = lay_out(chart, "", engine="dot", timeout=30)
    assert found.source == to_dot(chart)
    assert found == lay_out(chart, "", engine="dot", timeout=30)
