"""Attacks on the guard language: each is refused when it is read, quickly, and nothing runs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

from chartloop.core.facts import Facts
from chartloop.core.types import BOOL, INT, STR, list_of, struct
from chartloop.language.expression import (
    GUARD_ERRORS,
    ExpressionFault,
    GuardFailed,
    Scope,
    no_oracle,
    parse,
)
from tests.effort import calls

VARS = struct(
    {"text": STR, "n": INT, "words": list_of(STR), "numbers": list_of(INT), "_secret": STR},
    keyed=True,
)
RUN = struct({"steps": INT, "task": STR})
SCOPE = Scope({"run": RUN, "vars": VARS}, defines={"_hidden": "True", "shown": "vars.n > 1"})


class Attack(NamedTuple):
    """A text that tries something, and the code with which it is refused."""

    id: str
    text: str
    code: str


ATTACKS = [
    # to reach Python
    Attack("import", "__import__('os').system('true')", "CL102"),
    Attack("import-statement", "import os", "CL113"),
    Attack("builtins", "__builtins__['eval']('1')", "CL102"),
    Attack("eval", "eval('1')", "CL108"),
    Attack("exec", "exec('x = 1')", "CL108"),
    Attack("compile", "compile('1', '', 'eval')", "CL108"),
    Attack("open", "open('/etc/passwd').read() == ''", "CL108"),
    Attack("getattr", "getattr(run, 'steps') > 1", "CL108"),
    Attack("globals", "globals()", "CL108"),
    Attack("type", "type(vars.text) == 1", "CL108"),
    Attack("print", "print('x')", "CL108"),
    Attack("class-of-a-tuple", "().__class__.__bases__[0].__subclasses__()", "CL102"),
    Attack("class-of-a-list", "[].__class__ is None", "CL102"),
    Attack("class-of-text", "''.__class__.__mro__[1].__subclasses__()", "CL102"),
    Attack("class-of-a-fact", "vars.text.__class__ is None", "CL102"),
    Attack("dict-of-a-section", "run.__dict__ == {}", "CL102"),
    Attack("class-by-index", "run['__class__'] is None", "CL103"),
    Attack("class-of-a-variable-section", "vars['__class__'] is None", "CL103"),
    Attack("private-method", "run._replace(steps=0)", "CL102"),
    Attack("fields-of-a-section", "run._asdict() == {}", "CL102"),
    Attack("private-variable", "vars._secret == ''", "CL102"),
    Attack("private-definition", "_hidden", "CL102"),
    Attack("private-loop-variable", "any(_x == '' for _x in vars.words)", "CL102"),
    Attack("fullwidth-underscores", "vars.text.\uff3f\uff3fclass\uff3f\uff3f is None", "CL101"),
    Attack("fullwidth-name", "\uff52un.steps > 1", "CL101"),
    Attack("own-helper", "_few(vars.words) == []", "CL102"),
    Attack("own-argument", "f.run.steps > 1", "CL103"),
    Attack("own-oracle", "ask('x', [])", "CL108"),
    Attack("own-local", "v_x > 1", "CL103"),
    Attack("self-of-a-function", "len.__self__ is None", "CL102"),
    Attack("function-as-value", "any == all", "CL103"),
    Attack("method-as-value", "vars.text.lower == 'x'", "CL103"),
    Attack("method-of-a-number", "run.steps.bit_length() > 1", "CL108"),
    Attack("format", "vars.text.format(run) == ''", "CL108"),
    Attack("format-map", "'{0.__class__}'.format_map(vars) == ''", "CL108"),
    Attack("join", "''.join(vars.words) == ''", "CL108"),
    Attack("encode", "vars.text.encode() == ''", "CL108"),
    Attack("replace", "vars.text.replace('', 'aaaaaaaa') == ''", "CL108"),
    Attack("ljust", "vars.text.ljust(999999999) == ''", "CL108"),
    Attack("called-result", "len(vars.text)(1)", "CL102"),
    Attack("called-element", "vars.words[0]()", "CL102"),
    Attack("decorated-lambda", "(lambda: True)()", "CL102"),
    Attack("recursion", "(lambda f: f(f))(lambda f: f(f))", "CL102"),
    Attack("walrus", "(x := vars.n) > 1", "CL102"),
    Attack("walrus-over-a-fact", "any((vars := 1) for x in vars.words)", "CL102"),
    Attack("await", "await run.task", "CL102"),
    Attack("yield", "(yield run.task)", "CL102"),
    Attack("async-loop", "any(x async for x in vars.words)", "CL102"),
    Attack("starred", "max(*vars.numbers) > 1", "CL102"),
    Attack("spread-map", "{**vars} == {}", "CL102"),
    Attack("keywords", "max(vars.numbers, key=len) > 1", "CL102"),
    Attack("f-string", "f'{run.task.__class__}' == ''", "CL102"),
    Attack("f-string-call", "f'{print(1)}' == ''", "CL102"),
    Attack("bytes", "b'x' == b'x'", "CL102"),
    Attack("ellipsis", "... == ...", "CL102"),
    Attack("statement", "True; import os", "CL101"),
    Attack("second-line", "True\nimport os", "CL113"),
    Attack("comment-cuts-the-rest", "vars.n > 1 # \n and False", "CL101"),
    Attack("continuation", "vars.n > 1 \\\n and False", "CL101"),
    Attack("closing-bracket", "True) or (open('x')", "CL101"),
    Attack("null-byte", "True\x00 or False", "CL101"),
    Attack("escape-of-a-name", "'\\N{BULLET}' == vars.text", "CL101"),
    Attack("delete-character", "True\x7f", "CL101"),
    Attack("half-a-pair", "'\ud800' == vars.text", "CL101"),
    Attack("half-a-pair-escaped", "'\\ud800' == vars.text", "CL101"),
    Attack("target-is-a-field", "any(True for run.steps in vars.words)", "CL102"),
    Attack("target-unpacks", "any(True for a, b in vars.words)", "CL102"),
    Attack("shadow-a-fact", "any(True for run in vars.words)", "CL102"),
    # to make it long or large
    Attack("power", "9 ** 9 ** 9 ** 9 > 1", "CL102"),
    Attack("shift", "1 << 999999999999 > 1", "CL102"),
    Attack("text-times", "'a' * 999999999 == ''", "CL102"),
    Attack("list-times", "[0] * 999999999 == []", "CL102"),
    Attack("text-plus", "vars.text + vars.text == ''", "CL102"),
    Attack("percent-width", "'%999999999d' % vars.n == ''", "CL102"),
    Attack("large-number", "9" * 1_900 + " > 1", "CL107"),
    Attack("long-number-glued", "9" * 1_900 + "or 1", "CL101"),
    Attack("long-number-that-is-none", "9" * 1_900 + "x > 1", "CL101"),
    Attack("many-durations", "1s" * 900 + "? > 1", "CL101"),
    Attack("many-words", "a " * 900 + "(", "CL101"),
    Attack("many-quotes", "'\\'" * 600, "CL101"),
    Attack("many-escapes", "'" + "\\\\" * 900 + "\\q'", "CL101"),
    Attack("long-name", "vars." + "n" * 1_900 + " > 1", "CL103"),
    Attack("hexadecimal", "0x" + "f" * 1_900 + " > 1", "CL101"),
    Attack("huge-float", "1e999 > vars.n", "CL107"),
    Attack("complex", "1j == 1j", "CL102"),
    Attack("round-huge", "round(vars.n, 999999999) > 1", "CL104"),
    Attack("round-tiny", "round(vars.n, -999999999) > 1", "CL104"),
    Attack("long", "vars.n > 1 or " * 1_000 + "True", "CL107"),
    Attack("wide", "len([" + "1," * 900 + "]) > 1", "CL107"),
    Attack("brackets", "(" * 900 + "1" + ")" * 900, "CL107"),
    Attack("open-brackets", "[" * 1_900, "CL107"),
    Attack("mixed-brackets", "([{" * 600, "CL107"),
    Attack("calls", "len(" * 190 + "'a'" + ")" * 190, "CL107"),
    Attack("nots", "not " * 490 + "True", "CL107"),
    Attack("minuses", "-" * 1_900 + "1", "CL107"),
    Attack("fields", "vars" + ".n" * 900, "CL107"),
    Attack("lambdas", "lambda:" * 280 + "1", "CL102"),
    Attack("choices", "1 if True else " * 120 + "1", "CL107"),
    Attack("nested-loops", "any(any(a == b for a in vars.words) for b in vars.words)", "CL102"),
    Attack("double-loop", "any(a == b for a in vars.words for b in vars.words)", "CL102"),
    Attack("loop-over-a-loop", "sum(x for x in [y for y in vars.numbers]) > 1", "CL102"),
    Attack("loop-over-text", "any(x == 'a' for x in vars.text)", "CL104"),
    Attack("duration-of-a-fact", "duration(vars.text) > duration('1s')", "CL209"),
    Attack("long-duration", "duration('9999999999999999999999d') > duration('1s')", "CL209"),
    Attack("slice", "vars.words[::-1] == []", "CL102"),
    Attack("huge-index", "vars.words[99999999999999999999] == ''", "CL107"),
]

FEW = 200_000
"""Calls within which any text is judged; a guard takes some five hundred, the worst of these 64,000."""


@pytest.mark.parametrize("case", ATTACKS, ids=lambda case: case.id)
def test_it_is_refused_when_it_is_read(case: Attack) -> None:
    assert calls(lambda: refuse(case)) < FEW


def refuse(case: Attack) -> None:
    with pytest.raises(ExpressionFault) as fault:
        parse(case.text, SCOPE, want=BOOL)
    assert fault.value.code == case.code, fault.value


WATCH = """
import json, sys
from tests.cases.test_expression_attacks import ATTACKS, SCOPE, BOOL, ExpressionFault, parse
parse("vars.n > 1 and any(w == 'a' for w in vars.words)", SCOPE, want=BOOL)
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if watching else None)
watching = True
for attack in ATTACKS:
    try:
        parse(attack.text, SCOPE, want=BOOL)
    except ExpressionFault:
        pass
