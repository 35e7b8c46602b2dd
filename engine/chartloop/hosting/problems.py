"""Errors as problem documents (RFC 9457), with their place and their cure.

Belongs here: the HTTP status of each kind of error, and the document's fields. Never: routes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.core.codes import CODES
from chartloop.core.errors import (
    AheadError,
    AnsweredError,
    AnswerError,
    ChartloopError,
    CursorError,
    CursorGoneError,
    Driven,
    Fenced,
    FollowedError,
    JournalError,
    JournalLocked,
    LimitError,
    MachineChangedError,
    ModelError,
    MovedError,
    RulesChangedError,
    RunError,
    ScriptError,
    SetupError,
    SpecError,
    StatusError,
    TaskError,
    UnknownRunError,
    WaitError,
)
from chartloop.hosting.cron_orders import UnknownScheduleError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 5
"""Seconds until a client may retry when the journal is locked or the server is full."""
_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[ChartloopError], int], ...] = (
    (UnknownRunError, 404),
    (UnknownScheduleError, 404),
    (CursorGoneError, 410),
    (CursorError, 422),
    (StatusError, 409),
    (WaitError, 409),
    (AheadError, 409),
    (AnswerError, 422),
    (LimitError, 422),
    (TaskError, 422),
    (MachineChangedError, 409),
    (RulesChangedError, 409),
    (ScriptError, 409),
    (SetupError, 409),
    (Driven, 409),
    (Fenced, 409),
    (JournalLocked, 503),
    (JournalError, 500),
    (SpecError, 422),
    (ModelError, 502),
    (RunError, 422),
)
"""The HTTP status of each error class. The first match counts: subclasses stand before bases."""

TITLES = {
    400: "Bad request", 401: "A token is needed", 403: "Not allowed", 404: "Not found",
    405: "Method not allowed", 408: "Too slow", 409: "Not at this moment", 410: "Gone",
    413: "Too large", 415: "Not JSON", 421: "Unknown host", 422: "Not accepted",
    429: "Too many requests", 500: "A fault of the server", 502: "The model failed",
    503: "Try again later",
}  # fmt: skip


class Wrong(NamedTuple):
    """One error in a request."""

    at: str
    """The place: a JSON pointer into the body, or ``query.NAME``, ``header.NAME``."""
    message: str
    hint: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain data, without an empty hint."""
        return {name: value for name, value in self._asdict().items() if value or name != "hint"}


class Refusal(Exception):
    """A request refused for a reason of HTTP: its size, its scope, a field of its body."""

    def __init__(
        self, status: int, detail: str, *, hint: str = "", wrong: Sequence[Wrong] = (),
        headers: Mapping[str, str] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        self.status, self.detail, self.hint = status, detail, hint
        self.wrong, self.headers, self.more = tuple(wrong), dict(headers or {}), more
        super().__init__(detail)


class Problem(NamedTuple):
    """A problem document with the status and headers of its response."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]


def problem_of(error: BaseException, **more: Any) -> Problem:
    """The problem document of an error. Internal errors are logged, and their text stays hidden."""
    if isinstance(error, Refusal):
        body = _body(error.status, error.detail, hint=error.hint)
        if error.wrong:
            body["errors"] = [wrong.to_dict() for wrong in error.wrong]
        return Problem(error.status, body | error.more | more, error.headers)
    if not isinstance(error, ChartloopError):
        _log.error("a request failed", exc_info=error)
        return Problem(500, _body(500, "the request failed; the server's log says why"), {})
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    body = _body(status, error.message, hint=error.hint, code=error.code) | _facts(error) | more
    headers = {"Retry-After": str(RETRY_AFTER)} if status == 503 else {}
    return Problem(status, body, headers)


def _body(status: int, detail: str, *, hint: str = "", code: str = "") -> dict[str, Any]:
    row = CODES.get(code)
    title = TITLES.get(status, "Error") if row is None else row.title
    body: dict[str, Any] = {
        "type": f"/problems/{code}" if code else "about:blank",
        "title": title[:1].upper() + title[1:],
        "status": status,
        "detail": detail,
    }
    if hint:
        body["hint"] = hint
    if code:
        body["code"] = code
    return body


def _facts(error: ChartloopError) -> dict[str, Any]:
    """The attributes of an error as fields of its problem document."""
    match error:
        case Driven():
            driver = {"face": error.face, "host": error.host, "pid": error.pid}
            return {"driver": driver, "since": error.since, "until": error.until}
        case MovedError():
            return {"moved_to": error.successor}
        case FollowedError():
            return {"successor": error.successor}
        case AnsweredError():
            return {"wait": error.wait, "answered": error.at}
        case CursorGoneError():
            return {"oldest": error.oldest, "newest": error.newest}
        case WaitError():
            return {"wait": error.wait}
        case AnswerError() if error.place:
            return {"errors": [Wrong(error.place, error.message, error.hint).to_dict()]}
        case SpecError():
            found = [f.to_dict() | {"file": Path(f.place.file).name} for f in error.findings]
            return {"detail": "the machine has errors", "findings": found}
        case TaskError():
            return {"errors": [Wrong(f"/tasks/{error.number}", error.message).to_dict()]}
        case _:
            return {}
