"""What of a machine's graph is drawn, and how its rules are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import networkx as nx
import pytest

from chartloop import load
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.pictures.compare.difference import differences
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleDrawing
from chartloop.pictures.from_graph import StateGraph, flowchart

STOPS = {
    "steps_limit": "run.steps >= limits.steps",
    "token_limit": "usage.total_tokens >= limits.tokens",
}


def rule(number: int, text: str, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"kind": "stop", "reason": "", "to": "", "at": [], "before": []}
    return {"id": f"rules.{number}", "text": text, **plain, **more}


def empty_graph(**attributes: Any) -> Any:
    return nx.MultiDiGraph(**attributes)  # pyright: ignore[reportUnknownVariableType]


def agent(*rules: dict[str, Any]) -> StateGraph:
    """The graph that the example `agent.yaml` gives, with an end that the engine made."""
    graph = empty_graph(name="agent", title="Step-based agent", rules=list(rules))
    plain = {"shape": "rect", "role": "action", "origin": "file", "entry": False, "about": ""}
    states: list[tuple[str, dict[str, Any]]] = [
        ("done", {"label": "done", "order": 4, "shape": "pill", "role": "completed"}),
        ("user_message", {"label": "user message", "order": 0, "entry": True}),
        ("infer", {"label": "LLM\ninference", "order": 1, "about": "asks the model"}),
        ("tool_call", {"label": "tool call", "order": 2}),
        ("prune", {"label": "prune", "order": 3}),
        ("stopped", {"label": "stopped", "order": 5, "shape": "pill", "origin": "engine"}),
        ("broken", {"label": "broken", "order": 6, "shape": "pill", "origin": "engine"}),
    ]
    for name, attributes in states:
        graph.add_node(name, **{**plain, **attributes})
    edges: list[tuple[str, str, str, dict[str, Any]]] = [
        ("tool_call", "infer", "tool_call.next", {}),
        ("infer", "done", "infer.next.1", {"order": 2, "label": "no tool calls", "number": 2}),
        ("infer", "tool_call", "infer.next.0", {"order": 1, "label": "tool calls", "number": 1}),
        ("infer", "infer", "infer.retry", {"label": "retry ≤ 3", "kind": "retry"}),
        ("user_message", "infer", "user_message.next", {}),
        ("prune", "tool_call", "prune.next@tool_call", {"kind": "return"}),
        ("prune", "infer", "prune.next@infer", {"kind": "return"}),
        ("infer", "stopped", "rules.0", {"kind": "rule", "origin": "rule"}),
        ("tool_call", "stopped", "rules.0", {"kind": "rule", "origin": "rule"}),
        ("tool_call", "broken", "tool_call.error", {"kind": "failed", "origin": "engine"}),
    ]
    common = {"label": "", "order": 0, "kind": "advance", "origin": "file", "number": None}
    for source, target, key, attributes in edges:
        graph.add_edge(source, target, key=key, **{**common, **attributes})
    return graph


def stops() -> list[dict[str, Any]]:
    return [
        rule(number, text, reason=reason, to="stopped")
        for number, (reason, text) in enumerate(STOPS.items())
    ]


def detour() -> dict[str, Any]:
    text = "usage.context_ratio >= limits.context"
    return rule(2, text, kind="detour", to="prune", before=["infer"])


def ends(chart: Flowchart) -> list[tuple[str, str, str]]:
    return [(arrow.source, arrow.target, arrow.drawn_text) for arrow in chart.arrows]


def names(chart: Flowchart) -> list[str]:
    return [box.id for box in chart.boxes]


FILE_ARROWS = [
    ("user_message", "infer", ""),
    ("infer", "infer", "retry ≤ 3"),
    ("infer", "tool_call", "1 · tool calls"),
    ("infer", "done", "2 · no tool calls"),
    ("tool_call", "infer", ""),
]


def test_without_rules_only_what_the_file_says_is_drawn_in_its_order() -> None:
    chart = flowchart(agent(*stops(), detour()), rules="none")
    assert chart.title == "Step-based agent"
    assert names(chart) == ["user_message", "infer", "tool_call", "prune", "done"]
    assert ends(chart) == FILE_ARROWS
    assert [line.reason for line in chart.rules] == ["steps_limit", "token_limit", ""]


def test_boxes_and_arrows_keep_what_the_graph_says_of_them() -> None:
    chart = flowchart(agent(), rules="none")
    boxes = {box.id: box for box in chart.boxes}
    assert boxes["infer"] == Box("infer", "LLM\ninference", about="asks the model")
    assert boxes["user_message"].entry
    assert boxes["done"] == Box("done", "done", "pill", "completed", "#c8e6c9")
    kept = Arrow("infer", "tool_call", "tool calls", "infer.next.0", "advance", 1)
    assert kept in chart.arrows


def test_all_shows_what_the_engine_made() -> None:
    chart = flowchart(agent(*stops()), rules="none", all=True)
    assert names(chart)[-2:] == ["stopped", "broken"]
    assert set(ends(chart)) == {*FILE_ARROWS, ("tool_call", "broken", "")}
    assert chart.boxes[-1].origin == "engine"


def stops_at(state: str) -> list[dict[str, Any]]:
    return [{**stop, "to": state} for stop in stops()]


def test_rules_of_one_moment_are_one_box_with_an_arrow_each() -> None:
    chart = flowchart(agent(*stops_at("done")))
    box = chart.boxes[-1]
    assert (box.label, box.role, box.origin) == ("after every step", "rules", "rule")
    assert ends(chart)[len(FILE_ARROWS) :] == [
        (box.id, "done", "run.steps >= limits.steps\nstop: steps_limit"),
        (box.id, "done", "usage.total_tokens >= limits.tokens\nstop: token_limit"),
    ]
    assert [arrow.id for arrow in chart.arrows[-2:]] == ["rules.0", "rules.1"]


def test_a_rule_that_ends_at_the_engines_own_end_is_a_line_in_the_box() -> None:
    chart = flowchart(agent(*stops()))
    assert "stopped" not in names(chart)
    assert chart.boxes[-1].label.split("\n") == [
        "after every step",
        "run.steps >= limits.steps → stop: steps_limit",
        "usage.total_tokens >= limits.tokens → stop: token_limit",
    ]


def test_a_chain_shows_the_ends_of_the_engine_that_it_leads_to() -> None:
    assert "stopped" in names(flowchart(agent(*stops()), rules="chain"))
    assert "stopped" not in names(flowchart(agent(detour()), rules="chain"))
    assert "broken" not in names(flowchart(agent(*stops()), rules="chain"))


def test_a_detour_has_its_moment_and_its_way_back() -> None:
    chart = flowchart(agent(*stops(), detour()))
    every_step, before = chart.boxes[-2:]
    assert before.label == "before LLM inference"
    assert ends(chart)[-2:] == [
        (before.id, "prune", "usage.context_ratio >= limits.context"),
        ("prune", before.id, "return"),
    ]
    assert every_step.id not in {arrow.target for arrow in chart.arrows}


def test_the_way_back_is_found_behind_the_state_that_the_detour_enters() -> None:
    far = rule(0, "run.steps >= 3", kind="detour", to="user_message", at=["tool_call"])
    graph: Any = agent(far)
    graph.add_edge("tool_call", "prune", key="on", order=9, kind="advance", origin="file", label="")
    chart = flowchart(graph)
    assert chart.boxes[-1].label == "after tool call"
    assert ends(chart)[-1] == ("prune", chart.boxes[-1].id, "return")


def test_a_rule_that_only_raises_its_signal_is_named_in_the_box() -> None:
    raised = rule(0, "progress.cycles >= 5", kind="signal", reason="diminishing_returns")
    chart = flowchart(agent(raised))
    assert chart.boxes[-1].label == (
        "after every step\nprogress.cycles >= 5 → signal: diminishing_returns"
    )
    assert ends(chart) == FILE_ARROWS


def test_a_chain_asks_one_rule_after_the_other_and_goes_on() -> None:
    raised = rule(2, "progress.cycles >= 5", kind="signal", reason="no_progress")
    chart = flowchart(agent(*stops(), raised), rules="chain")
    head, first, second, third, signal, on = chart.boxes[-6:]
    assert [box.label for box in (first, second, third)] == [*STOPS.values(), raised["text"]]
    assert {box.shape for box in (first, second, third)} == {"diamond"}
    assert (signal.label, on.label) == ("signal: no_progress", "go on")
    assert ends(chart)[len(FILE_ARROWS) :] == [
        (head.id, first.id, ""),
        (first.id, "stopped", "Yes\nstop: steps_limit"),
        (first.id, second.id, "No"),
        (second.id, "stopped", "Yes\nstop: token_limit"),
        (second.id, third.id, "No"),
        (signal.id, on.id, ""),
        (third.id, signal.id, "Yes\nsignal: no_progress"),
        (third.id, on.id, "No"),
    ]


def test_in_a_chain_a_detour_returns_to_where_the_run_goes_on() -> None:
    chart = flowchart(agent(detour()), rules="chain")
    assert chart.boxes[-1].label == "go on"
    assert ends(chart)[-1] == ("prune", chart.boxes[-1].id, "return")


def test_boxes_of_rules_are_never_taken_for_states() -> None:
    drawings: list[RuleDrawing] = ["box", "chain"]
    for drawing in drawings:
        chart = flowchart(agent(*stops(), detour()), rules=drawing)
        assert len(set(names(chart))) == len(chart.boxes)
        assert all("-" in box.id for box in chart.boxes if box.origin == "rule")


def test_long_guards_are_broken_into_lines() -> None:
    text = " and ".join(f"limits.number_{n} >= run.steps" for n in range(5))
    chart = flowchart(agent(rule(0, text, to="done")))
    lines = chart.arrows[-1].label.split("\n")
    assert len(lines) > 3
    assert max(map(len, lines)) <= 44
    assert " ".join(lines) == text


def test_a_graph_without_attributes_is_drawn_by_its_names() -> None:
    graph = empty_graph()
    graph.add_edge("a", "b")
    chart = flowchart(graph)
    assert chart == Flowchart("", (Box("a", "a"), Box("b", "b")), (Arrow("a", "b", id="0"),))


GUARDS = """
chartloop: 1
machine: guards
vars: {n: 0}
limits: {tokens: 1000}
states:
  think:
    do: infer
    next:
      - {when: "vars.n > 1", to: act}
      - {when: "usage.total_tokens >= limits.tokens and run.steps > 3 and vars.n > 2 and vars.n < 9", to: done}
      - {when: "vars.n == 0", to: wait, label: none}
      - {to: sure}
  act: {do: infer, next: [{when: last.ok, to: done}, {to: done}]}
  wait: {on: {go: [{when: vars.n > 3, to: think}, {to: done}], stop: done}}
  sure: {ask: "Sure?", when: vars.n < 5, then: done, else: think}
  done: {stop: completed}
