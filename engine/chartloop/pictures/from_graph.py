"""Charts from the graph of a live machine, with its rules.

Belongs here: which parts are drawn, the boxes of rules, the arrows back from a detour. Never:
networkx itself (the graph is only read), a file format, a colour.

Source: docs/pictures.md
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from chartloop.core.digraph import reachable
from chartloop.pictures.flowchart import (
    FILLS,
    Arrow,
    Box,
    Flowchart,
    RuleDrawing,
    RuleLine,
    one_line,
)

WIDEST = 44
"""The most characters of a guard on one line of an arrow's label."""
LISTED = 96
"""The most characters of a rule on one line of a box that lists rules."""


class StateGraph(Protocol):
    """The part of a networkx `MultiDiGraph` that is read here."""

    @property
    def graph(self) -> Mapping[str, Any]:
        """`name`, `title`, and `rules`: a list of mappings with the fields of `RuleLine`."""
        ...

    @property
    def nodes(self) -> Any:
        """Attributes: `label shape role order origin entry about`."""
        ...

    @property
    def edges(self) -> Any:
        """Attributes: `label order kind origin number guard unlabelled`; the key is its id."""
        ...


def flowchart(
    graph: StateGraph,
    *,
    rules: RuleDrawing = "box",
    all: bool = False,
) -> Flowchart:
    """The chart of a machine's graph.

    `rules` are not drawn, or drawn as one dashed box "after every step" with an arrow for each, or
    as a chain of decisions. `all` includes the parts that the engine adds; without it, a rule that
    leads to an end of the engine is a line of text in its box.
    """
    lines = tuple(_rule_line(rule) for rule in graph.graph.get("rules", ()))
    drawn_rules = () if rules == "none" else lines
    # a chain needs the states that it leads to; a box can name them in words
    led_to = {line.to for line in lines} if rules == "chain" else set[str]()
    boxes = _boxes(graph, led_to=led_to, all=all)
    arrows = _arrows(graph, boxes, all=all)
    ahead = [arrow for arrow in arrows if arrow.kind != "return"]
    panels = [
        _Panel(_panel_id(number), group, boxes, rules == "chain")
        for number, group in enumerate(_same_moment(drawn_rules), start=1)
    ]
    drawn = [panel.draw() for panel in panels]
    return Flowchart(
        title=str(graph.graph.get("title") or graph.graph.get("name", "")),
        boxes=(*boxes.values(), *(box for more, _ in drawn for box in more)),
        arrows=(*ahead, *(arrow for _, more in drawn for arrow in more), *_returns(arrows, panels)),
        rules=lines,
    )


def _rule_line(rule: Mapping[str, Any]) -> RuleLine:
    return RuleLine(
        id=rule["id"],
        text=rule.get("shown") or rule["text"],
        kind=rule["kind"],
        reason=rule.get("reason", ""),
        to=rule.get("to", ""),
        at=tuple(rule.get("at", ())),
        before=tuple(rule.get("before", ())),
    )


def _boxes(graph: StateGraph, *, led_to: set[str], all: bool) -> dict[str, Box]:
    nodes: list[tuple[str, Mapping[str, Any]]] = sorted(
        graph.nodes(data=True), key=lambda node: node[1].get("order", 0)
    )
    return {
        name: Box(
            id=name,
            label=attributes.get("label", name),
            shape=attributes.get("shape", "rect"),
            role=(role := attributes.get("role", "action")),
            fill=FILLS.get(role),
            entry=attributes.get("entry", False),
            origin=attributes.get("origin", "file"),
            about=attributes.get("about", ""),
        )
        for name, attributes in nodes
        if all or attributes.get("origin") != "engine" or name in led_to
    }


def _arrows(graph: StateGraph, boxes: Mapping[str, Box], *, all: bool) -> list[Arrow]:
    """The edges between drawn boxes, except those of rules, which have their own boxes."""
    place = {name: at for at, name in enumerate(boxes)}
    edges: list[tuple[str, str, str, Mapping[str, Any]]] = sorted(
        (
            (source, target, key, attributes)
            for source, target, key, attributes in graph.edges(keys=True, data=True)
            if source in place and target in place
        ),
        key=lambda edge: (place[edge[0]], edge[3].get("order", 0)),
    )
    return [
        Arrow(
            source=source,
            target=target,
            label=attributes.get("label", ""),
            id=str(key),
            kind=attributes.get("kind", "advance"),
            number=attributes.get("number"),
            guard=attributes.get("guard", ""),
            unlabelled=attributes.get("unlabelled", False),
        )
        for source, target, key, attributes in edges
        if attributes.get("origin", "file") != "rule"
        and attributes.get("kind") != "rule"
        and (all or attributes.get("origin") != "engine")
    ]


