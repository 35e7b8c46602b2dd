"""The result of a proof: figures or reasons for their absence, witnesses, assumptions, certificate.

Plain data, JSON both ways. Never: proving anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from chartloop.core.plain import plain
from chartloop.core.reports import Group, Part, Report, Table
from chartloop.core.text_table import Line, Row
from chartloop.core.units import say_elapsed, say_number

FORMAT = 1
"""The format version of certificates."""


class Witness(NamedTuple):
    """A path through the graph that reaches the figure, though perhaps not a possible run.

    Each guard on it can hold by itself; whether all of them can hold in one run is not examined.
    """

    path: tuple[str, ...] = ()
    """The states of the path, without the loops."""
    loops: tuple[tuple[tuple[str, ...], int], ...] = ()
    """The loops, each with its number of iterations."""
    edges: Mapping[str, int] = {}
    """How often each edge or rule is taken, by its id in records and pictures."""
    closing: tuple[str, ...] = ()
    """For each loop the edge or rule that leads back to its first state."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
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
    """Return the states of a loop with the first repeated: ``a → b → a``."""
    return " → ".join(_short((*loop, *loop[:1])))


WORDS: Mapping[str, str] = {
    "actions": "actions", "requests": "requests", "tool_calls": "tool calls",
    "tokens": "tokens", "usd": "USD", "waiting": "waiting",
}  # fmt: skip
"""The names of the resources as people write them."""


