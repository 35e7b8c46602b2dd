"""The words that a file writes into its variables.

A variable that is only saved from enums or set to quoted texts has one of a few words, so another
word in a guard or case is misspelt. A variable that the file never writes is a parameter, and one
that takes a text from a model, a template or an application may have any value.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from chartloop.core.types import Type, Words
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Choice, Const, Fact, Indexed, Items, Node, walk
from chartloop.language.readers.saves import part_of
from chartloop.language.spec import Assign, Given, MachineSpec, StateSpec
from chartloop.language.template.template import Template

_QUOTED = re.compile("'([^']*)'|\"([^\"]*)\"")

Source = frozenset[str] | Expression | None
"""A source of words: the words, an expression of them, or None for any text."""


def written_words(spec: MachineSpec) -> dict[str, Words]:
    """The words of each variable whose possible values are all known."""
    actions = (s.action for s in spec.states.values() if s.action is not None)
    if any(action.writes_any_variable for action in actions):
        return {}
    written: dict[str, list[Source]] = {}
    for name, source in _writes(spec):
        written.setdefault(name, []).append(source)
    first = {n: _first(v.value) for n, v in spec.vars.items() if _holds_words(v.type)}
    found = {n: first[n] for n in written if n in first}
    while True:  # a variable that is set from another has its words too
        wider = {n: _join_words(found, n, written[n]) for n in found}
        known = {n: words for n, words in wider.items() if words is not None}
        if known == found:
            return {n: Words(tuple(sorted(w)), f"vars.{n}", "file") for n, w in known.items()}
        found = known


def doubts_a_word(spec: MachineSpec, words: Mapping[str, Words]) -> bool:
    """Whether a guard, case or value may name a word that its variable does not have."""
    if not words:
        return False
    return any(
        said - set(words[name].known) - {""}
        for said, reads in _literals(spec)
        for name in reads & words.keys()
    )


def _holds_words(type: Type) -> bool:
    inner = type.of if type.kind == "list" else type
    return inner is not None and inner.kind == "str"


def _first(value: Any) -> frozenset[str]:
    """The words of an initial value; a value of another type has its own finding."""
    if isinstance(value, str):
        return frozenset((value,))
    several = cast("list[Any]", value) if isinstance(value, (list, tuple)) else []
    return frozenset(v for v in several if isinstance(v, str))


def _join_words(
    found: Mapping[str, frozenset[str]], name: str, sources: Iterable[Source]
) -> frozenset[str] | None:
    words = found[name]
    for source in sources:
        more = _words_of(source.root, found) if isinstance(source, Expression) else source
        if more is None:
            return None
        words |= more
    return words


def _words_of(node: Node, found: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    """The words that an expression may evaluate to; None for any text."""
    match node:
        case Const(value=str() as value):
            return frozenset([value])
        case Items(items=items):
            return _of_all(items, found)
        case Choice(then=then, other=other):
            return _of_all((then, other), found)
        case Indexed(base=base):
            return _words_of(base, found)
        case Fact(path=path) if path.startswith("vars."):
            return found.get(path.removeprefix("vars."))
        case _:
            return _words_of_type(node.type)


def _of_all(nodes: Iterable[Node], found: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    parts = [_words_of(node, found) for node in nodes]
    known = [part for part in parts if part is not None]
    return frozenset[str]().union(*known) if len(known) == len(parts) else None


def _words_of_type(type: Type) -> frozenset[str] | None:
    inner = type.of if type.kind == "list" and type.of is not None else type
    if inner.kind == "enum":
        return frozenset(inner.values)
    known = inner.words is not None and inner.words.of == "all"
    return frozenset(inner.words.known) if inner.words is not None and known else None


# what the file writes -----------------------------------------------------------------------


def _writes(spec: MachineSpec) -> Iterator[tuple[str, Source]]:
    for state in spec.states.values():
        yield from _assigned_words(state.set)
        yield from _saved_words(state)
        for target, given in state.args.items():
            if target.startswith("vars."):
                yield _name(target), given.value if isinstance(given.value, Expression) else None
    for edge in (*spec.edges(), *([spec.on_error] if spec.on_error is not None else ())):
        yield from _assigned_words(edge.set)


def _assigned_words(assigns: Iterable[Assign]) -> Iterator[tuple[str, Source]]:
    for one in assigns:
        value: Any = one.value
        known = isinstance(value, (str, list, tuple))
        yield (
            _name(one.target),
            value if isinstance(value, Expression) else _first(value) if known else None,
        )


def _saved_words(state: StateSpec) -> Iterator[tuple[str, Source]]:
    for one in state.save:
        found = None if one.path is None else part_of(state.result, one.path)
        yield _name(one.target), None if found is None else _words_of_type(found)


def _name(target: str) -> str:
    return target.removeprefix("vars.")


# what the file says -------------------------------------------------------------------------


def _literals(spec: MachineSpec) -> Iterator[tuple[set[str], set[str]]]:
    """The quoted texts of expressions and templates, and cases, with the variables read there."""
    for found in _expressions(spec):
        variables = {_name(path) for path in found.reads if path.startswith("vars.")}
        if variables and isinstance(found, Template):
            yield {one or other for one, other in _QUOTED.findall(found.text)}, variables
        elif variables and isinstance(found, Expression):
            yield set(_texts_in(found.root)), variables
    for state in spec.states.values():
        if state.of is not None:
            read = {_name(path) for path in state.of.reads if path.startswith("vars.")}
            yield {edge.case for edge in state.edges_of("case")}, read


def _texts_in(node: Node) -> Iterator[str]:
    for part in walk(node):
        if isinstance(part, Const) and isinstance(part.value, str):
            yield part.value


def _expressions(spec: MachineSpec) -> Iterator[Expression | Template]:
    yield from _in([spec.instructions, *(rule.message for rule in spec.rules)])
    yield from _in([rule.when for rule in spec.rules])
    yield from _in(list(spec.define.values()))
    yield from _in(spec.output)
    for state in spec.states.values():
        yield from _in(
            [
                state.of,
                state.within,
                *(a.value for a in state.set),
                *state.args.values(),
                state.message,
            ]
        )
        for edge in state.edges:
            yield from _in([edge.when, edge.message, *(a.value for a in edge.set)])


def _in(value: Any) -> Iterator[Expression | Template]:
    """Every expression and template in a part of the spec."""
    if isinstance(value, (Expression, Template)):
        yield value
    elif isinstance(value, Given):
        yield from _in(value.value)
    elif isinstance(value, Mapping):
        for inner in cast(Mapping[str, Any], value).values():
            yield from _in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[Any]", value):
            yield from _in(inner)
