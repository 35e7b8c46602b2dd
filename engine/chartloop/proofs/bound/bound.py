"""What came of a proof: figures, why there is none, witnesses, assumptions, a certificate.

Plain data, JSON both ways; nothing here proves anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from chartloop.core.plain import plain
from chartloop.core.text_table import Line, Row, lay_out, text_of
from chartloop.core.units import say_elapsed, say_number

FORMAT = 1
"""Of certificates."""


class Witness(NamedTuple):
    """A way that comes to the figure. It is a way through the graph, and perhaps not a run.

    Each guard on it may hold by itself; whether all of them can hold in one run is not asked.
    """

    path: tuple[str, ...] = ()
    """The states that it enters, without the loops."""
    loops: tuple[tuple[tuple[str, ...], int], ...] = ()
    """The loops, each with how often it is gone round."""
    edges: Mapping[str, int] = {}
    """How often each edge or rule is taken, by its id in records and pictures."""
    closing: tuple[str, ...] = ()
    """For each loop the edge or rule that leads to its first state again."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        loops = [{"states": list(states), "times": times} for states, times in self.loops]
        return {"path": list(self.path), "loops": loops, "edges": dict(self.edges),
                "closing": list(self.closing)}  # fmt: skip

    def __str__(self) -> str:
        parts = [" → ".join(_short(self.path))] if self.path else []
        parts += [f"{times:,} × ({' → '.join(_short(states))})" for states, times in self.loops]
        return "; with ".join(parts)


def _short(names: tuple[str, ...]) -> tuple[str, ...]:
    return names if len(names) <= 14 else (*names[:7], "…", *names[-6:])


def say_round(loop: tuple[str, ...]) -> str:
    """The states of a loop, and the first again: ``a → b → a``."""
    return " → ".join(_short((*loop, *loop[:1])))


WORDS: Mapping[str, str] = {
    "actions": "actions", "requests": "requests", "tool_calls": "tool calls",
    "tokens": "tokens", "usd": "USD", "waiting": "waiting",
}  # fmt: skip
"""What is bounded, as people say it."""


