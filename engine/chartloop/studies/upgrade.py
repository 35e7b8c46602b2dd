"""`upgrade`: whether recorded runs can continue under an edited file, as text, data and tables.

Belongs here: which runs are judged and which are skipped, and how the verdicts are shown.
Never: a verdict (`versions.migration.judge`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from chartloop.analysis.versions.migration.judge import Upgrade
from chartloop.analysis.versions.migration.renames import block
from chartloop.analysis.versions.migration.verdict import COLOURS, KINDS, LABELS, Kind, Verdict
from chartloop.api.continuing import recorded_chart
from chartloop.api.machine import Machine
from chartloop.core.reports import Group, Part, Report, Table, more, pairs
from chartloop.core.text_table import Cell, Line, Row
from chartloop.core.units import say_count, say_some
from chartloop.machine.build import Chart
from chartloop.run.dataframe import frame
from chartloop.run.journal import digest
from chartloop.run.recorded import Recorded, RecordedRun, Unread
from chartloop.studies.recorded_runs import Runs, recorded_runs

FORMAT = 1
"""The version of the JSON shape: fields are added, never renamed."""
NAMED = 8
"""How many runs a heading names."""
LISTED = 20
"""How many runs the table lists, and how many groups follow it: the worst."""
_HEAD = ("verdict", "run", "stands at", "records")


@dataclass(frozen=True)
class Upgraded(Report):
    """The effect of a new file on recorded runs.

    result = upgrade(load("new.yaml"), load("old.yaml"), "journal.db")
    print(result)
    """

    machine: str
    """The new machine's name."""
    verdicts: tuple[Verdict, ...]
    passed_over: tuple[Unread, ...] = ()
    """The runs of other machines, moved ones, and unreadable ones."""
    known: Mapping[str, str] | None = None
    """The new file's `renamed`."""

    @property
    def all_go_on(self) -> bool:
        """Whether every run may continue with the new file as it is."""
        return all(verdict.goes_on for verdict in self.verdicts)

    @property
    def counts(self) -> Mapping[Kind, int]:
        """The number of runs with each verdict."""
        kinds = [verdict.kind for verdict in self.verdicts]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def summary(self) -> str:
        """The summary line: the number of runs, and of each verdict."""
        if not self.verdicts:
            return f"{self.machine}: no recorded runs to judge"
        counts = ", ".join(
            f"{count:,} {_describe_kind(kind, count)}"
            for kind, count in self.counts.items()
            if count
        )
        return f"{self.machine}: {say_count(len(self.verdicts), 'run')}, {counts}"

    @property
    def missing_renames(self) -> Mapping[str, str]:
        """The lines missing under `renamed`. If runs disagree on a state, the first run's."""
        lines: dict[str, str] = {}
        for verdict in self.verdicts:
            lines = {**verdict.renamed, **lines}
        return lines

    @property
    def torn(self) -> tuple[str, ...]:
        """The old states that runs map to different new states."""
        pairs = {pair for verdict in self.verdicts for pair in verdict.renamed.items()}
        names = [old for old, _ in pairs]
        return tuple(sorted({old for old in names if names.count(old) > 1}))

    def map_block(self) -> str:
        """The whole `renamed:` block for the new file; empty if nothing is missing."""
        return block({**(self.known or {}), **self.missing_renames}) if self.missing_renames else ""

    # display --------------------------------------------------------------------------------

    @property
    def by_severity(self) -> list[Verdict]:
        """The verdicts, the worst first; equals in the order of the runs."""
        return sorted(self.verdicts, key=lambda verdict: -KINDS.index(verdict.kind))

    def groups(self) -> Iterator[tuple[list[Verdict], list[tuple[str, str]]]]:
        """The verdicts with equal details, and these details; without the unchanged runs."""
        groups: dict[tuple[Any, ...], list[Verdict]] = {}
        for verdict in self.by_severity:
            if verdict.kind != "unchanged":
                groups.setdefault((verdict.kind, *verdict.details()), []).append(verdict)
        yield from ((group, group[0].details()) for group in groups.values())

    def rows(self) -> list[dict[str, Any]]:
        """Plain data, a dict for each run."""
        return [verdict.to_dict() for verdict in self.verdicts]

    def frame(self) -> Any:
        """A pandas frame with a row for each run."""
        columns = ("run", "verdict", "goes_on", "state", "status", "records", "stops", "why")
        return frame([{name: row[name] for name in columns} for row in self.rows()], "run")

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape; docs/upgrading.md describes it."""
        return {
            "format": FORMAT,
            "machine": self.machine,
            "all_go_on": self.all_go_on,
            "counts": dict(self.counts),
            "renamed": dict(self.missing_renames),
            "runs": self.rows(),
            "passed_over": [{"run": one.run_id, "why": one.why} for one in self.passed_over],
        }

    WIDEST: ClassVar[int] = 120

    def parts(self, listed: int = LISTED, *, skipped: bool = True) -> Iterator[Part]:
        """The summary, the table and the groups of runs, both cut to the first `listed`.

        `skipped`: then the runs that were not judged.
        """
        yield Line(self.summary, "green bold" if self.all_go_on else "bold")
        worst = self.by_severity
        rows = [
            Row(
                (
                    LABELS[v.kind],
                    Cell(v.run_id, "code"),
                    f"{v.state}, {v.status}",
                    f"{v.records:,}",
                ),
                COLOURS[v.kind],
            )
            for v in worst
        ]
        if rows:
            table = Table(rows[:listed], _HEAD, {3})
            yield from (Line(""), table)
            if rest := Counter[Kind](verdict.kind for verdict in worst[listed:]):
                text = ", ".join(f"{n:,} {_describe_kind(kind, n)}" for kind, n in rest.items())
                line = Line(f"and {say_count(rest.total(), 'more run')}: {text}", "dim")
                yield from more(line, [table._replace(rows=rows[listed:])])
        groups: list[Part] = []
        for group, details in self.groups():
            names = say_some([verdict.run_id for verdict in group], NAMED)
            title = f"{LABELS[group[0].kind]}: {names}"
            colour = f"{COLOURS[group[0].kind]} bold"
            groups.append(Group(Line(title, colour), [pairs(details, indent="  ")]))
        for group in groups[:listed]:
            yield from (Line(""), group)
        if rest := groups[listed:]:
            text = f"and {say_count(len(rest), 'more verdict')} with other reasons"
            yield from (Line(""), *more(Line(text, "dim"), rest))
        if count := self.counts["map"]:
            may = "1 more run may" if count == 1 else f"{count:,} more runs may"
            cure = f"{may} continue with the lines under `renamed:` in the new file"
            yield from (Line(""), Line(f"{cure}; --write-map - prints them", "dim"))
        for name in self.torn:
            yield Line(
                f"`{name}` is one state for some runs and another for others: a file can say one"
            )
        if skipped:
            yield from (Line(str(one), "dim") for one in self.passed_over)

    def __repr__(self) -> str:
        return f"<Upgraded {self.summary}>"


def _describe_kind(kind: Kind, count: int) -> str:
    return "need a state map" if kind == "map" and count > 1 else LABELS[kind]


# judging --------------------------------------------------------------------------------------


def upgrade(new: Machine, old: Machine | None, runs: Runs, *, now: float | None = None) -> Upgraded:
    """Judge each recorded run of `old`: unchanged, safe, needs a state map, or unsafe, and why.

        print(upgrade(load("new.yaml"), load("old.yaml"), ".chartloop/journal.db"))

    Every record is decided again by `new`; nothing runs or is written. Without `old`, each run is
    compared with its own machine from the journal. `runs` is a journal or its path, a run, an
    exported ``.jsonl``, or a list of these. Runs of other machines and unreadable ones are in
    `passed_over`. `now`, in seconds since the epoch, is when the runs would continue: time limits
    count up to it. A run continues with `Machine.open(run_id, changed=True)`.
    """
    name = new.name if old is None else old.name
    return judge_runs(
        new.chart, recorded_runs(runs, name), old=None if old is None else old.chart,
        chart_of=partial(recorded_chart, chart=new.chart), now=now,
    )  # fmt: skip


def judge_runs(
    new: Chart, runs: Iterable[Recorded], *, old: Chart | None,
    chart_of: Callable[[str], Chart | None], now: float | None = None,
) -> Upgraded:  # fmt: skip
    """Judge the runs that the old machine started.

    Without `old`, the runs of machines with the name of the new one are judged, each against its
    own machine, which `chart_of` compiles from its recorded text.
    """
    upgrades = _Upgrades(new, old, chart_of)
    verdicts: list[Verdict] = []
    skipped: list[Unread] = []
    for run in runs:
        change = None if isinstance(run, Unread) else upgrades.of(run)
        if isinstance(run, Unread):
            skipped.append(run)
        elif run.row.moved_to:
            skipped.append(Unread(run.run_id, f"it continues as run `{run.row.moved_to}`"))
        elif change is None:
            of = f"`{run.row.machine}` {run.row.machine_hash[:8]}"
            skipped.append(Unread(run.run_id, f"it is of another machine, {of}"))
        else:
            verdicts.append(change.judge(run, now=now))
    return Upgraded(new.name, tuple(verdicts), tuple(skipped), new.spec.renamed)


class _Upgrades:
    """The upgrade that each run is judged by, shared by all runs of one machine."""

    def __init__(
        self, new: Chart, old: Chart | None, chart_of: Callable[[str], Chart | None]
    ) -> None:
        self.new = new
        self.old = old
        self.chart_of = chart_of
        self.hashes = frozenset(digest(chart.text) for chart in (new, old) if chart is not None)
        self.made: dict[str, Upgrade | None] = {}

    def of(self, run: RecordedRun) -> Upgrade | None:
        """The upgrade for a run; None if the run is of another machine."""
        hash = run.row.machine_hash
        if hash not in self.made:
            self.made[hash] = self._make(run)
        return self.made[hash]

    def _make(self, run: RecordedRun) -> Upgrade | None:
        if self.old is not None:
            return Upgrade(self.old, self.new) if run.row.machine_hash in self.hashes else None
        if run.row.machine not in ("", self.new.name):
            return None
        return Upgrade(self.chart_of(run.machine) if run.machine else None, self.new)
