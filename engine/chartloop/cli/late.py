"""Imports that stand at the top of a command's file and happen when the command uses them.

`chartloop run --help` and the completion of a shell load a command's file, but neither the run loop
nor a proof. So what is heavy is imported there in one block, by module::

    with at_first_use(__name__):
        from chartloop.cli import drive, run_factory
        from chartloop.run import sync

Belongs here: that block. Light modules are imported as everywhere; `chartloop.cli` alone does this.
"""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import ModuleType, SimpleNamespace
from typing import Any

_one_at_a_time = RLock()


class LateModule(ModuleType):
    """Stands for a module, and imports it when a name in it is first read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


@contextmanager
def at_first_use(file: str) -> Generator[None]:
    """In this block ``from package import module`` binds a `LateModule`. `file` is ``__name__``."""
    usual = builtins.__import__

    def late(
        name: str, scope: Mapping[str, object] | None = None,
        local: Mapping[str, object] | None = None, fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:  # fmt: skip
        if scope is None or scope.get("__name__") != file:  # an import of another thread
            return usual(name, scope, local, fromlist or (), level)
        return SimpleNamespace(**{one: LateModule(f"{name}.{one}") for one in fromlist or ()})

    with _one_at_a_time:
        builtins.__import__ = late
        try:
            yield
        finally:
            builtins.__import__ = usual
