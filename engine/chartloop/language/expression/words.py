"""Quoted words: whether a text can have the value that it is compared with.

A text whose `Type` has `Words` names something: a tool, a state, a reason, a value of an enum. A
word that names nothing is an error. If other words are possible, one that is similar to a known
word is probably misspelt, and one that the file never writes gives a warning.

Belongs here: the check of one word. Never: trees, places.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

from chartloop.core.errors import nearest
from chartloop.core.types import Type

DOUBT = "CL115"
"""The code of a fault that is only a warning."""
_ALIKE = 0.8
"""The similarity from which on an unknown word counts as misspelt, if other words are possible."""


class WordFault(NamedTuple):
    """A fault in a word. With the code `DOUBT` it is only a warning."""

    code: str
    message: str
    hint: str


def word_fault(type: Type, word: str) -> WordFault | None:
    """The fault in comparing a text of this type with a word; None if there is none."""
    if type.kind == "enum":
        return None if word in type.values else WordFault(
            "CL111", f'"{word}" is not a value that it can have', nearest(word, type.values)
        )  # fmt: skip
    words = type.words
    if words is None or not words.known or not word or word in words.known:
        return None
    message = f'there is no {words.what} "{word}"'
    if words.of == "all":
        return WordFault("CL111", message, nearest(word, words.known))
    if words.of == "file":
        message = f'nothing in the file gives `{words.what}` the word "{word}"'
    if close := get_close_matches(word, words.known, n=1, cutoff=_ALIKE):
        return WordFault("CL114", message, f"did you mean `{close[0]}`?")
    if words.of == "outside":
        return None
    shown = ", ".join(f"`{w}`" for w in words.known[:8] if w)
    return WordFault(DOUBT, message, f"it gives {shown}")


def prefix_fault(type: Type, method: str, part: str) -> WordFault | None:
    """The fault in a prefix or suffix that no word of the type has; None if one may have it."""
    words = type.values if type.kind == "enum" else ()
    if type.words is not None and type.words.of == "all":
        words = type.words.known
    if not words or any(getattr(word, method)(part) for word in words):
        return None
    does = "begins" if method == "startswith" else "ends"
    return WordFault(
        "CL111", f'none of the values that it can have {does} with "{part}"', nearest(part, words)
    )
