"""The application: its wiring, its error handlers, its lifespan.

Belongs here: putting the parts together. Never: a route of runs or machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse

from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.schedule.opening import engine_of
from chartloop.core.codes import CODES
from chartloop.core.errors import ChartloopError
from chartloop.core.strict_json import pointer
from chartloop.core.version import __version__
from chartloop.hosting.health import Health, Verdict
from chartloop.hosting.machines import Machines
from chartloop.hosting.metrics import Metrics
from chartloop.hosting.problems import TITLES, Problem, Refusal, Wrong, problem_of
from chartloop.hosting.runs import Runs
from chartloop.hosting.safety import Safety
from chartloop.hosting.server import (
    routes_agent,
    routes_conversation,
    routes_fleet,
    routes_links,
    routes_machines,
    routes_page,
    routes_runs,
)
from chartloop.hosting.server.common import (
    ANY,
    READ,
    Parts,
    TheParts,
    TheReach,
    complete,
    problem_answer,
    problems,
)
from chartloop.hosting.server.page import RunPage
from chartloop.hosting.server.watch import Hub
from chartloop.hosting.settings import Settings
from chartloop.hosting.workers import Workers
from chartloop.run.answer_links import AnswerLink, find_link
from chartloop.run.redact import Redactor


def create_app(settings: Settings) -> FastAPI:
    """Create the application of a server. Once started, it drives runs and watches the journal.

    Raises `SetupError` or `JournalError` for wrong settings.
    """
    journal = journal_of(settings.journal)
    machines = Machines(settings, journal)
    runs = Runs(settings, journal, machines)
    redactor = Redactor([token.secret for token in settings.tokens])
    hub = Hub(journal, settings.limits, redactor)
    workers = Workers(runs, hub.hear, engine_of(journal) if settings.workers else None)
    parts = Parts(settings, journal, machines, runs, workers, Health(workers), hub, Metrics())

    async def find(token: str) -> AnswerLink | None:
        return await find_link(parts.grouped, token)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        await hub.start()
        workers.start()
        try:
            yield
        finally:
            await hub.stop()
            workers.stop()
            if (tracer := settings.components.get("tracer")) is not None:
                await asyncio.to_thread(
                    tracer.flush, settings.grace
                )  # the process ends right after this

    app = FastAPI(
        title="chartloop", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=None,
        description="Machines and runs over HTTP. Errors are problem documents (RFC 9457).",
        responses=problems(*ANY),
    )  # fmt: skip
    app.state.parts = parts
    app.state.page = routes_page.PageMemory.empty()
    plain_document = app.openapi
    app.openapi = lambda: complete(plain_document())
    _add_errors(app)
    _add_service(app)
    rooms = (
        routes_machines, routes_agent, routes_page, routes_conversation, routes_links, routes_fleet,
        routes_runs,
    )  # fmt: skip
    routers = [room.router for room in rooms]
    for router in routers:
        app.include_router(router)
    app.add_middleware(cast("Any", Safety), settings=settings, metrics=parts.metrics, find=find)
    app.add_middleware(cast("Any", RunPage), views=_views(routers))
    return app


def _views(routers: Iterable[APIRouter]) -> set[str]:
    """The last segments of links below a run or machine that are data, not pages: `picture`."""
    paths = [str(getattr(route, "path", "")) for router in routers for route in router.routes]
    return {path.rpartition("/")[2] for path in paths if path.count("/") > 2}


# errors -----------------------------------------------------------------------------------------


def _add_errors(app: FastAPI) -> None:
    async def respond(_: Request, error: Exception) -> JSONResponse:
        return problem_answer(problem_of(error))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        errors = cast("RequestValidationError", error).errors()
        wrong = list(_field_errors(cast("Sequence[dict[str, Any]]", errors)))
        first = wrong[0] if wrong else Wrong("", "the request is not accepted")
        where = f"{first.at}: " if first.at else ""
        return problem_answer(problem_of(Refusal(422, f"{where}{first.message}", wrong=wrong)))

    async def unknown(_: Request, error: Exception) -> JSONResponse:
        status: int = getattr(error, "status_code", 500)
        return problem_answer(
            Problem(status, problem_of(Refusal(status, TITLES.get(status, "Error"))).body,
                    dict(getattr(error, "headers", None) or {}))
        )  # fmt: skip

    app.add_exception_handler(ChartloopError, respond)
    app.add_exception_handler(Refusal, respond)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, respond)
    for status in (400, 404, 405):
        app.add_exception_handler(status, unknown)


def _field_errors(errors: Sequence[dict[str, Any]]) -> Iterator[Wrong]:
    for error in errors:
        root, *rest = error["loc"]
        at = pointer(*rest) if root == "body" else ".".join(map(str, (root, *rest)))
        yield Wrong(at, str(error["msg"]))


# the server itself ------------------------------------------------------------------------------


def _verdict(verdict: Verdict, response: Response) -> dict[str, Any]:
    response.status_code = 200 if verdict.ok else 503
    status = "ok" if verdict.ok else verdict.why
    return {"status": status, "version": __version__}


def _add_service(app: FastAPI) -> None:
    @app.get("/livez", tags=["server"], responses={503: {}})
    def livez(parts: TheParts, response: Response) -> dict[str, Any]:
        """Whether the server turns. If it does not, restart it. Needs no token."""
        return _verdict(parts.health.alive(), response)

    @app.get("/readyz", tags=["server"], responses={503: {}})
    def readyz(parts: TheParts, response: Response) -> dict[str, Any]:
        """Whether its journal can be read, with tables that it knows. Needs no token."""
        return _verdict(parts.health.ready(), response)

    @app.get("/metrics", tags=["server"], dependencies=[READ], response_class=PlainTextResponse)
    def metrics(parts: TheParts, reach: TheReach) -> str:
        """Counters in the text format of Prometheus, of what the token may see."""
        watched = [watcher.run_id for watcher in parts.hub.watchers]  # empty: the runs of all
        watchers = sum(reach.tenant is None or (run != "" and reach.sees(run)) for run in watched)
        open_streams = "chartloop_watchers", "gauge", "Open event streams.", watchers
        return parts.metrics.text([*parts.health.gauges(reach), open_streams], reach)

    @app.get("/openapi.json", include_in_schema=False)
    def document() -> JSONResponse:  # in a thread: it takes long when it is made
        return JSONResponse(app.openapi())

    @app.get("/problems/{code}", tags=["server"], responses=problems(404, 422))
    async def explain(code: str) -> dict[str, str]:
        """The meaning of an error code: its cause and its cure."""
        row = CODES.get(code)
        if row is None:
            raise Refusal(404, "there is no such code")
        return {"code": row.code, "title": row.title, "cause": row.cause, "cure": row.cure}
