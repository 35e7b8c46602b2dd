r"""Labels of boxes and edges: texts that may contain facts.

    "Token Usage\n≥ {limits.tokens:,}?"      Token Usage / ≥ 1,000,000?
    "No Response\n{limits.response}"         No Response / 5 min

`{fact}` formats a fact or a name under `define` by its type: durations as `24 hours`, `30 min`,
`60 s`, fractions as `95%`, a limit that is off as `off`. After a colon, `,` adds thousands
separators, `.2f` sets decimals, `.1%` writes percent. `{{` and `}}` are braces. A literal `\n`
breaks the line in any YAML quoting.

Belongs here: the wording of labels. Never: where a label is drawn, or whether it agrees with its
guard (the checker, CL317).

Source: `docs/language.md`, "States"; the wordings are those of 003
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from chartloop.core.errors import nearest
from chartloop.core.facts import Facts
from chartloop.core.types import ANY, Type
from chartloop.core.units import say_duration, say_fraction, say_number
from chartloop.core.visible import cut
from chartloop.language.expression import Expression, GuardFailed
from chartloop.language.template.filters import MISSING, look_up
from chartloop.language.text_fault import TextFault

__all__ = ["Label", "LabelFault", "parse_label"]

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SLOT = re.compile(r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*(?::([^{}]*))?", re.ASCII)
_SPEC = re.compile(r",?|\.\d[f%]", re.ASCII)
_FITS = {
    "": frozenset(
        {"bool", "int", "float", "str", "duration", "fraction", "none", "enum", "list", "any"}
    ),
    ",": frozenset({"int", "float", "any"}),
    "f": frozenset({"int", "float", "fraction", "any"}),
    "%": frozenset({"float", "fraction", "any"}),
}
"""The kinds of values that a format accepts, by its last character."""
_LONGEST = 80
"""The most characters of a fact in a label."""


class LabelFault(TextFault):
    """A fault in a label.

    `code` is CL103 for an unknown fact, CL104 for one that cannot be formatted so, else CL406.
    """


class _Slot(NamedTuple):
    """A placeholder for a fact or a definition."""

    fact: str
    type: Type
    spec: str
    defined: Expression | None = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.fact}) if self.defined is None else self.defined.reads


class _Names(NamedTuple):
    """The names that a label may contain."""

    roots: Mapping[str, Type]
    define: Mapping[str, Expression]


_NOTHING: Mapping[str, Expression] = MappingProxyType({})


@dataclass(frozen=True)
class Label:
    """The text of a box or an edge. Labels of the same text are equal."""

    text: str
    """The text of the file, with a line break for every `\\n`."""
    _pieces: tuple[str | _Slot, ...] = field(compare=False, repr=False)

    @property
    def reads(self) -> frozenset[str]:
        """The dotted names of the facts that it reads, through definitions too."""
        slots = (piece for piece in self._pieces if isinstance(piece, _Slot))
        return frozenset[str]().union(*(slot.reads for slot in slots))

    @property
    def plain(self) -> bool:
        """Whether it contains no fact, and so is the same in every run."""
        return not any(isinstance(piece, _Slot) for piece in self._pieces)

    def show(self, facts: Facts) -> str:
        """The label with the current values. Never fails: an unknown value becomes `?`."""
        return "".join(
            _say_slot(piece, facts) if isinstance(piece, _Slot) else piece for piece in self._pieces
        )

    def show_heading(self, facts: Facts) -> str:
        """What stands before the first empty line of the file's text, with the current values."""
        shown: list[str] = []
        for piece in self._pieces:
            if isinstance(piece, _Slot):
                shown.append(_say_slot(piece, facts))
                continue
            head, blank, _ = piece.partition("\n\n")
            shown.append(head)
            if blank:
                break
        return "".join(shown) or self.show(facts)


def parse_label(
    text: str, roots: Mapping[str, Type], define: Mapping[str, Expression] = _NOTHING
) -> Label:
    """Parse a label. `roots` are the sections of facts by name, `define` the definitions.

    Raises `LabelFault`.
    """
    names = _Names(roots, define)
    return Label(_break_lines(text), tuple(_pieces(text, names)))


