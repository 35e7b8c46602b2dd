"""The notifier for a webhook: each notice is one POST of JSON to a URL.

    machine.start(task, notifier=WebhookNotifier("https://hooks.example.com/x?token=..."))

The path and query of a URL may be secret: only its scheme, host and port appear in messages.
Notices pass the redactor, like records.

Belongs here: HTTP. Never: the content of notices, or when they are sent.
Source: 003 "Send Notification"; issue "Sources" (notification: log and webhook adapters).
"""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import anyio
import anyio.to_thread

from chartloop.core.errors import Category, SetupError, ToolError
from chartloop.run.redact import Redactor

_UNFIT = re.compile(r"[^\x21-\x7e]")
"""The characters that a URL cannot contain: spaces, control characters, non-ASCII letters."""
_KEEPS_BODY = (307, 308)
"""The redirects after which the same body is posted again."""


class WebhookNotifier:
    """Posts ``{"text": ..., "data": {...}, "run": id}``, and accepts any 2xx response.

    A 5xx response or a failed connection is retried `retries` times, after `pause` seconds and
    then twice as long each time. `timeout` bounds each attempt, in seconds; an attempt that times
    out is not retried, because it may have arrived. A redirect is followed only on the same host.
    `secret_env` names the environment variable with the token for ``Authorization: Bearer``.

    Raises `SetupError` for an invalid URL or an unset variable; `notify` raises `ToolError`.
    """

    suspends = True

    def __init__(
        self, url: str, *, timeout: float = 10.0, retries: int = 2, pause: float = 0.5,
        secret_env: str = "",
    ) -> None:  # fmt: skip
        parts = _parts(url)
        self.shown = f"{parts.scheme}://{parts.netloc}"
        """The URL without the parts that may be secret."""
        self._url, self._timeout, self._retries, self._pause = url, timeout, retries, pause
        self._headers = {"Content-Type": "application/json", "User-Agent": "chartloop"}
        if secret_env:
            secret = os.environ.get(secret_env, "").strip()
            if not secret or _UNFIT.search(secret):
                word = "holds what no header can" if secret else "is not set"
                named = (
                    f"the environment variable `{secret_env}`, which holds the webhook's secret,"
                )
                raise SetupError(f"{named} {word}", hint="set it to the secret, one word")
            self._headers["Authorization"] = f"Bearer {secret}"

    def __repr__(self) -> str:
        return f"<WebhookNotifier {self.shown}>"

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Post a notice without blocking the loop. Raises `ToolError` if it did not arrive."""
        notice = {"text": text, "data": dict(data), "run": data.get("run", "")}
        body = Redactor().json(json.dumps(notice, ensure_ascii=False), {}).encode()
        for attempt in range(self._retries + 1):
            error = await self._try(body)
            if error is None:
                return
            if attempt == self._retries or not isinstance(error, _RetryableError):
                raise error
            await anyio.sleep(self._pause * 2**attempt)

    async def _try(self, body: bytes) -> ToolError | None:
        """Make one attempt in a thread, and return its error or None."""
        with anyio.move_on_after(self._timeout):
            return await anyio.to_thread.run_sync(self._post, body, abandon_on_cancel=True)
        return self._late()

    def _post(self, body: bytes) -> ToolError | None:
        request = Request(self._url, body, self._headers, method="POST")  # noqa: S310  see `_parts`
        try:
            with build_opener(_SameHost).open(request, timeout=self._timeout):
                return None
        except HTTPError as error:
            error.close()
            return self._status_error(error.code)
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                return self._late()
            said = reason.strerror if isinstance(reason, OSError) else None
            return _RetryableError(  # without the URL, which a text of the library may hold
                f"the webhook at {self.shown} cannot be reached: {said or type(reason).__name__}"
            )

    def _late(self) -> ToolError:
        message = f"the webhook at {self.shown} has not answered within {self._timeout:g} s"
        return ToolError(message, category=Category.TRANSIENT)

    def _status_error(self, status: int) -> ToolError:
        message = f"the webhook at {self.shown} answered {status}"
        if 300 <= status < 400:
            message += ", a redirect that is not followed"
        if status >= 500:
            return _RetryableError(message)
        category = Category.TRANSIENT if status == 429 else Category.RECOVERABLE
        return ToolError(message, category=category)


class _RetryableError(ToolError):
    """A failure that a retry may fix."""

    def __init__(self, message: str) -> None:
        super().__init__(message, category=Category.TRANSIENT)


class _SameHost(HTTPRedirectHandler):
    """Follows only redirects that keep method, scheme, host and port."""

    max_repeats = max_redirections = 3

    def redirect_request(  # noqa: PLR0917  its base has these
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        there, here = urlsplit(newurl), urlsplit(req.full_url)
        if code not in _KEEPS_BODY or there[:2] != here[:2]:
            return None
        return Request(newurl, cast("bytes", req.data), dict(req.headers), method="POST")  # noqa: S310


def _parts(url: str) -> SplitResult:
    """Parse a URL. Raises `SetupError` for one that cannot be posted to."""
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:  # invalid brackets or port
        raise _no_url() from None
    if wrong or _UNFIT.search(url):
        raise _no_url()
    if "@" in parts.netloc:
        raise SetupError(
            "the URL of a webhook holds no password",
            hint="name the environment variable that holds it: `secret_env=`",
        )
    return parts


def _no_url() -> SetupError:
    return SetupError(
        "this is not a URL of a webhook", hint="write `https://HOST/PATH`, without spaces"
    )
