"""The reader of `save`, and the types of results.

Source: `docs/reference/facts.md`; `docs/reference/actions.md`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from chartloop.core.errors import nearest
from chartloop.core.specs import ActionSpec, ToolSpec
from chartloop.core.types import ANY, STR, Type
from chartloop.language.expression.operators import assignable
from chartloop.language.json_schema.reply import ReplySchema
from chartloop.language.json_schema.typed import type_of_schema
from chartloop.language.readers.assignment_targets import Target, read_targets
from chartloop.language.readers.reader import Reader
from chartloop.language.spec import Given, Save
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

_PATH = re.compile(r"result((?:\.[A-Za-z][A-Za-z0-9_]*|\[\d{1,6}\])*)", re.ASCII)
_PART = re.compile(r"\.([A-Za-z][A-Za-z0-9_]*)|\[(\d+)\]", re.ASCII)


def result_of(
    action: ActionSpec | None, args: Mapping[str, Given], tools: Mapping[str, ToolSpec]
) -> Type:
    """The type of an action's result: of the tool that it calls, or with the data of a schema."""
    if action is None:
        return ANY
    called = args.get(action.naming("tool"))
    if called is not None and action.traits.calls == "named" and action.result.kind == "any":
        return tools[called.value].result if called.value in tools else ANY
    asked = next((g.value for g in args.values() if g.kind == "schema"), None)
    if not isinstance(asked, ReplySchema) or action.result.kind != "struct":
        return action.result
    data = ("data", type_of_schema(asked.schema, whole=asked.make is not None))
    return replace(action.result, fields=(*action.result.fields, data))


def read_save(
    reader: Reader, path: Path, shape: Mapping[str, Any] | None, result: Type
) -> tuple[Save, ...]:
    """Read `save`: variables that take a part of the result after a success."""
    out: list[Save] = []
    for target, given in read_targets(reader, path, shape, "CL407", "CL407"):
        saved = _read_save(reader, target, given, result)
        if saved is not None:
            out.append(saved)
    return tuple(out)


def _read_save(reader: Reader, into: Target, given: Any, result: Type) -> Save | None:
    if isinstance(given, str) and ("{{" in given or "{%" in given):
        template = reader.template(into.path, given, extra={"result": result})
        fits = template is not None and _fits(reader, into, STR)
        return Save(into.name, None, template, into.append) if fits else None
    parts = _result_path(given) if isinstance(given, str) else None
    if parts is None:
        message = f"`{short(str(given))}` is not part of the result"
        hint = "write `result.part`, or a template with `{{ result.part }}`"
        reader.say("CL407", into.path, message, hint=hint)
        return None
    found = _part_type(reader, into.path, parts, result)
    if found is None or not _fits(reader, into, found):
        return None
    return Save(into.name, parts, None, into.append)


def _result_path(text: str) -> tuple[str | int, ...] | None:
    """Parse ``result.output.world[0]`` to a path; None if it is invalid."""
    match = _PATH.fullmatch(text.strip())
    if match is None:
        return None
    return tuple(name or int(index) for name, index in _PART.findall(match[1]))


def part_of(type: Type, parts: Iterable[str | int]) -> Type | None:
    """The type of a part of a result; None if it has no such part."""
    for part in parts:
        found = _inner(type, part)
        if found is None or found.kind == "any":
            return found
        type = found
    return type


def _inner(type: Type, part: str | int) -> Type | None:
    if type.kind == "any":
        return ANY
    if isinstance(part, str) and type.kind == "struct":
        return type.field(part)
    return (type.of or ANY) if type.kind == ("map" if isinstance(part, str) else "list") else None


def _part_type(
    reader: Reader, path: Path, parts: tuple[str | int, ...], result: Type
) -> Type | None:  # fmt: skip
    """The type of a part of the result; None with a finding if there is no such part."""
    for count, part in enumerate(parts):
        if part_of(result, parts[: count + 1]) is None:
            type = part_of(result, parts[:count]) or ANY
            message = f"the result has no `{part}`: it is {type}"
            hint = nearest(str(part), [n for n, _ in type.fields])
            reader.say("CL407", path, message, hint=hint)
            return None
    return part_of(result, parts)


def _fits(reader: Reader, into: Target, found: Type) -> bool:
    """Whether the type may fit the variable; reports it otherwise."""
    if f"vars.{into.name.removeprefix('vars.')}" in reader.broken:
        return False
    if _may_fit(found, into.type):
        return True
    message = f"this is {found}, and `{into.name}` takes {into.type}"
    reader.say("CL104", into.path, message, hint=f"declare `{into.name}` as {type_text(found)}")
    return False


def _may_fit(found: Type, wanted: Type) -> bool:
    """Whether some value of a type fits another, apart from None."""
    if found.kind == "any" or assignable(found.without_none(), wanted):
        return True
    if wanted.kind == "map" and found.kind == "struct" and found.keyed:
        return all(_may_fit(type, wanted.of or ANY) for _, type in found.fields)
    if wanted.kind == found.kind and found.kind in ("list", "map"):
        return _may_fit(found.of or ANY, wanted.of or ANY)
    return found.numeric and wanted.kind in ("duration", "fraction")  # seconds, a share of 1


def type_text(type: Type) -> str:
    """A type in the notation of files."""
    match type.kind:
        case "struct":
            return "map"
        case "enum":
            return "str"
        case "list" | "map":
            return f"{type.kind}[{type_text(type.of or ANY)}]"
        case _:
            return type.kind