watching = False
print(json.dumps(sorted(set(seen))))
"""


def test_python_sees_nothing_but_reading_while_attacks_are_refused() -> None:
    """Python reports imports, files, processes and code that is run to its audit hooks."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # `ast.parse` is reported as `compile`; running what is compiled would be `exec`
    assert json.loads(done.stdout) == ["compile"]


def test_definitions_in_a_circle_end() -> None:
    circle = {f"d{n}": f"d{(n + 1) % 50}" for n in range(50)}
    with pytest.raises(ExpressionFault) as fault:
        parse("d0", Scope({}, defines=circle))
    assert fault.value.code in {"CL107", "CL112"}


def test_a_billion_laughs_end() -> None:
    laughs = {f"d{n}": " and ".join([f"d{n + 1}"] * 60) for n in range(4)} | {"d4": "True"}

    def read() -> None:
        with pytest.raises(ExpressionFault) as fault:
            parse("d0", Scope({}, defines=laughs))
        assert fault.value.code == "CL107"
        assert "written out" in fault.value.message

    assert calls(read) < FEW


def test_a_loop_is_not_hidden_in_a_definition() -> None:
    scope = Scope({"vars": VARS}, defines={"inner": "any(x == 'a' for x in vars.words)"})
    with pytest.raises(ExpressionFault) as fault:
        parse("any(inner for y in vars.words)", scope)
    assert fault.value.code == "CL102"


