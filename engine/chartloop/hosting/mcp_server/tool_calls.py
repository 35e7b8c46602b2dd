"""The work of each tool: starting a run, following it until it stops, answering it, reading it.

A call writes an order into the journal and then only reads: a worker drives, in this process or in
another, so a call sees the same whichever process drives. A run rests when it has ended, asks a
person, was paused, or could not be driven on.

Belongs here: orders to runs and their results, as plain data. Never: the protocol.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import anyio
from anyio.to_thread import run_sync

from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.schedule.opening import engine_of
from chartloop.api import Machine, Run
from chartloop.core.errors import (
    ArgumentsError,
    ChartloopError,
    Driven,
    SetupError,
    SpecError,
    StatusError,
    UnknownRunError,
    nearest,
)
from chartloop.core.phase import Phase
from chartloop.core.plain import plain
from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.mcp_server.machine_tools import (
    OWN,
    ToolShape,
    machine_tool,
    output_schema,
)
from chartloop.hosting.problems import problem_of
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.hosting.workers import Workers
from chartloop.language.json_schema.validator import Validator
from chartloop.run.events import Event as StreamEvent
from chartloop.run.inbox import pause_asked
from chartloop.run.journal import Journal, RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.migrate import successor_of
from chartloop.run.phases import stand_of, stands_of
from chartloop.run.question import Question
from chartloop.run.redact import Redactor
from chartloop.run.result import Result, say_output
from chartloop.run.sync import by_hand
from chartloop.run.tenants import Reach
from chartloop.ui.view_model.orders import is_held

T = TypeVar("T")
Json = dict[str, Any]
Report = Callable[[int, str], Awaitable[None]]
"""Called for each step of a run with the number of its record and a description."""
POLL = 0.05
"""Seconds between two polls of the journal for changes."""
AGAIN = 1.0
"""Seconds after which the run is read even without changes: a lease may have lapsed."""
PAGE = 256
_NOTHING: Mapping[str, Any] = {}
_QUESTION = ("wait", "text", "about", "answers", "calls", "due", "rest")
LISTED = 20
"""Runs that `status` lists."""


class Standing(NamedTuple):
    """The status of a run when it rests or when a call stops waiting for it."""

    body: Json
    """The status as JSON for the client, redacted."""
    question: Question | None
    is_error: bool
    """Whether the run ended with an error."""

    @property
    def text(self) -> str:
        """The same in words: the output of a successful run, else its status and question."""
        body = self.body
        if body["success"] and body["output"] is not None:
            return say_output(body["output"])
        lines = [body.get("note", ""), body["explanation"]]
        if (question := body["question"]) is not None:
            lines += [_how_to_answer(body["run"], question)]
        return "\n".join(line for line in lines if line)


class Progress:
    """The progress of a run as reported to a client, each step once."""

    def __init__(self, report: Report, after: int = 0) -> None:
        self.report = report
        self.at = after
        """The number of the first event that is not reported yet."""


class FailedCallError(Exception):
    """A run could not be driven. Holds the problem document of its worker."""

    def __init__(self, problem: Json) -> None:
        self.problem = problem
        super().__init__(str(problem.get("detail", "")))


class Calls:
    """The runs behind the tools of a server. Used on one event loop, which it never blocks.

    Raises `SetupError` if a machine has the name of another tool.
    """

    def __init__(self, settings: Settings) -> None:
        journal = journal_of(settings.journal)
        self.settings = settings
        self.machines = Machines(settings, journal)
        for file in self.machines.listing():
            if file.name in OWN:
                raise SetupError(
                    f"the machine `{file.name}` has the name of a tool of this server",
                    hint="give the machine another name: `machine: NAME` in its file",
                )
        self.runs = Runs(settings, journal, self.machines)
        self.workers = Workers(self.runs, _ignore_event, engine_of(journal))
        self._starting: dict[str, threading.Event] = {}
        """Runs being started in a thread, each with an event that is set once it has started."""
        self.redactor = Redactor([token.secret for token in settings.tokens])
        self._journal: Journal = getattr(journal, "grouped", journal)

    # tools ----------------------------------------------------------------------------------

    async def shapes(self) -> list[ToolShape]:
        """The tools: those of machines without errors, then the server's own."""
        files = await run_sync(self.machines.listing)
        shapes = [machine_tool(file.machine) for file in files if file.machine is not None]
        return [*(shape for shape in shapes if shape.name not in OWN), *OWN.values()]

    async def machine(self, name: str) -> Machine:
        """The machine of that name. Raises `ArgumentsError` if unknown, `SpecError` if faulty."""
        files = {file.name: file for file in await run_sync(self.machines.listing)}
        if name not in files or name in OWN:
            hint = nearest(name, files.keys() - OWN)
            raise ArgumentsError(f"there is no machine `{name}`", hint=hint)
        if files[name].machine is None:
            raise SpecError(files[name].findings)
        return await run_sync(self.machines.to_start, name)

    # orders ---------------------------------------------------------------------------------

    async def start(
        self, machine: str, arguments: Mapping[str, Any], run_id: str, person: str = ""
    ) -> None:
        """Start a run and write its first record; a worker drives it."""
        body = {**arguments, "machine": machine, "run_id": run_id}
        started = self._starting[run_id] = threading.Event()

        def begin() -> None:
            try:
                self.runs.start(body, Caller(person=person))
            finally:
                del self._starting[run_id]
                started.set()

        await run_sync(begin)
        self.workers.wake()

    async def answer(self, run_id: str, body: Mapping[str, Any], person: str = "") -> str:
        """Send an answer; returns the id of its wait. Raises `AnswerError` if it is refused."""
        await self.row(run_id)
        body, caller = {**body, "then": "run"}, Caller(person=person)
        receipt = await run_sync(self.runs.message, "answer", run_id, body, caller)
        self.workers.wake()
        return str(receipt["wait"])

    async def cancel(self, run_id: str, message: str) -> None:
        """Stop a run before its next action."""
        await self.row(run_id)
        await run_sync(self.runs.message, "cancel", run_id, {"message": message}, Caller())
        self.workers.wake()

    async def resume(self, run_id: str) -> None:
        """Drive on a run that is paused or was left by its driver."""
        row = await self.row(run_id)
        if row.ended or row.question is not None:
            return
        run = await run_sync(self.runs.open, run_id)
        # that of a call that was cancelled may not have been read, because its server ended
        pausing = await pause_asked(self._journal, run_id)
        with suppress(StatusError, Driven):  # it is driven, or has an open order
            if is_held(run) or pausing:
                await run_sync(self.runs.message, "resume", run_id, _NOTHING, Caller())
            else:
                await run_sync(self.runs.drive, "run", run_id, _NOTHING, Caller())
        self.workers.wake()

    async def hold(self, run_id: str) -> None:
        """Pause the run of a cancelled call, unless it rests already.

        A call may be cancelled while its run is being started: the start is awaited first.
        """
        if (started := self._starting.get(run_id)) is not None:
            await run_sync(started.wait)
        row = await self._journal.row(run_id)
        if row is None or row.ended or row.question is not None or row.head == 0:
            return
        with suppress(ChartloopError):
            await run_sync(self.runs.message, "pause", run_id, _NOTHING, Caller())

    # following ------------------------------------------------------------------------------

    async def row(self, run_id: str) -> RunRow:
        """The run's row. Raises `UnknownRunError` if there is none."""
        row = await self._journal.row(run_id)
        if row is None:
            raise UnknownRunError(
                f"there is no run `{run_id}`", hint="`status` without `run` lists the newest runs"
            )
        return row

    async def head(self, run_id: str) -> int:
        """The number of the run's events; 0 before it exists."""
        row = await self._journal.row(run_id)
        return 0 if row is None else row.head

    async def follow(
        self, run_id: str, *, past: str = "", seconds: float | None = None,
        progress: Progress | None = None,
    ) -> None:  # fmt: skip
        """Wait until the run rests, or for `seconds`. `past` is the wait of an answered question.

        Raises `FailedCallError` if the run could not be driven.
        """
        end = None if seconds is None else time.monotonic() + seconds
        token, next_look = "", 0.0
        while True:
            now = await self._journal.changed(token)
            if now is not None or time.monotonic() >= next_look:
                token, next_look = now or token, time.monotonic() + AGAIN
                row = await self.row(run_id)
                if progress is not None:
                    await self._report(run_id, progress)
                if await self._rests(row, past):
                    return
            if end is not None and time.monotonic() >= end:
                return
            await anyio.sleep(POLL)

    async def wait_over(self, run_id: str, wait: str) -> None:
        """Return once a wait of the run is over: answered, expired or cancelled."""
        while True:
            question = (await self.row(run_id)).question
            if question is None or question.wait != wait:
                return
            await anyio.sleep(4 * POLL)

    async def _rests(self, row: RunRow, past: str) -> bool:
        if row.ended:
            return True
        if row.question is not None and row.question.wait != past:
            return True
        orders = await self._journal.requests(row.run_id, limit=20)
        if any(request.is_open for request in orders):
            return False
        if await self._journal.living_lease(row.run_id) is not None:
            return False
        for request in orders:
            if request.kind in ("run", "take", "step"):
                if problem := (request.outcome or {}).get("problem"):
                    raise FailedCallError(dict(problem))
                break
        return True

    async def _report(self, run_id: str, progress: Progress) -> None:
        while page := await self._journal.events(run_id, progress.at, PAGE):
            for event in page:
                progress.at = event.seq + 1
                record = event.record
                if record is not None and record.kind == "step":
                    message = f"{record.state} → {record.next}"
                    await progress.report(record.seq, self.redactor.text(message))
            if len(page) < PAGE:
                break

    # reading --------------------------------------------------------------------------------

    async def standing(self, run_id: str, note: str = "", *, whole: bool = False) -> Standing:
        """The run as it is now; with its question to the end if `whole`."""
        row = await self.row(run_id)
        if row.moved_to:
            last = await successor_of(self._journal, row)
            moved = f"run `{run_id}` continues as run `{last.run_id}`, under a changed file"
            return await self.standing(last.run_id, moved)
        if row.head == 0:
            body = {
                "run": run_id, "machine": row.machine, "status": "running", "state": row.state,
                "reason": None, "success": False, "steps": 0, "output": None, "question": None,
                "explanation": "The run has not begun.",
            }  # fmt: skip
            return Standing(body, None, False)
        return await run_sync(partial(self._standing, run_id, note, whole=whole))

    def _standing(self, run_id: str, note: str, *, whole: bool) -> Standing:
        run = self.runs.open(run_id)
        result, question = run.result, run.question
        stand = by_hand(stand_of(self.runs.journal, run.session.row))
        body = _run_body(run, result, stand.phase, question)
        if result.output is not None and _is_invalid(run, body["output"]):
            message = "the output is not of the type that its schema says, and is left out"
            body |= {"output": None, "warnings": [*body["warnings"], message]}
        body |= {"note": note} if note else {}
        if whole and question is not None:
            opened = {**_question_body(question, question), "digest": question.digest}
            body["question"] = {**opened, "rest": 0}
        return Standing(self.clean(body), question, result.kind == "error")

    async def newest(self, reach: Reach) -> Json:
        """The newest runs that the caller sees, each in a line."""
        page = await self._journal.page(RunFilter(tenant=reach.tenant), "", LISTED)
        stands = await stands_of(self._journal, page.rows)
        rows = [
            {
                "run": row.run_id, "machine": row.machine, "state": row.state, "steps": row.steps,
                "status": "waiting" if row.question is not None else row.status,
                "phase": stands[row.run_id].phase.name, "task": row.task,
                "reason": row.reason or None,
                "question": row.question.text if row.question is not None else None,
            }
            for row in page.rows
        ]  # fmt: skip
        return self.clean({"runs": rows})

    async def why(self, run_id: str, record: int | None) -> tuple[Json, str]:
        """The decision of a record, by default the newest, as data and in words."""
        await self.row(run_id)
        decision = await run_sync(self.runs.decision, run_id, record)
        run = await run_sync(self.runs.open, run_id)
        text = await run_sync(lambda: str(run.why(decision["seq"])))
        return self.clean({"run": run_id, **decision}), self.redactor.text(text)

    # output ---------------------------------------------------------------------------------

    def clean(self, data: T) -> T:
        """The data as plain JSON, redacted."""
        text = json.dumps(plain(data), default=str)
        return cast(T, json.loads(self.redactor.json(text, {})))

    def error(self, error: BaseException) -> tuple[Json, str]:
        """An error for a client: its code, text and cure as data, and as text."""
        failed = isinstance(error, FailedCallError)
        body = error.problem if failed else problem_of(error).body
        body = self.clean({n: v for n, v in body.items() if n not in ("type", "status")})
        code, hint = body.get("code", ""), body.get("hint", "")
        lines = [f"{code}: {body['detail']}" if code else str(body["detail"])]
        lines += [hint] if hint else []
        lines += [f"{f['code']}: {f['message']}" for f in body.get("findings", ())]
        return {"error": body}, "\n".join(lines)


