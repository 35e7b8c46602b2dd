"""What the tests of exports share: the live machine as a reference, and the libraries as oracles.

The reference walks the transitions of the live machine with guards that a test forces; an oracle
is a library that has read what was exported. Both say which ways each state has, in order, and
which states are gone through.
"""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.api import Machine
from chartloop.interchange.xstate import xstate_config
from chartloop.machine.build import Chart
from chartloop.machine.graph import graph
from chartloop.machine.regions import GuardedTransition, Returning

NODE = Path(__file__).with_name("node")

Ways = dict[str, dict[str, list[tuple[str, str]]]]
"""State, event (empty: at once), then target and name of the guard, in order."""


class Happening(NamedTuple):
    """An event, and the guards that hold at it."""

    event: str
    holding: frozenset[str] = frozenset()


class Live:
    """A live machine whose guards hold as a test says."""

    def __init__(self, machine: Machine, *, all: bool = False) -> None:
        chart = self.chart = machine.chart
        self.all = all
        table = xstate_config(machine, all=all)["meta"]["chartloop"]["guards"]
        self.names = {(g["edge"], g.get("to", ""), g["text"]): name for name, g in table.items()}
        self.ruled = _ruled(chart)

    def label(self, state: str) -> str:
        """As the picture shows it."""
        return graph(self.chart).nodes[state]["label"]

    def guard(self, t: GuardedTransition) -> str:
        if not t.guards:
            return ""
        to = (t.dest or "") if any(isinstance(g, Returning) for g in t.guards) else ""
        return self.names[t.origin, to, " and ".join(g.__name__ for g in t.guards)]

    def at(self, state: str, event: str) -> list[GuardedTransition]:
        """What a state tries at an event, in order."""
        found = self.chart.event(event)
        here = [t for t in (found.at(state) if found else ()) if t.dest is not None]
        if event != "check":
            return here
        kinds = {"rule", "raised"} if self.all else {"rule"}
        return [t for t in here if t.kind in kinds] if state in self.ruled else []

    def early(self, state: str) -> list[GuardedTransition]:
        """The rules that a state which nothing rests in tries before its own ways."""
        return [t for t in self.at(state, "check") if t.rule is not None and t.rule.before]

    def ways(self) -> Ways:
        """Every way of every state that is exported."""
        out = {state: self._ways(state) for state in self.chart.step.nodes}
        led_to = {to for ways in out.values() for found in ways.values() for to, _ in found}
        shown = led_to | set(self.chart.step.nodes if self.all else self.chart.spec.states)
        return {state: ways for state, ways in out.items() if state in shown}

    def _ways(self, state: str) -> dict[str, list[tuple[str, str]]]:
        if state in self.chart.resting:
            tried = {event: self.at(state, event) for event in self.chart.step.triggers}
        else:
            tried = {"": [*self.early(state), *self.at(state, "advance")]}
        return {
            event: [(t.dest or "", self.guard(t)) for t in here]
            for event, here in tried.items()
            if here
        }

    def path(self, happenings: Sequence[Happening]) -> list[str]:
        """Where the machine rests after the start (the first happening) and each that follows.

        Up to where none of the guards of a decision holds: in a run one of its cases always does.
        """
        state = self._on(self.chart.spec.start, happenings[0].holding)
        out = [state]
        for event, holding in happenings[1:]:
            if state not in self.chart.resting:
                break
            taken = self._first(self.at(state, event), holding)
            if taken is not None:
                state = self._on(taken, holding)
            out.append(state)
        return out

    def _first(self, ways: Sequence[GuardedTransition], holding: Collection[str]) -> str | None:
        return next((t.dest for t in ways if not t.guards or self.guard(t) in holding), None)

    def _on(self, state: str, holding: Collection[str]) -> str:
        while state not in self.chart.resting:
            tried = self._first([*self.early(state), *self.at(state, "advance")], holding)
            if tried is None:
                return state
            state = tried
        return state


def _ruled(chart: Chart) -> set[str]:
    """Where a run can be before anything has stopped it, or never is at all."""
    pending = [(chart.spec.start, False)]
    seen: set[tuple[str, bool]] = set()
    while pending:
        state, stopped = pending.pop()
        entry = chart.entry.get(state)
        stopped = stopped or bool(entry is not None and entry.stop)
        if (state, stopped) in seen:
            continue
        seen.add((state, stopped))
        for t in chart.step.transitions():
            if t.source != state or t.dest is None or (stopped and not t.is_edge):
                continue
            stops = t.kind == "raised" or (t.rule is not None and t.rule.kind == "stop")
            pending.append((t.dest, stopped or stops or bool(t.stop)))
    live = {n for n, s in chart.spec.states.items() if s.job != "end"}
    return {n for n in live if (n, False) in seen or (n, True) not in seen}


class Oracle:
    """A library behind a script of `tests/node`: a line of JSON in, a line of JSON out."""

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(NODE / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question: Mapping[str, Any], happenings: Sequence[Happening]) -> Any:
        """What the library makes of it. An error of the library's fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        events = [{"type": event, "guards": sorted(holding)} for event, holding in happenings]
        print(json.dumps({**question, "events": events}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        said = json.loads(line) if line else {"error": "the script has ended"}
        assert "error" not in said, said["error"]
        return said

    def close(self) -> None:
        self._process.communicate()


def told(said: Any) -> Ways:
    """The ways that an oracle tells of, without what only the export adds."""
    return {
        state: {event: [(way[0], way[1]) for way in ways] for event, ways in found["ways"].items()}
        for state, found in said["states"].items()
        if state != "before-start"
    }


def resting(ways: Ways, chart: Chart) -> Ways:
    """Without the rules of states that nothing rests in: at a parent they are there for nothing."""
    return {
        state: found
        if state in chart.resting
        else {event: ways for event, ways in found.items() if event != "check"}
        for state, found in ways.items()
    }


class Statemachine:
    """python-statemachine, which reads SCXML, as another oracle."""

    def __init__(self, document: str) -> None:
        self._document = document

    def _load(self) -> Any:
        """A class with a single machine: its data model is made for the first one only."""
        loader: Any = importlib.import_module("statemachine.io.loader")  # it is an extra
        return loader.load(self._document, format="scxml")

    def ways(self) -> Ways:
        """The ways of every state that has none in it, without what only the export adds."""
        out: Ways = {}
        pending: list[tuple[Any, dict[str, list[tuple[str, str]]]]]
        pending = [(state, {}) for state in self._load().states]
        while pending:
            state, above = pending.pop()
            ways = above | _listed(state.transitions)
            pending += [(inner, ways) for inner in state.states]
            if not state.states and state.id != "before-start":
                out[state.id] = ways
        return out

    def path(self, happenings: Sequence[Happening]) -> list[str]:
        """Where it is at first, and after each event."""
        return [state for (state,) in self.paths(happenings)]

    def paths(self, happenings: Sequence[Happening]) -> list[list[str]]:
        """The same of a document with several regions."""
        machine = self._load()()
        out = [_leaves(machine)]
        for event, holding in happenings:
            machine.send(event, **dict.fromkeys(holding, True))
            out.append(_leaves(machine))
        return out


def _listed(transitions: Any) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for one in transitions:
        if not one.initial:
            guard = "".join(str(cond) for cond in one.cond).rpartition(".")[2]
            found.setdefault(str(one.event or ""), []).append((one.target.id, guard))
    return found


def _leaves(machine: Any) -> list[str]:
    return [state.id for state in machine.configuration if not state.states]
