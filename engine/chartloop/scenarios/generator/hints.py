"""Candidate values for the search, read from the guards, parsers and schemas of a machine.

A guard `usage.total_tokens >= limits.tokens` suggests a reply of that many tokens,
`"[FINALIZE]" in vars.plan` that word. Whether a value suffices is found out by trying it.

Belongs here: values, by the facts that they are for. Never: a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from chartloop.core.digraph import reachable
from chartloop.core.errors import Category
from chartloop.core.facts import Facts
from chartloop.language.expression import Expression
from chartloop.language.expression.runtime import no_oracle
from chartloop.language.expression.tree import (
    Arith,
    Compare,
    Const,
    Each,
    Node,
    facts_of,
    walk,
)
from chartloop.language.spec import MachineSpec

MOST = 6
"""How many values of one kind are tried."""
TIMES = frozenset({"run.elapsed", "run.working", "run.idle", "progress.stalled_for"})
TOKENS = frozenset({
    "usage.total_tokens", "usage.prompt_tokens", "usage.completion_tokens", "usage.context_tokens",
})  # fmt: skip
RATIO, COST, FINISH = "usage.context_ratio", "usage.cost", "last.finish_reason"
_NO_WORDS = frozenset(str(category) for category in Category)


def expressions(spec: MachineSpec) -> Iterator[Expression]:
    """The expressions that decide a run: guards, `of`, `within`, `when` of `approve`."""
    yield from spec.guards()
    if spec.approve is not None and spec.approve.when is not None:
        yield spec.approve.when
    for state in spec.states.values():
        for part in (state.of, state.within):
            if isinstance(part, Expression):
                yield part


@dataclass(frozen=True)
class Hints:
    """The candidate values of a machine and its children: short lists in the order of the file."""

    words: Mapping[str, tuple[str, ...]]
    """Texts, by the fact that is compared with them."""
    numbers: Mapping[str, tuple[float, ...]]
    """Numbers, by the fact that is compared with them; durations in seconds."""
    parts: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """The constants in arithmetic with a fact, by that fact, and -1."""
    tokens: tuple[int, ...] = ()
    """Sizes of a reply in tokens."""
    costs: tuple[float, ...] = ()
    """USD."""
    delays: tuple[float, ...] = ()
    """Durations of a reply in seconds."""
    finishes: tuple[str, ...] = ()
    """Finish reasons."""
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By acting state, the texts that guards before the next rest compare with."""

    def all_words(self) -> tuple[str, ...]:
        """The texts of all facts."""
        return _few(word for words in self.words.values() for word in words)


def hints_of(spec: MachineSpec, facts: Facts) -> Hints:
    """Collect the candidate values of a machine whose run starts with these facts."""
    words: dict[str, list[str]] = {}
    numbers: dict[str, list[float]] = {}
    within: list[float] = []
    parts: dict[str, list[float]] = {}
    for part in spec.family():
        own = facts if part is spec else _first_facts(part, facts)
        for expression in expressions(part):
            for node in walk(expression.root):
                _collect_compared(node, own, words, numbers)
                _collect_operands(node, parts)
        _cases(part, words)
        _waits(part, own, within)
    near = {n: w for part in spec.family() for n, w in _near(part, facts)}
    window = facts.usage.context_window or int(spec.model.get("context_window") or 0)
    sizes = {math.ceil(n) for n in _of(numbers, TOKENS)}
    sizes |= {math.ceil(n * window) for n in _of(numbers, {RATIO}) if window}
    return Hints(
        {name: _few(values) for name, values in words.items()},
        {name: _few(sorted(set(values))) for name, values in numbers.items()},
        {name: _few((-1, *values)) for name, values in parts.items()},
        tuple(sorted(sizes))[:MOST], _few(_of(numbers, {COST})),
        _few(sorted({t for t in (*_of(numbers, TIMES), *within) if 0 < t < math.inf})),
        _few(words.get(FINISH, ())), near,
    )  # fmt: skip