def test_functions_cannot_be_replaced() -> None:
    text = "any(len(len) > 1 for len in vars.words) and any(ask == f for ask in vars.words)"
    scope = Scope({"vars": VARS}, defines={"f": "'aa'", "any": "False", "_few": "1"})
    expression = parse(text, scope, want=BOOL)
    assert expression.fn(Facts(vars={"words": ["aa"]}), no_oracle) is True


class Growth(NamedTuple):
    """A value that is stored at each step, and would grow without end."""

    id: str
    text: str


GROWTH = [
    Growth("square", "vars.n * vars.n"),
    Growth("double", "vars.n + vars.n"),
    Growth("product", "*".join(["vars.n"] * 39)),
    Growth("sum", "sum(vars.n * x for x in [vars.n, vars.n])"),
    Growth("minus", "-(vars.n * vars.n)"),
    Growth("choice", "vars.n * vars.n if True else 0"),
    Growth("absolute", "abs(vars.n * vars.n)"),
    Growth("extreme", "max(vars.n * vars.n, 1)"),
]


@pytest.mark.parametrize("case", GROWTH, ids=lambda case: case.id)
def test_numbers_do_not_grow_from_step_to_step(case: Growth) -> None:
    number = parse(case.text, SCOPE)
    listed = parse(f"[{case.text}]", SCOPE)
    mapped = parse(f"{{'k': {case.text}}}", SCOPE)
    value = 3
    with pytest.raises(GuardFailed):  # noqa: PT012
        for _ in range(100):
            facts = Facts(vars={"n": value})
            value = abs(number.value(facts))
            assert value < 2**63
    for expression in (number, listed, mapped):
        with pytest.raises(GUARD_ERRORS):
            expression.fn(Facts(vars={"n": 2**62}), no_oracle)


def test_a_guard_may_count_beyond_what_is_stored() -> None:
    guard = parse("vars.n * vars.n > 5", SCOPE, want=BOOL)
    assert guard.fn(Facts(vars={"n": 2**62}), no_oracle) is True


def test_long_lists_are_refused_where_they_are_gone_through() -> None:
    long = Facts(vars={"words": ["a"] * 10_001, "numbers": [1] * 10_001})
    for text in (
        "any(w == 'b' for w in vars.words)",
        "all(w == 'a' for w in vars.words)",
        "count(w for w in vars.words) > 1",
        "sum(n for n in vars.numbers) > 1",
        "'b' in vars.words",
        "max(vars.numbers) > 1",
    ):
        with pytest.raises(ValueError, match="10,001 elements"):
            parse(text, SCOPE).fn(long, no_oracle)
    assert parse("len(vars.words) > 10000", SCOPE).fn(long, no_oracle) is True


def test_a_deep_caller_gets_a_fault_and_no_crash() -> None:
    """Whatever is left of the stack, a text is taken or refused."""

    def parse_at(depth: int) -> str:
        if depth:
            return parse_at(depth - 1)
        try:
            parse("not (" * 18 + "vars.n > 1" + ")" * 18, SCOPE)
        except ExpressionFault as fault:
            return fault.code
        return "taken"

    codes = set[str]()
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit() - 20, 10):
        try:
            codes.add(parse_at(depth))
        except RecursionError:
            break  # the test's own calls have used the stack up
    assert codes == {"taken", "CL107"}
