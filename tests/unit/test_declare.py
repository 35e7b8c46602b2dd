"""Functions become tools, actions and guards, or say why they cannot."""

from __future__ import annotations

import asyncio
import enum
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
)

import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic import Field as Limits

from chartloop.actions.declare import (
    SURE,
    Data,
    Duration,
    Field,
    Fraction,
    Name,
    Texts,
    Value,
    Values,
    Variables,
    action,
    action_spec,
    guard,
    guard_spec,
    specs_of,
    tool,
    tool_spec,
    type_from,
)
from chartloop.core.errors import SetupError
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.specs import ActionSpec, ArgKind, ArgSpec, Effect, Registry, ToolSpec
from chartloop.core.types import (
    ANY,
    BOOL,
    COUNT,
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
from tests.effort import calls

if TYPE_CHECKING:
    from pathlib import Path as Context  # found by nobody at run time


class Place(BaseModel):
    city: str
    title: str = ""


class Options(typing_extensions.TypedDict):
    deep: bool
    most: NotRequired[int]


@dataclass
class Point:
    x: float
    tags: list[str] = field(default_factory=list[str])


@dataclass
class Tree:
    name: str
    children: list[Tree]


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


Score = NewType("Score", float)


# -- tools --------------------------------------------------------------------------------------


@tool
def weather(
    place: Place,
    days: Annotated[int, Limits(ge=1, le=14)] = 1,
    unit: Literal["C", "F"] = "C",
) -> str:
    """Weather forecast for a place.

    Only by day.

    Args:
        place: Where to look,
            city and country code.
        days (int): How many days ahead.

    Returns:
        A sentence.
    """
    return f"{place.city} {days} {unit}"


def test_a_decorated_function_is_the_function() -> None:
    assert weather(Place(city="Oslo"), 2) == "Oslo 2 C"
    assert specs_of(weather).tools["weather"].call is weather


def test_what_the_model_is_told_of_a_tool() -> None:
    assert tool_spec(weather).for_model() == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather forecast for a place.\n\nOnly by day.",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {
                        "$ref": "#/$defs/Place",
                        "description": "Where to look, city and country code.",
                    },
                    "days": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": 14,
                        "default": 1,
                        "description": "How many days ahead.",
                    },
                    "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                },
                "required": ["place"],
                "additionalProperties": False,
                "$defs": {
                    "Place": {
                        "type": "object",
                        "properties": {
                            "city": {"type": "string"},
                            "title": {"type": "string", "default": ""},
                        },
                        "required": ["city"],
                        "additionalProperties": False,
                    }
                },
            },
        },
    }


def test_only_what_the_model_gave_is_passed_on() -> None:
    parse = tool_spec(weather).parse
    assert parse('{"place": {"city": "Oslo"}}') == {"place": Place(city="Oslo")}
    assert parse('{"place": {"city": "Oslo"}, "days": "3"}') == {
        "place": Place(city="Oslo"),
        "days": 3,
    }


class Wrong(NamedTuple):
    """What a model wrote, and what it is told."""

    id: str
    text: str
    says: Sequence[str]


