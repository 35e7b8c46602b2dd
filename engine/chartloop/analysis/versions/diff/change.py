"""One difference between two machines, as a record and in words.

    kind        added removed renamed retargeted loosened tightened changed moved
    what        state edge rule limit variable definition reason tool memory task child model
                machine note server data input approve
    aspect      the part of it: `when`, `with.text`, `value`; empty for the whole
    before      it in the first machine: name, text, place; None if it is not there
    after       the same in the second machine

A *loosened* guard holds wherever it held, and perhaps elsewhere too; the consequences for a run are
in `effects`. Compared in the other direction, every record says the opposite: `Change.mirror`.

Belongs here: records and words. Never: finding differences (`compare`), colours, a file format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from chartloop.core.errors import NOWHERE, Place
from chartloop.core.visible import cut
from chartloop.language.file.file import (
    DataShape,
    FileShape,
    McpShape,
    OnShape,
    RuleShape,
    StateShape,
)
from chartloop.language.file.keys import Group, Key

Kind = Literal[
    "added", "removed", "renamed", "retargeted", "loosened", "tightened", "changed", "moved"
]
What = Literal[
    "state", "edge", "rule", "limit", "variable", "definition", "reason", "tool", "memory", "task",
    "child", "model", "machine", "note", "server", "data", "input", "approve",
]  # fmt: skip
GROUPS: tuple[Group, ...] = get_args(Group)
"""The headings, in order of display. Changes under `Words` do not affect a run."""

OPPOSITE: Mapping[Kind, Kind] = MappingProxyType(
    {
        "added": "removed", "removed": "added", "loosened": "tightened", "tightened": "loosened",
        "renamed": "renamed", "retargeted": "retargeted", "changed": "changed", "moved": "moved",
    }
)  # fmt: skip

Way = Literal["sooner", "later", "more", "fewer", "on", "off", "longer", "shorter"]
_OPPOSITE_WAY: Mapping[Way, Way] = MappingProxyType(
    {
        "sooner": "later", "later": "sooner", "more": "fewer", "fewer": "more",
        "on": "off", "off": "on", "longer": "shorter", "shorter": "longer",
    }
)  # fmt: skip
_EFFECT_TEXTS: Mapping[Way, str] = MappingProxyType(
    {
        "sooner": "{who} stops sooner", "later": "{who} stops later",
        "more": "{who} holds in more cases", "fewer": "{who} holds in fewer cases",
        "on": "{who} is now in force", "off": "{who} is no longer in force",
        "longer": "{who} is given more time", "shorter": "{who} is given less time",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a change on one guard, and so on a run."""

    before: str
    """The owner of the guard, by its name in the first machine; empty if the change names it."""
    after: str
    way: Way

    def __str__(self) -> str:
        who = f"`{self.after}`" if self.after else ""
        return _EFFECT_TEXTS[self.way].format(who=who).strip()

    @property
    def deadline(self) -> bool:
        """Whether it is about a deadline, not a guard."""
        return self.way in ("longer", "shorter")

    def mirror(self) -> Effect:
        """Return the effect of the opposite change."""
        return Effect(self.after, self.before, _OPPOSITE_WAY[self.way])


