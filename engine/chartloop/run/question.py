"""The question of a waiting run, and the id of its wait.

The id is the number of the record that started the wait: a new one at each visit of a state, the
same after a resume, in a replay and in a fork. For a waiting child it is the child's, after the
child's place below the run: ``review/3:2``.

The row of a run in the journal has the question too, with tokens and cost: `update_at`.

Belongs here: the current question, and the row. Never: its answers (`run.inbox`).
Source: docs/approval.md, "What the person sees"; docs/language.md, "Child machines".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chartloop.core.approvals import (
    CALLS,
    argument_lines,
    argument_rows,
    call_line,
    request_at,
    row_lines,
    shown_calls,
)
from chartloop.core.facts import EMPTY
from chartloop.core.phase import DONE, FAILED, ending_of
from chartloop.core.plain import plain
from chartloop.core.position import DECISIONS, ELICITATION, ENDED, IN_DOUBT, Asked, Position
from chartloop.core.types import STR, Type
from chartloop.core.visible import visible
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import QUESTION
from chartloop.machine.transition_table import ENGINE_ENDS
from chartloop.run.elicitation import answers_of, form_in
from chartloop.run.journal import CHILD_MARK
from chartloop.run.journal_records import OpenQuestion, Update
from chartloop.run.session import Session

LONGEST = 10_000
"""The characters of a question, with what it is about, that a face shows before more is opened."""


class Question(NamedTuple):
    """The question of a waiting run."""

    wait: str
    """The id of the wait, which an answer may name."""
    text: str
    answers: Mapping[str, Mapping[str, Type]]
    """The events that the wait accepts, each with the fields of its answer."""
    run: str
    """The id of the run that waits: this one, or a child of it."""
    state: str
    """The state in which that run waits."""
    due: float | None = None
    """When the wait expires, in seconds since the epoch; None without a deadline."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """The tool calls that the question is about: see `core.approvals.shown_calls`."""
    about: str = ""
    """What is decided, whole and with its line breaks: the newest reply of the model. Empty if the
    text holds all of it."""

    @property
    def rest(self) -> int:
        """The number of characters that follow the first `LONGEST`."""
        return max(0, len(self.text) + len(self.about) - LONGEST)

    def fields(self, event: str) -> Mapping[str, Type]:
        """The fields of an answer that a person fills in; calls are decided one by one instead."""
        taken = self.answers.get(event, {})
        return {name: type for name, type in taken.items() if not (self.calls and name == CALLS)}

    @property
    def digest(self) -> str:
        """What the answer to a question with a `rest` names, as proof that all of it was opened."""
        shown = "\0".join((self.text, self.about)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(shown).hexdigest()[:16]

    def begin(self) -> Question:
        """The question with its first `LONGEST` characters; its calls only if they fit."""
        text, calls = self.text[:LONGEST], () if self.rest else self.calls
        return self._replace(text=text, about=self.about[: LONGEST - len(text)], calls=calls)

    def folded(self) -> str:
        """The text with its calls in rows, of which the long ones are folded: for a small place."""
        own = len(self.calls) + sum("edited_by" in call for call in self.calls)
        if not own:
            return self.text
        lines = self.text.split("\n")[:-own]
        for number, call in enumerate(self.calls, 1):
            by = f" (changed by {call['edited_by'] or 'a person'})" if "edited_by" in call else ""
            place = f"{number}. " if len(self.calls) > 1 else ""
            lines += [f"  {place}{call['name']}{by}", *(f"  {line}" for line in row_lines(call))]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it; each call with its arguments as `shown`."""
        fields = {e: {n: str(t) for n, t in f.items()} for e, f in self.answers.items()}
        calls = [
            {**call, "shown": argument_lines(call), "rows": argument_rows(call)}
            for call in self.calls
        ]
        whole = self._asdict() | {"answers": fields, "calls": calls, "rest": self.rest}
        return plain(whole)

    def to_row(self) -> OpenQuestion:
        """The form that the run's row in the journal stores."""
        calls = tuple({n: v for n, v in c.items() if isinstance(v, str)} for c in self.calls)
        row = OpenQuestion(**self.begin().to_dict())
        return row.replace(calls=() if self.rest else calls, rest=self.rest)


def question_of(session: Session) -> Question | None:
    """The current question; None if the run does not wait for an answer, or was moved."""
    if session.row.moved_to:
        return None
    return question_at(session.chart, session.run_id, session.position, session.tally.rest)


def question_at(chart: Chart, run_id: str, position: Position, rest: int) -> Question | None:
    """The question of a run at a position to which record `rest` brought it."""
    if position.status != "paused":
        return None
    wait = _wait_at(run_id, position, rest)
    if (asked := _asked_by_child(run_id, position)) is not None:
        answers = _of_child(chart, asked)
        return Question(
            wait, visible(asked.question), answers, asked.run, asked.state, position.wake_at,
            asked.calls, visible(asked.about),
        )  # fmt: skip
    text, answers = _own(chart, position)
    if not answers:
        return None
    text, reply = visible(text), visible(position.facts.last.text).strip()
    calls = shown_calls(request) if (request := request_at(position)) is not None else ()
    waits = position.state in chart.waiting and not position.blocked_on
    about = "" if not waits or calls or reply in text else reply
    if about:  # which is read whole below the question: its beginning is not said twice
        flat, lines = " ".join(about.split()), text.split("\n")
        for number in range(1, len(lines)):
            if flat.startswith(" ".join(" ".join(lines[number:]).split()).removesuffix("…")):
                text = "\n".join(lines[:number]).strip()
                break
    due = due_at(chart, position)
    return Question(wait, text, answers, run_id, position.state, due, calls, about)


