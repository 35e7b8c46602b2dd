"""The machine that the tests of expressions speak about, and that it is a real one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from chartloop.core.facts import FACTS, ErrorFacts, Facts, Failure, LastFacts, ToolCall, sections
from chartloop.core.specs import GuardSpec
from chartloop.core.types import (
    ANY,
    BOOL,
    COUNT,
    COUNTER,
    FLOAT,
    FRACTION,
    INT,
    STR,
    Type,
    list_of,
    map_of,
    struct,
)
from chartloop.language.expression import Scope, parse, widen

SPAN = Type("duration", nonneg=True)

LIMITS: Mapping[str, tuple[Type, Any]] = {
    "steps": (COUNT, 50),
    "tokens": (COUNT, 1_000),
    "time": (SPAN, 600.0),
    "context": (Type("fraction", nonneg=True), 0.95),
    "off": (COUNT.maybe(), None),
    "off_time": (SPAN.maybe(), None),
    "cost": (Type("float", nonneg=True, nullable=True), 2.5),
    "markers": (list_of(STR), ["DONE", "✓"]),
    "off_markers": (list_of(STR).maybe(), None),
}
VARS: Mapping[str, tuple[Type, Any]] = {
    "text": (STR, "Running"),
    "plan": (STR, "do it [FINALIZE]"),
    "words": (list_of(STR), ["a", "b"]),
    "more_words": (list_of(STR), ("a", "b")),
    "numbers": (list_of(INT), [3, 1, 2]),
    "spans": (list_of(SPAN), [1.0, 2.0]),
    "names": (map_of(STR), {"k": "v"}),
    "counts": (map_of(INT), {"k": 2}),
    "anything": (map_of(ANY), {"k": 2}),
    "flag": (BOOL, True),
    "n": (INT, -4),
    "x": (FLOAT, 0.5),
    "span": (SPAN, 90.0),
    "share": (FRACTION, 0.25),
    "any": (ANY, None),
    "level": (Type("enum", values=("low", "high")), "low"),
}
STATES = ("plan", "act", "continue")
ALWAYS = GuardSpec("my_check", (STR, FLOAT), lambda *_: True)


def _keyed(fields: Mapping[str, tuple[Type, Any]]) -> Type:
    return struct({name: found for name, (found, _) in fields.items()}, keyed=True)


def _roots() -> dict[str, Type]:
    roots = sections()
    visits = struct(dict.fromkeys(STATES, COUNTER), keyed=True)
    run = {name: found if name != "visits" else visits for name, found in roots["run"].fields}
    return {
        **roots,
        "run": struct(run),
        "limits": _keyed(LIMITS),
        "vars": _keyed(VARS),
        "memory": struct({"persona": STR}, keyed=True),
    }


DEFINES = {
    "busy": "run.steps >= limits.steps",
    "health": "1 - usage.total_tokens / limits.tokens",
    "severity": '"CRITICAL" if health < 0.2 else "WARNING"',
    "broken": "usage.tokenz >= 5",
    "egg": "hen",
    "hen": "egg or busy",
    "word": '"Running"',
    "found": "any(w == 'a' for w in vars.words)",
    "cheap": "usage.cost < 1.0",
    "never": "False",
}
ROOTS = _roots()
SCOPE = Scope(ROOTS, defines=DEFINES, guards={"my_check": ALWAYS})
CALLS = (ToolCall("1", "search", "{}"), ToolCall("2", "answer", '{"a": 1}'))


def facts(**sections: Any) -> Facts:
    """Facts of the machine above, with some sections replaced."""
    given: dict[str, Any] = {
        "limits": {name: value for name, (_, value) in LIMITS.items()},
        "vars": {name: value for name, (_, value) in VARS.items()},
        "memory": {"persona": "I help."},
        "last": LastFacts(tool_calls=CALLS, text="all DONE"),
        **sections,
    }
    return Facts(**given)


def yes(_name: str, _args: tuple[Any, ...]) -> bool:
    """Answers every registered guard with yes."""
    return True


def no(_name: str, _args: tuple[Any, ...]) -> bool:
    """Answers every registered guard with no."""
    return False


def test_each_fact_of_the_table_can_be_read(subtests: pytest.Subtests) -> None:
    at = facts(errors=ErrorFacts(last=Failure("CRITICAL", "broken")))
    for path, row in FACTS.items():
        with subtests.test(path):
            root, _, field = path.partition(".")
            expression = parse(path, SCOPE)
            assert expression.value(at) == getattr(getattr(at, root), field)
            assert expression.reads == {path}
            if path != "run.visits":
                assert expression.type == row.type


def test_each_limit_and_variable_can_be_read(subtests: pytest.Subtests) -> None:
    for path in [*(f"limits.{n}" for n in LIMITS), *(f"vars.{n}" for n in VARS)]:
        with subtests.test(path):
            root, _, field = path.partition(".")
            assert parse(path, SCOPE).value(facts()) == getattr(facts(), root)[field]


def test_a_counter_of_what_never_happened_is_zero() -> None:
    counted = parse("usage.calls.search + run.visits.plan", SCOPE)
    assert counted.value(facts()) == 0
    assert counted.reads == {"usage.calls.search", "run.visits.plan"}


def test_sections_may_be_read_only_mappings() -> None:
    frozen = facts(limits=MappingProxyType({"steps": 5}))
    assert parse("run.steps < limits.steps", SCOPE).value(frozen) is True


def test_more_roots_are_read_beside_the_facts() -> None:
    result = struct({"path": struct({"n": INT}, keyed=True)}, keyed=True)
    scope = Scope(ROOTS, extra={"result": result, "items": list_of(INT)})
    at = widen(facts(), result={"path": {"n": 7}}, items=[1, 2])
    expression = parse("result.path.n + len(items) + run.steps", scope)
    assert expression.value(at) == 9
    assert expression.reads == {"result", "items", "run.steps"}


def test_the_type_of_a_result_is_given_by_the_place() -> None:
    typed = {"last.result": struct({"score": FLOAT}, keyed=True)}
    expression = parse("last.result.score > 0.5", Scope(ROOTS, typed=typed))
    assert expression.value(facts(last=LastFacts(result={"score": 0.75}))) is True
    assert expression.reads == {"last.result"}
