"""Actions of the language that this version does not carry out yet.

A file that names them loads, is checked and is drawn; a run refuses to start with them. They
come with the task queue and child machines of documents 000 and 003.
"""

from __future__ import annotations

from interlock.core.specs import ActionSpec, Effect

_UPKEEP = (
    ("apply_fix", "Puts the answer into the conversation and, if it names one, the queue."),
    ("measure", "Computes improvement, magnitude and cycles from what tasks reported."),
    ("checkpoint", "Keeps variables, queue and current task."),
    ("restore", "Brings back what the newest checkpoint kept."),
    ("enqueue", "Adds tasks to the queue."),
)
_WORK = (
    ("work", "Does the next task of the queue."),
    ("run_machine", "Runs a child machine."),
    ("run_machines", "Runs child machines at once."),
)
ACTIONS = (
    *(ActionSpec(n, None, work=False, effect=Effect.LOCAL, about=a) for n, a in _UPKEEP),
    *(ActionSpec(n, None, about=a) for n, a in _WORK),
)