def _pieces(text: str, names: _Names) -> Iterator[str | _Slot]:
    end = 0
    for match in _PIECE.finditer(text):
        yield _break_lines(text[end : match.start()])
        end = match.end()
        sign = match.group()
        if sign in ("{{", "}}"):
            yield sign[0]
        elif match[1] is not None:
            yield _slot(match, names)
        else:
            message = f"`{sign}` has no partner"
            hint = f"write `{sign}{sign}` for a brace, `{{limits.x}}` for a fact"
            raise LabelFault("CL406", message, hint, match.start(), 1)
    yield _break_lines(text[end:])


def _break_lines(text: str) -> str:
    return text.replace("\\n", "\n")


def _slot(match: re.Match[str], names: _Names) -> _Slot:
    body = _SLOT.fullmatch(match[1])
    start = match.start(1)
    if body is None:
        message = f"`{match.group()}` is not a fact"
        hint = "a label shows one fact: `{limits.x}`; compute under `define`; `{{` is a brace"
        raise LabelFault("CL406", message, hint, match.start(), len(match.group()))
    fact, spec = body[1], (body[2] or "").strip()
    found = _type_of(fact, names, start + body.start(1))
    kind = spec[-1:]
    if not _SPEC.fullmatch(spec):
        message = f"`{spec}` is not a format of labels"
        hint = "`:,` writes thousands, `:.2f` decimals, `:.1%` percent"
        raise LabelFault("CL406", message, hint, start + body.start(2), len(body[2]))
    if found.kind not in _FITS[kind]:
        how = f"as `{spec}`" if spec else "in a label"
        message = f"`{fact}` is {found} and cannot be shown {how}"
        hint = (
            "durations and fractions have their own wording" if spec else "show one of its fields"
        )
        raise LabelFault("CL104", message, hint, start + body.start(1), len(match[1].strip()))
    return _Slot(fact, found, spec, names.define.get(fact.partition(".")[0]))


def _type_of(fact: str, names: _Names, offset: int) -> Type:
    """The type of a dotted fact or definition; a map has every key."""
    root, *fields = fact.split(".")
    type_ = names.define[root].type if root in names.define else names.roots.get(root)
    known = [*names.roots, *names.define]
    prefix = root
    for name in fields:
        if type_ is None:
            break
        known = [f"{prefix}.{field}" for field, _ in type_.fields]
        prefix = f"{prefix}.{name}"
        type_ = (type_.of or ANY) if type_.kind in ("map", "any") else type_.field(name)
    if type_ is None:
        message = f"unknown fact `{prefix}`"
        hint = nearest(prefix, known) or f"`{prefix.rpartition('.')[0]}` has no fields"
        raise LabelFault("CL103", message, hint, offset, len(prefix))
    return type_


def _value(slot: _Slot, facts: Facts) -> Any:
    root, *fields = slot.fact.split(".")
    try:
        value = look_up(facts, root) if slot.defined is None else slot.defined.value(facts)
    except GuardFailed:
        return MISSING
    for name in fields:
        value = look_up(value, name)
    return value


def _say_slot(slot: _Slot, facts: Facts) -> str:
    value = _value(slot, facts)
    if value is MISSING:
        return "?"
    if value is None:
        return "off" if slot.fact.startswith("limits.") else "none"
    return _say(value, slot.type, slot.spec)


def _say(value: Any, found: Type, spec: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _say_quantity(value, found.kind, spec)
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return cut(
            ", ".join(_say(item, found.of or ANY, "") for item in items[:_LONGEST]), _LONGEST
        )
    return cut(value, _LONGEST) if isinstance(value, str) else "…"


def _say_quantity(value: float, kind: str, spec: str) -> str:
    if not math.isfinite(value):
        return str(value)
    if spec == ",":
        return say_number(value)
    if spec:
        return format(value, spec)
    if kind == "duration":
        return say_duration(value)
    if kind == "fraction":
        return say_fraction(value)
    return str(value) if isinstance(value, int) else f"{value:.10g}"
