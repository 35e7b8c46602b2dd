"""The keys of the scenario of a recorded run.

Records are read in order, those of child runs at the step of their parent, so that replies come in
the order of the requests.

Belongs here: from records to plain data. Never: playing it, YAML, files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from chartloop.api.caller_values import inline_tasks
from chartloop.core.errors import RunError
from chartloop.core.facts import FleetFacts, Task
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.units import write_duration
from chartloop.machine.build import Chart
from chartloop.run.journal import CHILD_MARK
from chartloop.run.recorded import RecordedRun
from chartloop.run.refold import refold
from chartloop.run.renaming import Names
from chartloop.run.result import Result
from chartloop.scenarios.recorder.replies import NOTHING, answers_in

STARTS = ("agent", "session", "submitter", "limits", "vars", "memory", "messages")
"""The data of a `start` record that a scenario has under the same names."""


class Moment(NamedTuple):
    """A record, the position before it, and the time of the record before it."""

    chart: Chart
    record: Record
    before: Position
    previous: float
    by_children: bool = False
    """Whether child machines did the action, whose own records hold the answers."""


@dataclass
class Script:
    """The answers that a run got, and the events from outside."""

    replies: list[Any] = field(default_factory=list[Any])
    tools: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lacks: list[str] = field(default_factory=list[str])
    """Descriptions of answers that the records do not hold."""

    def add(self, moment: Moment, steps: int | None) -> None:
        """Add one record. `steps`: for a record of a child, the steps of the run itself."""
        record, before = moment.record, moment.before
        spec = moment.chart.spec
        state = spec.states.get(record.state)
        among_calls = state is not None and state.traits.runs == "calls"  # others may be functions
        apart = moment.by_children and not among_calls
        answers = NOTHING if apart else answers_in(record, before, spec)
        for reply in answers.replies:
            if isinstance(reply, dict):  # a replay assigns the ids of calls by itself
                calls = cast("dict[str, Any]", reply).get("tool_calls", ())
                for n, call in enumerate(calls):
                    if call["id"] == f"call_{len(self.replies)}_{n}":
                        del call["id"]
            self.replies.append(reply)
        for tool, result in answers.results:
            self.tools.setdefault(tool, []).append(result)
        if answers.unknown:
            where = f"record {record.seq} at `{record.state}`"
            self.lacks.append(f"{where}: {answers.unknown}")
        event = event_of(record, before, moment.previous)
        if event is not None and (steps is None or record.kind == "answer"):
            self.events.append(event if steps is None else {**event, "after": steps})


def script_of(chart: Chart, run: RecordedRun, children: Sequence[RecordedRun] = ()) -> Script:
    """The answers and events of a run and the runs of its child machines."""
    script = Script()
    below = _Children(chart, children)
    for moment in _moments(chart, run):
        steps = moment.before.facts.run.steps
        inner = below.during(run.run_id, moment)
        for one in inner:
            script.add(one, steps)
        script.add(moment._replace(by_children=bool(inner)), None)
    return script


def _moments(chart: Chart, run: RecordedRun) -> Iterator[Moment]:
    position, previous = chart.position(run.run_id), run.records[0].input.at
    catch = (RunError, KeyError)
    for step in refold(chart, run.records, position, names=Names(), catch=catch):
        yield Moment(chart, step.record, step.before, previous)
        if step.error is not None:
            seq, error = step.record.seq, step.error
            text = f"the machine cannot decide record {seq} of run `{run.run_id}`: {error}"
            raise RunError(text, hint="give the machine that the run was started with") from error
        previous = step.record.input.at


@dataclass
class _Children:
    """The runs of child machines, each read once, at the step of its parent."""

    chart: Chart
    runs: Sequence[RecordedRun]
    done: set[str] = field(default_factory=set[str])

    def during(self, parent: str, moment: Moment) -> list[Moment]:
        """The records of one step's children, in the order of their starting times."""
        if moment.record.kind == "start":  # a start has no action yet
            return []
        step = moment.before.facts.run.steps
        prefix = f"{parent}{CHILD_MARK}{moment.record.state}{CHILD_MARK}{step}"
        children = [run for run in self.runs if self._is_of(run.run_id, prefix)]
        self.done |= {run.run_id for run in children}
        inner = [m for run in children for m in self._whole(moment.chart, run)]
        return sorted(inner, key=lambda m: m.record.input.started or m.record.input.at)

    def _is_of(self, run_id: str, prefix: str) -> bool:
        if not run_id.startswith(prefix) or run_id in self.done:
            return False
        rest = run_id.removeprefix(prefix)
        return not rest or (rest[0] == CHILD_MARK and rest.count(CHILD_MARK) == 1)

    def _whole(self, chart: Chart, run: RecordedRun) -> Iterator[Moment]:
        # The name that the parent's machine has for the child of this run.
        machines = chart.spec.machines
        fitting = [name for name, spec in machines.items() if spec.name == run.row.machine]
        if not fitting:
            message = f"run `{run.run_id}` is of `{run.row.machine}`, which `{chart.name}` has not"
            raise RunError(message, hint="give the machine that the run was started with")
        for moment in _moments(chart.child(fitting[0]), run):
            inner = self.during(run.run_id, moment)
            yield from inner
            yield moment._replace(by_children=bool(inner))


