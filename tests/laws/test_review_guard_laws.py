"""Laws of rewritten guards: a loosened guard holds wherever it held, whatever the facts."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from chartloop.analysis.versions.diff.guards import Shift
from chartloop.api import Machine
from chartloop.language.expression import Expression, Scope, no_oracle, parse
from tests.unit.test_review_changes import machine

BODY = """\
limits: {most: 4, off: {type: int, value: null}}
vars: {n: 1, m: 1, flag: false, word: ""}
rules: [{when: run.steps >= limits.most or run.steps >= limits.off, stop: steps_limit}]
"""
ATOMS = (
    "vars.n >= {a}", "vars.n > {a}", "{a} <= vars.m", "{a} < vars.n", "vars.m <= {a}", "vars.n < {a}", "vars.n + {a} >= vars.m",
    "vars.n - {a} > 0", "vars.n * {a} >= 3", "{a} * vars.m <= 4", "min(vars.n, {a}) >= {b}", "max(vars.n, {a}) > {b}", "{a} < vars.n < {b}",
    "vars.n / 2 >= {a}", "-vars.n >= {a}", "vars.n == {a}", "vars.n >= limits.most", "vars.n >= limits.off", "vars.n >= limits.most - {a}",
    "vars.n in [1, {a}]", "vars.m not in [{a}, {b}]", "vars.flag", "(vars.n if vars.flag else {a}) >= {b}",
    "any(x >= {a} for x in [vars.n, vars.m])", "all(x > {a} for x in [vars.n, vars.m])", "abs(vars.n) >= {a}", "vars.n % 3 >= {a}",
)  # fmt: skip
SIGNS = {">=": ">", "<=": "<", ">": ">=", "<": "<="}
numbers = st.integers(-1, 4)


@cache
def before() -> Machine:
    return machine(BODY)


@cache
def after() -> Machine:
    return machine(BODY.replace("most: 4", "most: 2"))


@st.composite
def atoms(draw: st.DrawFn) -> tuple[str, str]:
    """A comparison, and one that is like it."""
    shape, values = draw(st.sampled_from(ATOMS)), {"a": draw(numbers), "b": draw(numbers)}
    one = other = shape.format(**values)
    match draw(st.sampled_from(["signs", "numbers", "anything"])):
        case "signs":  # reached, or passed
            sign = next((s for s in SIGNS if s in one), "")
            other = one.replace(sign, SIGNS[sign]) if sign else one
        case "numbers":
            other = shape.format(a=draw(numbers), b=values["b"])
        case _:
            other = draw(st.sampled_from(ATOMS)).format(a=draw(numbers), b=draw(numbers))
    return (one, other) if draw(st.booleans()) else (other, one)


@st.composite
def guards(draw: st.DrawFn) -> tuple[str, str]:
    """A guard and how it may have been rewritten."""
    parts = [draw(atoms()) for _ in range(draw(st.sampled_from([1, 1, 2, 3])))]
    op = draw(st.sampled_from([" and ", " or "]))
    ones, others = [f"({p[0]})" for p in parts], [f"({p[1]})" for p in parts]
    for side in (ones, others):
        if draw(st.integers(0, 3)) == 0 and len(side) > 1:
            side.pop(draw(st.integers(0, len(side) - 1)))
    texts = [op.join(ones), op.join(others)]
    if draw(st.booleans()):
        texts = [f"not ({text})" for text in texts]
    return texts[0], texts[1]


def read(made: Machine, text: str) -> Expression:
    return parse(text, Scope(made.spec.roots))


def shift(one: Machine, other: Machine) -> Shift:
    limits = [{n: x.value for n, x in made.spec.limits.items()} for made in (one, other)]
    return Shift(limits[0], limits[1])


def values(made: Machine, guard: Expression) -> list[bool]:
    """What a guard says for a good many facts."""
    facts: Any = made.chart.position("").facts
    grid = product(range(-3, 7), range(-3, 7), (False, True))
    return [
        guard.value(facts.replace(vars=facts.vars | {"n": n, "m": m, "flag": flag}), no_oracle)
        for n, m, flag in grid
    ]


@settings(max_examples=300)
@given(guards(), st.booleans())
@example(("vars.n >= 0", "-1 < vars.n"), False)
def test_what_is_said_of_a_rewritten_guard_holds(texts: tuple[str, str], moved: bool) -> None:
    one, other = before(), after() if moved else before()
    old, new = read(one, texts[0]), read(other, texts[1])
    found = shift(one, other).of(old.root, new.root)
    assert shift(other, one).of(new.root, old.root) == (None if found is None else -found)
    pairs = [*zip(values(one, old), values(other, new), strict=True)]
    match found:
        case 1:
            assert all(now for was, now in pairs if was)
        case -1:
            assert all(was for was, now in pairs if now)
        case 0:
            assert all(was == now for was, now in pairs)
        case _:
            pass


@given(guards())
def test_a_guard_that_is_written_again_has_not_moved(texts: tuple[str, str]) -> None:
    one = before()
    spaced = texts[0].replace("(", " ( ").replace(")", " ) ")
    spaced = spaced.replace("min (", "min(")
    assert shift(one, one).of(read(one, texts[0]).root, read(one, spaced).root) == 0
