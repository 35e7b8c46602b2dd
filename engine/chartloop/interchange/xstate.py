"""A machine as a configuration of XState 5: `createMachine(JSON.parse(text))` loads it.

Guards, actions and delays are named; tables under `meta.chartloop` define the names.
Guards are tried in the order of the live machine. States that only decide or pass have `always`,
deadlines `after`, everything else `on`.

Belongs here: the JSON. Never: which transitions are exported (`statechart_of_machine`).

Source:       stately.ai/docs, "Machines"; xstate 5.33
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from chartloop.api import Machine
from chartloop.interchange.statechart import (
    CHECK,
    PARENT,
    Action,
    Node,
    Predicate,
    Statechart,
    Transition,
)
from chartloop.interchange.statechart_of_machine import statechart, status_chart

Data = dict[str, Any]

LONGEST = 2**31 - 1
"""The longest delay of a JavaScript timer in milliseconds; a longer one fires immediately."""

_HIDDEN = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
"""Invisible characters, and those that change the direction of text."""


def to_xstate(machine: Machine, *, all: bool = False, status: bool = False) -> str:
    """Export a machine as JSON text that ends with a newline. Equal machines give equal texts.

    `all` adds the engine's own part: its ends, and the exits for a cancel, a signal from a tool
    and an unhandled failure. `status` adds the status of the run as a parallel state.
    """
    text = json.dumps(xstate_config(machine, all=all, status=status), ensure_ascii=False, indent=2)
    return _HIDDEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def xstate_config(machine: Machine, *, all: bool = False, status: bool = False) -> Data:
    """The export of `to_xstate` as plain data."""
    chart = statechart(machine, all=all)
    charts = [chart]
    if status:
        charts.append(status_chart(machine, beside=chart))
        regions = {
            "state": _region(chart, f"#{chart.name}.state"),
            "status": _region(charts[1], f"#{chart.name}.status"),
        }
        body: Data = {"type": "parallel", "states": regions}
    else:
        body = _region(chart, f"#{chart.name}")
    return {
        "id": chart.name,
        **_description(chart.title or chart.name, chart.about),
        "version": machine.hash,
        "meta": {"chartloop": _tables(charts)},
        **body,
    }


def _region(chart: Statechart, root: str) -> Data:
    """The states of one region. `root` is its absolute path."""
    under = {node.name for node in chart.under}
    states = {node.name: _state(node, under, root) for node in chart.beside}
    start = chart.start
    if under:
        inner: Data = {node.name: _state(node, under, root) for node in chart.under}
        first = start if start in under else next(iter(inner))
        checks = [_transition(transition, set(), under, root) for transition in chart.checks]
        parent = {"initial": first, "on": {CHECK: checks}, "states": inner}
        states = {PARENT: parent, **states}
        start = PARENT if start in under else start
    return {"initial": start, "states": states}


def _state(node: Node, under: set[str], root: str) -> Data:
    peers = under if node.name in under else set[str]()
    out: Data = _description(node.label, node.about)
    if node.job == "end":
        out["type"] = "final"
    if node.actions:
        out["entry"] = [_action(action) for action in node.actions]
    groups: dict[str, list[Data]] = {CHECK: []} if node.checks else {}
    for transition in (*node.checks, *node.transitions):
        made = _transition(transition, peers, under, root)
        if transition.target == node.name:  # a self-transition runs the entry actions again
            made["reenter"] = True
        groups.setdefault(transition.event, []).append(made)
    if "" in groups:
        out["always"] = groups.pop("")
    if "expired" in groups:
        out["after"] = {_delay(node): groups.pop("expired")}
    if groups:
        out["on"] = groups
    out["meta"] = {"job": node.job}
    return out


def _transition(transition: Transition, peers: set[str], under: set[str], root: str) -> Data:
    """One transition. `peers` are the states that a bare name reaches from its source."""
    path = f"{PARENT}.{transition.target}" if transition.target in under else transition.target
    out: Data = {"target": transition.target if transition.target in peers else f"{root}.{path}"}
    if transition.guard:
        out["guard"] = {"type": transition.guard}
    if transition.actions:
        out["actions"] = [_action(action) for action in transition.actions]
    if transition.label:
        out["description"] = transition.label
    data = {"data": dict(transition.fields)} if transition.fields else {}
    out["meta"] = {"edge": transition.edge, "kind": transition.kind, **data}
    return out


def _action(action: Action) -> Data:
    params = {"params": dict(action.params)} if action.params else {}
    return {"type": action.name, **params}


def _description(label: str, about: str) -> Data:
    message = "\n\n".join(text for text in (label, about) if text)
    return {"description": message} if message else {}


def _delay(node: Node) -> str:
    """The delay in milliseconds if it is known, otherwise its name."""
    seconds = node.deadline.seconds if node.deadline is not None else None
    if seconds is None:
        return f"{node.name}_within"
    return str(min(max(round(seconds * 1000), 0), LONGEST))


def _tables(charts: Iterable[Statechart]) -> Data:
    """The definitions of the guards, rules and delays."""
    guards: Data = {}
    delays: Data = {}
    rules: list[Mapping[str, Any]] = []
    for chart in charts:
        guards |= {p.name: _predicate(p) for p in chart.predicates}
        rules += [_rule(rule, chart.predicates) for rule in chart.rules]
        for node in chart.nodes:
            if node.deadline is not None:
                name = f"{node.name}_within"
                delays[name] = {"text": node.deadline.text, "seconds": node.deadline.seconds}
    return {"format": 1, "rules": rules, "guards": guards, "delays": delays}


def _predicate(predicate: Predicate) -> Data:
    out: Data = {"text": predicate.text, "edge": predicate.edge}
    if predicate.before:
        out["before"] = list(predicate.before)
    if predicate.to:
        out["to"] = predicate.to
    return out


def _rule(rule: Mapping[str, Any], predicates: Iterable[Predicate]) -> Data:
    guard = next((p.name for p in predicates if p.edge == rule["id"]), None)
    return {"id": rule["id"], "guard": guard} | {
        name: rule[name] for name in ("text", "kind", "reason", "to", "at", "before") if rule[name]
    }