def _same_moment(lines: Iterable[RuleLine]) -> list[list[RuleLine]]:
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[RuleLine]] = {}
    for line in lines:
        groups.setdefault((line.at, line.before), []).append(line)
    return list(groups.values())


def rule_boxes(chart: Flowchart) -> dict[str, str]:
    """The id of the box that lists each rule, by rule id; without rules whose box is not drawn."""
    drawn = {box.id for box in chart.boxes}
    groups = enumerate(_same_moment(chart.rules), start=1)
    return {
        line.id: panel
        for number, group in groups
        if (panel := _panel_id(number)) in drawn
        for line in group
    }


def _panel_id(number: int) -> str:
    """The id of a box of rules. It cannot be the name of a state, because of the hyphen."""
    return f"rules-{number}"


def wrap_label(text: str, width: int = WIDEST) -> str:
    """A text in lines of at most `width` characters, unless a single word is longer."""
    return "\n".join(textwrap.wrap(text, width, break_on_hyphens=False)) or text


@dataclass(frozen=True, slots=True)
class _Panel:
    """The rules that are evaluated at the same moments, drawn together."""

    id: str
    lines: Sequence[RuleLine]
    states: Mapping[str, Box]
    as_chain: bool

    def draw(self) -> tuple[list[Box], list[Arrow]]:
        return self._chain() if self.as_chain else self._box()

    @property
    def back(self) -> str:
        """The box to which a detour returns."""
        return f"{self.id}-on" if self.as_chain else self.id

    def _title(self) -> str:
        def join_labels(states: Sequence[str]) -> str:
            known = (self.states.get(name) for name in states)
            return ", ".join(
                one_line(box.label) if box else name
                for name, box in zip(states, known, strict=True)
            )

        first = self.lines[0]
        moments = [f"after {join_labels(first.at)}"] if first.at else []
        moments += [f"before {join_labels(first.before)}"] if first.before else []
        return wrap_label(", ".join(moments)) if moments else "after every step"

    def _box(self) -> tuple[list[Box], list[Arrow]]:
        leading = [line for line in self.lines if line.to in self.states]
        title = [self._title()]
        title += [
            wrap_label(f"{line.text} → {line.does}", LISTED)
            for line in self.lines
            if line.to not in self.states
        ]
        arrows = [
            Arrow(
                self.id, line.to, f"{wrap_label(line.text)}\n{line.does}".strip(), line.id, "rule"
            )
            for line in leading
        ]
        return [Box(self.id, "\n".join(title), role="rules", origin="rule")], arrows

    def _chain(self) -> tuple[list[Box], list[Arrow]]:
        boxes = [Box(self.id, self._title(), role="rules", origin="rule")]
        arrows: list[Arrow] = []
        decisions = [f"{self.id}-{number}" for number, _ in enumerate(self.lines, start=1)]
        follows = dict(pairwise([*decisions, self.back]))
        arrows.append(Arrow(self.id, decisions[0], kind="rule"))
        for line, name in zip(self.lines, decisions, strict=True):
            boxes.append(Box(name, wrap_label(line.text), "diamond", "decision", origin="rule"))
            to = line.to if line.to in self.states else f"{name}-signal"
            if to not in self.states:
                boxes.append(Box(to, line.does, role="rules", origin="rule"))
                arrows.append(Arrow(to, follows[name], kind="rule"))
            arrows.append(Arrow(name, to, f"Yes\n{line.does}".strip(), line.id, "rule"))
            arrows.append(Arrow(name, follows[name], "No", kind="rule"))
        boxes.append(Box(self.back, "go on", role="rules", origin="rule"))
        return boxes, arrows


def _returns(arrows: Sequence[Arrow], panels: Sequence[_Panel]) -> list[Arrow]:
    """An arrow from each state that returns to the rules whose detour led there."""
    returning = {arrow.source: arrow.id for arrow in arrows if arrow.kind == "return"}
    ahead: dict[str, list[str]] = {}
    for arrow in arrows:
        if arrow.kind != "return":
            ahead.setdefault(arrow.source, []).append(arrow.target)
    drawn: list[Arrow] = []
    for panel in panels:
        detours = [line.to for line in panel.lines if line.kind == "detour"]
        reached = set(reachable(detours, lambda state: ahead.get(state, [])))
        drawn += [
            Arrow(state, panel.back, "return", edge, "return")
            for state, edge in returning.items()
            if state in reached
        ]
    return drawn
