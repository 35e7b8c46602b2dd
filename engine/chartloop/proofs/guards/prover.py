"""One question: can these guards hold, and those not hold, at the same moment?

First the literals are held against each other, which is always done and takes microseconds. Where
they are not refuted, values are looked for that show it, and the real guards are tried with them.
What neither settles goes to a solver, if there is one; and if that does not know either, the
answer is that no one knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import ceil, floor, inf, isfinite, prod
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

from chartloop.language.expression.compile import function
from chartloop.language.expression.runtime import GUARD_ERRORS, Function, no_oracle
from chartloop.language.expression.tree import Fact, Node, facts_of, walk
from chartloop.proofs.guards.decide import PER_QUESTION, ZERO, Store, TooMuch, Work, find_unrefuted
from chartloop.proofs.guards.domains import World
from chartloop.proofs.guards.formula import Formula, Term, Terms, Truth, join

TRIES = 60
"""How many sets of values are tried to show that a guard can hold."""
ALL = 20_000_000
"""The work of one machine, in the units of `solve.Work`: some seconds. What is left then is
unsettled."""
_SURE = ("Call len", "count ")


class Claim(NamedTuple):
    """A guard, and whether it is to hold."""

    node: Node
    holds: bool = True


class Answer(NamedTuple):
    """What came of a question."""

    possible: bool | None
    """None if unknown."""
    values: Mapping[str, Any] = {}
    """Facts with which the claims were seen to hold; empty when none were looked for or found."""


class Solver(Protocol):
    """Someone who can be asked what intervals do not settle."""

    def possible(self, claims: Sequence[Claim], world: World) -> bool | None:
        """Whether the claims can hold together; None when it is not known in time."""
        ...


class Prover:
    """Asks, and keeps count of what could not be settled."""

    def __init__(self, world: World, solver: Solver | None = None, *, work: int = ALL) -> None:
        self.world = world
        self.solver = solver
        self.unsettled: dict[str, None] = {}
        """The places of guards about which no one knows, each once and in order."""
        self._answers: dict[tuple[Any, ...], tuple[Answer, Any]] = {}
        self._read: dict[tuple[int, int, bool], tuple[Formula, Mapping[str, Term], Any]] = {}
        self._left = work

    def ask(
        self, claims: Iterable[Claim], *, at: str = "", world: World | None = None,
        values: bool = False,
    ) -> Answer:  # fmt: skip
        """Whether the claims can all hold. `values`: look for facts that show it, too."""
        asked, where = tuple(claims), world or self.world
        # a tree is known by what it is, which takes long to compare; kept, it stays the only one
        known = (*((id(c.node), c.holds) for c in asked), id(where), values)
        if known not in self._answers:
            self._answers[known] = self._answer(asked, where, values), (asked, where)
        answer, _ = self._answers[known]
        if answer.possible is None and at:
            self.unsettled[at] = None
        return answer

    def refutes(self, claims: Iterable[Claim]) -> bool:
        """Whether intervals show that the claims cannot all hold; no values are looked for.

        False where they do not show it, and where the work of the machine is used up.
        """
        asked = tuple(claims)
        known = (*((id(c.node), c.holds) for c in asked), "refuted")
        if known not in self._answers:
            try:
                answer = Answer(None if self._literals(asked, self.world) else False)
            except (TooMuch, RecursionError):
                answer = Answer(None)
            self._answers[known] = answer, asked
        return self._answers[known][0].possible is False

    @property
    def is_exhausted(self) -> bool:
        """Whether the machine's work is used up: later questions stay open."""
        return self._left <= 0

    def _answer(self, claims: tuple[Claim, ...], world: World, values: bool) -> Answer:
        try:
            store = self._literals(claims, world)
        except (TooMuch, RecursionError):
            return Answer(self.solver.possible(claims, world) if self.solver else None)
        if store is None:
            return Answer(False)
        sure = _independent(store)
        if not sure or values:
            shown = _values(claims, store, world)
            if shown is not None:
                return Answer(True, shown)
        if sure:
            return Answer(True)
        return Answer(self.solver.possible(claims, world) if self.solver else None)

    def _literals(self, claims: tuple[Claim, ...], world: World) -> Store | None:
        """What the claims come to, where that is not refuted. `TooMuch` when it takes too long."""
        work = Work(min(PER_QUESTION, self._left))
        if self._left <= 0:
            raise TooMuch
        try:
            found = [self._formula(claim, world) for claim in claims]
            terms = {name: term for _, known in found for name, term in known.items()}
            formulas = [formula for formula, _ in found]
            return find_unrefuted([*formulas, *_axioms(terms)], terms, work)
        finally:
            self._left -= min(PER_QUESTION, self._left) - max(work.left, 0)

    def _formula(self, claim: Claim, world: World) -> tuple[Formula, Mapping[str, Term]]:
        """A claim as a formula, and its terms: the same claim is in many questions."""
        key = (id(world), id(claim.node), claim.holds)
        if key not in self._read:
            terms = Terms(world)
            formula = terms.formula(claim.node, holds=claim.holds)
            self._read[key] = formula, terms.known, (claim, world)
        return self._read[key][:2]