def due_at(chart: Chart, position: Position) -> float | None:
    """When the run's own question expires; None if it does not."""
    asks = position.state in chart.waiting or position.blocked_on in (ELICITATION, IN_DOUBT)
    return position.wake_at if asks else None


def asked_here(session: Session) -> Asked | None:
    """The question of a child of this run, if it waits for one."""
    return _asked_by_child(session.run_id, session.position)


def wait_of(session: Session) -> str:
    """The id of the current wait; meaningless while the run does not wait."""
    return _wait_at(session.run_id, session.position, session.tally.rest)


def _asked_by_child(run_id: str, position: Position) -> Asked | None:
    """The question of a child of this run.

    A fork starts its children anew, so that a question of the original's child is not its own.
    """
    asked = position.child_question
    below = f"{run_id}{CHILD_MARK}"
    return asked if asked is not None and asked.run.startswith(below) else None


def _wait_at(run_id: str, position: Position, rest: int) -> str:
    asked = _asked_by_child(run_id, position)
    if asked is None or not asked.wait:
        return str(rest)
    place = asked.run[len(run_id) + 1 :]
    return f"{place}{CHILD_MARK if ':' in asked.wait else ':'}{asked.wait}"


def _own(chart: Chart, position: Position) -> tuple[str, Mapping[str, Mapping[str, Type]]]:
    if (doubt := position.doubt) is not None:
        return _of_doubt(doubt, position.state)
    if position.form is not None:
        form = form_in(position.form)
        return form.question, answers_of(form)
    if position.state not in chart.waiting:
        return "", {}
    return _text(chart, position), {
        event: chart.answer_fields(position.state, event)
        for event in chart.events_at(position.state)
    }


def _text(chart: Chart, position: Position) -> str:
    request = request_at(position) or EMPTY  # whatever else was asked on the way to its wait
    if asked := request.get("text") or position.kept.get(QUESTION):
        return str(asked)
    spec = chart.spec.states[position.state]
    label = spec.ask or spec.label
    if label is None:
        return position.state
    # what is asked is one line, whatever the values in it; what follows keeps its lines
    asks, shown = label.show_heading(position.facts), label.show(position.facts)
    more = shown[len(asks) :].strip().split("\n")
    lines = (" ".join(line.split()) for line in (asks, "", *more))
    return "\n".join(lines).strip()


def _of_doubt(
    doubt: Mapping[str, Any], state: str
) -> tuple[str, Mapping[str, Mapping[str, Type]]]:  # fmt: skip
    """The question about calls in doubt: what they were, who decides, and how."""
    calls = doubt.get("calls", ())
    names = ", ".join(dict.fromkeys(f"`{one['name']}`" for one in calls))
    what = names or f"`{doubt.get('what', 'a call')}`"
    who = f" (for {doubt['by']})" if doubt.get("by") else ""
    lines = [
        f"It is not known whether {what} at `{state}` was carried out.{who}",
        *(f"  {call_line(one)}" for one in calls),
        "Answer `retry` to make it again, or `fail` if it was not carried out.",
    ]
    named = {"by": STR} if doubt.get("by") or doubt.get("not_by") else {}
    return "\n".join(lines), dict.fromkeys(DECISIONS, named)


def _of_child(chart: Chart, asked: Asked) -> Mapping[str, Mapping[str, Type]]:
    if asked.form:
        return answers_of(form_in(asked.form))
    if asked.doubt is not None:
        return _of_doubt(asked.doubt, asked.state)[1]
    for name in asked.machines:
        if name not in chart.spec.machines:  # a changed file may have dropped the child
            return {}
        chart = chart.child(name)
    return {event: chart.answer_fields(asked.state, event) for event in asked.events}


def last_state(state: str, path: Sequence[str]) -> str:
    """A state of the file: the newest of the path, for a position at an end of the engine."""
    if state not in ENGINE_ENDS:
        return state
    return next((name for name in reversed(path) if name not in ENGINE_ENDS), state)


def update_at(
    chart: Chart, run_id: str, position: Position, rest: int, decision: Decision | None
) -> Update:
    """The update of a run's row at a position, to which record `rest` and this decision led.

    Every column that says how the run stands is set by this function. The decision is None before
    the first record. The cost is None if model calls were made and no price is known.
    """
    facts, usage = position.facts, position.facts.usage
    asked, ending, message = None, "", ""
    if position.status == "paused":
        asked = question_at(chart, run_id, position, rest)
    elif position.status in ENDED and (top := position.signals.highest) is not None:
        phase = ending_of(position.status, top, facts.unfinished)
        ending = phase.name
        if phase is DONE:
            message = facts.last.text if chart.spec.output is None else ""
        elif top.message or phase is not FAILED or (failure := facts.errors.last) is None:
            message = top.message or top.reason.about or str(top.reason)
        else:
            message = f"{failure.category}: {failure.message}"
    reason, last = "", ""
    if decision is not None and position.ended:
        reason = decision.winner
    if decision is not None and position.state in ENGINE_ENDS:
        last = last_state(position.state, (decision.state, *decision.path))
    return Update(
        position.status, position.state, reason=reason, steps=facts.run.steps,
        wake_at=position.wake_at, ending=ending, message=message, last_state=last,
        question=None if asked is None else asked.to_row(),
        tokens=usage.total_tokens,
        cost=0.0 if usage.cost is None and not usage.llm_calls else usage.cost,
    )  # fmt: skip
