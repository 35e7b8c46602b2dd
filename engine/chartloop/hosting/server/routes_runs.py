"""Routes of runs: lists, the inbox, one run in every view, and the orders that it takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from chartloop.core.errors import ChartloopError
from chartloop.core.phase import PhaseName
from chartloop.core.plain import plain
from chartloop.hosting.asking import has_left, in_lane
from chartloop.hosting.callers import Caller
from chartloop.hosting.problems import Refusal
from chartloop.hosting.reading import records_page, trace_page
from chartloop.hosting.runs import public_request
from chartloop.hosting.safety import Identity
from chartloop.hosting.server.common import (
    ANSWER,
    ANY,
    CHANGES,
    DRIVE,
    EDIT,
    READ,
    STREAM,
    EventStream,
    Parts,
    Rooms,
    RunPath,
    TheCaller,
    TheParts,
    TheReach,
    answer_error,
    problem_answer,
    problems,
)
from chartloop.hosting.server.shapes import (
    Accepted,
    AnswerBody,
    BackBody,
    Body,
    CancelBody,
    EmptyBody,
    EnqueueBody,
    ForkBody,
    Me,
    Moment,
    RecordList,
    RetryBody,
    RetryPlanBody,
    RunBody,
    RunCounts,
    RunList,
    SetBody,
    StartBody,
    StartedRun,
    WholeQuestion,
)
from chartloop.hosting.settings import EVERY
from chartloop.pictures.dot.theme import Theme
from chartloop.run.journal import RunRow
from chartloop.run.journal_pages import RunFilter, RunOrder, Sort
from chartloop.run.phases import in_phase, stands_of
from chartloop.run.sync import by_hand
from chartloop.ui.view_model.build import RECORDS
from chartloop.ui.view_model.run_view import Json
from chartloop.ui.view_model.two_runs import ROWS, Comparison

router = Rooms(tags=["runs"])
FOUND = problems(*ANY, 404, 409, 422)
ORDERED = problems(*CHANGES)
Wait = Annotated[
    float,
    Query(ge=0, le=30, description="Seconds to wait for the outcome before the answer is sent."),
]
WIDTHS = (3_600.0, 86_400.0)
"""The spans by which runs are counted, in seconds: an hour, or a day."""
SPANS = 192
"""The most spans in one answer: eight days of hours."""
PAGES = 10
"""The most pages that are read for one with a run of a phase that rows do not know."""
POLL = 0.05
"""Seconds between two polls for an outcome."""


@router.get("/runs", responses=problems(*ANY, 422), response_model=RunList, dependencies=[READ])
def list_runs(  # noqa: PLR0913  one parameter for each filter
    parts: TheParts,
    reach: TheReach,
    *,
    machine: str | None = None,
    status: Literal["idle", "running", "paused", "debugging", "completed", "error", "moved"]
    | None = None,
    reason: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    tenant: Annotated[
        str | None, Query(description="For a token of all tenants: only runs of this one.")
    ] = None,
    parent: str | None = None,
    waiting: Annotated[
        bool | None, Query(description="Only runs that wait for an answer: the inbox.")
    ] = None,
    since: Annotated[Moment | None, Query(description="Begun then or later, in epoch seconds.")] = (
        None
    ),
    until: Annotated[Moment | None, Query(description="Begun before then.")] = None,
    children: bool = False,
    phase: Annotated[PhaseName | None, Query(description="Only runs that stand like this.")] = None,
    search: Annotated[str, Query(description="A text in the task or the id.", max_length=200)] = "",
    sort: Annotated[Sort, Query(description="What the runs are sorted by.")] = "started",
    ascending: Annotated[bool, Query(description="The least or oldest first.")] = False,
    after: Annotated[str, Query(description="`next` of the page before.", max_length=2_000)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> dict[str, Any]:
    """Runs, the newest first. With `waiting=true`: each question, its wait and its deadline.

    With a `phase` that depends on who drives a run, a page may be shorter than `limit`, and have a
    `next`.
    """
    wanted = RunFilter(
        machine=machine, status=status, reason=reason, agent=agent, session=session,
        tenant=tenant if reach.tenant is None else reach.tenant,
        parent=None if parent is None else reach.whole(parent), waiting=waiting,
        created_from=since, created_to=until, children=children, search=search or None,
    )  # fmt: skip
    narrowed = in_phase(wanted, phase)
    if narrowed is None:
        return {"runs": [], "next": None}  # its filters exclude each other
    listed: list[dict[str, Any]] = []
    for _ in range(PAGES):
        order = RunOrder(sort, ascending)
        page = by_hand(parts.journal.page(narrowed, after, limit, order=order))
        stands = by_hand(stands_of(parts.journal, page.rows))
        listed += [
            {**row.to_mapping(), "run": row.run_id, "tenant": row.tenant,
             "reason": row.reason or None, "driver": stand.driver, "phase": stand.phase.name,
             "at": row.stopped_at}
            for row in page.rows
            for stand in (stands[row.run_id],)
            if phase in (None, stand.phase.name)
        ]  # fmt: skip
        after = page.next
        if listed or not after:
            break
    return {"runs": listed, "next": after or None}


@router.get("/counts", responses=problems(*ANY, 422), response_model=RunCounts, dependencies=[READ])
def count_runs(
    parts: TheParts,
    reach: TheReach,
    *,
    since: Annotated[Moment, Query(description="Begun then or later, in epoch seconds.")],
    until: Annotated[
        Moment | None, Query(description="Begun before then; by default, now.")
    ] = None,
    machine: str | None = None,
    phase: Annotated[PhaseName | None, Query(description="Only runs that stand like this.")] = None,
    search: Annotated[str, Query(description="A text in the task or the id.", max_length=200)] = "",
    children: bool = False,
) -> dict[str, Any]:
    """How many runs began in each hour or day of a period, by how they stand.

    Whether a run that goes on is driven is not known here: it counts as running.
    """
    end = by_hand(parts.journal.now()) if until is None else until
    width = next((one for one in WIDTHS if end - since <= SPANS * one), (end - since) / SPANS)
    start = since // width * width
    wanted = RunFilter(
        machine=machine, tenant=reach.tenant, search=search or None, children=children,
        created_from=start, created_to=end,
    )  # fmt: skip
    narrowed = in_phase(wanted, phase)
    counts = [] if narrowed is None else by_hand(parts.journal.tally(narrowed, width))
    spans: dict[int, dict[str, int]] = {}
    for span, name, runs in counts:
        spans.setdefault(span, {})[name] = runs
    return {
        "since": start, "until": end, "width": width,
        "spans": [{"at": start + span * width, "runs": of} for span, of in spans.items()],
    }  # fmt: skip


@router.post(
    "/runs", status_code=201, responses=ORDERED, response_model=StartedRun, dependencies=[DRIVE]
)
def start_run(body: StartBody, parts: TheParts, caller: TheCaller, response: Response) -> Any:
    """Start a run. The response follows its first record in the journal; a worker drives it."""
    started, _ = parts.runs.start(body.model_dump(exclude_none=True), caller)
    parts.workers.wake()
    response.headers["Location"] = f"/runs/{started['run']}"
    return started


# streams ------------------------------------------------------------------------------------------


@router.get(
    "/events", responses={**problems(*ANY, 410, 422), **STREAM}, dependencies=[READ],
    response_class=StreamingResponse,
)  # fmt: skip
async def all_events(
    request: Request, parts: TheParts, reach: TheReach,
    run: Annotated[
        str, Query(description="Only this run and its children.", max_length=400)
    ] = "",
) -> StreamingResponse:  # fmt: skip
    """The events of all runs as they are committed, and the model's text as it arrives.

    `Last-Event-ID` resumes after that event; without it, only new events are sent.
    """
    cursor = request.headers.get("last-event-id")
    if cursor is not None:
        await parts.grouped.tail(cursor or "-", 0)  # a bad id is refused before the stream begins
    name = reach.whole(run) if run else reach.name
    watcher = parts.hub.add(name, family=name != "")
    return EventStream(parts.hub, watcher, parts.hub.of_all(watcher, cursor))


@router.get(
    "/runs/{run_id:path}/events", responses={**FOUND, **problems(410), **STREAM},
    dependencies=[READ], response_class=StreamingResponse,
)  # fmt: skip
async def run_events(run_id: RunPath, request: Request, parts: TheParts) -> StreamingResponse:
    """The events of a run from the first, then as they are committed; `end` is the last.

    `Last-Event-ID` resumes after that event.
    """
    row = await in_lane(partial(parts.runs.row, run_id))
    after = _last_id(request.headers.get("last-event-id"), row)
    watcher = parts.hub.add(run_id)
    return EventStream(parts.hub, watcher, parts.hub.of_run(watcher, after))


def _last_id(header: str | None, row: RunRow) -> int:
    """The number after which a stream of the run resumes; -1 for its beginning."""
    if header is None:
        return -1
    newest = row.head - 1
    if header.isascii() and header.isdecimal() and len(header) < 16 and int(header) <= newest:
        return int(header)
    raise Refusal(
        410, "the run has no event of this id", hint="begin at the oldest, without the header",
        oldest="0", newest=str(newest),
    )  # fmt: skip


# one run ------------------------------------------------------------------------------------------


@router.get(
    "/runs/{run_id:path}/records", responses=FOUND, response_model=RecordList, dependencies=[READ]
)
def records(
    run_id: RunPath, parts: TheParts, start: Annotated[int, Query(ge=0, le=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Any:  # fmt: skip
    """The records from number `start` on; `next` is the `start` of the next page.

    A page ends where its records become large. Long texts of a record that is larger than a page
    are cut: `cut` names them, and `passage` has the rest.
    """
    page, following = records_page(parts.runs.open(run_id), start, limit)
    listed = [{"seq": record.seq, **plain(record.to_dict())} for record in page]
    return {"records": listed, "next": following}


@router.get("/runs/{run_id:path}/decision", responses=FOUND, dependencies=[READ])
def decision(
    run_id: RunPath, parts: TheParts, seq: Annotated[int | None, Query(ge=0, le=2**31)] = None
) -> dict[str, Any]:
    """The rules and edges evaluated for a record, with their margins; by default the newest."""
    return parts.runs.decision(run_id, seq)


@router.get("/runs/{run_id:path}/result", responses=FOUND, dependencies=[READ])
def result(run_id: RunPath, parts: TheParts) -> dict[str, Any]:
    """How the run ended, or its present status."""
    return plain(parts.runs.open(run_id).result.to_dict())


@router.get("/runs/{run_id:path}/trace", responses=FOUND, dependencies=[READ])
def trace(
    run_id: RunPath, parts: TheParts,
    after: Annotated[
        str, Query(pattern=r"^\d{1,9}\.\d{1,9}$", description="`next` of the page before.")
    ] = "0.0",
    limit: Annotated[int, Query(ge=1, le=1_000, description="The most records.")] = 100,
) -> dict[str, Any]:  # fmt: skip
    """The actions of the run and its children, in order.

    It has the first steps of each child; `GET /runs/CHILD/trace` has all of them, page by page.
    """
    steps, following = trace_page(parts.runs.open(run_id), after, limit)
    return {"steps": plain(list(steps)), "next": following}


@router.get(
    "/runs/{run_id:path}/picture",
    responses={
        **FOUND,
        200: {
            "description": "The flowchart, with the run's current state and the path it took.",
            "content": {"image/svg+xml": {"schema": {"type": "string"}}},
        },
    },
    response_class=Response, dependencies=[READ],
)  # fmt: skip
def picture(
    run_id: RunPath, parts: TheParts, look: Literal["plain", "live"] = "live",
    theme: Theme = "light",
) -> Response:  # fmt: skip
    """The flowchart of the run, as SVG."""
    drawn = parts.runs.open(run_id).draw(look=look).with_theme(theme)
    return Response(drawn.svg(), media_type="image/svg+xml")


async def _other(
    reach: TheReach,
    other: Annotated[
        str, Query(description="The run on the right.", examples=["f81a"], max_length=400)
    ],
) -> str:
    return reach.whole(other)


@router.get("/runs/{run_id:path}/compare", responses=FOUND, dependencies=[READ])
def compare(
    run_id: RunPath, parts: TheParts, other: Annotated[str, Depends(_other)],
    start: Annotated[
        int | None,
        Query(ge=0, le=2**31, description="The first row; by default shortly before they differ."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = ROWS,
) -> Comparison:  # fmt: skip
    """Two runs side by side: their status, the first step that differs, and different facts."""
    return parts.runs.compare(run_id, other, start, limit)


@router.get("/requests/{request_id}", responses=FOUND, dependencies=[READ])
async def one_request(request_id: str, parts: TheParts, reach: TheReach) -> dict[str, Any]:
    """An order and its outcome."""
    matches = await parts.grouped.requests(key=request_id)
    if not matches or not reach.sees(matches[0].run_id):
        raise Refusal(404, "there is no request of this id")
    return public_request(matches[0])


# orders -------------------------------------------------------------------------------------------


async def _drive(
    parts: Parts, kind: str, run_id: str, body: Body, *, caller: Caller, wait: float
) -> Any:
    try:
        order = partial(parts.runs.drive, kind, run_id, body.model_dump(), caller)
        receipt = await in_lane(order, run_id)
    except ChartloopError as error:
        return problem_answer(await in_lane(partial(answer_error, parts, run_id, error)))
    parts.workers.wake()
    end = time.monotonic() + min(wait, parts.settings.limits.wait)
    while time.monotonic() < end and not has_left():
        (order,) = await parts.grouped.requests(key=receipt["request"])
        if not order.is_open:
            return JSONResponse({**receipt, "outcome": order.outcome}, 200)
        await asyncio.sleep(POLL)
    return JSONResponse(receipt, 202, headers={"Location": f"/requests/{receipt['request']}"})


OUTCOME: Mapping[int | str, dict[str, Any]] = {
    200: {"model": Accepted, "description": "Done: `outcome` is the run's status."}
}


@router.post(
    "/runs/{run_id:path}/step", status_code=202, response_model=Accepted,
    responses={**ORDERED, **OUTCOME}, dependencies=[DRIVE],
)  # fmt: skip
async def step(
    run_id: RunPath, parts: TheParts, caller: TheCaller, body: EmptyBody | None = None,
    wait: Wait = 0,
) -> Any:  # fmt: skip
    """Do the next action."""
    return await _drive(parts, "step", run_id, body or EmptyBody(), caller=caller, wait=wait)


@router.post(
    "/runs/{run_id:path}/run", status_code=202, response_model=Accepted,
    responses={**ORDERED, **OUTCOME}, dependencies=[DRIVE],
)  # fmt: skip
async def run_on(
    run_id: RunPath, parts: TheParts, caller: TheCaller, body: RunBody | None = None,
    wait: Wait = 0,
) -> Any:  # fmt: skip
    """Drive the run to its end or `until`. A run that waits continues once it is answered."""
    return await _drive(parts, "run", run_id, body or RunBody(), caller=caller, wait=wait)


def _order(parts: Parts, run_id: str, work: Callable[[], dict[str, Any]]) -> Any:
    try:
        receipt = work()
    except ChartloopError as error:
        return problem_answer(answer_error(parts, run_id, error))
    parts.workers.wake()
    return receipt


def _message(parts: Parts, kind: str, run_id: str, body: Body, caller: Caller) -> Any:
    fields = body.model_dump(exclude_none=True)
    return _order(parts, run_id, lambda: parts.runs.message(kind, run_id, fields, caller))


@router.post(
    "/runs/{run_id:path}/pause", response_model=Accepted, responses=ORDERED, dependencies=[DRIVE]
)
def pause(
    run_id: RunPath, parts: TheParts, caller: TheCaller, body: EmptyBody | None = None
) -> Any:
    """Pause before the next action."""
    return _message(parts, "pause", run_id, body or EmptyBody(), caller)


@router.post(
    "/runs/{run_id:path}/resume", response_model=Accepted, responses=ORDERED, dependencies=[DRIVE]
)
def resume(
    run_id: RunPath, parts: TheParts, caller: TheCaller, body: EmptyBody | None = None
) -> Any:
    """End a pause and drive the run on."""
    return _message(parts, "resume", run_id, body or EmptyBody(), caller)


@router.post(
    "/runs/{run_id:path}/answer", response_model=Accepted, responses=ORDERED, dependencies=[ANSWER]
)
def answer(run_id: RunPath, body: AnswerBody, parts: TheParts, caller: TheCaller) -> Any:
    """Answer the run's question. A second answer to the same wait is refused."""
    return _message(parts, "answer", run_id, body, caller)


