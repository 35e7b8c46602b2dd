"""What a key of a machine file is: its kind of value, default, description, and words of a diff.

A part of the file (a state, an edge, a rule) is a class of `Part` with a field for each key. What
reads (`shape`), describes (`schema`), writes and compares files walks these fields, so a key is
described in one place.

    class RuleShape(Part, title="rule", noun="a rule"):
        signal: Text | None = key("signal", "Rules")
        # and below it, as a docstring, the text that editors show

Belongs here: what keys and kinds are. Never: a key of the language (`file`, `parts`), a fault.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

# kinds of values ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of value: any JSON data, if it is no other kind."""

    nullable: bool = False


@dataclass(frozen=True)
class OneOf(Kind):
    """One of some words."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class IsText(Kind):
    """A text: a name or an expression; or prose, where an unquoted number is meant as text."""

    prose: Literal["", "plain", "label", "template"] = ""


@dataclass(frozen=True)
class IsFlag(Kind):
    """True or false; `loose` also takes words such as `yes`."""

    loose: bool = False


@dataclass(frozen=True)
class IsNumber(Kind):
    """A number within bounds; a whole one has no point."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    whole: bool = False


@dataclass(frozen=True)
class IsScalar(Kind):
    """A single YAML value: an expression, a quantity or a constant."""


@dataclass(frozen=True)
class Names:
    """The keys of a mapping that the file gives: declared names, or some words."""

    reserved: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class MapOf(Kind):
    """A mapping with keys of the file's own."""

    of: Kind = Kind()
    names: Names | None = None


@dataclass(frozen=True)
class ListOf(Kind):
    """A list of at least `least` items."""

    of: Kind = Kind()
    least: int = 0


@dataclass(frozen=True)
class IsPart(Kind):
    """A mapping with known keys."""

    part: type[Part] | None = None


@dataclass(frozen=True)
class Either(Kind):
    """One of several kinds, told apart by the form of the value."""

    scalar: Kind | None = None
    mapping: Kind | None = None
    list: Kind | None = None


Text = Annotated[str, IsText()]
Prose = Annotated[str, IsText(prose="plain")]
Label = Annotated[str, IsText(prose="label")]
"""The text of a node or an edge, with facts in single braces."""
Template = Annotated[str, IsText(prose="template")]
"""A text with facts in double braces."""
Flag = Annotated[bool, IsFlag()]
Whole = Annotated[int, IsNumber(whole=True)]
Scalar = Annotated[bool | int | float | str, IsScalar()]
Json = Annotated[Any, Kind()]
Name = Annotated[str, Names()]
"""A name that the file declares. An invalid one is reported but kept, so that it does not become
an unknown name as well."""


def kind_of(annotation: Any) -> Kind:
    """The kind of value that the annotation of a field stands for."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        least = [a for a in args[1:] if isinstance(a, int)]
        if least:
            return replace(cast("ListOf", kind_of(args[0])), least=least[0])
        return next(a for a in args[1:] if isinstance(a, Kind))
    if origin is Literal:
        return OneOf(words=args)
    if origin is dict:
        meta = get_args(args[0])
        words = Names(words=meta) if get_origin(args[0]) is Literal else None
        names = next((a for a in meta if isinstance(a, Names)), words)
        return MapOf(of=kind_of(args[1]), names=names)
    if origin is list:
        return ListOf(of=kind_of(args[0]))
    if origin in (Union, UnionType):
        kinds = [kind_of(arg) for arg in args if arg is not NoneType]
        one = kinds[0]
        if len(kinds) > 1:
            forms: dict[str, Any] = {_form(kind): kind for kind in kinds}
            one = Either(**forms)
        return replace(one, nullable=NoneType in args)
    return IsPart(part=annotation)


def _form(kind: Kind) -> str:
    if isinstance(kind, ListOf):
        return "list"
    return "mapping" if isinstance(kind, (IsPart, MapOf)) else "scalar"


# keys ---------------------------------------------------------------------------------------

Group = Literal[
    "Consent", "States", "Edges", "Rules", "Limits", "Data", "Actions", "Model", "Words"
]
"""The headings of a diff. Changes under `Words` do not affect a run."""

REQUIRED: Any = ...


@dataclass
class Key:
    """One key of a part of the file."""

    says: str = ""
    """The key in a sentence of a diff; empty for its name."""
    group: Group | None = None
    """Its heading in a diff; None for that of its part."""
    cure: str = ""
    """The hint for a value of the wrong kind."""
    default: Any = None
    """Its value when it is not written, or `REQUIRED`."""
    field: str = ""
    """The name of the field: `with_` for the key `with`."""
    kind: Kind = Kind()


def key(says: str = "", group: Group | None = None, *, cure: str = "", default: Any = None) -> Any:
    """Describe a key beyond its kind and default."""
    return Key(says, group, cure, default)


class _Lost:
    """The type of `LOST`."""

    def __bool__(self) -> bool:
        return False


LOST: Any = _Lost()
"""An entry or item that could not be read and has a finding. It counts as false."""


def is_whole(value: Any) -> bool:
    """Whether a value was read with everything in it."""
    match value:
        case Part():
            return not value.lost and all(map(is_whole, vars(value).values()))
        case dict():
            return all(map(is_whole, cast("dict[str, Any]", value).values()))
        case list():
            return all(map(is_whole, cast("list[Any]", value)))
        case _:
            return value is not LOST


class Part:
    """A mapping of the language, with known keys only."""

    called: ClassVar[str] = ""
    """Its name in the JSON Schema."""
    noun: ClassVar[str] = "something else"
    """The part in a sentence: `a state`."""
    _keys: ClassVar[dict[str, Key]] = {}

    lost: frozenset[str] = frozenset()
    """Of an instance: the keys that the file has and that are unknown or could not be read."""

    def __init_subclass__(cls, title: str = "", noun: str = "") -> None:
        cls.called, cls.noun = title, noun or Part.noun
        cls._keys = dict(cls._keys)
        for field in cls.__annotations__:
            given = vars(cls).get(field, REQUIRED)
            made = given if isinstance(given, Key) else Key(default=given)
            made.field = field
            cls._keys[field.rstrip("_")] = made
            setattr(cls, field, None if made.default is REQUIRED else made.default)

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    @classmethod
    def table(cls) -> dict[str, Key]:
        """The keys as files write them."""
        if "_read" not in vars(cls):  # once: annotations may name classes further below
            cls._read = True
            types = get_type_hints(cls, include_extras=True)
            cls._keys = {n: replace(k, kind=kind_of(types[k.field])) for n, k in cls._keys.items()}
        return cls._keys

    @classmethod
    def words(cls) -> frozenset[str]:
        """The keys for people: a change of one changes no run."""
        return frozenset(name for name, key in cls._keys.items() if key.group == "Words")

    def __contains__(self, name: str) -> bool:
        """Whether the file has a key, with a value that could be read."""
        return getattr(self, self._keys[name].field) is not None

    def wrote(self, name: str) -> bool:
        """Whether the file has a key, readable or not."""
        return name in self or name in self.lost

    def but(self, **changes: Any) -> Self:
        """The part with other values for some fields."""
        return type(self)(**{**vars(self), **changes})

    def plain(self, *, written: bool = False) -> dict[str, Any]:
        """The keys with a value, in the order of the table; `written`: only those in the file."""
        found = {name: getattr(self, key.field) for name, key in self._keys.items()}
        return {
            name: value
            for name, value in found.items()
            if value is not None and (not written or self._keys[name].field in vars(self))
        }
