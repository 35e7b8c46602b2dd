"""The answer to a query, with a run as its witness.

A run is a walk through the graph. Along it events happen in order: an action is done or an answer
arrives, an edge or rule is taken, states are entered, a stop is decided. Some are certain on a
route, others only possible: a batch of tool calls may contain any tool. `never` is checked against
everything possible, `always` against what is certain.

The witness is the most ordinary run, and of these the shortest. A stop that a tool asks for, or a
rule that holds at the start, leads anywhere at once and would otherwise answer every query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from chartloop.analysis.proofs.query.events import Happening, Happenings
from chartloop.analysis.proofs.query.open_tool_calls import Offers
from chartloop.analysis.proofs.query.query_text import Atom, Query
from chartloop.core.reports import Notebook, Part, Report
from chartloop.core.text_table import Line, Span
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import FROM_OUTSIDE, TooLarge
from chartloop.machine.abstract.signals import (
    FROM_ANYBODY,
    OF_A_GUARD,
    OF_AN_ACTION,
    Tools,
)
from chartloop.machine.transition_table import ENGINE_ENDS

OUTSIDE = "by a stop from outside"
"""The phrase in `reason` for a run that is stopped from outside."""
_COLOURS = {True: "green", False: "red", None: "yellow"}
MOST_NAMED = 3
"""The most reasons of a caller that an answer names."""


@dataclass(frozen=True, repr=False)
class Answer(Report):
    """Whether a query holds. Truthy if it does."""

    query: str
    holds: bool | None
    """None: there is no answer, and `reason` says why."""
    reason: str
    witness: tuple[str, ...] = ()
    """The states of a run that shows it, in order; the last may be an end of the engine."""
    edges: tuple[str, ...] = ()
    """The ids of the edges and rules on that run, as in records and pictures."""
    assumptions: tuple[str, ...] = ()
    """The assumptions of the answer, in words."""
    unless: tuple[str, ...] = ()
    """The reasons for which a caller could stop a run so that the answer no longer holds."""
    arguments: Mapping[str, Any] | None = None
    """Of `each`: the arguments of a call that is asked about and needs no answer."""

    def __bool__(self) -> bool:
        return self.holds is True

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, as `chartloop query --format json` prints it."""
        return {
            "query": self.query, "holds": self.holds, "reason": self.reason,
            "witness": list(self.witness), "edges": list(self.edges),
            "assumptions": list(self.assumptions), "unless": list(self.unless),
            "arguments": self.arguments,
        }  # fmt: skip

    @property
    def word(self) -> str:
        """``yes``, ``no`` or ``unknown``."""
        return {True: "yes", False: "no", None: "unknown"}[self.holds]

    def __repr__(self) -> str:
        return f"<Answer to {self.query!r}: {self.word}, {self.reason}>"

    def parts(self, *, titled: bool = False) -> Iterator[Part]:
        """The answer and its witness; `titled`: indented, below the query."""
        indent = "  " if titled else ""
        yield Line(self.query) if titled else Notebook([Line(self.query, "code")])
        yield Line.of(indent, Span(self.word, _COLOURS[self.holds]), f": {self.reason}")
        if self.witness:
            yield Line(f"{indent}  {' → '.join(self.witness)}")


# searching ----------------------------------------------------------------------------------


class Cost(NamedTuple):
    """The length of a path: fewer unusual stops first, then fewer routes."""

    odd: int
    """Rules that stop it before its first action, and stops caused by an error or a tool."""
    moves: int


class At(NamedTuple):
    """A node of the search: a place, and which of the queried tools have an open call."""

    place: int
    open_: Tools = frozenset()


Path = list[int]
"""Numbers of routes, from the start on."""


