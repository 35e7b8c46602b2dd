"""The tools of an MCP server as a machine knows them: from the lock, without the server.

Belongs here: a locked tool as a `ToolSpec`. Never: how a server is asked (`adapters.mcp_servers`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from chartloop.core.specs import Effect, ToolSpec
from chartloop.language.json_schema.validator import Validator
from chartloop.language.tool_lock import LockedTool, arguments_validator, definition_hash

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}", re.ASCII)
"""``${VAR}``, or ``${VAR:-default}``: a variable of our environment."""


@dataclass(frozen=True)
class Elicitation:
    """The questions that a server may ask whoever answers for the run."""

    within: float = 600.0
    """Seconds that an answer may take; then the server is told that there is none."""
    questions: int = 10
    """The number of questions in one call of a tool; 0 refuses them."""


@dataclass(frozen=True)
class Sampling:
    """The calls of the run's model that a server may make in one call of a tool."""

    calls: int
    tokens: int | None = None
    """The tokens of these calls together; None: only the run's own limits count."""


@dataclass(frozen=True)
class ServerSpec:
    """An MCP server as a file declares it, and what the lock says that it offers."""

    name: str
    command: str = ""
    """The program that is started; empty for a server that is reached by its `url`."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """As the file writes it: ``${VAR}`` is replaced when the server is started, and never kept."""
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    effect: Effect = Effect.PAID
    """The effect of making a call twice, for all of its tools."""
    connect_timeout: float = 30.0
    """Seconds that the server has to start, to greet and to list its tools."""
    timeout: float = 60.0
    """Seconds that a call may take."""
    elicitation: Elicitation = Elicitation()
    sampling: Sampling | None = None
    """None: the server gets no model call."""
    tools: Mapping[str, LockedTool] = field(default_factory=dict[str, LockedTool])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = field(default="", compare=False)
    """The folder of the file that declares it: `cwd` is taken from there."""

    @cached_property
    def definition(self) -> str:
        """The hash of which server is meant."""
        return definition_hash({
            "command": self.command, "args": list(self.args), "cwd": self.cwd, "url": self.url,
            "env": sorted(self.env), "headers": sorted(self.headers),
        })  # fmt: skip

    @property
    def reaches(self) -> str:
        """Its reach outside the machine, in words: ``starts `npx server` ...``."""
        given = sorted({name for text in self.texts for name, _ in VARIABLE.findall(text)})
        what = " ".join((self.command, *self.args))
        message = f"starts `{what}`" if self.command else f"sends tool calls to `{self.url}`"
        handed = f", with {', '.join(f'`{name}`' for name in given)}" if given else ""
        asks = ", which may call the model" if self.sampling is not None else ""
        return f"{message} as MCP server `{self.name}`{handed}{asks}"

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts in which ``${VAR}`` may stand."""
        more = (*self.env.values(), *self.headers.values())
        return (self.command, *self.args, self.cwd, self.url, *more)


@dataclass(frozen=True)
class _Call:
    """Calls the tool through the servers of the run."""

    server: ServerSpec
    tool: str

    async def __call__(self, context: Any, /, **arguments: Any) -> Any:
        servers = context.ports.servers
        return await servers.call(self.server, self.tool, arguments, context.client)


class _Arguments:
    """Arguments from a model, validated against the tool's schema before the server sees them."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self.name, self.schema = name, schema

    @cached_property
    def _validator(self) -> Validator:
        return arguments_validator(self.schema)

    def __call__(self, text: str) -> dict[str, Any]:
        try:
            read = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments of `{self.name}` are not JSON: {error}") from None
        if not isinstance(read, dict):
            raise ValueError(f"the arguments of `{self.name}` are not a JSON object")  # noqa: TRY004
        faults = self._validator.faults(read)
        if faults:
            message = "; ".join(str(fault).replace("the reply: ", "") for fault in faults)
            raise ValueError(f"the arguments of `{self.name}` are wrong: {message}")
        return cast("dict[str, Any]", read)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Arguments, (self.name, self.schema))


def tool_of(server: ServerSpec, tool: LockedTool) -> ToolSpec:
    """A locked tool as files and models name it: ``server.tool``."""
    name = f"{server.name}.{tool.name}"
    return ToolSpec(
        name, tool.description, dict(tool.parameters) or {"type": "object"},
        _Arguments(name, tool.parameters), _Call(server, tool.name),
        blocking=False, effect=server.effect, wants_context=True, server=server.name,
    )  # fmt: skip
