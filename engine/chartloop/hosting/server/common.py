"""Shared by all routes: the parts of the server, the caller, and how responses are built.

The dependencies are coroutines although they await nothing: FastAPI calls plain functions in a
thread pool, and that detour costs more than they do, much more while workers drive.

Belongs here: dependencies of routes. Never: a route.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import TypeAdapter
from pydantic_core import to_json

from chartloop.core.errors import ChartloopError
from chartloop.hosting.asking import BYTES, fit, in_lane
from chartloop.hosting.callers import Caller
from chartloop.hosting.health import Health
from chartloop.hosting.machines import Machines
from chartloop.hosting.metrics import Metrics
from chartloop.hosting.problems import MEDIA_TYPE, Problem, Refusal, problem_of
from chartloop.hosting.runs import Runs
from chartloop.hosting.safety import Hidden, Identity, hide
from chartloop.hosting.server.shapes import ProblemBody
from chartloop.hosting.server.watch import Hub, Page, Watcher
from chartloop.hosting.settings import SCOPES, Scope, Settings
from chartloop.hosting.workers import Workers
from chartloop.run.journal import Journal
from chartloop.run.redact import Redactor
from chartloop.run.tenants import Reach

LONGEST_KEY = 255


class Parts(NamedTuple):
    """The components of a server."""

    settings: Settings
    journal: Journal
    machines: Machines
    runs: Runs
    workers: Workers
    health: Health
    hub: Hub
    metrics: Metrics

    @property
    def grouped(self) -> Journal:
        """The journal for use on the web's event loop."""
        return getattr(self.journal, "grouped", self.journal)


async def parts_of(request: Request) -> Parts:
    """The parts of the server that handles this request."""
    return request.app.state.parts


def need(scope: Scope) -> Callable[[Request], Awaitable[None]]:
    """A dependency that requires a token with the scope `scope` or a wider one."""

    async def check(request: Request) -> None:
        identity: Identity = request.scope["state"]["identity"]
        if not identity.allows(scope):
            raise Refusal(
                403, f"this needs a token with the scope `{scope}`",
                hint=f"yours has `{identity.scope}`", scope=scope,
            )  # fmt: skip

    return check


async def caller_of(
    request: Request,
    key: Annotated[
        str,
        Header(
            alias="Idempotency-Key",
            max_length=LONGEST_KEY,
            description="Repeating a request with the same key and body does nothing twice.",
        ),
    ] = "",
) -> Caller:
    """The caller and its idempotency key."""
    identity: Identity = request.scope["state"]["identity"]
    return Caller(key, identity.name, identity.person, identity.scope, identity.reach)


async def reach_of(request: Request) -> Reach:
    """The runs that the sender of this request may see."""
    return request.scope["state"]["identity"].reach


TheReach = Annotated[Reach, Depends(reach_of)]


async def run_named(
    reach: TheReach,
    run_id: Annotated[str, Path(description="The run's id.", examples=["k3f9"], max_length=400)],
) -> str:
    """The whole id of the run in the path, with the caller's tenant."""
    return reach.whole(run_id)


RunPath = Annotated[str, Depends(run_named)]


TheParts = Annotated[Parts, Depends(parts_of)]
TheCaller = Annotated[Caller, Depends(caller_of)]
READ, ANSWER, DRIVE, EDIT = (Depends(need(scope)) for scope in SCOPES)

