"""Tables in characters: what is wrapped where, and what is left out."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.text_table import Line, Row, lay_out, size
from tests.effort import calls


def texts(rows: list[tuple[str, ...]], width: int, spare: tuple[int, ...] = ()) -> list[str]:
    return [line.text for line in lay_out([Row(r) for r in rows], width=width, spare=spare)]


class Wrapped(NamedTuple):
    """A cell beside a short one, in 20 columns, and its lines."""

    id: str
    cell: str
    lines: list[str]


@pytest.mark.parametrize(
    "case",
    [
        Wrapped("words", "one two three four", ["one two three", "four"]),
        Wrapped("a-dotted-name", "usage.prompt_tokens", ["usage.prompt_", "tokens"]),
        Wrapped("a-name-in-words", "is errors.consecutive", ["is", "errors.", "consecutive"]),
        Wrapped("a-word-without-signs", "abcdefghijklmnopqrs", ["abcdefghijklmno", "pqrs"]),
        Wrapped("a-sign-too-near", "a.bcdefghijklmnopqr", ["a.bcdefghijklmn", "opqr"]),
        Wrapped("wide-signs", "日本語日本語日本語", ["日本語日本語日", "本語"]),
        Wrapped("lines-of-its-own", "a\nb", ["a", "b"]),
    ],
    ids=lambda case: case.id,
)
def test_where_a_cell_is_wrapped(case: Wrapped) -> None:
    assert [line[5:] for line in texts([("key", case.cell)], 20)] == case.lines


def test_a_name_is_broken_only_where_no_other_column_has_room_left() -> None:
    row = ("usage.total_tokens >= limits.tokens", "58 against 100,000", "stop: token_limit")
    assert texts([row], 44) == [
        "usage.total_tokens  58 against   stop:",
        ">= limits.tokens    100,000      token_limit",
    ]
    assert texts([row], 40)[0].startswith("usage.total_  ")


def test_columns_are_left_out_one_by_one_where_there_is_no_room() -> None:
    rows = [("name", "state", "42", "just now"), ("othername", "elsewhere", "7", "16 min ago")]
    assert texts(rows, 60, (1, 2)) == [
        "name       state      42  just now", "othername  elsewhere  7   16 min ago",
    ]  # fmt: skip
    assert texts(rows, 30, (1, 2)) == ["name       42  just now", "othername  7   16 min ago"]
    assert texts(rows, 22, (1, 2)) == ["name       just now", "othername  16 min ago"]


def test_a_row_keeps_its_colour_on_every_line() -> None:
    rows = [Row(("one two three",), "red")]
    assert lay_out(rows, width=9) == [Line("one two", "red"), Line("three", "red")]
    assert lay_out([], width=9) == []


def test_a_last_cell_may_hang() -> None:
    row = Row(("", "███░░  run.steps  3 of a long bound"), hang=7)
    assert [line.text for line in lay_out([row], width=26)] == [
        "  ███░░  run.steps  3 of a", "         long bound",
    ]  # fmt: skip
    assert lay_out([row], width=60) == lay_out([row._replace(hang=0)], width=60)
    narrow = [line.text for line in lay_out([row], width=12)]
    assert narrow == [line.text for line in lay_out([row._replace(hang=0)], width=12)]


cells = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Mn", "Me")), max_size=30)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=4), st.integers(24, 80))
def test_a_table_is_no_wider_than_it_may_be_and_loses_nothing(
    rows: list[tuple[str, str]], width: int
) -> None:
    lines = texts([*rows], width)
    assert all(size(line) <= width for line in lines)
    found, given_ = sorted("".join("".join(lines).split())), sorted("".join("".join(f"{a}{b}" for a, b in rows).split()))  # fmt: skip
    assert found == given_


@pytest.mark.parametrize("sign", ["x", "é", "日"])
def test_a_long_word_costs_its_length(sign: str) -> None:
    """The text of a failed tool may be one."""

    def work(length: int) -> int:
        return calls(lambda: lay_out([Row(("key", sign * length))], width=60))

    assert work(8_000) < 5 * work(2_000)
