"""Locking the tools of a machine's MCP servers: list their tools and write them to a lock file.

The only place that starts a server without a run. Everything that analyses a machine reads the
lock file.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from chartloop import catalog
from chartloop.adapters.mcp_servers import lock_server
from chartloop.core.errors import SetupError, SpecError
from chartloop.language.load import Declared, declared_servers
from chartloop.language.tool_lock import (
    LockedServer,
    LockFault,
    differences,
    lock_name,
    read_lock,
    wanted_by,
    write_lock,
)


class ToolLock(NamedTuple):
    """The current lock of a machine, compared with the one on disk."""

    path: Path
    text: str
    """The text that the lock should have."""
    differences: tuple[str, ...]
    """The changes, as lines: ``~ calc.add description: ...``. Empty if there are none."""
    found: str
    """``fits``, ``differs``, ``missing``, or the fault of the lock on disk."""
    tools: int
    """The number of tools."""

    @property
    def fits(self) -> bool:
        """Whether the lock on disk is current."""
        return self.found == "fits"

    def write(self) -> None:
        """Write the lock file beside the machine."""
        self.path.write_text(self.text, encoding="utf-8", newline="\n")


def declared_in(source: str | Path) -> dict[str, Declared]:
    """The MCP servers that a machine's file declares, by name, with the tools that it names.

    Raises:
        SpecError: the file declares them wrongly.
        SetupError: there is no such file, or it declares none.
    """
    path = catalog.find(source)
    name = catalog.display_path(path)
    declared, findings = declared_servers(catalog.read_text(path), name)
    if any(found.is_error for found in findings):
        raise SpecError(findings)
    if not declared:
        raise SetupError(
            f"{name} declares no MCP servers", hint="add `mcp_servers`, see docs/mcp.md"
        )
    return declared


def lock_tools(source: str | Path) -> ToolLock:
    """List the tools of a machine's MCP servers. Starts the servers, and ends them.

    Writes nothing: see `ToolLock.write`. A child machine in another file has its own lock.

    Raises:
        SpecError: the file declares them wrongly.
        SetupError: there is no such file, it declares none, or a variable is not set.
        ServerUnavailableError: a server cannot be started or reached.
    """
    path, declared = catalog.find(source), declared_in(source)

    def ask(one: Declared) -> LockedServer:
        return lock_server(one.server, path.parent, wanted_by(one.tools))

    with ThreadPoolExecutor(len(declared)) as pool:
        servers = dict(zip(declared, pool.map(ask, declared.values()), strict=True))
    beside = path.with_name(lock_name(path.name))
    text = write_lock(servers)
    found, before = _before(beside, text)
    lines = tuple(differences(before, servers))
    return ToolLock(beside, text, lines, found, sum(len(s.tools) for s in servers.values()))


def _before(path: Path, text: str) -> tuple[str, dict[str, LockedServer]]:
    """The state of the lock on disk, and its content as far as it is readable."""
    if not path.is_file():
        return "missing", {}
    held = path.read_text(encoding="utf-8", errors="replace")
    if held == text:
        return "fits", read_lock(held)
    try:
        return "differs", read_lock(held)
    except LockFault as fault:
        return f"{path.name} {fault}", {}


def locked_nothing(declared: dict[str, Declared], lock: ToolLock) -> Iterable[str]:
    """The names and patterns of the file that match no tool of its servers."""
    known = read_lock(lock.text)
    for server, one in declared.items():
        for pattern in one.tools:
            if not any(map(wanted_by([pattern]), known[server].tools)):
                yield f"{server}.{pattern}"
