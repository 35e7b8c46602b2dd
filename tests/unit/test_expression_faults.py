"""What people get wrong: each with its code, its place and its cure."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.core.codes import CODES
from chartloop.core.types import BOOL
from chartloop.language.expression import ExpressionFault, Scope, parse
from tests.unit.test_expression_world import ROOTS, SCOPE


class Fault(NamedTuple):
    """A text with the faulty part between ``«`` and ``»``, and what is said about it."""

    marked: str
    code: str
    hint: str
    """Part of the hint, or of the message where there is no hint."""


FAULTS = [
    # other languages
    Fault("usage.total_tokens «=» 5", "CL101", "`==`"),
    Fault("last.ok «&&» vars.flag", "CL101", "`and`"),
    Fault("last.ok «||» vars.flag", "CL101", "`or`"),
    Fault("«!»last.ok", "CL101", "`not`"),
    Fault("last.ok «AND» vars.flag", "CL101", "`and`"),
    Fault("last.ok «Or» vars.flag", "CL101", "`or`"),
    Fault("run.steps «===» 5", "CL101", "`==`"),
    Fault("run.steps «!==» 5", "CL101", "`!=`"),
    Fault("run.steps «<>» 5", "CL101", "`!=`"),
    Fault("run.steps «=>» 5", "CL101", "`>=`"),
    Fault("run.steps «=<» 5", "CL101", "`<=`"),
    Fault("last.ok «?» 1 : 2", "CL101", "x if condition else y"),
    Fault("«if» last.ok", "CL101", "leave `if` out"),
    Fault("last.text «contains» 'x'", "CL101", '"word" in last.text'),
    Fault("«{{ last.ok }}»", "CL102", "the fact alone"),
    Fault("last.ok and «{{» last.ok", "CL101", "the fact alone"),
    Fault("«$»last.ok", "CL101", "the fact alone"),
    Fault("last.ok«;»", "CL101", "one line"),
    Fault("«vars.flag & last.ok»", "CL102", "`and`"),
    Fault("«vars.flag | last.ok»", "CL102", "`or`"),
    Fault("«vars.flag ^ last.ok»", "CL102", "`!=`"),
    Fault("«~vars.flag»", "CL102", "`not`"),
    Fault("vars.flag == «true»", "CL103", "`True`"),
    Fault("vars.text == «null»", "CL103", "`None`"),
    Fault("«false»", "CL103", "`False`"),
    Fault("«len(vars.words».length > 1", "CL101", "never closed"),
    # text of YAML
    Fault("run.elapsed >= «24h»", "CL101", 'duration("24h")'),
    Fault("run.elapsed >= «1h30m» or last.ok", "CL101", 'duration("1h30m")'),
    Fault("usage.context_ratio >= «95%»", "CL101", "`0.95`"),
    Fault("run.steps >= 5 «# five»", "CL101", "in YAML"),
    Fault("«»", "CL101", "empty"),
    Fault("   ", "CL101", "empty"),
    Fault("run.visits«.continue» >= 5", "CL101", '["continue"]'),
    Fault("vars.text == «“»Running”", "CL101", '`"`'),
    Fault("run.steps «≥» 5", "CL101", "`>=`"),
    Fault('vars.text == "«\\d»"', "CL101", r"`\\`"),
    Fault("run.steps >= «1or» last.ok", "CL101", "blank"),
    Fault("run.steps >= «0x»10", "CL101", "decimal"),
    Fault("run.steps >= «007»", "CL101", "`7`"),
    Fault("run.steps >= 5 and«\x00»", "CL101", "U+0000"),
    Fault("  vars.text ==\n  «Finished»", "CL113", "'\"Finished\"'"),
    # names
    Fault("«usage.tokenz» >= limits.tokens", "CL103", "`usage.total_tokens`"),
    Fault("«usage.totl_tokens» >= 5", "CL103", "`usage.total_tokens`"),
    Fault("usage.total_tokens >= «limits.tokns»", "CL103", "`limits.tokens`"),
    Fault("«total_tokens» >= 5", "CL103", "`usage.total_tokens`"),
    Fault("«run.total_tokens» >= 5", "CL103", "`usage.total_tokens`"),
    Fault("«useage».total_tokens >= 5", "CL103", "`usage`"),
    Fault("«usage» >= 5", "CL103", "known: `usage.cache_write_tokens`"),
    Fault("«vars.zzz»", "CL103", "known: `vars.any`"),
    Fault("«run.visits.pln» >= 1", "CL103", "`run.visits.plan`"),
    Fault("last.error is not None and «last.error.mesage» == 'x'", "CL103", "`last.error.message`"),
    Fault("any(«c.nam» == 'x' for c in last.tool_calls)", "CL103", "`c.name`"),
    Fault(
        "«errors.count» > 1", "CL103", "did you mean `signals.count`? Known: `errors.consecutive`"
    ),
    Fault("«bussy»", "CL103", "`busy`"),
    Fault("«broken»", "CL103", "in `broken`: unknown fact `usage.tokenz`"),
    Fault("vars.flag and «egg»", "CL112", "egg → hen → egg"),
    Fault("«vars.words.length» > 1", "CL103", "`len(vars.words)`"),
    Fault("«vars.text.name» == 'x'", "CL103", "startswith"),
    # bare words
    Fault("vars.text == «Finished»", "CL113", "'\"Finished\"'"),
    Fault("«Finished» == vars.text", "CL113", "'\"Finished\"'"),
    Fault("vars.text in [«Finished», Done]", "CL113", "'\"Finished\"'"),
    Fault("vars.text == «total_tokens»", "CL103", "`usage.total_tokens`"),
    Fault("«Running down»", "CL113", "'\"Running down\"'"),
    # types
    Fault('usage.total_tokens >= «"5"»', "CL104", "`5` without quotes"),
    Fault("run.elapsed >= «5»", "CL104", '`duration("5s")`'),
    Fault('run.elapsed >= «"24h"»', "CL104", '`duration("24h")`'),
    Fault("«run.elapsed >= run.steps»", "CL104", 'duration("24h")'),
    Fault("usage.context_ratio >= «95»", "CL104", "`0.95`"),
    Fault('usage.context_ratio >= «"95%"»', "CL104", "`0.95`"),
    Fault("«95» <= usage.context_ratio", "CL104", "`0.95`"),
    Fault("usage.context_ratio in [«95»]", "CL104", "`0.95`"),
    Fault("vars.text == «5»", "CL104", '`"5"` in quotes'),
    Fault("vars.flag == «'true'»", "CL104", "`True` without quotes"),
    Fault("«vars.flag > last.ok»", "CL104", "bool is not ordered against bool"),
    Fault("vars.words > «5»", "CL104", "len(...)"),
    Fault("«5» in vars.text", "CL104", "text is looked for"),
    Fault("'a' in «run.steps»", "CL104", "list, map or text"),
    Fault("«run.elapsed + 5»", "CL104", "durations go with durations"),
    Fault("«run.elapsed * run.elapsed»", "CL104", "durations go with durations"),
    Fault("«vars.flag + 1» > 1", "CL104", "not defined"),
    Fault("«-vars.text» == 'x'", "CL104", "`-` of str"),
    Fault("(«vars.n if last.ok else 'x'») == 5", "CL104", "one type"),
    Fault("«None» > 5", "CL102", "`is not None`"),
    Fault("errors.last == «None»", "CL102", "`is None`"),
    Fault("«vars.flag is True»", "CL102", "`==`"),
    Fault("«run.steps + 1» is None", "CL104", "for None"),
    Fault("vars.words[«'a'»] == 'x'", "CL104", "no element by a text"),
    Fault("vars.text[«0»] == 'x'", "CL104", "no element by a number"),
    Fault("run.status == «'runing'»", "CL111", "`running`"),
    Fault("«'runing'» != run.status", "CL111", "`running`"),
    Fault("run.status in ['idle', «'pausd'»]", "CL111", "`paused`"),
    Fault("«run.status == severity»", "CL111", "no word in common"),
    # guards
    Fault("«len(last.tool_calls)»", "CL106", "`len(last.tool_calls) > 0`"),
    Fault("«run.steps»", "CL106", "`run.steps > 0`"),
    Fault("last.ok and «vars.text»", "CL106", "`len(vars.text) > 0`"),
    Fault("not «run.steps»", "CL106", "`run.steps > 0`"),
    Fault("any(«w» for w in vars.words)", "CL106", "`len(w) > 0`"),
    # None and off
    Fault("«progress.magnitude» < 0.1", "CL105", "`progress.magnitude is not None and ...`"),
    Fault("«errors.last».category == 'CRITICAL'", "CL105", "`errors.last is not None and ...`"),
    Fault("«signals.top» == 'completed'", "CL105", "`signals.top is not None"),
    Fault("«usage.cost» < limits.cost", "CL105", "`usage.cost is not None"),
    Fault("limits.tokens >= «usage.cost»", "CL105", "`usage.cost is not None"),
    Fault("«usage.cost» + 1 > 2", "CL105", "`usage.cost is not None"),
    Fault("«cheap»", "CL105", "in `cheap`: `usage.cost` may be None"),
    Fault("usage.cost is not None or «usage.cost» < 1", "CL105", "may be None"),
    Fault("usage.cost is None and «usage.cost» < 1", "CL105", "may be None"),
    Fault("«limits.off» >= 5", "CL109", "`fact >= limits.off`"),
    Fault("run.steps == «limits.off»", "CL109", "`fact >= limits.off`"),
    Fault("run.steps >= «limits.off» * 0.8", "CL109", "`limits.off is not None"),
    Fault("errors.consecutive < «limits.off»", "CL109", "`limits.off is not None"),
    Fault("«limits.off» >= limits.steps", "CL109", "`limits.off is not None"),
    Fault("min(run.steps, «limits.off») > 5", "CL109", "`limits.off is not None"),
    Fault("last.text in «limits.off_markers»", "CL109", "`limits.off_markers is not None"),
    Fault("«vars.any» == 5", "CL110", "typed variable"),
    Fault("«last.result».score > 5", "CL110", "typed variable"),
    Fault("'x' in «vars.any»", "CL110", "typed variable"),
    Fault("«vars.anything.k» > 5", "CL110", "typed variable"),
    # not part of the language
    Fault("«vars.n ** 2» > 5", "CL102", "multiply"),
    Fault("«vars.n << 2» > 5", "CL102", "in an action"),
    Fault("«vars.text + 'x'» == 'y'", "CL102", "templates"),
    Fault("«vars.text * 9» == 'y'", "CL102", "templates"),
    Fault("«vars.text % 9» == 'y'", "CL102", "templates"),
    Fault("«vars.words + ['x']» == []", "CL102", "`append`"),
    Fault("«usage.total_tokens >= 1,000,000»", "CL102", "1_000_000"),
    Fault("vars.text in «{'a', 'b'}»", "CL102", "`[...]`"),
    Fault("«[w for w in vars.words]» == []", "CL102", "any(... for x in ...)"),
    Fault("any(«(lambda: 1)»() for w in vars.words)", "CL102", "only a function"),
    Fault("(«x := 5») > 3", "CL102", "`define`"),
    Fault("vars.text == «f'{vars.n}'»", "CL102", "templates"),
    Fault("vars.words[«0:1»] == []", "CL102", "whole number"),
    Fault("vars.text == «b'x'»", "CL102", "not a value"),
    Fault("«1j» == 1", "CL102", "not a value"),
    Fault("«+run.steps» > 1", "CL102", "leave it out"),
    Fault("{«run.id»: 1} == {}", "CL102", "quoted texts"),
    Fault("{'a': 1, «'a'»: 2} == {}", "CL102", "twice"),
    Fault("any(«any(v == w for v in vars.words)» for w in vars.words)", "CL102", "one list"),
    Fault("any(«found» for w in vars.words)", "CL102", "one list"),
    Fault("any(last.ok for «busy» in vars.words)", "CL102", "already means"),
    Fault("«any(vars.words)»", "CL102", "any(... for x in ...)"),
    Fault("min(«key=vars.n»)", "CL102", "no names"),
    # functions
    Fault("«size»(vars.words) > 1", "CL108", "`len(...)`"),
    Fault("«lne»(vars.words) > 1", "CL108", "`len`"),
    Fault("«int»(vars.x) > 1", "CL108", "`round(x)`"),
    Fault("«my_chek»(vars.text, 1)", "CL108", "`my_check`"),
    Fault("«vars.text.contains»('x')", "CL108", '"word" in x'),
    Fault("«vars.text.format»('x') == 'y'", "CL108", "startswith"),
    Fault("«vars.words.append»('x')", "CL108", "startswith"),
    Fault("«my_check(vars.text)»", "CL104", "2 values, not 1"),
    Fault("my_check(«vars.n», 1)", "CL104", "this is int, where str is wanted"),
    Fault("len(«run.steps») > 1", "CL104", "no length"),
    Fault("«len()» > 1", "CL104", "1 values, not 0"),
    Fault("«min(vars.words)» == 'a'", "CL104", "numbers or durations"),
    Fault("«max(vars.n, vars.text)» > 1", "CL104", "numbers, or durations"),
    Fault("«abs(vars.text)» > 1", "CL104", "not str"),
    Fault("«round(run.elapsed)» > 1", "CL104", "not duration"),
    Fault("round(vars.x, «run.steps») > 1", "CL104", "places"),
    Fault("run.elapsed > duration(«'5 min'»)", "CL209", 'duration("1h30m")'),
    Fault("vars.words[«run.elapsed»] == 'a'", "CL104", ""),
    Fault("vars.words[«run.steps / 2»] == 'a'", "CL104", "round(run.steps / 2)"),
    Fault("vars.words[«vars.text»] == 'a'", "CL104", ""),
    Fault("vars.names[«vars.text»] == 'a'", "CL102", '["key"]'),
    Fault("run.elapsed > duration(«vars.text»)", "CL209", "written out"),
    Fault("«vars.text.startswith('a', 'b')»", "CL104", "one text"),
    Fault("any(x == 1 for x in «run.steps»)", "CL104", "goes through a list"),
    Fault("any(x == 'k' for x in «vars.names»)", "CL104", "goes through a list"),
    Fault("sum(«w» for w in vars.words) > 1", "CL104", "adds numbers"),
    # size
    Fault("run.steps > «9223372036854775808»", "CL107", "64 bits"),
    Fault("vars.x > «1e999»", "CL107", "too large"),
]


def unmark(marked: str) -> tuple[str, int, int]:
    """The text, and the place that is marked in it."""
    if "«" not in marked:
        return marked, 0, 1
    before, _, rest = marked.partition("«")
    inside, _, after = rest.partition("»")
    return before + inside + after, len(before), max(1, len(inside))


# What Python's own message points at, and where the marks stand for more than one node.
ELSEWHERE = {
    "«len(vars.words».length > 1": (3, 1),
    "any(«(lambda: 1)»() for w in vars.words)": (5, 9),
    "min(«key=vars.n»)": (8, 6),
}


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.marked)
def test_it_is_told_with_its_place_and_cure(case: Fault) -> None:
    text, offset, width = unmark(case.marked)
    with pytest.raises(ExpressionFault) as caught:
        parse(text, SCOPE, want=BOOL)
    fault = caught.value
    assert (fault.code, case.hint in f"{fault.hint} {fault.message}") == (case.code, True), fault
    assert fault.code in CODES
    assert (fault.offset, fault.width) == ELSEWHERE.get(case.marked, (offset, width))


def test_places_count_characters_not_bytes() -> None:
    text = '\n  "✓✓✓ Ünï" in vars.plan and usage.tokenz > 5'
    with pytest.raises(ExpressionFault) as fault:
        parse(text, SCOPE)
    found = fault.value
    assert text[found.offset : found.offset + found.width] == "usage.tokenz"


def test_each_kind_of_mistake_has_a_case() -> None:
    codes = {f"CL1{n:02}" for n in range(1, 14)}
    assert codes <= {case.code for case in FAULTS}


class Large(NamedTuple):
    """A text at a bound of the language, and the same just past it."""

    id: str
    fits: str
    too_large: str


LARGE = [
    Large("characters", f"vars.text == '{'x' * 1985}'", f"vars.text == '{'x' * 1986}'"),
    Large("nodes", "[" + "1," * 299 + "]", "[" + "1," * 300 + "]"),
    Large("depth", "-" * 39 + "(1)", "-" * 40 + "(1)"),
    Large("brackets", "(" * 40 + "1" + ")" * 40, "(" * 41 + "1" + ")" * 41),
    Large("sum", "run.steps" + "+1" * 39, "run.steps" + "+1" * 40),
]


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.id)
def test_sizes_are_bounded(case: Large) -> None:
    assert parse(case.fits, SCOPE)
    with pytest.raises(ExpressionFault) as fault:
        parse(case.too_large, SCOPE)
    assert fault.value.code == "CL107"


def test_definitions_do_not_multiply_without_end() -> None:
    doubling = {f"d{n}": f"d{n + 1} and d{n + 1}" for n in range(30)} | {"d30": "last.ok"}
    with pytest.raises(ExpressionFault) as fault:
        parse("d0", Scope(ROOTS, defines=doubling))
    assert fault.value.code == "CL107"


def test_definitions_do_not_nest_without_end() -> None:
    chain = {f"d{n}": f"not d{n + 1}" for n in range(200)} | {"d200": "last.ok"}
    with pytest.raises(ExpressionFault) as fault:
        parse("d0", Scope(ROOTS, defines=chain))
    assert fault.value.code == "CL107"


def test_parts_under_define_have_room_of_their_own() -> None:
    many = " or ".join(["run.steps >= 5"] * 70)
    scope = Scope(ROOTS, defines={"a": many, "b": many})
    assert parse("a or b", scope, want=BOOL).reads == {"run.steps"}


def test_a_fault_says_itself() -> None:
    with pytest.raises(ExpressionFault, match=r"CL103: unknown fact `usage.tokenz` \(did you mean"):
        parse("usage.tokenz", SCOPE)
