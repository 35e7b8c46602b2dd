r"""Text as a person must be able to read it: what steers a screen or hides is written as an escape.

A reader decides about what is shown. A control or bidi character in a text of a model turns an
amount round or pushes it off the screen, and an invisible one makes two values look alike. Each
such character is written as JSON escapes it: ``\u202e``. Escaping twice changes nothing more.

Belongs here: which characters are escaped. Never: where a text comes from or goes to.
Source: Unicode Standard Annex 9 and Technical Report 36, section 2.5 ("Bidirectional text").
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_STEERING = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_IN_PROSE = frozenset("\n\t\u200c\u200d\u00ad")
"""Line breaks, and what joins or parts letters and emoji in many scripts; none of them reorders."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that Unicode calls letters, marks or symbols, although nothing of them is seen."""


def visible(text: str) -> str:
    """Prose, with its line breaks, in which nothing is hidden or reordered."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(
        c
        if c.isprintable() or c in _IN_PROSE or unicodedata.category(c) not in _STEERING
        else _escape(c)
        for c in text
    )


def printable(text: str) -> str:
    """A text in one line of a table, without control characters."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def cut(text: str, most: int = 60) -> str:
    """The text; of one with more than `most` characters the beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short(text: str, most: int = 60) -> str:
    """A text as a message or a label shows it: one line of at most `most` characters."""
    return cut(" ".join(text.split()), most)


def visible_json(data: Any) -> str:
    """Data as canonical JSON in one line: keys sorted, one space, all that is not seen escaped."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, default=str)
    return "".join(_escape(c) if is_unseen(c) else c for c in text)


def is_unseen(sign: str) -> bool:
    """Whether a character leaves no mark of its own; the space is seen."""
    code = ord(sign)
    is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF  # of the sign before it
    return not sign.isprintable() or sign in _BLANK or is_selector


def is_blank(text: str) -> bool:
    """Whether a text has nothing to be read: empty, spaces, invisible characters."""
    return all(c.isspace() or is_unseen(c) for c in text)


def _escape(sign: str) -> str:
    return json.dumps(sign)[1:-1]