@router.get(
    "/runs/{run_id:path}/question", response_model=WholeQuestion, responses=FOUND,
    dependencies=[READ],
)  # fmt: skip
def question(run_id: RunPath, parts: TheParts) -> Any:
    """The question of a run that waits, to its end. Its `digest` proves that it was opened."""
    return _order(parts, run_id, lambda: parts.runs.question(run_id))


@router.get("/me", response_model=Me, responses=problems(*ANY), dependencies=[READ])
async def me(request: Request) -> Me:
    """The name, the scope and the tenant of the token that this request came with."""
    identity: Identity = request.scope["state"]["identity"]
    reach = identity.reach.tenant
    return Me(name=identity.person, scope=identity.scope, tenant=EVERY if reach is None else reach)


@router.post(
    "/runs/{run_id:path}/enqueue", response_model=Accepted, responses=ORDERED, dependencies=[DRIVE]
)
def enqueue(run_id: RunPath, body: EnqueueBody, parts: TheParts, caller: TheCaller) -> Any:
    """Append tasks to the queue."""
    return _message(parts, "enqueue", run_id, body, caller)


@router.post(
    "/runs/{run_id:path}/cancel", response_model=Accepted, responses=ORDERED, dependencies=[DRIVE]
)
def cancel(
    run_id: RunPath, parts: TheParts, caller: TheCaller, body: CancelBody | None = None
) -> Any:
    """Stop the run before its next action."""
    return _message(parts, "cancel", run_id, body or CancelBody(), caller)


