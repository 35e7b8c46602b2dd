"""The view of a run at one moment: plain records, and the same as JSON.

A page is sent `RunView.to_dict`. Its order is fixed and its texts are plain: the page escapes them.
Long texts are shortened there, and only there.

Belongs here: the records. Never: how they are made from a run (`build`), or how they look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from chartloop.core.format import json_text
from chartloop.core.phase import PHASES
from chartloop.core.text_table import Line
from chartloop.core.visible import cut
from chartloop.machine.budget_use import Budget
from chartloop.machine.explain import Atom, Explanation, Row
from chartloop.run.question import Question
from chartloop.run.record_text import RecordRow

Json = dict[str, Any]
LONGEST_TEXT = 400
"""The most characters of a value in JSON; outputs and endings get four times that."""
_LEVELS = {"green": "ok", "yellow": "near", "red": "reached"}


@dataclass(frozen=True, slots=True)
class RunHead:
    """The part of a view that changes while a run is driven: cheap, and safe from any thread."""

    machine: str
    title: str
    run: str
    """Its id."""
    state: str
    status: str
    step: int
    """The number of the next step."""
    spent: str
    """Steps, model calls and tokens so far, in words."""
    phase: str
    """The name of its phase, which `core.phase.PHASES` has with its word, colour and sign."""
    at: str
    """The state of the file at which it is or ended, for people."""

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "machine": self.machine, "title": shorten(self.title), "run": self.run,
            "state": self.state, "status": self.status, "step": self.step, "spent": self.spent,
            "phase": self.phase, "at": self.at,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class EdgeView:
    """An edge that may be taken after the action."""

    guard: str
    """The guards, or `otherwise`."""
    target: str
    label: str = ""
    """The label of the target; empty if it is not of the file."""

    @property
    def words(self) -> str:
        """What it says, in words: ``if run.steps > 3 it goes on to “Think”``."""
        if self.target == "(back)":
            to = "it goes back to where it was called"
        else:
            to = f"it goes on to “{self.label or self.target}”"
        return f"otherwise {to}" if self.guard == "otherwise" else f"if {self.guard} {to}"

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "guard": shorten(self.guard), "target": self.target, "label": self.label,
            "words": shorten(self.words),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class NextAction:
    """The next action of the run, and the decision that follows it."""

    action: str
    """The name of the action; empty if the state has none."""
    about: str = ""
    args: tuple[tuple[str, str], ...] = ()
    """The fields of `with`, as the file writes them."""
    edges: tuple[EdgeView, ...] = ()
    """In the order in which they are tried."""
    rules: int | None = None
    """The number of rules evaluated first; None if the state is exempt from rules."""

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "action": self.action, "about": self.about,
            "args": [{"name": name, "value": shorten(value)} for name, value in self.args],
            "rules": self.rules or 0, "edges": [edge.to_dict() for edge in self.edges],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldView:
    """A field of an answer."""

    name: str
    type: str
    kind: str
    values: tuple[str, ...]
    """The permitted values; empty for any."""
    optional: bool

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "name": self.name, "type": self.type, "kind": self.kind, "values": list(self.values),
            "optional": self.optional,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerView:
    """One event that the wait accepts, with the fields of its data."""

    event: str
    fields: tuple[FieldView, ...]
    target: str
    """The state that it leads to; empty if a child machine decides that."""
    label: str = ""
    """The label of that state, or its id."""
    next: str = ""
    """What happens next, in words: ``goes on to “Use the tools”``; empty if nobody knows."""
    tone: str = ""
    """``yes`` if it lets something happen, ``no`` if it holds it back; else empty."""

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        fields = [field.to_dict() for field in self.fields]
        return {
            "event": self.event, "fields": fields, "target": self.target, "label": self.label,
            "next": self.next, "tone": self.tone,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuestionView:
    """The question of a waiting run."""

    text: str
    wait: str
    """The id of the wait, which an answer may name."""
    due: float | None
    """When the wait expires, in seconds since the epoch; None without a deadline."""
    answers: tuple[AnswerView, ...]
    about: str = ""
    """What is decided, with its line breaks. With `text`, as much as a face shows at once."""
    rest: int = 0
    """The number of characters that follow, which must be opened before an answer is taken."""
    whole: Question | None = None
    """The question to its end."""
    since: float = 0.0
    """When it was asked, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class EndView:
    """How a run ended."""

    kind: str
    explanation: str
    lines: tuple[Line, ...]
    """The explanation in lines, with the last error and its cure."""
    output: Any
    cure: str = ""
    """What helps against the failure that ended it; empty without one."""

    def to_dict(self) -> Json:
        """Plain data, for a page. An output that is no text is JSON, and so is its name."""
        output, is_text = self.output, isinstance(self.output, str)
        shown = "" if output is None else output if is_text else json_text(output, indent=2)
        return {
            "kind": self.kind, "explanation": shorten(self.explanation, 4 * LONGEST_TEXT),
            "output": shorten(shown, 4 * LONGEST_TEXT),
            "output_kind": "text" if is_text else "json",
            "output_rest": max(0, len(shown) - 4 * LONGEST_TEXT), "cure": self.cure,
        }  # fmt: skip


