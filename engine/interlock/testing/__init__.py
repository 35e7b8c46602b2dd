"""Testing machines and runs: fakes that honour the ports, scenarios, a provider on loopback.

    from interlock.testing import scenario

    scenario("agent", "Say hello.", replies=["Hello."], expect={"reason": "completed"})

Everything that is public is imported from here, and loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.adapters.scripted import Scripted
    from interlock.run.journal import MemoryJournal
    from interlock.testing.clock import ManualClock
    from interlock.testing.covering import Covering, collecting
    from interlock.testing.crash import CrashAt, Crashed
    from interlock.testing.loopback import LoopbackServer
    from interlock.testing.own import own_from
    from interlock.testing.recording.recording import Recording, recording
    from interlock.testing.report import ScenarioFailed, ScenarioReport
    from interlock.testing.scenario_file import Scenario
    from interlock.testing.scenarios import (
        find_scenarios,
        load_scenario,
        run_scenario,
        scenario,
    )

_WHERE = {
    "Covering": "interlock.testing.covering",
    "CrashAt": "interlock.testing.crash",
    "Crashed": "interlock.testing.crash",
    "LoopbackServer": "interlock.testing.loopback",
    "ManualClock": "interlock.testing.clock",
    "MemoryJournal": "interlock.run.journal",
    "Recording": "interlock.testing.recording.recording",
    "Scenario": "interlock.testing.scenario_file",
    "ScenarioFailed": "interlock.testing.report",
    "ScenarioReport": "interlock.testing.report",
    "Scripted": "interlock.adapters.scripted",
    "collecting": "interlock.testing.covering",
    "find_scenarios": "interlock.testing.scenarios",
    "load_scenario": "interlock.testing.scenarios",
    "own_from": "interlock.testing.own",
    "recording": "interlock.testing.recording.recording",
    "run_scenario": "interlock.testing.scenarios",
    "scenario": "interlock.testing.scenarios",
}

__all__ = [
    "Covering",
    "CrashAt",
    "Crashed",
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
    "load_scenario",
    "own_from",
    "recording",
    "run_scenario",
    "scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `interlock.testing` has no attribute `{name}`")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
