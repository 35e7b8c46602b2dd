"""Many scenarios of the same machine: it is loaded once for each set of tools that they script.

Loading and checking a machine takes far longer than most scenarios. Whoever plays hundreds of one
machine in a row plays them here; that the file does not change meanwhile is for the caller to know.

Belongs here: which machines are kept. Never: what a scenario is, how it is played.
"""

from __future__ import annotations

from pathlib import Path

from chartloop.api import Machine, Own
from chartloop.scenarios.file import Scenario
from chartloop.scenarios.play import Prepared, play_prepared, prepare
from chartloop.scenarios.report import ScenarioReport
from chartloop.scenarios.runner import machine_of
from chartloop.testing.clock import ManualClock

MOST = 32
"""Loaded machines that are kept."""


class Rehearsals:
    """Plays scenarios with these tools, actions and guards of one's own."""

    def __init__(self, own: Own) -> None:
        self._own = own
        self._known: dict[tuple[Path, tuple[str, ...]], Prepared] = {}

    def know(self, source: Path, machine: Machine) -> None:
        """A machine that was loaded already, with these tools and nothing scripted."""
        self._known[source, ()] = Prepared(machine, (), ManualClock())

    def play(self, made: Scenario) -> ScenarioReport:
        """The same as `run_scenario`."""
        key = (machine_of(made), tuple(made.tools))
        prepared = self._known.get(key)
        if prepared is None:
            prepared = prepare(made, key[0], self._own)
            if len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = prepared
        prepared.clock.set(ManualClock().now())
        for tool in prepared.tools:
            tool.results, tool.asked = made.tools[tool.name], 0
        return play_prepared(made, prepared)
