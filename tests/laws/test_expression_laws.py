"""What holds for every expression, on all facts."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from chartloop.core.codes import CODES
from chartloop.core.facts import (
    ErrorFacts,
    Facts,
    Failure,
    LastFacts,
    ProgressFacts,
    QueueFacts,
    RunFacts,
    ToolCall,
    UsageFacts,
)
from chartloop.core.types import BOOL
from chartloop.language.expression import (
    GUARD_ERRORS,
    Expression,
    ExpressionFault,
    Scope,
    fuse,
    no_oracle,
    parse,
)
from chartloop.language.expression.runtime import NAMES
from chartloop.language.expression.tree import MIRROR, Compare
from tests.unit.test_expression_world import CALLS, LIMITS, ROOTS, SCOPE, VARS, no

# --- facts, as the engine's own promises make them ------------------------------------------

COUNTS = st.integers(0, 12) | st.sampled_from([0, 1, 2**53])
NUMBERS = st.integers(-12, 12) | st.sampled_from([0.5, -0.25, 1e15, 1e300])
SECONDS = st.floats(0, 1e6) | st.sampled_from([0.0, 60.0])
SHARES = st.floats(0, 1)
TEXTS = st.sampled_from(["", "a", "Running", "✓"])
FAILURES = st.builds(Failure, st.sampled_from(["TRANSIENT", "CRITICAL"]), TEXTS)


@st.composite
def all_facts(draw: st.DrawFn) -> Facts:
    """Facts in which a count of failures means that there is a last one, and the like."""
    failures = draw(st.integers(0, 5))
    failed = draw(st.booleans()) if failures else False
    last = draw(FAILURES) if failures else None
    cost = draw(st.none() | SECONDS)
    return Facts(
        run=RunFacts(steps=draw(COUNTS), elapsed=draw(SECONDS), visits={"plan": draw(COUNTS)}),
        usage=UsageFacts(
            total_tokens=draw(COUNTS),
            messages=draw(COUNTS),
            cost=cost,
            context_ratio=draw(SHARES),
            calls=draw(st.dictionaries(st.just("search"), COUNTS)),
        ),
        errors=ErrorFacts(total=failures, consecutive=draw(st.integers(0, failures)), last=last),
        progress=ProgressFacts(magnitude=draw(st.none() | SHARES), stalled_for=draw(SECONDS)),
        last=LastFacts(
            ok=not failed,
            error=last if failed else None,
            text=draw(TEXTS),
            tool_calls=draw(st.sampled_from([(), CALLS, (ToolCall("3", "a", ""),)])),
        ),
        queue=QueueFacts(size=draw(COUNTS)),
        limits={
            **{name: value for name, (_, value) in LIMITS.items()},
            "steps": draw(st.integers(1, 10)),
            "tokens": draw(st.integers(1, 10)),
            "off": draw(st.none() | st.integers(1, 10)),
            "off_time": draw(st.none() | SECONDS),
            "cost": draw(st.none() | SECONDS),
        },
        vars={
            **{name: value for name, (_, value) in VARS.items()},
            "n": draw(st.integers(-12, 12)),
            "x": draw(NUMBERS),
            "flag": draw(st.booleans()),
            "text": draw(TEXTS),
            "words": draw(st.lists(TEXTS, max_size=3)),
            "numbers": draw(st.lists(st.integers(-3, 3), max_size=3)),
        },
    )


# --- texts, each of its type ------------------------------------------------------------------

NUMBER_LEAVES = [
    "run.steps",
    "usage.total_tokens",
    "usage.messages",
    "errors.consecutive",
    "errors.total",
    "run.visits.plan",
    "usage.calls.search",
    "vars.n",
    "vars.x",
    "limits.steps",
    "limits.tokens",
    "0",
    "3",
    "0.5",
    "-2",
    "(health)",
    "len(vars.words)",
    "(usage.context_ratio + 0)",
    "count(c for c in last.tool_calls)",
]
SPAN_LEAVES = ["run.elapsed", "vars.span", "limits.time", "progress.stalled_for", 'duration("1m")']
TEXT_LEAVES = ["vars.text", "last.text", "'a'", '"Running"', "last.text.lower()", '"✓ü"']
TRUTH_LEAVES = [
    "last.ok",
    "vars.flag",
    "queue.primary_done",
    "busy",
    "found",
    "'a' in vars.words",
    "vars.words == ['a']",
    "errors.last is None",
    "usage.cost is not None",
    "run.steps >= limits.off",
    "run.steps < limits.off",
    "limits.off > usage.total_tokens + run.visits.plan",
    "usage.cost >= limits.cost",
    "limits.off is not None and limits.off > vars.n",
    "progress.magnitude is not None and progress.magnitude < 0.5",
    "progress.magnitude is None or progress.magnitude > vars.x",
    "(errors.consecutive >= 1 and errors.last.category == 'CRITICAL')",
    "(last.ok or last.error.message != 'a')",
    "run.elapsed <= limits.off_time",
    "severity == 'CRITICAL'",
    "any(n * 2 > run.steps for n in vars.numbers)",
    "all(c.name != 'search' for c in last.tool_calls if c.id > '1')",
]
ORDERS = st.sampled_from([">=", ">", "<=", "<", "==", "!="])


def _join(*parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda found: "(" + " ".join(found) + ")")


CONDITIONS = st.sampled_from(["n > 0", "vars.flag", "run.steps >= n"])


def _one(words: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(words)


def _numbers(depth: int) -> st.SearchStrategy[str]:
    leaf = _one(NUMBER_LEAVES)
    if not depth:
        return leaf
    inner, span, truth = _numbers(depth - 1), _spans(depth - 1), _truths(depth - 1)
    return (
        leaf
        | _join(inner, _one(["+", "-", "*", "/", "//", "%"]), inner)
        | _join(span, _one(["/", "//"]), span)
        | _join(_one(["-"]), inner)
        | _join(inner, st.just("if"), truth, st.just("else"), inner)
        | st.builds("{}({}, {})".format, _one(["min", "max"]), inner, inner)
        | st.builds("{}({})".format, _one(["abs", "round"]), inner)
        | st.builds("sum(n * {} for n in vars.numbers if {})".format, inner, CONDITIONS)
    )


def _spans(depth: int) -> st.SearchStrategy[str]:
    leaf = _one(SPAN_LEAVES)
    if not depth:
        return leaf
    inner = _spans(depth - 1)
    return (
        leaf
        | _join(inner, _one(["+", "-", "%"]), inner)
        | _join(inner, _one(["*", "/"]), _one(["2", "vars.n", "0.5"]))
        | st.builds("max({}, {})".format, inner, inner)
    )


def _truths(depth: int) -> st.SearchStrategy[str]:
    leaf = _one([f"({word})" for word in TRUTH_LEAVES])
    if not depth:
        return leaf
    inner, number, span = _truths(depth - 1), _numbers(depth - 1), _spans(depth - 1)
    text = _one(TEXT_LEAVES)
    return (
        leaf
        | _join(number, ORDERS, number)
        | _join(number, ORDERS, number, ORDERS, number)
        | _join(span, ORDERS, span)
        | _join(text, ORDERS, text)
        | _join(text, _one(["in", "not in"]), text)
        | _join(number, _one([">=", ">"]), st.just("limits.off"))
        | _join(inner, _one(["and", "or"]), inner)
        | _join(inner, _one(["and", "or"]), inner, _one(["and", "or"]), inner)
        | _join(st.just("not"), inner)
        | _join(inner, st.just("if"), inner, st.just("else"), inner)
    )


TRUTHS = _truths(2)
VALUES = _numbers(2) | _spans(2)


def checked(text: str, scope: Scope = SCOPE, *, guard: bool = True) -> Expression:
    """The expression; texts that only nest comprehensions are no examples."""
    try:
        return parse(text, scope, want=BOOL if guard else None)
    except ExpressionFault as fault:
        assume("one list is gone through" not in fault.message)
        raise


def fault_of(text: str, scope: Scope = SCOPE) -> ExpressionFault | None:
    """What is wrong with a text."""
    try:
        parse(text, scope)
    except ExpressionFault as fault:
        return fault
    return None


NOTHING = object()


def value_of(expression: Expression, facts: Facts) -> Any:
    """Its value, or NOTHING when it raises what it may raise."""
    try:
        return expression.fn(facts, no)
    except GUARD_ERRORS:
        return NOTHING


# --- laws --------------------------------------------------------------------------------------


@given(TRUTHS, all_facts())
def test_a_guard_is_true_or_false_or_says_why_not(text: str, facts: Facts) -> None:
    expression = checked(text)
    try:
        value = expression.fn(facts, no)
    except (ArithmeticError, LookupError):
        return  # what is declared is there and of its type: nothing else can go wrong
    assert value is True or value is False


@given(VALUES, all_facts())
@example("vars.x * vars.x", Facts(vars={"x": 1e300}))
@example("vars.x * vars.x - vars.x * vars.x", Facts(vars={"x": 1e300}))
@example("-(vars.x * vars.x)", Facts(vars={"x": 1e300}))
def test_a_value_is_a_finite_number(text: str, facts: Facts) -> None:
    expression = checked(text, guard=False)
    try:
        value = expression.fn(facts, no)
    except (ArithmeticError, LookupError):
        return
    kinds = {"int": int, "float": (int, float), "fraction": float, "duration": (int, float)}
    assert isinstance(value, kinds[expression.type.kind])
    assert abs(value) < float("inf")
    if expression.type.nonneg:
        assert value >= 0


@given(st.lists(TRUTHS | VALUES, max_size=5), all_facts())
def test_fused_is_the_same_as_one_by_one(texts: list[str], facts: Facts) -> None:
    expressions = [checked(text, guard=False) for text in texts]
    apart = [value_of(expression, facts) for expression in expressions]
    try:
        together = list(fuse(expressions)(facts, no_oracle))
    except GUARD_ERRORS:
        assert NOTHING in apart
    else:
        assert together == apart


MOVING = {
    "run.steps": COUNTS,
    "usage.total_tokens": COUNTS,
    "usage.messages": COUNTS,
    "run.elapsed": SECONDS,
    "vars.n": st.integers(-12, 12),
    "vars.x": NUMBERS,
    "vars.flag": st.booleans(),
    "usage.context_ratio": SHARES,
    "usage.cost": st.none() | SECONDS,
    "limits.steps": st.integers(1, 10),
    "run.visits.plan": COUNTS,
}
NEAR_ZERO = st.integers(-3, 3)


def put(facts: Facts, path: str, value: Any) -> Facts:
    """The facts with one of them changed."""
    root, _, field = path.partition(".")
    section: Any = getattr(facts, root)
    if path == "run.visits.plan":
        changed = section.replace(visits={"plan": value})
    elif isinstance(section, dict):
        changed = {**section, field: value}  # pyright: ignore[reportUnknownVariableType]
    else:
        changed = section.replace(**{field: value})
    return facts.replace(**{root: changed})


SMALL = st.integers(0, 4)
COUNTED = ["run.steps", "usage.messages", "vars.n", "limits.steps"]


@st.composite
def small_facts(draw: st.DrawFn) -> Facts:
    """Facts so close together that a wrong direction shows."""
    facts = put(draw(all_facts()), "limits.steps", draw(st.integers(1, 4)))
    for path, values in (("run.steps", SMALL), ("usage.messages", SMALL), ("vars.n", NEAR_ZERO)):
        facts = put(facts, path, draw(values))
    return facts


def _moving(path: str, depth: int) -> st.SearchStrategy[str]:
    """Arithmetic that is full of one fact."""
    leaf = _one([path, path, "vars.n", "vars.n", *COUNTED, "2", "-3"])
    if not depth:
        return leaf
    inner = _moving(path, depth - 1)
    return st.one_of(
        _join(inner, _one(["+", "-"]), leaf),
        _join(leaf, _one(["-", "*", "/", "//", "%"]), inner),
        _join(inner, _one(["*", "/"]), leaf),
        st.builds("{}({}, {})".format, _one(["min", "max"]), inner, leaf),
        st.builds("{}({})".format, _one(["abs", "round", "-"]), inner),
        st.builds("({} if {} > {} else {})".format, _one(["1", "-1"]), inner, leaf, leaf),
    )


class Moving(NamedTuple):
    """A text that is full of a fact, and two values of the fact, the smaller first."""

    text: str
    path: str
    values: tuple[int, int]


def _about(path: str) -> st.SearchStrategy[Moving]:
    number = _moving(path, 1) | _moving(path, 2)
    guard = _join(number, ORDERS, _moving(path, 0))
    turned = guard.map(lambda text: f"not {text}")
    near = NEAR_ZERO if path == "vars.n" else st.integers(1, 4)
    values = st.lists(near, min_size=2, max_size=2, unique=True).map(sorted)
    return st.builds(Moving, number | guard | turned, st.just(path), values.map(tuple))


@pytest.mark.slow("tries hundreds of examples for seconds")
@settings(max_examples=400)
@given(st.sampled_from(COUNTED).flatmap(_about), small_facts())
@example(Moving("abs(vars.n)", "vars.n", (-3, -1)), Facts(vars={"n": 0}))
@example(Moving("1 / vars.n", "vars.n", (-1, 1)), Facts(vars={"n": 0}))
def test_direction_holds_where_facts_are_dense(case: Moving, facts: Facts) -> None:
    _moves_one_way(case.text, case.path, facts, case.values)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.data(), TRUTHS | VALUES, all_facts(), st.sampled_from(sorted(MOVING)))
def test_what_moves_one_way_never_moves_the_other(
    data: st.DataObject, text: str, facts: Facts, path: str
) -> None:
    _moves_one_way(text, path, facts, (data.draw(MOVING[path]), data.draw(MOVING[path])))


def _moves_one_way(text: str, path: str, facts: Facts, values: tuple[Any, Any]) -> None:
    expression = checked(text, guard=False)
    way = expression.direction(path)
    if way == "?":
        return
    low, high = sorted(values, key=lambda v: float("-inf") if v is None else v)
    before = value_of(expression, put(facts, path, low))
    after = value_of(expression, put(facts, path, high))
    if way == "":
        assert before == after
    elif before is not NOTHING and after is not NOTHING:
        assert before <= after if way == "+" else before >= after


@given(TRUTHS, st.sampled_from(sorted(MOVING)))
def test_a_fact_that_is_not_read_plays_no_part(text: str, path: str) -> None:
    expression = checked(text)
    if path not in expression.reads:
        assert expression.direction(path) == ""


SPENT = 10**18
GROWING = ["run.steps", "usage.total_tokens", "run.visits.plan", "(run.steps + usage.llm_calls)"]


@st.composite
def bounded_guards(draw: st.DrawFn) -> str:
    """Guards of which many are budgets."""
    counter = draw(_one(GROWING))
    side = draw(
        st.sampled_from(
            [
                counter,
                f"{counter} * 2",
                f"{counter} / limits.steps",
                f"3 - {counter}",
                f"-{counter}",
                f"max({counter}, vars.n)",
                f"min({counter}, 5)",
                f"{counter} - vars.n",
                f"{counter} // 2 + {counter}",
                f"round({counter} / 3)",
                f"{counter} % 3",
            ]
        )
    )
    bound = draw(_one(["limits.steps", "limits.tokens * 2", "7", "-7", "vars.n", *GROWING]))
    order = draw(_one([">=", ">", "<", "<="]))
    atom = f"({side} {order} {bound})"
    other = draw(_one(["last.ok", "run.steps > 3", "usage.cost is not None", "vars.n > 2"]))
    return draw(
        st.sampled_from(
            [
                atom,
                f"not {atom}",
                f"({atom} or {other})",
                f"({atom} and {other})",
                f"not ({atom} and {other})",
                f"not ({atom} or {other})",
            ]
        )
    )


@given(bounded_guards(), all_facts(), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_a_budget_is_spent_at_last(text: str, facts: Facts, speeds: list[int]) -> None:
    """However much faster one counter grows than another."""
    expression = checked(text)
    if expression.kind == "signal":
        return
    steps, visits, tokens, calls = (speed * SPENT for speed in speeds)
    late = facts.replace(
        run=facts.run.replace(steps=steps, visits={"plan": visits}),
        usage=facts.usage.replace(total_tokens=tokens, llm_calls=calls, cost=1e18),
    )
    assert expression.fn(late, no) is True


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(bounded_guards() | TRUTHS, all_facts())
def test_a_passed_bound_that_decides_makes_the_guard_true(text: str, facts: Facts) -> None:
    expression = checked(text)
    readings = {reading.text: reading for reading in expression.readings(facts, no)}
    for bound in expression.bounds:
        margin = readings[bound.text].margin
        if margin is None or not bound.decides:
            continue
        if margin < 0 or (margin == 0 and not bound.strict):
            assert value_of(expression, facts) in (True, NOTHING)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(TRUTHS, all_facts())
@example("(5 <= run.steps < limits.steps)", Facts(limits={"steps": 5}))
def test_margins_agree_with_the_verdict(text: str, facts: Facts) -> None:
    for reading in checked(text).readings(facts, no):
        assert (reading.holds is None) == bool(reading.error)
        # beyond this a float no longer tells neighbouring whole numbers apart
        if reading.margin is None or max(abs(reading.left), abs(reading.right)) >= 2**53:
            continue
        atom = parse(reading.text, SCOPE.narrow(NULLABLE)).root
        assert isinstance(atom, Compare)
        op = atom.links[0].op
        if reading.margin != reading.right - reading.left:
            op = MIRROR[op]
        left_over = {">=": reading.margin <= 0, ">": reading.margin < 0}
        assert (
            reading.holds == {**left_over, "<": not left_over[">="], "<=": not left_over[">"]}[op]
        )
        if reading.share is not None:
            assert reading.share >= 0
            assert (reading.share > 1) == (reading.margin < 0) or reading.share == 1


NULLABLE = (
    "progress.magnitude errors.last last.error usage.cost limits.off limits.cost limits.off_time"
).split()


def fact(facts: Facts, path: str) -> Any:
    """The value of a dotted fact."""
    root, _, field = path.partition(".")
    section: Any = getattr(facts, root)
    return section[field] if root in {"limits", "vars"} else getattr(section, field)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(TRUTHS, all_facts())
def test_an_atom_says_by_itself_what_it_says_in_its_guard(text: str, facts: Facts) -> None:
    there = SCOPE.narrow(path for path in NULLABLE if fact(facts, path) is not None)
    for reading in checked(text).readings(facts, no):
        wrong = fault_of(reading.text, there)
        if wrong is not None:
            assert wrong.code in {"CL105", "CL109"}
        elif reading.holds is not None:
            assert parse(reading.text, there, want=BOOL).fn(facts, no) is reading.holds
        elif not reading.error.endswith("is None"):
            assert value_of(parse(reading.text, there, want=BOOL), facts) is NOTHING


@given(_one(TRUTH_LEAVES) | _join(_numbers(1), ORDERS, _numbers(1)), all_facts())
def test_a_guard_of_one_atom_reads_as_it_judges(text: str, facts: Facts) -> None:
    expression = checked(text)
    readings = expression.readings(facts, no)
    if len(readings) == 1:
        holds = readings[0].holds
        assert value_of(expression, facts) == (NOTHING if holds is None else holds)


PRESENCE = [
    "errors.last is None",
    "errors.last is not None",
    "usage.cost >= 0",
    "usage.cost is None",
    "run.steps >= limits.off",
    "run.steps < limits.off",
    "errors.total >= 1",
    "errors.total == 0",
    "errors.consecutive < 1",
    "last.ok",
    "vars.flag",
]


def _presence(depth: int) -> st.SearchStrategy[str]:
    if not depth:
        return _one([f"({word})" for word in PRESENCE])
    inner = _presence(depth - 1)
    return (
        _join(inner, _one(["and", "or"]), inner)
        | _join(st.just("not"), inner)
        | _join(inner, st.just("if"), inner, st.just("else"), inner)
    )


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(_presence(1) | _presence(2) | TRUTHS, all_facts())
def test_what_is_implied_is_there(text: str, facts: Facts) -> None:
    expression = checked(text)
    value = value_of(expression, facts)
    if value is NOTHING:
        return
    for path in expression.implies(value):
        assert fact(facts, path) is not None


@given(TRUTHS, all_facts())
def test_a_definition_means_what_its_text_means(text: str, facts: Facts) -> None:
    whole = checked(text)
    named = checked("it", Scope(ROOTS, defines={**SCOPE.defines, "it": text}, guards=SCOPE.guards))
    assert value_of(named, facts) == value_of(whole, facts)
    assert (named.reads, named.ops, named.kind) == (whole.reads, whole.ops, whole.kind)
    assert named.readings(facts, no) == whole.readings(facts, no)
    assert named.bounds == whole.bounds


@given(TRUTHS, all_facts())
def test_not_turns_everything_round(text: str, facts: Facts) -> None:
    plain, turned = checked(text), checked(f"not {text}")
    value = value_of(plain, facts)
    assert value_of(turned, facts) == (value if value is NOTHING else not value)
    for holds in (True, False):
        assert turned.implies(holds) == plain.implies(not holds)
    flipped = {"+": "-", "-": "+", "": "", "?": "?"}
    for path in MOVING:
        assert turned.direction(path) == flipped[plain.direction(path)]


# --- hostile text ------------------------------------------------------------------------------

TOKENS = (
    "usage.total_tokens limits.steps vars.text vars.words vars.any run last.ok busy egg broken "
    "and or not in is None True if else for lambda await yield async import ( ) [ ] { } , : . = == "
    ">= < + - * / // % ** @ << & | ^ ~ := -> ; ! $ ? ` \\ # ' \" ''' 0 1 5 95% 1.5 1e999 0x1f 1j "
    "0777 1_0 24h 9223372036854775808 'a' \"b\" f'{vars}' b'x' r'\\d' u'x' any( all( count( sum( "
    "len( min( duration( my_check( __class__ ._x __import__('os') .format( .lower() x v_x f ask "
    "✓ ü \uff3f \uff52\uff55\uff4e \x00 \n \t \r \ud800 \u2028 \x0c \xa0 true null === && ||"
).split(" ")
SOUP = st.lists(st.sampled_from(TOKENS), max_size=30).flatmap(
    lambda words: st.sampled_from([" ".join(words), "".join(words)])
)


def judged(text: str) -> Expression | None:
    """The expression, or None for a text that is refused as it should be."""
    fault = fault_of(text)
    if fault is None:
        return parse(text, SCOPE)
    assert fault.code in CODES
    assert fault.message
    assert 0 <= fault.offset <= len(text)
    assert fault.width >= 1
    assert fault.offset + fault.width <= max(len(text), 1)
    return None


@given(SOUP | st.text(max_size=60) | st.text("()[]{}'\"\\fbru#", max_size=40))
@example('("✓ü" >= "✓ü"0777)')
@example("0ifusage.total_tokens")
@example("run.steps f1.5or n")
@example("1if 1else 2")
@example("'\\777' == vars.text")
@example("'\\ud800' == vars.text")
@example("\ud800")
@example("'a\nb' == vars.text")
@example("vars.words[-1] is None is None")
@example("{} == {}")
@example("{**vars.names}")
@example("[*vars.words]")
@example("any(x for x, y in vars.words)")
@example("any(x async for x in vars.words)")
@example("None is None")
@example("None if None else None")
@example("[None][0] is None")
@example("[] in []")
@example("[[]] == [[1]]")
@example("min([])")
@example("any(x is None for x in [])")
@example("-None")
@example("1 if last.ok else None if vars.flag else 'a'")
def test_any_text_is_taken_or_refused(text: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        expression = judged(text)
        if expression is not None:
            value_of(expression, Facts())
    assert told == []
    if expression is not None:
        for value in (expression.reads, expression.opaque, expression.ops, expression.bounds):
            assert isinstance(value, frozenset | tuple)
        expression.readings(Facts(), no)


@given(TRUTHS | VALUES, st.integers(0, 200), st.sampled_from(TOKENS))
def test_a_text_with_a_slip_is_taken_or_refused(text: str, at: int, slip: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        judged(text[:at] + slip + text[at:])
        judged(text[:at] + text[at + 1 :])
    assert told == []


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


FIELDS = {name for root in ROOTS.values() for name, _ in root.fields}
METHODS = {"get", "lower", "upper", "strip", "startswith", "endswith"}
INNER = {"category", "message", "state", "id", "name", "arguments"}


@given(TRUTHS | VALUES | SOUP)
def test_code_reaches_nothing_but_facts_and_its_own_functions(text: str) -> None:
    if fault_of(text) is not None:
        return
    expression = parse(text, SCOPE)
    function: Any = expression.fn
    assert function.__globals__["__builtins__"] == {}
    assert set(function.__globals__) == {*NAMES, "guard"}
    for code in codes_of(function.__code__):
        assert set(code.co_names) <= {*NAMES, *ROOTS, *FIELDS, *METHODS, *INNER}
        assert not any(name.startswith("__") for name in code.co_names)


@given(st.text(" \n\t", max_size=5), TEXTS, st.sampled_from(["usage.zzz", "limits.zzz > 5", "zzz"]))
def test_a_fault_points_at_its_place(blanks: str, word: str, wrong: str) -> None:
    text = f"{blanks}'ü{word}' in vars.plan or{blanks} {wrong}"
    fault = fault_of(text)
    assert fault is not None
    assert text[fault.offset : fault.offset + fault.width] == wrong.removesuffix(" > 5")
