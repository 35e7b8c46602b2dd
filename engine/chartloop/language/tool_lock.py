"""The lock of a machine's MCP tools, as their servers offered them when the lock was made.

``machine.tools.lock.json`` lies beside ``machine.yaml``. It holds the name, description and
schemas of every tool that the file names. So proofs, pictures and reviews need no server, and a
server whose tools differ from the reviewed ones is noticed.

Belongs here: the format of the lock, its making from a server's listing, and the difference of two
locks. Never: a file, a server, or the machine that names the tools.

Source: MCP 2025-11-25 "Tools", SEP-986 (names of tools).
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from chartloop.language.json_schema.cost import deepest_data
from chartloop.language.json_schema.validator import (
    ServerSchema,
    UnusableSchemaError,
    dialect_of,
    meta_fault,
    too_deep,
)
from chartloop.language.json_schema.walk import subschemas
from chartloop.language.yaml.document import short

SUFFIX = ".tools.lock.json"
FORMAT = 1
"""The format of the lock that this chartloop reads and writes."""
MOST_TOOLS = 128
"""The most tools of one server that a machine may name: providers accept no more in a request."""
_LARGEST = 20_000
"""The longest description in characters; a schema as JSON may be five times as long."""
_SHOWN = 120
_LINES = 12
"""The most differences of one tool that are shown."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


class LockFault(ValueError):
    """A text is not a valid lock, or was changed by hand; the message names the fault."""


@dataclass(frozen=True)
class LockedTool:
    """A tool as its server offered it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """JSON Schema of the arguments."""
    output: Mapping[str, Any] | None = None
    """JSON Schema of the structured result, if the server declares one."""
    title: str = ""
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The server's claims about the tool, such as that it is read-only. They are for people;
    chartloop does not rely on them."""

    def to_dict(self) -> dict[str, Any]:
        """The tool as plain data without empty fields; its name is the key."""
        fields = {
            "title": self.title, "description": self.description,
            "parameters": dict(self.parameters),
            "output": None if self.output is None else dict(self.output),
            "annotations": dict(self.annotations),
        }  # fmt: skip
        return {name: value for name, value in fields.items() if value not in ("", None, {})}

    @cached_property
    def hash(self) -> str:
        """The hash of all fields, the name included."""
        return _hash([self.name, self.to_dict()])

    @cached_property
    def note(self) -> str:
        """A peculiarity of its schemas that a reviewer should know; usually empty."""
        for schema in (self.parameters, self.output):
            if any(inner.get("nullable") is True for _, inner in subschemas(schema)):
                return "says `nullable`, which is not JSON Schema: null is refused there"
        return ""

    @cached_property
    def result_validator(self) -> ServerSchema | None:
        """The validator of its structured results; None if it declares no schema of them."""
        return None if self.output is None else server_schema(self.output)


@dataclass(frozen=True)
class LockedServer:
    """The tools of one server that a machine names."""

    definition: str
    """The hash of the server's declaration in the file: see `definition_hash`."""
    tools: Mapping[str, LockedTool] = field(default_factory=dict[str, LockedTool])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """The unusable tools that the file names, each with the reason."""

    def to_dict(self) -> dict[str, Any]:
        """The server as plain data, sorted by name."""
        tools = {n: {**t.to_dict(), "hash": t.hash} for n, t in sorted(self.tools.items())}
        more = {
            "left_out": dict(sorted(self.left_out.items())),
            "notes": {n: t.note for n, t in sorted(self.tools.items()) if t.note},
        }
        data: dict[str, Any] = {"definition": self.definition, "tools": tools}
        return data | {key: value for key, value in more.items() if value}


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def definition_hash(definition: Mapping[str, Any]) -> str:
    """The hash that identifies a server: its command or address, without the values of secrets."""
    return _hash(definition)


def lock_name(file: str) -> str:
    """The name of the lock that belongs to a machine file."""
    name = re.split(r"[/\\:]", file)[-1]
    return re.sub(r"\.ya?ml$", "", name) + SUFFIX


# what a server offers -----------------------------------------------------------------------


