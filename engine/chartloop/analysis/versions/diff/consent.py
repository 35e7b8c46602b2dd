"""What a change does to consent: which calls no longer wait for a person, and which wait now.

    loosened    a call may be executed with fewer answers, or on the answer of more people
    tightened   the opposite
    changed     written differently, the same calls ask

What cannot be decided is said, with the reason, and counts as loosened. A tool that is executed
nowhere counts as one that always asks: no call of it went through without an answer.

Belongs here: from two specs to sentences. Never: the words of the file (`compare`), recorded calls.

Source: docs/review.md, "Consent"; docs/language.md, "Approval"
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import Any, Literal, TypeAlias, cast

from chartloop.analysis.proofs.guards.implication import still_holds
from chartloop.analysis.versions.diff.align import states_of
from chartloop.analysis.versions.diff.change import Side, quote, side_data
from chartloop.analysis.versions.diff.given_values import Placed, caller_sets, sources
from chartloop.analysis.versions.diff.guards import Shift, number_of, plain
from chartloop.core.specs import Effect, ToolSpec
from chartloop.core.types import BOOL
from chartloop.core.units import say_elapsed
from chartloop.core.visible import visible_json
from chartloop.language.approval import ACTION
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import (
    INVERSE,
    MIRROR,
    ORDER,
    Compare,
    Const,
    Fact,
    Field,
    Link,
    Node,
    Opaque,
    walk,
)
from chartloop.language.spec import Approve, InDoubt, MachineSpec
from chartloop.machine.abstract.signals import carried_out
from chartloop.machine.in_doubt import policy, provider_acts

Kind = Literal["loosened", "tightened", "changed"]
Asks: TypeAlias = Expression | bool
"""Which calls of a tool wait: those for which a guard holds, all of them or none."""
SIGNS: Mapping[Kind, str] = {"loosened": "−", "tightened": "+", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Consent:
    """One sentence on the calls of a tool, or on the answers of a gate."""

    kind: Kind
    tools: str
    says: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of a call that shows it; empty if any call does, or if none was found."""
    reason: str = ""
    """Why it is not decided, or what is not known; empty if nothing is open."""
    before: Side | None = None
    after: Side | None = None
    within: tuple[str, ...] = ()
    """The names of the child machines around the gate, the outermost first."""
    recorded: tuple[tuple[str, str], ...] = ()
    """The recorded calls that it is about: the run and the arguments of each, shortened."""

    @property
    def sign(self) -> str:
        """`−`, `+` or `~`."""
        return SIGNS[self.kind]

    def __str__(self) -> str:
        inside = "".join(f"`{name}` → " for name in self.within)
        shown = ", ".join(f"{name}={visible_json(v)}" for name, v in self.arguments.items())
        example = f", as in `{self.tools}({shown})`" if shown else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.kind}: {inside}{self.tools}: {self.says}{example}{why}"

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape of one sentence."""
        sides = {"before": side_data(self.before), "after": side_data(self.after)}
        return {**asdict(self), **sides, "words": str(self)}


def consent(a: MachineSpec, b: MachineSpec) -> Iterator[Consent]:
    """Yield what a change does to consent, the loosened first. Nothing if no tool ever asks."""
    if any(spec.approve is not None for one in (a, b) for spec in one.family()):
        free = frozenset(
            name for spec in a.family() for name, asks in asks_of(spec).items() if asks is False
        )
        gates = _Gates(Placed(a), Placed(b), (), free)
        yield from sorted(gates.sentences(), key=lambda s: [*SIGNS].index(s.kind))


def asks_of(spec: MachineSpec) -> dict[str, Asks]:
    """The tools whose calls a machine executes, and which of the calls wait."""
    gate = spec.approve
    executed = {tool for state in spec.states.values() for tool in carried_out(spec, state)}
    return {
        tool: (gate.when or True) if gate is not None and tool in gate.tools else False
        for tool in sorted(executed)
    }


_KEYS: Mapping[str, tuple[Kind, str, str]] = {
    "by": ("tightened", "answers are now asked of {}", "answers are no longer asked of {}"),
    "not_by": (
        "tightened", "who submitted the run can no longer accept it",
        "who submitted the run may now accept it",
    ),
    "expired": (
        "loosened", "without an answer in time the calls are not denied, the run goes to {}",
        "without an answer in time the calls are denied, the run no longer goes to {}",
    ),
    "remember": (
        "loosened", "an answer may also accept later equal calls",
        "an answer no longer accepts later calls",
    ),
    "edit": (
        "loosened", "an answer may change the call, or stand in for its result",
        "an answer can no longer change the call",
    ),
}  # fmt: skip
"""What a key of `approve` does to consent if it is added, the words for that, and if it goes."""
_NOT_MADE = (0, "a call in doubt is not made again, and nobody is asked")
_DOUBT: Mapping[InDoubt, tuple[int, str]] = {
    "tell": _NOT_MADE, "fail": _NOT_MADE,
    "ask": (1, "a person decides whether a call in doubt is made again"),
    "retry": (2, "a call in doubt is made again without asking"),
}  # fmt: skip
"""The treatments of a call in doubt, by what may happen without a person."""
_UNKNOWN = "the schema of `{}` is not known; --tools FILE declares it"
_SCHEMAS = {"float": {"type": "number"}, "str": {"type": "string"}, "bool": {"type": "boolean"}}
"""Schemas of arguments of which only the type is known, from what they are compared with."""


@dataclass
class _Gates:
    """The gates of a machine before and after, and of its children."""

    before: Placed
    after: Placed
    within: tuple[str, ...]
    free: frozenset[str]
    """The tools that some machine executed without asking before."""

    def __post_init__(self) -> None:
        self.a, self.b = self.before.spec, self.after.spec

    def sentences(self) -> Iterator[Consent]:
        yield from self._tools()
        yield from self._keys()
        before, now = _doubts(self.a), _doubts(self.b)
        for name in sorted(before.keys() & now.keys()):
            (old, _), (new, says) = _DOUBT[before[name]], _DOUBT[now[name]]
            gated = {
                spec.approve is not None and name in spec.approve.tools for spec in (self.a, self.b)
            }
            if old != new and len(gated) == 1:
                yield self._say("loosened" if new > old else "tightened", name, says)
        for who, says in sorted({*_ways_around(self.b)} - {*_ways_around(self.a)}):
            yield self._say("loosened", who, says)
        for name, child in self.b.machines.items():
            nothing = replace(child, states={}, approve=None, machines={})  # what a new one was
            old = Placed(self.a.machines.get(name, nothing), name, self.before)
            new = Placed(child, name, self.after)
            yield from _Gates(old, new, (*self.within, name), self.free).sentences()

    def _say(self, kind: Kind, tools: str, says: str, key: str = "when", **more: Any) -> Consent:
        before, after = (
            Side("approve", "", spec.place(("approve", key), key=True)) if spec.approve else None
            for spec in (self.a, self.b)
        )
        return Consent(kind, tools, says, before=before, after=after, within=self.within, **more)

    def _tools(self) -> Iterator[Consent]:
        before = asks_of(self.a)
        for name, new in asks_of(self.b).items():
            tool = self.b.registry.tools.get(name)
            if tool is None:
                continue
            if name in before or new is not False:  # of a new tool no call went unasked before
                yield from self._calls(tool, before.get(name, True), new)
            elif tool.effect is Effect.PAID and not tool.machine and name not in self.free:
                reason = "" if "properties" in tool.parameters else _UNKNOWN.format(name)
                says = "a new tool, whose calls ask nobody"
                yield self._say("loosened", name, says, reason=reason)

    def _calls(self, tool: ToolSpec, old: Asks, new: Asks) -> Iterator[Consent]:
        """The calls that asked before and do not now, and the other way round."""
        one, other = fixed(old, self.a), fixed(new, self.b)
        nodes = [node for guard in (one, other) for node in walk(guard.root)]
        read = {
            node.step.name: _SCHEMAS.get(node.type.kind, {}) for node in nodes
            if isinstance(node, Field) and node.base.text == "call.arguments"
        }  # fmt: skip
        unknown = ""
        if "properties" not in tool.parameters:
            unknown = _UNKNOWN.format(tool.name)
            schema = {"type": "object", "properties": read, "required": [*read]}
            tool = replace(tool, parameters=schema, parse=json.loads)
        unread = any(isinstance(node, Opaque) and node.name == "when" for node in nodes)
        grown = None if unread else Shift({}, {}).of(one.root, other.root)
        found: list[Consent] = []
        for kind, asked, asks, sign, verb, every in (
            ("loosened", one, other, 1, "no longer asks", "no call asks any more"),
            ("tightened", other, one, -1, "asks now", "every call asks now"),
        ):
            answer = still_holds(asked, asks, tool)
            holds = None if unread and self.a.define != self.b.define else answer.holds
            if holds is None and grown is not None:  # no arguments show it, but how the text grew
                holds = grown * sign >= 0
            if holds or (holds is None and found):
                continue
            calls = _between(asked, asks)
            says = f"{calls} {verb}" if calls else every
            whole = any(isinstance(guard.root, Const) for guard in (asked, asks))
            if holds is None and not whole:  # where the second is open no fewer calls ask
                kind, verb = ("loosened", "still ask") if sign > 0 else ("changed", "ask now")
                says = f"whether calls with {calls} {verb} is not known"
            given = {name: v for name, v in (answer.arguments or {}).items() if name in read}
            reason = (calls and unknown) or ("" if holds is False else answer.reason)
            said = cast("Kind", kind)
            found.append(self._say(said, tool.name, says, arguments=given, reason=reason))
        if not found and plain(one.text) != plain(other.text):
            found.append(self._say("changed", tool.name, "written differently, the same calls ask"))
        yield from found

    def _keys(self) -> Iterator[Consent]:
        """What an answer may do, who gives it, and until when."""
        old, new = self.a.approve, self.b.approve
        if old is None or new is None or not (both := [t for t in new.tools if t in old.tools]):
            return
        tools, names = ", ".join(both), states_of(self.a, self.b)
        for key, (kind, added, gone) in _KEYS.items():
            was, now = getattr(old, key), getattr(new, key)
            if names.get(was, was) == now:
                continue
            reason = "whether that is stricter is not known" if was and now else ""
            loose = reason or (kind == "loosened") is bool(now)
            says = (added if now else gone).format(quote(str(now or was)))
            yield self._say("loosened" if loose else "tightened", tools, says, key, reason=reason)
        was, now = _seconds(old, self.a), _seconds(new, self.b)
        if was != now:
            reason = "which is longer is not known"
            loose = True
            if isinstance(was, float) and isinstance(now, float):
                loose, reason = (now > was) is not bool(new.expired), ""
            shown = (t if isinstance(t, str) else say_elapsed(t) for t in (now, was))
            says = f"an answer may take {' instead of '.join(shown)}"
            kind = "loosened" if loose else "tightened"
            yield self._say(kind, tools, says, "within", reason=reason)
        for fact in sorted(_read(old) & _read(new)):  # others may have any value in the proof
            if sources(self.before, fact, names) != sources(self.after, fact, {}):
                says = f"`{fact}`, which `when` reads, is set in other ways"
                reason = "its value at the gate is not known"
                yield self._say("loosened", tools, says, reason=reason)
            if (may := caller_sets(self.after, fact)) is not caller_sets(self.before, fact):
                verb = "may now" if may else "can no longer"
                says = f"a caller {verb} set `{fact}`, which `when` reads"
                yield self._say("loosened" if may else "tightened", tools, says)


def _ways_around(spec: MachineSpec) -> Iterator[tuple[str, str]]:
    """What passes by the gate or by its rules, and how."""
    made = (*spec.approve.made, *spec.approve.states) if spec.approve is not None else ()
    for name, state in spec.states.items():
        if state.traits.asks != "never" and provider_acts(spec, state):
            yield "model", "its provider may execute tools itself, which no gate sees"
        if state.action is spec.registry.actions[ACTION] and name not in made:
            yield name, "asks at a wait of the file, where `by` and `not_by` do not hold"


def _doubts(spec: MachineSpec) -> Mapping[str, InDoubt]:
    """The treatment of a call in doubt of each tool: where states differ, the loosest."""
    found: dict[str, InDoubt] = {}
    for state in spec.states.values():
        for name in carried_out(spec, state):
            if state.action is not None and (tool := spec.registry.tools.get(name)) is not None:
                word = policy(spec, state, state.action, tool)
                found[name] = max(word, found.get(name, word), key=_DOUBT.__getitem__)
    return found


def _read(gate: Approve) -> frozenset[str]:
    """The facts that its condition reads."""
    return frozenset() if gate.when is None else gate.when.reads


def _seconds(gate: Approve, spec: MachineSpec) -> float | str:
    """How long an answer may take; a text if a run computes it."""
    if not isinstance(gate.within, Expression):
        return inf if gate.within is None else float(gate.within)
    root = fixed(gate.within, spec).root
    known = inf if isinstance(root, Const) and root.value is None else number_of(root, {})
    return plain(gate.within.text) if known is None else float(known)


def fixed(asks: Asks, spec: MachineSpec) -> Expression:
    """A condition with the values of the file's limits."""

    def limit(node: Node) -> str:
        name = node.path[7:] if isinstance(node, Fact) and node.is_limit else ""
        return name if name in spec.limits else ""

    def is_off(node: Node) -> bool:
        return bool(limit(node)) and spec.limits[limit(node)].value is None

    def replaced(node: Any) -> Any:
        if isinstance(node, Fact) and limit(node):
            return Const(node.type, node.text, spec.limits[limit(node)].value)
        if isinstance(node, Compare):  # with a limit that is off it is decided
            (link, *more), sides = node.links, (node.first, *(one.right for one in node.links))
            if link.op in ("is", "is not") and limit(node.first):
                return Const(BOOL, node.text, is_off(node.first) == (link.op == "is"))
            for two, one in zip(pairwise(sides), node.links, strict=True):
                if any(map(is_off, two)) and (one.absent is False or not more):
                    return Const(BOOL, node.text, one.absent)
        parts: Any = node
        return (
            getattr(parts, "_make", tuple)(map(replaced, parts))
            if isinstance(node, tuple)
            else node
        )

    if isinstance(asks, Expression):
        return replace(asks, root=replaced(asks.root))
    return Expression(str(asks), BOOL, Const(BOOL, str(asks), asks))


