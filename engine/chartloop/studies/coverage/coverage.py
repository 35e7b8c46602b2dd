"""The coverage of a machine: how often its runs went through each of its items.

A value that can be added to the coverage of other runs, written as JSON and read back, so that
several processes and several days give one figure. It needs a chart only to be drawn.

Belongs here: figures, sums, JSON, thresholds, the parts of its report. Never: pictures.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar

from chartloop.core.errors import RunError, SetupError, nearest
from chartloop.core.reports import Group, Part, Report, Table, text_lines
from chartloop.core.text_table import Cell, Line, Row
from chartloop.core.units import say_count, say_some
from chartloop.machine.build import Chart
from chartloop.machine.graph import graph
from chartloop.pictures.flowchart import RuleDrawing
from chartloop.pictures.from_graph import flowchart
from chartloop.run.dataframe import frame
from chartloop.studies.coverage.figures import PLURAL, Covered, Figure, figure_of
from chartloop.studies.coverage.heatmap import HeatPicture
from chartloop.studies.coverage.targets import KINDS, Kind, items_of

FORMAT = "chartloop-coverage/1"
_LISTED = 6
"""How many items an error names."""
_WORDS: Mapping[Kind, str] = {
    **PLURAL, "atom": "guard atoms, each way", "guard": "Python guards, not seen inside",
}  # fmt: skip
_ROLES: Mapping[str, str] = {
    "on": "events", "expired": "timeouts", "retry": "retries", "all": "branches",
    "failed": "failures", "error": "failures not handled", "return": "ways back",
    "detour": "detours",
}  # fmt: skip
"""The roles of edges and rules that get a line of their own, with its heading."""


class OtherItemsError(RunError):
    """Coverages of different machines cannot be added; the message lists the differences."""

    def __init__(self, machine: str, one: Mapping[str, str], other: Mapping[str, str]) -> None:
        super().__init__(
            f"`{machine}` is not the same machine in both: {_differences(one, other)}",
            hint="a coverage is added to one of the same states, edges, rules and guards",
        )


def changes(old: Chart, new: Chart) -> str:
    """Describe which items differ between two charts; empty if their coverages can be added."""
    one, other = ({i.key: i.meaning for i in items_of(chart)} for chart in (old, new))
    return "" if one == other else _differences(one, other)


def _differences(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    new = tuple(key for key in other if key not in one)
    gone = tuple(key for key in one if key not in other)
    changed = tuple(key for key in one if key in other and one[key] != other[key])
    parts = (("new", new), ("gone", gone), ("changed", changed))
    return "; ".join(f"{word}: {_quote_names(keys)}" for word, keys in parts if keys)


def _quote_names(keys: tuple[str, ...]) -> str:
    names = list(dict.fromkeys(k.partition("=")[0].replace(":", " ", 1) for k in keys))
    return say_some([f"`{name}`" for name in names], _LISTED)


@dataclass(frozen=True)
class Coverage(Report):
    """The coverage of a machine by its runs. `one + other` is the coverage by the runs of both."""

    machine: str
    covered: tuple[Covered, ...]
    """All items of the machine with their counts, in the order of the file."""
    runs: int = 0
    records: int = 0
    beside: Mapping[str, int] = field(default_factory=dict[str, int])
    """Counts of what the file does not contain, by key (``reason:user_requested``): exits and ends
    that the engine adds, and reasons from outside."""
    inside: tuple[Coverage, ...] = ()
    """The coverages of its child machines by the same runs."""
    skipped_runs: tuple[str, ...] = field(default=(), compare=False)
    """The runs that were not counted, each with the reason."""
    chart: Chart | None = field(default=None, compare=False, repr=False)
    """The chart to draw it on; None in a coverage that was read back."""

    # figures --------------------------------------------------------------------------------

    @cached_property
    def figures(self) -> Mapping[Kind, Figure]:
        """How many items of each kind were seen; a kind without items is left out."""
        return {kind: figure_of(self.of(kind)) for kind in KINDS if any(self.of(kind))}

    def of(self, kind: Kind) -> tuple[Covered, ...]:
        """The items of a kind."""
        return self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> dict[Kind, tuple[Covered, ...]]:
        return {k: tuple(c for c in self.covered if c.item.kind == k) for k in KINDS}

    def roles(self, kind: Kind) -> dict[str, Figure]:
        """The figures of a kind by role: for edges `on`, `expired`, `retry`, `all` ..."""
        by_role: dict[str, list[Covered]] = {}
        for one in self.of(kind):
            by_role.setdefault(one.item.role, []).append(one)
        return {role: figure_of(ones) for role, ones in by_role.items()}

    @property
    def missing(self) -> tuple[Covered, ...]:
        """The items that no run has shown."""
        return tuple(c for c in self.covered if not c.times)

    def times(self, kind: Kind) -> dict[str, int]:
        """How often each item of a kind was seen, by id; the two ways of an atom are added."""
        out: dict[str, int] = {}
        for one in self.of(kind):
            out[one.item.id] = out.get(one.item.id, 0) + one.times
        return out

    def below(self, wanted: Mapping[Kind, float]) -> tuple[str, ...]:
        """Describe each figure that is below its percentage in `wanted`."""
        out: list[str] = []
        for kind, least in wanted.items():
            figure = self.figures.get(kind)
            if figure is not None and figure.percent < least:
                message = f"{figure} {PLURAL[kind]} are {figure.percent:g} %, below {least:g} %"
                out.append(f"`{self.machine}`: {message}")
        return tuple(out)

    # sums -----------------------------------------------------------------------------------

    @property
    def file(self) -> str:
        """The file of the machine; empty if unknown."""
        return self.covered[0].item.file if self.covered else ""

    @cached_property
    def meanings(self) -> Mapping[str, str]:
        """The text of each item, by key: coverages with equal meanings can be added."""
        return {c.item.key: c.item.meaning for c in self.covered}

    def __add__(self, other: Coverage) -> Coverage:
        """The coverage by the runs of both. `OtherItemsError` for another machine."""
        if (self.machine, self.meanings) != (other.machine, other.meanings):
            if self.machine != other.machine:
                raise RunError(f"`{self.machine}` and `{other.machine}` do not add up")
            raise OtherItemsError(self.machine, self.meanings, other.meanings)
        theirs = {c.item.key: c for c in other.covered}
        beside = {k: self.beside.get(k, 0) + n for k, n in other.beside.items()}
        return replace(
            self, covered=tuple(c + theirs[c.item.key] for c in self.covered),
            runs=self.runs + other.runs, records=self.records + other.records,
            beside={**self.beside, **beside}, inside=total((*self.inside, *other.inside)),
            skipped_runs=(*self.skipped_runs, *other.skipped_runs),
            chart=self.chart or other.chart,
        )  # fmt: skip

    # data -----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the figures, and each item with its count."""
        return {
            "format": FORMAT, "machine": self.machine, "runs": self.runs, "records": self.records,
            "figures": {
                PLURAL[kind]: {**figure._asdict(), "percent": figure.percent}
                for kind, figure in self.figures.items()
            },
            "items": [one.to_dict() for one in self.covered],
            "beside": dict(self.beside), "passed": list(self.skipped_runs),
            "inside": [one.to_dict() for one in self.inside],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Coverage:
        """Read what `to_dict` wrote. `SetupError` for anything else."""
        try:
            if data["format"] != FORMAT:
                raise SetupError(f"a coverage of another format: `{data['format']}`")
            covered = tuple(Covered.from_dict(one) for one in data["items"])
            beside = {str(k): int(n) for k, n in data["beside"].items()}
            return cls(
                str(data["machine"]), covered, int(data["runs"]), int(data["records"]), beside,
                tuple(map(cls.from_dict, data.get("inside", ()))),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_coverage(error) from None

    def frame(self) -> Any:
        """A pandas frame with a row for each item."""
        rows = [{"key": c.item.key, **c.item._asdict(), "times": c.times} for c in self.covered]
        return frame(rows, "key")

    # display --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        figures = ", ".join(f"{figure} {PLURAL[kind]}" for kind, figure in self.figures.items())
        runs = say_count(self.runs, "run")
        return f"<Coverage of {self.machine} by {runs}: {figures}>"

    WIDEST: ClassVar[int] = 110

    def parts(self) -> Iterator[Part]:
        """The figures and the items not seen; with child machines, a line for each machine."""
        return _parts((self, *self.inside))

    @property
    def title(self) -> str:
        """The machine, its runs and records: ``team (machines/team.yaml): 14 runs, 96 records``."""
        runs, records = say_count(self.runs, "run"), say_count(self.records, "record")
        where = f" ({self.file})" if self.file else ""
        return f"{self.machine}{where}: {runs}, {records}"

    def draw(self, *, rules: RuleDrawing = "box") -> HeatPicture:
        """The machine's picture, coloured by how often runs have been where.

        `SetupError` for a coverage that was read back: add it to ``coverage(machine)``.
        """
        if self.chart is None:
            hint = "`coverage(machine) + coverage` is one that can be"
            raise SetupError("a coverage that was read back cannot be drawn", hint=hint)
        return HeatPicture(flowchart(graph(self.chart), rules=rules), self.covered)


def coverage_lines(coverages: Sequence[Coverage], width: int = Coverage.WIDEST) -> list[Line]:
    """The full table of one machine; for several a summary, then the items that each lacks."""
    return text_lines(_parts(coverages), width)


def _parts(coverages: Sequence[Coverage]) -> Iterator[Part]:
    if not coverages:
        yield Line("no machine was run", "dim")
    elif len(coverages) == 1:
        (one,) = coverages
        rows: list[Row] = []
        for kind, figure in one.figures.items():
            share = f"{figure.percent:g} %"
            rows.append(Row((_WORDS[kind], str(figure), share), _colour(figure)))
            for role, part in one.roles(kind).items() if kind in ("edge", "rule") else ():
                if role in _ROLES:
                    cells = (f"  {_ROLES[role]}", str(part), f"{part.percent:g} %")
                    rows.append(Row(cells, "dim"))
        yield from (Line(one.title, "bold"), Table(rows, right={1, 2}), *_missing(one))
    else:
        kinds: list[Kind] = [k for k in KINDS if any(k in one.figures for one in coverages)]
        rows = []
        for one in coverages:
            figures = (one.figures.get(kind) for kind in kinds)
            cells = ("" if f is None else f"{f} {f.percent:g} %" for f in figures)
            edges = one.figures.get("edge")  # to which a threshold applies by default
            colour = "" if edges is None else _colour(edges)
            rows.append(Row((one.machine, f"{one.runs:,}", *cells), colour))
        head = ("machine", "runs", *(PLURAL[kind] for kind in kinds))
        yield Table(rows, head, range(1, len(kinds) + 2))
        for one in coverages:
            if one.missing or one.skipped_runs:
                _, *details = _missing(one)
                yield from (Line(""), Line(one.title, "bold"), *details)


def _missing(coverage: Coverage) -> Iterator[Part]:
    """The items not seen, and notes, each after an empty line."""
    if items := coverage.missing:
        table = Table([*map(_item_row, items)], indent="  ")
        yield from (Line(""), Group(Line("not seen"), [table], f"not seen: {len(items)}"))
    # the reasons that are not in the file: from outside, or added by the engine
    counts = coverage.beside.items()
    reasons = [f"{k.partition(':')[2]} ×{n}" for k, n in counts if k[:7] == "reason:"]
    beside = f"also stopped for {', '.join(reasons)}" if reasons else ""
    for note in filter(None, (beside, *coverage.skipped_runs)):
        yield from (Line(""), Line(note, "dim"))


def _colour(figure: Figure) -> str:
    return "green" if figure.seen == figure.all else "yellow" if figure.percent >= 80 else "red"


def _item_row(one: Covered) -> Row:
    """An item: kind, place, id, and what the file says of it."""
    item = one.item
    match item.kind:
        case "rule":
            does = f"{item.role}: {item.reason}" if item.reason else ""
            to = "" if does and "-" in item.to else item.to  # an end that the engine adds
            text = f"{item.text} → {', '.join(part for part in (does, to) if part)}"
        case "edge":
            text = f"{item.text} → {item.to}".lstrip() if item.to else item.text
        case "atom" | "guard":
            text = f"never {str(item.way).lower()}: {item.text}"
        case "reason":
            text = f"raised by {item.text}"
        case "child":
            text = f"runs {item.to}"
        case _:
            text = item.text
    # ``machine.yaml:12``; of an absolute path only the name: the heading has the path
    place = item.place.rpartition("/")[2] if item.place.startswith("/") else item.place
    cells = ((item.kind, "dim"), (place, "dim"), (item.id, "code"), (text, "code"))
    return Row(tuple(Cell(*cell) for cell in cells))


def _no_coverage(error: Exception) -> SetupError:
    hint = "`chartloop coverage MACHINE --save FILE` writes one"
    return SetupError(f"this is not a coverage: {type(error).__name__} {error}", hint=hint)


def total(coverages: Iterable[Coverage]) -> tuple[Coverage, ...]:
    """Add up the coverages of each machine; machines in the order of their first coverage.

    Different machines of the same name stay apart.
    """
    same: dict[tuple[str, frozenset[tuple[str, str]]], list[Coverage]] = {}
    for one in coverages:
        same.setdefault((one.machine, frozenset(one.meanings.items())), []).append(one)
    return tuple(reduce(add, group) for group in same.values())


def to_json(coverages: Iterable[Coverage]) -> str:
    """Write coverages as the text of a file that `from_json` reads."""
    data = {"format": FORMAT, "machines": [one.to_dict() for one in coverages]}
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def from_json(text: str) -> tuple[Coverage, ...]:
    """Read what `to_json` wrote. `SetupError` for anything else."""
    try:
        data: Any = json.loads(text)
        return tuple(Coverage.from_dict(one) for one in data["machines"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise _no_coverage(error) from None


def wanted_of(texts: Iterable[str]) -> dict[Kind, float]:
    """Read thresholds as written on a command line: ``90`` (of the edges), ``atoms=80``.

    Percentages by kind. `SetupError` for anything else.
    """
    kinds: dict[str, Kind] = {word: kind for kind, word in PLURAL.items()}
    out: dict[Kind, float] = {}
    for text in texts:
        word, sign, number = text.rpartition("=")
        name = word.strip() if sign else "edges"
        try:
            percent = float(number.strip().removesuffix("%"))
        except ValueError:
            percent = -1.0
        if name not in kinds:
            raise SetupError(f"nothing called `{name}` is covered", hint=nearest(name, kinds))
        if not 0 <= percent <= 100:
            raise SetupError(f"`{text}` is not a percentage", hint="write 100, or atoms=80")
        out[kinds[name]] = percent
    return out