def lock_offers(
    definition: str, offers: Iterable[Any], wanted: Callable[[str], bool]
) -> LockedServer:
    """Lock the wanted tools of a server's listing.

    `offers` are tools as ``tools/list`` returns them, whatever they are; they are read one by one.
    An unusable tool is left out, with the reason.
    """
    times: Counter[str] = Counter()
    tools: dict[str, LockedTool] = {}
    left_out: dict[str, str] = {}
    for offer in offers:
        given = cast("Mapping[str, Any]", offer if isinstance(offer, Mapping) else {})
        name = str(given.get("name", ""))
        if not wanted(name):
            continue
        times[name] += 1
        if times[name] > 1:
            tools.pop(name, None)
            left_out[_printable(name[:_SHOWN])] = f"offered {times[name]} times under one name"
        elif why := _unusable(name, given):
            left_out[_printable(name[:_SHOWN])] = why
        else:
            claims = cast("Mapping[str, Any]", given.get("annotations") or {})
            tools[name] = LockedTool(
                name, given.get("description") or "", dict(given["inputSchema"]),
                given.get("outputSchema"), given.get("title") or "",
                {k: v for k, v in claims.items() if v is not None},
            )  # fmt: skip
    return LockedServer(definition, tools, left_out)


def _unusable(name: str, offer: Mapping[str, Any]) -> str:
    """The reason why a tool of a listing is unusable; empty if it is usable."""
    for key, kind, what in (
        ("name", str, "a text"), ("title", str, "a text"), ("description", str, "a text"),
        ("annotations", Mapping, "a mapping"),
    ):  # fmt: skip
        if not isinstance(offer.get(key), (kind, type(None))):
            return f"its `{key}` is not {what}"
    schema = offer.get("inputSchema")
    why = _trouble(name, offer.get("description") or "", schema, offer.get("outputSchema"))
    if not why and schema is not None and "type" not in schema:
        return "its `inputSchema` has no `type: object`, which the protocol demands"
    return why


def _trouble(name: str, description: str, schema: Any, output: Any) -> str:
    """The reason why an offered or locked tool is unusable; empty if it is usable."""
    if not _NAME.fullmatch(name):
        return "its name has other signs than letters, digits, `_`, `-` and `.`, or over 128"
    if len(description) > _LARGEST:
        return f"its description is longer than {_LARGEST:,} characters"
    kind = cast("Mapping[str, Any]", schema).get("type") if isinstance(schema, Mapping) else None
    if kind not in (None, "object"):
        return f"its `inputSchema` is of type {short(str(kind))}, not object"
    why = schema_trouble(schema, "`inputSchema`")
    return why or ("" if output is None else schema_trouble(output, "`outputSchema`"))


def schema_trouble(schema: Any, what: str) -> str:
    """The reason why a schema of a server is unusable; empty if it is usable."""
    if not isinstance(schema, Mapping):
        return f"its {what} is not a JSON Schema"
    given = cast("Mapping[str, Any]", schema)
    try:
        large = len(json.dumps(given, default=str)) > _LARGEST * 5 or too_deep(given, 60)
    except RecursionError:
        large = True
    if large:
        return f"its {what} is too large"
    dialect = dialect_of(given)
    plain = {name: value for name, value in given.items() if name != "$schema"}
    if (fault := meta_fault(plain, dialect)) is not None:
        named = f", as it says, of `{dialect}`" if "$schema" in given else ""
        return f"its {what} is not a JSON Schema{named}: {fault}"
    try:
        server_schema(given)
    except UnusableSchemaError as error:
        return f"its {what} cannot be used: {error}"
    return "" if deepest_data(given) > 0 else f"checking its {what} could take for ever"


def server_schema(schema: Mapping[str, Any]) -> ServerSchema:
    """Compile a schema of a server. Raises `UnusableSchemaError` for an invalid one."""
    return ServerSchema(schema, deepest_data(schema))


# text ---------------------------------------------------------------------------------------


def write_lock(servers: Mapping[str, LockedServer]) -> str:
    """Write a lock as text, deterministically and with invisible characters escaped."""
    data = {
        "chartloop_lock": FORMAT,
        "servers": {name: server.to_dict() for name, server in sorted(servers.items())},
    }
    return _printable(json.dumps(data, indent=2, ensure_ascii=False)) + "\n"


def _printable(text: str) -> str:
    """Escape the invisible characters of a text as JSON does."""
    return "".join(
        c if c == "\n" or unicodedata.category(c) not in _HIDDEN else json.dumps(c)[1:-1]
        for c in text
    )


