"""The reader of `mcp_servers` and of the lock of their tools.

Reading a machine never starts a server: a tool that is not in the lock is a finding.

Source: `docs/language.md`, "The file"
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from chartloop.core.errors import SetupError, nearest
from chartloop.core.facts import wire_name
from chartloop.core.specs import Effect, ToolSpec
from chartloop.core.units import parse_duration
from chartloop.language.file import file
from chartloop.language.readers.reader import Reader
from chartloop.language.server_tools import (
    VARIABLE,
    Elicitation,
    Sampling,
    ServerSpec,
    tool_of,
)
from chartloop.language.tool_lock import (
    MOST_TOOLS,
    LockedServer,
    LockedTool,
    LockFault,
    lock_name,
    matches,
    read_lock,
    read_server,
)
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

ReadLock = Callable[[], str]
"""Returns the text of the lock beside the file. Raises `SetupError` if there is none."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_STDIO = ("command", "args", "env", "cwd")
_HTTP = ("url", "headers")


def read_servers(
    reader: Reader, shape: Mapping[str, file.McpShape] | None, wanted: Iterable[str], lock: ReadLock
) -> dict[str, ServerSpec]:
    """Read the servers with their locked tools, and add the tools to the reader's registry.

    `wanted` are the names and patterns of tools that the machine uses: see `wanted_tools`.
    """
    declared = [
        made
        for name, given in (shape or {}).items()
        if (made := read_server_shape(reader, name, given)) is not None
    ]
    if not shape:
        return {}
    locked = _fitting_locks(reader, shape, declared, lock)
    reader.unlocked = set(shape) - set(locked)  # each has a finding
    if reader.unlocked:
        reader.broken.add("usage.calls")
    servers: dict[str, ServerSpec] = {}
    tools: dict[str, ToolSpec] = {}
    for server in declared:
        # without a lock, the names in the file stand in for the tools
        known = locked.get(server.name) or LockedServer("", _stand_ins(server.name, wanted))
        server = replace(server, tools=known.tools, left_out=known.left_out)
        servers[server.name] = server
        tools |= {f"{server.name}.{name}": tool_of(server, t) for name, t in known.tools.items()}
    own = set(reader.registry.tools)  # a scenario's scripted tool replaces a server's
    reader.add_tools({n: t for n, t in tools.items() if n not in own})
    return servers


def _stand_ins(server: str, wanted: Iterable[str]) -> dict[str, LockedTool]:
    names = (n.partition(".")[2] for n in wanted if n.startswith(f"{server}.") and "*" not in n)
    return {name: LockedTool(name) for name in names if name}


# the file -----------------------------------------------------------------------------------


def read_server_shape(reader: Reader, name: str, given: file.McpShape) -> ServerSpec | None:
    """Read a server's declaration, without the lock; None if it is invalid."""
    path: Path = ("mcp_servers", name)
    if given is file.LOST:
        return None
    if not _NAME.fullmatch(name):
        said = f"`{short(name)}` is not a name of a server"
        hint = "letters, digits, `_` and `-`: its tools are named `server.tool`"
        reader.say("CL204", path, said, hint=hint, key=True)
        return None
    if not _kind_fits(reader, path, given):
        return None
    folder = os.path.dirname(reader.document.file) or "."  # noqa: PTH120  it may be no path
    made = ServerSpec(
        name, given.command or "", tuple(given.args or ()), dict(given.env or {}), given.cwd or "",
        given.url or "", dict(given.headers or {}), Effect(given.effect or "paid"),
        folder="" if reader.document.file.startswith("<") else folder,
    )  # fmt: skip
    for key in ("connect_timeout", "timeout"):
        if (value := getattr(given, key)) is not None:
            made = replace(made, **{key: _seconds(reader, (*path, key), value)})
    made = replace(
        made,
        elicitation=_elicitation(reader, (*path, "elicitation"), given.elicitation),
        sampling=_sampling(reader, (*path, "sampling"), given.sampling),
    )
    for text in made.texts:
        left = VARIABLE.sub(lambda found: found[2] or "", text)  # a default holds no variable
        if "${" in left:
            said = f"`{short(left)}` is not a reference to a variable"
            reader.say("CL203", path, said, hint="write `${NAME}` or `${NAME:-default}`", key=True)
            break
    return made