@dataclass(frozen=True, slots=True)
class Side:
    """The changed thing in one of the two machines."""

    name: str
    """Its name there."""
    text: str = ""
    """Its text there, for people."""
    place: Place = NOWHERE
    id: str = ""
    """The id of a state, edge or rule, as in pictures: ``think.next.0``."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference."""

    kind: Kind
    what: What
    aspect: str
    before: Side | None
    after: Side | None
    effects: tuple[Effect, ...] = ()
    within: tuple[str, ...] = ()
    """The names of the child machines around it, the outermost first."""

    def mirror(self) -> Change:
        """Return the difference that the comparison in the other direction finds."""
        return replace(
            self, kind=OPPOSITE[self.kind], before=self.after, after=self.before,
            effects=tuple(effect.mirror() for effect in self.effects),
        )  # fmt: skip

    @property
    def group(self) -> Group:
        """The heading that it belongs to. A model reads what a child is for, as of any tool."""
        if self.within and (self.what, self.aspect) == ("machine", "about"):
            return "Model"
        return _group(self.what, self.aspect)

    @property
    def only_words(self) -> bool:
        """Whether it is for people only and does not affect a run."""
        return self.group == "Words"

    @property
    def side(self) -> Side:
        """The side after the change, or before it if the thing was removed."""
        side = self.after or self.before
        assert side is not None
        return side

    @property
    def sign(self) -> str:
        """`+`, `−` or `~`."""
        return {"added": "+", "removed": "−"}.get(self.kind, "~")

    def __str__(self) -> str:
        text = _say(self)
        inside = "".join(f"`{name}` → " for name in self.within)
        effects = ", ".join(str(effect) for effect in self.effects[:SHOWN])
        more = f" and {len(self.effects) - SHOWN} more" if len(self.effects) > SHOWN else ""
        return f"{inside}{text}{': ' if effects else ''}{effects}{more}"

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape of one difference."""
        return {
            "kind": self.kind,
            "what": self.what,
            "aspect": self.aspect or None,
            "group": self.group,
            "only_words": self.only_words,
            "within": list(self.within),
            "before": side_data(self.before),
            "after": side_data(self.after),
            "effects": [{"who": e.after or None, "way": e.way} for e in self.effects],
            "words": str(self),
        }


SHOWN = 4
"""The most effects that a sentence names."""


def side_data(side: Side | None) -> dict[str, Any] | None:
    """The public JSON shape of one side."""
    if side is None:
        return None
    place = side.place
    return {
        "name": side.name, "text": side.text, "id": side.id or None, "file": place.file,
        "line": place.line or None, "column": place.column or None,
    }  # fmt: skip


# words --------------------------------------------------------------------------------------


_PARTS: Mapping[What, Mapping[str, Key]] = MappingProxyType(
    {
        "state": {"job": Key("job", "States"), **StateShape.table()},
        "edge": OnShape.table(),
        "rule": {"rules": Key("order of the rules", "Rules"), **RuleShape.table()},
        "machine": {"order": Key("order of the tasks", "Data"), **FileShape.table()},
        "server": McpShape.table(), "data": DataShape.table(), "input": DataShape.table(),
        "tool": {  # an MCP server's tool, as in the lock file
            "description": Key("description", "Model"), "title": Key("title", "Words"),
            "parameters": Key("arguments", "Model"), "output": Key("result", "Model"),
            "annotations": Key("claims of the server", "Words"),
        },
    }
)  # fmt: skip
"""The aspects of the parts: keys of the file, and a few that are none."""
_WHOLE: Mapping[What, Group] = MappingProxyType(
    {
        "state": "States", "edge": "Edges", "rule": "Rules", "limit": "Limits",
        "variable": "Data", "definition": "Data", "reason": "Rules", "tool": "Model",
        "memory": "Data", "task": "Data", "child": "States", "model": "Model", "machine": "Data",
        "note": "Words", "server": "Model", "data": "Data", "input": "Data", "approve": "Consent",
    }
)  # fmt: skip


def _group(what: What, aspect: str) -> Group:
    known = _PARTS.get(what, {}).get(aspect.partition(".")[0])
    return (known and known.group) or _WHOLE[what]


def phrase(what: What, aspect: str) -> str:
    """Return the name of an aspect in words: ``guard``, ```with.text```."""
    head, _, rest = aspect.partition(".")
    if rest:
        return f"`{aspect}`"
    known = _PARTS.get(what, {}).get(head)
    return (known and known.says) or aspect


_NOUNS: Mapping[What, str] = MappingProxyType(
    {
        "child": "child machine",
        "data": "data of",
        "memory": "memory block",
        "reason": "stop reason",
        "server": "MCP server",
    }
)


def _thing(change: Change, side: Side) -> str:
    if change.what == "machine":
        return "the machine"
    if change.what == "model":
        return f"`model.{side.name}`"
    if change.what in ("note", "approve"):
        return f"`{side.name}`"
    return f"{_NOUNS.get(change.what, change.what)} `{side.name}`"


def quote(text: str) -> str:
    """Quote a text of a file within a sentence: on one line, shortened if long."""
    line = " ".join(text.split())
    return f"`{cut(line, LONGEST)}`" if line else "nothing"


LONGEST = 100
"""The most characters of a text that a sentence shows."""


def _say(change: Change) -> str:
    side = change.side
    thing = _thing(change, side)
    old = change.before.text if change.before is not None else ""
    new = change.after.text if change.after is not None else ""
    match change.kind:
        case "added" | "removed" if not change.aspect:
            return f"{thing} {change.kind}{f': {_short(side.text)}' if side.text else ''}"
        case "added" | "removed":
            of = "" if change.what == "machine" else f" of {thing}"
            name = phrase(change.what, change.aspect)
            return f"{name}{of} {change.kind}: {quote(side.text)}"
        case "renamed":
            assert change.before is not None
            return f"{_thing(change, change.before)} renamed to `{side.name}`"
        case "retargeted":
            return f"{thing} leads to {quote(new)} instead of {quote(old)}"
        case "loosened" | "tightened":
            of = f"{phrase(change.what, change.aspect)} of {thing}" if change.aspect else thing
            return f"{of} {change.kind}: {_both(old, new)}"
        case _:
            return _describe_change(change, thing, old, new)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return cut(line, LONGEST)


def _describe_change(change: Change, thing: str, old: str, new: str) -> str:
    if not change.aspect or (change.what in ("limit", "variable") and change.aspect == "value"):
        return f"{thing}: {_both(old, new)}"
    name = phrase(change.what, change.aspect)
    of = name if change.what == "machine" else f"{name} of {thing}"
    return f"{of}: {_both(old, new)}"


def _both(old: str, new: str) -> str:
    """Two texts, or only their differing parts if they are long."""
    if len(old) + len(new) > LONGEST:
        old, new = differing(old, new)
    return f"{quote(old)} → {quote(new)}"


_TOKEN = re.compile(r"\s+|[\w.]+|[^\w\s]+")
_CONTEXT = 3
"""The words and blanks of context around a differing part."""


def differing(old: str, new: str) -> tuple[str, str]:
    """Return the differing parts of two texts, with a little context."""
    a, b = (_TOKEN.findall(" ".join(text.split())) for text in (old, new))
    shorter = min(len(a), len(b))
    head = next((n for n in range(shorter) if a[n] != b[n]), shorter)
    rest = shorter - head
    tail = next((n for n in range(rest) if a[-1 - n] != b[-1 - n]), rest)
    first, last = max(0, head - _CONTEXT), max(0, tail - _CONTEXT)
    return _middle_tokens(a, first, last), _middle_tokens(b, first, last)


def _middle_tokens(tokens: list[str], first: int, last: int) -> str:
    middle = "".join(tokens[first : len(tokens) - last]).strip()
    return f"{'… ' if first else ''}{middle}{' …' if last else ''}"
