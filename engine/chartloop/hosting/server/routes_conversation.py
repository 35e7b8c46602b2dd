"""Routes for the conversation of a run: its pages, and one text to its end.

Belongs here: what is asked and answered. Never: which items a record gives.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from chartloop.hosting.problems import Refusal
from chartloop.hosting.reading import records_from
from chartloop.hosting.server.common import ANY, READ, Parts, RunPath, TheParts, problems
from chartloop.ui.view_model.conversation_view import (
    PAGE,
    ConversationPage,
    Talk,
    page_of,
    passage,
    talk_of,
)

router = APIRouter(tags=["runs"], dependencies=[READ])
FOUND = problems(*ANY, 404, 409, 422)
PLACE = r"^\d{1,10}\.\d{1,6}$"


AFTER = rf"^(start|{PLACE[1:-1]})$"


class Passage(BaseModel):
    """One text of a conversation to its end, or the `data:` URL of an image."""

    text: str


def _talk(parts: Parts, run_id: str) -> Talk:
    run = parts.runs.open(run_id)
    return talk_of(run, partial(records_from, run), earlier=parts.runs.continued_by(run_id))


@router.get(
    "/runs/{run_id:path}/conversation", responses=FOUND, response_model=ConversationPage
)  # fmt: skip
def conversation(
    run_id: RunPath, parts: TheParts,
    before: Annotated[
        str | None, Query(pattern=PLACE, description="Items before this place.")
    ] = None,
    after: Annotated[
        str | None,
        Query(pattern=AFTER, description="Items after this place; `start` for the first."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = PAGE,
) -> ConversationPage:  # fmt: skip
    """What was asked, said, called and answered: the newest items, or those beside a place.

    Long texts are cut: `rest` is the number of characters that follow, which `passage` gives.
    """
    talk = _talk(parts, run_id)
    return page_of(talk, before, limit, after=after)


@router.get("/runs/{run_id:path}/passage", responses=FOUND, response_model=Passage)
def one_passage(
    run_id: RunPath, parts: TheParts, place: Annotated[str, Query(pattern=PLACE)],
    name: Annotated[
        str, Query(max_length=40, description="`text`, `reasoning`, `arguments`, `result`, "
                   "`output`, or the name of an image.")
    ] = "text",
) -> Passage:  # fmt: skip
    """One text of an item to its end, or the `data:` URL of an image in it."""
    found = passage(_talk(parts, run_id), place, name)
    if found is None:
        raise Refusal(404, f"the conversation has no `{name}` at {place}")
    return Passage(text=found)