class _Search:
    """A search through the graph; the events on each route are computed once."""

    def __init__(
        self, routes: Routes, wanted: Iterable[str], *, stops: Collection[str],
        open_: Collection[int] | None = None, effort: int,
    ) -> None:  # fmt: skip
        self.routes = routes
        self.effort, self._left = effort, effort
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
        """The events on a route, given the tools with an open call.

        Raises `TooLarge` once more events were looked at than the search may.
        """
        happenings = self._known.get((number, open_))
        if happenings is None:
            called = partial(self.offers.tools_called_by, open_=open_)
            happenings = tuple(self._happenings.on(self.routes.routes[number], called))
            self._known[number, open_] = happenings
        self._left -= 1 + len(happenings)
        if self._left < 0:
            raise TooLarge(f"the search looked at {self.effort:,} events and was not done")
        return happenings

    def beyond(self, number: int, open_: Tools) -> At:
        """The node that a route leads to."""
        route = self.routes.routes[number]
        return At(route.dest, self.offers.after(route, open_))

    def along(self, path: Path) -> Iterator[tuple[int, tuple[Happening, ...]]]:
        """The routes of a path, each with the events on it."""
        open_ = self.begin.open_
        for number in path:
            yield number, self.on(number, open_)
            open_ = self.beyond(number, open_).open_

    def cost(self, number: int) -> Cost:
        """The cost that a route adds to a path."""
        route, places = self.routes.routes[number], self.routes.places
        if route.kind == "start":
            return Cost(int(places[route.dest].stops is not None), 1)
        if route.kind == "raised":  # a guard of the file is more ordinary than code it calls
            return Cost(1 if places[route.source].raised == OF_A_GUARD else 2, 1)
        return Cost(0, 1)

    def whole(self, path: Path) -> Cost:
        """The cost of a path."""
        odd = [self.cost(number).odd for number in path]
        return Cost(sum(odd), len(odd))

    def first(
        self, atom: Atom, *, without: Atom | None = None, start: At | None = None
    ) -> Path | None:
        """The nearest path on which `atom` may happen, and `without` need not happen before it.

        A path that stops for `atom` is preferred to one where `atom` is raised alongside.
        """
        beside: Path | None = None
        for path, number, open_ in self.walk(without, start or self.begin):
            happening = self._before(self.on(number, open_), atom, without)
            if happening is not None and not happening.beside:
                return path(number)
            if happening is not None and beside is None:
                beside = path(number)
        return beside

    def _before(
        self, on: Iterable[Happening], atom: Atom, without: Atom | None
    ) -> Happening | None:
        """The event of `atom` on a route, unless `without` is certain to happen before it."""
        for happening in on:
            if without is not None and happening.sure and happening[:2] == without:
                return None
            if happening[:2] == atom:
                return happening
        return None

    def end(self, without: Atom, start: At) -> Path | None:
        """The nearest path to an end on which `without` need not happen."""
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
    ) -> Iterator[tuple[Callable[[int], Path], int, Tools]]:
        """Yield every reachable route, the nearest first.

        Each comes with a function that gives the path up to and over it, and with the tools that
        may have an open call. The search ends at routes on which `without` is certain to happen.
        """
        into: dict[At, tuple[At, int] | None] = {start: None}
        far = {start: Cost(0, 0)}
        queue: list[tuple[Cost, int, int, At]] = []
        order = count()  # breaks ties by the order of discovery

        def on_from(at: At) -> None:
            odd, moves = far[at]
            for number in self.out.get(at.place, ()):
                more = self.cost(number)
                cost = Cost(odd + more.odd, moves + more.moves)
                heappush(queue, (cost, next(order), number, at))

        on_from(start)
        while queue:
            cost, _, number, at = heappop(queue)
            yield partial(_path, into, at), number, at.open_
            dest = self.beyond(number, at.open_)
            if dest in into or (without is not None and self._has(number, at.open_, without)):
                continue
            into[dest], far[dest] = (at, number), cost
            on_from(dest)


CALLER, ANYBODY = "caller", "outside"
"""The sources of a stop from outside: a caller for any reason, anybody for `user_requested`."""


