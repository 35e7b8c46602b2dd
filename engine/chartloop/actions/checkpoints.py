"""Progress and checkpoints of a task queue: `measure`, `checkpoint`, `restore`.

Source: 003 "Diminishing Returns", "Context Overflow Recovery".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chartloop.actions.declare import action
from chartloop.actions.tasks import KEPT, TaskReports, reports_of
from chartloop.core.errors import Category
from chartloop.core.facts import Task
from chartloop.core.outcome import Outcome
from chartloop.core.plain import plain
from chartloop.core.traits import BY_FIELDS, SURE, Count
from chartloop.core.types import BOOL, COUNT, Type, struct
from chartloop.run.context import Context

CHECKPOINT = "checkpoint"
"""The key of `Position.kept` for the data that `checkpoint` saves and `restore` reads."""


def magnitude(current: Mapping[str, float], previous: Mapping[str, float]) -> float | None:
    """The average relative improvement of the metrics; 0.1 is ten percent.

    Metrics that were 0 before, or that only one side has, are ignored. None if none is left.
    Source: 003 `calculate_improvement_magnitude`.
    """
    both = [n for n in current if previous.get(n)]
    if not both:
        return None
    return sum((current[n] - previous[n]) / previous[n] for n in both) / len(both)


_MEASURED = {
    "cycles": COUNT, "improving": BOOL, "improvements": COUNT,
    "magnitude": Type("fraction", nullable=True),
}  # fmt: skip


@action(
    work=False, effect="pure", traits=replace(SURE, counts=(Count("progress.cycles", 0, 1),)),
    result=struct(_MEASURED, keyed=True), changes=[f"progress.{name}" for name in _MEASURED],
    reads="queue",
    details="A task reports by a result that is a mapping: `metrics`, numbers by name, and "
    "`tasks` and `improvements`, to be added to the queue. `progress.magnitude` is the mean "
    "relative change of the metrics in the improvement cycle that ended last.",
    example="""\
judge:
  do: measure
  next:
    - {when: progress.magnitude is not None and progress.magnitude < 0.05, to: done}
    - {to: work}""",
)  # fmt: skip
def measure(ctx: Context) -> Outcome:
    """Computes improvement, magnitude and cycles from the reports of tasks."""
    known: TaskReports = reports_of(ctx)
    progress, queue = ctx.facts.progress, ctx.queue
    identified = sum(1 for t in queue if t.kind == "improvement" and not t.cycle)
    begun = any(t.cycle for t in queue)
    changes: dict[str, Any] = {
        "progress.improvements": identified,
        "progress.improving": ctx.facts.queue.primary_done and bool(known.cycle or identified),
    }
    if known.cycle > progress.cycles and not begun:
        changes["progress.cycles"] = known.cycle
        changes["progress.magnitude"] = magnitude(known.metrics, known.before)
    facts = progress.replace(**{n.partition(".")[2]: v for n, v in changes.items()})
    result = {
        "cycles": facts.cycles, "improving": facts.improving,
        "improvements": facts.improvements, "magnitude": facts.magnitude,
    }  # fmt: skip
    return Outcome(result=result, changes=changes)


_STEP = struct({"step": COUNT}, keyed=True)


@action(
    work=False,
    effect="pure",
    traits=SURE,
    result=_STEP,
    supplies="checkpoint",
    reads=("vars.*", "queue"),
)
def checkpoint(ctx: Context) -> Outcome:
    """Keeps variables, queue and the current task, for `restore`."""
    data = {
        "vars": plain(ctx.facts.vars),
        "queue": [task.to_dict() for task in ctx.queue],
        KEPT: plain(ctx.kept.get(KEPT, {})),
    }
    return Outcome(result={"step": ctx.step}, kept={CHECKPOINT: {"step": ctx.step, **data}})


@action(
    work=False, effect="pure", traits=BY_FIELDS, result=_STEP, changes=("vars.*", "queue.*"),
    needs="checkpoint",
    reads=(),
)  # fmt: skip
def restore(ctx: Context) -> Outcome:
    """Restores what the newest `checkpoint` kept; never messages."""
    data = ctx.kept.get(CHECKPOINT)
    if data is None:
        return Outcome.failure(Category.RECOVERABLE, "there is no checkpoint", kind="no_checkpoint")
    return Outcome(
        result={"step": data["step"]},
        changes={f"vars.{name}": value for name, value in data["vars"].items()},
        queue=tuple(Task(**task) for task in data["queue"]),
        kept={KEPT: data[KEPT]} if data[KEPT] else {},
    )
