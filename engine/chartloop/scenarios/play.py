"""Playing a scenario: a real run of its machine, and a report of all differences.

Belongs here: one run, from its start until it rests. Never: files, finding the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.actions import builtin
from chartloop.actions.declare import specs_of
from chartloop.adapters.model.scripted import Scripted
from chartloop.api import Machine, Own, Run, load
from chartloop.core.errors import RunError, ScriptError
from chartloop.run.ports import Model
from chartloop.scenarios.expectation import Expectation
from chartloop.scenarios.file import OutsideEvent, Scenario
from chartloop.scenarios.model_requests import Matching
from chartloop.scenarios.outside_events import play
from chartloop.scenarios.report import ScenarioReport
from chartloop.scenarios.scenario_check import check_scenario, fleet_facts
from chartloop.scenarios.scenario_coverage import count_run
from chartloop.scenarios.scripted_tools import ScriptedTool
from chartloop.testing.clock import ManualClock

LONGEST = 10_000
"""A run that takes more records than this is taken to be endless."""


@dataclass(frozen=True)
class _Stage:
    """A scenario with everything that its run needs."""

    scenario: Scenario
    expected: Expectation
    machine: Machine
    tools: tuple[ScriptedTool, ...]
    model: Scripted | None
    """None if another model takes the place of the scenario's replies."""


class Prepared(NamedTuple):
    """A machine loaded with the scripted tools of a scenario."""

    machine: Machine
    tools: tuple[ScriptedTool, ...]
    clock: ManualClock


def prepare(made: Scenario, source: str | Path, own: Own) -> Prepared:
    """Load the machine of a scenario, with its scripted tools in place of the real ones."""
    clock = ManualClock()
    tools = tuple(ScriptedTool(name, results, clock) for name, results in made.tools.items())
    given = specs_of(own)
    known = {**builtin().tools, **given.tools}
    scripted = {t.name: t.spec(known.get(t.name)) for t in tools}
    registry = replace(given, tools={**given.tools, **scripted})
    return Prepared(load(source, tools=[registry]), tools, clock)


def play_scenario(
    made: Scenario, source: str | Path, own: Own, *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ScenarioReport:  # fmt: skip
    """Load the machine and play the scenario; all problems are in the report."""
    return play_prepared(made, prepare(made, source, own), model=model, settings=settings)


def play_prepared(
    made: Scenario, prepared: Prepared, *, model: Model | str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> ScenarioReport:  # fmt: skip
    """Play a scenario on a loaded machine whose scripted tools and clock are at their start."""
    machine, tools, clock = prepared
    script = Scripted(made.replies, clock=clock) if model is None else None
    matching = None if script is None else Matching(script, made.requests)
    stage = _Stage(made, check_scenario(made, machine), machine, tools, script)
    start, chosen = made.start, {**made.start.get("settings", {}), **(settings or {})}
    try:
        run = machine.start(
            made.task, model=matching or model, settings=chosen, clock=clock, limits=made.limits,
            vars=made.vars, memory=start.get("memory"), messages=start.get("messages", ()),
            tasks=made.tasks, agent=start.get("agent"), session=start.get("session"),
            submitter=start.get("submitter", ""),
        )  # fmt: skip
    except RunError as error:
        return ScenarioReport(made.name, passed=False, problems=(str(error),))
    run.session.ports.fleet = fleet_facts(made.fleet)
    problems = [*_drive(stage, run)]
    count_run(run)
    if matching is None or not matching.missed:
        problems += _left_over(stage, run)
        problems += [str(d) for d in stage.expected.differences(run.result)]
    requests = tuple(matching.requests) if matching is not None else ()
    return ScenarioReport(made.name, not problems, tuple(problems), run.result, run, requests)


def _drive(stage: _Stage, run: Run) -> Iterator[str]:
    """Drive the run. Yields an error that ended it, and the events that never came."""
    made = stage.scenario
    try:
        for event in play(run, made.events, most=LONGEST):
            at = made.at("events", event.number)
            yield f"`{event}` never came{at}\n  {_explain_missed(run, event)}"
    except RunError as error:
        spent = [t.name for t in stage.tools if t.calls > len(t.results)]
        key = "replies" if isinstance(error, ScriptError) else "events"
        at = made.at("tools", *spent[:1]) if spent else made.at(key)
        yield f"step {run.facts.run.steps + 1} at `{run.state}`{at}\n  {error}"


def _explain_missed(run: Run, event: OutsideEvent) -> str:
    steps = run.facts.run.steps
    count = "1 step" if steps == 1 else f"{steps} steps"
    end = f"the run {'ended' if run.ended else 'rests'} at `{run.state}` after {count}"
    if event.kind == "resume":
        return f"{end}, and was not paused"
    if steps < event.after:
        return f"{end}; it was to come after {event.after}"
    return f"{end}, and did not wait then" if event.kind == "send" else end


def _left_over(stage: _Stage, run: Run) -> Iterator[str]:
    made = stage.scenario
    failed = sum(r.outcome.unanswered for r in run.records if r.outcome is not None)
    used = run.facts.usage.llm_calls + failed
    if stage.model is not None and (left := stage.model.left_over(used)):
        message = f"{left} of {len(made.replies)} replies were never asked for"
        yield f"{message}{made.at('replies', used)}"
    for tool in stage.tools:
        if (left := len(tool.results) - tool.calls) > 0:
            message = f"{left} of {len(tool.results)} results were never asked for"
            yield f"tool `{tool.name}`: {message}{made.at('tools', tool.name, tool.calls)}"