def _path(into: Mapping[At, tuple[At, int] | None], at: At, number: int) -> Path:
    """The path to a node and over a route that leaves it."""
    backwards, previous = [number], into[at]
    while previous is not None:
        at, before = previous
        backwards.append(before)
        previous = into[at]
    return backwards[::-1]


def answer(
    query: Query, routes: Routes, *, cancels: bool, open_: Collection[int] | None = None,
    effort: int,
) -> Answer:  # fmt: skip
    """Answer a query, preferring a witness that is not stopped from outside.

    `open_`: the routes that a run may take; None: all of them. `effort`: the most events that one
    search may look at; `TooLarge` if that is not enough.
    """
    about_it = query.a.sort == "reason" and query.a.name in FROM_ANYBODY
    # the tools that the query names: the search tracks their open calls
    wanted = [a.name for a in (query.a, query.b) if a is not None and a.sort == "tool"]
    search_with = partial(_Search, routes, wanted, open_=open_, effort=effort)
    search = search_with(stops=(ANYBODY,) if cancels and about_it else ())
    witness = _find_witness(query, search)
    if witness is None and cancels and not about_it:
        search = search_with(stops=(ANYBODY,))
        witness = _find_witness(query, search)
    holds = (witness is not None) == (query.form == "reach")
    unless: tuple[str, ...] = ()
    if witness is None and cancels:
        unless = _reasons_of_callers(query, search_with(stops=(ANYBODY, CALLER)))
    return _answer(query, search, witness, holds=holds, cancels=cancels, unless=unless)


def _reasons_of_callers(query: Query, search: _Search) -> tuple[str, ...]:
    """The reasons for which a caller's stop makes a witness possible that no other run is."""
    witness, routes = _find_witness(query, search), search.routes
    if witness is None:
        return ()
    if query.a.sort == "reason":
        return (query.a.name,)
    stops = [n for n in witness if routes.places[routes.routes[n].source] == routes.outside[CALLER]]
    dests = {routes.places[routes.routes[n].dest].state for n in stops}
    others = (r for r in routes.spec.reasons if r not in FROM_ANYBODY)
    return tuple(reason for reason in others if routes.chart.route(reason) in dests)


def _find_witness(query: Query, search: _Search) -> Path | None:
    """The nearest path that shows a `reach`, or that breaks a `never` or `always`."""
    a, b = query.a, query.b
    if b is None:
        return search.first(a)
    match query.form:
        case "never before":
            return search.first(a, without=b)
        case "never after":
            return _after(search, b, a)
        case "each":
            return _without_its_own(search, a, b)
        case _:
            return _end_after(search, a, b)


def _conclusion(query: Query, *, found: bool) -> str:
    """The sentence of an answer. `found`: whether there is a witness."""
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
        case "each":
            none_own = f"{a} can be executed with no {b} of its own"
            return none_own if found else f"{b} comes before each {a} on every path"
        case _:
            none_after = f"a run can end with no {b} after {a}"
            return none_after if found else f"{b} follows {a} on every path to an end"


def _after(search: _Search, first: Atom, then: Atom) -> Path | None:
    """The nearest path on which `then` may happen after `first`."""
    best: Path | None = None
    for lead, dest, rest in _occurrences(search, first):
        if any(h[:2] == then for h in rest):
            path: Path | None = lead
        else:
            behind = search.first(then, start=dest)
            path = None if behind is None else [*lead, *behind]
        if path is not None and (best is None or search.whole(path) < search.whole(best)):
            best = path
    return best


def _end_after(search: _Search, first: Atom, then: Atom) -> Path | None:
    """The nearest path to an end on which `then` need not happen after `first`."""
    best: Path | None = None
    for lead, dest, rest in _occurrences(search, first):
        if any(h.sure and h[:2] == then for h in rest):
            continue
        behind = search.end(then, dest)
        if behind is None:
            continue
        path = [*lead, *behind]
        if best is None or search.whole(path) < search.whole(best):
            best = path
    return best


