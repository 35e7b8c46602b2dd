"""MCP servers and their locked tools as specs, without a connection to the server.

Belongs here: a locked tool as a `ToolSpec`. Never: the protocol (`adapters.mcp_servers`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from chartloop.core.specs import DataUse, Effect, ToolSpec
from chartloop.core.strict_json import unfits
from chartloop.language.json_schema.typed import type_of_schema
from chartloop.language.json_schema.validator import ServerSchema
from chartloop.language.tool_lock import LockedTool, definition_hash, server_schema

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", re.ASCII)
"""``${VAR}`` or ``${VAR:-default}``: a variable of chartloop's environment."""


@dataclass(frozen=True)
class Elicitation:
    """The settings for questions of a server to a person."""

    within: float = 600.0
    """The seconds to wait for an answer; then the server gets none."""
    questions: int = 10
    """The most questions in one call of a tool; 0 refuses them."""


@dataclass(frozen=True)
class Sampling:
    """The limits for a server's calls of the run's model, in one call of a tool."""

    calls: int
    tokens: int | None = None
    """The most tokens of these calls together; None: only the run's own limits apply."""


@dataclass(frozen=True)
class ServerSpec:
    """An MCP server as the file declares it, with its locked tools."""

    name: str
    command: str = ""
    """The program to start; empty for a server with a `url`."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment as in the file: ``${VAR}`` is replaced only when the server starts."""
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    effect: Effect = Effect.PAID
    """The effect of calling any of its tools twice."""
    connect_timeout: float = 30.0
    """The seconds that the server has to start, initialize and list its tools."""
    timeout: float = 60.0
    """The seconds that a call may take."""
    elicitation: Elicitation = Elicitation()
    sampling: Sampling | None = None
    """The limits for its model calls; None: it gets none."""
    tools: Mapping[str, LockedTool] = field(default_factory=dict[str, LockedTool])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = field(default="", compare=False)
    """The folder of the file that declares it; `cwd` is relative to it."""

    @cached_property
    def definition(self) -> str:
        """The hash that identifies the server."""
        return definition_hash({
            "command": self.command, "args": list(self.args), "cwd": self.cwd, "url": self.url,
            "env": sorted(self.env), "headers": sorted(self.headers),
        })  # fmt: skip

    @property
    def reaches(self) -> str:
        """What it reaches outside the machine, in words: ``starts `npx server` ...``."""
        variables = sorted({name for text in self.texts for name, _ in VARIABLE.findall(text)})
        command = " ".join((self.command, *self.args))
        message = f"starts `{command}`" if self.command else f"sends tool calls to `{self.url}`"
        passed = f", with {', '.join(f'`{name}`' for name in variables)}" if variables else ""
        sampling = ", which may call the model" if self.sampling is not None else ""
        return f"{message} as MCP server `{self.name}`{passed}{sampling}"

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts that may contain ``${VAR}``."""
        more = (*self.env.values(), *self.headers.values())
        return (self.command, *self.args, self.cwd, self.url, *more)


@dataclass(frozen=True)
class _Call:
    """Calls a tool through the run's servers."""

    server: ServerSpec
    tool: str

    async def __call__(self, context: Any, /, **arguments: Any) -> Any:
        servers = context.ports.servers
        return await servers.call(self.server, self.tool, arguments, context.client)


class Arguments:
    """Parses the arguments that a model wrote, and validates them by the tool's schema."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self.name, self.schema = name, schema

    @cached_property
    def _validator(self) -> ServerSchema:
        return server_schema(self.schema)

    def __call__(self, text: str) -> dict[str, Any]:
        try:
            read = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments of `{self.name}` are not JSON: {error}") from None
        if any(unfit.is_number for unfit in unfits(read, "/arguments/")):
            raise ValueError(f"the arguments of `{self.name}` hold a number that is not finite")
        if not isinstance(read, dict):
            raise ValueError(f"the arguments of `{self.name}` are not a JSON object")  # noqa: TRY004
        faults = self._validator.faults(read)
        if faults:
            message = "; ".join(str(fault).replace("the reply: ", "") for fault in faults)
            raise ValueError(f"the arguments of `{self.name}` are wrong: {message}")
        return cast("dict[str, Any]", read)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Arguments, (self.name, self.schema))


def tool_of(server: ServerSpec, tool: LockedTool) -> ToolSpec:
    """Make the spec of a locked tool, named ``server.tool``."""
    name = f"{server.name}.{tool.name}"
    return ToolSpec(
        name, tool.description, dict(tool.parameters) or {"type": "object"},
        Arguments(name, tool.parameters), _Call(server, tool.name),
        blocking=False, effect=server.effect, wants_context=True, server=server.name,
        data=DataUse(hints=_hints(tool.annotations)), result=type_of_schema(tool.output),
    )  # fmt: skip


def _hints(claims: Mapping[str, Any]) -> frozenset[str]:
    """The labels that a server's claims add: of a tool that reaches an open world."""
    if claims.get("openWorldHint") is not True:
        return frozenset()
    return frozenset({"untrusted"} if claims.get("readOnlyHint") is True else {"untrusted", "out"})