"""
LONG = "usage.total_tokens >= limits.tokens (1,000) and run.steps > 3 and vars.n > 2 and vars.n < 9"


class Asked(NamedTuple):
    """An arrow, what stands on it, and its tooltip."""

    edge: str
    shown: str
    tip: str


ASKED = [
    Asked("think.next.0", "1 · vars.n > 1", "1 · vars.n > 1"),
    Asked(
        "think.next.1",
        "2 · usage.total_tokens >= limits.tokens\n(1,000) and run.steps > 3 and …",
        f"2 · {LONG}",
    ),
    Asked("think.next.2", "3 · none", "3 · none: vars.n == 0"),
    Asked("think.next.3", "4 · else", "4 · else"),
    Asked("act.next.0", "last.ok", "last.ok"),
    Asked("act.next.1", "else", "else"),
    Asked("wait.on.go.0", "go [vars.n > 3]", "go [vars.n > 3]"),
    Asked("wait.on.go.1", "go [else]", "go [else]"),
    Asked("wait.on.stop", "stop", "stop"),
    Asked("sure.then", "Yes", "Yes: vars.n < 5"),
    Asked("sure.else", "No", "No"),
]


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case.edge)
def test_an_arrow_says_what_is_asked_in_its_label_or_else_as_the_guard(case: Asked) -> None:
    arrows = {arrow.id: arrow for arrow in load(GUARDS).draw().chart.arrows}
    arrow = arrows[case.edge]
    assert (arrow.drawn_text, arrow.tip) == (case.shown, case.tip)


def test_every_format_shows_a_guard_without_a_label() -> None:
    picture = load(GUARDS).draw()
    for text in (picture.dot(), picture.text(), picture.outline(), picture.mermaid()):
        assert "1 · vars.n > 1" in text
        assert "4 · else" in text
    assert LONG in picture.outline()
    assert f'tooltip="2 · {LONG}"' in picture.dot()


def test_a_chart_with_its_guards_written_out_is_the_same_chart() -> None:
    drawn = load(GUARDS).draw(rules="none")
    written = read_mermaid(drawn.mermaid())
    bare = replace(
        drawn.chart,
        arrows=tuple(replace(a, guard="", unlabelled=False) for a in drawn.chart.arrows),
    )
    assert differences(written, drawn.chart) == ()
    assert differences(bare, drawn.chart) == ()
    other = load(GUARDS.replace("vars.n > 1", "vars.n > 7")).draw(rules="none").chart
    assert [str(d) for d in differences(written, other)] == [
        'label of edge think → act: "vars.n > 1" became "vars.n > 7"'
    ]
