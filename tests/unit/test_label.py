"""Labels: how values are worded, where lines break, what a label may not have."""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.facts import Facts, RunFacts, UsageFacts, sections
from chartloop.core.specs import GuardSpec
from chartloop.core.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    FRACTION,
    INT,
    STR,
    Type,
    enum_of,
    list_of,
    map_of,
    struct,
)
from chartloop.language.expression import Scope, parse
from chartloop.language.label import Label, LabelFault, parse_label

FIELDS: Mapping[str, tuple[Type, Any]] = {
    "tokens": (INT, 1_000_000),
    "runtime": (DURATION, 86_400.0),
    "half": (DURATION, 1_800.0),
    "minute": (DURATION, 60.0),
    "context": (FRACTION, 0.95),
    "rate": (FRACTION, 0.025),
    "ratio": (FLOAT, 0.25),
    "whole": (FLOAT, 5.0),
    "strict": (BOOL, True),
    "lax": (BOOL, False),
    "words": (list_of(STR), ("DONE", "FINAL")),
    "times": (list_of(DURATION), (60.0, 3_600.0)),
    "mode": (enum_of("fast", "slow"), "fast"),
    "off": (DURATION.maybe(), None),
    "endless": (FLOAT, math.inf),
    "any": (ANY, 7),
    "anymap": (ANY, {"a": 1}),
    "long": (STR, "x" * 100),
    "map": (map_of(INT), {"a": 1}),
}
ROOTS: Mapping[str, Type] = {
    **sections(),
    "limits": struct({name: found for name, (found, _) in FIELDS.items()}, keyed=True),
    "vars": struct({"approach": STR, "gone": STR, "nothing": STR.maybe()}, keyed=True),
}
FACTS = Facts(
    run=RunFacts(steps=12, elapsed=4_980.0, visits={"call": 3}),
    usage=UsageFacts(total_tokens=1_234, cost=None),
    limits={name: value for name, (_, value) in FIELDS.items()},
    vars={"approach": "top down", "nothing": None},
)


class Shown(NamedTuple):
    """A label and how it stands on the box."""

    text: str
    shows: str


@pytest.mark.parametrize(
    "case",
    [
        Shown("Token Usage\n≥ {limits.tokens:,}?", "Token Usage\n≥ 1,000,000?"),
        Shown("Runtime\\n≥ {limits.runtime}?", "Runtime\n≥ 24 hours?"),
        Shown("{limits.half}, {limits.minute}", "30 min, 60 s"),
        Shown("{limits.context} and {limits.rate}", "95% and 2.5%"),
        Shown("{limits.context:.2f} {limits.rate:.0%}", "0.95 2%"),
        Shown("{limits.tokens}", "1000000"),
        Shown("{limits.ratio} {limits.ratio:.1%} {limits.ratio:,}", "0.25 25.0% 0.25"),
        Shown("{limits.whole} {limits.whole:,} {limits.whole:.1f}", "5 5 5.0"),
        Shown("{limits.strict} {limits.lax}", "true false"),
        Shown("{limits.words}", "DONE, FINAL"),
        Shown("{limits.times}", "60 s, 1 hour"),
        Shown("{limits.mode}", "fast"),
        Shown("{limits.off}", "off"),
        Shown("{limits.endless} {limits.endless:,}", "inf inf"),
        Shown("{limits.any} {limits.any:,} {limits.anymap}", "7 7 …"),
        Shown("{limits.long}", "x" * 79 + "…"),
        Shown("{vars.approach}", "top down"),
        Shown("{vars.gone}|{vars.nothing}", "?|none"),
        Shown("{usage.cost:.2f}", "none"),
        Shown("{run.steps} {run.elapsed} {run.visits.call} {run.visits.other}", "12 83 min 3 ?"),
        Shown("{ limits.tokens : , }", "1,000,000"),
        Shown("{{a}} {{{limits.tokens}}}", "{a} {1000000}"),
        Shown("execute(task) [FINALIZE] a: b # c", "execute(task) [FINALIZE] a: b # c"),
        Shown("", ""),
    ],
    ids=lambda case: case.text,
)
def test_a_label_shows_values_by_their_types(case: Shown) -> None:
    assert parse_label(case.text, ROOTS).show(FACTS) == case.shows


