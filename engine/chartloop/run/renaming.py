"""Records under the current names of states, edges and rules.

A record names states and the edges taken. If the file was edited since, a state may have another
name and an edge another number.

Belongs here: names, from one machine to another. Never: finding the correspondence
(`versions.diff`), or whether a run may continue (`versions.migration.judge`).

Source: docs/language.md, "The file" (`renamed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from chartloop.core.facts import EMPTY
from chartloop.core.reasons import StopSignals
from chartloop.core.records import Input, Record

START = "start"
"""Key in the data of a `start`: the state in which a child starts, if not the machine's first."""


class Names(NamedTuple):
    """The new names of states, and ids of edges and rules. Missing ones are unchanged."""

    states: Mapping[str, str] = EMPTY
    edges: Mapping[str, str] = EMPTY

    def state(self, name: str) -> str:
        """The current name of a state."""
        return self.states.get(name, name)

    def edge(self, id: str) -> str:
        """The current id of an edge or rule.

        An edge's id starts with its state; the id of an engine-made edge `raised` ends with it.
        """
        if (renamed := self.edges.get(id)) is not None:
            return renamed
        state, dot, rest = id.partition(".")
        if state == "raised":
            rest = self.state(rest)
        return f"{self.state(state)}{dot}{rest}"


def as_now(record: Record, states: Mapping[str, str], edges: Mapping[str, str] = EMPTY) -> Record:
    """The record with its states and edges renamed; see `Names`."""
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