def _without_its_own(search: _Search, call: Atom, accept: Atom) -> Path | None:
    """The nearest path to a `call` with no `accept` since it was written, or since the last one."""
    starts: dict[At, Path] = {search.begin: []}
    for path, number, open_ in search.walk(None, search.begin):
        written = call.name in search.offers.after(search.routes.routes[number], frozenset())
        if written or any(h[:2] == call for h in search.on(number, open_)):
            starts.setdefault(search.beyond(number, open_), path(number))
    found = [
        [*lead, *behind] for start, lead in starts.items()
        if (behind := search.first(call, without=accept, start=start)) is not None
    ]  # fmt: skip
    return min(found, key=search.whole, default=None)


def _occurrences(search: _Search, atom: Atom) -> Iterator[tuple[Path, At, tuple[Happening, ...]]]:
    """Yield the path up to each route on which `atom` may happen, its node, and later events."""
    for path, number, open_ in search.walk(None, search.begin):
        on = search.on(number, open_)
        for n, happening in enumerate(on):
            if happening[:2] == atom:
                behind = tuple(h for h in on[n + 1 :] if not h.beside)
                yield path(number), search.beyond(number, open_), behind
                break


def _answer(
    query: Query, search: _Search, witness: Path | None, *, holds: bool, cancels: bool,
    unless: tuple[str, ...],
) -> Answer:  # fmt: skip
    states: list[str] = []
    edges: list[str] = []
    parts = [_conclusion(query, found=witness is not None)]
    for number, on in search.along(witness or []):
        for happening in on:
            if happening.sort == "state":
                states.append(happening.name)
            elif happening.sort == "edge" and happening.sure:
                edges.append(happening.name)
        route = search.routes.routes[number]
        if (end := search.routes.places[route.dest].state) in ENGINE_ENDS:
            states.append(end)
        if route.kind == "rule" and query.a[:2] != ("edge", route.origin):
            parts.append(f"by rule `{route.origin}`")
        parts += _unforeseen(query, search, number)
    parts += _signalling(query, search, witness)
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


def _signalling(query: Query, search: _Search, witness: Path | None) -> list[str]:
    """The rule that signals the queried reason, if no rule or tool stops for it."""
    if not witness or query.a.sort != "reason":
        return []
    happened = [h[:2] for _, on in search.along(witness) for h in on if not h.sure]
    rules = [r.id for r in search.routes.spec.rules if r.signal == query.a.name]
    return [f"by rule `{id}`, which signals it" for id in rules if ("edge", id) in happened][:1]


def _assumptions(*, cancels: bool) -> tuple[str, ...]:
    """The assumptions of every answer."""
    return (
        "a guard that reads anything may hold or not; child machines take their own paths",
        "a stop from outside may come at any moment, for `user_requested`; for another reason "
        "only where the answer says `unless`"
        if cancels
        else "it is not stopped from outside",
        "no parent starts it at another state, and no run of an older file continues with this one",
        "it is not paused, and no limit is set while it runs",
    )


def _unforeseen(query: Query, search: _Search, number: int) -> Iterator[str]:
    """Explain a route that no edge or rule of the file leads along."""
    route = search.routes.routes[number]
    if route.kind in FROM_OUTSIDE:
        yield OUTSIDE
    if route.kind != "raised":
        return
    raised = search.routes.places[route.source].raised
    of_an_action = set(raised) <= set(OF_AN_ACTION)
    if raised == OF_A_GUARD or (of_an_action and query.a == ("reason", "guard_error")):
        yield "where a guard cannot be evaluated"
    elif of_an_action:
        yield "where an action fails"
    elif raised and raised != FROM_ANYBODY:
        yield "where a tool or an action asks to stop"
