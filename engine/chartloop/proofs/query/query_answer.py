"""The answer to a query, with a run that shows it.

A run is a walk of the graph; along it things happen in order: an action is done or an event
comes, an edge or rule is taken, states are entered, a stop is decided. Of some it is sure that they
happen on a route, of others only that they may: a batch of tool calls may hold any tool. What
must never happen is looked for among all that may, what must happen among what is sure.

Of the runs that show it the most ordinary is told, and of these the shortest: a stop that a tool
asks for, and a rule that holds at the start, lead anywhere at once and would answer every question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from chartloop.core.text_table import Line, Span, text_of
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import FROM_OUTSIDE
from chartloop.machine.abstract.signals import (
    FROM_ANYBODY,
    OF_A_GUARD,
    OF_AN_ACTION,
    Tools,
)
from chartloop.machine.transition_table import ENGINE_ENDS
from chartloop.proofs.query.events import Happening, Happenings
from chartloop.proofs.query.open_tool_calls import Offers
from chartloop.proofs.query.query_text import Atom, Query

OUTSIDE = "by a stop from outside"
"""What a `reason` says of a run that someone stops."""
_COLOURS = {True: "green", False: "red", None: "yellow"}
MOST_NAMED = 3
"""Reasons of a caller that an answer names."""


@dataclass(frozen=True, repr=False)
class Answer:
    """Whether it holds. True where it does, also in a condition."""

    query: str
    holds: bool | None
    """None: there is no answer, and `reason` says why."""
    reason: str
    witness: tuple[str, ...] = ()
    """The states of a run that shows it, in order; at last the engine's end, if it ends there."""
    edges: tuple[str, ...] = ()
    """What such a run takes: ids of edges and rules, as records and pictures have them."""
    assumptions: tuple[str, ...] = ()
    """Its assumptions, in words."""
    unless: tuple[str, ...] = ()
    """The answer is another where a caller stops the run for one of these reasons."""

    def __bool__(self) -> bool:
        return self.holds is True

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `chartloop query --format json` prints."""
        return {
            "query": self.query, "holds": self.holds, "reason": self.reason,
            "witness": list(self.witness), "edges": list(self.edges),
            "assumptions": list(self.assumptions), "unless": list(self.unless),
        }  # fmt: skip

    @property
    def word(self) -> str:
        """``yes``, ``no`` or ``unknown``."""
        return {True: "yes", False: "no", None: "unknown"}[self.holds]

    def __repr__(self) -> str:
        return f"<Answer to {self.query!r}: {self.word}, {self.reason}>"

    def lines(self, width: int = 0, *, titled: bool = False) -> list[Line]:
        """The answer and the states of its witness; `titled`: below the query, indented.

        Sentences, of any width.
        """
        indent = "  " if titled else ""
        word = Span(self.word, _COLOURS[self.holds])
        lines = [Line(self.query)] if titled else []
        lines.append(Line.of(indent, word, f": {self.reason}"))
        if self.witness:
            lines.append(Line(f"{indent}  {' → '.join(self.witness)}"))
        return lines

    def __str__(self) -> str:
        return text_of(self.lines())


# searching ----------------------------------------------------------------------------------


class Cost(NamedTuple):
    """How far a way is: ordinary ones are nearer than others, and of these the shorter."""

    odd: int
    """Rules that stop it before its first action, and stops that an error or a tool asks for."""
    moves: int


class At(NamedTuple):
    """Where a search is: a place, and of which of the tools that are asked for a call is open."""

    place: int
    open_: Tools = frozenset()


Way = list[int]
"""Numbers of routes, from the start on."""


class _Seek:
    """A search through the graph, with what happens on each route worked out once."""

    def __init__(
        self, routes: Routes, wanted: Iterable[str], *, stops: Collection[str],
        open_: Collection[int] | None = None,
    ) -> None:  # fmt: skip
        self.routes = routes
        self.offers = Offers(routes.spec, wanted)
        self.begin = At(0, self.offers.wanted)
        self.out: dict[int, list[int]] = {}
        for number, route in enumerate(routes.routes):
            if open_ is not None and number not in open_:
                continue
            if route.kind not in FROM_OUTSIDE or route.kind in stops:
                self.out.setdefault(route.source, []).append(number)
        self._happenings = Happenings(routes)
        self._known: dict[tuple[int, Tools], tuple[Happening, ...]] = {}

    def on(self, number: int, open_: Tools) -> tuple[Happening, ...]:
        """What happens on a route, where calls of these tools are open."""
        found = self._known.get((number, open_))
        if found is None:
            called = partial(self.offers.tools_called_by, open_=open_)
            found = tuple(self._happenings.on(self.routes.routes[number], called))
            self._known[number, open_] = found
        return found

    def beyond(self, number: int, open_: Tools) -> At:
        """Where a route leads."""
        route = self.routes.routes[number]
        return At(route.dest, self.offers.after(route, open_))

    def along(self, way: Way) -> Iterator[tuple[int, tuple[Happening, ...]]]:
        """The routes of a way, each with what happens on it."""
        open_ = self.begin.open_
        for number in way:
            yield number, self.on(number, open_)
            open_ = self.beyond(number, open_).open_

    def cost(self, number: int) -> Cost:
        """What a route adds to a way."""
        route, places = self.routes.routes[number], self.routes.places
        if route.kind == "start":
            return Cost(int(places[route.dest].stops is not None), 1)
        if route.kind == "raised":  # a guard of the file is nearer than what is called from it
            return Cost(1 if places[route.source].raised == OF_A_GUARD else 2, 1)
        return Cost(0, 1)

    def whole(self, way: Way) -> Cost:
        """The cost of a way."""
        odd = [self.cost(number).odd for number in way]
        return Cost(sum(odd), len(odd))

    def first(
        self, atom: Atom, *, without: Atom | None = None, start: At | None = None
    ) -> Way | None:
        """The nearest way on which `atom` may happen, with `without` surely not before it.

        If there is one, a way on which it is what the run stops for.
        """
        beside: Way | None = None
        for path, number, open_ in self.walk(without, start or self.begin):
            found = self._before(self.on(number, open_), atom, without)
            if found is not None and not found.beside:
                return path(number)
            if found is not None and beside is None:
                beside = path(number)
        return beside

    def _before(
        self, on: Iterable[Happening], atom: Atom, without: Atom | None
    ) -> Happening | None:
        """Where `atom` happens on a route, with `without` not before it."""
        for happening in on:
            if without is not None and happening.sure and happening[:2] == without:
                return None
            if happening[:2] == atom:
                return happening
        return None

    def end(self, without: Atom, start: At) -> Way | None:
        """The nearest way to an end on which `without` need not happen."""
        if start.place not in self.out:
            return []
        for path, number, open_ in self.walk(without, start):
            ends = self.routes.routes[number].dest not in self.out
            if ends and not self._has(number, open_, without):
                return path(number)
        return None

    def _has(self, number: int, open_: Tools, atom: Atom) -> bool:
        return any(h.sure and h[:2] == atom for h in self.on(number, open_))

    def walk(
        self, without: Atom | None, start: At
    ) -> Iterator[tuple[Callable[[int], Way], int, Tools]]:
        """Every route that can be come to, the nearest first, with the way to and over it.

        Each also with the tools of which a call may be open on it. Not beyond a route on which
        `without` surely happens.
        """
        into: dict[At, tuple[At, int] | None] = {start: None}
        far = {start: Cost(0, 0)}
        queue: list[tuple[Cost, int, int, At]] = []
        order = count()  # equals as they were come to

        def on_from(at: At) -> None:
            odd, moves = far[at]
            for number in self.out.get(at.place, ()):
                more = self.cost(number)
                cost = Cost(odd + more.odd, moves + more.moves)
                heappush(queue, (cost, next(order), number, at))

        on_from(start)
        while queue:
            cost, _, number, at = heappop(queue)
            yield partial(_way, into, at), number, at.open_
            dest = self.beyond(number, at.open_)
            if dest in into or (without is not None and self._has(number, at.open_, without)):
                continue
            into[dest], far[dest] = (at, number), cost
            on_from(dest)


CALLER, ANYBODY = "caller", "outside"
"""Who may stop a run from outside: a caller for any reason, anybody for `user_requested`."""


def _way(into: Mapping[At, tuple[At, int] | None], at: At, number: int) -> Way:
    """The way to a place and over the route that leads on from it."""
    found, came = [number], into[at]
    while came is not None:
        at, before = came
        found.append(before)
        came = into[at]
    return found[::-1]


def answer(
    query: Query, routes: Routes, *, cancels: bool, open_: Collection[int] | None = None
) -> Answer:
    """The answer to a query. A run that are not stopped from outside shows more, if there is one.

    `open_`: the routes that a run may take, where not all of them are.
    """
    about_it = query.a.sort == "reason" and query.a.name in FROM_ANYBODY
    wanted = _tools_of(query)
    seek = _Seek(routes, wanted, stops=(ANYBODY,) if cancels and about_it else (), open_=open_)
    found = _find_witness(query, seek)
    if found is None and cancels and not about_it:
        seek = _Seek(routes, wanted, stops=(ANYBODY,), open_=open_)
        found = _find_witness(query, seek)
    holds = (found is not None) == (query.form == "reach")
    unless = _asked_for(query, routes, open_) if found is None and cancels else ()
    return _answer(query, seek, found, holds=holds, cancels=cancels, unless=unless)


def _tools_of(query: Query) -> list[str]:
    """The tools that a query names: of these a search knows which may be called."""
    return [atom.name for atom in (query.a, query.b) if atom is not None and atom.sort == "tool"]


def _asked_for(query: Query, routes: Routes, open_: Collection[int] | None) -> tuple[str, ...]:
    """The reasons for which a caller may stop a run so that it shows what no other run shows."""
    seek = _Seek(routes, _tools_of(query), stops=(ANYBODY, CALLER), open_=open_)
    found = _find_witness(query, seek)
    if found is None:
        return ()
    if query.a.sort == "reason":
        return (query.a.name,)
    stops = [n for n in found if routes.places[routes.routes[n].source] == routes.outside[CALLER]]
    dests = {routes.places[routes.routes[n].dest].state for n in stops}
    others = (r for r in routes.spec.reasons if r not in FROM_ANYBODY)
    return tuple(reason for reason in others if routes.chart.route(reason) in dests)


def _find_witness(query: Query, seek: _Seek) -> Way | None:
    """The shortest path that shows a `reach`, or that breaks a `never` or `always`."""
    a, b = query.a, query.b
    if b is None:
        return seek.first(a)
    match query.form:
        case "never before":
            return seek.first(a, without=b)
        case "never after":
            return _after(seek, b, a)
        case _:
            return _end_after(seek, a, b)


def _conclusion(query: Query, *, found: bool) -> str:
    """The sentence of an answer, by whether a path was found."""
    a, b = query.a, query.b
    match query.form:
        case "reach":
            return f"{a} can be reached" if found else f"no path leads to {a}"
        case "never":
            return f"{a} can happen" if found else f"no path leads to {a}"
        case "never before":
            none_before = f"{a} can happen with no {b} before it"
            return none_before if found else f"{b} comes before {a} on every path"
        case "never after":
            return f"{a} can happen after {b}" if found else f"no path leads from {b} to {a}"
        case "always after":
            none_after = f"a run can end with no {b} after {a}"
            return none_after if found else f"{b} follows {a} on every path to an end"


def _after(seek: _Seek, first: Atom, then: Atom) -> Way | None:
    """The nearest way on which `then` may happen after `first`."""
    best: Way | None = None
    for lead, dest, rest in _occurrences(seek, first):
        if any(h[:2] == then for h in rest):
            found: Way | None = lead
        else:
            behind = seek.first(then, start=dest)
            found = None if behind is None else [*lead, *behind]
        if found is not None and (best is None or seek.whole(found) < seek.whole(best)):
            best = found
    return best


def _end_after(seek: _Seek, first: Atom, then: Atom) -> Way | None:
    """The nearest way to an end on which `then` need not happen after `first`."""
    best: Way | None = None
    for lead, dest, rest in _occurrences(seek, first):
        if any(h.sure and h[:2] == then for h in rest):
            continue
        behind = seek.end(then, dest)
        if behind is None:
            continue
        found = [*lead, *behind]
        if best is None or seek.whole(found) < seek.whole(best):
            best = found
    return best


def _occurrences(seek: _Seek, atom: Atom) -> Iterator[tuple[Way, At, tuple[Happening, ...]]]:
    """Every route on which it may happen: the way there, where it leads, what follows on it."""
    for path, number, open_ in seek.walk(None, seek.begin):
        on = seek.on(number, open_)
        for n, happening in enumerate(on):
            if happening[:2] == atom:
                behind = tuple(h for h in on[n + 1 :] if not h.beside)
                yield path(number), seek.beyond(number, open_), behind
                break


def _answer(
    query: Query, seek: _Seek, found: Way | None, *, holds: bool, cancels: bool,
    unless: tuple[str, ...],
) -> Answer:  # fmt: skip
    states: list[str] = []
    edges: list[str] = []
    parts = [_conclusion(query, found=found is not None)]
    for number, on in seek.along(found or []):
        for happening in on:
            if happening.sort == "state":
                states.append(happening.name)
            elif happening.sort == "edge" and happening.sure:
                edges.append(happening.name)
        route = seek.routes.routes[number]
        if (end := seek.routes.places[route.dest].state) in ENGINE_ENDS:
            states.append(end)
        if route.kind == "rule" and query.a[:2] != ("edge", route.origin):
            parts.append(f"by rule `{route.origin}`")
        parts += _unforeseen(query, seek, number)
    parts += _signalling(query, seek, found)
    if unless:
        itself = unless == (query.a.name,) and query.a.sort == "reason"
        parts.append(
            f"unless a caller stops the run for {'it' if itself else _quote_reasons(unless)}"
        )
    return Answer(
        query.text, holds, ", ".join(dict.fromkeys(parts)), tuple(states), tuple(edges),
        _assumptions(cancels=cancels), unless,
    )  # fmt: skip


def _quote_reasons(reasons: Sequence[str]) -> str:
    *others, last = [f"`{reason}`" for reason in reasons[:MOST_NAMED]]
    if len(reasons) > MOST_NAMED:
        return f"{', '.join([*others, last])} or another reason"
    return f"{', '.join(others)} or {last}" if others else last


def _signalling(query: Query, seek: _Seek, found: Way | None) -> list[str]:
    """The rule that signals the reason that is asked for, where no rule or tool stops for it."""
    if not found or query.a.sort != "reason":
        return []
    happened = [h[:2] for _, on in seek.along(found) for h in on if not h.sure]
    rules = [r.id for r in seek.routes.spec.rules if r.signal == query.a.name]
    return [f"by rule `{id}`, which signals it" for id in rules if ("edge", id) in happened][:1]


def _assumptions(*, cancels: bool) -> tuple[str, ...]:
    """What every answer takes for granted."""
    return (
        "a guard that reads anything may hold or not; child machines take their own paths",
        "a stop from outside may come at any moment, for `user_requested`; for another reason "
        "only where the answer says `unless`"
        if cancels
        else "it is not stopped from outside",
        "no parent starts it at another state, and no run of an older file continues with this one",
        "it is not paused, and no limit is set while it runs",
    )


def _unforeseen(query: Query, seek: _Seek, number: int) -> Iterator[str]:
    """How a route comes about that no edge or rule of the file leads along."""
    route = seek.routes.routes[number]
    if route.kind in FROM_OUTSIDE:
        yield OUTSIDE
    if route.kind != "raised":
        return
    raised = seek.routes.places[route.source].raised
    of_an_action = set(raised) <= set(OF_AN_ACTION)
    if raised == OF_A_GUARD or (of_an_action and query.a == ("reason", "guard_error")):
        yield "where a guard cannot be evaluated"
    elif of_an_action:
        yield "where an action fails"
    elif raised and raised != FROM_ANYBODY:
        yield "where a tool or an action asks to stop"
