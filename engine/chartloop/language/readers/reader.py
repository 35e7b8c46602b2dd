"""The shared part of all readers: places, findings, scopes, and known names.

One mistake gives one finding: a name that could not be read is not reported again where it is used.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, nearest
from chartloop.core.facts import FACTS, FAILURE, TOOL_CALL, sections
from chartloop.core.reasons import REASONS, StopReason
from chartloop.core.specs import Registry, ToolSpec
from chartloop.core.types import (
    ANY,
    BOOL,
    COUNTER,
    DURATION,
    FRACTION,
    STR,
    Type,
    Words,
    list_of,
    struct,
    word_of,
)
from chartloop.core.units import parse_duration, parse_fraction
from chartloop.language.expression import Expression, ExpressionFault, Scope, parse
from chartloop.language.file.file import LOST, MachineShape
from chartloop.language.file.keys import IsFlag, IsText, OneOf, Part
from chartloop.language.file.unreadable import TOO_MANY, Unread, names_in
from chartloop.language.label import Label, LabelFault, parse_label
from chartloop.language.readers.flow import Flow, Moment
from chartloop.language.server_tools import ServerSpec
from chartloop.language.spec import path_in_file
from chartloop.language.template.template import Template, TemplateFault
from chartloop.language.template.template import parse as parse_template
from chartloop.language.text_fault import TextFault
from chartloop.language.yaml.document import dotted_path, short
from chartloop.language.yaml.reading import MAX_FINDINGS, Document, Path

NULLABLE = frozenset({name for name, spec in FACTS.items() if spec.type.nullable} | {"last.answer"})
"""The facts that may be None."""

UNSURE = frozenset({"CL105", "CL110", "CL322"})
"""The faults that may disappear once the flow to a state is known: see `readers.flow`."""

_ROOTS = {
    "state": "states", "stop reason": "reasons", "tool of this machine": "tools",
    "variable": "vars", "memory block": "memory",
}  # fmt: skip
"""The keys under which the kinds of things are declared."""

UNREAD_GUARD = parse("False", Scope({}), want=BOOL)
"""The placeholder for an unreadable guard, which keeps its edge or rule."""

FINISHES = ("stop", "length", "tool_calls", "content_filter")
"""The usual values of `last.finish_reason`; providers may send others."""

_NAME = r"\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s*"
SINGLE = re.compile(rf"(?<![{{$]){{{_NAME}(?::[^{{}}]*)?}}(?!}})", re.ASCII)
"""`{fact}`, as in labels."""
DOUBLE = re.compile(rf"{{{{{_NAME}(?:\|[^{{}}]*)?}}}}", re.ASCII)
"""`{{ fact }}`, as in templates."""

_MANY = 500
"""The most names that a misspelt one is compared with."""

T = TypeVar("T")


def items(given: Sequence[T] | None) -> list[tuple[int, T]]:
    """The items of a list with their indices, without those that could not be read."""
    return [(number, item) for number, item in enumerate(given or ()) if item is not LOST]


@cache
def base_roots() -> dict[str, Type]:
    """The struct types of the built-in facts."""
    return sections()


class Named(NamedTuple):
    """The names of one machine that are part of its facts."""

    machine: str
    states: tuple[str, ...]
    tools: tuple[str, ...]
    """The tools that the model may be offered."""
    all_tools: tuple[str, ...]
    """The tools with those of child machines."""
    fixed: bool
    """Whether the file lists its tools. With `*`, or without a list, a caller may add others."""
    actions: tuple[str, ...]
    reasons: tuple[str, ...]


def make_roots(
    named: Named, *, limits: Mapping[str, Type], variables: Mapping[str, Type],
    blocks: Collection[str],
) -> dict[str, Type]:  # fmt: skip
    """The names that the expressions of one machine may read."""
    roots = dict(base_roots())
    roots["run"] = _with(
        roots["run"], visits=struct(dict.fromkeys(named.states, COUNTER), keyed=True),
        machine=word_of([named.machine], "machine", "outside"),
        paused_from=word_of(["running", "debugging"], "status"),
    )  # fmt: skip
    calls = struct(dict.fromkeys(named.all_tools, COUNTER), keyed=True)
    roots["usage"] = _with(roots["usage"], calls=calls)
    state = word_of(named.states, "state")
    failure = _with(FAILURE, state=state).maybe()
    roots["errors"] = _with(roots["errors"], last=failure)
    tools = "all" if named.fixed else "outside"
    done = word_of((*named.actions, *named.all_tools), "action or tool", tools)
    roots["progress"] = _with(roots["progress"], recent=list_of(done))
    call = _with(TOOL_CALL, name=word_of(named.tools, "tool of this machine", tools))
    roots["last"] = _with(
        roots["last"], state=state, action=word_of(named.actions, "action"), error=failure,
        tool_calls=list_of(call), finish_reason=word_of(FINISHES, "reason to finish", "outside"),
    )  # fmt: skip
    reason = word_of(named.reasons, "stop reason")
    roots["signals"] = _with(roots["signals"], top=reason.maybe(), reasons=list_of(reason))
    roots["limits"] = struct(limits, keyed=True)
    roots["vars"] = struct(variables, keyed=True)
    roots["memory"] = struct(dict.fromkeys(blocks, STR), keyed=True)
    return roots


def _with(section: Type, **types: Type) -> Type:
    return replace(section, fields=tuple((n, types.get(n, t)) for n, t in section.fields))


@dataclass
class Reader:
    """Reads expressions, templates and names of one machine of a document.

    Findings are collected. An unreadable part is returned as None, so that the rest of the file is
    still read.
    """

    document: Document
    base: Path
    """The path of the machine: empty for the file's own, ``machines.x`` for a child."""
    registry: Registry
    unread: Unread
    shape: MachineShape = field(default_factory=MachineShape)
    """The machine as its keys read it."""
    flow: Flow | None = None
    define: Mapping[str, str] = field(default_factory=dict[str, str])
    """The definitions that the caller replaces."""
    scope: Scope = field(default_factory=lambda: Scope({}))
    defined: Mapping[str, Expression] = field(default_factory=dict[str, Expression])
    states: Mapping[str, None] = field(default_factory=dict[str, None])
    """The names of the states, in the file's order."""
    variables: Mapping[str, Type] = field(default_factory=dict[str, Type])
    words: Mapping[str, Words] = field(default_factory=dict[str, Words])
    """The words that the file assigns to each variable."""
    made: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    """The paths of generated parts, to their origin in the file."""
    reasons: Mapping[str, StopReason] = field(default_factory=lambda: dict(REASONS))
    tools: tuple[str, ...] = ()
    servers: Mapping[str, ServerSpec] = field(default_factory=dict[str, ServerSpec])
    """The MCP servers of the machine."""
    unlocked: set[str] = field(default_factory=set[str])
    """The servers without a usable lock, which was reported."""
    findings: list[Finding] = field(default_factory=list[Finding])
    broken: set[str] = field(default_factory=set[str])
    """The dotted names whose declaration could not be read: ``limits.x``."""
    children: dict[str, Path] = field(default_factory=dict[str, Path])
    """The names of child machines, each with the path of its first use."""
    unsure: bool = False
    """Whether there was a fault of `UNSURE`, which a second reading with the flow may avoid."""

    # places and findings --------------------------------------------------------------------

    def say(
        self, code: str, path: Path, message: str, *, hint: str = "", key: bool = False,
        part: tuple[int, int] | None = None, lost: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Add a finding at a value, at its key, or at a part of its text.

        `lost` are unreadable texts, whose names count as used.
        """
        self.unread.add(self.base + path_in_file(self.made, path), lost)
        self.warn(code, path, message, hint=hint, key=key, part=part)

    def warn(
        self, code: str, path: Path, message: str, *, hint: str = "", key: bool = False,
        part: tuple[int, int] | None = None,
    ) -> None:  # fmt: skip
        """Add a finding about a readable part."""
        full = self.base + path_in_file(self.made, path)
        if len(self.findings) > MAX_FINDINGS:
            return
        if len(self.findings) == MAX_FINDINGS:
            code, message, hint = "CL005", TOO_MANY, ""
        if part is not None:
            place = self.document.part(full, *part)
        else:
            place = self.document.key(full) if key else self.document.at(full)
        self.findings.append(finding(code, message, place, hint=hint, at=dotted_path(full)))

    def lose(self, path: Path) -> None:
        """Note that a state lacks an edge, which has a finding."""
        self.unread.places.add(dotted_path(self.base + path))
        self.unread.ways.add(dotted_path(self.base + path))

    def mention(self, text: str) -> None:
        """Count the names in an unread text as used."""
        self.unread.words.update(names_in(text))

    def once(self, path: Path, names: Iterable[tuple[int, str]], what: str) -> None:
        """Report names that occur twice in a list."""
        seen: set[str] = set()
        for number, name in names:
            if name in seen:
                message = f"{what} `{short(name)}` is named twice"
                self.say("CL211", (*path, number), message, hint="remove one of them")
            seen.add(name)

    def _known_trouble(self, path: Path, texts: str) -> bool:
        """Whether a fault only follows from a reported fault of a name in the text."""
        names = names_in(texts)
        trouble = any(n == b or n.startswith(b + ".") for n in names for b in self.broken)
        if trouble:
            self.unread.add(self.base + path, [texts])
        return trouble

    # expressions ----------------------------------------------------------------------------

    def at(self, state: str, moment: Moment) -> Scope:
        """The scope at a moment of a state, narrowed by the flow if it is known."""
        return self.flow.scope(self.scope, state, moment) if self.flow is not None else self.scope

    def expression(
        self, path: Path, value: Any, want: Type | None, scope: Scope | None = None
    ) -> Expression | None:
        """Read the expression at `path`; None with a finding if it is invalid."""
        text = _text(value)
        scope = scope or self.scope
        try:
            expression = parse(text, scope, want=want)
        except ExpressionFault as fault:
            if not self._known_trouble(path, text):
                part = (fault.offset, fault.width)
                self.say(fault.code, path, fault.message, hint=fault.hint, part=part, lost=[text])
            if fault.code in UNSURE:
                self.unsure = True
                return self._leniently(text, want, scope)
            return None
        for doubt in expression.doubts:
            self.warn(
                doubt.code, path, doubt.message, hint=doubt.hint, part=(doubt.offset, doubt.width)
            )
        return expression

    def guard(self, path: Path, value: Any, scope: Scope | None = None) -> Expression:
        """Read the guard at `path`; an invalid one becomes `UNREAD_GUARD`, which never holds."""
        return self.expression(path, value, BOOL, scope) or UNREAD_GUARD

    def _leniently(self, text: str, want: Type | None, scope: Scope) -> Expression | None:
        try:
            return parse(text, scope.narrow(NULLABLE), want=want)
        except ExpressionFault:
            return None

    def duration(
        self, path: Path, value: Any, scope: Scope | None = None
    ) -> Expression | float | None:
        """Read a duration in seconds, or an expression of one."""
        if isinstance(value, str) and (seconds := parse_duration(value)) is not None:
            return seconds
        if isinstance(value, (int, float)):
            hint = "write `30s`" if isinstance(value, bool) else f"write `{value}s`"
            self.say("CL209", path, f"`{self._raw(path, value)}` is not a duration", hint=hint)
            return None
        return self.expression(path, value, DURATION, scope)

    def share(self, path: Path, value: Any) -> Expression | float | None:
        """Read a share, ``80%`` or 0.8, or an expression of one."""
        share = parse_fraction(value) if isinstance(value, str) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            share = float(value)
        if share is None:
            return self.expression(path, value, FRACTION)
        if not 0 < share <= 1:
            message = f"`{self._raw(path, value)}` is not a share: it is above 0 and at most 100%"
            self.say("CL209", path, message, hint="write `80%`")
            return None
        return share

    def warn_at(self, path: Path, value: Any, when: Expression) -> Expression | float | None:
        """Read `warn_at` of a rule or decision: a share of its guard's bound."""
        at = (*path, "warn_at")
        if not when.bounds and when is not UNREAD_GUARD:
            hint = "there is no share of anything else to warn at: remove it"
            self.say(
                "CL207", at, "`warn_at` goes with a guard `fact >= bound`", hint=hint, key=True
            )
            return None
        return self.share(at, value)

    def _raw(self, path: Path, value: Any) -> str:
        return short(self.document.raw(self.base + path) or str(value))

    # texts and names ------------------------------------------------------------------------

    def simple(self, path: Path, part: Part) -> dict[str, Any]:
        """The keys of a part whose kind tells how they are read, by field."""
        out: dict[str, Any] = {}
        for name, key in part.table().items():
            if not (value := getattr(part, key.field)):
                continue
            match key.kind:
                case IsText(prose="label"):
                    out[key.field] = self.label((*path, name), value)
                case IsText(prose="template"):
                    out[key.field] = self.template((*path, name), value)
                case IsText(prose="plain") | OneOf() | IsFlag():
                    out[key.field] = value
                case _:
                    pass
        return out

    def template(
        self, path: Path, text: str, *, extra: Mapping[str, Type] | None = None,
        only: Mapping[str, Type] | None = None,
    ) -> Template | None:  # fmt: skip
        """Read the template at `path`; None with a finding if it is invalid.

        `extra` adds names to the facts and definitions; `only` replaces them.
        """
        if only is None:
            self._braces(path, text, "CL418", SINGLE)
        try:
            if only is not None:
                return parse_template(text, {}, extra=only)
            defined = {name: made.type for name, made in self.defined.items()}
            return parse_template(text, self.scope.roots, extra={**defined, **(extra or {})})
        except TemplateFault as fault:
            self._text_fault(path, text, fault)
            return None

    def label(self, path: Path, text: str | None) -> Label | None:
        """Read the label at `path`; None if it is invalid or empty."""
        self._braces(path, text or "", "CL419", DOUBLE)
        try:
            return parse_label(text, self.scope.roots, self.defined) if text else None
        except LabelFault as fault:
            self._text_fault(path, text or "", fault)
            return None

    def _braces(self, path: Path, text: str, code: str, pattern: re.Pattern[str]) -> None:
        """Warn of a fact in the wrong kind of braces or none, which would be shown literally."""
        if code == "CL418" and "." in text and self._is_fact(fact := text.strip()):
            message = f"a template shows `{fact}` as it is written, not the fact"
            self.warn(code, path, message, hint=f"write `{{{{ {fact} }}}}`")
        for match in pattern.finditer(text) if "{" in text else ():
            fact = match[1]
            if self._is_fact(fact):
                wrong, right = f"{{{fact}}}", f"{{{{ {fact} }}}}"
                kind = "a template"
                if code == "CL419":
                    wrong, right, kind = right, wrong, "a label"
                message = f"{kind} shows `{wrong}` as it is written, not the fact"
                part = (match.start(), match.end() - match.start())
                self.warn(code, path, message, hint=f"write `{right}`", part=part)

    def _is_fact(self, name: str) -> bool:
        root, *fields = name.split(".")
        if root in self.scope.defines:
            return True
        found = self.scope.roots.get(root) if fields else None
        for part in fields:
            if found is None or found.kind == "any":
                break
            found = (found.of or ANY) if found.kind == "map" else found.field(part)
        return found is not None

    def _text_fault(self, path: Path, text: str, fault: TextFault) -> None:
        if not self._known_trouble(path, text):
            part = (fault.offset, fault.width)
            self.say(fault.code, path, fault.message, hint=fault.hint, part=part, lost=[text])

    def name(
        self, path: Path, name: str, known: Collection[str], what: str, code: str, *,
        key: bool = False,
    ) -> str | None:  # fmt: skip
        """Check that a name is among `known`. A misspelt one is replaced by the nearest."""
        if name in known:
            return name
        if _ROOTS.get(what) in self.shape.lost:
            return None
        close, hint = self._nearest(name, known)
        self.say(code, path, f"unknown {what} `{short(name)}`", hint=hint, key=key, lost=[name])
        return close

    def add_tools(self, tools: Mapping[str, ToolSpec]) -> None:
        """Add to the registry what takes the place of its tools of the same names."""
        known = cast("dict[str, ToolSpec]", self.registry.tools)  # never written to
        self.registry = replace(self.registry, tools=ChainMap({**tools}, known))

    def function(
        self, path: Path, name: str, known: Collection[str] = (), *, key: bool = False
    ) -> str | None:
        """Check the name of a tool that is a function, not a child machine."""
        tools = self.registry.tools
        if name in tools and tools[name].machine:
            message = f"`{short(name)}` is a child machine, no function"
            hint = "a model calls it, `do: run_machine` runs it, and its own file says what it does"
            self.say("CL405", path, message, hint=hint, key=key)
            return None
        return self.name(path, name, known or tools, "tool", "CL405", key=key)

    def _nearest(self, name: str, known: Collection[str]) -> tuple[str | None, str]:
        """The nearest known name, if one is close, and a hint."""
        if len(self.findings) > MAX_FINDINGS:
            return None, ""
        few = len(known) <= _MANY
        close = get_close_matches(name, sorted(set(known)) if few else _alike(name, known), n=1)
        if close:
            return close[0], f"did you mean `{close[0]}`?"
        return None, nearest(name, known) if few else ""

    def state(self, path: Path, name: str, code: str = "CL301") -> str | None:
        """Check the name of a state. An unknown one without a near match may mean any state."""
        state = self.name(path, name, self.states, "state", code)
        if state is None:
            self.unread.ways.add(dotted_path(self.base + path))
        return state

    def variable(self, path: Path, target: str, code: str = "CL103") -> Type | None:
        """The type of a variable that a key names as ``vars.x``; None with a finding if unknown."""
        name = target.removeprefix("vars.")
        if target.startswith("vars.") and name in self.variables:
            return self.variables[name]
        if not self._known_trouble(path, target):
            known = [f"vars.{n}" for n in self.variables]
            self.name(path, target, known, "variable", code, key=True)
        return None

    def child(self, path: Path, name: str) -> None:
        """Note the name of a child machine, to be found after the whole machine is read."""
        self.children.setdefault(name, path)

    def reason(self, path: Path, name: str) -> str:
        """Check the name of a stop reason; an unknown one is returned unchanged."""
        return self.name(path, name, self.reasons, "stop reason", "CL408") or name


def _alike(name: str, known: Iterable[str]) -> list[str]:
    """The candidates for a misspelt name, because comparing very many names would take too long."""
    candidates = (k for k in known if abs(len(k) - len(name)) < 3 and k[:1] == name[:1])
    return list(islice(candidates, _MANY))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    return value if isinstance(value, str) else repr(value)
