"""Whether one condition on the calls of a tool implies another: yes, no with arguments, or unknown.

*Yes* is a proof by `decide`: the first condition, the bounds of the tool's schema, and the opposite
of the second condition contradict each other. *No* is shown by arguments that the tool accepts, its
schema and its parser, and for which the compiled conditions, those that a run evaluates, are true
and false. `boundaries` proposes them.

A gate whose condition cannot be evaluated holds the call back (`actions.approval`), so such a call
meets the second condition. It meets the first condition only if that is a gate's too.

A condition may also read facts and registered guards. In both conditions they have the values of
the moment at which the gate decides. A *yes* holds for all these values, and a *no* depends on none
of them: it is not known here which values a run can reach, so a difference that needs one is
*unknown*.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeGuard

from chartloop.analysis.proofs.guards.boundaries import part_of, proposed_arguments
from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.formula import key
from chartloop.analysis.proofs.guards.prover import Claim, Prover
from chartloop.core.specs import ToolSpec
from chartloop.core.types import BOOL
from chartloop.core.visible import visible_json
from chartloop.language.approval import call_type
from chartloop.language.call_data import arguments_got, defaults_of
from chartloop.language.expression import (
    GUARD_ERRORS,
    Expression,
    ExpressionFault,
    Scope,
    no_oracle,
    parse,
)
from chartloop.language.expression.compile import function
from chartloop.language.expression.expression import fails_itself
from chartloop.language.expression.runtime import Function
from chartloop.language.expression.tree import (
    Choice,
    Compare,
    Const,
    Each,
    Fact,
    Field,
    Local,
    Logic,
    Node,
    Not,
    Opaque,
    Step,
    children,
    path_of,
    walk,
)
from chartloop.language.json_schema.validator import ServerSchema

Walk: TypeAlias = Callable[[Node], Iterator[Node]]
Verdict: TypeAlias = bool | Literal["fails"]
_ALWAYS = Const(BOOL, "True", True)
_ANY_WORLD = World()
_BOUNDS = {
    "minimum": ("", "{0} >= {1!r}"), "exclusiveMinimum": ("", "{0} > {1!r}"),
    "maximum": ("", "{0} <= {1!r}"), "exclusiveMaximum": ("", "{0} < {1!r}"),
    "minLength": ("string", "len({0}) >= {1!r}"), "maxLength": ("string", "len({0}) <= {1!r}"),
    "minItems": ("array", "len({0}) >= {1!r}"), "maxItems": ("array", "len({0}) <= {1!r}"),
    "enum": ("", "{0} in {1!r}"), "const": ("", "{0} == {1!r}"),
}  # fmt: skip
"""The keywords of a schema that are conditions: on which type of data, and as text."""


class Implication(NamedTuple):
    """Whether every call that meets one condition meets the other."""

    holds: bool | None
    """None if that is unknown."""
    arguments: Mapping[str, Any] | None = None
    """For a no: the arguments of a call that meets only the first condition."""
    reason: str = ""
    """For a no: those arguments that the conditions read. For an unknown answer: the obstacle."""


def implies(
    premise: Expression | None, conclusion: Expression | None, tool: ToolSpec
) -> Implication:
    """Whether a gate with the condition `conclusion` holds back each call with a true `premise`.

    None is the condition that always holds. Both are compiled with the `call` of this tool, or of
    several tools of which it is one.
    """
    return _compare(premise, conclusion, tool, {True})


def still_holds(old: Expression | None, new: Expression | None, tool: ToolSpec) -> Implication:
    """Whether a gate with the condition `new` holds back each call that one with `old` holds back.

    As `implies`, but a call for which `old` cannot be evaluated is one of them.
    """
    return _compare(old, new, tool, {True, "fails"})


def are_equal(one: Expression, other: Expression) -> bool:
    """Whether two conditions are the same, apart from how they are written."""
    if any(isinstance(expression.root, Opaque) for expression in (one, other)):
        return one.text == other.text
    return key(one.root, _ANY_WORLD) == key(other.root, _ANY_WORLD)


def _compare(
    premise: Expression | None, conclusion: Expression | None, tool: ToolSpec,
    meets: Collection[Verdict],
) -> Implication:  # fmt: skip
    if conclusion is None or (premise is not None and are_equal(premise, conclusion)):
        return Implication(True)
    first, second = _ALWAYS if premise is None else premise.root, conclusion.root
    read = [*walk(first), *walk(second)]
    filled = {} if tool.server else defaults_of(tool)
    given, known = _schema_facts(tool, filled)
    met = (first, *(_failures(first, given) if "fails" in meets else ()))
    held = (second, *_failures(second, given, _surely_evaluated))
    claims = [Claim(Logic(BOOL, "", "or", met)), Claim(Logic(BOOL, "", "or", held), holds=False)]
    fields = [n for n in read if isinstance(n, Field) and path_of(n.base) == "call.arguments"]
    names = [*dict.fromkeys(field.step.name for field in fields)]
    if tool.parameters.get("additionalProperties") is False:
        unknown = [f for f in fields if f.step.name not in tool.parameters.get("properties", {})]
        known += map(_failure, unknown)
    proof = Prover(_ANY_WORLD).ask([*claims, *map(Claim, known)])
    outside: dict[str, Sequence[bool | None]] = {}
    sides = [function(_cut(node, given, outside)) for node in (first, second)]

    def differ(arguments: Mapping[str, Any]) -> bool:
        """Whether only the first condition is met, whatever the values outside of the call are."""
        call = {"name": tool.name, "arguments": {**filled, **arguments}}
        for values in product(*outside.values()):
            there = {n: v for n, v in zip(outside, values, strict=True) if v is not None}
            facts = SimpleNamespace(call=call, outside=there)
            one, other = (_verdict(side, facts) for side in sides)
            if one not in meets or other is not False:
                return False
        return True

    try:
        said = {name: filled[name] for name in names if name in filled}
        if proof.possible is False and not (
            said and ServerSchema({**tool.parameters, "required": []}).faults(said)
        ):  # a default that is not valid is filled in all the same
            return Implication(True)
        accepts = ServerSchema(tool.parameters)
        for arguments in proposed_arguments(read, tool.parameters) if len(outside) < 4 else ():
            if differ(arguments) and not accepts.faults(arguments):
                got = arguments_got(tool, json.dumps(arguments))
                if got is not None and differ(got):
                    shown = (f"{n} = {visible_json(arguments[n])}" for n in names if n in arguments)
                    return Implication(False, arguments, ", ".join(shown) or "any arguments")
    except ValueError as error:  # also of a class that cannot be written as data
        return Implication(None, reason=f"no arguments of `{tool.name}` could be made: {error}")
    others = [n.name if isinstance(n, Opaque) else n.path for n in read if _is_outside(n)]
    listed = "`, `".join(dict.fromkeys(others))
    open_ = f"it may depend on `{listed}`, which no call decides"
    none = "neither a proof was found, nor arguments that show otherwise"
    return Implication(None, reason=open_ if others else none)


# the proof ----------------------------------------------------------------------------------


def _schema_facts(tool: ToolSpec, filled: Collection[str]) -> tuple[set[str], list[Node]]:
    """The paths of the arguments that each call has, and what the schema says of their values."""
    scope = Scope({}, extra={"call": call_type({tool.name: tool.parameters})})
    given, texts = {"call", "call.name", "call.arguments"}, [f"call.name == {tool.name!r}"]
    todo: list[tuple[str, str, Any]] = [("call.arguments", "call.arguments", tool.parameters)]
    while todo:
        path, text, schema = todo.pop()
        part, nullable = part_of(schema, tool.parameters)
        unless = f"{text} is None or " if nullable else ""
        for word in part.keys() & _BOUNDS.keys():
            kind, condition = _BOUNDS[word]
            if not kind or kind in part.get("type", kind):
                value = part[word]
                words = [v for v in value if v is not None] if word == "enum" else value
                texts.append(unless + condition.format(text, words))
        if nullable:
            continue
        texts += [f"{text} is not None"] if part.keys() & {"type", "enum", "const"} else []
        for name, inner in part.get("properties", {}).items():
            is_filled = path == "call.arguments" and name in filled
            if is_filled or name in part.get("required", ()):
                todo.append((f"{path}.{name}", f"{text}[{name!r}]", inner))
                given.add(f"{path}.{name}")
    known: list[Node] = []
    for text in texts:
        with suppress(ExpressionFault):
            known.append(parse(text, scope, want=BOOL).root)
    return given, known


def _failures(node: Node, given: Collection[str], evaluated: Walk = walk) -> list[Node]:
    """The ways in which a condition fails: an argument is missing, a number divided by 0, ...

    Each has a fact of its own, that a part fails once it is evaluated. `evaluated`: which parts
    of a comparison are.
    """
    if isinstance(node, Not):
        return _failures(node.part, given, evaluated)
    if isinstance(node, Logic):
        passed = [Not(BOOL, "", one) if node.op == "or" else one for one in node.parts]
        return [
            Logic(BOOL, "", "and", (*passed[:number], way))
            for number, part in enumerate(node.parts)
            for way in _failures(part, given, evaluated)
        ]
    return [
        _failure(part)
        for part in evaluated(node)
        if fails_itself(part)
        and path_of(part) not in given
        and (isinstance(part, Each) or not any(isinstance(n, Local) for n in walk(part)))
    ]


def _failure(part: Node) -> Fact:
    name = f"{key(part, _ANY_WORLD)} fails"
    return Fact(BOOL, name, name, ())


def _surely_evaluated(node: Node) -> Iterator[Node]:
    """The parts of a condition that are evaluated for every call."""
    yield node
    inner = children(node)
    match node:
        case Choice(test=test):
            inner = (test,)
        case Logic():
            inner = inner[:1]
        case Compare(links=links):
            inner = inner[: 1 if any(link.absent is not None for link in links) else 2]
        case _:
            pass
    for child in inner:
        yield from _surely_evaluated(child)


# the search ---------------------------------------------------------------------------------


def _is_outside(node: Node) -> TypeGuard[Fact | Opaque]:
    return isinstance(node, Opaque) or (isinstance(node, Fact) and node.path != "call")


def _cut(node: Node, given: Collection[str], outside: dict[str, Sequence[bool | None]]) -> Node:
    """The condition, with a variable in place of each part that reads more than the call.

    `outside` gets the possible values of these variables; None: evaluating the part fails.
    """
    match node:
        case Not(part=part):
            return node._replace(part=_cut(part, given, outside))
        case Logic(parts=parts):
            return node._replace(parts=tuple(_cut(part, given, outside) for part in parts))
        case _ if any(map(_is_outside, walk(node))):
            name = key(node, _ANY_WORLD)
            outside[name] = (True, False, None) if _failures(node, given) else (True, False)
            return Fact(BOOL, name, name, (Step("outside", False), Step(name, True)))
        case _:
            return node


def _verdict(evaluate: Function, facts: Any) -> Verdict:
    """The value of a condition, read as the engine does."""
    try:
        return evaluate(facts, no_oracle) is not False
    except GUARD_ERRORS:
        return "fails"
