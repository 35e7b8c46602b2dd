"""A run and its relatives: its children as rows, its place below its parent.

The id of a child says where it comes from: ``<parent>/<state>/<step>``, followed by ``/<name>`` for
one of several.

Belongs here: the records. Never: reading a journal, a look.
"""

from __future__ import annotations

from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.phase import Phase
from chartloop.run.journal import CHILD_MARK, RunRow
from chartloop.ui.view_model.asking import label_of
from chartloop.ui.view_model.run_view import Json


class Origin(NamedTuple):
    """The step of its parent that started a child."""

    parent: str
    """The id of the parent."""
    state: str
    step: int
    """The number of actions that the parent had finished."""
    name: str
    """Of one of several children: ``researcher``; empty for an only one."""


def origin_of(run_id: str) -> Origin | None:
    """Where a run comes from, by its id; None for a run without a parent."""
    parts = run_id.split(CHILD_MARK)
    # from the right: a name may be a number, a state is none
    for width in (3, 2):
        if len(parts) > width and parts[1 - width].isdecimal():
            parent, (state, step, *name) = parts[:-width], parts[-width:]
            return Origin(CHILD_MARK.join(parent), state, int(step), CHILD_MARK.join(name))
    return None


def child_dict(row: RunRow, phase: Phase, label: str, seq: int | None) -> Json:
    """A child as a row of a table; `label` is that of the state that started it.

    `seq` is the number of the parent's record of that step; None while it is in progress.
    """
    origin = origin_of(row.run_id)
    return {
        "run": row.run_id, "name": origin.name if origin else "", "machine": row.machine,
        "task": row.task, "status": row.status, "phase": phase.name, "word": phase.word,
        "colour": phase.colour, "sign": phase.sign, "ended": row.ended, "begun": row.created,
        "changed": row.updated, "steps": row.steps, "tokens": row.tokens, "cost": row.cost,
        "message": row.message, "state": origin.state if origin else "", "label": label,
        "seq": seq,
    }  # fmt: skip


def place_dict(parents: list[tuple[Origin, Run, int | None]], siblings: list[str], id: str) -> Json:
    """The way up from a child, the outermost parent first, and its neighbours in its step."""
    at = siblings.index(id) if id in siblings else -1
    return {
        "above": [
            {
                "run": run.id, "title": run.machine.spec.title or run.machine.name,
                "label": label_of(run.machine.spec, origin.state, run.facts),
                "step": origin.step + 1, "seq": seq,
            }
            for origin, run, seq in parents
        ],
        "number": at + 1,
        "of": len(siblings),
        "previous": siblings[at - 1] if at > 0 else None,
        "next": siblings[at + 1] if 0 <= at < len(siblings) - 1 else None,
    }  # fmt: skip
