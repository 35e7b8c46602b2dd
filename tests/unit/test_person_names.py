"""Names of people: which there are, which are refused, and which are of one person."""

from __future__ import annotations

import sys
import unicodedata
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.errors import AnswerError, SetupError
from chartloop.core.person_names import LONGEST, person_name, same_person

KEPT = {
    "plain": ("eve", "eve"),
    "address": ("eve@example.org", "eve@example.org"),
    "spaces-around": ("  eve ", "eve"),
    "spaces-inside": ("Eve   Adams", "Eve Adams"),
    "decomposed": ("Rene\u0301", "Ren\u00e9"),
    "mark-without-a-form": ("x\u0301", "x\u0301"),
    "hangul": ("\u1112\u1161\u11ab", "\ud55c"),
    "persian-non-joiner": ("\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",) * 2,
    "persian-non-joiner-after-a-mark": ("\u0639\u064e\u200c\u0631",) * 2,
    "hindi-joiner": ("\u0915\u094d\u200d\u0937",) * 2,
    "hindi-non-joiner": ("\u0915\u094d\u200c\u0937",) * 2,
    "emoji": ("\U0001f469", "\U0001f469"),
    "right-to-left": ("\u05d3\u05d5\u05d3", "\u05d3\u05d5\u05d3"),
    "longest": ("x" * LONGEST, "x" * LONGEST),
    "nothing": ("", ""),
    "blank": (" \u200b\u3164\n", ""),
}


@pytest.mark.parametrize("kind", KEPT)
def test_a_name_is_kept_in_one_form(kind: str) -> None:
    text, name = KEPT[kind]
    assert person_name(text, "`by`") == name
    assert person_name(name, "`by`") == name


REFUSED = {
    "joiner-in-latin": ("e\u200dve", "U+200D (ZERO WIDTH JOINER)", "eve"),
    "joiner-in-arabic": ("\u0639\u200d\u0631", "U+200D", "\u0639\u0631"),
    "joiner-at-the-end": ("\u0915\u094d\u200d", "U+200D", "\u0915\u094d"),
    "non-joiner-at-the-end": ("\u0639\u200c", "U+200C", "\u0639"),
    "non-joiner-twice": ("\u0639\u200c\u200c\u0631", "U+200C", "\u0639\u0631"),
    "non-joiner-beside-latin": ("\u0639\u200ceve", "U+200C", "\u0639eve"),
    "joined-emoji": ("\U0001f469\u200d\U0001f4bb", "U+200D", "\U0001f469\U0001f4bb"),
    "control": ("e\x00ve", "U+0000", "eve"),
    "several": ("\u2066e\u200bve\u2069", "U+2066", "eve"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_nobody_sees_is_named_with_its_cure(kind: str) -> None:
    text, sign, cure = REFUSED[kind]
    with pytest.raises(AnswerError) as caught:
        person_name(text, "`by`", AnswerError, place="/data/by")
    assert caught.value.message.startswith('`by` "')
    assert f"holds {sign}" in caught.value.message
    assert caught.value.message.isprintable()
    assert caught.value.hint == f'write it without, "{cure}" say'
    assert caught.value.place == "/data/by"


def test_a_name_has_an_end() -> None:
    with pytest.raises(SetupError, match="has 201 characters"):
        person_name("x" * 201, "`submitter`")


@pytest.mark.parametrize("category", ["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"])
def test_no_character_of_a_category_that_is_not_seen_is_taken(category: str) -> None:
    """Each one, in a word of Latin, where no joiner has a place."""
    every = [*range(0x3000), *range(0x3000, sys.maxunicode + 1, 89)]
    for sign in (chr(code) for code in every if code != ord(" ")):
        if unicodedata.category(sign) == category:
            with pytest.raises(SetupError):
                person_name(f"e{sign}ve", "`by`")


SAME = {
    "case": ("Eve", "eVE"), "spaces": ("e v e", "eve"), "wide": ("\uff25ve", "eve"),
    "sharp-s": ("Strau\u00df", "STRAUSS"), "accent": ("Ren\u00e9", "RENE\u0301"),
    "iota": ("\u1fb3", "\u0391\u0399"), "ligature": ("e\ufb01", "efi"),
    "bold": ("\U0001d41eve", "eve"), "kelvin": ("\u212aim", "kim"),
    "invisible": ("e\u200bv\u00ade", "eve"), "filler": ("eve\uffa0", "eve"),
    "non-joiner": ("\u0639\u200c\u0631", "\u0639\u0631"), "nothing": ("\u200b ", ""),
}  # fmt: skip


@pytest.mark.parametrize("kind", SAME)
def test_a_person_is_known_however_the_name_is_spelled(kind: str) -> None:
    one, other = SAME[kind]
    assert same_person(one, other)
    assert same_person(other, one)


@pytest.mark.parametrize("other", ["eva", "eve2", "eve.", "\u0435ve", "\u00e9ve", ""])
def test_other_names_are_of_others(other: str) -> None:
    assert not same_person("eve", other)


@given(st.text())
def test_a_name_that_is_kept_stays_and_is_of_the_same_person(text: str) -> None:
    with suppress(SetupError):
        name = person_name(text, "`by`")
        assert person_name(name, "`by`") == name
        assert same_person(text, name)
        assert same_person(name, "") == (name == "")