_ABOUT = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    403: "The token does not reach so far, or a page of another site asked.",
    404: "There is no such run, machine or record.",
    405: "There is no such method here.",
    408: "The body did not arrive in time.",
    409: "Not at this moment: `can` lists what the run takes now, `driver` who drives it.",
    410: "The id is stale or of the future: `oldest` and `newest` are given.",
    413: "The body is too large or nested too deeply.",
    415: "The body is not JSON.",
    421: "The server is not addressed by this name.",
    422: "A field is not accepted: `errors` holds its place.",
    429: "Too many requests, or wrong tokens: `Retry-After` says when to come again.",
    500: "A fault of the server: its log says more.",
    502: "A model call failed.",
    503: "The journal is locked, or too many streams or connections are open: `Retry-After`.",
}
ANY = (400, 401, 403, 421, 429, 500, 503)
CHANGES = (*ANY, 404, 408, 409, 413, 415, 422)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problem answers of a route, for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {
        status: {"description": _ABOUT[status], "content": content}
        for status in sorted({*statuses})
    }


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with the schema of problems, in place of FastAPI's own."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = ProblemBody.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= {**problem.pop("$defs", {}), "ProblemBody": problem}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return document


def problem_answer(problem: Problem) -> JSONResponse:
    """The response that carries a problem document."""
    return JSONResponse(
        problem.body, problem.status, media_type=MEDIA_TYPE, headers=problem.headers
    )


def answer_error(parts: Parts, run_id: str, error: ChartloopError) -> Problem:
    """The problem for a failed order; for a 409, with the orders that the run accepts now."""
    problem = problem_of(error)
    if problem.status != 409:
        return problem
    try:
        return problem_of(error, can=parts.runs.can(parts.runs.open(run_id)))
    except (ChartloopError, Refusal):  # a run that cannot be opened accepts no orders
        return problem


class Rooms(APIRouter):
    """Routes whose plain functions are called in the lane of their request.

    So is the encoding of what they give, which is bounded there, and its redaction. A function that
    takes a `limit` is called again with a lower one, if what it gives is too large.
    """

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not iscoroutinefunction(endpoint):
            endpoint = _in_lane(endpoint, options)
        super().add_api_route(path, endpoint, **options)


def _in_lane(endpoint: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    model: Any = options.get("response_model")
    shape = TypeAdapter(model) if isinstance(model, type) else None

    def answer(values: dict[str, Any], redactor: Redactor) -> Response:
        while True:
            given, most = endpoint(**values), values.get("limit", 1)
            if isinstance(given, Response):
                body = bytes(given.body)
            elif shape is None:
                body = to_json(given, inf_nan_mode="null")
            else:
                body = shape.dump_json(shape.validate_python(given, from_attributes=True))
            if len(body) <= BYTES or most == 1:
                break
            values["limit"] = max(1, min(most // 2, most * BYTES // len(body)))
        if not isinstance(given, Response):
            sent = next((one for one in values.values() if type(one) is Response), Response())
            status = options.get("status_code") or sent.status_code
            given = Response(b"", status, dict(sent.headers), "application/json")
        hidden = hide(redactor, body)  # before it is cut: no secret is split
        given.body = hidden if given.media_type == "image/svg+xml" else Hidden(fit(hidden))
        given.headers["content-length"] = str(len(given.body))
        return given

    @wraps(endpoint)
    async def called(**values: Any) -> Response:
        parts: Parts = values["parts"]
        work = partial(answer, values, parts.hub.redactor)
        return await in_lane(work, values.get("run_id", ""))

    return called


class EventStream(StreamingResponse):
    """The events of a watcher as `text/event-stream`."""

    def __init__(self, hub: Hub, watcher: Watcher, pages: AsyncIterator[Page]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        parts = hub.parts_for(watcher, pages)
        super().__init__(parts, media_type="text/event-stream", headers=headers)
        self._hub, self._watcher = hub, watcher

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        self._watcher.abort = scope["state"].get("abort", self._watcher.abort)
        try:  # also for a stream that ends before its first chunk
            await super().__call__(scope, receive, send)
        finally:
            self._hub.remove(self._watcher)


STREAM: Mapping[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of server-sent events, each with JSON data.",
        "content": {
            "text/event-stream": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "event": {"type": "string"},
                        "data": {"type": "string", "contentMediaType": "application/json"},
                    },
                    "required": ["data"],
                },
                "example": 'id: 4\nevent: record\ndata: {"run": "k3f9", "seq": 4}\n\n',
            }
        },
    }
}
