"""What is allowed, of which type it is, and what it gives."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import pytest

from chartloop.core.facts import ErrorFacts, Failure, LastFacts, RunFacts, SignalFacts, UsageFacts
from chartloop.core.types import (
    ANY,
    BOOL,
    COUNT,
    FLOAT,
    FRACTION,
    INT,
    STR,
    Type,
    enum_of,
    list_of,
    map_of,
    parse_type,
    struct,
)
from chartloop.language.expression import (
    GUARD_ERRORS,
    ExpressionFault,
    GuardFailed,
    fuse,
    no_oracle,
    parse,
)
from tests.unit.test_expression_world import SCOPE, SPAN, facts, yes

AT = facts(
    run=RunFacts(steps=7, elapsed=61.0, visits={"plan": 2}, status="running"),
    usage=UsageFacts(total_tokens=900, cost=None, context_ratio=0.5, calls={"search": 3}),
)


class Value(NamedTuple):
    """A text, the kind of its type, and its value."""

    text: str
    kind: str
    value: Any


VALUES = [
    # comparisons
    Value("usage.total_tokens >= limits.tokens", "bool", False),
    Value("usage.total_tokens >= 900", "bool", True),
    Value("1 < run.steps <= 7", "bool", True),
    Value("1 < run.steps < 7 < 8", "bool", False),
    Value("run.elapsed >= duration('1m')", "bool", True),
    Value("run.status == 'running'", "bool", True),
    Value("'running' != run.status", "bool", False),
    Value("vars.flag == True", "bool", True),
    Value("vars.text < 'S'", "bool", True),
    Value("vars.x == vars.share", "bool", False),
    Value("usage.context_ratio >= 0.5", "bool", True),
    Value("usage.context_ratio * 100 >= 50", "bool", True),
    Value("1 == 1.0", "bool", True),
    # off and None
    Value("run.steps >= limits.off", "bool", False),
    Value("limits.off <= run.steps", "bool", False),
    Value("run.steps > limits.off", "bool", False),
    Value("run.steps < limits.off", "bool", True),
    Value("limits.off > run.steps", "bool", True),
    Value("run.visits.plan + run.steps < limits.off", "bool", True),
    Value("run.elapsed <= limits.off_time", "bool", True),
    Value("not run.steps < limits.off", "bool", False),
    Value("vars.n >= limits.off", "bool", False),
    Value("usage.cost >= limits.cost", "bool", False),
    Value("usage.cost > 0", "bool", False),
    Value("0 < usage.cost", "bool", False),
    Value("usage.cost is None", "bool", True),
    Value("1 < run.steps >= limits.off", "bool", False),
    Value("limits.off is None or run.steps * 2 >= limits.off * 0.8", "bool", True),
    Value("limits.off is not None and limits.off > vars.n", "bool", False),
    Value("limits.off > vars.n if limits.off is not None else True", "bool", True),
    Value("errors.last is not None and errors.last.category == 'CRITICAL'", "bool", False),
    Value("errors.consecutive >= 1 and errors.last.category == 'CRITICAL'", "bool", False),
    Value("last.ok or last.error.category == 'TRANSIENT'", "bool", True),
    Value("last.result is None", "bool", True),
    Value("vars.any is not None", "bool", False),
    Value("usage.cost", "float", None),
    # membership
    Value('"[FINALIZE]" in vars.plan', "bool", True),
    Value("vars.text in ['Running', 'Waiting']", "bool", True),
    Value("vars.text not in limits.markers", "bool", True),
    Value("run.status in ['idle', 'paused']", "bool", False),
    Value("'k' in vars.names", "bool", True),
    Value("3 in vars.numbers", "bool", True),
    Value("2.0 in vars.numbers", "bool", True),
    Value("'x' in []", "bool", False),
    Value("'run' in run.status", "bool", True),
    # lists and maps
    Value("vars.words == vars.more_words", "bool", True),
    Value("vars.words != ['a']", "bool", True),
    Value("vars.words == []", "bool", False),
    Value("vars.names == {'k': 'v'}", "bool", True),
    Value("{'a': 1} == vars.counts", "bool", False),
    Value("vars.words[0]", "str", "a"),
    Value("vars.words[-1]", "str", "b"),
    Value("vars.words[run.steps - 6]", "str", "b"),
    Value("last.tool_calls[len(vars.words) - 1].name", "str", "answer"),
    Value("vars.names['k']", "str", "v"),
    Value("vars.names.k", "str", "v"),
    Value("vars['n']", "int", -4),
    Value("run.visits['continue']", "int", 0),
    Value("usage.calls['search']", "int", 3),
    Value("last.tool_calls[1].name", "str", "answer"),
    Value("['a', vars.text]", "list", ["a", "Running"]),
    Value("[]", "list", []),
    Value("{}", "map", {}),
    Value("{'n': run.steps, 't': run.task}", "map", {"n": 7, "t": ""}),
    Value("vars.words if vars.flag else []", "list", ["a", "b"]),
    # logic
    Value("not vars.flag", "bool", False),
    Value("vars.flag and not last.ok or busy", "bool", False),
    Value("never", "bool", False),
    Value("True", "bool", True),
    # arithmetic
    Value("run.steps + 1", "int", 8),
    Value("run.steps / 2", "float", 3.5),
    Value("run.steps // 2", "int", 3),
    Value("run.steps % 4", "int", 3),
    Value("-run.steps", "int", -7),
    Value("-vars.x", "float", -0.5),
    Value("-5", "int", -5),
    Value("- vars.share", "float", -0.25),
    Value("1 - usage.context_ratio", "float", 0.5),
    Value("vars.n * 2.5", "float", -10.0),
    Value("run.elapsed + vars.span", "duration", 151.0),
    Value("run.elapsed - duration('1m')", "duration", 1.0),
    Value("run.elapsed / vars.span * 9", "float", 61 / 90 * 9),
    Value("run.elapsed // duration('25s')", "float", 2.0),
    Value("run.elapsed % duration('25s')", "duration", 11.0),
    Value("run.elapsed * 2", "duration", 122.0),
    Value("2 * run.elapsed", "duration", 122.0),
    Value("run.elapsed / 2", "duration", 30.5),
    Value("-run.elapsed", "duration", -61.0),
    Value("duration('1h30m')", "duration", 5400.0),
    Value("health", "float", 1 - 900 / 1000),
    # choice
    Value("'a' if vars.flag else 'b'", "enum", "a"),
    Value("severity", "enum", "CRITICAL"),
    Value("severity == 'WARNING'", "bool", False),
    Value("vars.text if vars.flag else 'x'", "str", "Running"),
    Value("1 if vars.flag else 0.5", "float", 1),
    Value("run.elapsed if vars.flag else vars.span", "duration", 61.0),
    Value("vars.n if vars.flag else None", "int", -4),
    Value("(vars.n if vars.flag else None) is None", "bool", False),
    # functions
    Value("len(vars.words)", "int", 2),
    Value("len(vars.text)", "int", 7),
    Value("len(vars.names)", "int", 1),
    Value("min(3, vars.x)", "float", 0.5),
    Value("max(run.steps, 9, 2)", "int", 9),
    Value("max(run.elapsed, vars.span)", "duration", 90.0),
    Value("min(vars.numbers)", "int", 1),
    Value("max(vars.spans)", "duration", 2.0),
    Value("abs(vars.n)", "int", 4),
    Value("abs(vars.span - run.elapsed)", "duration", 29.0),
    Value("round(7 / 2)", "int", 4),
    Value("round(7 / 3, 2)", "float", 2.33),
    Value("vars.text.lower()", "str", "running"),
    Value("vars.text.upper().startswith('RUN')", "bool", True),
    Value("' a '.strip()", "str", "a"),
    Value("vars.plan.endswith(']')", "bool", True),
    Value("run.status.upper()", "str", "RUNNING"),
    # comprehensions
    Value("any(m in last.text for m in limits.markers)", "bool", True),
    Value("all(w == 'a' for w in vars.words)", "bool", False),
    Value("all(w == 'a' for w in vars.words if w != 'b')", "bool", True),
    Value("any(c.name == 'search' for c in last.tool_calls)", "bool", True),
    Value("count(c.name == 'search' for c in last.tool_calls)", "int", 1),
    Value("count(c for c in last.tool_calls)", "int", 2),
    Value("count(c for c in last.tool_calls if c.name == 'search')", "int", 1),
    Value("count(n > 1 for n in vars.numbers if n < 3)", "int", 1),
    Value("sum(n for n in vars.numbers)", "int", 6),
    Value("sum(n * 0.5 for n in vars.numbers)", "float", 3.0),
    Value("sum(n * 0.5 for n in vars.numbers if n > 9)", "float", 0.0),
    Value("sum(s for s in vars.spans)", "duration", 3.0),
    Value("sum([n for n in vars.numbers if n > 1])", "int", 5),
    Value("any(x == run.steps for x in [1, 7])", "bool", True),
    Value("sum(n + run.steps for n in vars.numbers)", "int", 27),
    # definitions
    Value("busy or found", "bool", True),
    Value("vars.text == word", "bool", True),
    Value("usage.cost is not None and cheap", "bool", False),
    # spelling
    Value("  run.steps   >=\n 7\r\n  and\tvars.flag ", "bool", True),
    Value('vars.text == "✓ Ünï" or vars.flag', "bool", True),
    Value(r'"a\"b\\n\t\x41" == vars.text', "bool", False),
    Value("((((((run.steps))))))", "int", 7),
    Value("1_000 + 0", "int", 1000),
]


@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.text)
def test_it_has_a_type_and_a_value(case: Value) -> None:
    expression = parse(case.text, SCOPE)
    assert expression.type.kind == case.kind
    value = expression.value(AT)
    assert value == case.value
    assert type(value) is type(case.value)


class Wanted(NamedTuple):
    """A text where a type is declared, and the code of the fault, if it may not stand there."""

    text: str
    want: Type
    code: str = ""


RECORD = struct({"id": STR, "n": INT.maybe()}, keyed=True)
WANTED = [
    Wanted("run.steps", FLOAT),
    Wanted("run.steps", ANY),
    Wanted("last.result", ANY),
    Wanted("usage.cost", ANY),
    Wanted("None", ANY),
    Wanted("None", INT.maybe()),
    Wanted("usage.cost", FLOAT.maybe()),
    Wanted("0.95", FRACTION),
    Wanted("1", FRACTION),
    Wanted("usage.context_ratio", FRACTION),
    Wanted("usage.total_tokens / limits.tokens", FRACTION),
    Wanted("0.5 if vars.flag else 1", FRACTION),
    Wanted("[]", list_of(STR)),
    Wanted("['a'] if vars.flag else []", list_of(STR)),
    Wanted("[0.5, 1]", list_of(FRACTION)),
    Wanted("[[], ['a']]", list_of(list_of(STR))),
    Wanted("{}", map_of(INT)),
    Wanted("{'a': 1}", map_of(FLOAT)),
    Wanted("{'id': run.id}", RECORD),
    Wanted("{'id': run.id, 'n': 5}", RECORD),
    Wanted("'high'", enum_of("low", "high")),
    Wanted("'low' if vars.flag else 'high'", enum_of("low", "high")),
    Wanted("vars.level", STR),
    Wanted("run.status", STR),
    Wanted("last.error.message", STR, "CL105"),
    Wanted("vars.flag", BOOL),
    Wanted("run.steps", BOOL, "CL106"),
    Wanted("vars.words", BOOL, "CL106"),
    Wanted("last.result", BOOL, "CL110"),
    Wanted("last.result", STR, "CL110"),
    Wanted("None", BOOL, "CL104"),
    Wanted("None", INT, "CL104"),
    Wanted("usage.cost", FLOAT, "CL105"),
    Wanted("limits.off", INT, "CL109"),
    Wanted("95", FRACTION, "CL104"),
    Wanted("run.steps", FRACTION, "CL104"),
    Wanted("vars.x", INT, "CL104"),
    Wanted("5", SPAN, "CL104"),
    Wanted("'5m'", SPAN, "CL104"),
    Wanted("run.elapsed", FLOAT, "CL104"),
    Wanted("Running", STR, "CL113"),
    Wanted("Low", enum_of("low", "high"), "CL113"),
    Wanted("'lwo'", enum_of("low", "high"), "CL111"),
    Wanted("vars.text", enum_of("low", "high"), "CL104"),
    Wanted("['a', 1]", list_of(STR), "CL104"),
    Wanted("vars.numbers", list_of(STR), "CL104"),
    Wanted("{'n': 5}", RECORD, "CL104"),
    Wanted("{'id': run.id, 'm': 5}", RECORD, "CL104"),
    Wanted("last.tool_calls[0]", RECORD, "CL104"),
    Wanted("In Progress", STR, "CL113"),
]


@pytest.mark.parametrize("case", WANTED, ids=lambda case: f"{case.text} as {case.want}")
def test_it_is_held_against_the_type_where_it_stands(case: Wanted) -> None:
    if not case.code:
        assert parse(case.text, SCOPE, want=case.want).text == case.text
        return
    with pytest.raises(ExpressionFault) as fault:
        parse(case.text, SCOPE, want=case.want)
    assert fault.value.code == case.code


def test_types_as_they_are_told() -> None:
    assert parse("'A' if vars.flag else 'B'", SCOPE).type == enum_of("A", "B")
    assert parse("'A' if vars.flag else 'B' if busy else 'A'", SCOPE).type == enum_of("A", "B")
    assert parse("[]", SCOPE).type == parse_type("list")
    assert parse("[1, 'a']", SCOPE).type == list_of(ANY)
    assert parse("[[]]", SCOPE).type == list_of(list_of(ANY))
    assert parse("len(vars.words)", SCOPE).type == COUNT
    assert parse("run.steps * 2", SCOPE).type == COUNT
    assert parse("run.steps - 2", SCOPE).type == INT
    assert parse("errors.last", SCOPE).type.nullable
    assert not parse("errors.last", SCOPE.narrow({"errors.last"})).type.nullable


class Broken(NamedTuple):
    """A text whose evaluation raises."""

    text: str
    cause: type[Exception]


BROKEN = [
    Broken("1 / vars.n < 0 and 1 / (vars.n + 4) > 0", ZeroDivisionError),
    Broken("run.steps % (vars.n + 4) > 0", ZeroDivisionError),
    Broken("vars.words[7] == 'a'", IndexError),
    Broken("vars.names['x'] == 'a'", KeyError),
    Broken("vars.names.x == 'a'", KeyError),
    Broken("min(vars.numbers) > 0", ValueError),
    Broken("my_check(vars.text, 1)", LookupError),
    Broken("run.started_at * 1e300 * 1e300 > 0", OverflowError),
    Broken("run.started_at * 1e300 * 1e300 * 0 >= 0", OverflowError),
    Broken("max(run.started_at * 1e300 * 1e300, 0) > 1", OverflowError),
    Broken("run.started_at * 1e300 * 1e300", OverflowError),
    Broken("9223372036854775807 + run.steps", OverflowError),
    Broken("[9223372036854775807 * run.steps]", OverflowError),
    Broken("vars.words[run.steps]", IndexError),
    Broken("vars.words[run.steps - 8]", IndexError),
    Broken("vars.words[7]", IndexError),
    Broken("sum(n * 9223372036854775807 for n in [2, run.steps])", OverflowError),
    Broken("any(x == 'a' for x in vars.words) and len(vars.spans) > 5", ValueError),
    Broken("'a' in vars.words", ValueError),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.text)
def test_what_raises_is_not_false(case: Broken) -> None:
    given: dict[str, Any] = {**AT.vars, "numbers": []}
    if case.cause is ValueError and "words" in case.text:
        given["words"] = ["b"] * 10_001
    broken = AT.replace(vars=given, run=RunFacts(steps=7, started_at=1e9))
    expression = parse(case.text, SCOPE)
    with pytest.raises(GUARD_ERRORS):
        expression.fn(broken, no_oracle)
    with pytest.raises(GuardFailed, match="could not be evaluated") as failed:
        expression.value(broken)
    assert isinstance(failed.value.cause, case.cause)
    assert failed.value.text == case.text
    assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value)  # noqa: S301


def test_a_registered_guard_is_asked_with_its_values() -> None:
    asked: list[tuple[str, tuple[Any, ...]]] = []

    def oracle(name: str, args: tuple[Any, ...]) -> bool:
        asked.append((name, args))
        return args[1] > 1

    expression = parse("vars.flag and my_check(vars.text, run.steps)", SCOPE, want=BOOL)
    assert expression.value(AT, oracle) is True
    assert asked == [("my_check", ("Running", 7))]
    assert expression.opaque == ("my_check",)
    assert not expression.constant
    assert parse("my_check('a', 0.5)", SCOPE).reads == frozenset()


def test_equality_is_of_text_and_type() -> None:
    one, same = parse(" busy ", SCOPE), parse("busy", SCOPE)
    assert one == same
    assert hash(one) == hash(same)
    assert one != parse("(busy)", SCOPE)
    assert one.text == "busy"
    with pytest.raises(AttributeError):
        one.text = "x"  # pyright: ignore[reportAttributeAccessIssue]


def test_it_is_compiled_once() -> None:
    expression = parse("busy", SCOPE)
    assert expression.fn is expression.fn


def test_copies_work_like_the_original() -> None:
    expression = parse("run.steps >= 7 and my_check(vars.text, 1)", SCOPE)
    expression.value(AT, yes)
    for other in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):  # noqa: S301
        assert other == expression
        assert other.value(AT, yes) is True


def test_fused_guards_give_their_values_in_order() -> None:
    texts = ["run.steps >= 7", "limits.off is None", "any(w == 'b' for w in vars.words)", "health"]
    expressions = [parse(text, SCOPE) for text in texts]
    assert fuse(expressions)(AT, no_oracle) == tuple(e.value(AT) for e in expressions)
    assert fuse([])(AT, no_oracle) == ()


def test_a_fused_guard_that_fails_is_not_passed_over() -> None:
    fused = fuse([parse(text, SCOPE) for text in ("run.steps >= 7", "1 / (vars.n + 4) > 0")])
    with pytest.raises(ZeroDivisionError):
        fused(AT, no_oracle)


def test_the_sections_that_the_facts_share_are_the_ones_read() -> None:
    twice = parse("errors.total > 1 and errors.last is not None and errors.total < 9", SCOPE)
    at = AT.replace(errors=ErrorFacts(total=2, last=Failure("CRITICAL", "x")))
    assert twice.value(at) is True
    assert parse("signals.top is not None and signals.top == 'x'", SCOPE).value(
        AT.replace(signals=SignalFacts(top="x"))
    )
    assert parse("last.ok", SCOPE).value(AT.replace(last=LastFacts(ok=False))) is False
