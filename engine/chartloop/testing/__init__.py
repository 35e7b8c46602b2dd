"""Testing machines and runs: fakes that honour the ports, scenarios, a provider on loopback.

    from chartloop.testing import scenario

    scenario("agent", "Say hello.", replies=["Hello."], expect={"reason": "completed"})

Everything that is public is imported from here, and loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chartloop.adapters.scripted import Scripted
    from chartloop.run.journal import MemoryJournal
    from chartloop.testing.clock import ManualClock
    from chartloop.testing.covering import Covering, collecting
    from chartloop.testing.crash import CrashAt, Crashed
    from chartloop.testing.generating.generate import generate
    from chartloop.testing.generating.result import Generated
    from chartloop.testing.loopback import LoopbackServer
    from chartloop.testing.own import own_from
    from chartloop.testing.recording.recording import Recording, recording
    from chartloop.testing.report import ScenarioFailed, ScenarioReport
    from chartloop.testing.scenario_file import Scenario
    from chartloop.testing.scenarios import (
        find_scenarios,
        load_scenario,
        run_scenario,
        scenario,
    )

_WHERE = {
    "Covering": "chartloop.testing.covering",
    "CrashAt": "chartloop.testing.crash",
    "Crashed": "chartloop.testing.crash",
    "Generated": "chartloop.testing.generating.result",
    "LoopbackServer": "chartloop.testing.loopback",
    "ManualClock": "chartloop.testing.clock",
    "MemoryJournal": "chartloop.run.journal",
    "Recording": "chartloop.testing.recording.recording",
    "Scenario": "chartloop.testing.scenario_file",
    "ScenarioFailed": "chartloop.testing.report",
    "ScenarioReport": "chartloop.testing.report",
    "Scripted": "chartloop.adapters.scripted",
    "collecting": "chartloop.testing.covering",
    "find_scenarios": "chartloop.testing.scenarios",
    "generate": "chartloop.testing.generating.generate",
    "load_scenario": "chartloop.testing.scenarios",
    "own_from": "chartloop.testing.own",
    "recording": "chartloop.testing.recording.recording",
    "run_scenario": "chartloop.testing.scenarios",
    "scenario": "chartloop.testing.scenarios",
}

__all__ = [
    "Covering",
    "CrashAt",
    "Crashed",
    "Generated",
    "LoopbackServer",
    "ManualClock",
    "MemoryJournal",
    "Recording",
    "Scenario",
    "ScenarioFailed",
    "ScenarioReport",
    "Scripted",
    "collecting",
    "find_scenarios",
    "generate",
    "load_scenario",
    "own_from",
    "recording",
    "run_scenario",
    "scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `chartloop.testing` has no attribute `{name}`")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
