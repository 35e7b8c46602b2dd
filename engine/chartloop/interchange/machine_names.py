"""Valid, unique names for a machine file, made from the ids and labels of a document.

Belongs here: words to names. Never: what they name.

Source:       docs/language.md, section 1 (names)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from chartloop.language.file.name_rules import RESERVED_STATES

LONGEST = 40
"""Characters of a name."""

_TAKEN_WORDS = RESERVED_STATES | frozenset("true false null none".split())
_MEANINGLESS = re.compile(r"[A-Za-z]{0,2}\d*|(?:n|node|box|state|step|id)_?\d*", re.IGNORECASE)


def as_name(text: str) -> str:
    """The text as a name: `ConstructPrompt` becomes `construct_prompt`. May be empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    separated = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain)
    words = re.sub(r"[^a-z0-9]+", "_", separated.lower().replace("'", "")).strip("_")
    if len(words) > LONGEST:
        words = words[:LONGEST].rpartition("_")[0] or words[:LONGEST]
    return words


def name_of(name: str, label: str, *, other: str, taken: Container[str]) -> str:
    """A unique name from the id `name` or the `label`, whichever is more descriptive."""
    from_id, from_label = as_name(name), as_name(label)
    meaningless = _MEANINGLESS.fullmatch(name)
    best = from_label if from_label and meaningless else from_id or from_label
    return once(best, other=other, taken=taken)


def once(name: str, *, other: str, taken: Container[str]) -> str:
    """The name, numbered if it is taken. `other` replaces or prefixes an invalid name."""
    if not name or name in _TAKEN_WORDS:
        name = f"{other}_{name}".rstrip("_")
    if not name[0].isalpha():
        name = f"{other}_{name}"
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    return unique
