"""The parts of the command line that only compute: tables, values, bars, plain text."""

from __future__ import annotations

import io
import json
import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.cli import console
from chartloop.cli.costs import say_cost
from chartloop.cli.printing import paint
from chartloop.cli.value_options import answer_data, read_value
from chartloop.core.errors import AnswerError
from chartloop.core.text_table import Line, Row, Span, size, text_of
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
)
from chartloop.machine.budget_use import Budget
from chartloop.ui.view_model.table import table_lines

# values -------------------------------------------------------------------------------------


class Text(NamedTuple):
    """A text, the type that is declared, and the value that is meant."""

    id: str
    type: Type
    text: str
    value: Any


TEXTS = [
    Text("str", STR, "5", "5"),
    Text("str-of-json", STR, '{"a": 1}', '{"a": 1}'),
    Text("str-quoted", STR, '"five"', '"five"'),
    Text("str-null", STR, "null", "null"),
    Text("maybe-str-null", STR.maybe(), "null", None),
    Text("word", enum_of("a", "b"), "a", "a"),
    Text("int", INT, "5", 5),
    Text("int-grouped", INT, "1_000_000", 1_000_000),
    Text("int-of-a-word", INT, "five", "five"),
    Text("int-of-a-float", INT, "5.5", 5.5),
    Text("float", FLOAT, "5", 5),
    Text("float-exponent", FLOAT, "1e3", 1000.0),
    Text("bool", BOOL, "true", True),
    Text("bool-of-a-number", BOOL, "1", 1),
    Text("duration", DURATION, "1h30m", 5400.0),
    Text("fraction", FRACTION, "95%", 0.95),
    Text("list", list_of(STR), '["a", "b"]', ["a", "b"]),
    Text("map", map_of(INT), '{"a": 1}', {"a": 1}),
    Text("any-json", ANY, "[1, null]", [1, None]),
    Text("any-text", ANY, "hello", "hello"),
    Text("deep", ANY, "[" * 100_000, "[" * 100_000),
]


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.id)
def test_values_are_read_by_their_type(case: Text) -> None:
    found = read_value(case.type, case.text)
    assert found == case.value
    assert type(found) is type(case.value) or case.type.kind == "float"


@given(st.text() | st.text().map(json.dumps))
def test_a_text_stays_a_text(text: str) -> None:
    assert read_value(STR, text) == text


@given(st.integers(-(10**15), 10**15))
def test_a_number_is_read_back(number: int) -> None:
    assert read_value(INT, str(number)) == number


def test_fields_of_an_answer_are_read_by_their_types() -> None:
    types = {"note": STR, "count": INT}
    assert answer_data("e", types, [("note", "x"), ("count", "2")]) == {"note": "x", "count": 2}
    with pytest.raises(AnswerError):
        answer_data("e", types, [("cnt", "2")])


# tables -------------------------------------------------------------------------------------


def table(
    rows: list[Row], head: tuple[str, ...] = (), *, width: int = 100, **how: Any
) -> list[str]:
    return [line.text for line in table_lines(rows, head, width=width, **how)]


cells = st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), max_size=60)


@given(
    st.integers(2, 5).flatmap(lambda n: st.lists(st.tuples(*[cells] * n), min_size=1, max_size=6))
)
def test_a_table_fits_and_loses_no_word(rows: list[tuple[str, ...]]) -> None:
    lines = table([Row(row) for row in rows], width=60)
    assert all(size(line) <= 60 for line in lines)
    shown = "".join("".join(lines).split())
    for row in rows:
        for cell in row:
            for word in console.plain(cell).split():
                assert set(word) <= set(shown)


def test_columns_line_up() -> None:
    rows = [Row(("a", "1", "x")), Row(("bbb", "1,000", "y"))]
    assert table(rows, ("n", "count", "z"), right={1}) == [
        "n    count  z", "a        1  x", "bbb  1,000  y",
    ]  # fmt: skip
    assert table([Row(("日本", "x")), Row(("ab", "y"))]) == ["日本  x", "ab    y"]
    assert table([]) == []


