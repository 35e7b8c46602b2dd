"""Routes for the conversation of a run: its pages, and one text to its end.

Belongs here: what is asked and answered. Never: which items a record gives.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel

from chartloop.core.plain import plain
from chartloop.hosting.asking import BYTES, text_at
from chartloop.hosting.problems import Refusal
from chartloop.hosting.reading import records_from
from chartloop.hosting.server.common import ANY, READ, Parts, Rooms, RunPath, TheParts, problems
from chartloop.ui.view_model.conversation_view import (
    PAGE,
    ConversationPage,
    Talk,
    page_of,
    passage,
    talk_of,
)

router = Rooms(tags=["runs"], dependencies=[READ])
FOUND = problems(*ANY, 404, 409, 422)
PLACE = r"^\d{1,10}\.\d{1,6}$"


LONGEST = BYTES // 6 - 100
"""The most characters of a part: some take six bytes."""
AFTER = rf"^(start|{PLACE[1:-1]})$"


class Passage(BaseModel):
    """A part of one text of a conversation, or of the `data:` URL of an image."""

    text: str
    next: int | None
    """Where the next part begins; null at the end."""


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
        str, Query(max_length=400, description="`text`, `reasoning`, `arguments`, `result`, "
                   "`output`, or the name of an image; or where the text stands in the record, "
                   "as `cut` of `records` names it without its number: `/outcome/result`.")
    ] = "text",
    start: Annotated[int, Query(ge=0, le=2**31, description="The first character.")] = 0,
) -> Passage:  # fmt: skip
    """One text of an item, or the `data:` URL of an image in it, part by part."""
    if name.startswith("/"):
        record = records_from(parts.runs.open(run_id), int(place.partition(".")[0]), 1)
        found = text_at(plain(record[0].to_dict()), name) if record else None
    else:
        found = passage(_talk(parts, run_id), place, name)
    if found is None:
        raise Refusal(404, f"the conversation has no `{name}` at {place}")
    whole = parts.hub.redactor.text(found)  # before it is cut: no secret is split
    end = start + LONGEST
    return Passage(text=whole[start:end], next=end if end < len(whole) else None)