def _axioms(known: Mapping[str, Term]) -> list[Formula]:
    """What always holds between facts that are in the question."""
    out = list[Formula]()
    if {"last.ok", "last.error is None"} <= known.keys():
        out.append(join(False, [Truth("last.ok", True), Truth("last.error is None", False)]))
    return out


def _independent(store: Store) -> bool:
    """Whether the literals of the store say nothing about each other but what was compared."""
    used = {name for pair in store.differences for name in pair} - {ZERO}
    used |= {*store.truths, *store.words}
    if store.sums:
        return False
    seen: set[str] = set()
    for name in used:
        term = store.terms[name]
        sure = term.plain or name in store.truths or name.startswith(_SURE)
        if not sure or (not term.plain and not term.facts):
            return False
        mine = term.facts or frozenset({name})
        if not term.plain and mine & seen:
            return False
        seen |= mine
    return True


# values that show it ------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _compile_node(node: Node) -> Function:
    return function(node)


def _values(claims: Sequence[Claim], store: Store, world: World) -> Mapping[str, Any] | None:
    """Facts with which every claim is seen to hold, or None."""
    facts = {path: f for c in claims for path, f in facts_of(c.node).items()}
    texts = [v for c in claims for n in walk(c.node) if isinstance(v := _literal(n), str)]
    choices: list[list[Any]] = []
    for path, fact in facts.items():
        fixed = world.value(fact)
        if fixed is not None:
            choices.append([fixed])
            continue
        found = list(dict.fromkeys(_candidates(path, fact, store, texts)))
        if not found:
            return None
        choices.append(found)
    try:
        held = [(_compile_node(c.node), c.holds) for c in claims]
    except (RecursionError, AssertionError):
        return None
    shown = _Facts(facts)
    for values in _sample_choices(choices):
        shown.set(values)
        try:
            if all(bool(fn(shown.root, no_oracle)) == holds for fn, holds in held):
                named = zip(facts.items(), values, strict=True)
                return {path: value for (path, fact), value in named if not fact.is_limit}
        except GUARD_ERRORS:
            continue
    return None


def _sample_choices(choices: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Combinations of values: all, or the first and a random sample with a fixed seed."""
    if prod(map(len, choices)) <= TRIES:
        yield from product(*choices)
        return
    yield tuple(found[0] for found in choices)
    chance = Random(len(choices))  # noqa: S311 - nothing secret hangs on it
    for _ in range(TRIES):
        yield tuple(chance.choice(found) for found in choices)


def _literal(node: Node) -> object:
    return getattr(node, "value", None)


def _candidates(path: str, fact: Fact, store: Store, texts: Sequence[str]) -> Iterator[Any]:
    """Values that a fact might have, the likely ones first."""
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
            return


def _numbers(low: float, high: float, fact: Fact) -> Iterator[float]:
    if fact.type.nonneg:
        low = max(low, 0)
    whole = fact.type.kind == "int"
    ends = [low, low + 1, high, high - 1, (low + high) / 2, 0, 1, low + 2, low * 2, 10, 1000]
    for value in ends:
        if isfinite(value) and low <= value <= high:
            made = ceil(value) if whole else value
            yield made if made <= high else floor(high)
    if low == -inf:
        yield -1 if high >= -1 else floor(high)


class _Facts:
    """Facts as guards read them, attributes and items of what is a mapping: put together once."""

    def __init__(self, facts: Mapping[str, Fact]) -> None:
        self.root: Any = SimpleNamespace()
        self._last: list[tuple[dict[str, Any], str]] = []
        """For each fact where it is."""
        for fact in facts.values():
            here: dict[str, Any] = self.root.__dict__
            for step, after in pairwise(fact.steps):
                section: Any = here.setdefault(step.name, _section(after.keyed))
                here = section if after.keyed else section.__dict__
            self._last.append((here, fact.steps[-1].name))

    def set(self, values: Iterable[Any]) -> None:
        """Give each fact another value."""
        for (section, name), value in zip(self._last, values, strict=True):
            section[name] = value


def _section(keyed: bool) -> Any:
    return dict[str, Any]() if keyed else SimpleNamespace()
