r"""Names of people: who submits a run, who answers, for whom a link is, whose a token is.

A person reads a name on the record, and `not_by` compares it. So a name holds nothing that is not
seen, and is written in one way: in NFC, without spaces around it, with one between its words.

    nothing but what is not seen ─▶ no name, as if it was left out
    a control, unassigned, private or invisible character, a space other than U+0020 ─▶ refused
    a joiner between two letters that it shapes (Persian, Hindi) ─▶ kept
    anything else ─▶ the name

Two names are those of one person if they differ in case, spaces, compatibility forms or invisible
characters only. Letters of other scripts that look alike are other letters.

Belongs here: what a name may be, and which are the same. Never: where it comes from.
Source: RFC 5892, appendix A (joiners); UAX 15 (forms); UTR 36, section 2.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from chartloop.core.errors import RunError, SetupError
from chartloop.core.visible import is_blank, is_unseen, visible_json

LONGEST = 200
"""The most characters of a name."""
_ZWNJ, _ZWJ = "\u200c", "\u200d"
_VIRAMA = 9
"""The combining class of what joins two consonants in the scripts of India."""
_SHAPES = frozenset("\u180b\u180c\u180d\u180f\U0001d159")
"""Mongolian selectors and an empty note: printed by Python, seen by nobody."""


def person_name(
    text: str, what: str, error: type[RunError] = SetupError, **values: Any
) -> str:  # fmt: skip
    """The name as it is kept; empty if nothing of it is seen.

    Raises `error` for one that cannot be read; `what` says whose it is, and `values` are the
    error's attributes.
    """
    if is_blank(text):
        return ""
    name = unicodedata.normalize("NFC", " ".join(filter(None, text.split(" "))))
    odd = [c for n, c in enumerate(name) if _is_odd(c) and not _is_joined(name, n)]
    if not odd and len(name) <= LONGEST:
        return name
    if not odd:
        why, cure = f"has {len(name):,} characters", f"write at most {LONGEST}"
    else:
        # `U+200B (ZERO WIDTH SPACE)`: a control character has no name of its own
        said, plain = unicodedata.name(odd[0], ""), "".join(c for c in name if c not in odd)
        why = f"holds U+{ord(odd[0]):04X}{f' ({said})' if said else ''}, which nobody can see"
        cure = f"write it without, {visible_json(person_name(plain[:LONGEST], what))} say"
    raise error(f"{what} {visible_json(name[:LONGEST])} {why}", hint=cure, **values)


def same_person(one: str, other: str) -> bool:
    """Whether two names, of any source, are read as the same."""
    return _folded(one) == _folded(other)


def _folded(name: str) -> str:
    for _ in range(2):  # folding case may bring forth what is composed otherwise
        name = unicodedata.normalize("NFKC", name).casefold()
    return "".join(c for c in name if not (c.isspace() or _is_odd(c)))


def _is_odd(sign: str) -> bool:
    return is_unseen(sign) or sign in _SHAPES


def _is_joined(name: str, at: int) -> bool:
    """Whether the character at a place is a joiner that shapes the letters beside it."""
    before, after = name[:at], name[at + 1 : at + 2]
    if name[at] not in (_ZWNJ, _ZWJ) or not before or not after.isalpha():
        return False
    if unicodedata.combining(before[-1]) == _VIRAMA:
        return True
    letter = before.rstrip("".join(c for c in before if unicodedata.combining(c)))[-1:]
    return name[at] == _ZWNJ and letter.isalpha() and {
        unicodedata.bidirectional(letter), unicodedata.bidirectional(after)
    } == {"AL"}  # fmt: skip
