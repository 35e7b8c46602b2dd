"""A witness on the plain picture: its colours, its counts, and that nothing moves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chartloop import load
from chartloop.api.drawn import DrawnBound
from chartloop.core.errors import SetupError
from chartloop.pictures.live.colours import PALE, TAKEN
from chartloop.pictures.picture import Picture
from chartloop.pictures.witness import CLOSING, FOR_EVER

LOOPS = """chartloop: 1
machine: loops
model: {name: scripted}
limits: {steps: 6}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  begin: {do: receive, next: think}
  think: {do: infer, failed: next, next: [{when: len(last.tool_calls) > 0, to: think}, done]}
  done: {stop: completed}
"""


def loops(*, cut: bool) -> DrawnBound:
    text = LOOPS
    if not cut:
        text = text.replace("limits: {steps: 6}\n", "")
        text = text.replace("rules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n", "")
    return load(text).bound()


def arrow(dot: str, source: str, target: str) -> str:
    return next(
        line for line in dot.splitlines() if line.strip().startswith(f"{source} -> {target} ")
    )


def test_the_way_is_blue_the_closing_arrow_red_the_rest_faded() -> None:
    dot = loops(cut=True).draw().dot()
    assert TAKEN in arrow(dot, "begin", "think")
    assert "xlabel" not in arrow(dot, "begin", "think")
    closing = arrow(dot, "think", "think")
    assert CLOSING in closing
    assert "×5" in closing
    assert PALE in arrow(dot, "think", "done")
    assert "actions: at most 6" in dot


def test_a_loop_that_nothing_cuts_goes_on_for_ever() -> None:
    dot = loops(cut=False).draw().dot()
    assert FOR_EVER in arrow(dot, "think", "think")
    assert "actions: unbounded" in dot


def test_an_answer_without_a_witness_is_the_machine_as_it_is() -> None:
    machine = load("agent")
    shown = machine.query("never tool_call before llm_inference").draw()
    assert machine.query("never tool_call before llm_inference")
    assert PALE not in shown.dot()
    assert PALE in machine.query("reach done").draw().dot()


def test_figures_that_there_are() -> None:
    with pytest.raises(SetupError, match="no bound on `dollars` to draw"):
        loops(cut=True).draw("dollars")


def shown(value: Any) -> dict[str, Any]:
    """What a notebook gets."""
    return value._repr_mimebundle_()


def test_it_shows_itself() -> None:
    assert "text/plain" in shown(loops(cut=True))
    agent = load("agent")
    answer = agent.query("reach done")
    assert shown(answer)["text/plain"] == str(answer)
    assert "<img" in shown(answer)["text/html"]
    assert "user_message → " in shown(answer)["text/html"]
    without = shown(agent.query("never tool_call before llm_inference"))["text/html"]
    assert "<img" not in without
    assert "comes before" in without


def test_a_bound_shows_its_figures_beside_the_picture() -> None:
    page = shown(loops(cut=True))["text/html"]
    assert "<img" in page
    assert re.search(r"requests</td><td[^>]*>5</td><td[^>]*>by run.steps &gt;= limits", page)
    uncut = shown(loops(cut=False))["text/html"]
    assert "no budget cuts the loop think → think" in uncut


def places(picture: Picture) -> dict[str, tuple[float, float]]:
    """Where the first text of each box stands."""
    found = re.findall(
        r'<g id="[^"]*(node-[^"]+)" class="node">.*?<text [^>]*?x="([-\d.]+)" y="([-\d.]+)"',
        picture.svg(), re.DOTALL,
    )  # fmt: skip
    return {name: (float(x), float(y)) for name, x, y in found}


@pytest.mark.extra(  # noqa: S610 - no Django
    "pygraphviz", install='pip install -e ".[diagrams]"'
)
@pytest.mark.parametrize("name", ["agent", "moderator", "team"])
def test_nothing_moves(name: str) -> None:
    machine = load(name)
    plain, drawn = places(machine.draw()), places(machine.bound().draw())
    assert plain.keys() == drawn.keys()
    moved = {(round(x - drawn[n][0], 1), round(y - drawn[n][1], 1)) for n, (x, y) in plain.items()}
    assert len(moved) == 1, moved  # the line under the title moves all of it alike


def test_the_rule_that_stops_a_way_is_red_in_its_list() -> None:
    answer = load("agent").query("reach steps_limit")
    drawn = answer.draw().dot()
    lines = [line for line in re.split(r"<BR[^>]*/>", drawn) if "limits." in line]
    red = [line for line in lines if CLOSING in line]
    assert len(red) == 1
    assert "run.steps" in red[0]


def test_what_a_way_shows_stands_whole_under_the_title() -> None:
    answer = load("agent").query("always state:memory_update after llm_inference")
    drawn = answer.draw().svg()
    said = re.sub(r"<[^>]+>", " ", drawn).split()
    assert " ".join(answer.reason.split()) in " ".join(said)
