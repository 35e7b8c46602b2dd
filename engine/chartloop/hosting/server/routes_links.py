"""Routes of links that answer one question: making them, and what their holder may do.

The holder sends `Authorization: Link TOKEN`, which no log, no referrer and no journal gets. It
opens these two routes and no other: `Safety` knows the token, and its identity has no scope.

Belongs here: the card of the question behind a link, and its one answer. Never: what a link is
(`run.answer_links`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from chartloop.core.errors import ChartloopError, WaitError
from chartloop.hosting.callers import Caller
from chartloop.hosting.problems import Refusal
from chartloop.hosting.safety import Identity
from chartloop.hosting.server.common import (
    ANY,
    CHANGES,
    EDIT,
    Rooms,
    RunPath,
    TheCaller,
    TheParts,
    problems,
)
from chartloop.hosting.server.shapes import (
    LinkAnswerBody,
    LinkAnswered,
    LinkBody,
    LinkCard,
    LinkList,
    MadeLinkBody,
    Revoked,
)
from chartloop.run.answer_links import AnswerLink, links_of, revoke_links
from chartloop.run.sync import by_hand

router = Rooms(tags=["links"])
ABOUT_ONE = problems(*ANY, 404, 409, 422)


@router.post(
    "/runs/{run_id:path}/question/link", status_code=201, response_model=MadeLinkBody,
    responses=problems(*CHANGES), dependencies=[EDIT],
)  # fmt: skip
def make(
    run_id: RunPath, body: LinkBody, request: Request, parts: TheParts, caller: TheCaller
) -> Any:
    """Make a link to the question of a run, for one person. It is told this once."""
    made = parts.runs.make_link(run_id, body.model_dump(exclude_none=True), caller)
    server = parts.settings.url or f"{request.url.scheme}://{request.url.netloc}"
    return {**made.link._asdict(), "link": made.link.id, "url": made.url(server)}


@router.get(
    "/runs/{run_id:path}/question/link", response_model=LinkList, responses=ABOUT_ONE,
    dependencies=[EDIT],
)  # fmt: skip
def links(run_id: RunPath, parts: TheParts) -> Any:
    """The links of a run that were not revoked, without their tokens."""
    row = parts.runs.row(run_id)
    found = by_hand(links_of(parts.journal, row.run_id))
    return {"links": [{**one._asdict(), "link": one.id} for one in found]}


@router.delete(
    "/runs/{run_id:path}/question/link", response_model=Revoked, responses=problems(*CHANGES),
    dependencies=[EDIT],
)  # fmt: skip
def revoke(
    run_id: RunPath, parts: TheParts,
    link: Annotated[str, Query(description="Only this one.", max_length=100)] = "",
) -> Any:  # fmt: skip
    """Revoke the links of a run: from then on they open and answer nothing."""
    row = parts.runs.row(run_id)
    return {"revoked": by_hand(revoke_links(parts.journal, row.run_id, link))}


# the holder -------------------------------------------------------------------------------------


async def _holder(request: Request) -> AnswerLink:
    """The link that the request came with."""
    identity: Identity = request.scope["state"]["identity"]
    if identity.link is None:
        raise Refusal(
            401, "this needs a link to a question: `Authorization: Link TOKEN`",
            headers={"WWW-Authenticate": 'Link realm="chartloop"'},
        )  # fmt: skip
    return identity.link


TheLink = Annotated[AnswerLink, Depends(_holder)]


@router.get("/answer/question", response_model=LinkCard, responses=ABOUT_ONE)
def card(link: TheLink, parts: TheParts) -> Any:
    """The question behind a link, whole; or that it is over, and why. Changes nothing."""
    over = parts.runs.link_over(link)
    asked: Mapping[str, Any] | None = None
    if not over:
        try:
            asked = parts.runs.question(link.run)
        except ChartloopError:  # it was answered just now
            over = parts.runs.link_over(link)
    if asked is not None and asked["wait"] != link.wait:
        asked, over = None, parts.runs.link_over(link)
    if asked is not None:  # what the question shows, and nothing else of the run
        hidden = {"run": "", "state": "", "task": ""}
        asked = {**asked, **hidden}
    return {"to": link.to, "until": link.until, "over": over, "question": asked}


@router.post("/answer", response_model=LinkAnswered, responses=problems(*CHANGES))
def answer(link: TheLink, body: LinkAnswerBody, parts: TheParts, caller: TheCaller) -> Any:
    """Answer the question behind a link, in the name of the person it was made for."""
    holder = Caller(caller.key, caller.name, link.to, "answer", caller.reach, link)
    fields = {**body.model_dump(exclude_none=True), "wait": link.wait, "then": "run"}
    if by_hand(parts.journal.now()) >= link.until:
        raise Refusal(409, parts.runs.link_over(link))
    try:
        receipt = parts.runs.message("answer", link.run, fields, holder)
    except WaitError as error:  # its hint says what the run asks now, which the link does not show
        over = parts.runs.link_over(link) or "This question is over."
        raise Refusal(409, over, code=error.code) from None
    parts.workers.wake()
    return {"event": body.event, "by": link.to, "request": receipt["request"]}
