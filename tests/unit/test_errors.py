"""How findings and errors are worded: place, cause and cure, as compilers show them."""

from __future__ import annotations

import json
import pickle
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import LimitError, load
from chartloop.core.codes import CODES, finding
from chartloop.core.errors import (
    Category,
    ChartloopError,
    Finding,
    ModelError,
    Place,
    Severity,
    SpecError,
    nearest,
)

LINE = "    when: usage.tokenz >= limits.tokens"
PLACE = Place("machines/moderator.yaml", 34, 11, 12, LINE)
UNKNOWN = finding(
    "CL103", "unknown fact `usage.tokenz`", PLACE, hint="did you mean `usage.total_tokens`?"
)


class Rendered(NamedTuple):
    """A finding and every line of it."""

    id: str
    finding: Finding
    lines: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Rendered(
            "as-the-design-shows-it",
            UNKNOWN,
            [
                "error[CL103]: unknown fact `usage.tokenz`",
                "  --> machines/moderator.yaml:34:11",
                "34 |     when: usage.tokenz >= limits.tokens",
                "   |           ^^^^^^^^^^^^",
                "   = help: did you mean `usage.total_tokens`?",
            ],
        ),
        Rendered(
            "without-a-hint",
            finding("CL304", "no edge leads to `x`", Place("m.yaml", 5, 3, 1, "  x: {}")),
            ["error[CL304]: no edge leads to `x`", " --> m.yaml:5:3", "5 |   x: {}", "  |   ^"],
        ),
        Rendered(
            "warning",
            finding("CL317", "says 5", Place("m.yaml", 1, 1, 3, "abc")),
            ["warning[CL317]: says 5", " --> m.yaml:1:1", "1 | abc", "  | ^^^"],
        ),
        Rendered(
            "two-places-in-the-order-of-the-file",
            finding(
                "CL002",
                "`a` appears twice",
                Place("m.yaml", 12, 1, 1, "a: 2"),
                related=("first written here", Place("m.yaml", 3, 1, 1, "a: 1")),
            ),
            [
                "error[CL002]: `a` appears twice",
                "  --> m.yaml:12:1",
                " 3 | a: 1",
                "   | - first written here",
                "12 | a: 2",
                "   | ^",
            ],
        ),
        Rendered(
            "a-second-place-on-the-same-line-is-left-out",
            finding(
                "CL002",
                "`a` appears twice",
                Place("m.yaml", 3, 8, 1, "{a: 1, a: 2}"),
                related=("first written here", Place("m.yaml", 3, 2, 1, "{a: 1, a: 2}")),
            ),
            [
                "error[CL002]: `a` appears twice",
                " --> m.yaml:3:8",
                "3 | {a: 1, a: 2}",
                "  |        ^",
            ],
        ),
        Rendered(
            "a-tab-is-one-column",
            finding("CL001", "a tab", Place("m.yaml", 2, 1, 1, "\tb: 1"), hint="use spaces"),
            [
                "error[CL001]: a tab",
                " --> m.yaml:2:1",
                "2 |  b: 1",
                "  | ^",
                "  = help: use spaces",
            ],
        ),
        Rendered(
            "behind-the-end-of-the-line",
            finding("CL001", "more is missing", Place("m.yaml", 1, 4, 9, "a: ")),
            ["error[CL001]: more is missing", " --> m.yaml:1:4", "1 | a: ", "  |    ^"],
        ),
        Rendered(
            "carets-end-with-the-line",
            finding("CL001", "wide", Place("m.yaml", 1, 2, 99, "abcd")),
            ["error[CL001]: wide", " --> m.yaml:1:2", "1 | abcd", "  |  ^^^"],
        ),
        Rendered(
            "only-a-file",
            finding("CL005", "too large", Place("m.yaml"), hint="split it"),
            ["error[CL005]: too large", " --> m.yaml", " = help: split it"],
        ),
        Rendered("nowhere", finding("CL302", "no states"), ["error[CL302]: no states"]),
    ],
    ids=lambda case: case.id,
)
def test_a_finding_is_shown_as_compilers_do(case: Rendered) -> None:
    assert case.finding.render().split("\n") == case.lines


@given(st.integers(0, 2_000), st.integers(1, 500), st.integers(0, 2_000), st.integers(1, 99_999))
def test_the_caret_stands_under_the_fault_in_lines_of_any_length(
    before: int, width: int, after: int, number: int
) -> None:
    text = "." * before + "X" * width + "," * after
    found = finding("CL101", "here", Place("m.yaml", number, before + 1, width, text))
    _, where, source, marks = found.render().split("\n")
    assert len(source) <= len(str(number)) + 3 + 162
    start = marks.index("^")
    assert source[start] == "X"
    assert "X" not in source[:start]
    shown = source[start:].count("X")
    assert marks.count("^") in (shown, shown + 1)
    assert where.endswith(f"m.yaml:{number}:{before + 1}")


