"""Scenarios: whole runs of a machine written in YAML, played, recorded and generated.

    from chartloop.scenarios import scenario

    scenario("agent", "Say hello.", replies=["Hello."], expect={"reason": "completed"})

All public names are here; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chartloop.scenarios.file import Scenario
    from chartloop.scenarios.generated import Generated, generate
    from chartloop.scenarios.recorder.record import Recording, recording
    from chartloop.scenarios.report import Played, ScenarioFailed, ScenarioReport, played_lines
    from chartloop.scenarios.runner import find_scenarios, load_scenario, run_scenario, scenario
    from chartloop.scenarios.scenario_coverage import Covering, collecting

_WHERE = {
    "Covering": "scenario_coverage",
    "Generated": "generated",
    "Played": "report",
    "Recording": "recorder.record",
    "Scenario": "file",
    "ScenarioFailed": "report",
    "ScenarioReport": "report",
    "collecting": "scenario_coverage",
    "find_scenarios": "runner",
    "generate": "generated",
    "load_scenario": "runner",
    "played_lines": "report",
    "recording": "recorder.record",
    "run_scenario": "runner",
    "scenario": "runner",
}

__all__ = [
    "Covering",
    "Generated",
    "Played",
    "Recording",
    "Scenario",
    "ScenarioFailed",
    "ScenarioReport",
    "collecting",
    "find_scenarios",
    "generate",
    "load_scenario",
    "played_lines",
    "recording",
    "run_scenario",
    "scenario",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module `chartloop.scenarios` has no attribute `{name}`")
    value = getattr(import_module(f"chartloop.scenarios.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