WRONG = [
    Wrong("out-of-bounds", '{"place": {"city": "a"}, "days": 99}', ["days", "14", "got 99"]),
    Wrong("missing", "", ["place: is missing"]),
    Wrong("missing-inside", '{"place": {}}', ["place.city: is missing"]),
    Wrong("unknown", '{"place": {"city": "a"}, "town": 1}', ["town", "known: place, days, unit"]),
    Wrong("no-such-word", '{"place": {"city": "a"}, "unit": "K"}', ["unit", "'C' or 'F'", '"K"']),
    Wrong("all-at-once", '{"days": 0, "unit": 1}', ["place: is", "days: ", "unit: "]),
    Wrong("cut", '{"place": {"city"', ["cannot be read", "line 1 column 18"]),
    Wrong("no-object", "[1, 2]", ["must be a JSON object, not [1, 2]"]),
    Wrong("null", "null", ["must be a JSON object, not null"]),
    Wrong("nan", '{"days": NaN}', ["NaN is not a JSON number"]),
    Wrong("infinite", '{"days": 1e999}', ["1e999 is too large"]),
    Wrong("endless-number", '{"days": ' + "9" * 5_000 + "}", ["5,000 digits"]),
    Wrong("twice", '{"days": 1, "days": 2}', ['"days" is given twice']),
    Wrong("twice-inside", '{"place": {"city": "a", "city": "b"}}', ['"city" is given twice']),
    Wrong("deep", '{"place": ' + "[" * 100_000 + "]" * 100_000 + "}", ["nested too deeply"]),
    Wrong("deep-for-pydantic", '{"place": ' + "[" * 300 + "]" * 300 + "}", ["recursion"]),
    Wrong("megabytes", '{"place": "' + "a" * 2_000_000 + '"}', ["2,000,013 characters"]),
    Wrong("long-value", '{"place": "' + "a" * 900_000 + '"}', ["place", "aaaa…"]),
    Wrong("long-key", '{"' + "k" * 900_000 + '": 1}', ["kkkk…: there is no such argument"]),
    Wrong("many-faults", json.dumps(dict.fromkeys(map(str, range(5_000)), 1)), ["and 4991 more"]),
    Wrong("half-a-character", '{"place": "\ud800"}', ["`\\ud800` is half of a character"]),
    Wrong("half-a-character-escaped", '{"place": {"city": "\\ud800"}}', ["Invalid JSON"]),
    Wrong("half-a-character-twice", '{"\ud800": 1, "\ud800": 2}', ["is given twice"]),
    Wrong("byte-order-mark", "\ufeff{}", ["cannot be read"]),
    Wrong("nul", "\0", ["cannot be read"]),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_what_the_model_is_told_of_wrong_arguments(case: Wrong) -> None:
    with pytest.raises(ValueError, match="The arguments of `weather` ") as caught:
        tool_spec(weather).parse(case.text)
    told = str(caught.value)
    for text in case.says:
        assert text in told
    assert len(told.encode()) < 2_000
    assert "Traceback" not in told
    assert caught.value.__suppress_context__
    with suppress(ValueError):
        assert calls(lambda: tool_spec(weather).parse(case.text)) < 100_000


@given(st.text(st.characters(exclude_categories=())) | st.from_regex(r'\{("days": [^{}]{0,9})?\}'))
def test_whatever_a_model_writes_is_read_or_refused(text: str) -> None:
    spec = tool_spec(anything)
    try:
        arguments = spec.parse(text)
    except ValueError as error:
        str(error).encode()
    else:
        assert arguments.keys() <= {"days", "data"}
        json.dumps(arguments, allow_nan=False).encode()


def anything(days: int | None = None, data: Any = None) -> None:
    """Take anything."""


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_json_comes_through_as_it_is(data: Any) -> None:
    assert tool_spec(anything).parse(json.dumps({"data": data})) == {"data": data}


NAMES = ["json", "schema", "copy", "dict", "validate", "model_config", "model_name", "_x", "cls"]


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_may_have_any_name(name: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f({name}: int): ...", space)  # noqa: S102 - a function of that shape
    spec = tool_spec(space["f"])
    assert spec.parse(f'{{"{name}": 3}}') == {name: 3}
    assert list(spec.parameters["properties"]) == [name]


def test_a_property_called_title_stays() -> None:
    def f(title: str) -> None: ...

    assert tool_spec(f).parameters["properties"] == {"title": {"type": "string"}}


def test_defaults_that_are_no_json_are_not_described() -> None:
    marker = object()

    def f(a: Any = marker, b: list[int] = [1], c: float = float("nan")) -> None: ...  # noqa: B006

    spec = tool_spec(f)
    assert [p.get("default") for p in spec.parameters["properties"].values()] == [None, [1], None]
    assert spec.parse("{}") == {}


class Documented(NamedTuple):
    """A docstring, and what is read from it."""

    id: str
    doc: str | None
    about: str
    args: Mapping[str, str]


DOCUMENTED = [
    Documented("none", None, "", {}),
    Documented("one-line", "Add.", "Add.", {}),
    Documented(
        "google",
        """Add.

        Slowly.

        Args:
            a (int, optional): The first:
                a number.
            b: The second.

        Raises:
            ValueError: never
            a: not this
        """,
        "Add.\n\nSlowly.",
        {"a": "The first: a number.", "b": "The second."},
    ),
    Documented(
        "numpy",
        """
        Add.

        Parameters
        ----------
        a : int
            The first.

            And more.
        b
            The second.

        Returns
        -------
        a : int
            Not this.
        """,
        "Add.",
        {"a": "The first. And more.", "b": "The second."},
    ),
    Documented(
        "numpy-two-in-one",
        "Add.\n\nParameters\n----------\na, b : int\n    Numbers.\n",
        "Add.",
        {"a": "Numbers.", "b": "Numbers."},
    ),
    Documented(
        "sphinx",
        """Add.

        :param a: The first,
            on two lines.
        :type a: int
        :param int b: The second.
        :returns: the sum
        :rtype: int
        """,
        "Add.",
        {"a": "The first, on two lines.", "b": "The second."},
    ),
    Documented("roles-are-text", "Add.\n:class:`int` only.", "Add.\n:class:`int` only.", {}),
    Documented("a-colon-is-no-section", "Note: Args: x", "Note: Args: x", {}),
    Documented("unknown-names", "Args:\n    zz: What?\n", "", {}),
]


@pytest.mark.parametrize("case", DOCUMENTED, ids=lambda case: case.id)
def test_docstrings(case: Documented) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    add.__doc__ = case.doc
    spec = tool_spec(add)
    assert spec.description == case.about
    described = {
        n: p["description"] for n, p in spec.parameters["properties"].items() if len(p) > 1
    }
    assert described == case.args


@given(st.text(alphabet="Args:\n -ab*(),param`", max_size=400))
def test_any_docstring_is_read(doc: str) -> None:
    def add(a: int) -> int:
        return a

    add.__doc__ = doc
    assert isinstance(tool_spec(add).description, str)


def test_a_docstring_that_goes_on_and_on_is_read_at_once() -> None:
    def add(a: int) -> int:
        return a

    add.__doc__ = "Add.\n\nArgs:\n    a " + "(" * 5_000 + "):" * 5_000 + "\n:param " + " a" * 5_000
    assert calls(lambda: tool_spec(add)) < 100_000


class Shop:
    """Something with methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(name="price_of", effect="local", memory=True)
    async def price(self, ctx: Context, item: str) -> str:
        """The price."""
        return f"{self.name} {ctx} {item}"

    @staticmethod
    @tool
    def open_at(hour: int) -> bool:
        """Whether it is open."""
        return 8 <= hour < 20


def test_a_method_of_an_object_is_a_tool() -> None:
    registry = specs_of([Shop("fish").price, Shop.open_at])
    spec = registry.tools["price_of"]
    assert (spec.effect, spec.memory, spec.blocking, spec.wants_context) == (
        Effect.LOCAL, True, False, True,
    )  # fmt: skip
    assert list(spec.parameters["properties"]) == ["item"]
    assert asyncio.run(spec.call("now", **spec.parse('{"item": "cod"}'))) == "fish now cod"
    assert registry.tools["open_at"].blocking


def test_the_same_method_of_two_objects_is_two_tools() -> None:
    fish, fruit = Shop("fish"), Shop("fruit")
    assert len(specs_of(fish.price, fish.price).tools) == 1
    with pytest.raises(SetupError, match=r"two tools are called `price_of`"):
        specs_of(fish.price, fruit.price)


class Contextual(NamedTuple):
    """A way to annotate the context."""

    id: str
    annotation: Any
    wants: bool


@pytest.mark.parametrize(
    "case",
    [
        Contextual("name", "Context", wants=True),
        Contextual("dotted", "context.Context", wants=True),
        Contextual("quoted", "'Context'", wants=True),
        Contextual("class", type("Context", (), {}), wants=True),
        Contextual("another", "str", wants=False),
        Contextual("only-called-so", str, wants=False),
    ],
    ids=lambda case: case.id,
)
def test_the_context_is_no_argument(case: Contextual) -> None:
    def f(ctx: Any, a: int) -> None: ...

    f.__annotations__["ctx"] = case.annotation
    spec = tool_spec(f)
    assert spec.wants_context == case.wants
    assert list(spec.parameters["properties"]) == (["a"] if case.wants else ["ctx", "a"])


def test_a_wrapped_function_keeps_its_signature() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return inner

    spec = tool_spec(logged(weather))
    assert spec.parameters == tool_spec(weather).parameters


# -- refusals -----------------------------------------------------------------------------------


def _stars(*words: str) -> None: ...
def _double_stars(**words: str) -> None: ...
def _slash(word: str, /) -> None: ...
def _untyped(word) -> None: ...  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
def _unresolved(word: Nowhere) -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]
def _late_context(word: str, ctx: Context) -> None: ...
def _not_json(word: str, call: Callable[[], int]) -> None: ...
def _odd(word: object) -> None: ...
def _generator(word: str) -> Any:
    yield word


async def _async_generator(word: str) -> Any:
    yield word


def _no_context(text: str) -> None: ...
def _nothing() -> None: ...


async def wait(_ctx: Any, within: Annotated[float, Duration]) -> str | Blocked | None:
    """Wait."""
    return str(within)


def _odd_field(ctx: Any, word: complex) -> None: ...
def _fields(ctx: Any, word: Options) -> None: ...
async def _async_guard(word: str) -> bool:
    return bool(word)


def _says_int(word: str) -> int:
    return len(word)


def _says_nothing(word: str):
    return bool(word)


def _with_default(word: str = "") -> bool:
    return bool(word)


def _odd_guard(word: Callable[[], int]) -> bool:
    return bool(word)


def _context_guard(ctx: Context) -> bool:
    return bool(ctx)


class Refused(NamedTuple):
    """A function that cannot be declared, and what is said of it."""

    id: str
    make: Callable[..., Any]
    function: Any
    says: Sequence[str]


FREE: Any = "free"

REFUSED = [
    Refused("stars", tool_spec, _stars, ["_stars", "`*words`", "by name"]),
    Refused("double-stars", tool_spec, _double_stars, ["`**words`"]),
    Refused("slash", tool_spec, _slash, ["`word, /`"]),
    Refused("untyped", tool_spec, _untyped, ["`word` of a tool has no type", "write `word: str`"]),
    Refused("unresolved", tool_spec, _unresolved, ["parameter `word`", "Nowhere", "import"]),
    Refused("late-context", tool_spec, _late_context, ["`ctx` is not the first parameter"]),
    Refused("not-json", tool_spec, _not_json, ["parameter `call` cannot be given as JSON"]),
    Refused("unbound-method", tool_spec, Shop.price, ["a method without its object"]),
    Refused("generator", tool_spec, _generator, ["returns its result", "yield"]),
    Refused("async-generator", tool_spec, _async_generator, ["returns its result"]),
    Refused("class", tool_spec, Shop, ["Shop: not a function"]),
    Refused("text", tool, "weather", ["not a function"]),
    Refused("staticmethod-below", tool, staticmethod(_says_int), ["`@staticmethod` and the like"]),
    Refused("builtin", tool_spec, len, ["len: not a function"]),
    Refused("partial", tool_spec, partial(_says_int), ["not a function"]),
    Refused("tool-name", partial(tool_spec, name="a b"), _says_int, ["`a b` cannot be a name"]),
    Refused("long-name", partial(tool_spec, name="a" * 65), _says_int, ["cannot be a name"]),
    Refused("effect", partial(tool_spec, effect=FREE), _says_int, ["not 'free'"]),
    Refused("action-name", partial(action_spec, name="a-b"), wait, ["`a-b` cannot be a name"]),
    Refused(
        "no-context", action_spec, _no_context, ["first parameter of an action", "(ctx, text)"]
    ),
    Refused("no-parameters", action_spec, _nothing, ["first parameter of an action", "(ctx)"]),
    Refused(
        "odd-field",
        partial(action_spec, name="act"),
        _odd_field,
        ["`word` is of a type", "Annotated"],
    ),
    Refused("object-field", action_spec, _odd, ["first parameter of an action"]),
    Refused("fields", partial(action_spec, name="act"), _fields, ["`word` is of a type", "Data"]),
    Refused("async-guard", guard_spec, _async_guard, ["a guard is not a coroutine function"]),
    Refused("guard-of-int", guard_spec, _says_int, ["a guard returns a bool"]),
    Refused("guard-of-nothing", guard_spec, _says_nothing, ["annotate it `-> bool`"]),
    Refused("guard-default", guard_spec, _with_default, ["`word` of a guard has a default"]),
    Refused("guard-type", guard_spec, _odd_guard, ["`word` of a guard is of a type"]),
    Refused("guard-context", guard_spec, _context_guard, ["not given the context"]),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_cannot_be_declared_says_why(case: Refused) -> None:
    with pytest.raises(SetupError) as caught:
        case.make(case.function)
    for text in case.says:
        assert text in str(caught.value)


def test_a_function_is_declared_once() -> None:
    with pytest.raises(SetupError, match=r"weather is already a tool"):
        action(weather)


# -- actions ------------------------------------------------------------------------------------


class Written(NamedTuple):
    """An annotation of a field, and how a file writes it."""

    id: str
    annotation: Any
    kind: ArgKind
    type: Type
    choices: tuple[str, ...] = ()
    names: str = ""


MAYBE_NAME = Optional[Annotated[str, Name("state")]]  # noqa: UP045 - `|` has no word for it
MAYBE_DURATION = Optional[Annotated[float, Duration]]  # noqa: UP045

WRITTEN = [
    Written("text", str, "text", STR),
    Written("text-or-none", str | None, "text", STR.maybe()),
    Written("int", int, "value", INT),
    Written("float", float, "value", FLOAT),
    Written("bool", bool, "value", BOOL),
    Written("list", list[str], "value", list_of(STR)),
    Written("any-list", list, "value", list_of(ANY)),
    Written("map", dict[str, float], "value", map_of(FLOAT)),
    Written("any", Any, "value", ANY),
    Written("word", Literal["a", "b"], "enum", enum_of("a", "b"), choices=("a", "b")),
    Written("enum", Colour, "enum", enum_of("red", "blue"), choices=("red", "blue")),
    Written("name", Annotated[str, Name("tool")], "name", STR, names="tool"),
    Written("name-or-none", MAYBE_NAME, "name", STR.maybe(), names="state"),
    Written("duration", Annotated[float, Duration], "duration", DURATION),
    Written("duration-or-none", MAYBE_DURATION, "duration", DURATION.maybe()),
    Written("duration-object", Annotated[float, Duration()], "duration", DURATION),
    Written("fraction", Annotated[float, Fraction], "value", FRACTION),
    Written("value", Annotated[str, Value], "value", STR),
    Written("values", Annotated[dict[str, Any], Values], "values", map_of(ANY)),
    Written("texts", Annotated[dict[str, str], Texts], "texts", map_of(STR)),
    Written("other-marks", Annotated[int, Limits(ge=1), "x", []], "value", INT),
    Written(
        "data",
        Annotated[Options, Data],
        "data",
        struct({"deep": BOOL, "most": INT.maybe()}, keyed=True),
    ),
]


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.id)
def test_how_a_field_is_written(case: Written) -> None:
    def act(ctx: Any, x: Any) -> None: ...

    act.__annotations__["x"] = case.annotation
    (arg,) = action_spec(act).args
    assert replace(arg, check=None) == ArgSpec(
        "x",
        case.kind,
        case.type,
        required=True,
        choices=case.choices,
        names=case.names,
    )
    assert (arg.check is not None) == (case.kind == "data")


def test_data_is_checked_against_its_type() -> None:
    def act(ctx: Any, x: Annotated[dict[str, list[int]], Data]) -> None: ...

    check = action_spec(act).args[0].check
    assert check is not None
    assert check({"a": [1]}) is None
    assert check({"a": ["x"]}) == (
        "other data: a.0: Input should be a valid integer, unable to parse string as an integer;"
        ' got "x"'
    )


def test_data_of_a_type_that_nobody_can_check_is_the_application_s_mistake() -> None:
    def act(ctx: Any, x: Annotated[Shop, Data]) -> None: ...

    check = action_spec(act).args[0].check
    assert check is not None
    with pytest.raises(SetupError, match="parameter `x` cannot be given as JSON"):
        check({})


@action(effect="local", work=False, changes=["vars.plan", "memory.persona"])
def plan(ctx: Context, text: str, most: int = 3, *, deep: bool = False) -> dict[str, int]:
    """Plan it,
    and say so.

    At length.

    Args:
        text: What to plan.
    """
    return {text: most + deep}


def test_an_action_is_what_its_function_says() -> None:
    spec = specs_of(plan).actions["plan"]
    assert spec == ActionSpec(
        "plan",
        plan,
        (
            ArgSpec("text", "text", STR, required=True, about="What to plan."),
            ArgSpec("most", "value", INT, default=3),
            ArgSpec("deep", "value", BOOL, default=False),
        ),
        result=map_of(INT),
        work=False,
        effect=Effect.LOCAL,
        changes=frozenset({"vars.plan", "memory.persona"}),
        suspends=False,
        about="Plan it, and say so.",
    )
    assert spec.run is plan


def test_what_an_action_is_unless_it_says_otherwise() -> None:
    spec = action_spec(wait)
    assert (spec.name, spec.work, spec.effect) == ("wait", True, Effect.PAID)
    assert (spec.suspends, spec.changes, spec.own_intents) == (True, frozenset(), False)
    assert spec.result == STR.maybe()


def test_what_an_action_may_be_told() -> None:
    spec = action_spec(
        wait, name="wait_for", suspends=False, uses=["model"], result=list[int], changes="vars.x"
    )
    assert (spec.name, spec.suspends, spec.result) == ("wait_for", False, list_of(INT))
    assert spec.uses == {"model"}
    assert spec.changes == {"vars.x"}
    assert action_spec(wait, result=DURATION).result == DURATION


def test_a_declaration_may_be_read_twice() -> None:
    def act(ctx: Any) -> None: ...

    action(changes=(name for name in ["vars.x"]))(act)
    assert specs_of(act) == specs_of(act)
    assert specs_of(act).actions["act"].changes == {"vars.x"}


@pytest.mark.parametrize("name", ["plan", "vars", "vars.", "world.x", "vars.a b", ""])
def test_an_action_changes_facts(name: str) -> None:
    with pytest.raises(SetupError, match="an action cannot change"):
        action_spec(wait, changes=[name])


class Order(TypedDict):
    """What is ordered.

    Args:
        item: The name of the item.
    """

    item: str
    count: NotRequired[Annotated[int, Field(type=COUNT, about="How many.")]]


@action(fields=Order)
def order(ctx: Context, **fields: Any) -> str:
    """Order it."""
    return f"{fields}"


def test_a_class_may_have_the_fields_of_an_action() -> None:
    assert action_spec(order, fields=Order).args == specs_of(order).actions["order"].args
    assert specs_of(order).actions["order"].args == (
        ArgSpec("item", "text", STR, required=True, about="The name of the item."),
        ArgSpec("count", "value", COUNT, about="How many."),
    )
    with pytest.raises(SetupError, match=r"`\*\*fields` cannot be given by name"):

        @action
        def other(ctx: Context, **fields: Any) -> None: ...


def even(value: Any) -> str | None:
    return "an even number" if value % 2 else None


def test_what_else_is_decided_of_a_field() -> None:
    def act(
        ctx: Any,
        most: Annotated[float, Duration, Field(role="waits", at_least="base")] = 9.0,
        base: Annotated[int, Field(check=even)] = 2,
        raw: Annotated[list[int], Field("data")] = [],  # noqa: B006
    ) -> None: ...

    spec = action_spec(act, traits=SURE)
    most, base, raw = spec.args
    assert (most.kind, most.at_least, most.default) == ("duration", "base", 9.0)
    assert spec.traits.waits == ("most", 9.0)
    assert spec.may_wait
    assert base.check is even
    assert (raw.kind, raw.type, raw.check) == ("data", list_of(INT), None)


def right(_name: str, _entry: Any, _type: Type) -> str | None:
    return None


def test_the_keys_of_an_action_may_be_variables() -> None:
    def act(ctx: Any, all: Annotated[dict[str, Any], Variables(right, entry=Order)]) -> None: ...

    spec = action_spec(act)
    assert (spec.args, spec.targets, spec.target_kind) == ((), right, "data")
    assert [arg.name for arg in spec.entry] == ["item", "count"]


# -- guards -------------------------------------------------------------------------------------


@guard
def is_good(text: str, score: Score, share: Annotated[float, Fraction], words: list[str]) -> bool:
    """Whether it is good."""
    return bool(text) and score > share and bool(words)


def test_a_guard_has_typed_parameters() -> None:
    spec = specs_of(is_good).guards["is_good"]
    assert spec.params == (STR, FLOAT, FRACTION, list_of(STR))
    assert spec.call("x", 2.0, 0.5, ["y"]) is True
    assert spec.about == "Whether it is good."
    assert guard_spec(is_good, name="fine").name == "fine"


# -- types --------------------------------------------------------------------------------------


class Typed(NamedTuple):
    """An annotation and its type."""

    id: str
    annotation: Any
    type: Type


POINT = struct({"x": FLOAT, "tags": list_of(STR)}, keyed=True)
TYPED = [
    Typed("none", None, NONE),
    Typed("optional", int | None, INT.maybe()),
    Typed("sequence", Sequence[int], list_of(INT)),
    Typed("tuple", tuple[int, ...], list_of(INT)),
    Typed("pair", tuple[int, int], list_of(INT)),
    Typed("mixed-pair", tuple[int, str], list_of(ANY)),
    Typed("mapping", Mapping[str, Mapping[str, int]], map_of(map_of(INT))),
    Typed("keys-that-are-no-text", dict[int, str], map_of(ANY)),
    Typed("bare-dict", dict, map_of(ANY)),
    Typed("number", int | float, FLOAT),
    Typed("mixed", int | str, ANY),
    Typed("mixed-or-none", int | str | None, ANY.maybe()),
    Typed("numbers-as-words", Literal[1, 2], INT),
    Typed("new-type", Score, FLOAT),
    Typed("set", set[int], ANY),
    Typed("unknown", Shop, ANY),
    Typed("any", Any, ANY),
    Typed("outcome", Outcome, ANY),
    Typed("outcome-or-blocked", Outcome | Blocked, ANY),
    Typed("blocked-is-no-result", dict[str, int] | Blocked, map_of(INT)),
    Typed("typed-dict", Options, struct({"deep": BOOL, "most": INT.maybe()}, keyed=True)),
    Typed("dataclass", Point, POINT),
    Typed("list-of-dataclass", list[Point], list_of(POINT)),
    Typed("model", Place, struct({"city": STR, "title": STR}, keyed=True)),
]


@pytest.mark.parametrize("case", TYPED, ids=lambda case: case.id)
def test_types_of_annotations(case: Typed) -> None:
    assert type_from(case.annotation) == case.type


def test_a_type_within_itself_ends() -> None:
    made, depth = type_from(Tree), 0
    while made.kind == "struct":
        children = made.field("children")
        assert children is not None
        assert children.of is not None
        made, depth = children.of, depth + 1
    assert (made, depth) == (ANY, 5)


# -- registries ---------------------------------------------------------------------------------


def module_of(**names: Any) -> ModuleType:
    module = ModuleType("made")
    vars(module).update(names)
    return module


def test_a_module_gives_what_is_declared_in_it() -> None:
    spec = ToolSpec("by_hand", "", {}, json.loads, print)
    module = module_of(
        weather=weather, again=weather, plan=plan, good=is_good, spec=spec,
        plain=_says_int, number=3, listed=[weather], shop=Shop, module=json,
    )  # fmt: skip
    registry = specs_of(module)
    assert set(registry.tools) == {"weather", "by_hand"}
    assert set(registry.actions) == {"plan"}
    assert set(registry.guards) == {"is_good"}


def test_nothing_in_a_module_is_called_to_look_at_it() -> None:
    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    assert specs_of(module_of(trap=Trap())) == Registry()


def test_sources_of_all_kinds_go_together() -> None:
    first = specs_of(weather)
    registry = specs_of([first, (plan,)], module_of(good=is_good), weather, first.tools["weather"])
    assert (set(registry.tools), set(registry.actions)) == ({"weather"}, {"plan"})
    assert set(registry.guards) == {"is_good"}
    assert specs_of() == Registry()


def test_a_bare_function_is_what_it_is_given_as() -> None:
    assert set(specs_of([_says_int, plan], bare="tool").tools) == {"_says_int"}
    assert set(specs_of(wait, bare="action").actions) == {"wait"}


@pytest.mark.parametrize(
    "source",
    [_says_int, "weather", 3, None, Shop, b"x"],
    ids=lambda source: getattr(source, "__name__", str(source)),
)
def test_what_declares_nothing_says_so(source: object) -> None:
    with pytest.raises(SetupError, match="declares nothing"):
        specs_of(source)


def test_two_of_a_name_are_both_named() -> None:
    def other(place: str) -> str:
        return place

    with pytest.raises(SetupError) as caught:
        specs_of(weather, tool_spec(other, name="weather"))
    assert "two tools are called `weather`" in str(caught.value)
    assert "test_declare.weather and" in str(caught.value)
    assert "other" in str(caught.value)
    assert specs_of(plan, tool_spec(other, name="plan")).tools.keys() == {"plan"}


def test_pydantic_is_imported_for_tools_only() -> None:
    code = (
        "import sys, types, chartloop\n"
        "actions = types.ModuleType('chartloop.actions')\n"  # the package itself loads them all
        "actions.__path__ = [chartloop.__path__[0] + '/actions']\n"
        "sys.modules[actions.__name__] = actions\n"
        "from chartloop.actions.declare import action, guard, specs_of, tool\n"
        "def act(ctx, text: str): ...\n"
        "def judge(text: str) -> bool: ...\n"
        "def call(text: str): ...\n"
        "specs_of(action(act), guard(judge)), tool(call)\n"
        "print('pydantic' in sys.modules)\n"
        "specs_of(call)\n"
        "print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
