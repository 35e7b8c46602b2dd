"""What a what-if says of one run: its verdict, and what would have been saved or lost."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from chartloop.core.reasons import ResultKind
from chartloop.core.records import Record


class Verdict(StrEnum):
    """What becomes of a recorded run under other limits, or under another file."""

    SAME = "same"
    """Every record is decided as it was."""
    EARLIER = "stops earlier"
    """It stops where it continued."""
    OTHERWISE = "stops otherwise"
    """It stops at the same record, for another reason or by another way."""
    ELSEWHERE = "goes elsewhere"
    """It takes another edge; what happens there was never recorded."""
    LATER = "goes on"
    """It does not stop where it did; what would have come next was never recorded."""
    UNKNOWN = "unknown"
    """A record cannot be decided again; `because` says why."""

    @property
    def sure(self) -> bool:
        """Whether the end of the run is known, and not only the way as far as it was recorded."""
        return self in (Verdict.SAME, Verdict.EARLIER, Verdict.OTHERWISE)


class Spending(NamedTuple):
    """What some records cost. `usd` is None where no price is known; times in seconds."""

    records: int = 0
    actions: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float | None = None
    working: float = 0.0
    """Time in which actions were done."""
    waiting: float = 0.0
    """Time in which the run was paused: for a person, a child, a back-off."""

    def __add__(self, other: object) -> Spending:
        if not isinstance(other, Spending):
            return NotImplemented
        known = [usd for usd in (self.usd, other.usd) if usd is not None]
        return Spending(
            self.records + other.records, self.actions + other.actions,
            self.llm_calls + other.llm_calls, self.tool_calls + other.tool_calls,
            self.tokens + other.tokens, sum(known) if known else None,
            self.working + other.working, self.waiting + other.waiting,
        )  # fmt: skip


BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of records that hold something else than an engine writes."""
NOTHING = Spending()


def total(parts: Iterable[Spending]) -> Spending:
    """The sum."""
    out = NOTHING
    for part in parts:
        out += part
    return out


def spending(records: Iterable[Record], before: Record | None = None) -> Spending:
    """What records cost. `before` is the one before them: the run may have waited since.

    What a child machine spent is in the outcome of its parent's action.
    """
    count = actions = llm = tools = tokens = 0
    usd: float | None = None
    working = waiting = 0.0
    for record in records:
        given, count = record.input, count + 1
        if before is not None and before.status == "paused":
            waiting += max(0.0, (given.started or given.at) - before.input.at)
        before, outcome = record, given.outcome
        if outcome is None:
            continue
        actions, working = actions + 1, working + max(0.0, given.at - given.started)
        spent = outcome.spent
        llm, tokens = llm + spent.llm_calls, tokens + spent.prompt_tokens + spent.completion_tokens
        if spent.tools:
            tools += sum(spent.tools.values())
        if spent.cost is not None:
            usd = (usd or 0.0) + spent.cost
    return Spending(count, actions, llm, tools, tokens, usd, working, waiting)


class RunVerdict(NamedTuple):
    """One recorded run, decided again."""

    run_id: str
    verdict: Verdict
    records: int
    """How many the run has."""
    record: int | None = None
    """The first that is decided differently, or cannot be decided; None when none is."""
    state: str = ""
    """Where the run goes at that record; where it is when the record cannot be decided."""
    reason: str = ""
    """What it stops for there."""
    kind: ResultKind = "waiting"
    """How a run that stops there is counted; ``waiting`` where it does not stop."""
    edge: str = ""
    """The edge or rule by which it goes otherwise."""
    because: str = ""
    """Why nothing is known beyond."""
    was: str = ""
    """What the run was recorded to stop for; empty when it has not ended."""
    was_kind: ResultKind = "waiting"
    saved: Spending = NOTHING
    """What would not have been spent; nothing where the verdict is not sure."""
    epilogue: bool = False
    """After the stop come a report and the like: they are taken to cost what they did."""
    answer: str | None = None
    """The answer's first line, of a run that came to its natural end."""
    note: str = ""

    @property
    def changes(self) -> bool:
        """Whether anything is decided differently, or may be."""
        return self.verdict is not Verdict.SAME

    @property
    def lost(self) -> bool:
        """Whether an answer is lost for sure: it came to its natural end, and now would not."""
        natural = self.was_kind == "natural"
        return natural and self.changes and self.verdict.sure and self.kind != "natural"

    @property
    def won(self) -> bool:
        """Whether an answer is won for sure: it was stopped, and now comes to its natural end."""
        return (
            self.changes and self.kind == "natural" and self.was_kind not in ("natural", "waiting")
        )

    @property
    def at_risk(self) -> bool:
        """Whether it came to its natural end, and no one knows whether it would again."""
        return self.was_kind == "natural" and not self.verdict.sure

    @property
    def known_records(self) -> int:
        """How many of its records are known to be decided as said."""
        return self.records if self.verdict.sure else self.record or 0

    def __str__(self) -> str:
        at = f" at record {self.record}" if self.record is not None else ""
        match self.verdict:
            case Verdict.SAME:
                message = "as it was recorded"
            case Verdict.EARLIER | Verdict.OTHERWISE:
                message = f"{self.verdict}{at}, for `{self.reason}` at `{self.state}`"
            case Verdict.ELSEWHERE:
                way = (
                    f"to `{self.state}` by {self.edge}" if self.edge else f"stays at `{self.state}`"
                )
                message = f"goes elsewhere{at}, {way}: {self.because}"
            case Verdict.LATER:
                way = f"to `{self.state}`, where it stopped for `{self.was}`"
                message = f"goes on{at} {way}: {self.because}"
            case Verdict.UNKNOWN:
                message = f"unknown from record {self.record}: {self.because}"
        return f"{message}; {self.note}" if self.note else message

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop whatif --format json` prints it."""
        return {
            **self._asdict(), "verdict": str(self.verdict), "saved": self.saved._asdict(),
            "sure": self.verdict.sure, "lost": self.lost, "won": self.won, "at_risk": self.at_risk,
        }  # fmt: skip