def test_a_notebook_shows_what_is_wrong_and_where_without_our_files() -> None:
    with pytest.raises(LimitError) as caught:
        load("agent").start("x", limits={"stepps": 3})
    shown = caught.value._render_traceback_()  # pyright: ignore[reportPrivateUsage] - IPython's name
    assert shown[0].startswith("LimitError")
    assert "did you mean `steps`?" in shown[0]
    assert len(shown) == 2
    assert "test_errors.py, line" in shown[1]


def test_a_part_of_a_place_stays_on_its_line() -> None:
    assert PLACE.inside(6, 6) == Place("machines/moderator.yaml", 34, 17, 6, LINE)
    assert PLACE.inside(0, 0).width == 1
    assert str(PLACE) == "machines/moderator.yaml:34:11"
    assert str(Place("m.yaml")) == "m.yaml"


def test_the_severity_of_a_finding_is_that_of_its_code() -> None:
    for code in CODES.values():
        found = finding(code.code, "x")
        assert found.severity is code.severity
        assert found.is_error is (code.severity is Severity.ERROR)
    with pytest.raises(KeyError):
        finding("CL999", "x")


def test_codes_are_whole() -> None:
    for name, code in CODES.items():
        assert name == code.code
        assert code.title
        assert code.cause.endswith(".")
        assert code.cure.endswith(".")


def test_the_json_shape_of_a_finding() -> None:
    assert json.loads(json.dumps(UNKNOWN.to_dict())) == {
        "code": "CL103",
        "severity": "error",
        "file": "machines/moderator.yaml",
        "line": 34,
        "column": 11,
        "message": "unknown fact `usage.tokenz`",
        "hint": "did you mean `usage.total_tokens`?",
    }
    assert finding("CL302", "no states").to_dict()["hint"] is None


class Near(NamedTuple):
    """A word, the words there are, and the hint."""

    id: str
    name: str
    known: list[str]
    hint: str


@pytest.mark.parametrize(
    "case",
    [
        Near("close", "tokns", ["tokens", "steps"], "did you mean `tokens`?"),
        Near("none-close", "zzz", ["tokens", "steps"], "known: `steps`, `tokens`"),
        Near("none-known", "zzz", [], ""),
        Near("many", "zzz", [f"n{n}" for n in range(10)], "known: `n0`, `n1`, `n2`, `n3`, `n4`, `n5`, `n6`, `n7` and 2 more"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_a_hint_names_the_nearest_word(case: Near) -> None:
    assert nearest(case.name, case.known) == case.hint


def test_a_hint_may_say_something_else_when_nothing_is_close() -> None:
    assert nearest("zzz", ["tokens"], otherwise="see the list") == "see the list"
    assert nearest("tokns", ["tokens"], otherwise="see the list") == "did you mean `tokens`?"


def test_a_spec_error_says_all_findings_and_survives_pickling() -> None:
    second = finding("CL302", "no states")
    error = SpecError([UNKNOWN, second])
    assert str(error) == UNKNOWN.render() + "\n\n" + second.render()
    back = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own
    assert back.findings == (UNKNOWN, second)
    assert str(back) == str(error)
    assert isinstance(back, ChartloopError)


def test_an_error_with_a_hint_says_it() -> None:
    error = ChartloopError("no run `x`", hint="see `chartloop runs`")
    assert str(error) == "no run `x`\n  help: see `chartloop runs`"
    assert str(ChartloopError("no run `x`")) == "no run `x`"


def test_a_model_error_keeps_what_is_known_about_the_failure() -> None:
    error = ModelError("slow down", category=Category.TRANSIENT, kind="rate_limit", retry_after=2.5)
    assert (error.category, error.kind, error.retry_after) == ("TRANSIENT", "rate_limit", 2.5)
    assert (error.status, error.partial) == (None, "")


def kinds(of: type[ChartloopError]) -> list[type[ChartloopError]]:
    return [of, *(deep for kind in of.__subclasses__() for deep in kinds(kind))]


def test_an_error_that_is_raised_has_its_row_in_the_table() -> None:
    ours = [kind for kind in kinds(ChartloopError) if kind.__module__ == "chartloop.core.errors"]
    without = {kind.__name__ for kind in ours if kind.code not in CODES}
    # the roots, and what holds findings or belongs to a tool, have none of their own
    assert without == {"ChartloopError", "OutcomeUnknown", "RunError", "SpecError", "ToolError"}
