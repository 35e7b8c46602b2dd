"""The live machine as a graph, for pictures, checks and comparisons.

Read from `machine.states` and `machine.events` of the live machine, never from the spec: what is
drawn is what runs. Transitions that one edge or rule put on many states carry its id as `origin`.

Node attributes: ``label shape role order origin entry about``. Edge attributes (key: the
edge's id): ``label order kind origin number guard unlabelled``. Rules are under
``graph["rules"]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from chartloop.core.facts import Facts
from chartloop.core.units import say_count, say_duration
from chartloop.language.expression import Expression, GuardFailed
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_value
from chartloop.machine.in_doubt import Decides, decides
from chartloop.machine.regions import GuardedTransition, Holds, Node, Region, RuleHolds


def graph(chart: Chart, *, facts: Facts | None = None, engine: bool = False) -> Any:
    """Return the step machine as a `MultiDiGraph`.

    Labels show the limits of `facts`, by default those of the file. `engine` adds the parts that
    are not in the file: the ends of the engine, and the exits for a cancel or unhandled failure.
    """
    return region_graph(chart, chart.step, facts or chart.position("").facts, engine=engine)


def visited_graph(chart: Chart, facts: Facts, *, states: Set[str], edges: Set[str]) -> Any:
    """Return the graph of only these states and edges, without rules.

    The cost grows with the part that a run visited, not with its machine.
    """
    return _graph(chart, chart.step, facts, part=_Part(states, edges))


def region_graph(chart: Chart, region: Region, facts: Facts, *, engine: bool = False) -> Any:
    """Return a live machine as a graph."""
    rules = list(_rules(chart, region, facts)) + (list(_exits(region)) if engine else [])
    return _graph(chart, region, facts, rules=rules)


class _Part(NamedTuple):
    """The part of a machine that is drawn."""

    states: Set[str]
    edges: Set[str]


def _graph(
    chart: Chart, region: Region, facts: Facts, *,
    rules: Sequence[Mapping[str, Any]] = (), part: _Part | None = None,
) -> Any:  # fmt: skip
    import networkx as nx  # noqa: PLC0415 - a run is rarely drawn, and this is slow to import

    multigraph: Any = nx.MultiDiGraph
    out = multigraph(name=chart.spec.name, title=chart.spec.title or chart.spec.name, rules=rules)
    nodes = {n: node for n, node in region.nodes.items() if part is None or n in part.states}
    for order, (name, node) in enumerate(nodes.items()):
        out.add_node(name, order=order, **_node(chart, name, node.spec, facts))
    for order, (t, number, last) in enumerate(_drawn_transitions(region, nodes)):
        key = t.origin if t.kind != "return" else f"{t.origin}→{t.dest}"
        if part is not None and not (key in part.edges and t.dest in nodes):
            continue
        guard = "else" if last else _guard(chart, t, facts)
        out.add_edge(
            t.source, t.dest, key=key, order=order, kind=t.kind, origin=t.by, number=number,
            label=_label(chart, t, facts), guard=guard, unlabelled=bool(guard) and _is_silent(t),
        )  # fmt: skip
    for name, node in nodes.items() if part is None else ():
        asked = None if node.spec is None else decides(chart.spec, node.spec)
        if asked is not None:
            out.add_edge(
                name, name, key=f"{name}.in_doubt", order=out.number_of_edges(), kind="in_doubt",
                origin="engine", number=None, label=_doubt(asked, facts), guard="",
                unlabelled=False,
            )  # fmt: skip
    return out


class _DrawnTransition(NamedTuple):
    """A transition, and its rank among those of the same state."""

    transition: GuardedTransition
    number: int | None
    is_last: bool
    """Whether it has no guard, and is taken if none before it holds."""


def _drawn_transitions(region: Region, nodes: Mapping[str, Node]) -> Iterator[_DrawnTransition]:
    """Yield the transitions out of these states, in order, for all triggers but `check`."""
    for name, node in nodes.items():
        spec = node.spec
        for trigger, event in region.triggers.items():
            candidates = event.at(name)
            if trigger == "check" or not candidates:
                continue
            tried = [t for t in candidates if t.kind == "advance"]
            guarded = sum(bool(t.guards) for t in tried)
            numbered = guarded > 1 and spec is not None and spec.ask is None
            contrasts = numbered or any(
                _is_silent(t) and any(isinstance(guard, Holds) for guard in t.guards)
                for t in candidates
            )
            for t in candidates:
                last = contrasts and _is_silent(t) and not t.guards
                yield _DrawnTransition(
                    t, tried.index(t) + 1 if numbered and t in tried else None, last
                )


def _is_silent(t: GuardedTransition) -> bool:
    """Whether it has no label that explains it: neither one of the file, nor `Yes` or `failed`."""
    return t.edge is not None and t.edge.label is None and t.edge.role in ("next", "on")


def _guard(chart: Chart, t: GuardedTransition, facts: Facts) -> str:
    expressions = (guard.expression for guard in t.guards if isinstance(guard, Holds))
    return " and ".join(_guard_with_limits(chart, e, facts) for e in expressions)


def _rules(chart: Chart, region: Region, facts: Facts) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    checks = [t for t in region.transitions("check") if t.rule is not None]
    for t in sorted(checks, key=lambda t: int(t.origin.partition(".")[2])):
        rule = t.rule
        if rule is None or t.origin in seen:
            continue
        seen.add(t.origin)
        guard = next((g.expression for g in t.guards if isinstance(g, RuleHolds)), rule.when)
        yield {
            "id": rule.id, "text": guard.text, "shown": _guard_with_limits(chart, guard, facts),
            "kind": rule.kind,
            "reason": rule.stop or rule.signal, "to": t.dest or "", "at": list(rule.at),
            "before": list(rule.before),
        }  # fmt: skip


def _guard_with_limits(chart: Chart, guard: Expression, facts: Facts) -> str:
    """A guard with the value of each limit after its name: ``run.steps >= limits.steps (50)``."""
    text = " ".join(guard.text.split())
    for read in sorted(guard.reads, key=len, reverse=True):
        name = read.removeprefix("limits.")
        if name != read and name in chart.spec.limits:
            type, value = chart.spec.limits[name].type, facts.limits.get(name)
            message = (
                "off"
                if value is None
                else (", ".join(value) if type.kind == "list" else say_value(value, type))
            )
            text = re.sub(rf"\b{re.escape(read)}\b(?! \()", f"{read} ({message})", text)
    return text


def _exits(region: Region) -> Iterator[dict[str, Any]]:
    """The targets of raised signals: of a cancel, a tool, an unhandled failure."""
    reasons: dict[str, set[str]] = {}
    for t in region.transitions("check"):
        if t.kind == "raised" and t.dest is not None:
            names = t.guards[0].__name__.removeprefix("raised: ").split(", ")
            reasons.setdefault(t.dest, set()).update(names)
    for to, names in reasons.items():
        yield {
            "id": f"raised.{to}",
            "text": "raised: " + ", ".join(sorted(names)),
            "kind": "stop",
            "reason": "",
            "to": to,
            "at": [],
            "before": [],
        }


def _doubt(asked: Decides, facts: Facts) -> str:
    """The label of the wait for who decides on a call in doubt."""
    who, within = asked.by or "a person", asked.within
    try:
        seconds = within.value(facts) if isinstance(within, Expression) else within
    except GuardFailed:
        seconds = None
    limit = "" if seconds is None else f",\nat most {say_duration(seconds)}"
    return f"in doubt:\n{who} decides{limit}"


def _node(chart: Chart, name: str, spec: StateSpec | None, facts: Facts) -> dict[str, Any]:
    if spec is None:
        role = "stop" if chart.ends.get(name) == "error" else "end"
        return {
            "label": name,
            "shape": "pill",
            "role": role,
            "origin": "engine",
            "entry": False,
            "about": "the engine's own end",
        }
    starts = name == chart.spec.start
    text = spec.ask or spec.label
    called = chart.spec.children_of(spec) if spec.traits.runs == "calls" else ()
    few = ", ".join(called) if len(called) < 4 else say_count(len(called), "machine")
    return {
        "label": text.show_heading(facts)
        if text is not None
        else f"{name}\n(may run {few})"
        if called
        else name,
        "shape": _shape(spec, starts),
        "role": _role(spec, starts),
        "origin": "file",
        "entry": (starts and spec.job != "pass") or name in chart.spec.resume_at,
        "about": spec.about,
    }


def _shape(spec: StateSpec, starts: bool) -> str:
    if spec.job == "decide" or spec.ask is not None:
        return "diamond"
    ends = spec.job == "end" or (starts and spec.job == "pass")
    return spec.shape or ("pill" if ends else "rect")


def _role(spec: StateSpec, starts: bool) -> str:
    if spec.stop:
        return "completed" if spec.stop == "completed" else "stop"
    if spec.role:
        return spec.role
    if spec.end == "error":
        return "stop"
    if spec.job == "end":
        return "action" if spec.shape == "rect" else "end"
    if spec.pill or (starts and spec.job == "pass"):
        return "start"
    return "decision" if spec.job == "decide" or spec.ask is not None else "action"


def _label(chart: Chart, t: GuardedTransition, facts: Facts) -> str:
    edge = t.edge
    if t.kind == "retry":
        return t.guards[0].__name__
    if edge is None:
        return ""
    if edge.label is not None:
        return edge.label.show(facts)
    if edge.role == "expired":
        source = chart.spec.states[edge.source]
        more = ",\nwith the results so far" if source.traits.runs == "several" else ""
        return _after(source, facts) + more
    if edge.role == "else":
        return "No" if chart.spec.states[edge.source].of is None else "else"
    return {
        "then": "Yes", "case": edge.case, "on": edge.trigger, "failed": "failed",
        "error": "failed, not handled",
    }.get(edge.role, "return" if t.kind == "return" else "")  # fmt: skip


def _after(spec: StateSpec, facts: Facts) -> str:
    within = spec.within
    try:
        seconds = within.value(facts) if isinstance(within, Expression) else within
    except GuardFailed as unknown:  # it has a value only when the state is entered
        return f"after {unknown.text}"
    return "expired" if seconds is None else f"after {say_duration(seconds)}"