class Refused(NamedTuple):
    """A label that is refused, the text under the caret, and words of message and hint."""

    text: str
    code: str
    at: str
    says: str
    hint: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Refused("x {limits.tokenz}", "CL103", "limits.tokenz", "limits.tokenz", "`limits.tokens`"),
        Refused("{ limit.x : , }", "CL103", "limit", "`limit`", "`limits`"),
        Refused("{usage.tokenz:,} {x}", "CL103", "usage.tokenz", "tokenz", "usage.total_tokens"),
        Refused("{limits.tokens.x}", "CL103", "limits.tokens.x", "limits.tokens.x", "no fields"),
        Refused("{limits.runtime:,}", "CL104", "limits.runtime:,", "duration", "wording"),
        Refused("{limits.context:,}", "CL104", "limits.context:,", "fraction", "wording"),
        Refused("{limits.tokens:.1%}", "CL104", "limits.tokens:.1%", "int"),
        Refused("{vars.approach:.1f}", "CL104", "vars.approach:.1f", "str"),
        Refused("{limits.map}", "CL104", "limits.map", "map[int]", "one of its fields"),
        Refused("{limits}", "CL104", "limits", "limits", "one of its fields"),
        Refused("a\\nb {limits.tokens:>9}", "CL406", ">9", "`>9`", "`:.2f`"),
        Refused("{limits.tokens:.10f}", "CL406", ".10f", "`.10f`"),
        Refused("{limits.tokens:,.2f}", "CL406", ",.2f", "`,.2f`"),
        Refused("{limits.tokens:.99999999f}", "CL406", ".99999999f", "format"),
        Refused("a {limits.tokens", "CL406", "{", "`{`", "`{{`"),
        Refused("a }", "CL406", "}", "`}`", "`}}`"),
        Refused("{{a}", "CL406", "}", "`}`"),
        Refused("{}", "CL406", "{}", "`{}`", "`{limits.x}`"),
        Refused("{a b}", "CL406", "{a b}", "`{a b}`"),
        Refused("{limits.tokens + 1}", "CL406", "{limits.tokens + 1}", "not a fact"),
        Refused("{limits['tokens']}", "CL406", "{limits['tokens']}", "not a fact"),
        Refused("{0}", "CL406", "{0}", "not a fact"),
        Refused("{limits.tokens!r}", "CL406", "{limits.tokens!r}", "not a fact"),
        Refused("{limits.{vars.x}}", "CL406", "{", "`{`"),
        Refused("{run.__class__}", "CL103", "run.__class__", "run.__class__"),
    ],
    ids=lambda case: case.text,
)
def test_what_a_label_may_not_have_is_refused_at_its_place(case: Refused) -> None:
    with pytest.raises(LabelFault) as caught:
        parse_label(case.text, ROOTS)
    found = caught.value
    assert found.code == case.code
    assert case.says in found.message
    assert case.hint in found.hint
    assert found.hint
    assert case.text[found.offset :][: found.width] == case.at


def test_a_label_says_what_it_reads() -> None:
    label = parse_label("{limits.tokens:,} {run.visits.call} {limits.tokens}", ROOTS)
    assert label.reads == {"limits.tokens", "run.visits.call"}
    assert not label.plain
    assert parse_label("{{x}} y", ROOTS).plain


SCOPE = Scope(ROOTS, guards={"is_good": GuardSpec("is_good", (), lambda: True)})
DEFINE = {
    name: parse(text, SCOPE)
    for name, text in {
        "left": "limits.tokens - usage.total_tokens",
        "late": "run.elapsed >= limits.half",
        "share": "limits.runtime",
        "broken": "run.steps // (run.steps - 12)",
        "asked": "is_good()",
        "trouble": "errors.last",
        "mood": '"good" if run.steps > 3 else "bad"',
    }.items()
}


