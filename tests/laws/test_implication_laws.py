"""Over a schema whose calls can all be listed, no answer about two conditions is wrong.

A `yes` never contradicts the list. The arguments of a `no` stand in it and show the difference. An
unknown answer is never wrong, so how many there are is counted.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from chartloop.analysis.proofs.guards.implication import implies, still_holds
from chartloop.core.specs import ToolSpec
from chartloop.core.types import BOOL, struct
from chartloop.language.approval import call_type
from chartloop.language.call_data import defaults_of
from chartloop.language.expression import GUARD_ERRORS, Expression, Scope, no_oracle, parse
from chartloop.language.server_tools import Arguments

SCHEMA: dict[str, Any] = {
    "type": "object", "required": ["n", "w", "b", "o", "l"], "additionalProperties": False,
    "properties": {
        "n": {"type": "integer", "minimum": -1, "maximum": 3},
        "d": {"type": "integer", "minimum": 0, "maximum": 2, "default": 2},
        "m": {"type": ["integer", "null"], "enum": [None, 0, 3], "default": None},
        "w": {"enum": ["", "a", "ab"]},
        "b": {"type": "boolean"},
        "o": {"type": "object", "required": [], "additionalProperties": {"type": "integer", "enum": [1]}, "propertyNames": {"enum": ["k"]}},
        "l": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 1}, "maxItems": 1},
    },
}  # fmt: skip


def paid(**_: object) -> str:
    """The tool of this schema."""
    return "paid"


TOOL = ToolSpec("pay", "Pays.", SCHEMA, Arguments("pay", SCHEMA), paid)
ABSENT = object()
VALUES: dict[str, list[Any]] = {
    "n": [-1, 0, 1, 2, 3], "d": [ABSENT, 0, 1, 2], "m": [ABSENT, None, 0, 3],
    "w": ["", "a", "ab"], "b": [True, False], "o": [{}, {"k": 1}],
    "l": [[], [0], [1]],
}  # fmt: skip
CALLS = [
    {n: v for n, v in zip(VALUES, values, strict=True) if v is not ABSENT}
    for values in product(*VALUES.values())
]
"""Every call that the schema accepts."""
SCOPE = Scope(
    {"vars": struct({"on": BOOL}, keyed=True)},
    extra={"call": call_type({TOOL.name: SCHEMA})},
)  # fmt: skip
ATOMS = [
    *(f".{x} {op} {c}" for x in "nd" for op in ("<", "<=", "==", "!=", ">", ">=") for c in range(5)),
    *(f".m {op} {c}" for op in (">=", ">") for c in (0, 3)), ".m is None", ".m is not None",
    *(f".n + .d {op} {c}" for op in ("<", "==", ">=") for c in (1, 3)), ".n > .d", ".n - .d >= 2",
    ".n * .d > 4", "0 < .n <= 3", ".n in [1, 3]", ".d not in [0, 2]", "10 / .d > 6",
    *(f'.w == "{w}"' for w in ("", "a", "ab")), '.w != "a"', '.w in ["a", "ab"]', '"b" in .w',
    '.w.startswith("a")', "len(.w) > 1", "len(.w) >= .n", ".b", ".b == False", "not .b",
    "len(.l) > 0", "len(.l) == 1", "1 in .l", ".l[0] == 1", "any(i > 0 for i in .l)",
    "all(i > 0 for i in .l)", "sum(i for i in .l) > 0", "max(.l) > 0", '"k" in .o', ".o.k > 0",
    "len(.o) > 0", "abs(.n) > 0", "(1 if .b else .n) > 1", 'call.name == "pay"', "vars.on",
]  # fmt: skip
CONDITIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("not ({})".format, inner),
    ),
    max_leaves=4,
)


def read(text: str) -> Expression:
    """A condition, in which ``.n`` is an argument."""
    spelled = f" {text}".replace(" .", " call.arguments.").replace("(.", "(call.arguments.")
    return parse(spelled, SCOPE, want=BOOL)


def value(condition: Expression, call: dict[str, Any], on: bool) -> bool | str:
    """Its value for a call, or ``fails``."""
    given = {**defaults_of(TOOL), **call}
    facts = SimpleNamespace(call={"name": "pay", "arguments": given}, vars={"on": on})
    try:
        return condition.fn(facts, no_oracle) is not False
    except GUARD_ERRORS:
        return "fails"


def judge(premise: Expression, conclusion: Expression, *, gates: bool) -> str:
    """Check the answer for two conditions against every call, and return it as a word."""
    found = (still_holds if gates else implies)(premise, conclusion, TOOL)
    met = (True, "fails") if gates else (True,)

    def differ(call: dict[str, Any], on: bool) -> bool:
        return value(premise, call, on) in met and value(conclusion, call, on) is False

    both = (True, False) if {"vars.on"} & (premise.reads | conclusion.reads) else (True,)
    differs = [[differ(call, on) for on in both] for call in CALLS]
    said = f"{premise.text}  =>  {conclusion.text}: {found}"
    if found.holds:
        assert not any(map(any, differs)), said
    elif found.holds is False:
        assert found.arguments in CALLS, said
        assert all(differs[CALLS.index(dict(found.arguments or {}))]), said
    if found.holds is not None:
        return "yes" if found.holds else "no"
    if any(map(all, differs)):
        return "unknown, no"
    return "unknown, depends" if any(map(any, differs)) else "unknown, yes"


@given(CONDITIONS, CONDITIONS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_answer_contradicts_the_calls(premise: str, conclusion: str, gates: bool) -> None:
    event(judge(read(premise), read(conclusion), gates=gates))


@pytest.mark.slow("lists the calls for hundreds of pairs")
def test_few_answers_are_unknown() -> None:
    chance, said = random.Random(7), Counter[str]()  # noqa: S311 - not a secret

    def draw(depth: int) -> str:
        match chance.randrange(4) if depth else 0:
            case 1:
                return f"({draw(depth - 1)} and {draw(depth - 1)})"
            case 2:
                return f"({draw(depth - 1)} or {draw(depth - 1)})"
            case 3:
                return f"not ({draw(depth - 1)})"
            case _:
                return chance.choice(ATOMS)

    for _ in range(400):
        premise, conclusion = draw(1), draw(2)
        if chance.randrange(2):  # one that is related, as after a change of a file
            conclusion = chance.choice(
                (f"{premise} or {conclusion}", f"{premise} and {conclusion}")
            )
        said[judge(read(premise), read(conclusion), gates=False)] += 1
    assert said["unknown, no"] <= 4, said
    assert said["unknown, yes"] <= 12, said
