"""What a file names that reaches out of its own folder: hosts, and paths elsewhere.

Nothing of it is touched when a file is loaded. The command line runs such a file only with
``--trust``; `check` lists what it is about.

Source: design "language", section 8 (last paragraph).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from interlock.checker.subject import Subject
from interlock.language.spec import MachineSpec
from interlock.language.yaml import Path


def check_trust(subject: Subject) -> None:
    """A warning for each thing that needs trust."""
    for path, what in reaches_out(subject.spec):
        hint = "run it with `--trust` when it is yours"
        subject.say("IL324", path, f"the file {what}", hint=hint)


def reaches_out(spec: MachineSpec) -> Iterator[tuple[Path, str]]:
    """What the file names outside its folder: where it stands, and what it does, in words."""
    if base := spec.model.get("api_base"):
        yield ("model", "api_base"), f"sends the conversation to the host `{base}`"
    for name, value in dict(spec.model.get("extra", {})).items():
        if isinstance(value, str) and "://" in value:
            yield ("model", "extra", name), f"names the host `{value}`"
    if isinstance(spec.tasks, str) and _outside(spec.tasks):
        yield ("tasks", "file"), f"reads `{spec.tasks}`, outside its folder"


def _outside(path: str) -> bool:
    given = PurePosixPath(path.replace("\\", "/"))
    return given.is_absolute() or ".." in given.parts or ":" in path or path.startswith("~")
