"""Quantities: what files may write, and that writing and reading undo each other."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.units import (
    parse_duration,
    parse_fraction,
    parse_number,
    say_duration,
    say_elapsed,
    say_fraction,
    say_number,
    write_duration,
)


class Read(NamedTuple):
    """A text and the quantity that it is, or None."""

    text: str
    value: float | None


@pytest.mark.parametrize(
    "case",
    [
        Read("1d", 86_400.0),
        Read("24h", 86_400.0),
        Read("30m", 1_800.0),
        Read("1h30m", 5_400.0),
        Read("60s", 60.0),
        Read("1.5s", 1.5),
        Read("250ms", 0.25),
        Read("1m250ms", 60.25),
        Read("1d1h1m1s1ms", 90_061.001),
        Read("0s", 0.0),
        Read("", None),
        Read("5", None),
        Read("5 m", None),
        Read("-5m", None),
        Read("1.5h", None),
        Read("30m1h", None),
        Read("1h1h", None),
        Read("1H", None),
        Read("s", None),
        Read("1_000s", None),
        Read("٣s", None),
        Read("1s\n", None),
        Read("9" * 10 + "s", None),
    ],
    ids=lambda case: repr(case.text),
)
def test_durations(case: Read) -> None:
    assert parse_duration(case.text) == case.value


@pytest.mark.parametrize(
    "case",
    [
        Read("95%", 0.95),
        Read("2.5%", 0.025),
        Read("0%", 0.0),
        Read("150%", 1.5),
        Read("%", None),
        Read("5", None),
        Read("-5%", None),
        Read(".5%", None),
        Read("5 %", None),
        Read("5%%", None),
        Read("1e2%", None),
        Read("٣%", None),
    ],
    ids=lambda case: repr(case.text),
)
def test_fractions(case: Read) -> None:
    assert parse_fraction(case.text) == case.value


@pytest.mark.parametrize(
    "case",
    [
        Read("1_000_000", 1_000_000),
        Read("12", 12),
        Read("-1_000", -1_000),
        Read("+7", 7),
        Read("007", 7),
        Read("9" * 18, 10**18 - 1),
        Read("9" * 19, None),
        Read("1" * 100_000, None),
        Read("1_00", None),
        Read("1000_000", None),
        Read("_1", None),
        Read("1_", None),
        Read("1.5", None),
        Read("", None),
        Read("0x10", None),
        Read("٣", None),
    ],
    ids=lambda case: repr(case.text[:20]),
)
def test_numbers(case: Read) -> None:
    assert parse_number(case.text) == case.value


class Said(NamedTuple):
    """A quantity and its wording."""

    value: float
    text: str


@pytest.mark.parametrize(
    "case",
    [
        Said(86_400, "24 hours"),
        Said(3_600, "1 hour"),
        Said(172_800, "48 hours"),
        Said(259_200, "3 days"),
        Said(1_800, "30 min"),
        Said(5_400, "90 min"),
        Said(120, "2 min"),
        Said(60, "60 s"),
        Said(90, "90 s"),
        Said(1.5, "1.5 s"),
        Said(0, "0 s"),
        Said(0.25, "250 ms"),
    ],
    ids=lambda case: case.text,
)
def test_the_wording_of_durations_is_that_of_the_document(case: Said) -> None:
    assert say_duration(case.value) == case.text


@pytest.mark.parametrize(
    "case",
    [
        Said(0.08, "80 ms"),
        Said(12.34, "12.3 s"),
        Said(60, "1 min"),
        Said(250, "4 min 10 s"),
        Said(3_600, "1 h"),
        Said(11_520, "3 h 12 min"),
    ],
    ids=lambda case: case.text,
)
def test_the_wording_of_measured_times(case: Said) -> None:
    assert say_elapsed(case.value) == case.text


@pytest.mark.parametrize(
    "case",
    [Said(0.95, "95%"), Said(0.025, "2.5%"), Said(1.0, "100%"), Said(0.1 + 0.2, "30%")],
    ids=lambda case: case.text,
)
def test_the_wording_of_fractions(case: Said) -> None:
    assert say_fraction(case.value) == case.text


@pytest.mark.parametrize(
    "case",
    [Said(1_000_000, "1,000,000"), Said(0.25, "0.25"), Said(5.0, "5"), Said(-1_000, "-1,000")],
    ids=lambda case: case.text,
)
def test_the_wording_of_numbers(case: Said) -> None:
    assert say_number(case.value) == case.text


@given(st.integers(0, 10**12))
def test_a_written_duration_is_read_back(millis: int) -> None:
    text = write_duration(millis / 1_000)
    value = parse_duration(text)
    assert value is not None
    assert math.isclose(value, millis / 1_000, rel_tol=1e-12)
    assert write_duration(value) == text


@given(*(st.integers(0, 999) for _ in range(5)))
def test_a_duration_is_the_sum_of_its_parts(d: int, h: int, m: int, s: int, ms: int) -> None:
    expected = 86_400 * d + 3_600 * h + 60 * m + s + ms / 1_000
    value = parse_duration(f"{d}d{h}h{m}m{s}s{ms}ms")
    assert value is not None
    assert math.isclose(value, expected, rel_tol=1e-12)


@given(st.integers(0, 100_000))
def test_a_fraction_is_said_as_it_is_read(hundredths: int) -> None:
    text = f"{hundredths / 100:.10g}%"
    value = parse_fraction(text)
    assert value is not None
    assert say_fraction(value) == text


@given(st.integers(-(10**15), 10**15))
def test_a_number_with_groups_is_read_back(number: int) -> None:
    assert parse_number(f"{number:_}") == number
    assert parse_number(str(number)) == number
    assert say_number(number).replace(",", "") == str(number)


@given(st.text("0123456789_.dhms%+-e \n", max_size=12))
def test_any_text_is_at_most_one_kind_of_quantity(text: str) -> None:
    found = [parse(text) for parse in (parse_duration, parse_fraction, parse_number)]
    assert sum(value is not None for value in found) <= 1
    if found[0] is not None:
        assert re.fullmatch(r"(\d+(\.\d+)?(d|h|m|s|ms))+", text)
        assert found[0] >= 0
    if found[1] is not None:
        assert text.endswith("%")
        assert found[1] >= 0


@given(st.floats(0, 10**9))
def test_a_wording_ends_with_its_unit(seconds: float) -> None:
    assert re.fullmatch(r"[\d.]+ (days|hours?|min|s|ms)", say_duration(seconds))
    assert re.fullmatch(r"\d+ h( \d+ min)?|\d+ min( \d+ s)?|[\d.]+ (s|ms)", say_elapsed(seconds))
