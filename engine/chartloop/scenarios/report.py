"""What a scenario came to, in words that show where it went wrong.

    tests/adds.scenario.yaml failed:

    reason  (tests/adds.scenario.yaml:9:12)
        expected    got
      ≠ completed   steps_limit

    The last decision: record 12, step 11 at `tool_call`
      rule rules.0  run.steps >= limits.steps (10 against 10)  → done

Each line names its place in the scenario.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chartloop.api import Run
from chartloop.core.errors import ChartloopError, SpecError, count_findings
from chartloop.core.text_table import Line, Span
from chartloop.machine.explain import Row
from chartloop.run.result import Result
from chartloop.scenarios.model_requests import Request


@dataclass(frozen=True)
class ScenarioReport:
    """How a scenario went."""

    name: str
    passed: bool
    problems: tuple[str, ...] = ()
    """What was not as expected; each says what, where, and both sides."""
    result: Result | None = None
    """None when the run could not be started."""
    run: Run | None = field(default=None, repr=False)
    requests: tuple[Request, ...] = field(default=(), repr=False)
    """What the model was asked, call by call; empty when it was another model than the script."""

    def __str__(self) -> str:
        if self.passed:
            return f"{self.name} passed"
        parts = [f"{self.name} failed:", *self.problems]
        if self.result is not None:
            parts.append(self.result.explain())
        if self.run is not None and (said := last_decision(self.run)):
            parts.append(said)
        return "\n\n".join(parts)


@dataclass(frozen=True)
class Played:
    """How the scenario of one file went, also where the file itself has a fault."""

    file: str
    passed: bool
    problems: tuple[str, ...]
    text: str
    """Everything about a failure, for people."""

    @classmethod
    def of(cls, file: str, report: ScenarioReport) -> Played:
        """The scenario of a file that could be played."""
        text = "" if report.passed else str(report)
        return cls(file, report.passed, report.problems, text)

    @classmethod
    def faulty(cls, file: str, error: ChartloopError) -> Played:
        """A file that could not be played, or the machine that it names."""
        if not isinstance(error, SpecError):
            return cls(file, False, (str(error),), str(error))
        findings = tuple(finding.render() for finding in error.findings)
        return cls(file, False, findings, "\n".join([*findings, count_findings(error.findings)]))

    def lines(self, width: int = 0, *, same_as: str = "") -> list[Line]:
        """The file and what went wrong. `same_as` names a file that failed in the same words.

        Sentences, of any width.
        """
        if self.passed:
            return [Line.of(Span("✓", "green"), f" {self.file}")]
        text = f"as {same_as}" if same_as else self.text
        lines = (Line(f"    {line}".rstrip()) for line in text.split("\n"))
        return [Line.of(Span("✗", "red"), f" {self.file}"), *lines, Line("")]

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `chartloop test --format json` prints of a file."""
        return {"file": self.file, "passed": self.passed, "problems": list(self.problems),
                "said": self.text}  # fmt: skip


def played_lines(played: Iterable[Played]) -> list[Line]:
    """How each file went, the same failure told once, and how many there are of both."""
    lines: list[Line] = []
    first: dict[str, str] = {}
    passed = failed = 0
    for one in played:
        told_by = first.setdefault(one.text, one.file)
        lines += one.lines(same_as="" if told_by == one.file else told_by)
        passed, failed = passed + one.passed, failed + (not one.passed)
    count = f"{passed} passed" + (f", {failed} failed" if failed else "")
    return [*lines, Line(count, "red" if failed else "green")]


class ScenarioFailed(AssertionError):
    """A scenario was not met. `report` says how."""

    def __init__(self, report: ScenarioReport) -> None:
        self.report = report
        super().__init__(str(report))


def last_decision(run: Run) -> str:
    """The newest decision of a run: what was taken, and every rule and edge looked at."""
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
        message = f"{row.text} ({values})" if values else row.text
        to = f" → {row.to}" if row.taken else ""
        yield f"  {mark} {row.id:{width}}  {held:5}  {message}{to}".rstrip()
