"""Routes for the run page: the live picture, one step in full, the timeline, the spending.

Belongs here: what is cached between two requests of a page. Never: markup of its own.
"""

from __future__ import annotations

import threading
from typing import Annotated, NamedTuple

from fastapi import Depends, Query, Request

from chartloop.api import Run
from chartloop.core.errors import ChartloopError
from chartloop.core.facts import Facts
from chartloop.core.plain import plain
from chartloop.hosting.problems import Refusal
from chartloop.hosting.reading import count_of, records_each
from chartloop.hosting.server.common import ANY, READ, Rooms, RunPath, TheParts, problems
from chartloop.machine.budget_use import budgets
from chartloop.pictures.live.bundle import describe_picture
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.progress import Standing
from chartloop.run.lru_cache import LruCache
from chartloop.run.progress import standing_of
from chartloop.studies.coverage.coverage import Coverage
from chartloop.ui.view_model.build import record_view
from chartloop.ui.view_model.moment import moment_of, spending_of
from chartloop.ui.view_model.run_view import Json

KEPT = 64
"""Runs whose pictures are cached."""
COVERED = 1_000
"""Runs whose coverage is cached."""
LAYOUTS = 4
"""Layouts that are cached for one run: labels may read facts that change."""
PATIENCE = 10.0
"""The time limit of one layout, in seconds."""
router = Rooms(tags=["runs"], dependencies=[READ])
FOUND = problems(*ANY, 404, 409, 422)


Pictures = LruCache[tuple[str, str], tuple[threading.Lock, list[LivePicture]]]


class PageMemory(NamedTuple):
    """The caches of a server for its pages."""

    pictures: Pictures
    coverages: LruCache[tuple[str, str, str, int], Coverage]
    """By the machine's hash, and the run with its beginning and its head."""

    @classmethod
    def empty(cls) -> PageMemory:
        """Empty caches."""
        return cls(LruCache(KEPT), LruCache(COVERED))


async def memory_of(request: Request) -> PageMemory:
    """The caches of the server that handles this request."""
    return request.app.state.page


Memory = Annotated[PageMemory, Depends(memory_of)]


def paint(pictures: Pictures, run: Run, moment: tuple[Standing, Facts], layout: str) -> Json:
    """The picture at a moment: whole, or only its styles where the page has the layout."""
    standing, facts = moment
    chart = run.machine.draw(facts=facts).chart
    lock, kept = pictures.get_or_make((run.id, run.machine.hash), lambda: (threading.Lock(), []))
    with lock:  # one layout at a time: each runs in a process of its own
        picture = next((one for one in kept if one.chart == chart), None)
        if picture is None:
            picture = LivePicture(chart, timeout=PATIENCE)
            kept[:] = [picture, *kept[: LAYOUTS - 1]]
        painting: Json = {"layout": picture.prefix, "about": describe_picture(picture, standing)}
        try:
            if picture.engine == "mermaid":
                return {**painting, "outline": picture.text(standing)}
            changes = picture.changes(standing, "auto")
            painting |= {"style": changes.style, "texts": changes.texts}
            painting["state"] = picture.box(standing)
            if layout != picture.prefix:
                boxes = {element: state for state, element in picture.ids.boxes.items()}
                painting |= {"svg": picture.svg(standing, "auto"), "boxes": boxes}
        except ChartloopError as error:  # too large, say
            outline = f"{error.message}\n{error.hint}\n\n{picture.text(standing)}"
            return {**painting, "outline": outline}
    return painting


Layout = Annotated[
    str,
    Query(description="The layout that the page has: only its styles are sent.", max_length=100),
]


@router.get("/runs/{run_id:path}/painting", responses=FOUND)
def run_painting(run_id: RunPath, parts: TheParts, memory: Memory, layout: Layout = "") -> Json:
    """The live picture: whole at first, then only its styles and texts."""
    run = parts.runs.open(run_id)
    return paint(memory.pictures, run, (standing_of(run.session), run.facts), layout)


@router.get("/runs/{run_id:path}/moment", responses=FOUND)
def run_moment(
    run_id: RunPath, parts: TheParts, memory: Memory,
    seq: Annotated[int | None, Query(ge=0, le=2**31)] = None, layout: Layout = "",
) -> Json:  # fmt: skip
    """The run as it was after a record, by default the newest.

    Contains the record in full, its decision, the facts that it changed, and the picture.
    """
    run = parts.runs.open(run_id)
    count = count_of(run)
    if seq is not None and seq >= count:
        raise Refusal(404, f"the run has no record {seq}", hint=f"it has {count}")
    past = parts.runs.past(run, count - 1 if seq is None else seq)
    moment = moment_of(run, past)
    return {
        **moment.to_dict(),
        "why": past.why(run.machine.chart).to_dict(),
        "full": plain(past.record.to_dict()),
        "children": parts.runs.children_of_step(run, past),
        "picture": paint(memory.pictures, run, (moment.standing, moment.now), layout),
    }


@router.get("/runs/{run_id:path}/children", responses=FOUND)
def run_children(
    run_id: RunPath, parts: TheParts,
    after: Annotated[str, Query(description="`next` of the page before.", max_length=2_000)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 100,
) -> Json:  # fmt: skip
    """The run's children, the newest first, each with its phase, times, tokens and cost.

    `seq` is the number of the record whose step started it; null while that is in progress.
    """
    return parts.runs.children(run_id, after, limit)


@router.get("/runs/{run_id:path}/place", responses=FOUND)
def run_place(run_id: RunPath, parts: TheParts) -> Json:
    """The way up from a child run, and its neighbours; `above` is empty for a run of its own."""
    return parts.runs.place(run_id)


@router.get("/runs/{run_id:path}/timeline", responses=FOUND)
def run_timeline(
    run_id: RunPath, parts: TheParts, before: Annotated[int | None, Query(ge=0, le=2**31)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 200,
) -> Json:  # fmt: skip
    """Records in words, a line each: the newest, or the newest of those before `before`."""
    run = parts.runs.open(run_id)
    count = count_of(run)
    end = count if before is None else min(before, count)
    first = max(0, end - limit)
    lines = [
        record_view(run.machine.chart, record).to_dict() for record in records_each(run, first, end)
    ]
    return {"records": lines, "left_out": first}


@router.get("/runs/{run_id:path}/spending", responses=FOUND)
def run_spending(run_id: RunPath, parts: TheParts) -> Json:
    """Tokens and cost after each action, thinned for a curve, and their current limits.

    A point is the number of finished actions, the seconds since the start, tokens, US dollars.
    """
    run = parts.runs.open(run_id)
    points = [list(point) for point in spending_of(run.session.tally)]
    names = {"usage.total_tokens": "tokens", "usage.cost": "cost"}
    limits: dict[str, float] = {}  # those that the machine's rules set
    for budget in budgets(run.machine.chart, run.facts):
        if budget.fact in names and budget.bound:
            limits.setdefault(names[budget.fact], budget.bound)
    return {"points": points, "limits": limits}