class EntryView(NamedTuple):
    """One entry of a fact whose value is a mapping: its value now and before."""

    name: str
    value: str
    before: str


@dataclass(frozen=True, slots=True)
class FactView:
    """A fact, or one entry of a fact of type map: its value now and before the newest record."""

    name: str
    value: str
    before: str
    changed: bool
    """Whether the newest record changed it."""
    clock: bool
    """Whether a clock changes it, or it is shown elsewhere: its changes are not news."""
    guarded: bool
    """Whether a rule or an edge reads it."""
    empty: bool
    about: str
    entries: tuple[EntryView, ...] = ()
    """The entries of a mapping whose type declares none, such as a reply."""

    @property
    def is_news(self) -> bool:
        """Whether the newest record changed it, and the change is not that of a clock."""
        return self.changed and not self.clock

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        before = {"was": shorten(self.before)} if self.is_news else {}
        return {
            "name": self.name, "value": shorten(self.value), "changed": self.is_news,
            "read": self.guarded, "about": self.about, **before,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordView(RecordRow):
    """One record, for a page; its `state` is empty for the start."""

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "seq": self.seq, "kind": self.kind, "state": self.state, "action": self.action,
            "outcome": shorten(self.outcome), "duration": self.duration,
            "path": " → ".join(self.path),
            "because": shorten(self.because), "failed": self.failed,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DecisionView:
    """The rules and edges that were evaluated when a record was decided."""

    seq: int
    explanation: Explanation

    def to_dict(self) -> Json:
        """Rules and edges by group, and where they led, for a page."""
        groups: list[Json] = []
        for row in self.explanation.rows:
            if not groups or groups[-1]["name"] != row.group:
                groups.append({"name": row.group, "rows": []})
            groups[-1]["rows"] += _row_dicts(row)
        led = [
            {"what": what, "text": shorten(text)} for what, text in self.explanation.consequences()
        ]
        return {"seq": self.seq, "title": self.explanation.title, "groups": groups, "led": led}


@dataclass(frozen=True, slots=True)
class EditableView:
    """A limit or variable that may be set, with its value as a user would type it."""

    name: str
    type: str
    value: str

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {"name": self.name, "type": self.type, "value": self.value}


@dataclass(frozen=True, slots=True)
class ChildView:
    """A child run that this run started."""

    run: str
    machine: str
    status: str
    reason: str
    """Why it stopped; empty while it continues."""
    phase: str
    """The name of its phase."""

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "run": self.run, "machine": self.machine, "status": self.status, "reason": self.reason,
            "phase": self.phase,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class StandingView:
    """The status of a run: the part of a view that needs no records."""

    head: RunHead
    end: EndView | None
    """How it ended; None while it continues."""
    question: QuestionView | None
    next: NextAction | None
    """None if the run has ended or waits for an answer."""
    limits: tuple[Budget, ...]
    """The use of each bound, in the file's order."""

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.end is not None


@dataclass(frozen=True, slots=True)
class RunView(StandingView):
    """The whole view of a run that is not being driven."""

    task: str
    facts: tuple[FactView, ...]
    """In the order in which the machine declares them."""
    records: tuple[RecordView, ...]
    """The newest records."""
    left_out: int
    """The number of older records, which are not in `records`."""
    decision: DecisionView | None
    """The decision of the newest or the requested record; None before the first."""
    signals: tuple[str, ...]
    warnings: tuple[str, ...]
    errors: tuple[Mapping[str, Any], ...]
    children: tuple[ChildView, ...]
    editable: tuple[EditableView, ...]
    states: tuple[str, ...]
    labels: Mapping[str, str]
    """The labels of states that have one, by id."""
    breakpoints: tuple[str, ...]
    refusals: Mapping[str, str]
    """The reasons why orders are refused now, by order; one without a reason is allowed."""

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        asked, end = self.question, self.end
        whole = asked.whole if asked is not None else None
        ending = end.to_dict() if end is not None else _NO_END
        listed = sorted(self.facts, key=lambda fact: (not fact.is_news, not fact.guarded))
        shown = (fact for fact in listed if fact.is_news or fact.guarded or not fact.empty)
        return {
            **self.head.to_dict(),
            "task": shorten(self.task, 4 * LONGEST_TEXT),
            "ended": self.ended,
            **ending,
            "question": asked.text if asked is not None else "",
            "about": asked.about if asked is not None else "",
            "rest": asked.rest if asked is not None else 0,
            "wait": asked.wait if asked is not None else "",
            "due": asked.due if asked is not None else None,
            "since": asked.since if asked is not None else None,
            "calls": whole.begin().to_dict()["calls"] if whole is not None else [],
            "answers": [one.to_dict() for one in asked.answers] if asked is not None else [],
            "next": self.next.to_dict() if self.next is not None else None,
            "limits": [limit_dict(budget) for budget in self.limits],
            "facts": [fact.to_dict() for fact in shown],
            "records": [record.to_dict() for record in self.records],
            "left_out": self.left_out,
            "why": self.decision.to_dict() if self.decision is not None else None,
            "signals": [shorten(signal) for signal in self.signals],
            "warnings": [shorten(warning) for warning in self.warnings],
            "errors": [
                {name: shorten(v) if isinstance(v, str) else v for name, v in error.items()}
                for error in self.errors
            ],
            "children": [child.to_dict() for child in self.children],
            "editable": [one.to_dict() for one in self.editable],
            "states": list(self.states),
            "labels": dict(self.labels),
            "breakpoints": list(self.breakpoints),
            "cannot": dict(self.refusals),
        }


_NO_END: Json = {
    "kind": "", "explanation": "", "output": "", "output_kind": "", "output_rest": 0, "cure": "",
}  # fmt: skip
"""The ending of a run that continues."""


def limit_dict(budget: Budget) -> Json:
    """A bound as plain data: its use, and whether it is near or reached."""
    return {
        "fact": budget.fact, "share": max(0.0, min(1.0, budget.share)), "text": budget.text,
        "level": _LEVELS[budget.colour],
    }  # fmt: skip


def _row_dicts(row: Row) -> Iterator[Json]:
    """The row with the values of its only atom, or with a line below it for each of several."""
    alone = row.atoms[0] if len(row.atoms) == 1 else None
    yield {
        "mark": row.mark, "text": shorten(row.text), "taken": row.taken,
        "looked": row.holds is not None, "to": row.reason or row.to, **_atom_dict(alone),
        "colour": PHASES[row.ending].colour if row.ending else "green",
    }  # fmt: skip
    for atom in row.atoms if alone is None else ():
        yield {"mark": "", "text": shorten(atom.text), "taken": False, "looked": True, "to": "",
               "atom": True, **_atom_dict(atom)}  # fmt: skip


def _atom_dict(atom: Atom | None) -> Json:
    if atom is None:
        return {"values": "", "left": ""}
    share = None if atom.share is None else max(0.0, min(1.0, atom.share))
    return {"values": shorten(atom.values), "left": atom.margin, "share": share}


def shorten(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text, or its beginning and an ellipsis."""
    return cut(text, longest)
