"""Reads what stands round the states: limits, variables, memory, model, reasons, tasks.

Imported by: language.load
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.reasons import REASONS, StopReason
from interlock.core.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    FRACTION,
    INT,
    STR,
    Type,
    accepts,
    list_of,
    parse_type,
    type_of,
)
from interlock.core.units import parse_duration, parse_fraction, parse_number
from interlock.language import file
from interlock.language.reader import Reader
from interlock.language.spec import BlockSpec, LimitSpec, VarSpec
from interlock.language.yaml import Path

_LIMIT_HINT = "a number, `30m`, `95%`, true, a list of texts, or `{type: duration, value: null}`"


def nonneg(type: Type) -> Type:
    """The type of a limit: quantities are never negative."""
    return Type(
        type.kind,
        of=type.of,
        nullable=type.nullable,
        nonneg=type.numeric or type.kind == "duration",
    )


def quantity(value: Any) -> tuple[Type, Any] | None:
    """What a limit that is written plainly means: its type and value."""
    if isinstance(value, bool):
        return BOOL, value
    if isinstance(value, int):
        return (INT, value) if value >= 0 else None
    if isinstance(value, float):
        return (FLOAT, value) if value >= 0 else None
    if isinstance(value, list):
        return list_of(STR), tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, str):
        for type, read in (
            (INT, parse_number),
            (FRACTION, parse_fraction),
            (DURATION, parse_duration),
        ):
            if (found := read(value)) is not None:
                return type, found
    return None


def coerce(type: Type, value: Any) -> tuple[bool, Any]:
    """A plain value as one of a declared type: ``30m`` for a duration. (fits, value)"""
    if isinstance(value, str) and type.kind != "str":
        found = quantity(value)
        if found is None:
            return False, value
        value = found[1]
    if isinstance(value, list):
        value = tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if (
        type.kind in ("float", "duration", "fraction")
        and isinstance(value, int)
        and not isinstance(value, bool)
    ):
        value = float(value)
    return accepts(type, value), value


def read_limits(reader: Reader, shape: Mapping[str, Any] | None) -> dict[str, LimitSpec]:
    """`limits`: named thresholds."""
    out: dict[str, LimitSpec] = {}
    for name, given in (shape or {}).items():
        path: Path = ("limits", name)
        place = reader.place(path)
        if isinstance(given, file.TypedValue):
            type = parse_type(given.type)
            if type is None:
                reader.say(
                    "IL209",
                    (*path, "type"),
                    f"`{given.type}` is no type",
                    hint="bool int float str duration fraction list[str]",
                )
                continue
            type = nonneg(type).maybe()
            fits, value = coerce(type, given.value)
            if not fits:
                reader.say(
                    "IL209",
                    (*path, "value"),
                    f"`{given.value}` is no {given.type}",
                    hint=_LIMIT_HINT,
                )
            out[name] = LimitSpec(type, value if fits else None, True, place)
        elif given is None:
            out[name] = LimitSpec(nonneg(FLOAT).maybe(), None, False, place)
        elif (found := quantity(given)) is not None:
            out[name] = LimitSpec(nonneg(found[0]), found[1], False, place)
        else:
            reader.say("IL209", path, f"limit `{name}` cannot be `{given}`", hint=_LIMIT_HINT)
            out[name] = LimitSpec(ANY, given, False, place)
    return out


def read_vars(reader: Reader, shape: Mapping[str, Any] | None) -> dict[str, VarSpec]:
    """`vars`: variables with their first values."""
    out: dict[str, VarSpec] = {}
    for name, given in (shape or {}).items():
        path: Path = ("vars", name)
        place = reader.place(path)
        if isinstance(given, file.TypedValue):
            type = parse_type(given.type)
            if type is None:
                reader.say(
                    "IL209",
                    (*path, "type"),
                    f"`{given.type}` is no type",
                    hint="bool int float str duration fraction list[T] map[T] any",
                )
                type = ANY
            fits, value = coerce(type, given.value)
            if not fits:
                reader.say(
                    "IL104",
                    (*path, "value"),
                    f"the first value of `vars.{name}` is no {type}",
                    hint=f"write a value of type {type}",
                )
            out[name] = VarSpec(type, value, place)
        elif given is None or isinstance(given, list):
            reader.say(
                "IL209",
                path,
                f"`vars.{name}` must name its type",
                hint='`{type: "list[str]", value: []}`',
            )
            out[name] = VarSpec(ANY, given, place)
        else:
            out[name] = VarSpec(type_of(given), given, place)
    return out


def read_memory(reader: Reader, shape: Mapping[str, Any] | None) -> dict[str, BlockSpec]:
    """`memory`: named blocks of text. Source: 004 "Agent with Memory Blocks"."""
    out: dict[str, BlockSpec] = {}
    for name, given in (shape or {}).items():
        path: Path = ("memory", name)
        if isinstance(given, str):
            out[name] = BlockSpec(given, place=reader.place(path))
            continue
        limit = whole(reader, (*path, "limit"), given.limit)
        template = None
        if given.template is not None:
            template = reader.template(
                (*path, "template"), given.template, extra={"value": STR, "label": STR}
            )
        if limit is not None and len(given.value) > limit:
            reader.say(
                "IL404",
                (*path, "value"),
                f"the text of block `{name}` has {len(given.value)} characters, over its limit of {limit}",
            )
        out[name] = BlockSpec(given.value, limit, given.label or "", template, reader.place(path))
    return out


def whole(reader: Reader, path: Path, value: Any) -> int | None:
    """A whole number of things, `1_000` too; None when there is none."""
    if value is None:
        return None
    found = parse_number(value) if isinstance(value, str) else value
    if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
        reader.say("IL209", path, f"`{value}` is no whole number above 0")
        return None
    return found


def read_model(reader: Reader, shape: file.ModelShape | None) -> dict[str, Any]:
    """`model`: settings for the model calls, as plain data with quantities read."""
    if shape is None:
        return {}
    out = shape.model_dump(exclude_none=True)
    for name in ("max_tokens", "context_window"):
        if name in out and (found := whole(reader, ("model", name), out[name])) is not None:
            out[name] = found
    if (timeout := out.get("timeout")) is not None:
        seconds = parse_duration(timeout) if isinstance(timeout, str) else None
        if seconds is None or seconds <= 0:
            reader.say(
                "IL209", ("model", "timeout"), f"`{timeout}` is no duration", hint="write `60s`"
            )
        out["timeout"] = seconds
    return out


def read_reasons(
    reader: Reader, shape: Mapping[str, file.ReasonShape] | None
) -> dict[str, StopReason]:
    """`reasons`: the built-in ones with the file's own."""
    own = {n: StopReason(n, r.priority, r.forced, r.status) for n, r in (shape or {}).items()}
    if "highest" in own:
        reader.say(
            "IL204",
            ("reasons", "highest"),
            "`highest` is not a reason: it names the signals already raised",
            key=True,
        )
        del own["highest"]
    return {**REASONS, **own}


def read_tasks(shape: Any) -> tuple[dict[str, Any], ...] | str | None:
    """`tasks`: the queue's first tasks, or the file that holds them (read when a run starts)."""
    if shape is None:
        return None
    if isinstance(shape, file.TaskFile):
        return shape.file
    return tuple(
        {"id": t.id or f"task_{n}", **t.model_dump(exclude={"id"}, exclude_none=True)}
        for n, t in enumerate(shape, 1)
    )


def read_tools(reader: Reader, names: list[str] | None) -> tuple[str, ...]:
    """`tools`: registered tools, in the order in which the model sees them."""
    out: list[str] = []
    for n, name in enumerate(names or []):
        path: Path = ("tools", n)
        if "." in name:
            reader.say("IL205", path, f"`{name}`: tools of MCP servers are not in this version")
        elif name not in reader.registry.tools:
            reader.name(path, name, reader.registry.tools, "tool", "IL405")
            out.append(name)
        elif name in out:
            reader.say("IL207", path, f"tool `{name}` is listed twice")
        else:
            out.append(name)
    return tuple(out)