def _ignore_event(run_id: str, event: StreamEvent) -> None:
    """Ignore a live event: calls report from the journal."""


def _run_body(run: Run, result: Result, phase: Phase, question: Question | None) -> Json:
    status = result.status
    if status not in ("completed", "error"):
        status = "waiting" if question is not None else "paused" if is_held(run) else "running"
    return {
        "run": result.run_id, "machine": result.machine, "status": status,
        "phase": phase.name, "state": result.state,
        "reason": None if result.reason is None else str(result.reason), "kind": result.kind,
        "success": result.success, "steps": result.steps, "output": plain(result.output),
        "explanation": result.explain(), "warnings": list(result.warnings),
        "question": None if question is None else _question_body(question),
    }  # fmt: skip


def _question_body(question: Question, shown: Question | None = None) -> Json:
    """The question as a client gets it first; `status` with `whole` gives the rest."""
    data = (shown or question.begin()).to_dict() | {"rest": question.rest}
    return {name: data[name] for name in _QUESTION}


def _is_invalid(run: Run, output: Any) -> bool:
    """Whether an output does not match the schema that its tool declares."""
    schema = output_schema(run.machine.spec)
    return bool(schema) and bool(Validator(schema).faults(output))


def _how_to_answer(run_id: str, question: Json) -> str:
    events = ", ".join(
        f"`{event}`" + (f" ({', '.join(f'{n}: {t}' for n, t in fields.items())})" if fields else "")
        for event, fields in question["answers"].items()
    )
    return (
        f'Answer with the tool `answer`: run="{run_id}", wait="{question["wait"]}",'
        f" and as event one of {events}."
    )
