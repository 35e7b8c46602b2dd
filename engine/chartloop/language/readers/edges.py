"""The reader of edges and assignments.

Source: `docs/language.md`, "States"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

from chartloop.core.types import ANY, Type, parse_type, struct
from chartloop.language.expression import Expression, Scope
from chartloop.language.file import file
from chartloop.language.readers.assignment_targets import read_targets
from chartloop.language.readers.quantities import coerce
from chartloop.language.readers.reader import UNREAD_GUARD, Reader, items
from chartloop.language.spec import RETURN, Assign, Edge, EdgeRole
from chartloop.language.yaml.document import short
from chartloop.language.yaml.reading import Path

RESERVED = frozenset({"advance", "check", "expired"})
"""The engine's own triggers."""
_RETURNING = frozenset({"next", "then", "else", "case"})
_GUARDED = frozenset({"next", "on"})


class Slot(NamedTuple):
    """The place and the role of an edge."""

    path: Path
    source: str
    role: EdgeRole
    id: str
    trigger: str = "advance"
    case: str = ""
    data: tuple[tuple[str, Type], ...] = ()


def read_edge(reader: Reader, slot: Slot, shape: Any, scope: Scope) -> Edge | None:
    """Read one edge; None if its target is unknown."""
    if shape is file.LOST:
        return None
    written = isinstance(shape, file.EdgeShape)
    edge = shape if written else file.EdgeShape(to=str(shape))
    target = _target(reader, slot, (*slot.path, "to") if written else slot.path, edge.to)
    if not written:
        return target and _make_edge(slot, target)
    when = _guard(reader, slot, edge, scope)
    if when is not None:
        scope = scope.narrow(when.implies(True))
    sets = read_sets(reader, (*slot.path, "set"), edge.set, scope)
    stop = reader.reason((*slot.path, "stop"), edge.stop) if edge.stop is not None else ""
    if edge.message is not None and not edge.wrote("stop"):
        message, hint = "`message` goes with `stop`", "add `stop`, or remove `message`"
        reader.say("CL207", (*slot.path, "message"), message, hint=hint, key=True)
    simple = reader.simple(slot.path, edge)
    if target == RETURN and (sets or stop):
        _clash(
            reader,
            (*slot.path, "set" if sets else "stop"),
            "`return` takes no `set` or `stop`",
        )
    return target and replace(_make_edge(slot, target), when=when, set=sets, stop=stop, **simple)


def _make_edge(slot: Slot, target: str) -> Edge:
    return Edge(
        slot.id, slot.source, target, slot.role, slot.trigger, case=slot.case, data=slot.data,
        path=slot.path,
    )  # fmt: skip


def _target(reader: Reader, slot: Slot, path: Path, name: str) -> Any:
    if name == RETURN and slot.role in _RETURNING:
        return name
    if name == RETURN:
        text = f"`{slot.role}` cannot lead to `return`"
        reader.say("CL313", path, text, hint="`return` goes with `next`, `then`, `else`, `cases`")
        return None
    return reader.state(path, name)


def _guard(
    reader: Reader, slot: Slot, edge: file.EdgeShape, scope: Scope
) -> Expression | None:  # fmt: skip
    if edge.when is None:
        return UNREAD_GUARD if slot.role in _GUARDED and "when" in edge.lost else None
    if slot.role in _GUARDED:
        return reader.guard((*slot.path, "when"), edge.when, scope)
    word = "on_error" if slot.role == "error" else "cases" if slot.role == "case" else slot.role
    _clash(reader, (*slot.path, "when"), f"an edge under `{word}` takes no guard")
    return None


def _clash(reader: Reader, path: Path, message: str) -> None:
    reader.say("CL207", path, message, hint=f"remove `{path[-1]}`", key=True)


