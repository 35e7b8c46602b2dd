"""Four eyes: who submitted a run cannot accept what another person has to.

    `deny`                  everybody may hold back
    any other answer        refused if the submitter, who answers, or who made the link that the
                            answer came by is not known, or if the first is one of the others

Whoever makes a link has it, and could answer with it: so its maker counts as who answers.

Belongs here: the rule of `not_by: submitter`, for every question and every way of answering it.
Never: what a name may be (`core.person_names`).
Source: docs/approval.md, "Who answers".
"""

from __future__ import annotations

from chartloop.core.errors import AnswerError
from chartloop.core.person_names import same_person
from chartloop.core.position import SUBMITTER
from chartloop.run.question import asked_here
from chartloop.run.session import Session


def needs_another(session: Session) -> bool:
    """Whether the question of a run, or of its child, is not for who submitted the run."""
    chart, position = session.chart, session.position
    state, doubt = position.state, position.doubt
    if (asked := asked_here(session)) is not None:
        state, doubt = asked.state, asked.doubt
        for name in asked.machines:
            if name not in chart.spec.machines:  # a changed file may have dropped the child
                return False
            chart = chart.child(name)
    if doubt is not None:
        return bool(doubt.get("not_by"))
    approve = chart.spec.approve
    return approve is not None and bool(approve.not_by) and state in chart.spec.gates


def refusal_of(session: Session, by: str, made_by: str | None = None) -> AnswerError | None:
    """The refusal of an answer by a person who may not accept; None if they may.

    `made_by` is who made the link that it comes by; None if it comes by none.
    """
    if not needs_another(session):
        return None
    submitter, state = str(session.position.kept.get(SUBMITTER, "")), session.position.state
    if same_person(submitter, ""):
        return AnswerError(
            f"the run does not say who submitted it, so `{state}` cannot be accepted",
            hint="`not_by: submitter` needs a run that was started with `submitter`; `deny` it",
        )
    if same_person(by, submitter):
        return AnswerError(
            f"`{submitter}` submitted the run and cannot accept it as well",
            hint="another person accepts: `not_by: submitter`",
        )
    if made_by is None or not (same_person(made_by, "") or same_person(made_by, submitter)):
        return None
    who = f"was made by `{made_by}`, who submitted the run"
    return AnswerError(
        f"this link {who if made_by else 'does not say who made it'}: it accepts nothing here",
        hint="answer in the inbox, or with a link that another person made, whose name is known:"
        " `not_by: submitter`",
    )
