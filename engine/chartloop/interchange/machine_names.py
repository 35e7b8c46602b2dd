"""Names that a machine file takes, made of whatever a document calls things.

Belongs here: words to names, each once. Never: what they name.

Source:       design "language", section 1 (names)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

LONGEST = 40

_TAKEN_WORDS = frozenset("true false null none return".split())
_SAYS_NOTHING = re.compile(r"[A-Za-z]{0,2}\d*|(?:n|node|box|state|step|id)_?\d*", re.IGNORECASE)


def as_name(text: str) -> str:
    """The words of a text as a name: `ConstructPrompt` is `construct_prompt`; or nothing."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain)
    words = re.sub(r"[^a-z0-9]+", "_", parted.lower().replace("'", "")).strip("_")
    if len(words) > LONGEST:
        words = words[:LONGEST].rpartition("_")[0] or words[:LONGEST]
    return words


def name_of(name: str, label: str, *, other: str, taken: Container[str]) -> str:
    """A name for what a document calls `name` and shows as `label`: what says more of the two."""
    own, shown = as_name(name), as_name(label)
    best = shown if shown and _SAYS_NOTHING.fullmatch(name) else own or shown
    return once(best, other=other, taken=taken)


def once(name: str, *, other: str, taken: Container[str]) -> str:
    """A name that is not taken yet; `other` stands in for one that can be no name."""
    if not name or name in _TAKEN_WORDS:
        name = f"{other}_{name}".rstrip("_")
    if not name[0].isalpha():
        name = f"{other}_{name}"
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found
