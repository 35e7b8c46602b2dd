"""The verdict of a what-if on one run, and the spending that it saves."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from chartloop.core.reasons import ResultKind
from chartloop.core.records import Record


class Verdict(StrEnum):
    """The effect of other limits, or of another file, on a recorded run."""

    SAME = "same"
    """Every record leads where it did, to the same end. A signal more or less is noted."""
    EARLIER = "stops earlier"
    """The run stops where it continued."""
    OTHERWISE = "stops otherwise"
    """The run stops at the same record, for another reason or by another edge."""
    ELSEWHERE = "goes elsewhere"
    """The run takes another edge, after which nothing is recorded."""
    LATER = "goes on"
    """The run continues where it stopped, after which nothing is recorded."""
    UNKNOWN = "unknown"
    """A record cannot be decided again; `because` says why."""

    @property
    def sure(self) -> bool:
        """Whether the end of the run is known, not only its recorded part."""
        return self in (Verdict.SAME, Verdict.EARLIER, Verdict.OTHERWISE)


class Spending(NamedTuple):
    """The cost of some records. `usd` is None if no price is known; times in seconds."""

    records: int = 0
    actions: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd: float | None = None
    working: float = 0.0
    """Time in actions."""
    waiting: float = 0.0
    """Time in pauses: for a person, a child or a back-off."""

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
"""The errors that damaged records may raise."""
NOTHING = Spending()


def total(parts: Iterable[Spending]) -> Spending:
    """Add up spendings."""
    out = NOTHING
    for part in parts:
        out += part
    return out


def spending(records: Iterable[Record], before: Record | None = None) -> Spending:
    """The spending of consecutive records, with that of child machines.

    `before` is the record before them, if any: the run may have waited since.
    """
    count = actions = llm = tools = tokens = 0
    usd: float | None = None
    working = waiting = 0.0
    for record in records:
        input, count = record.input, count + 1
        if before is not None and before.status == "paused":
            waiting += max(0.0, (input.started or input.at) - before.input.at)
        before, outcome = record, input.outcome
        if outcome is None:
            continue
        actions, working = actions + 1, working + max(0.0, input.at - input.started)
        spent = outcome.spent
        llm, tokens = llm + spent.llm_calls, tokens + spent.prompt_tokens + spent.completion_tokens
        if spent.tools:
            tools += sum(spent.tools.values())
        if spent.cost is not None:
            usd = (usd or 0.0) + spent.cost
    return Spending(count, actions, llm, tools, tokens, usd, working, waiting)


class RunVerdict(NamedTuple):
    """The verdict on one recorded run."""

    run_id: str
    verdict: Verdict
    records: int
    """The number of its records."""
    record: int | None = None
    """The first record that is decided differently or cannot be decided; None if there is none."""
    state: str = ""
    """The state that the run enters at that record, or is in if it cannot be decided."""
    reason: str = ""
    """The reason that it stops for there."""
    kind: ResultKind = "waiting"
    """The kind of that stop; ``waiting`` if it does not stop."""
    edge: str = ""
    """The first edge or rule that differs."""
    because: str = ""
    """Why nothing is known after that record."""
    was: str = ""
    """The reason that the recorded run stopped for; empty if it has not ended."""
    was_kind: ResultKind = "waiting"
    saved: Spending = NOTHING
    """The spending that the run would have saved; nothing if the verdict is not sure."""
    epilogue: bool = False
    """Whether states such as a report follow the stop; these are assumed to cost the same."""
    answer: str | None = None
    """The first line of the answer of a run that came to its natural end."""
    note: str = ""

    @property
    def changes(self) -> bool:
        """Whether anything is decided differently, or may be."""
        return self.verdict is not Verdict.SAME

    @property
    def lost(self) -> bool:
        """Whether an answer is surely lost: the run came to its natural end, and now would not."""
        natural = self.was_kind == "natural"
        return natural and self.changes and self.verdict.sure and self.kind != "natural"

    @property
    def won(self) -> bool:
        """Whether an answer is surely won: the run was stopped, and now ends naturally."""
        return (
            self.changes and self.kind == "natural" and self.was_kind not in ("natural", "waiting")
        )

    @property
    def at_risk(self) -> bool:
        """Whether the run came to its natural end, and may not do so again."""
        return self.was_kind == "natural" and not self.verdict.sure

    @property
    def known_records(self) -> int:
        """The number of records whose decision is known."""
        return self.records if self.verdict.sure else self.record or 0

    def __str__(self) -> str:
        at = f" at record {self.record}" if self.record is not None else ""
        match self.verdict:
            case Verdict.SAME:
                text = "as it was recorded"
            case Verdict.EARLIER | Verdict.OTHERWISE:
                text = f"{self.verdict}{at}, for `{self.reason}` at `{self.state}`"
            case Verdict.ELSEWHERE:
                way = (
                    f"to `{self.state}` by {self.edge}" if self.edge else f"stays at `{self.state}`"
                )
                text = f"goes elsewhere{at}, {way}: {self.because}"
            case Verdict.LATER:
                way = f"to `{self.state}`, where it stopped for `{self.was}`"
                text = f"goes on{at} {way}: {self.because}"
            case Verdict.UNKNOWN:
                text = f"unknown from record {self.record}: {self.because}"
        return f"{text}; {self.note}" if self.note else text

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `chartloop whatif --format json` prints it."""
        return {
            **self._asdict(), "verdict": str(self.verdict), "saved": self.saved._asdict(),
            "sure": self.verdict.sure, "lost": self.lost, "won": self.won, "at_risk": self.at_risk,
        }  # fmt: skip