@dataclass(frozen=True)
class Figure:
    """The worst of one resource. Prints as its words."""

    resource: str
    """``actions``, ``requests``, ``tool_calls``, ``tokens``, ``usd`` or ``waiting``."""
    value: int | float | None
    """At most so much; None: there is no figure, and `why` says why. Seconds for `waiting`."""
    why: str = ""
    units: int = 0
    """Besides `rest`, this many times a thing of which no one knows how large it is."""
    unit: str = ""
    rest: int | float = 0
    by: tuple[str, ...] = ()
    """The guards that bound it."""
    witness: Witness = field(default_factory=Witness)
    loop: tuple[str, ...] = ()
    """The states of the loop that `why` names: no budget cuts it."""

    @property
    def bounded(self) -> bool:
        """Whether there is a figure, even if it is only in units."""
        return self.value is not None or bool(self.unit)

    @property
    def text(self) -> str:
        """The figure in words: ``at most 50``."""
        if self.value is not None:
            return f"at most {say_amount(self.resource, self.value)}"
        if self.unit:
            more = say_units(self.units, self.unit)
            return (
                f"at most {say_amount(self.resource, self.rest)} and {more}"
                if self.rest
                else f"at most {more}"
            )
        return "unbounded"

    @property
    def amount(self) -> str:
        """The same for the row of a table that is named after the resource: ``50``."""
        figure = self.text.removeprefix("at most ")
        return figure.removesuffix(" USD") if self.resource == "usd" else figure

    @property
    def reason(self) -> str:
        """What it rests on, or why there is none."""
        if self.value is None:
            return self.why
        return f"by {', '.join(self.by)}" if self.by else ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.resource, self.text, self.reason) if part)

    @classmethod
    def from_dict(cls, resource: str, data: Mapping[str, Any]) -> Figure:
        """A figure of a certificate, which has no witness."""
        return cls(
            resource, data["value"], data.get("why", ""), data.get("units", 0),
            data.get("unit", ""), data.get("rest", 0), tuple(data["by"]),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        out: dict[str, Any] = {"value": self.value, "text": self.text, "by": list(self.by)}
        if self.value is None:
            out["why"] = self.why
        if self.unit:
            out |= {"rest": self.rest, "units": self.units, "unit": self.unit}
        return {**out, "witness": self.witness.to_dict()}


def say_units(number: int, unit: str) -> str:
    """A number of things of unknown size: ``2 model calls``, ``3 batches``."""
    return f"{number:,} {unit}" + ("" if number == 1 else "es" if unit.endswith("h") else "s")


def say_amount(resource: str, value: float) -> str:
    """An amount of a resource as people write it."""
    if resource == "waiting":
        return say_elapsed(value)
    if resource == "usd":
        return f"{value:,.6f}".rstrip("0").rstrip(".") + " USD"
    return say_number(value)


class Overshoot(NamedTuple):
    """How far past a limit a run can go."""

    guard: str
    counter: str
    limit: float
    where: str
    """Where it is evaluated."""
    past: float | None
    """So much at most; None: it cannot be told."""
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return self._asdict()


class Wrap(NamedTuple):
    """What happens after a stop, by where it leads."""

    to: str
    by: tuple[str, ...]
    """The rules, edges and signals that lead there."""
    reports: str
    """``always``, ``sometimes`` or ``never``: whether a `report` is written on the way."""
    saves: str
    costs: Mapping[str, float | None]
    """What the wrap-up itself uses at most; it is part of the figures."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**self._asdict(), "by": list(self.by), "costs": dict(self.costs)}


@dataclass(frozen=True, repr=False)
class Bound:
    """The worst that a run of a machine can cost. Prints as a table."""

    machine: str
    hash: str
    limits: Mapping[str, Any]
    figures: Mapping[str, Figure]
    overshoots: tuple[Overshoot, ...] = ()
    wraps: tuple[Wrap, ...] = ()
    children: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """What each child comes to at most, by its name and what it is given."""
    assumptions: tuple[str, ...] = ()
    unknown: str = ""
    """Why there is no answer at all; empty when there is one."""

    def __getitem__(self, resource: str) -> Figure:
        if resource not in self.figures:
            known = ", ".join(self.figures) or f"none: {self.unknown}"
            raise KeyError(f"there is no figure `{resource}`; there are {known}")
        return self.figures[resource]

    @property
    def loop(self) -> tuple[str, ...]:
        """The states of a loop that no budget cuts; empty where each is cut."""
        actions = self.figures.get("actions")
        return () if actions is None else actions.loop

    def reasons_to_refuse(self, wanted: Mapping[str, float]) -> tuple[str, ...]:
        """Why a run may not start that must stay within these figures; empty when it may."""
        out: list[str] = []
        for resource, most in wanted.items():
            figure = self.figures.get(resource)
            if self.unknown or figure is None:
                out.append(f"{resource}: {self.unknown or 'not known'}")
            elif figure.value is None:
                out.append(f"{resource}: {figure.text}, because {figure.why}")
            elif figure.value > most:
                by = f"; lower {_limits(figure.by)}" if _limits(figure.by) else ""
                out.append(
                    f"{resource}: {figure.text}, and {say_amount(resource, most)} is wanted{by}"
                )
        return tuple(out)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `chartloop bound --format json` prints."""
        return {
            "machine": self.machine, "hash": self.hash, "limits": _plain(self.limits),
            "unknown": self.unknown or None,
            "bounds": {name: figure.to_dict() for name, figure in self.figures.items()},
            "overshoot": [o.to_dict() for o in self.overshoots],
            "stops": [w.to_dict() for w in self.wraps],
            "children": {n: dict(c) for n, c in self.children.items()},
            "assumptions": list(self.assumptions),
        }  # fmt: skip

    def certificate(self, version: str) -> str:
        """One line of JSON: what was proven, of which machine, by which version, assuming what."""
        bounds = {
            name: {k: v for k, v in figure.to_dict().items() if k != "witness"}
            for name, figure in self.figures.items()
        }
        data = {
            "certificate": FORMAT, "chartloop": version, "machine": self.machine,
            "hash": self.hash, "limits": _plain(self.limits), "unknown": self.unknown or None,
            "bounds": bounds, "assumptions": list(self.assumptions),
        }  # fmt: skip
        return json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    def __repr__(self) -> str:
        message = ", ".join(f"{WORDS[n]} {figure.amount}" for n, figure in self.figures.items())
        return f"<Bound of {self.machine}: {self.unknown or message}>"

    def __str__(self) -> str:
        return text_of(self.lines())

    def lines(self, width: int = 100) -> list[Line]:
        """Figures, overshoots, stops and children as tables, each line with its colour."""
        return [*_lines(self, width)]


@dataclass(frozen=True)
class Certificate:
    """What was proven of a machine, as `Bound.certificate` wrote it. Prints as a table."""

    text: str
    """One line of JSON."""

    @property
    def name(self) -> str:
        """The machine, and the beginning of its hash: ``agent 7cc09e86dff6``."""
        return f"{self._data['machine']} {self._data['hash'][:12]}"

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        return json.loads(self.text)

    def lines(self, width: int = 100) -> list[Line]:
        """The figures and what they assume. What another version has not written is left out."""
        data = self._data
        head = f"{self.name}, proven by chartloop {data['chartloop']}"
        if data.get("unknown"):
            return [Line(f"{head}: unknown: {data['unknown']}")]
        figures = [Figure.from_dict(n, data["bounds"][n]) for n in WORDS if n in data["bounds"]]
        found = [Line(f"{head}, at worst", "bold"), *_figure_lines(figures, width)]
        return [*found, *_assumption_lines(data["assumptions"])]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it was written."""
        return dict(self._data)

    def __str__(self) -> str:
        return text_of(self.lines())


def _limits(by: tuple[str, ...]) -> str:
    """The limits that guards name: those that could be lowered."""
    words = [w.strip("()") for said in by for w in said.split() if w.startswith("limits.")]
    return " or ".join(f"`{w}`" for w in dict.fromkeys(words))


def _plain(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in limits.items()}


# as tables ----------------------------------------------------------------------------------


def _lines(found: Bound, width: int) -> Iterator[Line]:
    if found.unknown:
        yield Line(f"{found.machine}: unknown: {found.unknown}")
        return
    yield Line(f"{found.machine}, at worst", "bold")
    yield from _figure_lines(found.figures.values(), width)
    overshoots = [Row((o.guard, o.where, o.text)) for o in found.overshoots]
    yield from _table(overshoots, ("guard", "evaluated", "a run goes"), width)
    wraps = [Row((w.to, w.reports, w.saves, _costs(w.costs))) for w in found.wraps]
    head = ("stops at", "then reports", "then saves", "which costs at most")
    yield from _table(wraps, head, width)
    children = [Row((name, _child(child))) for name, child in found.children.items()]
    yield from _table(children, ("child", "at worst"), width)
    yield from _assumption_lines(found.assumptions)
    witness = str(found.figures["actions"].witness)
    if witness:
        yield from (Line(""), Line(f"a path with the most actions, perhaps not a run: {witness}"))


def _figure_lines(figures: Iterable[Figure], width: int) -> list[Line]:
    rows = [Row((WORDS[f.resource], f.amount, f.reason), _colour(f)) for f in figures]
    return lay_out(rows, width=width)


def _assumption_lines(assumptions: Iterable[str]) -> Iterator[Line]:
    yield from (Line(""), Line("assuming that"))
    yield from (Line(f"  {one}") for one in assumptions)


def _table(rows: list[Row], head: tuple[str, ...], width: int) -> Iterator[Line]:
    if rows:
        yield Line("")
        yield from lay_out([Row(head, "dim"), *rows], width=width)


def _colour(figure: Figure) -> str:
    return "" if figure.value is not None else "yellow" if figure.unit else "red"


def _costs(costs: Mapping[str, float | None]) -> str:
    known = [
        f"{WORDS[n]} {'not known' if value is None else say_amount(n, value)}"
        for n, value in costs.items()
    ]
    return ", ".join(known) or "nothing"


def _child(child: Mapping[str, Any]) -> str:
    parts = [
        f"{WORDS[n]} {value if isinstance(value, str) else say_amount(n, value)}"
        for n, value in child.items()
        if n in WORDS and value not in (0, None)
    ]
    return ", ".join(parts).replace("at most ", "")