def read_edges(reader: Reader, slot: Slot, shape: Any, scope: Scope) -> list[Edge]:
    """Read one edge or an ordered list. Each scope includes that the edges before did not hold."""
    if not isinstance(shape, list):
        made = read_edge(reader, slot, shape, scope)
        return [made] if made else []
    out: list[Edge] = []
    given = items(cast("list[Any]", shape))
    for number, one in given:
        at = (*slot.path, number)
        made = read_edge(reader, slot._replace(path=at, id=f"{slot.id}.{number}"), one, scope)
        bare = not isinstance(one, file.EdgeShape) or not one.wrote("when")
        if bare and number < given[-1][0]:
            message = "this edge has no `when`: the edges after it can never be taken"
            reader.say("CL321", at, message, hint="move it to the end, or give it a `when`")
        if made is not None:
            out.append(made)
            if made.when is not None:
                scope = scope.narrow(made.when.implies(False))
    return out


def read_event(reader: Reader, state: str, event: str, shape: Any) -> list[Edge]:
    """Read the edges of one event of a wait, with the data of its answer."""
    path: Path = ("states", state, "on", event)
    if event in RESERVED:
        message = f"`{event}` is an event of the engine itself"
        reader.say("CL320", path, message, hint=f"take another name, `{event}_by_user`", key=True)
        reader.unread.lose_way(reader.base + path)
        return []
    data: dict[str, Type] = {}
    several = isinstance(shape, list)
    shapes: list[Any] = list(shape) if several else [shape]  # pyright: ignore[reportUnknownArgumentType]
    for number, one in enumerate(shapes):
        at = (*path, number) if several else path
        _data_of(reader, (*at, "data"), one, data)
    scope = reader.at(state, "entry")
    answer = {**scope.typed, "last.answer": struct(data, keyed=True)}
    scope = replace(scope, typed=answer).narrow({"last.answer"})
    slot = Slot(path, state, "on", f"{state}.on.{event}", event, data=tuple(data.items()))
    return read_edges(reader, slot, shape, scope)


def _data_of(reader: Reader, path: Path, shape: Any, data: dict[str, Type]) -> None:
    """Read the fields of an answer, which all edges of an event share."""
    given: Mapping[str, str] = getattr(shape, "data", None) or {}
    for name, text in given.items():
        at = (*path, name)
        type = None if text is file.LOST else parse_type(text)
        if type is None and text is not file.LOST:
            hint = "bool int float str duration fraction list[T] map[T]"
            reader.say("CL209", at, f"`{short(text)}` is not a type", hint=hint)
        if type is None:
            reader.broken.add(f"last.answer.{name}")
        elif data.get(name, type) != type:
            message = f"`{name}` is {data[name]} in another edge of this event"
            reader.say("CL104", at, message, hint="declare each field once")
        data.setdefault(name, type or ANY)


def read_sets(
    reader: Reader, path: Path, shape: Mapping[str, Any] | None, scope: Scope
) -> tuple[Assign, ...]:
    """Read `set`: variables with a constant or an expression each."""
    out: list[Assign] = []
    for target, given in read_targets(reader, path, shape, "CL103", "CL104"):
        made = _value(reader, target.path, given, target.type, scope)
        if made is not None:
            out.append(Assign(target.name, made[0], target.append))
    return tuple(out)


def _value(reader: Reader, path: Path, value: Any, type: Type, scope: Scope) -> tuple[Any] | None:
    """A constant of the type, else an expression. In a tuple, since None may be meant."""
    if f"vars.{path[-1]}" in reader.broken:
        return None
    if not isinstance(value, str) or type.kind in ("duration", "fraction", "int", "float"):
        fits, constant = coerce(type, value)
        if fits:
            return (constant,)
    if isinstance(value, str):
        want = None if type.kind == "any" else type
        made = reader.expression(path, value, want, scope)
        return None if made is None else (made,)
    shown = "nothing" if value is None else f"`{short(str(value))}`"
    hint = f"write an expression that gives {type}"
    reader.say("CL104", path, f"{shown} is not of type {type}", hint=hint)
    return None
