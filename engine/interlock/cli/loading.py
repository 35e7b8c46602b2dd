"""Machines and what they may name: tools of one's own, and trust.

Belongs here: how the command line's words become a `Machine`. Never: running one.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from interlock.cli.faults import MisuseError, UntrustedError
from interlock.core.errors import SetupError

if TYPE_CHECKING:
    from interlock.api import Machine
    from interlock.cli.options import How
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


def load_tools(sources: tuple[str, ...]) -> list[Any]:
    """What each `--tools` means: a module, a file, or one name of either."""
    return [_tools(source) for source in sources]


def _tools(source: str) -> Any:
    where, _, name = source.partition(":")
    module = _from_file(Path(where)) if _is_file(where) else _from_name(where)
    if name:
        if not hasattr(module, name):
            raise MisuseError(f"`{where}` has no `{name}`", hint="write MODULE:NAME or FILE:NAME")
        return getattr(module, name)
    from interlock.actions.declare import specs_of

    found = specs_of(module)
    if not (found.tools or found.actions or found.guards):
        hint = "decorate functions with `@tool`, `@action` or `@guard` from interlock"
        raise SetupError(f"`{where}` declares nothing", hint=hint)
    return found


def _is_file(where: str) -> bool:
    return where.endswith(".py") or os.sep in where


def _from_file(path: Path) -> ModuleType:
    path = path.absolute()
    if not path.is_file():
        raise MisuseError(f"there is no file `{path.name}` in {path.parent}")
    name = f"interlock_tools_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MisuseError(f"`{path.name}` is no Python file", hint="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where `dataclasses` and `pickle` look a class up
    _make_findable(path.parent)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _broken(path.name, str(path), error) from error
    return module


def _from_name(name: str) -> ModuleType:
    _make_findable(Path.cwd())
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]
        if missing or not name:
            hint = "give a module that can be imported from here, or a file: tools.py"
            raise MisuseError(f"there is no module `{name}`", hint=hint) from None
        spec = importlib.util.find_spec(name)
        raise _broken(name, (spec.origin if spec else "") or "", error) from error


def _make_findable(folder: Path) -> None:
    """A file of tools may import its neighbours, as a script may."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _broken(name: str, file: str, error: Exception) -> SetupError:
    line = _line_of(file, error)
    where = f"{name}:{line}" if line else name
    return SetupError(
        f"{where} cannot be imported: {type(error).__name__}: {error}",
        hint="`python` on the file shows the whole traceback",
    )


def _line_of(file: str, error: Exception) -> int | None:
    """The line of the file at which the error came up."""
    if isinstance(error, SyntaxError):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