@dataclass(frozen=True)
class Figure:
    """The most that a run can use of one resource. Prints as a sentence."""

    resource: str
    """``actions``, ``requests``, ``tool_calls``, ``tokens``, ``usd`` or ``waiting``."""
    value: int | float | None
    """The maximum, for `waiting` in seconds. None: there is no figure, and `why` says why."""
    why: str = ""
    units: int = 0
    """A number of things of unknown size, such as model calls, to be added to `rest`."""
    unit: str = ""
    """The name of one such thing; empty if every size is known."""
    rest: int | float = 0
    """The maximum of everything whose size is known."""
    by: tuple[str, ...] = ()
    """The guards that bound it."""
    witness: Witness = field(default_factory=Witness)
    loop: tuple[str, ...] = ()
    """The states of the loop that `why` names: no budget cuts it."""

    @property
    def bounded(self) -> bool:
        """Whether there is a figure, if only in units."""
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
        """The figure for a table row that is named after the resource: ``50``."""
        figure = self.text.removeprefix("at most ")
        return figure.removesuffix(" USD") if self.resource == "usd" else figure

    @property
    def reason(self) -> str:
        """The guards that the figure rests on, or why there is none."""
        if self.value is None:
            return self.why
        return f"by {', '.join(self.by)}" if self.by else ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.resource, self.text, self.reason) if part)

    @classmethod
    def from_dict(cls, resource: str, data: Mapping[str, Any]) -> Figure:
        """Read a figure from a certificate, where it has no witness."""
        return cls(
            resource, data["value"], data.get("why", ""), data.get("units", 0),
            data.get("unit", ""), data.get("rest", 0), tuple(data["by"]),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        out: dict[str, Any] = {"value": self.value, "text": self.text, "by": list(self.by)}
        if self.value is None:
            out["why"] = self.why
        if self.unit:
            out |= {"rest": self.rest, "units": self.units, "unit": self.unit}
        return {**out, "witness": self.witness.to_dict()}


def say_units(number: int, unit: str) -> str:
    """Return a number of things of unknown size in words: ``2 model calls``, ``3 batches``."""
    return f"{number:,} {unit}" + ("" if number == 1 else "es" if unit.endswith("h") else "s")


def say_amount(resource: str, value: float) -> str:
    """Return an amount of a resource as people write it."""
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
    """Where the guard is evaluated."""
    past: float | None
    """The maximum; None if it is unknown."""
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return self._asdict()


class Wrap(NamedTuple):
    """What happens after a stop, from one state that stops lead to."""

    to: str
    by: tuple[str, ...]
    """The rules, edges and signals that lead there."""
    reports: str
    """``always``, ``sometimes`` or ``never``: whether a `report` is written before the end."""
    saves: str
    """The same for a `snapshot`."""
    costs: Mapping[str, float | None]
    """The most that the wrap-up uses, None where unknown; the figures include it."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**self._asdict(), "by": list(self.by), "costs": dict(self.costs)}


@dataclass(frozen=True, repr=False)
class Bound(Report):
    """The most that a run of a machine can cost. Prints as a table."""

    machine: str
    hash: str
    limits: Mapping[str, Any]
    figures: Mapping[str, Figure]
    overshoots: tuple[Overshoot, ...] = ()
    wraps: tuple[Wrap, ...] = ()
    children: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The bound of each child, by its name and the limits that it is given."""
    assumptions: tuple[str, ...] = ()
    unknown: str = ""
    """Why there is no answer at all; empty if there is one."""

    def __getitem__(self, resource: str) -> Figure:
        if resource not in self.figures:
            known = ", ".join(self.figures) or f"none: {self.unknown}"
            raise KeyError(f"there is no figure `{resource}`; there are {known}")
        return self.figures[resource]

    @property
    def loop(self) -> tuple[str, ...]:
        """The states of a loop that no budget cuts; empty if every loop is cut."""
        actions = self.figures.get("actions")
        return () if actions is None else actions.loop

    def reasons_to_refuse(self, wanted: Mapping[str, float]) -> tuple[str, ...]:
        """Why a run that must stay within these figures may not start; empty if it may."""
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
        """Return it as plain data, as `chartloop bound --format json` prints it."""
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
        """Return one line of JSON: the figures, machine, version of chartloop and assumptions."""
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

    def parts(self) -> Iterator[Part]:
        """Figures, overshoots, stops and children as tables."""
        if self.unknown:
            yield Line(f"{self.machine}: unknown: {self.unknown}")
            return
        yield Line(f"{self.machine}, at worst", "bold")
        yield _figures(self.figures.values())
        overshoots = [Row((o.guard, o.where, o.text)) for o in self.overshoots]
        wraps = [Row((w.to, w.reports, w.saves, _costs(w.costs))) for w in self.wraps]
        children = [Row((name, _child(child))) for name, child in self.children.items()]
        for rows, *head in (
            (overshoots, "guard", "evaluated", "a run goes"),
            (wraps, "stops at", "then reports", "then saves", "which costs at most"),
            (children, "child", "at worst"),
        ):
            if rows:
                yield from (Line(""), Table(rows, head))
        yield from _assumed(self.assumptions)
        if witness := str(self.figures["actions"].witness):
            path = f"a path with the most actions, perhaps not a run: {witness}"
            yield from (Line(""), Line(path))


@dataclass(frozen=True)
class Certificate(Report):
    """A proven bound as `Bound.certificate` wrote it. Prints as a table."""

    text: str
    """One line of JSON."""

    @property
    def name(self) -> str:
        """The machine and the first digits of its hash: ``agent 7cc09e86dff6``."""
        return f"{self._data['machine']} {self._data['hash'][:12]}"

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        return json.loads(self.text)

    def parts(self) -> Iterator[Part]:
        """The figures and assumptions, without fields that another version did not write."""
        data = self._data
        head = f"{self.name}, proven by chartloop {data['chartloop']}"
        if data.get("unknown"):
            yield Line(f"{head}: unknown: {data['unknown']}")
            return
        yield Line(f"{head}, at worst", "bold")
        yield _figures(Figure.from_dict(n, data["bounds"][n]) for n in WORDS if n in data["bounds"])
        yield from _assumed(data["assumptions"])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, as it was written."""
        return dict(self._data)


def _limits(by: tuple[str, ...]) -> str:
    """Name the limits that guards read: those that could be lowered."""
    words = [w.strip("()") for guard in by for w in guard.split() if w.startswith("limits.")]
    return " or ".join(f"`{w}`" for w in dict.fromkeys(words))


def _plain(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in limits.items()}


# as tables ----------------------------------------------------------------------------------


def _figures(figures: Iterable[Figure]) -> Table:
    return Table([
        Row(
            (WORDS[f.resource], f.amount, f.reason),
            "" if f.value is not None else "yellow" if f.unit else "red",
        )
        for f in figures
    ])  # fmt: skip


def _assumed(assumptions: Iterable[str]) -> Iterator[Part]:
    yield Line("")
    lines = [Line(f"  {one}") for one in assumptions]
    yield Group(Line("assuming that"), lines, folded=f"{len(lines)} assumptions")


def _costs(costs: Mapping[str, float | None]) -> str:
    known = [
        f"{WORDS[n]} {'not known' if value is None else say_amount(n, value)}"
        for n, value in costs.items()
    ]
    return ", ".join(known) or "nothing"


def _child(child: Mapping[str, Any]) -> str:
    amounts = {n: value for n, value in child.items() if n in WORDS and value not in (0, None)}
    parts = [
        f"{WORDS[n]} {value if isinstance(value, str) else say_amount(n, value)}"
        for n, value in amounts.items()
    ]
    return ", ".join(part.removesuffix(" USD") for part in parts).replace("at most ", "")
