"""Machines and what they may name: tools of one's own, and trust.

Belongs here: how the command line's words become a `Machine`. Never: running one.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.cli.faults import MisuseError, UntrustedError
from interlock.core.errors import SetupError

if TYPE_CHECKING:
    from interlock.api import Machine
    from interlock.cli.how import How
    from interlock.core.specs import Registry
    from interlock.language.spec import MachineSpec

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def load_machine(source: str, how: How) -> Machine:
    """The machine that a path or shipped name means; see `refuse_untrusted`."""
    from interlock.api import load

    own = load_tools(how.tools)
    locate(source)
    machine = load(source, tools=own, define=dict(how.define))
    refuse_untrusted(machine, how)
    return machine


def locate(source: str) -> Path:
    """The file that is meant. `MisuseError` when there is none."""
    from interlock import catalog

    if "\n" in source:
        raise MisuseError("a machine is named by its file, or by the name of a shipped one")
    try:
        return catalog.find(source)
    except SetupError as error:
        raise MisuseError(error.message, hint=error.hint) from None
    except (OSError, ValueError) as error:
        raise MisuseError(f"there is no machine file `{source[:80]}`: {error}") from None


# trust --------------------------------------------------------------------------------------


def refuse_untrusted(machine: Machine, how: How) -> None:
    """`UntrustedError` when the file needs trust that was not given."""
    wants = needs_trust(machine.spec)
    if wants and not how.trust:
        name = machine.spec.file or machine.name
        raise UntrustedError(
            f"{name} {'; '.join(wants)}", hint="look at the file, then say --trust"
        )


def needs_trust(spec: MachineSpec) -> list[str]:
    """What a file names that it may not without trust: hosts, and paths outside its folder."""
    return list(dict.fromkeys(_wants(spec, Path(spec.file).parent)))


def _wants(spec: MachineSpec, folder: Path) -> Iterator[str]:
    if isinstance(spec.tasks, str) and _leaves(folder, spec.tasks):
        yield f"reads `{spec.tasks}`, which is outside its folder"
    for name, address in _addresses(spec.model):
        yield f"sends the model's requests to `{address}` (`model.{name}`)"
    for child in spec.machines.values():
        yield from _wants(child, folder)


def _leaves(folder: Path, path: str) -> bool:
    inside = os.path.realpath(folder)
    return os.path.commonpath([inside, os.path.realpath(folder / path)]) != inside


def _addresses(data: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, str]]:
    """Values that name a host: `api_base`, and whatever else looks like an address."""
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _addresses(value, f"{at}{name}.")  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, str) and (name == "api_base" or _ADDRESS.match(value)):
            yield f"{at}{name}", value


# tools --------------------------------------------------------------------------------------


def load_tools(sources: tuple[str, ...]) -> list[Registry]:
    """What each `--tools` declares: a module, a file, or one name of either."""
    return [_declared(source) for source in sources]


def _declared(source: str) -> Registry:
    from interlock.actions.declare import specs_of

    found = specs_of(_imported(source))
    if not (found.tools or found.actions or found.guards):
        hint = "decorate functions with `@tool`, `@action` or `@guard` from interlock"
        raise SetupError(f"`{source}` declares nothing", hint=hint)
    return found


def _imported(source: str) -> object:
    from interlock.testing import own_from

    where = source.partition(":")[0]
    file = Path(where).absolute() if where.endswith(".py") else None
    folder = str(file.parent if file is not None else Path.cwd())
    if folder not in sys.path:  # tools may import their neighbours, as a script may
        sys.path.insert(0, folder)
    try:
        return own_from(source)
    except SetupError as error:
        cause = error.__cause__
        if not isinstance(cause, Exception) or _is_missing(cause, where):
            raise MisuseError(error.message, hint=error.hint) from None
        line = _line_of(where if file is None else str(file), cause)
        at = f" (line {line})" if line else ""
        raise SetupError(f"{error.message}{at}", hint="the module itself fails") from cause


def _is_missing(cause: Exception, where: str) -> bool:
    name = cause.name if isinstance(cause, ModuleNotFoundError) else None
    return isinstance(cause, FileNotFoundError) or (name is not None and where.startswith(name))


def _line_of(source: str, error: Exception) -> int | None:
    """The line of the user's file at which the error came up; a syntax error names its own."""
    line, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file == source or trace.tb_frame.f_globals.get("__name__") == source:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