@router.post(
    "/runs/{run_id:path}/fork", status_code=201, response_model=Accepted, responses=ORDERED,
    dependencies=[EDIT],
)  # fmt: skip
def fork(run_id: RunPath, parts: TheParts, caller: TheCaller, body: ForkBody | None = None) -> Any:
    """Create a run, `made`, from the first records of this one, which stays as it is."""
    at = (body or ForkBody()).at
    return _order(parts, run_id, lambda: parts.runs.fork(run_id, at, caller))


@router.get(
    "/runs/{run_id:path}/retry", response_model=RetryPlanBody, responses=FOUND,
    dependencies=[READ],
)  # fmt: skip
def retry_plan(
    run_id: RunPath, parts: TheParts,
    again: Annotated[bool, Query(description="Although it was tried again before.")] = False,
) -> Any:  # fmt: skip
    """What trying the run again would keep, and which calls it would make again.

    `refusal` says why there is nothing to try; it is empty if there is. `successor` is the run that
    was made of this one before, and `tried` says how it stands and what it has paid.
    """
    return parts.runs.retry_plan(run_id, again=again)


@router.post(
    "/runs/{run_id:path}/retry", status_code=201, response_model=Accepted, responses=ORDERED,
    dependencies=[EDIT],
)  # fmt: skip
def retry(
    run_id: RunPath, parts: TheParts, caller: TheCaller, body: RetryBody | None = None
) -> Any:
    """Try a run again from where it failed: a new run, `made`, which is driven at once.

    What was done before the failure is kept. It needs the `digest` of the plan as `confirm`; limits
    that stopped the run need new values. A run is tried again once: 409 with its `successor`,
    unless `again` says to do it all the same.
    """
    given = (body or RetryBody()).model_dump()
    return _order(parts, run_id, lambda: parts.runs.retry(run_id, given, caller))


