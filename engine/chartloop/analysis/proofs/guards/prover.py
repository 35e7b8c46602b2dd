"""One question: can these guards hold, and those not hold, at the same moment?

First the literals are compared with each other, which takes microseconds. If that does not refute
them, a search for facts with which the real guards hold follows. What neither settles is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor, inf, isfinite
from types import SimpleNamespace
from typing import Any, NamedTuple

from chartloop.analysis.proofs.guards.boundaries import combinations
from chartloop.analysis.proofs.guards.decide import (
    PER_QUESTION,
    ZERO,
    Store,
    TooMuch,
    Work,
    find_unrefuted,
)
from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.formula import Formula, Term, Terms, Truth, join
from chartloop.language.expression.compile import function
from chartloop.language.expression.runtime import GUARD_ERRORS, Function, no_oracle
from chartloop.language.expression.tree import Fact, Node, facts_of, walk

TRIES = 60
"""The most sets of values that are tried to show that a guard can hold."""
ALL = 20_000_000
"""The work for one machine, in units of `decide.Work`: some seconds. Later questions stay open."""
_SURE = ("Call len", "count ")


class Claim(NamedTuple):
    """A guard, and whether it has to hold."""

    node: Node
    holds: bool = True


class Answer(NamedTuple):
    """The answer to a question."""

    possible: bool | None
    """None if unknown."""
    values: Mapping[str, Any] = {}
    """Facts with which the claims hold; empty if there was no search or no result."""


class Prover:
    """Answers questions about the guards of one machine, and records those that stay open."""

    def __init__(self, world: World, *, work: int = ALL) -> None:
        self.world = world
        self.unsettled: dict[str, None] = {}
        """The places of guards with an unknown answer, each once and in order."""
        self._answers: dict[tuple[Any, ...], tuple[Answer, Any]] = {}
        self._read: dict[tuple[int, int, bool], tuple[Formula, Mapping[str, Term], Any]] = {}
        self._left = work

    def ask(
        self, claims: Iterable[Claim], *, at: str = "", world: World | None = None,
        values: bool = False,
    ) -> Answer:  # fmt: skip
        """Whether the claims can all hold. `values`: also search for facts that show it."""
        question, where = tuple(claims), world or self.world
        # ids, since trees are slow to hash; the entry holds the trees, so that no id is used twice
        key = (*((id(c.node), c.holds) for c in question), id(where), values)
        if key not in self._answers:
            self._answers[key] = self._answer(question, where, values), (question, where)
        answer, _ = self._answers[key]
        if answer.possible is None and at:
            self.unsettled[at] = None
        return answer

    def _answer(self, claims: tuple[Claim, ...], world: World, values: bool) -> Answer:
        try:
            store = self._literals(claims, world)
        except (TooMuch, RecursionError):
            return Answer(None)
        if store is None:
            return Answer(False)
        sure = _independent(store)
        if not sure or values:
            facts = _values(claims, store, world)
            if facts is not None:
                return Answer(True, facts)
        return Answer(True if sure else None)

    def _literals(self, claims: tuple[Claim, ...], world: World) -> Store | None:
        """The literals of the claims; None if refuted. Raises `TooMuch` if it takes too long."""
        work = Work(min(PER_QUESTION, self._left))
        if self._left <= 0:
            raise TooMuch
        try:
            pairs = [self._formula(claim, world) for claim in claims]
            terms = {name: term for _, known in pairs for name, term in known.items()}
            formulas = [formula for formula, _ in pairs]
            if {"last.ok", "last.error is None"} <= terms.keys():  # one of the two always holds
                either = [Truth("last.ok", True), Truth("last.error is None", False)]
                formulas.append(join(False, either))
            return find_unrefuted(formulas, terms, work)
        finally:
            self._left -= min(PER_QUESTION, self._left) - max(work.left, 0)

    def _formula(self, claim: Claim, world: World) -> tuple[Formula, Mapping[str, Term]]:
        """The formula of a claim and its terms, cached: many questions share a claim."""
        key = (id(world), id(claim.node), claim.holds)
        if key not in self._read:
            terms = Terms(world)
            formula = terms.formula(claim.node, holds=claim.holds)
            self._read[key] = formula, terms.known, (claim, world)
        return self._read[key][:2]


def _independent(store: Store) -> bool:
    """Whether the terms of the store are independent of each other, apart from the differences."""
    used = {name for pair in store.differences for name in pair} - {ZERO}
    if store.sums:
        return False
    seen: set[str] = set()
    for name in used | {*store.truths, *store.words}:
        term = store.terms[name]
        sure = term.plain or name in store.truths or name.startswith(_SURE)
        mine = term.facts or frozenset({name})
        if not sure or not (term.plain or (term.facts and not mine & seen)):
            return False
        seen |= mine
    return True


# witnesses ----------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _compile_node(node: Node) -> Function:
    return function(node)


def _values(claims: Sequence[Claim], store: Store, world: World) -> Mapping[str, Any] | None:
    """Search for facts with which every claim holds; None if the search fails."""
    facts = {path: f for c in claims for path, f in facts_of(c.node).items()}
    literals = (getattr(node, "value", None) for c in claims for node in walk(c.node))
    texts = [text for text in literals if isinstance(text, str)]
    choices: list[list[Any]] = []
    for path, fact in facts.items():
        fixed = world.value(fact)
        found = _candidates(path, fact, store, texts)
        choices.append([*dict.fromkeys(found)] if fixed is None else [fixed])
    if not all(choices):
        return None
    try:
        guards = [(_compile_node(c.node), c.holds) for c in claims]
    except (RecursionError, AssertionError):
        return None
    for values in combinations(choices, TRIES):
        named = [*zip(facts.values(), values, strict=True)]
        root = _in_shape(named)
        with suppress(*GUARD_ERRORS):
            if all(bool(fn(root, no_oracle)) == holds for fn, holds in guards):
                return {fact.path: value for fact, value in named if not fact.is_limit}
    return None


def _candidates(path: str, fact: Fact, store: Store, texts: Sequence[str]) -> Iterator[Any]:
    """Yield values that a fact might have, likely ones first."""
    absent = store.truths.get(f"{path} is None")
    if absent is True or (absent is None and fact.type.nullable and not fact.is_limit):
        yield None
        if absent is True:
            return
    match fact.type.kind:
        case "bool":
            truth = store.truths.get(path)
            yield from (True, False) if truth is None else (truth,)
        case "str" | "enum":
            only, never = store.words.get(path, (None, frozenset[str]()))
            words = only if only is not None else {*fact.type.values} or {*texts, "", "x"}
            yield from sorted(words - never)
        case "int" | "float" | "fraction" | "duration":
            yield from _numbers(*store.range(path), fact)
        case _:
            pass


def _numbers(low: float, high: float, fact: Fact) -> Iterator[float]:
    if fact.type.nonneg:
        low = max(low, 0)
    whole = fact.type.kind == "int"
    ends = [low, low + 1, high, high - 1, (low + high) / 2, 0, 1, low + 2, low * 2, 10, 1000]
    for value in ends:
        if isfinite(value) and low <= value <= high:
            rounded = ceil(value) if whole else value
            yield rounded if rounded <= high else floor(high)
    if low == -inf:
        yield -1 if high >= -1 else floor(high)


def _in_shape(values: Iterable[tuple[Fact, Any]]) -> Any:
    """Facts in the shape that guards read."""
    root: Any = SimpleNamespace()
    for fact, value in values:
        here: dict[str, Any] = root.__dict__
        for step, after in pairwise(fact.steps):
            made = dict[str, Any]() if after.keyed else SimpleNamespace()
            section: Any = here.setdefault(step.name, made)
            here = section if after.keyed else section.__dict__
        here[fact.steps[-1].name] = value
    return root