def test_long_cells_wrap_in_their_column() -> None:
    lines = table([Row(("key", "one two three four five six"))], width=20)
    assert lines == ["key  one two three", "     four five six"]


# lines of results ---------------------------------------------------------------------------

words = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Co", "Zl", "Zp")), max_size=30
)
spans = st.lists(
    st.builds(Span, words, st.sampled_from(["", "red", "dim"]), st.booleans()), max_size=6
)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@given(spans, st.integers(40, 90))
def test_a_line_that_is_wrapped_loses_no_sign_and_no_colour(
    parts: list[Span], columns: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", str(columns))
        patch.delenv("NO_COLOR", raising=False)
        wrapped = coloured_signs(Line.of(*parts))
        alone = [coloured_signs(Line(part.text, part.colour)) for part in parts]
    assert wrapped == [sign for part in alone for sign in part]


def coloured_signs(line: Line) -> list[tuple[str, str]]:
    """What a terminal shows of a line: each sign that is not blank, with its colour."""
    stream: Any = console.Door(Terminal())
    for part in paint(line, stream):
        stream.write(f"{part}\n")
    found: list[tuple[str, str]] = []
    ink = ""
    for code, sign in re.findall(r"\x1b\[(\d+)m|(\S)", stream.stream.getvalue()):
        if code:
            ink = "" if code == "0" else code
        else:
            found.append((sign, ink))
    return found


def test_elsewhere_a_line_is_as_it_is() -> None:
    line = Line.of(Span("✗", "red"), " a ", Span("`name`", "code"), Span("(line 3)", whole=True))
    assert paint(line, io.StringIO()) == ["✗ a `name`(line 3)"]
    assert text_of([line, Line("b", "red")]) == "✗ a `name`(line 3)\nb"


# text for terminals -------------------------------------------------------------------------


@given(st.text())
def test_plain_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    shown = console.plain(text)
    assert all(c in "\n\t" or c >= " " for c in shown)
    assert not {"\x1b", "\x7f", "\x9b", "\u202e"} & set(shown)
    assert console.plain(shown) == shown


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126) | st.sampled_from("\n\t")))
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert console.plain(text) == text


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_json_is_read_back(data: Any) -> None:
    text = console.as_json(data)
    assert json.loads(text) == data
    assert not any(sign in text for sign in "\x7f\x9b\u2028\u202e\u2066")


# budgets ------------------------------------------------------------------------------------


class Share(NamedTuple):
    """How much of a bound is used, and how that is shown."""

    id: str
    share: float
    bar: str
    colour: str


SHARES = [
    Share("none", 0.0, "░░░░░░░░░░", "green"),
    Share("below-zero", -1.0, "░░░░░░░░░░", "green"),
    Share("a-little", 0.09, "░░░░░░░░░░", "green"),
    Share("half", 0.5, "█████░░░░░", "green"),
    Share("below-amber", 0.799, "███████░░░", "green"),
    Share("amber", 0.8, "████████░░", "yellow"),
    Share("nearly-all", 0.999, "█████████░", "yellow"),
    Share("all", 1.0, "██████████", "red"),
    Share("more", 7.5, "██████████", "red"),
]


@pytest.mark.parametrize("case", SHARES, ids=lambda case: case.id)
def test_a_bar_of_ten_cells(case: Share) -> None:
    budget = Budget("run.steps", case.share, "")
    assert (budget.bar, budget.colour) == (case.bar, case.colour)


@given(st.floats(-10, 10))
def test_a_bar_has_ten_cells_and_is_full_only_when_all_is_used(share: float) -> None:
    bar = Budget("x", share, "").bar
    assert len(bar) == 10
    assert (bar == "█" * 10) is (share >= 1 - 1e-10)


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (0.0, "$0.00"),
        (12.345, "$12.35"),
        (0.01234, "$0.01234"),
        (3e-7, "$0.0000003"),
        (4.2e-5, "$0.000042"),
        (0.9999, "$0.9999"),
        (0.1, "$0.1"),
        (0.99999, "$1"),
        (1e-14, "$0.00000000000001"),
    ],
)
def test_costs_are_said_with_digits_that_say_something(cost: float, said: str) -> None:
    assert say_cost(cost) == said