def _kind_fits(reader: Reader, path: Path, given: file.McpShape) -> bool:
    """Whether the kind of a server is clear; reports the keys that contradict it."""
    if not file.is_whole(given):
        return False
    if bool(given.command) == bool(given.url):
        both = "has both" if given.command else "has neither"
        message = f"an MCP server has a `command` or a `url`; this one {both}"
        hint = "`command` is started and spoken to on stdin, `url` runs already"
        reader.say("CL207" if given.command else "CL202", path, message, hint=hint, key=True)
        return False
    over_http = bool(given.url)
    if given.type is not None and over_http != (given.type != "stdio"):
        message = f"`type: {given.type}` does not go with `{'url' if over_http else 'command'}`"
        reader.say("CL207", (*path, "type"), message, hint="remove `type`: it follows", key=True)
    for key in _STDIO[1:] if over_http else _HTTP[1:]:
        if getattr(given, key) is not None:
            message = f"`{key}` goes with `{'command' if over_http else 'url'}`"
            reader.say("CL207", (*path, key), message, hint="remove it", key=True)
    if over_http and not re.match(r"https?://", VARIABLE.sub("x://", given.url or "").lower()):
        if not (given.url or "").startswith("${"):
            message = f"`{short(given.url or '')}` is not an address"
            reader.say("CL203", (*path, "url"), message, hint="write `https://host/mcp`")
            return False
    return True


def _seconds(reader: Reader, path: Path, value: Any) -> float:
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None or seconds <= 0:
        message = f"`{short(str(value))}` is not a duration above zero"
        reader.say("CL209", path, message, hint="write `30s`")
        return 60.0
    return seconds


def _elicitation(
    reader: Reader, path: Path, given: file.ElicitationShape | None
) -> Elicitation:  # fmt: skip
    usual = Elicitation()
    if given is None:
        return usual
    within = usual.within
    if given.within is not None:
        within = _seconds(reader, (*path, "within"), given.within)
    questions = _number(reader, (*path, "questions"), given.questions, least=0)
    return Elicitation(within, usual.questions if questions is None else questions)


def _sampling(reader: Reader, path: Path, given: file.SamplingShape | None) -> Sampling | None:
    if given is None:
        return None
    calls = _number(reader, (*path, "calls"), given.calls, least=1)
    tokens = _number(reader, (*path, "tokens"), given.tokens, least=1)
    return Sampling(1 if calls is None else calls, tokens)


MOST_ASKED = 1_000
"""The most questions or model calls that a file may allow in one call."""


def _number(reader: Reader, path: Path, value: Any, *, least: int) -> int | None:
    """Read an integer of a server's settings; None if it is missing or, with a finding, invalid."""
    if value is None:
        return None
    most = 10**12 if path[-1] == "tokens" else MOST_ASKED
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        message = f"`{short(str(value))}` is not a whole number from {least} to {most:,}"
        reader.say("CL203", path, message, hint=f"write `{path[-1]}: 5`")
        return None
    return value


# the lock -----------------------------------------------------------------------------------


def _fitting_locks(
    reader: Reader, shape: Mapping[str, file.McpShape], declared: list[ServerSpec], lock: ReadLock
) -> dict[str, LockedServer]:
    """The servers with a lock that fits the file, by name; reports the others."""
    found: dict[str, LockedServer] = {}
    if not declared:
        return found
    inline = {name: one.lock for name, one in shape.items() if one and one.lock is not None}
    name, at = lock_name(reader.document.file), ("mcp_servers",)
    try:
        for server, data in inline.items():
            found[server] = read_server(data, server)
        if len(inline) < len(declared):
            found |= read_lock(lock())
    except LockFault as fault:
        hint = f"write it anew: `chartloop tools lock {reader.document.file}`"
        reader.say("CL431", at, f"`{name}` {fault}", hint=hint, key=True)
        return {}
    except SetupError as error:
        what = "the tools of MCP servers are not locked"
        if reader.document.file.startswith("<"):
            message, hint = f"{what}: a text has no lock beside it", "write the machine to a file"
        else:
            message = f"{what}: {error.message}"
            hint = f"`chartloop tools lock {reader.document.file}` asks the servers and writes it"
        reader.say("CL430", at, message, hint=hint, key=True)
        return {}
    return {server.name: found[server.name] for server in declared if _fits(reader, server, found)}


