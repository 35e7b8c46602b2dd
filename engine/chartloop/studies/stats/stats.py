"""Figures over many runs of one machine, as a table, as data, and as plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from chartloop.api.machine import Machine
from chartloop.core.phase import DONE, FAILED, LIMITED, STOPPED, WAITING
from chartloop.core.reports import Group, Part, Report, Table
from chartloop.core.text_table import Line, Row
from chartloop.core.units import say_count, say_elapsed, say_number
from chartloop.core.visible import cut
from chartloop.machine.build import Chart
from chartloop.pictures.flowchart import printable
from chartloop.run.dataframe import frame
from chartloop.run.recorded import Recorded, RecordedRun, Unread
from chartloop.studies.format import percent, say_usd
from chartloop.studies.recorded_runs import Runs, recorded_runs
from chartloop.studies.stats import stats_plots as plots
from chartloop.studies.stats.figures import TOTALS, Figures
from chartloop.studies.stats.gather import Gathering
from chartloop.studies.whatif.verdict import BROKEN
from chartloop.studies.whatif.whatif import older_charts

CELLS = 12
"""Width of a bar, in characters."""
_KINDS = {
    "natural": DONE.ink, "error": FAILED.ink, "limit": LIMITED.ink, "human": STOPPED.ink,
    "waiting": WAITING.ink,
}  # fmt: skip
_WORDS = {
    "steps": "steps", "llm_calls": "model calls", "tool_calls": "tool calls", "tokens": "tokens",
    "usd": "USD", "elapsed": "from start to end", "working": "in actions", "waiting": "waiting",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Stats(Report, Figures):
    """Statistics of many recorded runs of one machine; prints as tables.

    Times in seconds, cost in USD. Shares of limits: value over bound, 1 where it is reached.
    """

    @classmethod
    def of(cls, name: str, runs: Gathering, unread: Sequence[Unread] = ()) -> Stats:
        """Make the statistics of gathered runs."""
        return cls(
            name, runs.runs, runs.reasons(), runs.totals(), runs.states(), runs.margins(),
            runs.failures(), tuple(runs.unfolded), tuple(unread),
        )  # fmt: skip

    # as data --------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop stats --format json` prints it."""
        return {
            "machine": self.machine, "runs": self.runs,
            "reasons": [r._asdict() for r in self.reasons],
            "totals": {name: dist.to_dict() for name, dist in self.totals.items()},
            "states": [s.to_dict() for s in self.states],
            "margins": [m.to_dict() for m in self.margins],
            "failures": [f._asdict() for f in self.failures],
            "unfolded": list(self.unfolded), "unread": [one._asdict() for one in self.unread],
        }  # fmt: skip

    def rows(self) -> Iterator[tuple[str, str, str, str, float]]:
        """Yield a row for each figure: machine, table, row, measure, value."""
        for table_name, row, measure, value in self._figures():
            yield self.machine, table_name, row, measure, value

    def _figures(self) -> Iterator[tuple[str, str, str, float]]:
        for reason in self.reasons:
            yield "reason", reason.reason or "(not ended)", "runs", reason.runs
        for name, dist in self.totals.items():
            for measure, value in dist.to_dict().items():
                yield "run", name, measure, value
        for state in self.states:
            for name in ("runs", "actions", "failed", "retries", "calls"):
                yield "state", state.state, name, getattr(state, name)
            for name in ("time", "tokens", "usd", "waits"):
                for measure, value in getattr(state, name).to_dict().items():
                    yield "state", state.state, f"{name}.{measure}", value
        for margin in self.margins:
            yield "margin", margin.text, "stopped", margin.stopped
            for name in ("end", "peak"):
                for measure, value in getattr(margin, name).to_dict().items():
                    yield "margin", margin.text, f"{name}.{measure}", value
        for failure in self.failures:
            row = f"{failure.state} {failure.category} {failure.what}".strip()
            yield "failure", row, "times", failure.times
            yield "failure", row, "runs", failure.runs

    def frame(self) -> Any:
        """A pandas frame with a row for each state; `frame_of` has the other tables."""
        return self.frame_of("states")

    def frame_of(self, name: str) -> Any:
        """A table as a pandas frame: `states`, `margins`, `reasons`, `failures` or `totals`."""
        keys = {"states": "state", "margins": "margin", "reasons": "reason", "failures": "state"}
        if name == "totals":
            return frame([{"of": n, **d.to_dict()} for n, d in self.totals.items()], "of")
        lines: list[dict[str, Any]] = self.to_dict()[name]
        rows = [_flat(row) for row in lines]
        if name == "margins":
            rows = [{"margin": m.text, **row} for m, row in zip(self.margins, rows, strict=True)]
        return frame(rows, keys[name])

    # in words -------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """The machine and the number of runs."""
        return f"{self.machine}: {say_count(self.runs, 'run')}"

    def parts(self) -> Iterator[Part]:
        """The tables, each under its title; a notebook folds all but the first two."""
        yield Line(self.title, "bold")
        for number, (title, table) in enumerate(self._tables()):
            yield from (Line(""), Group(title, [table], folded=title if number > 1 else ""))
        if self.unfolded:
            count = say_count(len(self.unfolded), "run")
            yield Line("", "dim")
            yield Line(
                f"{count} cannot be decided again as recorded, or have actions that are not known "
                "here: their margins are left out",
                "dim",
            )

    def _tables(self) -> Iterator[tuple[str, Table]]:
        if not self.runs:
            return
        most = max(r.runs for r in self.reasons)
        reasons = [
            Row((r.reason or "not ended", str(r.runs), percent(r.share), bar(r.runs / most)),
                _KINDS.get(r.kind, ""))
            for r in self.reasons
        ]  # fmt: skip
        yield "why runs stop", Table(reasons, ("", "runs", "share", ""), {1, 2})
        totals = [
            Row((_WORDS[name], _say(name, d.median), _say(name, d.p95), _say(name, d.most),
                 _say(name, d.total)))
            for name, d in self.totals.items() if d.total
        ]  # fmt: skip
        yield "a run", Table(totals, ("", "median", "95%", "most", "together"), range(1, 5))
        if states := [*self._state_rows()]:
            head = (
                "", "n", "failed", "retries", "median", "95%", "time", "", "tokens", "USD",
                "waited",
            )  # fmt: skip
            yield "states", Table(states, head, {*range(1, 11)} - {7}, spare=(7, 3, 5))
        if margins := [*self._margin_rows()]:
            head = ("", "bound", "end", "peak", "95%", "most", "", "")
            title = "how near runs come to each limit (medians; and of the peaks 95% and the most)"
            yield title, Table(margins, head, range(1, 6), spare=(6, 2, 3))
        if failures := [
            Row((f.state, f.category, printable(f.what), str(f.times), str(f.runs),
                 _first_words(f.message)), "red")
            for f in self.failures[:_FAILURES]
        ]:  # fmt: skip
            head = ("at", "category", "what", "n", "runs", "the first of them")
            yield "failures", Table(failures, head, {3, 4}, spare=(5,))

    def _state_rows(self) -> Iterator[Row]:
        longest = max((s.time.total for s in self.states), default=0.0)
        for s in self.states:
            share = s.time.total / longest if longest else 0.0
            timed = s.actions > 0
            yield Row((
                s.state, f"{s.actions if timed else s.waits.n:,}", str(s.failed or ""),
                str(s.retries or ""), say_elapsed(s.time.median) if timed else "",
                say_elapsed(s.time.p95) if timed else "",
                say_elapsed(s.time.total) if timed else "", bar(share) if timed else "",
                f"{int(s.tokens.total):,}" if s.tokens.total else "",
                say_usd(s.usd.total) if s.usd.n else "",
                say_elapsed(s.waits.total) if s.waits.total else "",
            ))  # fmt: skip

    def _margin_rows(self) -> Iterator[Row]:
        for m in self.margins:
            colour = "yellow" if m.stopped else "dim" if m.says else ""
            few = len(m.values) <= _VALUES
            values = ", ".join(m.values) if few else f"{len(m.values)} values"
            yield Row((
                m.text, values, percent(m.end.median), percent(m.peak.median),
                percent(m.peak.p95), percent(m.peak.most), bar(min(1.0, m.peak.p95)), m.says,
            ), colour)  # fmt: skip

    def __repr__(self) -> str:
        return f"<Stats of {self.title}>"

    # as plots -------------------------------------------------------------------------------

    def plot(self, path: str | Path | None = None) -> Any:
        """Plot the statistics.

        Without a path, returns a matplotlib figure, which a notebook shows. With one, returns the
        files that it wrote: a ``.svg`` or ``.png`` with all plots on one page; any other path is a
        folder with a file for each plot. Needs the extra `plots`.
        """
        return plots.figure(self) if path is None else plots.save(self, Path(path))


