"""The keys of the scenario that a recorded run makes.

Records are gone through in order, those of child runs where their parent waited for them, so that
replies are in the order in which they were asked for.

Belongs here: from records to plain data. Never: playing it, YAML, files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from chartloop.api.caller_values import inline_tasks
from chartloop.core.errors import RunError
from chartloop.core.facts import Task
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.units import write_duration
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.run.journal import CHILD_MARK
from chartloop.run.recorded import RecordedRun
from chartloop.run.result import Result
from chartloop.scenarios.recorder.replies import NOTHING, said_in

STARTS = ("agent", "session", "limits", "vars", "memory", "messages")
"""What a run was started with, under the names that a scenario has for it too."""


class Moment(NamedTuple):
    """A record, where its run was before it, and when the record before it was made."""

    chart: Chart
    record: Record
    before: Position
    previous: float
    told: bool = False
    """Child machines were asked in its place: their records hold what was said."""


@dataclass
class Script:
    """What the world said to a run, and what came from outside."""

    replies: list[Any] = field(default_factory=list[Any])
    tools: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lacks: list[str] = field(default_factory=list[str])
    """What the records do not hold: each is said, with its record."""

    def take_in(self, moment: Moment, steps: int | None) -> None:
        """What one record adds. `steps`: those of the run itself, where this is a child's."""
        record, before = moment.record, moment.before
        said = NOTHING if moment.told else said_in(record, before, moment.chart.spec)
        for reply in said.replies:
            self.replies.append(_without_ids(reply, len(self.replies)))
        for tool, result in said.results:
            self.tools.setdefault(tool, []).append(result)
        if said.unknown:
            where = f"record {record.seq} at `{record.state}`"
            self.lacks.append(f"{where}: {said.unknown}")
        event = event_of(record, before, moment.previous)
        if event is not None and (steps is None or record.kind == "answer"):
            self.events.append(event if steps is None else {**event, "after": steps})


def _without_ids(reply: Any, number: int) -> Any:
    """The reply without the ids of calls that a script gives them anyway."""
    calls = cast("dict[str, Any]", reply).get("tool_calls", ()) if isinstance(reply, dict) else ()
    for n, call in enumerate(calls):
        if call["id"] == f"call_{number}_{n}":
            del call["id"]
    return cast("Any", reply)


def script_of(chart: Chart, run: RecordedRun, children: Sequence[RecordedRun] = ()) -> Script:
    """What the world said to a run and to the runs of its child machines."""
    script = Script()
    below = _Children(chart, children)
    for moment in _moments(chart, run):
        steps = moment.before.facts.run.steps
        inner = below.during(run.run_id, moment)
        for one in inner:
            script.take_in(one, steps)
        script.take_in(moment._replace(told=bool(inner)), None)
    return script


def _moments(chart: Chart, run: RecordedRun) -> Iterator[Moment]:
    position, previous = chart.position(run.run_id), run.records[0].input.at
    for record in run.records:
        yield Moment(chart, record, position, previous)
        try:
            position, _ = evolve(chart, position, record.input)
        except (RunError, KeyError) as error:
            text = f"the machine cannot decide record {record.seq} of run `{run.run_id}`: {error}"
            raise RunError(text, hint="give the machine that the run was started with") from error
        previous = record.input.at


