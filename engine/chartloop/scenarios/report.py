"""The report of a played scenario, which shows where it failed.

    tests/adds.scenario.yaml failed:

    reason  (tests/adds.scenario.yaml:9:12)
        expected    got
      ≠ completed   steps_limit

    The last decision: record 12, step 11 at `tool_call`
      rule rules.0  run.steps >= limits.steps (10 against 10)  → done

Each difference names its place in the scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chartloop.api import Run
from chartloop.core.errors import ChartloopError, SpecError, count_findings
from chartloop.core.reports import Part, Report
from chartloop.core.text_table import Line, Span
from chartloop.machine.explain import Row
from chartloop.run.result import Result
from chartloop.scenarios.model_requests import Request


@dataclass(frozen=True)
class ScenarioReport:
    """The result of playing a scenario."""

    name: str
    passed: bool
    problems: tuple[str, ...] = ()
    """The differences, each with its place and both sides."""
    result: Result | None = None
    """None if the run could not start."""
    run: Run | None = field(default=None, repr=False)
    requests: tuple[Request, ...] = field(default=(), repr=False)
    """The model requests, call by call; empty if another model replaced the script."""

    def __str__(self) -> str:
        if self.passed:
            return f"{self.name} passed"
        parts = [f"{self.name} failed:", *self.problems]
        if self.result is not None:
            parts.append(self.result.explain())
        if self.run is not None and (decision := last_decision(self.run)):
            parts.append(decision)
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Played(Report):
    """The result of a scenario file, which may itself be faulty."""

    file: str
    passed: bool
    problems: tuple[str, ...]
    text: str
    """The whole failure, for people; empty if it passed."""

    @classmethod
    def of(cls, file: str, report: ScenarioReport) -> Played:
        """The result of a file that could be played."""
        text = "" if report.passed else str(report)
        return cls(file, report.passed, report.problems, text)

    @classmethod
    def faulty(cls, file: str, error: ChartloopError) -> Played:
        """The result of a file that could not be played: it, or its machine, has faults."""
        if not isinstance(error, SpecError):
            return cls(file, False, (str(error),), str(error))
        findings = tuple(finding.render() for finding in error.findings)
        return cls(file, False, findings, "\n".join([*findings, count_findings(error.findings)]))

    def parts(self, *, same_as: str = "") -> Iterator[Part]:
        """The file and its failure, or a reference to `same_as`, a file with the same failure."""
        sign = Span("✓", "green") if self.passed else Span("✗", "red")
        yield Line.of(sign, f" {self.file}")
        if not self.passed:
            text = f"as {same_as}" if same_as else self.text
            yield from (Line(f"    {line}".rstrip()) for line in text.split("\n"))
            yield Line("")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop test --format json` prints it."""
        return {"file": self.file, "passed": self.passed, "problems": list(self.problems),
                "text": self.text}  # fmt: skip


def played_lines(played: Iterable[Played]) -> list[Line]:
    """The result of each file, equal failures only once, and the counts."""
    lines: list[Line] = []
    first: dict[str, str] = {}
    passed = failed = 0
    for one in played:
        earlier = first.setdefault(one.text, one.file)
        lines += one.lines(same_as="" if earlier == one.file else earlier)
        passed, failed = passed + one.passed, failed + (not one.passed)
    count = f"{passed} passed" + (f", {failed} failed" if failed else "")
    return [*lines, Line(count, "red" if failed else "green")]


class ScenarioFailed(AssertionError):
    """A scenario failed; `report` has the differences."""

    def __init__(self, report: ScenarioReport) -> None:
        self.report = report
        super().__init__(str(report))


def last_decision(run: Run) -> str:
    """The newest decision of a run: each rule and edge that was evaluated, and those taken."""
    records = run.records
    if not records:
        return ""
    last = records[-1]
    why = run.why(last.seq)
    done = f"{last.kind} {last.input.event}".strip()
    to = f" to `{last.next}`" if last.next != last.state else ""
    head = f"The last decision: record {last.seq}, {done} at `{last.state}`{to}"
    return "\n".join([head, *_table(why.rows)])


def _table(rows: tuple[Row, ...]) -> Iterator[str]:
    width = max((len(r.id) for r in rows), default=0)
    for row in rows:
        mark = "→" if row.taken else " "
        held = {True: "holds", False: "no", None: ""}[row.holds]
        values = "; ".join(f"{a.left} against {a.right}" for a in row.atoms if a.right)
        text = f"{row.text} ({values})" if values else row.text
        to = f" → {row.to}" if row.taken else ""
        yield f"  {mark} {row.id:{width}}  {held:5}  {text}{to}".rstrip()