def _fits(reader: Reader, server: ServerSpec, found: Mapping[str, LockedServer]) -> bool:
    path, again = ("mcp_servers", server.name), f"`chartloop tools lock {reader.document.file}`"
    known = found.get(server.name)
    if known is None:
        text = f"the lock does not have the server `{server.name}`"
        reader.say("CL432", path, text, hint=f"lock it: {again}", key=True)
        return False
    if known.definition != server.definition:
        text = f"the lock was made for another `{server.name}`:"
        text += " its command, address or environment differ"
        reader.say("CL432", path, text, hint=f"lock it again: {again}", key=True)
        return False
    if len(known.tools) > MOST_TOOLS:
        text = f"the file takes {len(known.tools):,} tools of `{server.name}`, more than"
        text = f"{text} {MOST_TOOLS}, which is what a model can be offered"
        hint = f"name the ones that you need: `tools: [{server.name}.NAME]`"
        reader.say("CL434", path, text, hint=hint, key=True)
        return False
    return True


# names --------------------------------------------------------------------------------------


def wanted_tools(shape: file.MachineShape) -> Iterator[str]:
    """The names and patterns of servers' tools anywhere in a machine."""
    named: list[Any] = list(shape.tools or ())
    named += shape.approve.tools if shape.approve is not None else ()
    for state in (shape.states or {}).values():
        if state:
            named += [*(state.allow or ()), *(state.with_ or {}).values()]
    for task in shape.tasks if isinstance(shape.tasks, list) else ():
        if isinstance(task, file.TaskShape) and task.by is not None:
            named += task.by.values()
    servers = set(shape.mcp_servers or {})
    for name in named:
        if isinstance(name, str) and name.partition(".")[0] in servers and " " not in name:
            yield name


def tools_named(reader: Reader, path: Path, name: str) -> list[str]:
    """The tools of a server that match a name or pattern: ``calc.add``, ``calc.*``."""
    server, _, tool = name.partition(".")
    if server in reader.unlocked or "mcp_servers" in reader.shape.lost:
        return [] if "*" in tool else [name]
    spec = reader.servers.get(server)
    if spec is None:
        known = [f"{s}.{t}" for s, one in reader.servers.items() for t in one.tools]
        hint = nearest(name, known) if known else ""
        hint = hint or f"declare it: `mcp_servers: {{{server}: {{command: ...}}}}`"
        message = f"unknown tool `{short(name)}`: there is no MCP server `{short(server)}`"
        reader.say("CL405", path, message, hint=hint, lost=[name])
        return [name]
    if name in set(reader.registry.tools):
        return [name]
    found = [f"{server}.{t}" for t in spec.tools if matches(tool, t)]
    if found:
        return found
    if (why := spec.left_out.get(tool)) is not None:
        message, hint = f"`{short(name)}` cannot be used: {why}", "name another tool"
    else:
        what = "takes no tool" if "*" in tool else "is not a tool"
        message = f"`{short(name)}` {what} of the lock"
        again = f"lock again where it is new: `chartloop tools lock {reader.document.file}`"
        hint = nearest(name, [f"{server}.{t}" for t in spec.tools], otherwise=again)
    reader.say("CL405", path, message, hint=hint, lost=[name])
    return []


def refuse_collisions(reader: Reader, names: Iterable[str]) -> None:
    """Report tools whose wire names collide, because providers allow no dots in names."""
    taken: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = taken.setdefault(wire_name(name), name)
        if other != name:
            text = f"`{short(other)}` and `{short(name)}` are both `{wire_name(name)}` for a model"
            hint = (
                "a provider takes letters, digits, `_` and `-`: name one of the two under `tools`"
            )
            if name.partition(".")[0] != other.partition(".")[0]:
                hint = f"{hint}, or rename a server"
            reader.say("CL433", ("tools",), text, hint=hint, key=True)