@dataclass
class _Children:
    """The runs of child machines, each gone through when its parent's step is met first."""

    chart: Chart
    runs: Sequence[RecordedRun]
    done: set[str] = field(default_factory=set[str])

    def during(self, parent: str, moment: Moment) -> list[Moment]:
        """The records of the children of one step, by the time at which each was started."""
        if moment.record.kind == "start":  # nothing has been done yet, in whatever state that is
            return []
        step = moment.before.facts.run.steps
        prefix = f"{parent}{CHILD_MARK}{moment.record.state}{CHILD_MARK}{step}"
        found = [run for run in self.runs if self._is_of(run.run_id, prefix)]
        self.done |= {run.run_id for run in found}
        inner = [m for run in found for m in self._whole(moment.chart, run)]
        return sorted(inner, key=lambda m: m.record.input.started or m.record.input.at)

    def _is_of(self, run_id: str, prefix: str) -> bool:
        if not run_id.startswith(prefix) or run_id in self.done:
            return False
        rest = run_id.removeprefix(prefix)
        return not rest or (rest[0] == CHILD_MARK and rest.count(CHILD_MARK) == 1)

    def _whole(self, chart: Chart, run: RecordedRun) -> Iterator[Moment]:
        for moment in _moments(chart.child(self._name(chart, run)), run):
            inner = self.during(run.run_id, moment)
            yield from inner
            yield moment._replace(told=bool(inner))

    @staticmethod
    def _name(chart: Chart, run: RecordedRun) -> str:
        """The name that a machine has for the child whose run this is."""
        machines = chart.spec.machines
        fitting = [name for name, spec in machines.items() if spec.name == run.row.machine]
        if not fitting:
            message = f"run `{run.run_id}` is of `{run.row.machine}`, which `{chart.name}` has not"
            raise RunError(message, hint="give the machine that the run was started with")
        return fitting[0]


def keys_of(chart: Chart, run: RecordedRun, machine: str, script: Script) -> dict[str, Any]:
    """The scenario as the plain data of its file, but for what it expects.

    `machine` is what the file calls the machine.
    """
    begun, spec = run.records[0].input.data, chart.spec
    out: dict[str, Any] = {"machine": machine}
    if begun.get("task"):
        out["task"] = begun["task"]
    for name in STARTS:
        if (value := begun.get(name)) and not (name == "agent" and value == spec.agent):
            out[name] = plain(value)
    tasks = list(begun.get("tasks", ()))
    if tasks != [task.to_dict() for task in inline_tasks(spec)]:
        out["tasks"] = [task_of(task) for task in tasks]
    window = begun.get("context_window")
    if window and window != spec.model.get("context_window"):
        out["settings"] = {"context_window": window}
    out |= {n: v for n in ("replies", "tools", "events") if (v := getattr(script, n))}
    return out


def expected_of(result: Result) -> Mapping[str, Any]:
    """What a scenario expects that came to this result."""
    out: dict[str, Any] = {
        "reason": None if result.reason is None else str(result.reason),
        "kind": result.kind,
        "path": list(result.path),
    }
    if result.output is not None:
        out["output"] = plain(result.output)
    return out


SOON = 1.0
"""Seconds. What came sooner after the record before it comes at once in the scenario."""


def event_of(record: Record, before: Position, previous: float) -> dict[str, Any] | None:
    """The event of a scenario that makes this record; None where nothing came from outside.

    `before` is where the run was then, `previous` when the record before it was made.
    """
    what = _what(record, before)
    if what is None:
        return None
    waited = record.input.at - previous
    late = {"delay": write_duration(round(waited))} if waited >= SOON else {}
    return {"after": before.facts.run.steps, **what, **late}


def _what(record: Record, before: Position) -> dict[str, Any] | None:
    given = record.input
    match record.kind:
        case "answer" if before.form is not None:
            return None  # a scenario scripts the tool, and no server asks
        case "answer":
            data = {"data": plain(given.data)} if given.data else {}
            return {"at": before.state, "send": given.event, **data}
        case "pause":
            return {"pause": True}
        case "resume" if before.wake_at is None and not before.blocked_on:
            return {"resume": True}
        case "stop":
            return {"cancel": given.event or "user_requested"}
        case "enqueue":
            return {"enqueue": [task_of(task) for task in given.data["tasks"]]}
        case "edit":
            return {"set": plain(given.data)}
        case _:
            return None


def task_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """A task as it was given: what came of it since is not its giver's to say."""
    given = Task(**data).replace(attempts=0, cycle=0)
    unset = Task.defaults()
    return {n: plain(v) for n, v in given.to_mapping().items() if v != unset.get(n, _MISSING)}


_MISSING = object()
