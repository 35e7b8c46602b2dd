"""What a file names that reaches out of its own folder: hosts, and paths elsewhere.

Nothing of it is touched when a file is loaded. The command line runs such a file only with
``--trust``; `check` lists what it is about.

Source: design "language", section 8 (last paragraph).
"""

from __future__ import annotations

from pathlib import PurePosixPath

from interlock.language.spec import MachineSpec


def reaches_out(spec: MachineSpec) -> tuple[tuple[str, str], ...]:
    """What the file names, as (where in the machine, what in words)."""
    found: list[tuple[str, str]] = []
    if base := spec.model.get("api_base"):
        found.append(("model.api_base", f"sends the conversation to the host `{base}`"))
    if isinstance(spec.tasks, str) and _outside(spec.tasks):
        found.append(("tasks.file", f"reads `{spec.tasks}`, outside its folder"))
    return tuple(found)


def _outside(path: str) -> bool:
    given = PurePosixPath(path.replace("\\", "/"))
    return given.is_absolute() or ".." in given.parts or ":" in path or path.startswith("~")
