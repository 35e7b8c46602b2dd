"""Which values a machine asks for: read from its guards, its parsers and its schemas.

A guard `usage.total_tokens >= limits.tokens` asks for a reply of so many tokens,
`"[FINALIZE]" in vars.plan` for that word. Nothing here says that a value is enough: it is tried.

Belongs here: values, by what they are values of. Never: a run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

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
"""Values of one kind that are tried."""
TIMES = frozenset({"run.elapsed", "run.working", "run.idle", "progress.stalled_for"})
TOKENS = frozenset({
    "usage.total_tokens", "usage.prompt_tokens", "usage.completion_tokens", "usage.context_tokens",
})  # fmt: skip
RATIO, COST, FINISH = "usage.context_ratio", "usage.cost", "last.finish_reason"
_NO_WORDS = frozenset(str(category) for category in Category)


def expressions(spec: MachineSpec) -> Iterator[Expression]:
    """Everything by which a machine decides: guards, `of`, `within`."""
    yield from (rule.when for rule in spec.rules)
    yield from (edge.when for edge in spec.edges() if edge.when is not None)
    for state in spec.states.values():
        for given in (state.of, state.within):
            if isinstance(given, Expression):
                yield given


@dataclass(frozen=True)
class Hints:
    """What a machine and its children ask for; each list is short and in the order of the file."""

    words: Mapping[str, tuple[str, ...]]
    """Texts by the dotted fact that is compared with them."""
    numbers: Mapping[str, tuple[float, ...]]
    """Numbers likewise; durations in seconds."""
    parts: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    """Numbers with which a fact is added, multiplied or divided, and one below 0."""
    tokens: tuple[int, ...] = ()
    """Sizes of a reply."""
    costs: tuple[float, ...] = ()
    """USD."""
    delays: tuple[float, ...] = ()
    """Seconds that a reply may take."""
    finishes: tuple[str, ...] = ()
    """Finish reasons."""
    near: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By state the texts that are asked for on the way to the next action."""

    def all_words(self) -> tuple[str, ...]:
        """Every text that something is compared with."""
        return _few(word for found in self.words.values() for word in found)


def hints_of(spec: MachineSpec, facts: Facts) -> Hints:
    """What a machine asks for whose run starts with these facts, with its limits."""
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
    return Hints(
        {name: _few(found) for name, found in words.items()},
        {name: _few(sorted(set(found))) for name, found in numbers.items()},
        {name: _few((-1, *found)) for name, found in parts.items()},
        _sizes(numbers, window), _few(_of(numbers, {COST})),
        _few(sorted({t for t in (*_of(numbers, TIMES), *within) if 0 < t < math.inf})),
        _few(words.get(FINISH, ())), near,
    )  # fmt: skip


def _near(spec: MachineSpec, facts: Facts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts that each acting state's own way on asks for, to the next state that rests."""
    for state in spec.states.values():
        if state.action is None:
            continue
        words: dict[str, list[str]] = {}
        seen, pending = {state.name}, [state]
        while pending:
            at = pending.pop()
            for edge in at.edges:
                for node in walk(edge.when.root) if edge.when is not None else ():
                    _collect_compared(node, facts, words, {})
                then = spec.states.get(edge.target)
                if then is not None and not then.rests and then.name not in seen:
                    seen.add(then.name)
                    pending.append(then)
        yield state.name, _few(word for found in words.values() for word in found)


def _few(found: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(found))[:MOST]


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
    """Collect the constants that arithmetic has next to a fact."""
    if isinstance(node, Arith):
        values = [n.value for n in walk(node) if isinstance(n, Const)]
        for path in facts_of(node):
            parts.setdefault(path, []).extend(
                v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)
            )


def _measured_fact(node: Node) -> Iterator[str]:
    """The one fact on a side that a run changes. Of several it is unclear which a value is for."""
    found = [path for path, fact in facts_of(node).items() if not fact.is_limit]
    if len(found) == 1:
        yield found[0]


def _values(node: Node, facts: Facts) -> Iterator[Any]:
    """The values of a side that only a person moves, of a list its elements."""
    if isinstance(node, Each) or any(not fact.is_limit for fact in facts_of(node).values()):
        yield from (n.value for n in walk(node) if isinstance(n, Const))
        return
    try:
        value = Expression(node.text, node.type, node).value(facts, no_oracle)
    except Exception:  # noqa: BLE001  what cannot be evaluated suggests nothing
        yield from _lists(node, facts)
        return
    if isinstance(value, (list, tuple)):
        yield from cast("list[Any]", value)
    else:
        yield value


def _lists(node: Node, facts: Facts) -> Iterator[Any]:
    """A loop's variable stands for the elements of any list of limits."""
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
    """How long actions may take."""
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


def _sizes(numbers: Mapping[str, list[float]], window: int) -> tuple[int, ...]:
    """Tokens of a reply that reach a limit on tokens, or a share of the window."""
    found = {math.ceil(n) for n in _of(numbers, TOKENS)}
    found |= {math.ceil(n * window) for n in _of(numbers, {RATIO}) if window}
    return tuple(sorted(found))[:MOST]
