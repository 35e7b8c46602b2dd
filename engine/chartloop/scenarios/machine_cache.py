"""A cache of loaded machines for many scenarios of the same machine.

Loading and checking a machine takes far longer than most scenarios, so it is loaded once for each
set of scripted tools. The caller makes sure that the file does not change meanwhile.

Belongs here: which machines are kept. Never: how a scenario is played.
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
"""Maximum number of cached machines."""


class CachingPlayer:
    """A player of scenarios with the caller's tools, actions and guards, which caches machines."""

    def __init__(self, own: Own) -> None:
        self._own = own
        self._known: dict[tuple[Path, tuple[str, ...]], Prepared] = {}

    def know(self, source: Path, machine: Machine) -> None:
        """Cache a machine that was loaded with the caller's tools and no scripted ones."""
        self._known[source, ()] = Prepared(machine, (), ManualClock())

    def play(self, made: Scenario) -> ScenarioReport:
        """Play a scenario, as `run_scenario` does."""
        key = (machine_of(made), tuple(made.tools))
        prepared = self._known.get(key)
        if prepared is None:
            prepared = prepare(made, key[0], self._own)
            if len(self._known) >= MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = prepared
        prepared.clock.set(ManualClock().now())
        for tool in prepared.tools:
            tool.results, tool.calls = made.tools[tool.name], 0
        return play_prepared(made, prepared)
