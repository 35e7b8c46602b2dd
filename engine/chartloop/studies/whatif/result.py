"""The results of a what-if: the verdict on each run, the totals, and how much of them is sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chartloop.core.reports import Note, Part, Report, Table, more
from chartloop.core.text_table import Line, Row
from chartloop.core.units import say_count, say_elapsed
from chartloop.core.visible import cut
from chartloop.machine.transition_table import ENGINE_ENDS
from chartloop.pictures.flowchart import printable
from chartloop.run.dataframe import frame
from chartloop.run.recorded import Unread
from chartloop.studies.format import percent, say_usd
from chartloop.studies.whatif.verdict import RunVerdict, Spending, Verdict, total

_NAMED = 4
"""How many states a sentence names."""
LISTED = 10
"""Default number of changed runs that are listed."""
_COLOURS: Mapping[Verdict, str] = {
    Verdict.SAME: "", Verdict.EARLIER: "yellow", Verdict.OTHERWISE: "yellow",
    Verdict.ELSEWHERE: "cyan", Verdict.LATER: "green", Verdict.UNKNOWN: "dim",
}  # fmt: skip
_HEAD = ("verdict", "runs", "share", "calls", "tokens", "USD", "waited", "answers lost")
_RIGHT = {1, 2, 3, 4, 5, 6, 7}
_RUNS = ("run", "record", "now", "was", "saved", "answer")


@dataclass(frozen=True, repr=False)
class WhatIf(Report):
    """Recorded runs under other limits, or under another file; prints as a table.

    Savings and losses count only the runs whose end is sure. Of the others, the part up to the
    first difference is known.
    """

    machine: str
    limits: Mapping[str, str]
    """The limits of the question, formatted."""
    runs: tuple[RunVerdict, ...]
    unread: tuple[Unread, ...] = ()
    """The runs that could not be judged, each with the reason."""
    assumed: int = 0
    """The number of runs without a recorded machine, whose actions are assumed to be this one's."""

    def of(self, *verdicts: Verdict) -> tuple[RunVerdict, ...]:
        """The runs with one of these verdicts."""
        return tuple(run for run in self.runs if run.verdict in verdicts)

    @property
    def changes(self) -> tuple[RunVerdict, ...]:
        """The runs that are decided differently, or may be."""
        return tuple(run for run in self.runs if run.changes)

    @property
    def lost(self) -> tuple[RunVerdict, ...]:
        """The runs that came to their natural end, and now would not."""
        return tuple(run for run in self.runs if run.lost)

    @property
    def won(self) -> tuple[RunVerdict, ...]:
        """The runs that were stopped, and now would end naturally."""
        return tuple(run for run in self.runs if run.won)

    @property
    def at_risk(self) -> tuple[RunVerdict, ...]:
        """The runs that came to their natural end, and may not do so again."""
        return tuple(run for run in self.runs if run.at_risk)

    @property
    def savings(self) -> Spending:
        """The savings of the runs whose end is sure."""
        return total(run.saved for run in self.runs)

    @property
    def sure(self) -> float:
        """The share of the runs whose end is sure; 1 without runs."""
        return _share(sum(run.verdict.sure for run in self.runs), len(self.runs))

    @property
    def known_share(self) -> float:
        """The share of all records whose decision is known."""
        return _share(sum(r.known_records for r in self.runs), sum(r.records for r in self.runs))

    @property
    def title(self) -> str:
        """The question, and the number of runs that change."""
        if not self.runs:
            return f"{self.question}: no runs of {self.machine}"
        return (
            f"{self.question}: {len(self.changes)} of {_runs(self.runs)} of {self.machine} change"
        )

    @property
    def question(self) -> str:
        """The question: ``what if steps=8``."""
        limits = ", ".join(f"{name}={value}" for name, value in self.limits.items())
        return f"what if {limits}" if limits else "what if it had been this machine"

    def frame(self) -> Any:
        """A pandas frame with a row for each run, indexed by its id."""
        rows = (
            {**run.to_dict(), **run.saved._asdict(), "records": run.records} for run in self.runs
        )
        return frame([{n: v for n, v in row.items() if n != "saved"} for row in rows], "run_id")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop whatif --format json` prints it."""
        return {
            **self.sums(),
            "runs": [run.to_dict() for run in self.runs],
            "unread": [one._asdict() for one in self.unread],
        }

    def sums(self) -> dict[str, Any]:
        """The plain data without the single runs."""
        return {
            "machine": self.machine, "limits": dict(self.limits),
            "verdicts": {str(v): len(self.of(v)) for v in Verdict},
            "saved": self.savings._asdict(), "lost": [run.run_id for run in self.lost],
            "won": [run.run_id for run in self.won],
            "at_risk": [run.run_id for run in self.at_risk], "assumed": self.assumed,
            "sure": self.sure, "known": self.known_share,
        }  # fmt: skip

    # in words -------------------------------------------------------------------------------

    def parts(self, listed: int = LISTED) -> Iterator[Part]:
        """The table by verdict, the first changed runs, and the sure part."""
        yield Line(self.title, "bold")
        if not self.runs:
            return
        optional = range(len(_HEAD))
        yield Line("")
        yield Table([*self._by_verdict()], _HEAD, _RIGHT, spare=(6, 2), optional=optional)
        # first those that lose an answer, then those that save most
        worst = sorted(
            self.changes, key=lambda run: (not run.lost, not run.at_risk, -run.saved.tokens)
        )
        if listed and worst:
            rows = [Row(_cells(run), _COLOURS[run.verdict]) for run in worst]
            changed = Table(rows, _RUNS, {1}, spare=(3, 4), optional=optional)
            yield from (Line(""), changed._replace(rows=rows[:listed]))
            if rest := rows[listed:]:
                text = f"and {say_count(len(rest), 'more run')} that change"
                yield from more(Line(text, "dim"), [changed._replace(rows=rest)])
        yield Line("")
        yield from map(Note, self.words())

    def words(self) -> Iterator[str]:
        """The sure part, the savings and the losses, in sentences."""
        sure = sum(run.verdict.sure for run in self.runs)
        yield (
            f"sure of the end of {sure} of {_runs(self.runs)} ({percent(self.sure)}), "
            f"and of {percent(self.known_share)} of their records"
        )
        if beyond := self._beyond():
            yield f"what comes next was never recorded: {beyond}"
        if self.of(Verdict.EARLIER, Verdict.OTHERWISE):
            yield f"saved for sure: {_format_spending(self.savings)}"
        if any(run.epilogue for run in self.runs):
            yield "a report or the like after a stop is taken to cost what it did, or nothing"
        if self.lost:
            yield f"answers lost: {len(self.lost)}"
        if self.won:
            yield f"answers won: {len(self.won)}"
        if self.at_risk:
            yield f"answers that may be lost: {len(self.at_risk)}"
        if self.assumed:
            yield (
                f"the machine of {say_count(self.assumed, 'run')} was not kept: its actions are "
                "taken to be those of this file"
            )

    def _beyond(self) -> str:
        """The states where the records of unsure runs end, the most frequent first."""
        unsure = self.of(Verdict.ELSEWHERE, Verdict.LATER)
        states = Counter(run.state for run in unsure).most_common()
        parts = [f"{say_count(n, 'run')} at {printable(state)}" for state, n in states[:_NAMED]]
        rest = sum(n for _, n in states[_NAMED:])
        return ", ".join([*parts, *([f"{rest:,} elsewhere"] if rest else [])])

    def _by_verdict(self) -> Iterator[Row]:
        for verdict in Verdict:
            if not (runs := self.of(verdict)):
                continue
            saved = total(run.saved for run in runs)
            savings = (
                _less(saved.llm_calls + saved.tool_calls), _less(saved.tokens),
                f"−{say_usd(saved.usd)}" if saved.usd else "",
                f"−{say_elapsed(saved.waiting)}" if saved.waiting else "",
            ) if verdict.sure else ("",) * 4  # fmt: skip
            lost = sum(run.lost for run in runs)
            risk = sum(run.at_risk for run in runs)
            answers = str(lost) if lost else f"{risk} may be" if risk else ""
            share = percent(_share(len(runs), len(self.runs)))
            yield Row((str(verdict), str(len(runs)), share, *savings, answers), _COLOURS[verdict])

    def __repr__(self) -> str:
        return f"<WhatIf {self.title}, {percent(self.sure)} sure>"


_SWEEP = ("same", "earlier", "otherwise", "elsewhere", "goes on", "unknown")
_SWEEP_HEAD = ("", *_SWEEP, "tokens saved", "USD saved", "answers lost", "won", "sure")


@dataclass(frozen=True, repr=False)
class Sweep(Report):
    """Recorded runs under many values of one limit; prints as a table with a row for each value."""

    limit: str
    points: tuple[WhatIf, ...]

    def frame(self) -> Any:
        """A pandas frame with a row for each value."""
        rows = [
            {
                self.limit: p.limits[self.limit], **{str(v): len(p.of(v)) for v in Verdict},
                **p.savings._asdict(), "lost": len(p.lost), "won": len(p.won),
                "at_risk": len(p.at_risk), "sure": p.sure, "known": p.known_share,
            }
            for p in self.points
        ]  # fmt: skip
        return frame(rows, self.limit)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop whatif --format json` prints it, without single runs."""
        first = self.points[0]
        return {
            "machine": first.machine, "sweep": self.limit,
            "points": [point.sums() for point in self.points],
            "unread": [one._asdict() for one in first.unread],
        }  # fmt: skip

    def _rows(self) -> Iterator[Row]:
        for point in self.points:
            counts = (str(len(point.of(v)) or "·") for v in Verdict)
            savings, lost = point.savings, len(point.lost)
            answers = f"{lost}" if lost else "·"
            if point.at_risk:
                answers += f" to {lost + len(point.at_risk)}"
            tokens = f"{savings.tokens:,}" if savings.tokens else "·"
            value = f"{self.limit}={point.limits[self.limit]}"
            usd = "·" if not savings.usd else say_usd(savings.usd)
            won = str(len(point.won) or "·")
            yield Row((value, *counts, tokens, usd, answers, won, percent(point.sure)))

    @property
    def title(self) -> str:
        """The question, and the number of runs."""
        first = self.points[0]
        fixed = ", ".join(f"{n}={v}" for n, v in first.limits.items() if n != self.limit)
        beside = f", with {fixed}" if fixed else ""
        return f"{self.limit} of {first.machine}, over {_runs(first.runs)}{beside}"

    def parts(self, listed: int = 0) -> Iterator[Part]:
        """A row for each value. `listed` is ignored; `WhatIf.parts` uses it."""
        yield Line(self.title, "bold")
        if self.points[0].runs:
            columns = range(1, len(_SWEEP_HEAD))
            rows = [*self._rows()]
            yield from (Line(""), Table(rows, _SWEEP_HEAD, columns, optional=columns[1:]))

    def __repr__(self) -> str:
        return f"<Sweep of {self.title}>"


# cells --------------------------------------------------------------------------------------


def _cells(run: RunVerdict) -> tuple[str, ...]:
    at = "" if run.record is None else str(run.record)
    saved = _spent_briefly(run.saved) if run.verdict.sure else ""
    answer = printable(run.answer or "")
    kept = "" if not answer else f"{'lost: ' if run.lost else ''}{cut(answer, _ANSWER)}"
    return (run.run_id, at, printable(_now(run)), run.was or "not ended", saved, kept)


def _now(run: RunVerdict) -> str:
    match run.verdict:
        case Verdict.EARLIER | Verdict.OTHERWISE:
            at = "" if run.state in ENGINE_ENDS else f" at {run.state}"
            return f"stops for {run.reason}{at}"
        case Verdict.ELSEWHERE:
            return f"goes to {run.state} by {run.edge}" if run.edge else f"stays at {run.state}"
        case Verdict.LATER:
            return f"continues to {run.state}"
        case _:
            return f"unknown: {run.because}"


_ANSWER = 40
"""Maximum length of an answer in a table."""


def _less(count: int) -> str:
    return f"−{count:,}" if count else ""


def _format_spending(saved: Spending) -> str:
    parts = [
        say_count(saved.llm_calls, "model call") if saved.llm_calls else "",
        say_count(saved.tool_calls, "tool call") if saved.tool_calls else "",
        say_count(saved.tokens, "token") if saved.tokens else "",
        f"{say_usd(saved.usd)} USD" if saved.usd else "",
        f"{say_elapsed(saved.working)} of work" if saved.working >= 1 else "",
        f"{say_elapsed(saved.waiting)} of waiting" if saved.waiting else "",
    ]
    text = ", ".join(part for part in parts if part)
    return text or (say_count(saved.actions, "action") if saved.actions else "nothing")


def _spent_briefly(saved: Spending) -> str:
    calls = saved.llm_calls + saved.tool_calls
    parts = [
        say_count(calls, "call") if calls else "",
        f"{say_usd(saved.usd)} USD" if saved.usd else "",
        say_count(saved.tokens, "token") if saved.tokens and not saved.usd else "",
    ]
    return ", ".join(part for part in parts if part) or "–"


def _runs(runs: Iterable[RunVerdict]) -> str:
    return say_count(len(list(runs)), "run")


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