@router.post(
    "/runs/{run_id:path}/back", status_code=201, response_model=Accepted, responses=ORDERED,
    dependencies=[EDIT],
)  # fmt: skip
def back(run_id: RunPath, parts: TheParts, caller: TheCaller, body: BackBody | None = None) -> Any:
    """Create a run, `made`, without the newest records of this one, which keeps them."""
    count = (body or BackBody()).records
    return _order(parts, run_id, lambda: parts.runs.back(run_id, count, caller))


@router.post(
    "/runs/{run_id:path}/set", response_model=Accepted, responses=ORDERED, dependencies=[EDIT]
)
def set_value(run_id: RunPath, body: SetBody, parts: TheParts, caller: TheCaller) -> Any:
    """Change a limit or variable. The change is recorded as an `edit`."""
    return _order(parts, run_id, lambda: parts.runs.set(run_id, body.name, body.value, caller))


@router.get("/runs/{run_id:path}", responses=FOUND, dependencies=[READ])
def one_run(
    run_id: RunPath, parts: TheParts,
    seq: Annotated[
        int | None, Query(ge=0, le=2**31, description="The record whose decision is returned.")
    ] = None,
    known: Annotated[
        int, Query(ge=-1, le=2**31, description="Only records after this one are returned.")
    ] = -1,
    limit: Annotated[int, Query(ge=1, le=RECORDS, description="The most records.")] = RECORDS,
) -> Json:  # fmt: skip
    """The whole view of a run: its state, question, facts, newest 200 records and a decision.

    `head` is the number of the newest record; `last_event` is the event id after which the run's
    stream continues.
    """
    return parts.runs.view(run_id, seq, known, limit)
