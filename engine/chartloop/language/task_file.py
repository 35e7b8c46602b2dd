"""Loading of a file of tasks: a list like `tasks` in a machine file, with the same findings.

Source: 003 "Task Queue" (tasks from YAML or a file).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, nearest
from chartloop.core.specs import Registry
from chartloop.language.file import file
from chartloop.language.file.shape import shape
from chartloop.language.readers.reader import Reader, items
from chartloop.language.readers.settings import read_tasks, task_shape
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import read


def load_tasks(
    text: str, file_name: str, registry: Registry, machines: Collection[str] = ()
) -> tuple[tuple[dict[str, Any], ...], tuple[Finding, ...]]:
    """Load tasks as plain data, with all findings. Never raises.

    `machines` are the child machines that may do a task. A task without an id gets one only when
    it enters a queue, which knows the free ids.
    """
    document = read(text, file_name)
    if not isinstance(cast(object, document.data), list):
        hint = "write one line for each: `- text: what is to be done`"
        message = "a file of tasks is a list"
        wrong = finding("CL203", message, document.at(()), hint=hint, at="tasks")
        return (), document.findings or (wrong,)
    document = document.under("tasks")
    head = {"chartloop": 1, "machine": "tasks"}
    shaped = shape(replace(document, data={**head, **document.data}))
    if shaped.file is None:
        return (), tuple(shaped.findings)
    tasks = cast("list[file.TaskShape | str]", shaped.file.tasks or [])
    reader = Reader(document, (), registry, shaped.unread, shaped.file)
    read_tasks(reader, tasks)
    for name, path in reader.children.items():
        if name not in machines:
            hint = nearest(name, machines) or "name it under `machines` in the machine's own file"
            reader.say("CL409", path, f"unknown machine `{short(name)}`", hint=hint)
    findings = [*shaped.findings, *reader.findings]
    return (
        tuple(task_shape(task).plain(written=True) for _, task in items(tasks)),
        tuple(sorted(findings, key=lambda f: (f.place.line, f.place.column, f.code))),
    )
