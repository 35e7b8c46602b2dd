"""The run page: the browser's view of runs and machines. Static files, without a build step.

    a link ─▶ index.html ─▶ app.js ─▶ one module for each page ─▶ the HTTP API, like any program

A page and the API share their links: `/runs/k3f9` is a page for clients that accept HTML, and JSON
for all others. The files hold no data, so they need no token; the data is fetched with one.

Belongs here: which file answers a request, and under which policy. Never: a run, a machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from chartloop.pictures import page_parts

ASGI = Callable[..., Awaitable[None]]
_FOLDER = Path(__file__).parent
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PREFIX = "/page/"
_PAGES = ("/", "/inbox", "/compare", "/fleet", "/runs", "/machines")
"""Links of pages; below the last two there is one for each run and machine."""
LINK = "/answer"
"""The page of a link to one question. Its token stands behind `#`: only its script sends it."""
HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types picture",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
    "vary": "Accept",
}
"""Headers of every file. Only scripts and styles of this folder run, and text becomes markup in one
place only: where `run_picture.js` reads the server's pictures."""


class _File(NamedTuple):
    kind: str
    body: bytes
    tag: str


def _read() -> dict[str, _File]:
    """Every file of the folder, with the module and style that all pages of runs share."""
    own = {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _KINDS}
    shared = {"parts.js": page_parts.MODULE.encode(), "parts.css": page_parts.STYLE.encode()}
    return {
        name: _File(_KINDS[Path(name).suffix], body, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
        for name, body in {**own, **shared}.items()
    }


class RunPage:
    """ASGI middleware that serves the page's files and leaves all other requests to the API.

    `views` are the last segments of links below a run or machine that are data, not pages.
    """

    def __init__(self, app: ASGI, views: Iterable[str] = ()) -> None:
        self._app = app
        self._views = frozenset(views)
        self._files = _read()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        file = self._answer(scope) if scope["type"] == "http" else None
        if file is None:
            await self._app(scope, receive, send)
            return
        request_headers = dict(scope["headers"])
        unchanged = request_headers.get(b"if-none-match", b"").decode("latin-1") == file.tag
        body = b"" if unchanged or scope["method"] == "HEAD" else file.body
        headers = {**HEADERS, "content-type": file.kind, "etag": file.tag}
        if not unchanged:
            headers["content-length"] = str(len(file.body))
        packed = [(name.encode(), value.encode()) for name, value in headers.items()]
        status = 304 if unchanged else 200
        await send({"type": "http.response.start", "status": status, "headers": packed})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, scope: Mapping[str, Any]) -> _File | None:
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return None
        if path.startswith(_PREFIX):
            return self._files.get(path.removeprefix(_PREFIX))
        if path == LINK:  # whatever it accepts: it holds nothing, and looking at it does nothing
            return self._files["answer.html"]
        if path == "/favicon.ico":
            return self._files["icon.svg"]
        return self._files["index.html"] if self._is_page(path) and _wants_html(scope) else None

    def _is_page(self, path: str) -> bool:
        if path in _PAGES:
            return True
        root, _, rest = path.removeprefix("/").partition("/")
        below = root in ("runs", "machines") and rest != ""
        return below and rest.rpartition("/")[2] not in self._views


def _wants_html(scope: Mapping[str, Any]) -> bool:
    """Whether the request comes from a browser's address bar or a link: those name `text/html`."""
    accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1").lower()
    return "text/html" in accept or (scope["path"] == "/" and "json" not in accept)
