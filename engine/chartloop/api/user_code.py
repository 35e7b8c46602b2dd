"""Tools, actions and guards by name, for `--tools` and `chartloop_tools`.

A name is a module (``shop.tools``), a file (``tools.py``), or one attribute of either
(``shop.tools:refund``). Only here does a name from the user import code; a machine file never does.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from chartloop.core.errors import SetupError


def own_from(name: str, *, folder: Path | None = None) -> object:
    """Import the module, file or attribute of that name, to be passed as `tools`.

    Files are relative to `folder`, by default the current one. `SetupError` if it does not exist
    or cannot be imported.
    """
    source, colon, thing = name.partition(":")
    path = (folder or Path.cwd()) / source
    try:
        module = _file(path) if source.endswith(".py") else importlib.import_module(source)
    except (Exception, SystemExit) as error:
        hint = "give a module, a file such as `tools.py`, or `module:name`"
        cause = f"{type(error).__name__}: {error}"
        raise SetupError(f"cannot import tools from `{source}`: {cause}", hint=hint) from error
    if not colon:
        return module
    if not hasattr(module, thing):
        raise SetupError(f"`{source}` has no `{thing}`")
    return getattr(module, thing)


def _file(path: Path) -> ModuleType:
    """Import a file as a module, once per process, under a name that no import can clash with."""
    name = f"chartloop-tools:{path.resolve()}"
    if (known := sys.modules.get(name)) is not None:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: pydantic looks up the types of its functions here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