_SHOWN = {"<": "<", ">": ">", "<=": "≤", ">=": "≥"}


def _between(asked: Expression, asks: Expression) -> str:
    """The calls for which one condition holds and another does not, in the words of the file.

    Empty for all calls.
    """
    texts: list[str] = []
    bounds: dict[str, tuple[str, str, str]] = {}
    for guard, holds in ((asked, True), (asks, False)):
        text = guard.text.replace("call.arguments.", "")
        text = f"not ({text})" if not holds else f"({text})" if " or " in text else text
        match guard.root:
            case Const():
                continue
            case Compare(first=left, links=(Link(op=op, right=right),)) if op in ORDER:
                if number_of(left, {}) is not None:
                    left, op, right = right, MIRROR[op], left
                op = op if holds else INVERSE[op]
                if (value := number_of(right, {})) is not None:
                    term, end = left.text.removeprefix("call.arguments."), f"{value:.15g}"
                    bounds[op[0]] = term, op, end
                    text = f"{term} {_SHOWN[op]} {end}"
            case _:
                pass
        texts.append(text)
    if len(bounds) == 2:
        (term, least, low), (other, most, high) = bounds[">"], bounds["<"]
        if term == other:
            between = f"{low} {_SHOWN[MIRROR[least]]} {term} {_SHOWN[most]} {high}"
            return f"{term} = {low}" if low == high else between
    return " and ".join(texts)
