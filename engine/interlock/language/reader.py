"""What the readers of a file's parts share: places, findings, scopes.

Imported by: language.parts, language.states, language.load
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from interlock.core.codes import finding
from interlock.core.errors import Finding, Place, nearest
from interlock.core.facts import FACTS, sections
from interlock.core.specs import Registry
from interlock.core.types import COUNTER, DURATION, FRACTION, STR, Type, struct
from interlock.core.units import parse_duration, parse_fraction, parse_number
from interlock.language.expression import Expression, ExpressionFault, Scope, parse
from interlock.language.label import Label, LabelFault, parse_label
from interlock.language.template import Template, TemplateFault
from interlock.language.template import parse as parse_template
from interlock.language.yaml import Document, Path

NULLABLE = frozenset({name for name, spec in FACTS.items() if spec.type.nullable} | {"last.answer"})
"""Every fact that may be None."""

UNSURE = frozenset({"IL105", "IL110", "IL322"})
"""Faults that may vanish once it is known how a state is reached; see `language.flow`."""


@cache
def base_roots() -> dict[str, Type]:
    """The struct types of the facts that every machine has."""
    return sections()


def make_roots(
    *,
    states: Collection[str],
    tools: Collection[str],
    limits: Mapping[str, Type],
    variables: Mapping[str, Type],
    blocks: Collection[str],
) -> dict[str, Type]:
    """What the expressions of one machine may read."""
    roots = dict(base_roots())
    visits = struct(dict.fromkeys(states, COUNTER), keyed=True)
    calls = struct(dict.fromkeys(tools, COUNTER), keyed=True)
    roots["run"] = _with(roots["run"], "visits", visits)
    roots["usage"] = _with(roots["usage"], "calls", calls)
    roots["limits"] = struct(limits, keyed=True)
    roots["vars"] = struct(variables, keyed=True)
    roots["memory"] = struct(dict.fromkeys(blocks, STR), keyed=True)
    return roots


def _with(section: Type, name: str, type: Type) -> Type:
    return replace(section, fields=tuple((n, type if n == name else t) for n, t in section.fields))


@dataclass
class Reader:
    """Reads expressions, templates and labels out of one machine of a document.

    Findings are collected; what could not be read comes back as None, so that the rest of the
    file is still read.
    """

    document: Document
    base: Path
    """Where the machine stands: empty for the file's own, ``machines.x`` for a child."""
    registry: Registry
    scope: Scope = field(default_factory=lambda: Scope({}))
    findings: list[Finding] = field(default_factory=list[Finding])
    tainted: set[str] = field(default_factory=set[str])
    unsure: bool = False
    """A fault of `UNSURE` was met: a second reading with the flow may do without it."""

    def place(self, path: Path) -> Place:
        """The place of a value of this machine."""
        return self.document.at(self.base + path)

    def say(
        self, code: str, path: Path, message: str, *, hint: str = "", key: bool = False,
        part: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Note a finding at a value, at its key, or at a part of its text."""
        full = self.base + path
        if part is not None:
            place = self.document.part(full, *part)
        else:
            place = self.document.key(full) if key else self.document.at(full)
        at = ".".join(map(str, full))
        self.findings.append(finding(code, message, place, hint=hint, at=at))
        if len(path) > 1 and path[0] == "states":
            self.tainted.add(str(path[1]))

    def expression(
        self, path: Path, value: Any, want: Type | None, scope: Scope | None = None
    ) -> Expression | None:
        """The expression that stands at `path`, or None with a finding."""
        text = _text(value)
        scope = scope or self.scope
        try:
            return parse(text, scope, want=want)
        except ExpressionFault as fault:
            hint = fault.hint
            if (
                fault.code == "IL103"
                and text.isidentifier()
                and want is not None
                and want.kind in ("str", "any", "enum")
            ):
                self.say("IL113", path, f"`{text}` is a bare word", hint=f"write '\"{text}\"'")
            else:
                self.say(
                    fault.code, path, fault.message, hint=hint, part=(fault.offset, fault.width)
                )
            if fault.code in UNSURE:
                self.unsure = True
                return self._leniently(text, want, scope)
            return None

    def _leniently(self, text: str, want: Type | None, scope: Scope) -> Expression | None:
        try:
            return parse(text, replace(scope, known=scope.known | NULLABLE), want=want)
        except ExpressionFault:
            return None

    def template(
        self, path: Path, text: str, *, extra: Mapping[str, Type] | None = None
    ) -> Template | None:
        """The template that stands at `path`, or None with a finding."""
        try:
            return parse_template(text, self.scope.roots, extra=extra or {})
        except TemplateFault as fault:
            self.say(
                fault.code, path, fault.message, hint=fault.hint, part=(fault.offset, fault.width)
            )
            return None

    def label(self, path: Path, text: str | None) -> Label | None:
        """The label that stands at `path`, or None."""
        if text is None:
            return None
        try:
            return parse_label(text, self.scope.roots)
        except LabelFault as fault:
            self.say(
                fault.code, path, fault.message, hint=fault.hint, part=(fault.offset, fault.width)
            )
            return None

    def name(
        self, path: Path, name: str, known: Collection[str], what: str, code: str
    ) -> str | None:
        """A name that must be among `known`. The nearest stands in for a misspelt one."""
        if name in known:
            return name
        hint = nearest(name, known)
        self.say(code, path, f"unknown {what} `{name}`", hint=hint)
        if hint.startswith("did you mean `"):
            return hint.removeprefix("did you mean `").removesuffix("`?")
        return None

    def duration(
        self, path: Path, value: Any, scope: Scope | None = None
    ) -> Expression | float | None:
        """A duration: written out, or an expression that gives one."""
        if isinstance(value, str) and (seconds := parse_duration(value)) is not None:
            return seconds
        if isinstance(value, (int, float)):
            self.say("IL209", path, f"`{value}` is no duration", hint=f"write `{value}s`")
            return None
        return self.expression(path, value, DURATION, scope)

    def share(self, path: Path, value: Any) -> Expression | float | None:
        """A share: ``80%``, 0.8, or an expression that gives one."""
        if isinstance(value, str) and (share := parse_fraction(value)) is not None:
            return share
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        return self.expression(path, value, FRACTION)

    def constant(self, value: Any, type: Type) -> tuple[bool, Any]:
        """Whether a plain YAML value is a constant of a type, and that constant."""
        if isinstance(value, str):
            read = {
                "duration": parse_duration,
                "fraction": parse_fraction,
                "int": parse_number,
                "float": parse_number,
            }.get(type.kind)
            found = read(value) if read else None
            return found is not None, found
        return not isinstance(value, dict), value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    return value if isinstance(value, str) else repr(value)
