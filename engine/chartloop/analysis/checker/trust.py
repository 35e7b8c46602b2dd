"""References of a file beyond its own folder: hosts, keys, and other paths.

Loading a file touches none of them. The command line runs such a file only with ``--trust``, and
`check` lists them. All rules about trust are in this module.

Source:       docs/production.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, cast

from chartloop import catalog
from chartloop.analysis.checker.check_context import CheckContext
from chartloop.language.spec import MachineSpec
from chartloop.language.yaml.reading import Path

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_trust(context: CheckContext) -> None:
    """Warn of each reference that needs trust."""
    for path, what in reaches_out(context.spec):
        hint = "run it with `--trust` when it is yours"
        context.say("CL324", path, f"the file {what}", hint=hint)


def needs_trust(spec: MachineSpec) -> list[str]:
    """Return the reasons for `--trust` of a file and its inline children, in words."""
    reasons = (what for part in spec.family() for _, what in reaches_out(part))
    return list(dict.fromkeys(reasons))


def reaches_out(spec: MachineSpec) -> Iterator[tuple[Path, str]]:
    """Yield the place of each reference beyond the file's folder, and its effect in words."""
    if base := spec.model.get("api_base"):
        yield ("model", "api_base"), f"sends the conversation to the host `{base}`"
    variable = str(spec.model.get("api_key_env", ""))
    if variable.isascii() and variable.isidentifier():  # else it may be a key: never show it
        message = f"sends the value of the environment variable `{variable}` as its key"
        yield ("model", "api_key_env"), message
    for path, address in _addresses(spec.model, ("model",)):
        if path != ("model", "api_base"):
            yield path, f"names the host `{address}`"
    for name, state in spec.states.items():
        extra = state.args.get("extra")  # a model call passes it to the provider unchanged
        if extra is not None and extra.kind == "data":
            for path, address in _addresses(extra.value, ("states", name, "with", "extra")):
                yield path, f"names the host `{address}`"
    for name, server in spec.servers.items():
        yield ("mcp_servers", name), server.reaches
    for name, child in spec.machines.items():
        if not child.base and child.file and _far(spec.file, child.file):
            yield ("machines", name), f"runs `{child.file}`, outside its folder"
    if isinstance(spec.tasks, str) and _outside(FilePath(spec.file).parent, spec.tasks):
        yield ("tasks", "file"), f"reads `{spec.tasks}`, outside its folder"


def _addresses(value: object, at: Path) -> Iterator[tuple[Path, str]]:
    """Yield texts that name a host, at any depth."""
    if isinstance(value, str) and _ADDRESS.match(value):
        yield at, value
    elif isinstance(value, Mapping):
        for name, part in cast(Mapping[str, Any], value).items():
            yield from _addresses(part, (*at, name))
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(cast("list[Any]", value)):
            yield from _addresses(part, (*at, number))


def _far(file: str, other: str) -> bool:
    """Whether another machine's file is outside a file's folder and not in the catalog."""
    if file.startswith("<") or other.startswith("<"):
        return False
    at = os.path.realpath(other)
    if os.path.dirname(at) == os.path.realpath(catalog.folder()):  # noqa: PTH120
        return False
    inside = os.path.realpath(FilePath(file).parent)
    return os.path.commonpath([inside, at]) != inside


def _outside(folder: FilePath, path: str) -> bool:
    """Whether a path leaves the folder, by ``..``, by a link, or on another operating system."""
    if path.startswith("~") or any(sign in path for sign in ":\\\0"):
        return True
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(folder / path)]) != inside