@pytest.mark.parametrize(
    "case",
    [
        Shown("{left:,} left", "998,766 left"),
        Shown("{late} {share} {mood}", "true 24 hours good"),
        Shown("{broken} {asked}", "? ?"),
        Shown("{ left }", "998766"),
        Shown("{trouble.message}", "?"),
    ],
    ids=lambda case: case.text,
)
def test_a_label_shows_what_is_defined(case: Shown) -> None:
    label = parse_label(case.text, ROOTS, DEFINE)
    assert label.show(FACTS) == case.shows
    assert not label.plain
    assert pickle.loads(pickle.dumps(label)).show(FACTS) == case.shows  # noqa: S301  # our own


def test_a_label_reads_what_its_definitions_read() -> None:
    label = parse_label("{left} {run.steps}", ROOTS, DEFINE)
    assert label.reads == {"limits.tokens", "usage.total_tokens", "run.steps"}


@pytest.mark.parametrize(
    "case",
    [
        Refused("{lefd}", "CL103", "lefd", "`lefd`", "`left`"),
        Refused("{left.x}", "CL103", "left.x", "`left.x`", "no fields"),
        Refused("{share:,}", "CL104", "share:,", "duration"),
    ],
    ids=lambda case: case.text,
)
def test_a_definition_is_refused_where_it_cannot_be_shown(case: Refused) -> None:
    with pytest.raises(LabelFault) as caught:
        parse_label(case.text, ROOTS, DEFINE)
    found = caught.value
    assert found.code == case.code
    assert case.says in found.message
    assert case.hint in found.hint
    assert case.text[found.offset :][: found.width] == case.at


def test_a_heading_ends_at_the_first_empty_line_of_the_file() -> None:
    facts = Facts(run=RunFacts(task="One\n\nTwo"))
    for text, heading in (
        ("Send this?\n\n{run.task}", "Send this?"),
        ("Send {run.task}?\n\nNow", "Send One\n\nTwo?"),
        ("\n\n{run.task}", "\n\nOne\n\nTwo"),
        ("Send this?\nNow", "Send this?\nNow"),
    ):
        assert parse_label(text, {"run": sections()["run"]}).show_heading(facts) == heading


def test_the_same_text_in_any_quoting_is_the_same_label() -> None:
    written, broken = parse_label("a\\nb", ROOTS), parse_label("a\nb", ROOTS)
    assert written == broken
    assert hash(written) == hash(broken)
    assert written.text == "a\nb"
    assert written != parse_label("a b", ROOTS)


def test_labels_and_their_faults_can_be_pickled() -> None:
    label = parse_label("≥ {limits.tokens:,}", ROOTS)
    back = pickle.loads(pickle.dumps(label))  # noqa: S301  # our own
    assert back == label
    assert back.show(FACTS) == "≥ 1,000,000"
    with pytest.raises(LabelFault) as caught:
        parse_label("{", ROOTS)
    fault = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own
    assert (fault.code, str(fault), fault.offset) == ("CL406", caught.value.message, 0)


def tried(text: str) -> Label | LabelFault:
    try:
        return parse_label(text, ROOTS)
    except LabelFault as fault:
        return fault


@given(st.text(st.sampled_from("ab{}\\n :,.%f1") | st.characters(), max_size=40))
def test_any_text_is_refused_at_a_place_or_shows(text: str) -> None:
    result = tried(text)
    if isinstance(result, LabelFault):
        assert 0 <= result.offset < len(text)
        assert result.hint
    else:
        assert isinstance(result.show(FACTS), str)
        assert parse_label(result.text, ROOTS) == result


@given(st.text(max_size=40))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    label = parse_label(text.replace("{", "{{").replace("}", "}}"), ROOTS)
    assert label.plain
    assert label.show(FACTS) == text.replace("\\n", "\n")


@given(st.sampled_from(sorted(FIELDS)), st.sampled_from(["", ",", ".2f", ".1%"]), st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.floats(), max_size=3), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
))  # fmt: skip
def test_showing_never_fails_whatever_the_value_is(name: str, spec: str, value: Any) -> None:
    result = tried(f"{{limits.{name}:{spec}}}")
    if isinstance(result, Label):
        assert isinstance(result.show(Facts(limits={name: value})), str)
        assert result.show(Facts()) == "?"
