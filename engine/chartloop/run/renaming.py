"""Records, under the names that states, edges and rules have now.

A record names states and the edges that were taken. In a file that was edited since, a state may
have another name and an edge another number: the record means the same one.

Belongs here: names, from one machine to another. Never: finding out which is which (`diff`), or
deciding whether a run may continue (`versions.migration.judge`).

Source: design "language", section 1 (`renamed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from chartloop.core.facts import EMPTY
from chartloop.core.reasons import StopSignals
from chartloop.core.records import Input, Record

START = "start"
"""Of a `start`: the state in which a child starts where that is not the machine's first."""


class Names(NamedTuple):
    """The new names of states, and of edges and rules by id; others kept their names."""

    states: Mapping[str, str] = EMPTY
    edges: Mapping[str, str] = EMPTY

    def state(self, name: str) -> str:
        """The name that a state has now."""
        return self.states.get(name, name)

    def edge(self, id: str) -> str:
        """The id that an edge or rule has now.

        An edge's starts with its state; that of a way out which the engine made ends with it.
        """
        if (known := self.edges.get(id)) is not None:
            return known
        state, dot, rest = id.partition(".")
        if state == "raised":
            rest = self.state(rest)
        return f"{self.state(state)}{dot}{rest}"


def as_now(record: Record, states: Mapping[str, str], edges: Mapping[str, str] = EMPTY) -> Record:
    """The record with the names of now: those of `Names`."""
    if not states and not edges:
        return record
    names = Names(states, edges)
    signals = record.signals
    if signals:
        signals = StopSignals(replace(s, source=names.edge(s.source)) for s in signals)
    return record.replace(
        state=names.state(record.state),
        next=names.state(record.next),
        taken=tuple(map(names.edge, record.taken)),
        signals=signals,
        input=_input(record.input, names),
    )


def _input(given: Input, names: Names) -> Input:
    begun = given.data.get(START) if given.kind == "start" else None
    if not isinstance(begun, str) or names.state(begun) == begun:
        return given
    return given.replace(data={**given.data, START: names.state(begun)})
