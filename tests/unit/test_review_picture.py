"""The merged picture: marks, focus, and every format read back by what draws it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from chartloop import load
from chartloop.analysis.versions.diff.align import Pairs
from chartloop.analysis.versions.diff.diff import Diff, diff
from chartloop.analysis.versions.diff.diff_picture import ReviewPicture
from chartloop.analysis.versions.diff.diff_style import ReviewDress
from chartloop.analysis.versions.diff.merge import Merged, focus, merge
from chartloop.analysis.versions.diff.mermaid import ARROWS, MOST, to_review_mermaid
from chartloop.api import Machine
from chartloop.extras import install
from chartloop.pictures.dot.write import to_dot
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, one_line, printable
from chartloop.pictures.focus import HIDDEN
from chartloop.pictures.ids import safe_ids
from tests.conftest import NODE
from tests.unit.test_review_changes import between, ways

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
DOT = pytest.mark.system("dot", install="apt-get install graphviz")

HOSTILE = [
    "<b>bold</b>", "</B></FONT><IMG SRC='x'/>", "<", ">", "&", "&lt;script&gt;", "&#60;", 'say "x"', "it's",
    "back\\slash", "ends with \\", "\\N \\G \\L \\T \\E", "a\\nb\\lc", '"]; evil [label="', "<script>alert(1)</script>",
    "]]>", "<!-- x -->", "{a|b|<p>c}", "é 🎉 ≥ \u05d0\u05d1", "%%{init: {}}%%", "```", "end", "graph", "o", "x", "-->", "$$x$$",
    "fa:fa-bell", "]", "1. one", "- one", "+ one", "~~x~~", "`x`", "#quot;", "\x00\x1b[2J", "\u202egnp", " ", "\u200b", "x" * 2000, "漢" * 2000,
]  # fmt: skip


def chart(labels: Iterable[str], *, prefix: str = "") -> Flowchart:
    """A row of boxes with these labels, which the arrows have as well."""
    found = list(labels)
    boxes = tuple(Box(f"n{n}", f"{prefix}{label}", "diamond" if n % 2 else "rect") for n, label in enumerate(found))  # fmt: skip
    arrows = tuple(Arrow(f"n{n}", f"n{n + 1}", f"{prefix}{label}", f"n{n}.next") for n, label in enumerate(found[:-1]))  # fmt: skip
    return Flowchart('<b>&"title', boxes, arrows)


def merged(before: Flowchart, after: Flowchart) -> Merged:
    """The two as one, boxes by their ids."""
    there = {box.id for box in after.boxes}
    states = {box.id: box.id for box in before.boxes if box.id in there}
    return merge(before, after, Pairs(states, {}, {}), ())


def edited() -> Diff:
    """Two edited copies of the largest shipped machine."""
    text = (ROOT / "machines" / "moderator.yaml").read_text("utf-8")
    one = text.replace("cycles: 5", "cycles: 6")
    other = text.replace("error_rate: 20%", "error_rate: 15%").replace(
        "response: 5m", "response: 10m"
    )
    other = other.replace("essentials}, next: resume}", "essentials}, next: monitor}")
    other = re.sub(r"  resume: .*\n", "", other)
    other = other.replace(
        "[check_tokens, check_runtime,", "[check_stop, check_tokens, check_runtime,"
    )
    stop = '  check_stop:\n    ask: "Too\\nMany?"\n    when: run.steps >= 5000\n    then: stop_steps\n    else: check_error_rate\n'
    other = other.replace("  check_tokens:\n", f"{stop}  check_tokens:\n", 1)
    end = '  stop_steps: {label: "STOP:\\nSteps", stop: steps_limit, next: report}\n'
    other = other.replace("  stop_tokens: {", f"{end}  stop_tokens: {{", 1)
    return diff(load(one), load(other), names=("main", "work"))


FOUR = {
    "tokens: 1_000_000": "tokens: 500_000",
    "response: 5m": "response: 10m",
    "apply_fix, next: monitor": "apply_fix, next: checkpoint",
    "Notify User\\nContinue with Caution": "Warn the User",
}
"""Changes of the moderator that lie far apart, and what stands in their places."""


@DOT
def test_changes_that_lie_far_apart_fit_one_screen() -> None:
    text = changed = (ROOT / "machines" / "moderator.yaml").read_text("utf-8")
    for old, new in FOUR.items():
        assert old in changed
        changed = changed.replace(old, new)
    for made in (edited(), diff(load(text), load(changed))):
        size = re.search(r'width="(\d+)pt" height="(\d+)pt"', made.picture().svg())
        assert size is not None
        wide, high = (int(points) * 4 / 3 for points in size.groups())
        assert wide <= 1920
        assert high <= 1080


# marks --------------------------------------------------------------------------------------


def marks(found: Merged) -> dict[str, str]:
    return {
        box.id: found.of_box(box).mark
        for box in found.chart.boxes
        if found.of_box(box).mark != "same"
    }


def test_what_became_of_each_box_and_arrow() -> None:
    found = edited().merged_chart
    assert marks(found) == {
        "check_stop": "added", "stop_steps": "added", "resume": "removed",
        "check_error_rate": "changed", "check_cycles": "changed",
    }  # fmt: skip
    rate = found.boxes["check_error_rate"]
    assert one_line(rate.old) == "Error Rate ≥ 20%?"
    drawn = {
        (arrow.source, arrow.target): found.of_arrow(arrow)
        for arrow in found.chart.arrows
        if found.of_arrow(arrow).mark != "same"
    }
    assert {ends: marked.mark for ends, marked in drawn.items()} == {
        ("monitor", "check_stop"): "added", ("check_stop", "stop_steps"): "added",
        ("check_stop", "check_error_rate"): "added", ("stop_steps", "report"): "added",
        ("prune", "monitor"): "added", ("prune", "resume"): "removed", ("resume", "monitor"): "removed",
        ("user_responds", "stop_unresponsive"): "changed",
    }  # fmt: skip
    assert one_line(drawn["user_responds", "stop_unresponsive"].old) == "No Response 5 min"


def test_every_box_and_arrow_of_both_is_there() -> None:
    made = edited()
    found = made.merged_chart
    before, after = made.before.draw().chart, made.after.draw().chart
    assert {box.id for box in found.chart.boxes} == {b.id for c in (before, after) for b in c.boxes}
    kept = [a for a in found.chart.arrows if found.of_arrow(a).mark != "removed"]
    assert [(a.source, a.target, a.label) for a in kept] == [
        (a.source, a.target, a.label) for a in after.arrows
    ]
    gone = [a for a in found.chart.arrows if found.of_arrow(a).mark == "added"]
    assert len(found.chart.arrows) - len(gone) == len(before.arrows)


def test_the_focus_shows_what_changed_and_what_it_touches() -> None:
    found = focus(edited().merged_chart)
    shown = {box.id for box in found.chart.boxes} - {HIDDEN}
    assert shown == {
        "check_stop", "stop_steps", "resume", "check_error_rate", "check_cycles", "monitor", "prune", "report",
        "user_responds", "stop_unresponsive", "check_magnitude",
    }  # fmt: skip
    assert found.hidden == len(edited().merged_chart.chart.boxes) - len(shown)
    (note,) = [box for box in found.chart.boxes if box.id == HIDDEN]
    assert note.label == f"… {found.hidden} unchanged nodes hidden"


def test_where_no_box_changed_the_picture_says_so() -> None:
    made = between("", "instructions: Be kind.\n")
    assert made
    assert not made.changes_picture
    assert [box.label for box in made.picture().chart.boxes] == ["The flowchart is the same"]


def test_a_guard_without_a_label_stands_on_its_arrow_as_it_was_and_as_it_is() -> None:
    made = between(
        ways("{when: vars.n > 1, to: other}", "done"), ways("{when: vars.n > 3, to: other}", "done")
    )
    (arrow,) = [a for a, m in made.merged_chart.arrows.items() if m.mark != "same"]
    assert (made.merged_chart.of_arrow(arrow).old, arrow.words) == ("vars.n > 1", "vars.n > 3")
    assert "<s>vars.n > 1</s><br/>vars.n > 3" in made.picture().mermaid().replace("&gt;", ">")


def test_what_no_label_shows_is_a_note() -> None:
    way = "{when: vars.n > %d, to: other, label: more}"
    made = between(ways(way % 1, "done"), ways(way % 3, "done"))
    (marked,) = [m for m in made.merged_chart.arrows.values() if m.mark != "same"]
    assert [(n.name, n.old, n.new) for n in marked.notes] == [("guard", "vars.n > 1", "vars.n > 3")]
    text = made.picture().mermaid()
    assert "~ guard <s>… > 1</s> … > 3" in text.replace("&gt;", ">")


def test_a_box_of_rules_has_a_mark_for_each_line() -> None:
    rules = "limits: {steps: 5}\nrules:\n  - {when: run.steps >= limits.steps, stop: steps_limit}\n  - {when: errors.total >= %s, stop: error_threshold}\n"
    made = between(rules % 3 + "  - {when: last.ok, signal: custom}\n", rules % 4)
    (marked,) = [m for m in made.merged_chart.boxes.values() if m.lines]
    assert [(line.mark, line.text.partition(" →")[0]) for line in marked.lines] == [
        ("same", "run.steps >= limits.steps (5)"),
        ("changed", "errors.total >= 4"),
        ("removed", "last.ok"),
    ]
    assert marked.mark == "changed"


def test_a_renamed_state_keeps_its_box() -> None:
    made = between(
        "",
        "states:\n  go: {do: receive, next: ponder}\n  ponder: {do: infer, next: done}\n  done: {stop: completed}\n",
    )
    assert marks(made.merged_chart) == {"ponder": "changed"}
    assert [tuple(note) for note in made.merged_chart.boxes["ponder"].notes] == [
        ("", "think", "ponder")
    ]
    assert {m.mark for m in made.merged_chart.arrows.values()} == {"same"}


def test_the_picture_in_words() -> None:
    text = edited().picture().text()
    assert "+ check_stop: Too Many?" in text
    assert "− prune → resume" in text
    assert "~ check_error_rate: Error Rate ≥ 15%? (was: Error Rate ≥ 20%?)" in text
    assert "unchanged hidden" in text


# svg ----------------------------------------------------------------------------------------


def words(element: ET.Element) -> str:
    return "\n".join("".join(text.itertext()) for text in element.iter(f"{SVG}text"))


def parsed(picture: ReviewPicture) -> ET.Element:
    return ET.fromstring(picture.svg())  # noqa: S314 - ours


@DOT
@pytest.mark.parametrize("mark", ["same", "added", "removed", "changed"])
def test_hostile_labels_are_drawn_as_they_are(mark: str) -> None:
    new, old = chart(HOSTILE), chart(HOSTILE, prefix="was ")
    sides = {
        "same": (new, new),
        "added": (Flowchart(), new),
        "removed": (new, Flowchart()),
        "changed": (old, new),
    }
    found = merged(*sides[mark])
    svg = parsed(ReviewPicture(found))
    assert not [
        e for e in svg.iter() if e.tag.rpartition("}")[2] in ("script", "image", "foreignObject")
    ]
    assert not [n for e in svg.iter() for n in e.attrib if n.rpartition("}")[2].startswith("on")]
    assert not [v for e in svg.iter() for n, v in e.attrib.items() if n.endswith("href")]
    groups = {
        e.get("id", "").partition("node-")[2]: e for e in svg.iter() if "node-" in e.get("id", "")
    }
    for box in found.chart.boxes:
        drawn = "".join(words(groups[safe_ids([box.id])[box.id]]).split())
        said = "".join(printable(box.label).split())
        assert said in drawn.replace("\xa0", "")


@DOT
def test_the_svg_has_the_colours_of_the_marks() -> None:
    svg = edited().picture(prefix="p-").svg()
    root = ET.fromstring(svg)  # noqa: S314 - ours

    def group(name: str) -> ET.Element:
        return next(e for e in root.iter() if e.get("id") == f"p-{name}")

    shapes = ("path", "polygon")
    strokes = {
        name: {e.get("stroke") for e in group(name).iter() if e.tag.rpartition("}")[2] in shapes}
        for name in (
            "node-check_stop",
            "node-resume",
            "node-check_error_rate",
            "node-monitor",
            "edge-prune-resume-0",
        )
    }
    assert strokes["node-check_stop"] == {"#166534"}
    assert strokes["node-resume"] == {"#b91c1c"}
    assert strokes["node-check_error_rate"] == {"#92400e"}
    assert strokes["node-monitor"] == {"#858e9b"}
    assert strokes["edge-prune-resume-0"] == {"#b91c1c"}
    assert any(e.get("stroke-dasharray") for e in group("edge-prune-resume-0").iter())
    assert [e.text for e in group("node-check_error_rate").iter() if e.get("text-decoration") == "line-through"] == ["Error Rate", "≥ 20%?"]  # fmt: skip


@DOT
def test_the_focus_of_two_edited_copies_fits_one_screen() -> None:
    root = parsed(edited().picture())
    width, height = (
        float((root.get(side) or "").removesuffix("pt")) for side in ("width", "height")
    )
    assert width <= 1100
    assert height <= 1000
    whole = parsed(edited().picture(full=True))
    assert float((whole.get("height") or "").removesuffix("pt")) > 2 * height


@pytest.mark.slow("takes seconds")
@DOT
def test_pictures_are_saved_in_their_own_dress(tmp_path: Path) -> None:
    picture = edited().picture()
    assert (picture.save(tmp_path / "a.mmd")).read_text("utf-8") == picture.mermaid()
    assert "classDef added" in picture.mermaid()
    assert picture.save(tmp_path / "a.dot").read_text("utf-8") == picture.dot()
    assert picture.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_notebook_is_shown_words_and_picture() -> None:
    bundle = edited()._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert bundle["text/plain"].startswith("moderator: ")
    assert "image/svg+xml" in bundle or "text/vnd.mermaid" in bundle
    same = between("", "")._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(same) == {"text/plain"}


def test_without_graphviz_a_notebook_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chartloop.pictures.picture.find_engine", lambda: "mermaid")
    bundle = edited()._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]
    assert set(bundle) == {"text/plain", "text/vnd.mermaid"}
    assert bundle["text/plain"].startswith("moderator: ")
    assert bundle["text/plain"].endswith(f"For a picture: {install('diagrams')}\n")


# mermaid ------------------------------------------------------------------------------------

_ORACLE = """
import { JSDOM } from "jsdom";
const dom = new JSDOM("");
globalThis.window = dom.window;
globalThis.document = dom.window.document;
const mermaid = (await import("mermaid")).default;
mermaid.initialize({ startOnLoad: false, securityLevel: "strict" });
const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const told = [];
for (const text of JSON.parse(Buffer.concat(chunks).toString())) {
  const data = (await mermaid.mermaidAPI.getDiagramFromText(text)).db.getData();
  told.push({
    nodes: data.nodes.map((node) => [node.id, node.label, node.cssClasses]),
    edges: data.edges.map((edge) => [edge.start, edge.end, edge.label, edge.style]),
  });
}
console.log(JSON.stringify(told));
"""


def read_by_mermaid(*texts: str) -> list[dict[str, Any]]:
    """What the real Mermaid makes of the texts: nodes and edges."""
    done = subprocess.run(
        ["node", "--input-type=module", "-e", _ORACLE], cwd=NODE, input=json.dumps(texts),
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.node("mermaid")
def test_mermaid_reads_what_is_written() -> None:
    made = edited()
    found = focus(made.merged_chart)
    (told,) = read_by_mermaid(made.picture().mermaid())
    ids = safe_ids(box.id for box in found.chart.boxes)
    assert [node[0] for node in told["nodes"]] == [ids[box.id] for box in found.chart.boxes]
    classes = {node[0]: node[2].split()[-1] for node in told["nodes"]}
    assert classes == {
        ids[b.id]: "note" if b.id == HIDDEN else found.of_box(b).mark for b in found.chart.boxes
    }
    labels = {node[0]: node[1] for node in told["nodes"]}
    assert (
        labels["check_error_rate"] == "<s>Error Rate<br>≥ 20%?</s><br><b>Error Rate<br>≥ 15%?</b>"
    )
    assert [(e[0], e[1]) for e in told["edges"]] == [
        (ids[a.source], ids[a.target]) for a in found.chart.arrows
    ]
    colours = {"added": "#166534", "removed": "#b91c1c", "changed": "#92400e", "same": "#858e9b"}
    assert [e[3][0] for e in told["edges"]] == [
        f"stroke:{colours[found.of_arrow(a).mark]}" for a in found.chart.arrows
    ]


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.node("mermaid")
def test_mermaid_takes_hostile_labels() -> None:
    new, old = chart(HOSTILE), chart(HOSTILE, prefix="was ")
    pictures = [
        merged(new, new),
        merged(Flowchart(), new),
        merged(new, Flowchart()),
        merged(old, new),
    ]
    for told in read_by_mermaid(*(to_review_mermaid(found) for found in pictures)):
        assert len(told["nodes"]) == len(HOSTILE)
        assert len(told["edges"]) == len(HOSTILE) - 1
        for node in told["nodes"]:
            tags = set(re.findall(r"<\s*(/?\w+)", node[1]))
            assert tags <= {"s", "/s", "b", "/b", "br"}, node


def test_mermaid_text_is_never_too_long() -> None:
    labels = [f"{'long ' * 60}{n}" for n in range(400)]
    found = merged(chart(labels[:350]), chart(labels))
    text = to_review_mermaid(found)
    assert len(text) < MOST
    cut = re.search(r"(\d+) more boxes do not fit into this picture", text)
    assert cut is not None
    assert text.count(":::added") >= min(50, 400 - int(cut[1]))  # what changed is kept first
    assert to_review_mermaid(merged(chart(labels[:2]), chart(labels[:3]))).count("more boxes") == 0
    assert len(to_review_mermaid(found, most=600)) < 600


def test_mermaid_text_never_has_too_many_arrows() -> None:
    boxes = tuple(Box(f"n{n}", f"Box {n}") for n in range(30))
    ends = [(a.id, b.id) for a in boxes for b in boxes]
    before = Flowchart("many", boxes, tuple(Arrow(*pair) for pair in ends[:450]))
    found = merged(before, Flowchart("many", boxes, tuple(Arrow(*pair) for pair in ends)))
    text = to_review_mermaid(found)
    assert len(text) < MOST
    assert 250 < len(re.findall(r" (?:-->|-\.->)", text)) <= ARROWS
    assert "more boxes do not fit into this picture" in text


# large --------------------------------------------------------------------------------------


def large(states: int, *, changed: int = 0) -> Machine:
    body = "".join(
        f"  s{n}: {{ask: Step {n}?, when: run.steps >= {n + (7 if n < changed else 0)}, then: s{n + 1}, else: done}}\n"
        for n in range(states)
    )
    return load(
        f"chartloop: 1\nmachine: large\nstates:\n  go: {{do: receive, next: s0}}\n{body}"
        f"  s{states}: {{do: nothing, next: done}}\n  done: {{stop: completed}}\n"
    )


@pytest.mark.slow("takes seconds")
def test_a_machine_of_500_states_is_compared_and_focused() -> None:
    made = diff(large(500), large(500, changed=3))
    assert [change.kind for change in made.changes] == ["tightened"] * 3
    assert made.picture().merged.hidden > 490
    renamed = large(500).canonical().replace('"s250"', '"another"')
    told = diff(large(500), load(f"{renamed}\n"))
    assert [str(change) for change in told.changes] == ["state `s250` renamed to `another`"]


def test_a_dress_leaves_the_plain_picture_alone() -> None:
    plain = chart(["a", "b"])
    same = merged(plain, plain)
    assert "#166534" not in to_dot(plain, dress=ReviewDress(same))
