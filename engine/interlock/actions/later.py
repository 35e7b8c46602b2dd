"""Actions of the language that this version does not carry out yet.

A file that names them loads, is checked and is drawn; a run refuses to start with them. They
come with the task queue and child machines of documents 000 and 003.
"""

from __future__ import annotations

from interlock.core.specs import ActionSpec

_WORK = (
    ("run_machine", "Runs a child machine."),
    ("run_machines", "Runs child machines at once."),
)
ACTIONS = (*(ActionSpec(n, None, about=a) for n, a in _WORK),)
