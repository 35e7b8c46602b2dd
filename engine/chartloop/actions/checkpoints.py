"""Progress and checkpoints of a task queue: `measure`, `checkpoint`, `restore`.

Source: 003 "Diminishing Returns", "Context Overflow Recovery".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chartloop.actions.tasks import KEPT, TaskReports, reports_of
from chartloop.core.errors import Category
from chartloop.core.facts import Task
from chartloop.core.outcome import Outcome
from chartloop.core.plain import plain
from chartloop.core.specs import ActionSpec, Effect
from chartloop.core.traits import ActionTraits, Count
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


def measure(ctx: Context) -> Outcome:
    """Measure the queue: improvement phase, identified improvements, and the cycle that ended."""
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


def checkpoint(ctx: Context) -> Outcome:
    """Save variables, queue and the current task."""
    data = {
        "vars": plain(ctx.facts.vars),
        "queue": [task.to_dict() for task in ctx.queue],
        KEPT: plain(ctx.kept.get(KEPT, {})),
    }
    return Outcome(result={"step": ctx.step}, kept={CHECKPOINT: {"step": ctx.step, **data}})


def restore(ctx: Context) -> Outcome:
    """Restore variables, queue and the current task from the newest checkpoint."""
    data = ctx.kept.get(CHECKPOINT)
    if data is None:
        return Outcome.failure(Category.RECOVERABLE, "there is no checkpoint", kind="no_checkpoint")
    return Outcome(
        result={"step": data["step"]},
        changes={f"vars.{name}": value for name, value in data["vars"].items()},
        queue=tuple(Task(**task) for task in data["queue"]),
        kept={KEPT: data[KEPT]} if data[KEPT] else {},
    )


ACTIONS = (
    ActionSpec(
        "measure",
        measure,
        result=struct(
            {
                "cycles": COUNT,
                "improving": BOOL,
                "improvements": COUNT,
                "magnitude": Type("fraction", nullable=True),
            },
            keyed=True,
        ),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        changes=frozenset(
            {
                "progress.cycles",
                "progress.improving",
                "progress.improvements",
                "progress.magnitude",
            }
        ),
        declares=ActionTraits(
            asks="never",
            calls="none",
            runs="none",
            fails="never",
            step="system",
            family="pure",
            counts=(Count("progress.cycles", 0, 1),),
        ),
        about="Computes improvement, magnitude and cycles from the reports of tasks.",
        details="A task reports by a result that is a mapping: `metrics`, numbers by name, and "
        "`tasks` and `improvements`, to be added to the queue. `progress.magnitude` is the mean "
        "relative change of the metrics in the improvement cycle that ended last.",
        example="""\
judge:
  do: measure
  next:
    - {when: progress.magnitude is not None and progress.magnitude < 0.05, to: done}
    - {to: work}""",
    ),
    ActionSpec(
        "checkpoint",
        checkpoint,
        result=struct({"step": COUNT}, keyed=True),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        supplies=frozenset({"checkpoint"}),
        declares=ActionTraits(
            asks="never", calls="none", runs="none", fails="never", step="system", family="pure"
        ),
        about="Keeps variables, queue and the current task, for `restore`.",
    ),
    ActionSpec(
        "restore",
        restore,
        result=struct({"step": COUNT}, keyed=True),
        work=False,
        effect=Effect.PURE,
        suspends=False,
        changes=frozenset({"vars.*", "queue.*"}),
        needs="checkpoint",
        declares=ActionTraits(
            asks="never", calls="none", runs="none", fails="by_fields", step="system", family="pure"
        ),
        about="Restores what the newest `checkpoint` kept; never messages.",
    ),
)