def keys_of(chart: Chart, run: RecordedRun, machine: str, script: Script) -> dict[str, Any]:
    """The keys of the scenario file, without `expect`.

    `machine` is the path or name of the machine in the file.
    """
    start, spec = run.records[0].input.data, chart.spec
    out: dict[str, Any] = {"machine": machine}
    if start.get("task"):
        out["task"] = start["task"]
    for name in STARTS:
        if (value := start.get(name)) and not (name == "agent" and value == spec.agent):
            out[name] = plain(value)
    tasks = list(start.get("tasks", ()))
    if tasks != [task.to_dict() for task in inline_tasks(spec)]:
        out["tasks"] = [task_of(task) for task in tasks]
    fleet = [record.input.fleet or FleetFacts() for record in run.records]
    for name in FleetFacts.defaults():
        values = [getattr(facts, name) for facts in fleet]
        while len(values) > 1 and values[-1] == values[-2]:
            values.pop()
        if values != [None]:
            out.setdefault("fleet", {})[name] = values if len(values) > 1 else values[0]
    window = start.get("context_window")
    if window and window != spec.model.get("context_window"):
        out["settings"] = {"context_window": window}
    out |= {n: v for n in ("replies", "tools", "events") if (v := getattr(script, n))}
    return out


def expected_of(result: Result) -> Mapping[str, Any]:
    """The `expect` of a scenario with this result."""
    out: dict[str, Any] = {
        "reason": None if result.reason is None else str(result.reason),
        "kind": result.kind,
        "path": list(result.path),
    }
    if result.output is not None:
        out["output"] = plain(result.output)
    return out


SOON = 1.0
"""Seconds after the previous record below which an event gets no delay."""


def event_of(record: Record, before: Position, previous: float) -> dict[str, Any] | None:
    """The event of a scenario that leads to this record; None if nothing came from outside.

    `before` is the position before the record, `previous` the time of the record before it.
    """
    event = _event_without_time(record, before)
    if event is None:
        return None
    waited = record.input.at - previous
    delay = {"delay": write_duration(round(waited))} if waited >= SOON else {}
    return {"after": before.facts.run.steps, **event, **delay}


def _event_without_time(record: Record, before: Position) -> dict[str, Any] | None:
    input = record.input
    match record.kind:
        case "answer" if before.form is not None:
            return None  # a scripted tool asks nothing, unlike its server
        case "answer":
            data = {"data": plain(input.data)} if input.data else {}
            return {"at": before.state, "send": input.event, **data}
        case "pause":
            return {"pause": True}
        case "resume" if before.wake_at is None and not before.blocked_on:
            return {"resume": True}
        case "stop":
            return {"cancel": input.event or "user_requested"}
        case "enqueue":
            return {"enqueue": [task_of(task) for task in input.data["tasks"]]}
        case "edit":
            return {"set": plain(input.data)}
        case _:
            return None


def task_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """A task as its caller gave it, without its attempts and defaults."""
    task = Task(**data).replace(attempts=0, cycle=0)
    unset = Task.defaults()
    return {n: plain(v) for n, v in task.to_mapping().items() if v != unset.get(n, _MISSING)}


_MISSING = object()
