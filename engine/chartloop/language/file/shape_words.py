"""The wording of findings about the shape.

Belongs here: messages and hints. Never: finding the faults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from chartloop.language.file.base import LIST, MAPPING, SCALAR
from chartloop.language.file.file import EdgeShape, MachineShape, RuleShape, StateShape
from chartloop.language.file.shape_parts import real_path
from chartloop.language.yaml.document import dotted_path, short
from chartloop.language.yaml.reading import Path


class Fault(NamedTuple):
    """An error of pydantic, reduced to the necessary data."""

    kind: str
    path: Path
    key: bool
    """Whether it is about a key instead of its value."""
    words: list[str]
    """The allowed words, if there is a list."""
    context: Mapping[str, Any]

    @classmethod
    def of(cls, kind: str, loc: tuple[int | str, ...], context: Any) -> Fault:
        """Make a fault from an entry of `ValidationError.errors()`."""
        details: Mapping[str, Any] = context or {}
        words = re.findall(r"'([^']*)'", str(details.get("expected", "")))
        return cls(kind, real_path(loc), "[key]" in loc, words, details)


IN_PLACE_OF: Mapping[str, tuple[str, ...]] = {
    "action": ("do",), "actions": ("do",), "run": ("do",), "call": ("do",), "type": ("do",),
    "params": ("with",), "args": ("with",), "inputs": ("with",), "parameters": ("with",),
    "target": ("to", "next"), "goto": ("to", "next"), "dest": ("to",), "transitions": ("next",),
    "transition": ("next",), "edges": ("next",), "guard": ("when",), "cond": ("when",),
    "condition": ("when",), "conditions": ("when",), "if": ("when",), "initial": ("start",),
    "timeout": ("within",), "after": ("expired",), "question": ("ask",), "switch": ("of",),
    "name": ("machine", "label"), "description": ("about",), "prompt": ("instructions",),
    "system": ("instructions",), "variables": ("vars",), "context": ("vars",), "final": ("end",),
    "on_enter": ("set",), "entry": ("set",), "events": ("on",), "reason": ("stop",),
    "version": ("chartloop",), "nodes": ("states",), "budget": ("limits",),
    "catch": ("on_error",), "except": ("on_error",), "on_failure": ("on_error",),
}  # fmt: skip
"""Words of other tools, with the corresponding keys of this language."""

_NOUNS: Mapping[type[Any], str] = {
    StateShape: "a state", MachineShape: "the machine, at the top of the file",
    RuleShape: "a rule", EdgeShape: "an edge",
}  # fmt: skip

_TAKES = {
    "dict_type": "a mapping", "model_type": "a mapping", "model_attributes_type": "a mapping",
    "list_type": "a list", "string_type": "text", "int_type": "a whole number",
    "int_from_float": "a whole number", "int_parsing_size": "a smaller whole number",
    "float_type": "a number", "bool_type": "true or false", "scalar_type": "one value",
    "finite_number": "a smaller number",
}  # fmt: skip
_TAGS = {SCALAR: "text", MAPPING: "a mapping", LIST: "a list"}
_RANGE = {
    "greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "below"), "less_than_equal": ("le", "at most"),
}  # fmt: skip

_EDGE = "an edge is a state's name, or a mapping with `to`"
_HINTS = {
    "chartloop": "write `chartloop: 1` as the first line",
    "machine": "write `machine: my_agent`",
    "next": "`next` is a state's name, a mapping with `to`, or a list of these",
    "states": "`states` maps each state's name to its job: `think: {do: infer, next: act}`",
    "rules": "a rule is `{when: guard, stop: reason}`",
    "cases": "`cases` maps each value of `of` to an edge",
    "on": "`on` maps each event to an edge",
    "limits": "`limits` maps names to thresholds: `{steps: 50}`",
    "vars": "`vars` maps names to first values: `{plan: \"\"}`",
    "with": "`with` maps the action's fields to their values",
    "all": "name the decisions: `all: [a, b]`",
    "type": 'write `{type: "list[str]", value: []}`',
    "append": "write `{append: expression}`, or an expression alone",
    **dict.fromkeys(("to", "then", "else", "expired", "failed", "on_error"), _EDGE),
}  # fmt: skip


def noun_of(model: type[Any]) -> str:
    """The noun for a mapping in a sentence: ``a state``."""
    return _NOUNS.get(model, "something else")


def kind_in_words(value: Any) -> str:
    """The kind of a value: ``a list``."""
    if isinstance(value, bool):
        return "true or false"
    for kind, words in ((dict, "a mapping"), (list, "a list"), (str, "text")):
        if isinstance(value, kind):
            return words
    return "nothing" if value is None else "a number"


def message_of(path: Path, value: Any, fault: Fault) -> str:
    """The message for a wrong value."""
    where = f"`{dotted_path(path)}`"
    if fault.kind in _TAKES:
        takes = _TAKES[fault.kind]
        return f"{where} takes {takes}, not {kind_in_words(value)}"
    if fault.kind == "union_tag_invalid":
        expected = str(fault.context.get("expected_tags", ""))
        takes = " or ".join(words for tag, words in _TAGS.items() if tag in expected)
        return f"{where} takes {takes}, not {kind_in_words(value)}"
    if fault.kind in _RANGE:
        bound, words = _RANGE[fault.kind]
        return f"{where} is {words} {fault.context.get(bound)}, not {short(str(value))}"
    if fault.kind == "too_short":
        return f"{where} is empty"
    return f"{where} cannot be {kind_in_words(value)}"


def hint_for(path: Path, value: Any = None, fault: Fault | None = None) -> str:
    """The hint about the allowed values at a path."""
    last = next((p for p in reversed(path) if isinstance(p, str)), "")
    if fault is not None and fault.kind == "string_type" and isinstance(value, bool):
        word = "true" if value else "false"
        return _HINTS.get(last, f'if it is text, quote it: `"{word}"`')
    if fault is not None and fault.kind == "bool_type" and value in ("true", "false"):
        return f"take the quotes away: `{last}: {value}`"
    if len(path) > 1 and path[-2] in ("cases", "on"):
        return _EDGE
    return _HINTS.get(last, "")