_VALUES = 2
"""A limit with more values than this is listed with their number."""
_FAILURES = 12
"""How many kinds of failures are listed."""


def bar(share: float) -> str:
    """A share as a bar of `CELLS` cells; any share above 0 shows at least one."""
    full = round(share * CELLS)
    return "█" * max(full, 1 if share > 0 else 0)


def _say(name: str, value: float) -> str:
    if TOTALS[name] == "s":
        return say_elapsed(value)
    return say_usd(value) if name == "usd" else say_number(round(value))


def _first_words(message: str) -> str:
    text = " ".join(printable(message).split())
    return cut(text, _MESSAGE)


_MESSAGE = 60
"""Maximum length of a message in a table."""


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            out |= {f"{name}.{key}": part for key, part in inner.items()}
        else:
            out[name] = value
    return out


# gathering ------------------------------------------------------------------------------------


def stats(machine: Machine, runs: Runs) -> Stats:
    """Compute stop reasons, time and cost of each state, margins to each limit, and failures.

        stats(load("agent"), ".chartloop/journal.db").plot("stats.svg")

    `runs` are a journal or its path, runs, exported ``.jsonl`` files, or a list of these.
    """
    return stats_of(machine, recorded_runs(runs, machine.name))


def stats_of(
    machine: Machine, runs: Iterable[Recorded], tick: Callable[[], object] | None = None
) -> Stats:
    """The statistics of this machine's runs, each folded by the machine that it started with."""
    chart, unread = machine.chart, list[Unread]()
    older = older_charts(chart)

    def chart_of(run: RecordedRun) -> Chart:
        same = not run.machine or run.machine == chart.text
        return chart if same else older(run.machine) or chart

    gathering = Gathering(chart, chart_of)
    for run in runs:
        if isinstance(run, Unread):
            unread.append(run)
        elif run.row.machine != machine.name:
            name = run.row.machine
            unread.append(Unread(run.run_id, f"it is a run of `{name}`, not of `{machine.name}`"))
        else:
            try:
                gathering.add(run)
            except BROKEN as error:
                why = f"its records cannot be counted: {type(error).__name__}: {error}"
                unread.append(Unread(run.run_id, why))
        if tick is not None:
            tick()
    return Stats.of(machine.name, gathering, unread)


_COLUMNS = ("machine", "table", "row", "measure", "value")


def csv_text(all_stats: Iterable[Stats]) -> str:
    """Write the figures of these machines as CSV, with a head and a line for each figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in all_stats:
        writer.writerows([[_csv_cell(cell) for cell in row] for row in one.rows()])
    return text.getvalue()


def _csv_cell(value: str | float) -> str | float:
    """Escape a cell so that spreadsheets do not run it: names come from files and models."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
