"""What a run that waits asks of someone, and the id of that wait.

The id is the number of the record that started the wait: another one at each visit of a state, the
same after a resume, in a replay and in a fork. Where a child waits it is the child's, behind the
child's place below the run: ``review/3:2``.

Belongs here: the current question. Never: what came as an answer to it (`run.inbox`).
Source: design "language", sections 5 (waits) and 8 ("Children").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chartloop.core.plain import plain
from chartloop.core.position import Asked
from chartloop.core.types import Type
from chartloop.run.execute import IN_DOUBT
from chartloop.run.journal import CHILD_MARK
from chartloop.run.session import Session

SETTLES: tuple[str, ...] = ("retry", "fail")
"""What a run takes that is blocked on a call in doubt."""


class Question(NamedTuple):
    """The question of a run that waits."""

    wait: str
    """The id of the wait, which an answer may name."""
    text: str
    answers: Mapping[str, Mapping[str, Type]]
    """The events that the wait takes, each with the fields of its answer."""
    run: str
    """The id of the run that waits: this one, or a child of it."""
    state: str
    """Where that one waits."""
    due: float | None = None
    """When the wait expires, in seconds since the epoch; None where it has no deadline."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it."""
        fields = {e: {n: str(t) for n, t in f.items()} for e, f in self.answers.items()}
        return plain(self._replace(answers=fields)._asdict())


def question_of(session: Session) -> Question | None:
    """The current question; None where the run waits for no one."""
    position = session.position
    if position.status != "paused":
        return None
    if (asked := asked_here(session)) is not None:
        return Question(
            wait_of(session), asked.question, _of_child(session, asked), asked.run, asked.state,
            position.wake_at,
        )  # fmt: skip
    text, answers = _own(session)
    if not answers:
        return None
    due = position.wake_at if position.state in session.chart.waiting else None
    return Question(wait_of(session), text, answers, session.run_id, position.state, due)


def asked_here(session: Session) -> Asked | None:
    """What a child of this very run asks.

    A fork starts the children anew: what those of the other run asked is not its question.
    """
    asked = session.position.child_question
    below = f"{session.run_id}{CHILD_MARK}"
    return asked if asked is not None and asked.run.startswith(below) else None


def wait_of(session: Session) -> str:
    """The id of the current wait; at any other moment that of no run."""
    own, asked = str(session.tally.rest), asked_here(session)
    if asked is None or not asked.wait:
        return own
    place = asked.run[len(session.run_id) + 1 :]
    return f"{place}{CHILD_MARK if ':' in asked.wait else ':'}{asked.wait}"


def _own(session: Session) -> tuple[str, Mapping[str, Mapping[str, Type]]]:
    position, chart = session.position, session.chart
    if position.blocked_on == IN_DOUBT:
        text = (
            f"A paid call of `{position.state}` was started before an interruption."
            " Answer `retry` to make it again, or `fail`."
        )
        return text, {event: {} for event in SETTLES}
    if position.state not in chart.waiting:
        return "", {}
    return _text(session), {
        event: chart.answer_fields(position.state, event)
        for event in chart.events_at(position.state)
    }


def _text(session: Session) -> str:
    position = session.position
    if asked := position.kept.get("ask_user"):
        return str(asked)
    spec = session.chart.spec.states[position.state]
    label = spec.ask or spec.label
    return " ".join(label.show(position.facts).split()) if label is not None else position.state


def _of_child(session: Session, asked: Asked) -> Mapping[str, Mapping[str, Type]]:
    chart = session.chart
    for name in asked.machines:
        if name not in chart.spec.machines:  # a changed file has not that child any more
            return {}
        chart = chart.child(name)
    return {event: chart.answer_fields(asked.state, event) for event in asked.events}
