"""Python annotations in terms of a machine file: the type and the notation of a field.

`str` is a template; `int`, `float`, `bool`, `list` and `dict` are expressions; a `Literal` is one
of a few words. Markers declare other notations: ``Annotated[str, Name("tool")]``.

Belongs here: reading annotations. Never: functions, pydantic.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from chartloop.core.outcome import Blocked
from chartloop.core.specs import ArgKind
from chartloop.core.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    FRACTION,
    INT,
    NONE,
    STR,
    Type,
    enum_of,
    list_of,
    map_of,
    struct,
)

T = TypeVar("T")

Role = Literal["waits", "repairs", "most_calls", "continues", "adopts"]
"""What a field is to its action: the longest wait of its own, the number of extra attempts that it
may request, of calls of one reply that it executes, of times that it defers stop signals; or the
mapping whose values are the variables that it sets."""

DEEPEST = 5
"""The levels of nested classes that are described; deeper ones are `any`."""


class Name(NamedTuple):
    """``Annotated[str, Name("tool")]``: the literal name of a tool, machine, state or variable."""

    of: str


class Duration:
    """``Annotated[float, Duration]``: seconds, written as a duration or an expression of one."""


class Fraction:
    """``Annotated[float, Fraction]``: a share of 1, like the limit ``95%``."""


class Value:
    """``Annotated[str, Value]``: an expression, unlike a bare `str`, which is a template."""


class Values:
    """``Annotated[dict[str, Any], Values]``: a mapping of expressions."""


class Texts:
    """``Annotated[dict[str, str], Texts]``: a mapping or list of templates."""


class Data:
    """``Annotated[T, Data]``: literal data, checked against `T` when the file is loaded."""


@dataclasses.dataclass(frozen=True)
class Field:
    """``Annotated[T, Field(...)]``: what the type of a field leaves open, or says otherwise."""

    kind: ArgKind | None = None
    """The notation. With it the field's data is not checked against `T`."""
    type: Type | None = None
    about: str = ""
    """The description, if no docstring has it."""
    names: str = ""
    """The kind of thing that it names, as in `Name`; also of each value of a mapping of data."""
    check: Callable[[Any], str | None] | None = None
    """Returns the error in literal data or in a constant, or None."""
    fields: type | None = None
    """For the kind `fields`: a class with the fields of each entry."""
    needs: str = ""
    """The field without which this one has no meaning."""
    at_least: str = ""
    """The field that has no effect if this one is below its value."""
    arguments_of: str = ""
    """The field that names the tool which takes these arguments."""
    role: Role | None = None


class Variables(NamedTuple):
    """``Annotated[Mapping[str, Any], Variables(...)]``: a whole `with` whose keys are variables."""

    check: Callable[[str, Any, Type], str | None]
    """Returns the error in the entry of a variable of that type, or None."""
    kind: ArgKind = "data"
    """The notation of an entry."""
    entry: type | None = None
    """A class with the fields of an entry that is a mapping."""


_MARKED_KINDS: dict[type, ArgKind] = {
    Duration: "duration",
    Fraction: "value",
    Value: "value",
    Values: "values",
    Texts: "texts",
    Data: "data",
}
_MARKED_TYPES: dict[type, Type] = {Duration: DURATION, Fraction: FRACTION}


class Meaning(NamedTuple):
    """The meaning of an annotation for a field of `with`."""

    kind: ArgKind
    type: Type
    choices: tuple[str, ...] = ()
    names: str = ""


def meaning_of(annotation: Any) -> Meaning | None:
    """The meaning of an annotation for a field of `with`; None if its notation is ambiguous."""
    core, marks, _ = _unwrap(annotation)
    said = mark_of(annotation, Field) or Field()
    type_ = said.type or type_from(annotation)
    if said.kind is not None:
        return Meaning(said.kind, type_, names=said.names)
    if name := next((mark for mark in marks if isinstance(mark, Name)), None):
        return Meaning("name", type_, names=name.of)
    if kind := _meaning_of_marks(marks, _MARKED_KINDS):
        return Meaning(kind, type_)
    words = type_from(annotation)
    if words.kind == "enum":
        return Meaning("enum", type_, choices=words.values)
    if type_.kind == "str":
        return Meaning("text", type_)
    obvious = type_.kind not in ("any", "struct", "none") or core is Any
    return Meaning("value", type_) if obvious else None


def mark_of(annotation: Any, of: type[T]) -> T | None:
    """The mark of this class on an annotation, or None."""
    return next((mark for mark in _unwrap(annotation)[1] if isinstance(mark, of)), None)


def has_word_for(annotation: Any) -> bool:
    """Whether the guard language has a type for the annotation. `Any` counts as `any`."""
    return _unwrap(annotation)[0] is Any or type_from(annotation).kind != "any"


