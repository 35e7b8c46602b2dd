"""The checked tree: an expression with every name and type resolved.

Only the checker makes nodes, so that users of the tree (compiler, sign analysis, readings) can rely
on them. Every node has its `type` and its original `text`; a name under `define` is replaced by
the tree of its text.

Belongs here: the node kinds and walks over them. Never: typing rules, Python's `ast`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from chartloop.core.types import Type

MIRROR = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "==": "==", "!=": "!="}
"""The equivalent operator with the sides exchanged."""
INVERSE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
"""The negation of each operator."""
ORDER = frozenset({">=", ">", "<=", "<"})


class Const(NamedTuple):
    """A literal, or ``duration("24h")`` in seconds."""

    type: Type
    text: str
    value: Any


class Step(NamedTuple):
    """A step of a path: an attribute, or an item of a mapping."""

    name: str
    keyed: bool
    counter: bool = False
    """Whether the item is a counter, which is 0 if it is missing."""


class Fact(NamedTuple):
    """A fact by its full name: ``usage.total_tokens``, ``run.visits.plan``."""

    type: Type
    text: str
    path: str
    steps: tuple[Step, ...]

    @property
    def is_limit(self) -> bool:
        """Whether it is a limit, which only a caller can change."""
        return self.path.startswith("limits.")


class Local(NamedTuple):
    """The variable of a comprehension."""

    type: Type
    text: str
    name: str


class Field(NamedTuple):
    """A field of a struct or an item of a map, below a fact."""

    type: Type
    text: str
    base: Node
    step: Step


class Element(NamedTuple):
    """An element of a list or map, by a constant index or key."""

    type: Type
    text: str
    base: Node
    key: int | str


class Indexed(NamedTuple):
    """An element of a list, by a computed index: ``vars.plan[vars.i]``."""

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
    """One comparison of a chain: the operator and the right side."""

    op: str
    right: Node
    absent: bool | None = None
    """The result if a side is None; None if neither side can be."""


class Compare(NamedTuple):
    """A chain of comparisons, usually of one link."""

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
    """The direct children of a node, in the order of the text."""
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
    """The node and all its descendants."""
    yield node
    for child in children(node):
        yield from walk(child)


def facts_of(node: Node) -> dict[str, Fact]:
    """The facts that an expression reads, by path."""
    return {n.path: n for n in walk(node) if isinstance(n, Fact)}


def path_of(node: Node) -> str | None:
    """The dotted path of a node for `None` tests; None if it has no path."""
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
    """Whether a node is the literal None."""
    return isinstance(node, Const) and node.value is None
