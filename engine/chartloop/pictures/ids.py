"""Ids that every format accepts, for boxes with arbitrary names.

Belongs here: the words that some format does not accept as an id, and their replacements. Mermaid
text, DOT and SVG have the same ids, so that a box can be found in each.

Source: mermaid 12.3, `flow.jison`
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

KEYWORDS = frozenset(
    "call class classDef click end flowchart graph href interpolate linkStyle style subgraph"
    " _self _blank _parent _top".split()
)
"""Words that cannot be the id of a node."""

# Words that Mermaid accepts as ids in most places, but not in all places or not in all versions.
_AVOIDED = KEYWORDS | frozenset(
    "default direction v x o".split()
    + "constructor hasOwnProperty isPrototypeOf toString valueOf __proto__".split()
)


def safe_ids(names: Iterable[str]) -> dict[str, str]:
    """An id for each name, of ASCII letters, digits and underscores, and never a keyword.

    A name that is already such an id is unchanged, so that the names of states stay readable.
    """
    ids: dict[str, str] = {}
    names = list(dict.fromkeys(names))
    taken = {name for name in names if _is_safe(name)}
    for name in names:
        ids[name] = name if name in taken else _new_id(name, taken)
        taken.add(ids[name])
    return ids


# Mermaid takes a text that contains one of these words for another kind of chart.
_ELSEWHERE = re.compile(r"C4(?=Container|Component|Dynamic|Deployment)")


def _is_safe(name: str) -> bool:
    plain = re.fullmatch(r"\w{1,80}", name, re.ASCII) is not None
    return plain and name not in _AVOIDED and not _ELSEWHERE.search(name)


def _new_id(name: str, taken: set[str]) -> str:
    plain = re.sub(r"\W", "_", name[:60], flags=re.ASCII) or "box"
    plain = _ELSEWHERE.sub("C_4", plain)
    numbered = (f"{plain}_{number}" for number in itertools.count(1))
    return next(
        candidate
        for candidate in itertools.chain((plain,), numbered)
        if candidate not in taken and candidate not in _AVOIDED
    )
