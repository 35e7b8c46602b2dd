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

from collections.abc import Iterator
from dataclasses import dataclass, field

from chartloop.api import Run
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
        said = f"{row.text} ({values})" if values else row.text
        to = f" → {row.to}" if row.taken else ""
        yield f"  {mark} {row.id:{width}}  {held:5}  {said}{to}".rstrip()
