"""The readers of declarations: limits, variables, definitions, memory blocks.

Source: `docs/language.md`, "The file"
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Place, nearest
from chartloop.core.types import ANY, FLOAT, STR, Type, parse_type, type_of
from chartloop.core.units import parse_number
from chartloop.language.expression import Expression, ExpressionFault, parse
from chartloop.language.file import file
from chartloop.language.file.unreadable import names_in
from chartloop.language.readers.quantities import coerce, doubtful, nonneg, quantity
from chartloop.language.readers.reader import NULLABLE, Reader
from chartloop.language.spec import BlockSpec, LimitSpec, VarSpec
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

__all__ = ["coerce", "read_defines", "read_limits", "read_memory", "read_vars", "whole"]

_LIMIT_HINT = "a number, `30m`, `95%`, true, a list of texts, or `{type: duration, value: null}`"
_TYPES = "bool int float str duration fraction list[T] map[T] any"


def read_limits(reader: Reader, shape: Mapping[str, Any] | None) -> dict[str, LimitSpec]:
    """Read `limits`: named thresholds."""
    out: dict[str, LimitSpec] = {}
    for name, given in (shape or {}).items():
        path: Path = ("limits", name)
        if given is file.LOST:
            reader.broken.add(f"limits.{name}")
            out[name] = LimitSpec(nonneg(FLOAT).maybe(), None)
        elif isinstance(given, file.TypedValue):
            type, value = _read_typed(reader, path, given, limit=True)
            out[name] = LimitSpec(nonneg(type).maybe(), value, True)
        elif given is None:
            out[name] = LimitSpec(nonneg(FLOAT).maybe(), None)
        elif (found := quantity(given)) is not None:
            out[name] = LimitSpec(nonneg(found[0]), found[1])
        else:
            message = f"limit `{short(name)}` cannot be `{short(str(given))}`"
            _broken(reader, "CL209", path, message, _LIMIT_HINT)
            out[name] = LimitSpec(ANY, given)
    return out


def read_vars(reader: Reader, shape: Mapping[str, Any] | None) -> dict[str, VarSpec]:
    """Read `vars`: variables with their initial values."""
    out: dict[str, VarSpec] = {}
    for name, given in (shape or {}).items():
        path: Path = ("vars", name)
        if given is file.LOST:
            reader.broken.add(f"vars.{name}")
            out[name] = VarSpec(ANY)
        elif isinstance(given, file.TypedValue):
            out[name] = VarSpec(*_read_typed(reader, path, given, limit=False))
        elif given is None or given == []:
            hint = 'write `{type: "list[str]", value: []}`'
            message = f"`vars.{short(name)}` must name its type"
            _broken(reader, "CL209", path, message, hint)
            out[name] = VarSpec(ANY, given)
        else:
            value: Any = tuple(cast(list[Any], given)) if isinstance(given, list) else given
            out[name] = VarSpec(type_of(value), value)
    return out


def _read_typed(
    reader: Reader, path: Path, given: file.TypedValue, *, limit: bool
) -> tuple[Type, Any]:
    """Read the type and the value of `{type, value}`."""
    type = parse_type(given.type)
    if type is None or (limit and (type.kind in ("map", "any") or type.of not in (None, STR))):
        hint = "bool int float str duration fraction list[str]" if limit else _TYPES
        message = f"`{short(given.type)}` is not a type" + (" of a limit" if type else "")
        _broken(reader, "CL209", (*path, "type"), message, hint)
        return ANY, given.value
    wanted = type.maybe() if limit else type
    fits, value = coerce(wanted, given.value)
    below = limit and isinstance(value, (int, float)) and value < 0
    better = doubtful(type, given.value)
    if not fits or below or better:
        code = "CL209" if limit or better else "CL104"
        hint = f"write `{better}`" if better else _example(type, limit=limit)
        why = "is below 0, which no limit may be" if below else f"is not of type {type}"
        message = f"`{short(str(given.value))}` {why}"
        _broken(reader, code, (*path, "value"), message, hint)
    return type, value


def _example(type: Type, *, limit: bool) -> str:
    texts = {"duration": "write `30m`", "fraction": "write `95%`", "int": "write `1_000`"}
    if type.kind in texts:
        return texts[type.kind]
    return _LIMIT_HINT if limit else f"write a value of type {type}"


def _broken(reader: Reader, code: str, path: Path, message: str, hint: str) -> None:
    """Report a fault in a declaration, so that its uses are not reported."""
    reader.say(code, path, message, hint=hint)
    reader.broken.add(f"{path[0]}.{path[1]}")


def define_texts(shape: Mapping[str, Any] | None) -> dict[str, str]:
    """The texts of `define`; empty for one that could not be read."""
    return {n: t if isinstance(t, str) else repr(t or "") for n, t in (shape or {}).items()}


def read_defines(
    reader: Reader, shape: Mapping[str, Any] | None, given: Mapping[str, str]
) -> dict[str, Expression]:
    """Read `define`: named expressions, including those that the caller replaces.

    They are inlined and typed where they are used, so that a fact that may be None is judged
    there; here they are only read. Leaves the texts in the reader's scope.
    """
    texts = define_texts(shape)
    for name in given.keys() - texts.keys():
        place = Place(f"--define {name}", 1, 1, max(1, len(given[name])), given[name])
        message = f"the file defines no `{short(name)}`"
        reader.findings.append(finding("CL103", message, place, hint=nearest(name, texts)))
    replaced = {n: t for n, t in given.items() if n in texts}
    texts |= replaced
    for name in texts:
        if name in reader.scope.roots or keyword.iskeyword(name):
            message = f"`{name}` cannot be defined: the name has a meaning already"
            reader.say("CL204", ("define", name), message, hint="take another name", key=True)
    reader.scope = replace(reader.scope, defines=texts)
    reader.broken |= {n for n, text in (shape or {}).items() if text is file.LOST}
    out: dict[str, Expression] = {}
    for name, text in texts.items():
        if name in reader.broken:
            continue
        made = _define(reader, name, text, replaced=name in replaced)
        if made is None:
            reader.broken.add(name)
        else:
            out[name] = made
    reader.defined = out
    return out


def _define(reader: Reader, name: str, text: str, *, replaced: bool) -> Expression | None:
    scope = reader.scope.narrow(NULLABLE)
    if not replaced:
        return reader.expression(("define", name), text, None, scope)
    try:
        return parse(text, scope)
    except ExpressionFault as fault:
        if not names_in(text) & reader.broken:
            place = Place(f"--define {name}", 1, 1, 1, text).inside(fault.offset, fault.width)
            found = finding(fault.code, fault.message, place, hint=fault.hint, at=f"define.{name}")
            reader.findings.append(found)
        return None


READS_MEMORY = "core_memory_read"
"""The tool for reading a block that is not in the prompt."""


def read_memory(reader: Reader, shape: Mapping[str, Any] | None) -> dict[str, BlockSpec]:
    """Read `memory`: named blocks of text. Source: 004 "Agent with Memory Blocks"."""
    out: dict[str, BlockSpec] = {}
    for name, given in (shape or {}).items():
        path: Path = ("memory", name)
        if given is file.LOST or isinstance(given, str):
            out[name] = BlockSpec(given or "")
            continue
        limit = whole(reader, (*path, "limit"), given.limit)
        template = None
        if given.template is not None:
            at = (*path, "template")
            template = reader.template(at, given.template, only={"value": STR, "label": STR})
        if limit is not None and len(given.value) > limit:
            text = f"the text of block `{name}` has {len(given.value)} characters, over its {limit}"
            hint = "raise `limit`, or shorten the text"
            reader.say("CL404", (*path, "value"), text, hint=hint)
        listed = "tools" not in reader.shape.lost and file.is_whole(reader.shape.tools)
        if given.on_demand and READS_MEMORY not in reader.tools and listed:
            text = f"block `{name}` is read on demand, and the machine has no tool that reads it"
            hint = f"list `{READS_MEMORY}` in `tools`"
            reader.say("CL405", (*path, "on_demand"), text, hint=hint)
        out[name] = BlockSpec(given.value, limit, given.label or "", template, given.on_demand)
    return out


def whole(reader: Reader, path: Path, value: Any) -> int | None:
    """Read a count, also as `1_000`; None if it is missing or, with a finding, invalid."""
    if value is None:
        return None
    found = parse_number(value) if isinstance(value, str) else value
    if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
        message = f"`{short(str(value))}` is not a whole number above 0"
        reader.say("CL209", path, message, hint="write `1_000`")
        return None
    return found
