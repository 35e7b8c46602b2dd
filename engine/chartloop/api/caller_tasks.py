"""Tasks from outside: those that a run starts with, and those that are added while it runs.

Nothing of them is believed: each is checked before a run takes it in.

Source: 003 "Task Queue"; design "language", section 1 (`tasks`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chartloop import catalog
from chartloop.actions.tasks import NO_QUEUE, tasks_of
from chartloop.core.codes import finding
from chartloop.core.errors import SetupError, SpecError, TaskError, nearest
from chartloop.core.facts import QueueFacts, Task
from chartloop.language.spec import MachineSpec
from chartloop.language.task_file import load_tasks


def first_tasks(
    spec: MachineSpec, folder: Path, given: Sequence[Any] | None = None
) -> tuple[Task, ...]:
    """The tasks that a run starts with: the caller's, else the machine's or those of its file."""
    if given is not None:
        return checked_tasks(spec, given)
    if isinstance(spec.tasks, str):
        return tasks_of(_of_machine(spec, folder / spec.tasks), ())
    return inline_tasks(spec)


def inline_tasks(spec: MachineSpec) -> tuple[Task, ...]:
    """The tasks that a machine's own file holds."""
    return tuple(Task(**t) for t in spec.tasks) if isinstance(spec.tasks, tuple) else ()


def checked_tasks(
    spec: MachineSpec, given: Any, taken: Iterable[str] = (), queue: QueueFacts = NO_QUEUE
) -> tuple[Task, ...]:
    """Tasks from a text, a mapping or a list, for a queue in which these ids are taken.

    `TaskError` for what is not a task, or is done by a tool or machine that is not there.
    """
    tasks = tasks_of(given, taken, queue)
    for number, task in enumerate(tasks):
        for kind, known in (("tool", spec.registry.tools), ("machine", spec.machines)):
            name = task.by.get(kind)
            if name is not None and name not in known:
                said = f"task {number + 1}: unknown {kind} `{name}`"
                raise TaskError(said, hint=nearest(name, known), number=number)
    return tasks


def read_tasks_file(path: Path, spec: MachineSpec) -> list[dict[str, Any]]:
    """The tasks of a file for a machine. `SpecError` with everything that is wrong with it."""
    text, shown = catalog.read_text(path), catalog.display_path(path)
    tasks, findings = load_tasks(text, shown, spec.registry, spec.machines)
    if findings:
        raise SpecError(findings)
    return list(tasks)


def _of_machine(spec: MachineSpec, path: Path) -> list[dict[str, Any]]:
    """The tasks of the file that a machine names; a file that is not there is its own fault."""
    try:
        if os.path.isfile(path):  # noqa: PTH113  a name that no file can have is not an error here
            return read_tasks_file(path, spec)
        said = f"`{path}` is not a file"
    except SetupError as error:
        said = error.message
    place, hint = spec.place(("tasks", "file")), "the path is taken from the machine's folder"
    raise SpecError([finding("CL411", said, place, hint=hint, at="tasks.file")])
