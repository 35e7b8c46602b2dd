"""The recorded calls that a change of `approve` would have let through, or held back.

Each call that a model made is decided on by both files, with the function that a run uses, at the
facts of that moment. Limits are those of the files. It runs nothing and changes no journal.

Belongs here: from recorded runs to sentences. Never: what a change does to calls of all kinds
(`analysis.versions.diff.consent`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

from chartloop.actions.approval import is_held
from chartloop.analysis.versions.diff.consent import Consent, Kind, asks_of, fixed
from chartloop.analysis.versions.diff.diff import Diff
from chartloop.api.continuing import recorded_chart
from chartloop.core.approvals import keyed
from chartloop.core.conversation import arguments_of, open_calls
from chartloop.core.errors import ChartloopError
from chartloop.core.facts import Facts, ToolCall
from chartloop.core.units import say_count
from chartloop.core.visible import cut, visible_json
from chartloop.language.approval import ACTION
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.run.recorded import RecordedRun, Unread
from chartloop.run.refold import refold
from chartloop.studies.recorded_runs import Runs, recorded_runs
from chartloop.studies.whatif.verdict import BROKEN

SHOWN = 3
"""The most calls that a sentence shows."""
_LONGEST = 80
"""The most characters of arguments that a sentence shows."""


def with_recorded_calls(diff: Diff, runs: Runs) -> Diff:
    """Return the comparison with what it would have meant for recorded runs and their children."""
    gates = [dict(_gates(side.spec)) for side in (diff.before, diff.after)]
    chart_of = cache(partial(recorded_chart, chart=diff.before.chart))
    called = Counter[str]()
    found: dict[tuple[str, Kind], list[tuple[str, str]]] = {}
    for run in recorded_runs(runs, diff.before.name, children=True):
        if isinstance(run, Unread):
            continue
        for call, facts in _calls(chart_of(run.machine) or diff.before.chart, run):
            both = [gate.get((run.row.machine, call.name)) for gate in gates]
            asked, asks = (gate is None or gate(call, facts) for gate in both)
            called[call.name] += any(both)
            if asked is not asks:
                shown = cut(visible_json(arguments_of(call)), _LONGEST)
                kind: Kind = "loosened" if asked else "tightened"
                found.setdefault((call.name, kind), []).append((run.run_id, shown))
    sentences: list[Consent] = []
    for (tool, kind), calls in found.items():
        listed = "; ".join(f"run {run}: {arguments}" for run, arguments in calls[:SHOWN])
        more = f"; and {len(calls) - SHOWN} more" if len(calls) > SHOWN else ""
        verb = "asked and no longer would" if kind == "loosened" else "did not ask and would now"
        says = f"{len(calls)} of {say_count(called[tool], 'recorded call')} {verb} ({listed}{more})"
        sentences.append(Consent(kind, tool, says, recorded=tuple(calls)))
    return replace(diff, recorded=tuple(sentences))


def _gates(
    spec: MachineSpec,
) -> Iterator[tuple[tuple[str, str], Callable[[ToolCall, Facts], bool]]]:
    """For each machine and tool that it executes: whether a call waits for an answer."""
    for part in spec.family():
        for name, asks in asks_of(part).items():
            tool = part.registry.tools.get(name)
            if tool is not None and "properties" not in tool.parameters:
                tool = replace(tool, parse=json.loads)  # not known here: arguments as written
            when, guards = fixed(asks, part), part.registry.guards
            yield (part.name, name), partial(is_held, tool, when=when, guards=guards)


def _calls(chart: Chart, run: RecordedRun) -> Iterator[tuple[ToolCall, Facts]]:
    """The calls of the model that a run came to execute or to ask about, each once."""
    seen = set[tuple[int, str]]()
    asks = chart.spec.registry.actions[ACTION]
    try:
        for step in refold(chart, run.records, chart.position(run.run_id)):
            state, before = chart.spec.states.get(step.record.state), step.before
            if state is None or step.record.kind != "step":
                continue
            if state.action is not asks and state.calls not in ("all", "first"):
                continue
            replies = sum(message["role"] == "assistant" for message in before.messages)
            for key, call in keyed(open_calls(before.messages, chart.spec.wire_names)):
                if (replies, key) not in seen:
                    seen.add((replies, key))
                    yield call, before.facts
    except (*BROKEN, ChartloopError):  # what the records say up to here counts
        return
