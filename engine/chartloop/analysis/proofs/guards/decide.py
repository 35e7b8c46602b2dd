"""Whether literals can hold together: intervals, differences and words, with a bound on the work.

Numbers are kept as differences between two terms, ``x - y <= c``. They contradict each other if
there is a negative cycle of differences (Bellman-Ford). A sum of more terms is a term of its own
whose range is that of its parts. Literals that are refuted here cannot hold; literals that are not
may still contradict each other, where terms were computed from the same facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil, floor, inf

from chartloop.analysis.proofs.guards.domains import AT_MOST
from chartloop.analysis.proofs.guards.formula import Formula, Join, Sum, Term, Truth, Word

PER_QUESTION = 300_000
"""The work for one question, in differences examined: some tenths of a second."""
ZERO = ""
"""The term that is always 0: ``x - 0 <= c`` is a bound of x."""

Bound = tuple[float | Fraction, int]
"""An upper bound on a difference; the second part is -1 if it is strict, else 0."""
NONE: Bound = (inf, 0)


class TooMuch(Exception):
    """The question takes more work than is left."""


class Work:
    """The work left, in differences examined: the same on every computer."""

    def __init__(self, most: int) -> None:
        self.left = most

    def spend(self, count: int) -> None:
        """Count work. Raises `TooMuch` once none is left."""
        self.left -= count
        if self.left < 0:
            raise TooMuch


class Store:
    """The literals assumed so far, and what follows for each term."""

    __slots__ = ("_settled", "differences", "sums", "terms", "truths", "words", "work")

    def __init__(self, terms: Mapping[str, Term], work: Work, above: Store | None = None) -> None:
        self.terms = terms
        self.work = work
        self._settled = True
        self.differences: dict[tuple[str, str], Bound] = dict(above.differences) if above else {}
        self.sums: dict[str, tuple[tuple[str, int], ...]] = dict(above.sums) if above else {}
        self.truths: dict[str, bool] = dict(above.truths) if above else {}
        self.words: dict[str, tuple[frozenset[str] | None, frozenset[str]]] = (
            dict(above.words) if above else {}
        )

    def take(self, literal: Sum | Word | Truth) -> bool:
        """Assume one more literal. False if it contradicts the earlier ones.

        Numbers are checked by `consistent`, all at once.
        """
        match literal:
            case Truth(term=term, holds=holds):
                return self.truths.setdefault(term, holds) == holds
            case Word():
                return self._word(literal)
            case Sum():
                self._sum(literal)
                return True

    def _word(self, literal: Word) -> bool:
        term, word, same = literal
        only, never = self.words.get(term, (self.terms[term].words, frozenset[str]()))
        if same:
            if word in never or (only is not None and word not in only):
                return False
            only = frozenset({word})
        else:
            never |= {word}
        if (size := f"Call len({term})") in self.terms and (same or not word):
            self._sum(Sum(((size, -1),), -len(word) if same else -1, strict=False))
            if same:
                self._sum(Sum(((size, 1),), len(word), strict=False))
        self.words[term] = (only, never)
        return only is None or bool(only - never)

    # numbers --------------------------------------------------------------------------------

    def whole(self, term: str) -> bool:
        """Whether a term is a whole number."""
        if term in self.sums:
            return all(self.terms[name].whole for name, _ in self.sums[term])
        return term == ZERO or self.terms[term].whole

    def _sum(self, literal: Sum) -> None:
        parts, most, strict = literal
        for name, _ in parts:
            self._add_range(name)
        x, y, sign = self._ends(parts)
        bound = (most, -1 if strict else 0)
        if self.whole(x) and self.whole(y):
            bound = ((ceil(most) - 1 if strict else floor(most)), 0) if abs(most) < inf else bound
        if sign < 0:
            x, y = y, x
        self._at_most(x, y, bound)
        self._settled = False

    def _add_range(self, name: str) -> None:
        """Add the range of a term and its fixed relations to others."""
        if (name, ZERO) in self.differences:
            return
        low, high = self.terms[name].range
        self.differences[name, ZERO] = (high, 0)
        self.differences[ZERO, name] = (-low, 0)
        for less, more in AT_MOST:
            if name in (less, more) and {less, more} <= self.terms.keys():
                self._at_most(less, more, (0, 0))
                self._add_range(more if name == less else less)

    def _ends(self, parts: tuple[tuple[str, int], ...]) -> tuple[str, str, int]:
        """A sum as a difference of two terms; the sign is -1 if they are swapped."""
        match parts:
            case ((name, times),) if abs(times) == 1:
                return name, ZERO, times
            case ((first, 1), (second, -1)):
                return first, second, 1
            case ((first, -1), (second, 1)):
                return second, first, 1
            case _:
                sign = 1 if parts[0][1] > 0 else -1
                signed = tuple((name, times * sign) for name, times in parts)
                term = " + ".join(f"{times}*{name}" for name, times in signed)
                self.sums[term] = signed
                return term, ZERO, sign

    def _at_most(self, x: str, y: str, bound: Bound) -> None:
        self.differences[x, y] = min(self.differences.get((x, y), NONE), bound)

    def consistent(self) -> bool:
        """Whether the differences leave values for every term."""
        if not self._settled:
            self._settled = self._relax(self.differences) and self._sums_fit()
        return self._settled

    def _sums_fit(self) -> bool:
        """Whether sums of several terms fit into the ranges of their parts."""
        if not self.sums:
            return True
        edges = dict(self.differences)
        for term, parts in self.sums.items():
            low, high = 0.0, 0.0
            for name, times in parts:
                ends = [times * end if end else 0.0 for end in self.range(name)]
                low, high = low + min(ends), high + max(ends)
            edges[term, ZERO] = min(edges.get((term, ZERO), NONE), (high, 0))
            edges[ZERO, term] = min(edges.get((ZERO, term), NONE), (-low, 0))
        return self._relax(edges)

    def range(self, name: str) -> tuple[float, float]:
        """The range of a term by its own bounds."""
        high = self.differences.get((name, ZERO), NONE)[0]
        low = -self.differences.get((ZERO, name), NONE)[0]
        return float(low), float(high)

    def _relax(self, edges: Mapping[tuple[str, str], Bound]) -> bool:
        used = [(x, y, c, s) for (x, y), (c, s) in edges.items() if c < inf]
        if any(c == -inf for _, _, c, _ in used):
            return False
        names = {n for x, y, _, _ in used for n in (x, y)}
        least: dict[str, Bound] = dict.fromkeys(names, (0.0, 0))
        for _ in range(len(names) + 1):
            moved = False
            self.work.spend(len(used) + 1)
            for x, y, c, s in used:  # x <= y + c
                a, b = least[y]
                reach = (a + c, b + s)
                if reach < least[x]:
                    least[x], moved = reach, True
            if not moved:
                return True
        return False


def find_unrefuted(
    formulas: Iterable[Formula], terms: Mapping[str, Term], work: Work
) -> Store | None:
    """Return consistent literals of the formulas, or None if the formulas cannot all hold.

    Raises `TooMuch` if the work is used up first.
    """
    return _search(tuple(formulas), Store(terms, work))


def _search(formulas: tuple[Formula, ...], store: Store) -> Store | None:
    todo, choices = list(formulas), list[Join]()
    while todo:
        formula = todo.pop()
        store.work.spend(1)
        if not isinstance(formula, Join):
            if not store.take(formula):
                return None
        elif formula.every:
            todo += formula.parts
        else:
            choices.append(formula)
    if not store.consistent():
        return None
    if not choices:
        return store
    first, *rest = sorted(choices, key=lambda c: len(c.parts))
    for part in first.parts:
        store.work.spend(len(store.differences) + len(rest))
        consistent = _search((part, *rest), Store(store.terms, store.work, store))
        if consistent is not None:
            return consistent
    return None
