"""Templates: what they print, what they may not say, and that they end."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.facts import Facts, Failure, LastFacts, RunFacts, ToolCall, sections
from chartloop.core.types import ANY, FLOAT, INT, STR, Type, list_of, map_of, struct
from chartloop.language.template import filters
from chartloop.language.template.filters import FILTERS, MAX_ITEMS, MAX_OUTPUT
from chartloop.language.template.template import MAX_TEXT, Template, TemplateFault, parse
from chartloop.language.template.template_check import MAX_DEPTH, MAX_NODES
from tests.effort import calls

VARS: Mapping[str, Type] = {
    "plan": STR, "list": list_of(STR), "map": map_of(INT), "any": ANY, "ratio": FLOAT, "big": STR,
    "nothing": STR.maybe(), "_hidden": STR,
}  # fmt: skip
ROOTS: Mapping[str, Type] = {
    **sections(),
    "vars": struct(VARS, keyed=True),
    "limits": struct({"tokens": INT}, keyed=True),
    "memory": struct({"persona": STR, "human": STR}, keyed=True),
}
FACTS = Facts(
    run=RunFacts(task="add", steps=3, visits=MappingProxyType({"call": 2})),
    last=LastFacts(tool_calls=(ToolCall("1", "add", '{"a": 1}'), ToolCall("2", "sub", "{}"))),
    memory={"persona": "I help.", "human": "Ann"},
    limits={"tokens": 100_000},
    vars={
        "plan": "Plan é",
        "list": ("a", "b"),
        "map": {"x": 1, "y": 2},
        "any": {"deep": [1, {"z": None}], "items": "a key"},
        "ratio": 0.1 + 0.2,
        "nothing": None,
        "big": "a" * MAX_OUTPUT,
    },
)
NAMES = FACTS.to_mapping()


def fault(text: str) -> TemplateFault:
    with pytest.raises(TemplateFault) as caught:
        parse(text, ROOTS)
    return caught.value


class Shown(NamedTuple):
    """A template, what it prints and what it reads."""

    text: str
    prints: str
    reads: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Shown("{{ run.steps }} of {{ limits.tokens }}", "3 of 100000", "run.steps limits.tokens"),
        Shown("{{ vars.nothing }}|{{ none }}|", "||", "vars.nothing"),
        Shown("{{ last.ok }}", "True", "last.ok"),
        Shown("{{ vars.ratio | round(2) }}", "0.3", "vars.ratio"),
        Shown("{{ vars.list }}", '["a","b"]', "vars.list"),
        Shown("{{ vars.map }}", '{"x":1,"y":2}', "vars.map"),
        Shown("{{ vars.map.x }}{{ vars.map['y'] }}", "12", "vars.map.x vars.map.y"),
        Shown("{{ vars.list[0] }}{{ vars.list[-1] }}", "ab", "vars.list"),
        Shown("{{ vars.list[run.steps - 2] }}", "b", "vars.list run.steps"),
        Shown("{% for e in vars.list %}{{ vars.list[loop.index0] }}{% endfor %}", "ab", "vars.list"),
        Shown("{{ vars.any.items }}", "a key", "vars.any.items"),
        Shown("{{ vars.any.deep[1].z }}", "", "vars.any.deep"),
        Shown("{{ last.tool_calls[1].name }}", "sub", "last.tool_calls"),
        Shown("{{ last.tool_calls[0] }}", '{"id":"1","name":"add","arguments":"{\\"a\\": 1}"}', "last.tool_calls"),
        Shown("{{ run.visits.call }}", "2", "run.visits.call"),
        Shown("{{ memory | tojson }}", '{"persona":"I help.","human":"Ann"}', "memory"),
        Shown("{% if run.steps > 2 and not errors.last %}y{% else %}n{% endif %}", "y", "run.steps errors.last"),
        Shown("{% if run.steps == 1 %}1{% elif 'a' in vars.list %}2{% endif %}", "2", "run.steps vars.list"),
        Shown("{% if errors.last is none %}fine{% endif %}", "fine", "errors.last"),
        Shown("{% if vars.map.q is not defined %}no q{% endif %}", "no q", "vars.map.q"),
        Shown("{{ 'many' if run.steps > 5 else 'few' }}", "few", "run.steps"),
        Shown("{% for e in vars.list %}{{ loop.index }}{{ e }}{% if not loop.last %}, {% endif %}{% endfor %}", "1a, 2b", "vars.list"),
        Shown("{% for k, v in vars.map | items %}{{ k }}={{ v }};{% endfor %}", "x=1;y=2;", "vars.map"),
        Shown("{% for k in vars.map %}{{ k }}{% endfor %}", "xy", "vars.map"),
        Shown("{% for name in memory %}{{ name }} {% endfor %}", "persona human ", "memory"),
        Shown("{% for c in last.tool_calls if c.name != 'add' %}{{ c.name }}{% endfor %}", "sub", "last.tool_calls"),
        Shown("{% for e in vars.nothing | default([]) %}x{% else %}none{% endfor %}", "none", "vars.nothing"),
        Shown("{% for e in vars.list %}{{ loop.first }}{{ loop.length }}{{ loop.index0 }} {% endfor %}", "True20 False21 ", "vars.list"),
        Shown(2 * "{% for e in vars.list %}{{ e }}{% endfor %}", "abab", "vars.list"),
        Shown("{{ 7 - 2 }} {{ 7 / 2 }} {{ 7 // 2 }} {{ -run.steps + 1 }}", "5 3.5 3 -2", "run.steps"),
        Shown("{{ vars.plan ~ ': ' ~ run.steps }}", "Plan é: 3", "vars.plan run.steps"),
        Shown("a {# a note #}b", "a b"),
        Shown("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        Shown("  {%- if true -%}  x  {%- endif -%}  ", "x"),
        Shown("{% if true %}\n x\n{% endif %}\n", "\n x\n\n"),
        Shown("{{ vars.plan }}\n\n", "Plan é\n\n", "vars.plan"),
    ],
    ids=lambda case: case.text,
)  # fmt: skip
def test_a_template_prints_facts_and_says_which(case: Shown) -> None:
    template = parse(case.text, ROOTS)
    assert template.render(NAMES) == case.prints
    assert template.reads == set(case.reads.split())
    assert not template.constant


class Filter(NamedTuple):
    """An expression with a filter, and what it prints."""

    text: str
    prints: str


FILTERED = [
    Filter("vars.nothing | default('x')", "x"),
    Filter("vars.map.nope | default('x')", "x"),
    Filter("vars.any.a.b.c | default('x')", "x"),
    Filter("errors.last.message | default('x')", "x"),
    Filter("vars.plan | default('x')", "Plan é"),
    Filter("'' | default('x')", ""),
    Filter("'' | default('x', true)", "x"),
    Filter("'' | default(otherwise='x', if_empty=true)", "x"),
    Filter("vars.list | first", "a"),
    Filter("vars.list | last", "b"),
    Filter("[] | first", ""),
    Filter("vars.nothing | last", ""),
    Filter(
        "last.tool_calls | first | tojson", '{"id":"1","name":"add","arguments":"{\\"a\\": 1}"}'
    ),
    Filter("(last.tool_calls | last).name", "sub"),
    Filter("vars.list | length", "2"),
    Filter("vars.nothing | length", "0"),
    Filter("vars.plan | length", "6"),
    Filter("vars.map | items | length", "2"),
    Filter("vars.nothing | items | length", "0"),
    Filter("vars.list | join(', ')", "a, b"),
    Filter("vars.list | join", "ab"),
    Filter("[1, none, [2]] | join('-')", "1--[2]"),
    Filter("vars.plan | upper", "PLAN É"),
    Filter("vars.plan | lower", "plan é"),
    Filter("'  x ' | trim", "x"),
    Filter("'a-b-c' | replace('-', '+')", "a+b+c"),
    Filter("'a\\nb\\n\\nc' | indent", "a\n    b\n\n    c"),
    Filter("'a\\nb' | indent(2, true)", "  a\n  b"),
    Filter("'abcdef' | truncate(4)", "abc…"),
    Filter("'abcd' | truncate(4)", "abcd"),
    Filter("'abc' | truncate(0)", "…"),
    Filter("2.567 | round", "3"),
    Filter("2.567 | round(1)", "2.6"),
    Filter("0.25 | percent", "25%"),
    Filter("0.0495 | percent(1)", "5.0%"),
    Filter("1 | percent(2)", "100.00%"),
    Filter("'12' | int", "12"),
    Filter("3.9 | int", "3"),
    Filter("'x' | int", "0"),
    Filter("'x' | int(7)", "7"),
    Filter("vars.nothing | int(7)", "7"),
    Filter("'é' | tojson", '"é"'),
    Filter("vars.any | tojson", '{"deep":[1,{"z":null}],"items":"a key"}'),
]


@pytest.mark.parametrize("case", FILTERED, ids=lambda case: case.text)
def test_filters(case: Filter) -> None:
    assert parse(f"{{{{ {case.text} }}}}", ROOTS).render(NAMES) == case.prints


def test_every_filter_has_a_case_and_a_line_in_the_docstring() -> None:
    table = (filters.__doc__ or "").split("\n\n")[1]
    for name in FILTERS:
        assert any(f"| {name}" in case.text for case in FILTERED), name
        assert name in table, name


class Refused(NamedTuple):
    """A template that is refused, the text under the caret, and words of message and hint."""

    text: str
    at: str
    says: str
    hint: str = ""
    code: str = "CL406"


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize(
    "case",
    [
        Refused("{{ 'a' * 3 }}", "*", "`*`", "action"),
        Refused("{{ 'a' % 3 }}", "%", "`%`"),
        Refused("{{ (1 + 2) ** (3) }}", "**", "`**`"),
        Refused("{{ range(3) }}", "range", "a call", "filters"),
        Refused("{{ vars.plan.upper() }}", "vars.plan.upper", "a call"),
        Refused("{{ (vars.list | first)() }}", "first", "a call"),
        Refused("{{ vars._hidden }}", "vars._hidden", "private"),
        Refused("{{ vars.any.__class__ }}", "vars.any.__class__", "private"),
        Refused("{{ vars.any['x'].__class__ }}", "vars.any['x'].__class__", "private"),
        Refused("{{ _meter }}", "_meter", "private"),
        Refused("{% for _x in vars.list %}{% endfor %}", "_x", "private"),
        Refused("{% set x = 1 %}", "set", "`{% set %}`"),
        Refused("{% set x %}y{% endset %}", "set", "`{% set %}`"),
        Refused("{% with x = 1 %}{% endwith %}", "with", "`{% with %}`"),
        Refused("{% macro m() %}{% endmacro %}", "macro", "`{% macro %}`"),
        Refused("{% call m() %}{% endcall %}", "call", "`{% call %}`"),
        Refused("{% filter upper %}x{% endfilter %}", "filter", "`{% filter %}`"),
        Refused("{% include 'x' %}", "include", "`{% include %}`"),
        Refused("{% import 'x' as y %}", "import", "`{% import %}`"),
        Refused("{% from 'x' import y %}", "from", "`{% from %}`"),
        Refused("{% extends 'x' %}", "extends", "`{% extends %}`"),
        Refused("{% block x %}{% endblock %}", "block", "`{% block %}`"),
        Refused("{% autoescape true %}{% endautoescape %}", "autoescape", "`{% autoescape %}`"),
        Refused("{% for a in vars.list %}{% for b in vars.list %}{% endfor %}{% endfor %}", "for", "inside a `for`"),
        Refused("{% for a in vars.list %}{% else %}{% for b in vars.list %}{% endfor %}{% endfor %}", "for", "inside"),
        Refused("{% for a in vars.list recursive %}{% endfor %}", "for", "recursive"),
        Refused("{% for a in vars.plan %}{% endfor %}", "vars.plan", "a text", "a list or a map"),
        Refused("{% for a in run %}{% endfor %}", "run", "a struct"),
        Refused("{% for a, b in vars.list %}{% endfor %}", "for", "loop variables", "items"),
        Refused("{% for a in vars.map | items %}{% endfor %}", "for", "loop variables"),
        Refused("{{ vars.plan | uper }}", "uper", "`uper`", "did you mean `upper`?"),
        Refused("{{ vars.plan | attr('x') }}", "attr", "`attr`"),
        Refused("{{ vars.plan | zzz }}", "zzz", "`zzz`", "tojson"),
        Refused("{{ vars.plan | _each }}", "_each", "`_each`"),
        Refused("{{ vars.plan | upper(1) }}", "upper", "arguments", "no arguments"),
        Refused("{{ vars.plan | replace('x') }}", "replace", "arguments", "`old`, `new`"),
        Refused("{{ vars.plan | round(places=1) }}", "round", "arguments", "`digits`"),
        Refused("{{ vars.plan | round(1, digits=1) }}", "round", "arguments"),
        Refused("{{ vars.plan | join(*vars.list) }}", "join", "arguments"),
        Refused("{{ vars.plan is odd }}", "is", "`is odd`", "defined"),
        Refused("{{ vars.plan[1:2] }}", "1", "a slice"),
        Refused("{{ vars.list[vars.ratio] }}", "vars.ratio", "a number as index", "whole number"),
        Refused("{{ vars.map[vars.plan] }}", "vars.plan", "a text as index", "whole number"),
        Refused("{{ vars.map[run.steps] }}", "vars.map[run.steps]", "a computed subscript of a map", '["key"]'),
        Refused("{{ vars.list[1.5] }}", "1.5", "such a subscript"),
        Refused("{{ vars.map[0] }}", "vars.map[0]", "a number as subscript"),
        Refused("{{ vars.plan.x }}", "vars.plan.x", "`.x` of a text"),
        Refused("{{ vars.list.x }}", "vars.list.x", "`.x` of a list"),
        Refused("{{ vars.plan if run.steps }}", "vars", "without `else`"),
        Refused("{{ {'a': 1} }}", "{", "a map in braces"),
        Refused("{{ usage.tokenz }}", "usage.tokenz", "`usage.tokenz`", "`usage.total_tokens`", "CL103"),
        Refused("a\n\n {{ 1 }} {{ usage . tokenz > 1 }}", "usage . tokenz", "`usage.tokenz`", "", "CL103"),
        Refused("{{ run['stepz'] }}", "run['stepz']", "`run.stepz`", "`run.steps`", "CL103"),
        Refused("{{ vars.plam | upper }}", "vars.plam", "`vars.plam`", "`vars.plan`", "CL103"),
        Refused("{{ errors.last.mesage }}", "errors.last.mesage", "mesage", "`errors.last.message`", "CL103"),
        Refused("{{ runn }}", "runn", "`runn`", "`run`", "CL103"),
        Refused("{{ loop.index }}", "loop", "`loop`", "", "CL103"),
        Refused("{% for e in vars.list %}{{ loop.indx }}{% endfor %}", "loop.indx", "indx", "`index`", "CL103"),
        Refused("{% for c in last.tool_calls %}{{ c.nam }}{% endfor %}", "c.nam", "nam", "`name`", "CL103"),
        Refused("{% for e in vars.list %}{% endfor %}{{ e }}", "e", "`e`", "", "CL103"),
        Refused("{% for e in vars.list %}{% endfor %}{{ loop }}", "loop", "`loop`", "", "CL103"),
        Refused("{{ self }}", "self", "`self`", "", "CL103"),
        Refused("{% if x %}{{ 'usage.tokenz' }}{% endif %}", "x", "`x`", "", "CL103"),
        Refused("{{ run.steps", "steps", "end of template", "`}}`"),
        Refused("{% if run.steps %}x", "x", "'endif'", "{% endif %}"),
        Refused("{% foo %}", "foo", "unknown tag", "{% if %}"),
        Refused("{{ }}", "}}", "expression"),
        Refused("{{ 'a }}", "'", "unexpected char", "{% raw %}"),
        Refused("{{ 1 }}\n\n{{ '\\x' }}", "'\\x'", "escape"),
        Refused("{{ a b }}", "b", "expected"),
        Refused("{{ " + "9" * 5_000 + " }}", "{{", "too many digits"),
        Refused("{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}", "{{", "too deeply"),
        Refused("{{ " + "not " * (MAX_DEPTH + 1) + "1 }}", "not", "levels"),
        Refused("{{ 1 }}" * MAX_NODES, "1", "parts"),
        Refused("x" * (MAX_TEXT + 1), "x", "characters"),
    ],
    ids=lambda case: case.text[:60],
)  # fmt: skip
def test_what_a_template_may_not_say_is_refused_at_its_place(case: Refused) -> None:
    found = fault(case.text)
    assert found.code == case.code
    assert case.says in found.message
    assert case.hint in found.hint
    assert found.hint
    assert case.text[found.offset :][: found.width] == case.at


class Failed(NamedTuple):
    """A template that cannot be filled in, and words of why."""

    text: str
    says: str


LOOP = "{% for e in vars.list %}"


@pytest.mark.parametrize(
    "case",
    [
        Failed("{{ vars.map.nope }}", "no key `nope`"),
        Failed("{{ vars.map.nope | upper }}", "no key `nope`"),
        Failed("{% for x in vars.any.nope %}{% endfor %}", "no key `nope`"),
        Failed("{% if vars.any.nope %}{% endif %}", "no key `nope`"),
        Failed("{{ vars.any.nope + 1 }}", "no key `nope`"),
        Failed("{{ errors.last.message }}", "`message` is read of None"),
        Failed("{{ vars.list[9] }}", "index 9 is out of range: the list has 2 elements"),
        Failed("{{ vars.any.items.upper }}", "no `upper`"),
        Failed("{{ vars.any['keys'] }}", "no key `keys`"),
        Failed("{{ vars.any.deep.count }}", "no `count`"),
        Failed("{% for x in vars.any.items %}{% endfor %}", "no loop goes over a str"),
        Failed("{% for k, v in vars.any.deep | items %}{% endfor %}", "takes a map"),
        Failed("{{ vars.list[run.steps] }}", "index 3 is out of range: the list has 2 elements"),
        Failed("{{ vars.list[run.steps - 4] }}", "index -1 is out of range: an index counts from 0"),
        Failed("{{ vars.any.deep[vars.any.items] }}", "an index is a whole number, not a key"),
        Failed("{{ 1 / 0 }}", "division by zero"),
        Failed("{{ vars.plan + 1 }}", "str"),
        Failed("{{ vars.plan < 1 }}", "not supported"),
        Failed("{{ vars.plan | round }}", "str"),
        Failed("{{ 5 | round(1000000000) }}", "15 digits"),
        Failed("{{ 5 | percent(1000000000) }}", "15 decimals"),
        Failed("{{ vars.plan | percent }}", "takes a number, this is a str"),
        Failed("{{ vars.nothing | percent }}", "takes a number, this is a NoneType"),
        Failed("{{ vars.plan | indent(1000000000) }}", "100"),
        Failed("{{ vars.big }}{{ vars.plan }}", "1,000,000"),
        Failed("{{ vars.big ~ vars.plan }}", "1,000,000"),
        Failed("{{ vars.big | replace('a', vars.big) }}", "1,000,000"),
        Failed("{{ vars.big | replace('', vars.big) }}", "1,000,000"),
        Failed("{{ [vars.big, vars.big] | tojson }}", "too much"),
        Failed("{{ vars.list | join(vars.big) }}", "1,000,000"),
        Failed("{{ " + " ~ ".join(["vars.big"] * 1_400) + " }}", "too much"),
        Failed("{{ " + " + ".join(["vars.big"] * 30) + " }}", "1,000,000"),
        Failed("{{ [" + ", ".join(["vars.big"] * 1_400) + "] }}", "too much"),
    ],
    ids=lambda case: case.text[:60],
)  # fmt: skip
def test_what_cannot_be_filled_in_says_why(case: Failed) -> None:
    with pytest.raises(ValueError, match="the template cannot be filled in") as caught:
        parse(case.text, ROOTS).render(NAMES)
    assert case.says in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "{% if vars.big == vars.big ~ '' %}{% endif %}",
        "{% if 'b' in vars.big %}{% endif %}",
        "{{ vars.big | upper | length }}",
        "{{ vars.n + 1 }}" * 700,
        "{% if vars.n == 2 %}{% endif %}" * 400,
        "{% if vars.n %}{% endif %}" * 700,
    ],
    ids=lambda body: body[:40],
)
def test_a_loop_that_does_too_much_is_stopped(body: str) -> None:
    names: dict[str, Any] = {"vars": {"list": ["x"] * MAX_ITEMS, "big": "a" * 999_999, "n": 1}}
    roots = {"vars": struct({"list": list_of(STR), "big": STR, "n": INT}, keyed=True)}
    template = parse(f"{LOOP}{body}{{% endfor %}}", roots)

    def render() -> None:
        with pytest.raises(ValueError, match=r"too much|1,000,000"):
            template.render(names)

    assert calls(render) < 5_000_000


@pytest.mark.parametrize(
    "text",
    [
        "{{ vars.list | join(vars.big) }}",
        "{{ vars.lines | indent(100) }}",
        "{{ vars.big | replace('a', vars.big) }}",
        "{{ vars.twenty | tojson }}",
        "{{ vars.twenty }}",
        "{{ vars.big | replace('', vars.big) }}",
    ],
)
def test_what_would_grow_is_refused_before_it_does(text: str) -> None:
    big = "a" * 400_000
    names = {
        "vars": {"list": ["x"] * 100, "big": big, "lines": "x\n" * 400_000, "twenty": [big] * 50}
    }
    roots = {"vars": struct({"list": ANY, "big": STR, "lines": STR, "twenty": ANY}, keyed=True)}
    template = parse(text, roots)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"too much|1,000,000"):
            template.render(names)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_loop_has_a_bound() -> None:
    template = parse(LOOP + "{{ e }}{% endfor %}", ROOTS)
    assert template.render({"vars": {"list": ["x"] * MAX_ITEMS}}) == "x" * MAX_ITEMS
    with pytest.raises(ValueError, match="10,001 items"):
        template.render({"vars": {"list": ["x"] * (MAX_ITEMS + 1)}})


def test_output_may_reach_the_bound() -> None:
    assert len(parse("{{ vars.big }}", ROOTS).render(NAMES)) == MAX_OUTPUT


def test_data_that_is_nested_too_deeply_or_no_data_is_an_error() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    template = parse("{{ vars.any | tojson }}", ROOTS)
    for value, why in ((deep, "nested"), ([object()], "a object"), ([float("nan")], "JSON")):
        with pytest.raises(ValueError, match=why):
            template.render({"vars": {"any": value}})


def test_objects_give_only_their_public_fields() -> None:
    class Secret:
        token = "s3cret"

    for text in ("{{ vars.any.token }}", "{{ vars.any['token'] }}", "{{ vars.any.category }}"):
        template = parse(text, ROOTS)
        with pytest.raises(ValueError, match="there is no"):
            template.render({"vars": {"any": Secret()}})
    failure = Failure("CRITICAL", "bad key")
    assert parse("{{ vars.any.category }}", ROOTS).render({"vars": {"any": failure}}) == "CRITICAL"


@pytest.mark.parametrize("text", ["{{ vars.any | tojson }}", "{{ vars.any }}"])
def test_bytes_are_never_printed_as_data(text: str) -> None:
    with pytest.raises(ValueError, match="bytes"):
        parse(text, ROOTS).render({"vars": {"any": [b"x"]}})


def test_extra_names_are_roots_too() -> None:
    template = parse("{{ result.out }} {{ run.steps }}", ROOTS, extra={"result": ANY})
    assert template.render({**NAMES, "result": {"out": "x"}}) == "x 3"
    assert template.reads == {"result.out", "run.steps"}


def test_a_template_made_by_hand_is_no_way_round() -> None:
    with pytest.raises(TemplateFault):
        Template("{{ ''.__class__ }}").render({})
    with pytest.raises(TemplateFault):
        Template("{{ vars.x() }}").render({})


def test_templates_are_values() -> None:
    template = parse("{{ run.steps }}", ROOTS)
    assert template.render(NAMES) == "3"
    back = pickle.loads(pickle.dumps(template))  # noqa: S301  # our own
    assert back == template
    assert hash(back) == hash(template)
    assert back.reads == template.reads
    assert back.render(NAMES) == "3"
    assert template != parse("{{ run.steps}}", ROOTS)
    assert len({template, back, parse("x", ROOTS)}) == 2


def test_a_fault_can_be_sent_to_another_process() -> None:
    found = fault("{{ usage.tokenz }}")
    back = pickle.loads(pickle.dumps(found))  # noqa: S301  # our own
    assert (back.code, back.offset, back.width, str(back)) == ("CL103", 3, 12, found.message)


def test_a_constant_template_needs_no_jinja2() -> None:
    script = (
        "import sys\n"
        "from chartloop.language.template.template import parse\n"
        "template = parse('plain { text }} %} \\n', {})\n"
        "assert template.constant and template.render({}) == 'plain { text }} %} \\n'\n"
        "assert 'jinja2' not in sys.modules\n"
        "assert parse('{{ 1 }}', {}).render({}) == '1'\n"
        "assert 'jinja2' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


plain = st.text(st.characters(exclude_characters="{\r", exclude_categories=["Cs"]), max_size=50)


@given(plain, plain)
def test_text_round_a_tag_is_kept_as_written(before: str, after: str) -> None:
    template = parse(before + "{{ run.steps }}" + after, ROOTS)
    assert template.render(NAMES) == f"{before}3{after}"


@given(st.text(max_size=80))
def test_a_constant_template_renders_as_it_is_written(text: str) -> None:
    try:
        template = parse(text, ROOTS)
    except TemplateFault:
        return
    if template.constant:
        assert template.render({}) == text
        assert not template.reads


TOKENS = (
    "{{ ", " }}", "{% ", " %}", "{%- ", " -%}", "{# ", " #}", "if ", "elif ", "else ", "endif ", "for ",
    "e ", "in ", "endfor ", "vars.list", "vars.map", "vars.any", "run.steps", "loop.index", ".x", "[0]",
    "['x']", " | ", "items", "length", "join", "default(1)", "replace('a', 'b')", " is ", "defined",
    "none", "(", ")", ", ", "+", "-", "*", "**", "~", " == ", " not ", " and ", "'a'", "1", "x", "\n", "set ",
    "__class__", "\\",
)  # fmt: skip


@given(st.lists(st.sampled_from(TOKENS), max_size=25).map("".join))
def test_any_text_is_refused_at_a_place_or_renders_or_says_why_not(text: str) -> None:
    result = tried(text)
    if isinstance(result, TemplateFault):
        assert 0 <= result.offset <= len(text)
        assert result.width >= 1
        assert result.message
        assert result.hint
    else:
        assert result.startswith("the template cannot be filled in") or "{{" not in result


def tried(text: str) -> TemplateFault | str:
    """The fault of a template, else what it prints or why it prints nothing."""
    try:
        return parse(text, ROOTS).render(NAMES)
    except TemplateFault as found:
        return found
    except ValueError as error:
        return str(error)