_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def read_lock(text: str) -> dict[str, LockedServer]:
    """Read the locked servers of a lock, by name. Raises `LockFault`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LockFault(f"is not JSON: {error}") from None
    if not isinstance(data, dict) or "chartloop_lock" not in data:
        raise LockFault("is not a lock of MCP tools: it has no `chartloop_lock`")
    lock = cast("dict[str, Any]", data)
    if lock["chartloop_lock"] != FORMAT:
        raise LockFault(f"has format {short(str(lock['chartloop_lock']))}, and {FORMAT} is known")
    servers = _mapping(lock.get("servers"), "servers")
    return {name: read_server(server, name) for name, server in servers.items()}


def read_server(data: Any, name: str) -> LockedServer:
    """Read one server of a lock. Raises `LockFault`."""
    server = _mapping(data, name)
    tools = {
        tool: _read_tool(tool, _mapping(entry, f"{name}.{tool}"), name)
        for tool, entry in _mapping(server.get("tools"), f"{name}.tools").items()
    }
    left_out = _mapping(server.get("left_out", {}), f"{name}.left_out")
    return LockedServer(
        str(server.get("definition", "")), tools, {n: str(why) for n, why in left_out.items()}
    )


def _read_tool(name: str, data: Mapping[str, Any], server: str) -> LockedTool:
    given = {n: v for n, v in data.items() if n != "hash"}
    for key, value in given.items():
        wanted = _WRITTEN.get(key)
        if wanted is None:
            raise LockFault(f"has an unknown key `{short(key)}` in `{server}.{name}`")
        if not isinstance(value, wanted):
            what = "a text" if wanted is str else "a mapping"
            raise LockFault(f"is damaged: `{key}` of `{server}.{name}` is not {what}")
    tool = LockedTool(name, **given)
    if tool.hash != data.get("hash"):
        raise LockFault(f"was changed by hand: the hash of `{server}.{name}` is another")
    if why := _trouble(name, tool.description, tool.parameters, tool.output):
        raise LockFault(f"holds `{server}.{name}`, but {why}")
    return tool


_WRITTEN: Mapping[str, type] = {
    "title": str, "description": str, "parameters": dict, "output": dict, "annotations": dict,
}  # fmt: skip
"""The fields of a locked tool besides name and hash, with their types."""


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LockFault(f"is damaged: `{short(name)}` is not a mapping")
    return cast("dict[str, Any]", value)


# difference ---------------------------------------------------------------------------------


def differences(
    before: Mapping[str, LockedServer], after: Mapping[str, LockedServer]
) -> Iterator[str]:
    """The changes from one lock to another, as lines: ``~ calc.add description: ...``."""
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and old.definition != new.definition:
            yield f"~ {name}: the file declares another command or address"
        yield from server_differences(
            name, old or LockedServer(""), new or LockedServer("")
        )  # fmt: skip


def server_differences(name: str, old: LockedServer, new: LockedServer) -> Iterator[str]:
    """The changes in one server's tools, as lines."""
    for tool in sorted({*old.tools, *new.tools}):
        before, after = old.tools.get(tool), new.tools.get(tool)
        if before is None and after is not None:
            yield f"+ {name}.{tool}: {_shorten(after.description)}"
            if after.note:
                yield f"! {name}.{tool} {after.note}"
        elif after is None:
            gone = new.left_out.get(tool, "")
            yield f"- {name}.{tool}" + (f": {gone}" if gone else "")
        elif before is not None and before.hash != after.hash:
            lines = list(_changes(before.to_dict(), after.to_dict(), ()))
            yield from (f"~ {name}.{tool} {line}" for line in lines[:_LINES])
            if len(lines) > _LINES:
                yield f"~ {name}.{tool} and {len(lines) - _LINES} more"
    for tool, why in sorted(new.left_out.items()):
        if old.left_out.get(tool) != why and tool not in old.tools:
            yield f"! {name}.{tool} is left out: {why}"


def _changes(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        before, after = cast("Mapping[str, Any]", old), cast("Mapping[str, Any]", new)
        for key in dict.fromkeys((*before, *after)):
            yield from _changes(before.get(key, _NONE), after.get(key, _NONE), (*path, key))
    elif old != new:
        yield f"{'.'.join(path)}: {_say(old)} → {_say(new)}"


_NONE = object()


def _say(value: Any) -> str:
    return "nothing" if value is _NONE else _shorten(json.dumps(value, ensure_ascii=False))


def _shorten(text: str) -> str:
    text = _printable(" ".join(text.split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern; ``*`` matches any characters."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    at = len(first)
    for part in rest[:-1]:  # not by `re`, which could try a server's name for ever
        if (found := name.find(part, at)) < 0:
            return False
        at = found + len(part)
    return name.startswith(first) and name.endswith(rest[-1]) and at + len(rest[-1]) <= len(name)


def wanted_by(patterns: Iterable[str]) -> Callable[[str], bool]:
    """A predicate for the tool names that match any of the patterns."""
    all_patterns = tuple(patterns)
    return lambda name: any(matches(pattern, name) for pattern in all_patterns)