def type_from(annotation: Any) -> Type:
    """The type of the guard language for an annotation; `any` if the language has none.

    Classes with fields (TypedDict, dataclass, pydantic model) become keyed structs, because guards
    see a result as JSON data. `Blocked` in a union is not part of the result and is ignored.
    """
    return _type(annotation, 0)


def _type(annotation: Any, depth: int) -> Type:
    core, marks, nullable = _unwrap(annotation)
    type_ = _meaning_of_marks(marks, _MARKED_TYPES) or _core_type(core, depth)
    return type_.maybe() if nullable else type_


def _meaning_of_marks(marks: Sequence[Any], table: Mapping[type, T]) -> T | None:
    """The meaning of the first mark in the table; a mark is a class or an instance of one."""
    return next((v for m in marks for k, v in table.items() if m is k or isinstance(m, k)), None)


def _unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """Split an annotation into its bare form, its marks, and whether it allows None."""
    marks: list[Any] = []
    nullable = False
    while True:
        origin, args = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            annotation, *more = args
            marks += more
        elif members := _members(annotation):
            nullable = nullable or types.NoneType in members
            rest = [a for a in members if a is not types.NoneType]
            if len(rest) != 1:
                return annotation, tuple(marks), nullable
            annotation = rest[0]
        elif origin in (typing.Required, typing.NotRequired):
            annotation = args[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":  # `type X = ...` of Python 3.12
            annotation = annotation.__value__
        else:
            return annotation, tuple(marks), nullable


def _members(annotation: Any) -> tuple[Any, ...]:
    union = get_origin(annotation) in (typing.Union, types.UnionType)
    return get_args(annotation) if union else ()


_PLAIN: dict[Any, Type] = {
    bool: BOOL,
    float: FLOAT,
    int: INT,
    str: STR,
    None: NONE,
    types.NoneType: NONE,
}
_LISTS = (list, tuple, Sequence, Collection)
_MAPS = (dict, Mapping)


def _core_type(core: Any, depth: int) -> Type:
    origin, args = get_origin(core) or core, get_args(core)
    if members := _members(core):
        rest = [a for a in members if a not in (types.NoneType, Blocked)]
        return _one_of([_type(a, depth) for a in rest])
    if origin is Literal:
        return _literal(args)
    if origin in _LISTS:
        return list_of(_one_of([_type(a, depth) for a in args if a is not ...]))
    if origin in _MAPS:
        return map_of(_type(args[1], depth)) if args and args[0] is str else map_of(ANY)
    if not inspect.isclass(core):
        return NONE if core is None else ANY
    if issubclass(core, enum.Enum):
        return _literal([member.value for member in core])
    fields = dict(_fields(core)) if depth < DEEPEST else {}
    if fields:
        made = {n: _type(a, depth + 1) for n, (a, _) in fields.items()}
        may_lack = {n: dataclasses.replace(made[n].maybe(), optional=True)
                    for n, (_, missing) in fields.items() if missing}  # fmt: skip
        return struct({**made, **may_lack}, keyed=True)
    return _PLAIN.get(core, ANY)


def _one_of(types_: Sequence[Type]) -> Type:
    """The common type of several; int and float together are float; `any` if there is none."""
    kinds = set(types_)
    if kinds == {INT, FLOAT}:
        return FLOAT
    return kinds.pop() if len(kinds) == 1 else ANY


def _literal(values: Sequence[Any]) -> Type:
    if values and all(isinstance(value, str) for value in values):
        return enum_of(*(str(value) for value in values))
    return _one_of([_PLAIN.get(type(value), ANY) for value in values])


def _fields(core: Any) -> Iterator[tuple[str, tuple[Any, bool]]]:
    """The fields of a TypedDict, dataclass or pydantic model, and whether a key may be missing.

    A model whose data have other keys than its fields has none here.
    """
    names: Collection[str]
    if hasattr(core, "__required_keys__"):  # `is_typeddict` ignores those of typing_extensions
        names = core.__annotations__
    elif dataclasses.is_dataclass(core):
        names = [field.name for field in dataclasses.fields(core)]
    else:
        names = getattr(core, "model_fields", {})
    more = getattr(core, "model_computed_fields", ())
    if (
        not names
        or "root" in names
        or more
        or getattr(core, "model_config", {}).get("extra") == "allow"
    ):
        return
    optional: Collection[str] = getattr(core, "__optional_keys__", ())
    for name, hint in typing.get_type_hints(core, include_extras=True).items():
        if name in names:
            # `__optional_keys__` is wrong under `from __future__ import annotations`
            yield name, (hint, name in optional or get_origin(hint) is typing.NotRequired)
