"""The words under `cases`: their values, and the values without a case.

Belongs here: pure rules. Never: places, findings.

Source: `docs/language.md`, "States"
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

from chartloop.core.errors import nearest
from chartloop.core.types import Type
from chartloop.language.expression.words import word_fault

_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class CaseFault(NamedTuple):
    """A fault in a case."""

    message: str
    hint: str
    code: str = "CL111"


def case_value(type: Type, word: str) -> Any:
    """The value of a case's word for the type of `of`; None if it has none."""
    if type.kind == "bool":
        return _BOOLS.get(word)
    if type.kind == "int":
        return int(word) if _WHOLE.fullmatch(word) else None
    return word


def case_fault(type: Type, word: str) -> CaseFault | None:
    """The fault of a word that no value of the type can be; None if one can."""
    if type.kind == "enum" and word not in type.values:
        return CaseFault(f"`of` is never `{word}`", nearest(word, type.values))
    if (wrong := word_fault(type, word)) is not None:
        return CaseFault(wrong.message, wrong.hint, wrong.code)
    if case_value(type, word) is None:
        hint = "write `true` or `false`" if type.kind == "bool" else "write a whole number"
        return CaseFault(f"`{word}` is not of type {type.kind}", hint)
    return None


def missing_cases(type: Type, words: Collection[str]) -> str:
    """The values without a case, in words; empty if all are covered."""
    if type.kind == "enum":
        missing = [f"`{v}`" for v in type.values if v not in words]
    elif type.kind == "bool":
        named = {_BOOLS.get(w) for w in words}
        missing = [f"`{w}`" for w, v in (("true", True), ("false", False)) if v not in named]
    else:
        missing = [f"any other {type.kind}"]
    if type.nullable:
        missing.append("None")
    return ", ".join(missing)