def _near(spec: MachineSpec, facts: Facts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For each acting state, the texts that guards compare with before the next resting state."""

    def onward(name: str) -> Iterator[str]:
        targets = (e.target for e in spec.states[name].edges if e.target in spec.states)
        yield from (target for target in targets if not spec.states[target].rests)

    for state in spec.states.values():
        if state.action is None:
            continue
        words: dict[str, list[str]] = {}
        for name in reachable([state.name], onward):
            for edge in spec.states[name].edges:
                for node in walk(edge.when.root) if edge.when is not None else ():
                    _collect_compared(node, facts, words, {})
        yield state.name, _few(word for texts in words.values() for word in texts)


def _few(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))[:MOST]


def _first_facts(spec: MachineSpec, facts: Facts) -> Facts:
    return facts.replace(
        limits={n: x.value for n, x in spec.limits.items()},
        vars={n: v.value for n, v in spec.vars.items()},
    )


def _collect_compared(
    node: Node, facts: Facts, words: dict[str, list[str]], numbers: dict[str, list[float]]
) -> None:
    """Collect the values that the facts of a comparison are compared with."""
    if not isinstance(node, Compare):
        return
    left = node.first
    for link in node.links:
        for side, other in ((left, link.right), (link.right, left)):
            for path in _measured_fact(side):
                for value in _values(other, facts):
                    if isinstance(value, str) and value not in _NO_WORDS:
                        words.setdefault(path, []).append(value)
                    elif isinstance(value, (int, float)) and not isinstance(value, bool):
                        numbers.setdefault(path, []).append(value)
        left = link.right


def _collect_operands(node: Node, parts: dict[str, list[float]]) -> None:
    """Collect the constants in arithmetic with a fact."""
    if isinstance(node, Arith):
        values = [n.value for n in walk(node) if isinstance(n, Const)]
        for path in facts_of(node):
            parts.setdefault(path, []).extend(
                v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)
            )


def _measured_fact(node: Node) -> Iterator[str]:
    """The fact on a side that a run changes, if there is exactly one."""
    paths = [path for path, fact in facts_of(node).items() if not fact.is_limit]
    if len(paths) == 1:
        yield paths[0]


def _values(node: Node, facts: Facts) -> Iterator[Any]:
    """The value of a constant side, a list by its elements; else the constants in it."""
    if isinstance(node, Each) or any(not fact.is_limit for fact in facts_of(node).values()):
        yield from (n.value for n in walk(node) if isinstance(n, Const))
        return
    try:
        value = Expression(node.text, node.type, node).value(facts, no_oracle)
    except Exception:  # noqa: BLE001  a hint is optional, whatever fails
        yield from _lists(node, facts)
        return
    if isinstance(value, (list, tuple)):
        yield from cast("list[Any]", value)
    else:
        yield value


def _lists(node: Node, facts: Facts) -> Iterator[Any]:
    """The elements of all lists among the limits, for which a loop's variable may stand."""
    del node
    for value in facts.limits.values():
        if isinstance(value, (list, tuple)):
            yield from cast("list[Any]", value)


def _cases(spec: MachineSpec, words: dict[str, list[str]]) -> None:
    for state in spec.states.values():
        if isinstance(state.of, Expression):
            for path in state.of.reads:
                cases = (edge.case for edge in state.edges_of("case"))
                words.setdefault(path, []).extend(c for c in cases if c not in _NO_WORDS)


def _waits(spec: MachineSpec, facts: Facts, into: list[float]) -> None:
    """Collect the timeouts of states."""
    for state in spec.states.values():
        within = state.within
        if isinstance(within, Expression):
            try:
                within = within.value(facts)
            except Exception:  # noqa: BLE001, S112  known only when the state is entered
                continue
        if isinstance(within, (int, float)):
            into.append(float(within))


def _of(numbers: Mapping[str, list[float]], names: Iterable[str]) -> Iterator[float]:
    for name in names:
        yield from (n for n in numbers.get(name, ()) if n > 0)
