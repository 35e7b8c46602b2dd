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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
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
from chartloop.language.expression.tree import (
    Choice,
    Const,
    Each,
    Fact,
    Local,
    Logic,
    Node,
    Not,
    Opaque,
    children,
    path_of,
    walk,
)
from chartloop.language.json_schema.least_value import NoLeastValueError
from chartloop.language.json_schema.validator import UnusableSchemaError, Validator

Verdict: TypeAlias = bool | Literal["fails"] | None
"""The value of a condition for given arguments; None if it depends on more than these."""
_ALWAYS = Const(BOOL, "True", True)
_ANY_WORLD = World()
_LENGTH = {
    "minLength": ">=", "maxLength": "<=", "minItems": ">=", "maxItems": "<=",
}  # fmt: skip
_BOUNDS = {
    "minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<",
    "enum": "in", "const": "==", **_LENGTH,
}  # fmt: skip
"""The keywords of a schema that are conditions, as operators."""


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
    given, known = _schema_facts(tool)
    met = (first, *(_errors(first, given) if "fails" in meets else ()))
    held = (second, *_errors(_always_evaluated(second), given))
    claims = [Claim(Logic(BOOL, "", "or", met)), Claim(Logic(BOOL, "", "or", held), holds=False)]
    if Prover(_ANY_WORLD).ask([*claims, *map(Claim, known)]).possible is False:
        return Implication(True)
    meets_first, meets_second = _judge(first, given), _judge(second, given)

    def differ(arguments: Mapping[str, Any]) -> bool:
        facts = SimpleNamespace(
            call={"name": tool.name, "arguments": {**tool.defaults, **arguments}}
        )
        return meets_first(facts) in meets and meets_second(facts) is False

    read = [*walk(first), *walk(second)]
    try:
        accepts = Validator(tool.parameters)
        for arguments in proposed_arguments(read, tool.parameters):
            if differ(arguments) and not accepts.faults(arguments):
                parsed = _parsed(tool, arguments)
                if parsed is not None and differ(parsed):
                    return Implication(False, arguments, _shown(arguments, read))
    except (NoLeastValueError, UnusableSchemaError) as error:
        return Implication(None, reason=f"no arguments of `{tool.name}` could be made: {error}")
    outside = [n.path if isinstance(n, Fact) else n.name for n in read if _is_outside(n)]
    if outside:
        names = "`, `".join(dict.fromkeys(outside))
        return Implication(None, reason=f"it may depend on `{names}`, whose values are not known")
    return Implication(None, reason="neither a proof was found, nor arguments that show otherwise")


def _shown(arguments: Mapping[str, Any], read: Iterable[Node]) -> str:
    """The arguments that some nodes read, as text: ``usd = 500``."""
    paths = [path_of(node) or "" for node in read]
    return ", ".join(
        f"{name} = {visible_json(value)}" for name, value in arguments.items()
        if f"call.arguments.{name}" in paths
    ) or "any arguments"  # fmt: skip


def _parsed(tool: ToolSpec, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arguments as a condition reads them; None if the tool refuses them."""
    try:
        parsed = tool.parse(json.dumps(arguments))
        return json.loads(
            json.dumps(parsed, default=lambda v: getattr(v, "model_dump", v.__dict__.copy)())
        )
    except Exception:  # noqa: BLE001  the application's own types may raise anything
        return None


# the proof ----------------------------------------------------------------------------------


def _schema_facts(tool: ToolSpec) -> tuple[set[str], list[Node]]:
    """The paths of the arguments that each call has, and what the schema says of their values."""
    scope = Scope({}, extra={"call": call_type({tool.name: tool.parameters})})
    given, texts = {"call", "call.name", "call.arguments"}, [f"call.name == {tool.name!r}"]
    todo: list[tuple[str, Any]] = [("call.arguments", tool.parameters)]
    while todo:
        path, schema = todo.pop()
        part, nullable = part_of(schema, tool.parameters)
        for word, op in _BOUNDS.items():
            if word in part:
                value = f"len({path})" if word in _LENGTH else path
                texts.append(
                    (f"{path} is None or " if nullable else "") + f"{value} {op} {part[word]!r}"
                )
        for name, inner in () if nullable else part.get("properties", {}).items():
            if name in part.get("required", ()) or (
                path == "call.arguments" and name in tool.defaults
            ):
                given.add(f"{path}.{name}")
                todo.append((f"{path}.{name}", inner))
    known: list[Node] = []
    for text in texts:
        with suppress(ExpressionFault):
            known.append(parse(text, scope, want=BOOL).root)
    return given, known


def _errors(node: Node, given: Collection[str]) -> list[Node]:
    """What may make it fail, each as a fact of its own: an argument that is missing, a division."""
    found = [n for n in walk(node) if fails_itself(n) and path_of(n) not in given]
    found = [
        n for n in found if isinstance(n, Each) or not any(isinstance(m, Local) for m in walk(n))
    ]
    names = dict.fromkeys(f"{key(n, _ANY_WORLD)} fails" for n in found)
    return [Fact(BOOL, name, name, ()) for name in names]


def _always_evaluated(node: Node) -> Node:
    """The part of a condition that is evaluated for every call."""
    while isinstance(node, (Logic, Not, Choice)):
        node = node.test if isinstance(node, Choice) else children(node)[0]
    return node


# the search ---------------------------------------------------------------------------------


def _is_outside(node: Node) -> TypeGuard[Fact | Opaque]:
    return isinstance(node, Opaque) or (isinstance(node, Fact) and node.path != "call")


def _judge(node: Node, given: Collection[str]) -> Callable[[Any], Verdict]:
    """A function that evaluates a condition as the engine does, given the facts of `call` alone."""
    if not any(map(_is_outside, walk(node))):
        compiled = function(node)

        def evaluate(facts: Any) -> Verdict:
            try:
                return compiled(facts, no_oracle) is not False
            except GUARD_ERRORS:
                return "fails"

        return evaluate
    match node:
        case Not(part=part):
            inner = _judge(part, given)
            return lambda facts: not v if isinstance(v := inner(facts), bool) else v
        case Logic(op=op, parts=parts):
            judges = [_judge(part, given) for part in parts]
            certain = [not _errors(part, given) for part in parts]
            return partial(_judge_all, op == "and", judges, certain)
        case _:
            return lambda _: None


def _judge_all(
    every: bool, judges: Sequence[Callable[[Any], Verdict]], certain: Sequence[bool], facts: Any
) -> Verdict:
    """The value of `and` (`every`) or `or`; `certain` are the parts that cannot fail."""
    out: Verdict = every
    for judge, sure in zip(judges, certain, strict=True):
        value = judge(facts)
        if value is None and sure:
            out = None
        elif value is None or (value == "fails" and out is None):
            return None
        elif value is not every:
            return value
    return out
