"""Whether one condition on calls implies another: a table of types and operators, and its edges.

A cell is a type of the argument `x` and an operator, with three conditions: one that is asked about,
one that it implies, and one that it does not. Each cell gives six questions: both conclusions alone,
and joined by `and` and `or` with a variable, which no call decides. A `no` is checked by others than
the module: jsonschema accepts its arguments, and in runs the gate with the first condition asks about
the call and the gate with the second does not.

Where the language has no such comparison, it refuses the example of the cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import jsonschema
import pytest
from pydantic import AfterValidator, BaseModel, Field

from chartloop import guard, load
from chartloop.actions.declare import tool_spec
from chartloop.analysis.proofs.guards.implication import Implication, implies, still_holds
from chartloop.core.specs import GuardSpec, ToolSpec
from chartloop.core.types import BOOL, INT, STR, struct
from chartloop.language.approval import call_type
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.readers.reader import NULLABLE
from chartloop.language.server_tools import Arguments

Data = dict[str, Any]
ROOTS = {"vars": struct({"strict": BOOL, "most": INT}, keyed=True)}
GUARDS = {"is_sound": GuardSpec("is_sound", (STR,), bool)}


@guard
def is_sound(text: str) -> bool:
    """A guard of an application."""
    return bool(text)


def tool_of(properties: Data, required: tuple[str, ...] = ("x",), **more: Any) -> ToolSpec:
    """A tool that takes what this schema accepts."""
    schema = {"type": "object", "properties": properties, "required": [*required], **more}
    return ToolSpec("pay", "Pays.", schema, Arguments("pay", schema), paid)


def paid(**_: object) -> str:
    """What each of the tools does."""
    return "paid"


def condition(text: str, *tools: ToolSpec) -> Expression:
    """A condition on calls of these tools, in which ``.x`` is an argument."""
    extra = {"call": call_type({tool.name: tool.parameters for tool in tools})}
    scope = Scope(ROOTS, guards=GUARDS, known=NULLABLE, extra=extra)
    return parse(spelled(text), scope, want=BOOL)


def spelled(text: str) -> str:
    """The condition as it stands in a file."""
    return re.sub(r"(?<![\w\])\"])\.(?=[a-z])", "call.arguments.", text)


def ask(premise: str | None, conclusion: str | None, tool: ToolSpec) -> Implication:
    """The answer for two conditions; None is the one that always holds."""
    first, second = (
        None if text is None else condition(text, tool) for text in (premise, conclusion)
    )
    return implies(first, second, tool)


def is_asked(when: str | None, arguments: Mapping[str, Any], tool: ToolSpec) -> bool:
    """Whether the gate of a run asks about a call, whatever the variables are."""
    found: set[bool] = set()
    for strict in (True, False):
        held = {"tools": ["pay"], **({} if when is None else {"when": spelled(when)})}
        text = {
            "chartloop": 1, "machine": "m", "model": {"name": "scripted"}, "tools": ["pay"],
            "vars": {"strict": strict, "most": 0}, "approve": held,
            "states": {
                "think": {"do": "infer", "next": "act"},
                "act": {"do": "call_tools", "next": "done"}, "done": {"stop": "completed"},
            },
        }  # fmt: skip
        reply = {"text": "", "tool_calls": [{"id": "c", "name": "pay", "arguments": arguments}]}
        run = load(json.dumps(text), tools=[tool], guards=[is_sound]).start("x", script=[reply])
        run.run()
        found.add(run.state == "approve")
    (asked,) = found
    return asked


def check_no(found: Implication, premise: str | None, conclusion: str, tool: ToolSpec) -> None:
    """A `no` whose arguments the schema accepts and the gates decide differently."""
    assert found.holds is False, found
    assert found.arguments is not None
    validator: Any = jsonschema.Draft202012Validator(dict(tool.parameters))
    validator.validate(found.arguments)
    assert is_asked(premise, found.arguments, tool)
    assert not is_asked(conclusion, found.arguments, tool)


# types and operators ------------------------------------------------------------------------

KINDS: dict[str, Data] = {
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string"},
    "enum": {"enum": ["a", "b", "c"]},
    "boolean": {"type": "boolean"},
    "array": {"type": "array", "items": {"type": "integer"}},
    "object": {"type": "object", "properties": {"usd": {"type": "number"}}, "required": ["usd"]},
    "nullable": {"type": ["integer", "null"]},
    "default": {"type": "integer", "default": 7},
    "optional": {"type": "integer"},
}
REQUIRED = {kind: () if kind in ("default", "optional") else ("x",) for kind in KINDS}
TOOLS = {kind: tool_of({"x": schema}, REQUIRED[kind]) for kind, schema in KINDS.items()}

NUMBERS = {
    "<": ("{x} < 10", "{x} < 20", "{x} < 5"),
    "<=": ("{x} <= 10", "{x} < 11", "{x} <= 9"),
    "==": ("{x} == 10", "{x} > 9", "{x} == 11"),
    "!=": ("{x} != 10 and {x} != 11", "{x} != 10", "{x} != 12"),
    ">=": ("{x} >= 10", "{x} > 9", "{x} >= 11"),
    ">": ("{x} > 100", "{x} > 50", "{x} > 1000"),
    "in": ("{x} in [1, 2]", "{x} in [1, 2, 3]", "{x} in [1, 3]"),
    "not in": ("{x} not in [1, 2, 3]", "{x} not in [1, 2]", "{x} not in [4]"),
    "and": ("{x} > 5 and {x} < 10", "{x} > 5", "{x} > 5 and {x} < 8"),
    "or": ("{x} > 5 or {x} < -5", "{x} > 0 or {x} < 0", "{x} > 5"),
    "not": ("not {x} > 5", "{x} <= 5", "not {x} > 3"),
    "chain": ("5 < {x} <= 10", "0 < {x} <= 20", "5 < {x} < 10"),
    "arithmetic": ("{x} + 10 > 30", "{x} + 10 > 20", "{x} + 10 > 40"),
    "function": ("abs({x}) > 10", "abs({x}) > 5", "abs({x}) > 20"),
    "choice": ("(1 if {x} > 5 else 2) < 2", "{x} > 4", "{x} > 6"),
    "is None": ("{x} > 3", "{x} is not None", "{x} is None"),
}
WORDS = {
    "==": ('{x} == "a"', '{x} in ["a", "b"]', '{x} == "b"'),
    "!=": ('{x} != "a" and {x} != "b"', '{x} != "a"', '{x} != "c"'),
    "in": ('{x} in ["a", "b"]', '{x} in ["a", "b", "c"]', '{x} in ["a"]'),
    "not in": ('{x} not in ["a", "b"]', '{x} != "b"', '{x} not in ["c"]'),
    "and": ('{x} != "a" and {x} != "b"', '{x} != "b"', '{x} != "a" and {x} != "c"'),
    "or": ('{x} == "a" or {x} == "b"', '{x} in ["b", "a"]', '{x} == "a"'),
    "not": ('not {x} == "a"', '{x} != "a"', 'not {x} == "b"'),
    "choice": ('("u" if {x} == "a" else "v") == "u"', '{x} == "a"', '{x} == "b"'),
    "is None": ('{x} == "a"', "{x} is not None", "{x} is None"),
}
CELLS: dict[str, dict[str, tuple[str, ...]]] = {
    "integer": NUMBERS,
    "number": {
        **NUMBERS,
        "<=": ("{x} <= 10", "{x} < 10.001", "{x} <= 9.999"),
        ">=": ("{x} >= 10", "{x} > 9.999", "{x} > 10"),
    },
    "string": {
        **WORDS,
        "<": ('{x} < "b" and {x} != "q"', '{x} < "b"', '{x} < "a"'),
        "<=": ('{x} <= "b" and {x} != "q"', '{x} <= "b"', '{x} <= "a"'),
        ">": ('{x} > "a" and {x} != "q"', '{x} > "a"', '{x} > "b"'),
        ">=": ('{x} >= "a" and {x} != "q"', '{x} >= "a"', '{x} > "a"'),
        "chain": ('"a" < {x} < "c" and {x} != "q"', '{x} < "c"', '"a" < {x} < "b"'),
        "len": ("len({x}) > 5", "len({x}) > 2", "len({x}) > 9"),
        "method": ('{x}.startswith("ab") and {x} != "q"', '{x}.startswith("ab")', '{x}.endswith("ab")'),
        "arithmetic": ("len({x}) + 3 > 9", "len({x}) > 5", "len({x}) + 3 > 12"),
        "function": ("max(len({x}), 3) > 5 and len({x}) > 5", "len({x}) > 5", "max(len({x}), 3) > 7"),
        "in text": ('"ab" in {x} and "c" in {x}', '"ab" in {x}', '"abc" in {x}'),
    },
    "enum": {
        **WORDS,
        "!=": ('{x} != "a"', '{x} in ["b", "c"]', '{x} == "b"'),
        "len": ("len({x}) > 0 and len({x}) < 5", "len({x}) > 0", "len({x}) > 1"),
        "method": ('{x}.startswith("a") and {x} != "b"', '{x}.startswith("a")', '{x}.startswith("b")'),
        "arithmetic": ("len({x}) + 3 > 3", "len({x}) > 0", "len({x}) + 3 > 4"),
        "in text": ('"a" in {x} and {x} != "b"', '"a" in {x}', '"b" in {x}'),
    },
    "boolean": {
        "==": ("{x} == True", "{x}", "{x} == False"),
        "!=": ("{x} != True", "not {x}", "{x} != False"),
        "in": ("{x} in [True]", "{x}", "{x} in [False]"),
        "not in": ("{x} not in [True]", "not {x}", "{x} not in [False]"),
        "and": ("{x} and {x} != False", "{x}", "not {x}"),
        "or": ("{x} or False", "{x}", "not {x} or not {x}"),
        "not": ("not {x}", "{x} == False", "{x}"),
        "choice": ("(1 if {x} else 2) < 2", "{x}", "not {x}"),
        "is None": ("{x}", "{x} is not None", "{x} is None"),
    },
    "array": {
        "==": ("{x} == [1, 2] and len({x}) > 0", "{x} == [1, 2]", "{x} == [2, 1]"),
        "!=": ("{x} != [1, 2] and len({x}) > 0", "{x} != [1, 2]", "{x} != [2, 2]"),
        "in": ("10 in {x} and 11 in {x}", "10 in {x}", "12 in {x}"),
        "not in": ("10 not in {x} and 11 not in {x}", "11 not in {x}", "12 not in {x}"),
        "and": ("len({x}) > 1 and len({x}) < 9", "len({x}) > 0", "len({x}) > 1 and len({x}) < 3"),
        "or": ("len({x}) > 5 or len({x}) < 2", "len({x}) > 4 or len({x}) < 3", "len({x}) > 5"),
        "not": ("not len({x}) > 5", "len({x}) <= 5", "not len({x}) > 3"),
        "len": ("len({x}) > 3", "len({x}) > 2", "len({x}) > 5"),
        "chain": ("1 < len({x}) <= 5", "0 < len({x}) <= 9", "1 < len({x}) < 5"),
        "arithmetic": ("len({x}) * 2 > 8", "len({x}) > 4", "len({x}) * 2 > 12"),
        "element": ("{x}[0] > 10", "{x}[0] > 5", "{x}[0] > 20"),
        "function": ("max({x}) > 10", "max({x}) > 5", "max({x}) > 20"),
        "any": ("any(i > 10 for i in {x}) and len({x}) > 0", "any(i > 10 for i in {x})", "any(i > 20 for i in {x})"),
        "all": ("all(i > 10 for i in {x}) and len({x}) > 0", "all(i > 10 for i in {x})", "all(i > 20 for i in {x})"),
        "count": ("count(i > 10 for i in {x}) > 2", "count(i > 10 for i in {x}) > 1", "count(i > 10 for i in {x}) > 3"),
        "sum": ("sum(i for i in {x}) > 100", "sum(i for i in {x}) > 50", "sum(i for i in {x}) > 1000"),
        "choice": ("(1 if len({x}) > 5 else 2) < 2", "len({x}) > 4", "len({x}) > 6"),
        "is None": ("len({x}) > 3", "{x} is not None", "{x} is None"),
    },
    "object": {
        **{op: tuple(text.replace("{x}", "{x}.usd") for text in cell) for op, cell in NUMBERS.items()},
    },
    "nullable": {
        **{
            op: (f"{{x}} is not None and ({premise})", f"{{x}} is not None and ({wide})", f"{{x}} is not None and ({narrow})")
            for op, (premise, wide, narrow) in NUMBERS.items()
        },
        "<": ("{x} is None or {x} < 10", "{x} is None or {x} < 20", "{x} is None or {x} < 5"),
        ">": ("{x} > 100", "{x} > 50", "{x} > 1000"),
        "is None": ("{x} is None", "{x} is None or {x} > 3", "{x} is not None"),
    },
    "default": NUMBERS,
    "optional": {"is None": ("{x} is not None", "{x} is not None or {x} is None", "{x} is None")},
}  # fmt: skip
EXAMPLES = {
    "<": "{x} < {v}", "<=": "{x} <= {v}", ">": "{x} > {v}", ">=": "{x} >= {v}", "==": "{x} == {v}",
    "!=": "{x} != {v}", "in": "{x} in [{v}]", "not in": "{x} not in [{v}]", "and": "{x} and True",
    "or": "{x} or True", "not": "not {x}", "chain": "{v} < {x} < {v}", "arithmetic": "{x} + {v} > {v}",
    "len": "len({x}) > 1", "method": '{x}.startswith("a")', "in text": '"a" in {x}',
    "function": "abs({x}) > 1", "choice": "(1 if {x} else 2) > 1", "is None": "{x} is 3",
    "element": "{x}[0] > 1", "any": "any(i > 1 for i in {x})", "all": "all(i > 1 for i in {x})",
    "count": "count(i > 1 for i in {x}) > 1", "sum": "sum(i for i in {x}) > 1",
}  # fmt: skip
VALUES = {"string": '"a"', "enum": '"a"', "boolean": "True", "array": "[1]", "object": "1"}
GRID = [(kind, op) for kind in KINDS for op in EXAMPLES]


class Question(NamedTuple):
    """Two conditions on the call of a tool with an argument of this kind, and the answer."""

    kind: str
    premise: str
    conclusion: str
    holds: bool | None


def questions() -> dict[str, Question]:
    """The six questions of each cell."""
    out: dict[str, Question] = {}
    for kind, cells in CELLS.items():
        for op, cell in cells.items():
            premise, wide, narrow = (f"({text.format(x='.x')})" for text in cell)
            for name, conclusion, holds in (
                ("implied", wide, True), ("not-implied", narrow, False),
                ("implied-and-more", f"{wide} and vars.strict", None),
                ("implied-or-more", f"vars.strict or {wide}", True),
                ("not-implied-and-more", f"vars.strict and {narrow}", False),
                ("not-implied-or-more", f"{narrow} or vars.strict", None),
            ):  # fmt: skip
                out[f"{kind}-{op}-{name}"] = Question(kind, premise, conclusion, holds)
    return out


QUESTIONS = questions()


@pytest.mark.parametrize("id", QUESTIONS)
def test_a_cell(id: str) -> None:
    kind, premise, conclusion, holds = QUESTIONS[id]
    found = ask(premise, conclusion, TOOLS[kind])
    if holds is False:
        check_no(found, premise, conclusion, TOOLS[kind])
    else:
        assert found.holds is holds, found
        assert found.arguments is None
        assert holds or "`vars.strict`" in found.reason


@pytest.mark.parametrize(("kind", "op"), [cell for cell in GRID if cell[1] not in CELLS[cell[0]]])
def test_an_empty_cell_is_refused_by_the_language(kind: str, op: str) -> None:
    with pytest.raises(ExpressionFault):
        condition(EXAMPLES[op].format(x=".x", v=VALUES.get(kind, "1")), TOOLS[kind])


# edges --------------------------------------------------------------------------------------


class Money(BaseModel):
    """A class of an application, with a field that it fills itself."""

    usd: float
    fee: float = 2


class Colour(Enum):
    """Words that a run reads as something else."""

    RED = "red"
    BLUE = "blue"


def even(value: int) -> int:
    """A rule that no schema has."""
    if value % 2:
        raise ValueError("odd")
    return value


def typed(*, usd: float, to: str = "me") -> str:
    """Pay."""
    return f"{usd} {to}"


def nested(*, money: Money) -> str:
    """Pay."""
    return str(money)


def optional(*, usd: float | None = None, note: str | None = None) -> str:
    """Pay."""
    return f"{usd} {note}"


def bounded(
    *, usd: Annotated[int, Field(ge=1, lt=500)], how: Literal["card", "cash"] = "card"
) -> str:
    """Pay."""
    return f"{usd} {how}"


def checked(*, usd: Annotated[int, AfterValidator(even)], colour: Colour) -> str:
    """Pay."""
    return f"{usd} {colour}"


PYTHON = {f.__name__: tool_spec(f, name="pay") for f in (typed, nested, optional, bounded, checked)}
NUMBER, TEXT, LIST = {"type": "number"}, {"type": "string"}, {"type": "array"}


class Edge(NamedTuple):
    """Two conditions on the calls of a tool, the answer, and the arguments or reason that it has."""

    id: str
    tool: ToolSpec
    premise: str | None
    conclusion: str
    holds: bool | None
    says: str = ""


DEFS: dict[str, Any] = {"$defs": {"n": {"type": "integer", "minimum": 1}}}


def edge_of(
    id: str,
    schema: Data,
    premise: str | None,
    conclusion: str,
    holds: bool | None,
    says: str = "",
    **more: Any,
) -> Edge:
    """An edge with a tool that requires an `x` of this schema."""
    return Edge(id, tool_of({"x": schema}, **more), premise, conclusion, holds, says)


TWO = tool_of({"x": NUMBER, "y": NUMBER}, ("x", "y"))
WHOLE = tool_of({"x": {"type": "integer"}, "y": {"type": "integer"}}, ("x", "y"))
EDGES = [
    # plain numbers between the boundaries
    Edge("round-number", PYTHON["typed"], ".usd > 100", ".usd > 1000", False, "usd = 500"),
    Edge("round-number-in-a-small-gap", PYTHON["typed"], ".usd > 1", ".usd > 1.001", False, "usd = 1.0005"),
    Edge("the-boundary-itself", PYTHON["typed"], ".usd >= 100", ".usd > 100", False, "usd = 100"),
    Edge("no-condition-is-asked", PYTHON["typed"], None, ".usd > 100", False, "usd = 50"),
    Edge("nothing-between-whole-numbers", TOOLS["integer"], ".x > 4", ".x >= 5", True),
    # what the schema says
    Edge("all-calls-by-the-schema", PYTHON["bounded"], None, ".usd > 0", True),
    Edge("none-above-the-maximum", PYTHON["bounded"], ".usd > 499", ".usd > 1000", True),
    Edge("below-the-maximum", PYTHON["bounded"], ".usd > 400", ".usd > 450", False),
    Edge("words-of-the-schema", PYTHON["bounded"], '.how != "card"', '.how == "cash"', True),
    Edge("the-default-word", PYTHON["bounded"], ".usd > 10", '.how == "cash"', False),
    edge_of("exclusive-minimum", {**NUMBER, "exclusiveMinimum": 5}, None, ".x > 5", True),
    edge_of("maximum", {**NUMBER, "maximum": 5}, None, ".x < 5", False, "x = 5"),
    edge_of("multiple-of", {"type": "integer", "multipleOf": 7}, ".x > 10", ".x > 20", False, "x = 14"),
    edge_of("enum-of-numbers", {"enum": [3, 30, 300]}, ".x > 10", ".x > 100", False, "x = 30"),
    edge_of("enum-of-numbers-implied", {"enum": [3, 30, 300]}, ".x > 30", ".x == 300", True),
    edge_of("const", {"const": "a"}, None, '.x == "a"', True),
    edge_of("shortest-text", {**TEXT, "minLength": 3}, None, "len(.x) > 2", True),
    edge_of("longest-text", {**TEXT, "minLength": 3, "maxLength": 4}, "len(.x) > 2", "len(.x) > 3", False),
    edge_of("pattern", {**TEXT, "pattern": "^[A-Z]{2}[0-9]+$"}, None, '.x == "A"', False),
    edge_of("format", {**TEXT, "format": "date"}, None, '.x == "A"', False),
    edge_of("fewest-items", {**LIST, "items": NUMBER, "minItems": 2}, None, "len(.x) >= 2", True),
    edge_of("most-items", {**LIST, "items": NUMBER, "maxItems": 2}, "len(.x) > 0", "len(.x) > 1", False),
    edge_of("distinct-items", {**LIST, "items": NUMBER, "uniqueItems": True}, "len(.x) > 0", "len(.x) > 2", False),
    edge_of("a-length-is-not-one-of-a-list", {**LIST, "items": NUMBER, "minLength": 2}, None, "len(.x) > 1", False),
    edge_of("reference", {"$ref": "#/$defs/n"}, None, ".x > 0", True, "", **DEFS),
    edge_of("either-null-or-bounded", {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]}, ".x is not None", ".x > 4", True),
    edge_of("null-is-a-word", {"enum": ["a", None]}, None, ".x is not None", False, "x = null"),
    Edge("null", PYTHON["optional"], ".usd is None", '.usd > 5', False, "usd = null"),
    Edge("other-arguments-are-required", tool_of({"x": NUMBER, "id": {**TEXT, "minLength": 8}}, ("x", "id")), ".x > 1", ".x > 2", False),
    Edge("one-cannot-be-made", tool_of({"x": NUMBER, "id": False}, ("x", "id")), ".x > 1", ".x > 2", None, "`pay`"),
    Edge("a-name-that-is-no-word", tool_of({"a-b": {"type": "integer", "minimum": 3}}, ("a-b",)), None, 'call.arguments["a-b"] > 2', True),
    Edge("a-name-like-a-condition", tool_of({"x": NUMBER, "x > 1 or call.arguments.x": {"minimum": 3}}, ("x",)), None, ".x > 1", False),
    # defaults
    Edge("absent-with-its-default", TOOLS["default"], ".x != 7", ".x > 7 or .x < 7", True),
    Edge("only-the-default", tool_of({"x": {"const": 7, "default": 7}}, ()), None, ".x == 7", True),
    Edge("a-default-that-is-not-valid", tool_of({"x": {"enum": ["a", "b"], "default": "z"}}, ()), '.x != "a"', '.x == "b"', False, "any arguments"),
    Edge("a-default-of-null", tool_of({"x": {"type": "boolean", "default": None}}, ()), ".x != True", ".x == False", False, "any arguments"),
    # several arguments
    Edge("difference", WHOLE, ".x - .y > 10", ".x - .y > 5", True),
    Edge("difference-not-implied", TWO, ".x - .y > 10", ".x - .y > 20", False),
    Edge("sum-of-both", WHOLE, ".x + .y > 100 and .y < 10", ".x > 90", True),
    Edge("the-larger-one", WHOLE, ".x > .y and .y > 5", ".x > 6", True),
    Edge("product", TWO, ".x * .y > 100", ".x * .y > 1000", False),
    Edge("equal-to-each-other", TWO, ".x == .y", ".x > .y", False),
    Edge("word-and-number", tool_of({"x": NUMBER, "to": TEXT}, ("x", "to")), '.x > 100 and .to == "ann"', '.x > 100 and .to != "bob"', True),
    Edge("word-or-number", tool_of({"x": NUMBER, "to": TEXT}, ("x", "to")), '.x > 100', '.x > 100 and .to != "bob"', False, 'to = "bob"'),
    # parts of arguments
    Edge("class-of-the-application", PYTHON["nested"], ".money.usd > 100", ".money.usd > 1000", False, 'money = {"usd": 500'),
    Edge("class-with-a-default", PYTHON["nested"], ".money.fee < 3", ".money.fee < 2", False),
    edge_of("list-of-objects", {**LIST, "items": {"type": "object", "properties": {"usd": NUMBER}, "required": ["usd"]}}, "any(i.usd > 100 for i in .x)", "any(i.usd > 1000 for i in .x)", False),
    edge_of("part-of-an-element", {**LIST, "items": {"type": "object", "properties": {"usd": NUMBER}, "required": ["usd"]}}, ".x[0].usd > 100", ".x[0].usd > 1000", False),
    edge_of("second-element", {**LIST, "items": NUMBER}, ".x[1] > 100", ".x[1] > 1000", False),
    edge_of("map", {"type": "object", "additionalProperties": NUMBER}, '"k" in .x', '"k" in .x and "l" in .x', False),
    edge_of("value-of-a-map", {"type": "object", "additionalProperties": NUMBER}, ".x.k > 100", ".x.k > 1000", False),
    # text functions
    edge_of("lower-case", TEXT, '.x.lower() == "ab"', '.x == "ab"', False, 'x = "AB"'),
    edge_of("without-blanks", TEXT, '.x.strip() == "ab"', '.x == "ab"', False, 'x = " ab "'),
    edge_of("both-ends", TEXT, '.x.startswith("ab")', '.x.startswith("ab") and .x.endswith("cd")', False),
    # the name of the tool
    Edge("its-own-name", TOOLS["number"], ".x > 1", 'call.name == "pay"', True),
    # what is not decided here
    Edge("fractions-are-not-added-up", TOOLS["number"], ".x * 2 > 100", ".x > 40", None, "neither a proof"),
    Edge("order-of-words", TOOLS["string"], '.x < "b"', '.x < "c"', None, "neither a proof"),
    Edge("squares", TOOLS["integer"], ".x * .x > 100", ".x > 5 or .x < 5", None, "neither a proof"),
    Edge("variable", TOOLS["number"], ".x > 100", ".x > vars.most", None, "`vars.most`"),
    Edge("variable-in-both", TOOLS["number"], ".x > vars.most", ".x + 0 > vars.most or .x > vars.most", True),
    Edge("guard-of-the-application", TOOLS["string"], '.x != ""', "is_sound(.x)", None, "`is_sound`"),
    Edge("guard-beside-a-difference", TOOLS["string"], '.x != "a"', '.x == "b" and is_sound(.x)', False),
    Edge("guard-that-may-fail-first", TOOLS["string"], '.x != "a"', 'is_sound(.x) and .x == "b"', None, "`is_sound`"),
    Edge("refused-by-the-tool", PYTHON["checked"], ".usd > 4", ".usd > 5 and .usd != 6", False, "usd = 6"),
    Edge("only-refused-ones", PYTHON["checked"], ".usd > 4", ".usd > 4 and .usd != 5", None, "neither a proof"),
    Edge("words-of-a-class", PYTHON["checked"], '.colour != "red"', '.colour == "blue"', True),
    Edge("words-of-a-class-not-implied", PYTHON["checked"], None, '.colour == "red"', False, 'colour = "blue"'),
]  # fmt: skip


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.id)
def test_an_edge(edge: Edge) -> None:
    found = ask(edge.premise, edge.conclusion, edge.tool)
    if edge.holds is False:
        check_no(found, edge.premise, edge.conclusion, edge.tool)
    assert (found.holds, edge.says in found.reason) == (edge.holds, True), found


def test_a_gate_of_several_tools_holds_back_calls_without_the_argument_of_another() -> None:
    """The gate reads `usd`, which this tool does not have: it asks, since it cannot decide."""
    one, other = tool_of({"x": NUMBER}, additionalProperties=False), tool_spec(typed, name="other")
    gate = condition(".usd > 100", one, other)
    assert implies(condition(".x > 5", one), gate, one) == Implication(True)
    named = condition('call.name == "other" and .usd > 100', one, other)
    found = implies(condition(".x > 5", one), named, one)
    assert found.holds is False
    lower = condition('call.name == "other" and .usd > 50', one, other)
    assert still_holds(named, lower, one) == still_holds(named, lower, other) == Implication(True)
    assert implies(condition(".usd > 500", other), named, other) == Implication(True)


@dataclass(frozen=True)
class Kept:
    """Two gates, and whether the second holds back each call that the first does."""

    id: str
    old: str | None
    new: str | None
    holds: bool | None
    strictly: bool | None
    """The same if only calls count for which the first condition is true."""


MAP = tool_of({"x": {"type": "object", "additionalProperties": NUMBER}, "y": NUMBER}, ("x", "y"))
KEPT = [
    Kept("tightened", ".y > 100", ".y > 50", True, True),
    Kept("loosened", ".y > 50", ".y > 100", False, False),
    Kept("dropped", None, ".y > 100", False, False),
    Kept("no-condition-any-more", ".y > 100", None, True, True),
    Kept("failed-and-fails", ".x.k > 100", ".x.k > 50", True, True),
    Kept("failed-and-is-tested-now", ".x.k > 100", '"k" in .x and .x.k > 50', False, None),
    Kept("fails-later", '"k" in .x and .x.k > 50', ".x.k > 40", None, True),
    Kept("fails-in-both", ".y > 1 and .x.k > 50", ".y > 0 and .x.k > 40", True, True),
    Kept(
        "fails-in-a-part-that-is-not-evaluated",
        ".x.k > 1",
        "(1 if .y > 0 else .x.k) > 1",
        False,
        False,
    ),
    Kept("fails-in-a-chain-that-ends-before", ".x.k > 5", "0 < .y < .x.k", False, False),
    Kept("failed-behind-another", ".y > 5 and .x.k > 100", ".y > 5", True, True),
    Kept("no-division-any-more", "100 / .y > 5", ".y != 0 and 100 / .y > 5", False, None),
    Kept("a-division-in-both", "100 / .y > 5", "100 / .y > 4", True, True),
    Kept("never-true-but-it-failed", ".x.k > 5 and .x.k < 3", ".y > 5", False, True),
]


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.id)
def test_a_gate_that_fails_holds_the_call_back(case: Kept) -> None:
    old, new = (None if text is None else condition(text, MAP) for text in (case.old, case.new))
    found = still_holds(old, new, MAP)
    assert found.holds is case.holds, found
    assert implies(old, new, MAP).holds is case.strictly
    if found.holds is False:
        assert case.new is not None
        check_no(found, case.old, case.new, MAP)
