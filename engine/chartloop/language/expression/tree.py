"""The checked tree: what an expression is once every name and type in it is settled.

A node exists only if the checker let it through, so that whoever walks the tree (compiler,
sign analysis, readings) meets no surprise. Every node has its `type` and its `text` as
written; a name under `define` is replaced by the tree of its text.

Belongs here: the node kinds and walks over them. Never: typing rules, Python's `ast`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from chartloop.core.types import Type

MIRROR = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "==": "==", "!=": "!="}
"""The operator that says the same with its sides exchanged."""
INVERSE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
"""The operator that holds when this one does not."""
ORDER = frozenset({">=", ">", "<=", "<"})


class Const(NamedTuple):
    """A literal; ``duration("24h")`` too, as seconds."""

    type: Type
    text: str
    value: Any


class Step(NamedTuple):
    """One way down: an attribute, or an item of a mapping."""

    name: str
    keyed: bool
    counter: bool = False
    """The item is a count of something that may never have happened: 0 when it is not there."""


class Fact(NamedTuple):
    """A fact as the table of facts names it: ``usage.total_tokens``, ``run.visits.plan``."""

    type: Type
    text: str
    path: str
    steps: tuple[Step, ...]

    @property
    def is_limit(self) -> bool:
        """Whether it is a threshold: it changes only from outside."""
        return self.path.startswith("limits.")


class Local(NamedTuple):
    """The variable of a comprehension."""

    type: Type
    text: str
    name: str


class Field(NamedTuple):
    """A field of a struct, or an item of a map, further down than a fact."""

    type: Type
    text: str
    base: Node
    step: Step


class Element(NamedTuple):
    """An element of a list or map, by a constant."""

    type: Type
    text: str
    base: Node
    key: int | str


class Indexed(NamedTuple):
    """An element of a list, by an index that is computed: ``vars.plan[vars.i]``."""

    type: Type
    text: str
    base: Node
    at: Node


class Logic(NamedTuple):
    """``a and b and ...``, or the same with `or`."""

    type: Type
    text: str
    op: Literal["and", "or"]
    parts: tuple[Node, ...]


class Not(NamedTuple):
    """``not part``."""

    type: Type
    text: str
    part: Node


class Link(NamedTuple):
    """One comparison of a chain, with what is on its right."""

    op: str
    right: Node
    absent: bool | None = None
    """What the link says when a side is None; None when neither side can be."""


class Compare(NamedTuple):
    """A chain of comparisons; mostly of one link."""

    type: Type
    text: str
    first: Node
    links: tuple[Link, ...]


class Arith(NamedTuple):
    """``left op right`` for ``+ - * / // %``."""

    type: Type
    text: str
    op: str
    left: Node
    right: Node


class Negative(NamedTuple):
    """``-part``."""

    type: Type
    text: str
    part: Node


class Choice(NamedTuple):
    """``then if test else other``."""

    type: Type
    text: str
    test: Node
    then: Node
    other: Node


class Items(NamedTuple):
    """A list literal."""

    type: Type
    text: str
    items: tuple[Node, ...]


class Pairs(NamedTuple):
    """A map literal."""

    type: Type
    text: str
    keys: tuple[str, ...]
    items: tuple[Node, ...]


class Call(NamedTuple):
    """``len min max abs round``."""

    type: Type
    text: str
    name: str
    args: tuple[Node, ...]


class Method(NamedTuple):
    """A method of a string."""

    type: Type
    text: str
    base: Node
    name: str
    args: tuple[Node, ...]


class Each(NamedTuple):
    """``any/all/count/sum(element for var in source if ...)``."""

    type: Type
    text: str
    name: str
    var: str
    source: Node
    element: Node
    conditions: tuple[Node, ...]


class Opaque(NamedTuple):
    """A registered Python predicate."""

    type: Type
    text: str
    name: str
    args: tuple[Node, ...]


Node: TypeAlias = (
    Const | Fact | Local | Field | Element | Indexed | Logic | Not | Compare | Arith | Negative
    | Choice | Items | Pairs | Call | Method | Each | Opaque
)  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below, in the order of the text."""
    match node:
        case Const() | Fact() | Local():
            return ()
        case Field(base=base) | Element(base=base):
            return (base,)
        case Logic(parts=parts):
            return parts
        case Not(part=part) | Negative(part=part):
            return (part,)
        case Compare(first=first, links=links):
            return (first, *(link.right for link in links))
        case Arith(left=left, right=right) | Indexed(base=left, at=right):
            return (left, right)
        case Choice(test=test, then=then, other=other):
            return (then, test, other)
        case Items(items=items) | Pairs(items=items):
            return items
        case Call(args=args) | Opaque(args=args):
            return args
        case Method(base=base, args=args):
            return (base, *args)
        case Each(element=element, source=source, conditions=conditions):
            return (element, source, *conditions)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def facts_of(node: Node) -> dict[str, Fact]:
    """Every fact that is read, by its path."""
    return {n.path: n for n in walk(node) if isinstance(n, Fact)}


def path_of(node: Node) -> str | None:
    """The dotted path that a `None` test makes known; None for what has no name."""
    match node:
        case Fact(path=path) | Local(name=path):
            return path
        case Field(base=base, step=step):
            above = path_of(base)
            return above and f"{above}.{step.name}"
        case Element(base=base, key=key):
            above = path_of(base)
            return above and f"{above}[{key!r}]"
        case _:
            return None


def is_none(node: Node) -> bool:
    """Whether it is the literal None."""
    return isinstance(node, Const) and node.value is None
