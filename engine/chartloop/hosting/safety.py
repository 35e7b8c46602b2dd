"""The checks of every request before it reaches a route, and of every response before it is sent.

    connections ─▶ host ─▶ origin ─▶ token ─▶ rate ─▶ size, depth ─▶ route ─▶ redaction, headers

A page of another site can start nothing: a request that changes state needs the server's own
origin, or none (a program's request), and a JSON content type. Every response passes the redactor.

Belongs here: ASGI, independent of runs. Never: which scope a route needs (the route declares it).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import math
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from xml.sax.saxutils import unescape

from anyio import CancelScope

from chartloop.core.errors import JournalError
from chartloop.core.strict_json import UnfitError, read_strictly
from chartloop.hosting.asking import ASKING, Asking, in_lane
from chartloop.hosting.metrics import Metrics
from chartloop.hosting.problems import MEDIA_TYPE, RETRY_AFTER, Problem, Refusal, Wrong, problem_of
from chartloop.hosting.settings import SCOPES, Limits, Scope, Settings, Token
from chartloop.run.answer_links import AnswerLink
from chartloop.run.reader import READER
from chartloop.run.redact import Redactor
from chartloop.run.tenants import ALL_TENANTS, MARK, Reach, tenant_of

ASGI = Callable[..., Awaitable[None]]
FindLink = Callable[[str], Awaitable[AnswerLink | None]]
"""The link of a token, if the journal has it."""
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
T = TypeVar("T")
SMALL = 16_000
"""The bytes of a body that the web loop itself looks through."""
_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
DAY = 86_400.0
CALLERS = 10_000
"""The most callers whose rates are tracked."""
POLICY = "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox"
"""The content security policy of responses: if opened as a page they may do nothing. A picture's
own styles are allowed by their hashes."""
HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every response, besides the policy."""


class Hidden(bytes):
    """A redacted part of a response: bytes for many watchers are redacted once, in whole events."""


class Identity(NamedTuple):
    """The sender of a request."""

    name: str
    scope: Scope
    person: str = ""
    """The name in the token, which signs runs and answers; empty for a token without one."""
    reach: Reach = ALL_TENANTS
    """The runs that it may see."""
    link: AnswerLink | None = None
    """The link that it came with in place of a token: to one question, and to nothing else."""

    def allows(self, scope: Scope) -> bool:
        """Whether its scope includes `scope`."""
        return self.link is None and SCOPES.index(self.scope) >= SCOPES.index(scope)


ANYBODY = Identity("", "edit")
OPEN_PATHS = ("/livez", "/readyz")
"""Paths that need no token: they reveal nothing about runs."""


class Safety:
    """ASGI middleware around the whole application."""

    def __init__(
        self, app: ASGI, settings: Settings, metrics: Metrics, find: FindLink | None = None
    ) -> None:
        """`find` finds what a link opens; without it, no link is known."""
        self._app = app
        self._find = find
        self._settings = settings
        self._metrics = metrics
        self._redactor = Redactor([token.secret for token in settings.tokens])
        limits = settings.limits
        self._rates = Rates(limits.rate, limits.burst)
        self._guesses = Rates(limits.guess_rate, limits.guesses)
        self._dead = Rates(1 / DAY, 1)
        self._tokens = [(token, _hash(token.secret)) for token in settings.tokens]
        self._lanes = metrics.lanes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded, began = _Outlet(send, self._redactor), time.perf_counter()
        reads = scope["method"] not in _CHANGING
        lane = self._lanes.reads if reads else self._lanes.orders
        asking = Asking(self._lanes, lane)
        ASKING.set(asking)
        READER.set(asking if reads else None)  # an order is never refused for what it reads
        # the connection calls these when its caller hangs up
        leaves: set[Callable[[], None]] = scope.get("state", {}).get("leaves", set())
        with CancelScope() as waiting:

            def leave() -> None:
                asking.leave()
                if reads:  # an order is carried out all the same
                    waiting.cancel()

            leaves.add(leave)
            try:
                async with self._lanes.bodies if _is_large(scope) else nullcontext():
                    await self._pass(scope, receive, guarded)
            except Exception:
                if asking.over() is None:  # else nobody is there to be told
                    raise
            finally:
                leaves.discard(leave)
                asking.end()
                self._count(scope, guarded.status, time.perf_counter() - began)

    def _count(self, scope: Mapping[str, Any], status: int, took: float) -> None:
        route: Any = scope.get("route")
        path = getattr(route, "path_format", "") or "other"
        identity: Identity | None = scope.get("state", {}).get("identity")
        of = Reach("") if identity is None else identity.reach
        self._metrics.count(scope["method"], path, status, took, of)

    async def _pass(
        self, scope: MutableMapping[str, Any], receive: Receive, guarded: _Outlet
    ) -> None:
        try:
            headers: dict[str, str] = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
            }
            _refuse_two_lengths(headers)
            self._refuse_crowd(scope)
            self._refuse_host(headers)
            if scope["method"] in _CHANGING:
                self._refuse_origin(headers)
            identity = await self._identify(scope, headers)
            if identity.name:  # an anonymous caller was counted by its address
                self._take(identity.name)
            scope.setdefault("state", {})["identity"] = identity
            if scope["method"] in _CHANGING:
                body = await self._body(receive, headers)
                receive = _Replay(body, receive)
        except (Refusal, JournalError) as refusal:
            await _answer(guarded, problem_of(refusal))
            return
        await self._app(scope, receive, guarded)

    async def _body(self, receive: Receive, headers: Mapping[str, str]) -> bytes:
        limits = self._settings.limits
        try:
            async with asyncio.timeout(limits.silence):
                return await _read(receive, headers, limits)
        except TimeoutError:
            message = f"the body did not arrive within {limits.silence:g} seconds"
            raise Refusal(408, message, headers={"Connection": "close"}) from None

    def _refuse_crowd(self, scope: Mapping[str, Any]) -> None:
        """Refuse a request while too many connections are open; the HTTP server counts them."""
        count: Callable[[], int] = getattr(scope["app"].state, "connections", lambda: 0)
        if count() > self._settings.limits.connections:
            raise Refusal(
                503, "too many connections are open", hint="come again when others have left",
                headers={"Retry-After": str(RETRY_AFTER), "Connection": "close"},
            )  # fmt: skip

    def _take(self, caller: str) -> None:
        if after := self._rates.wait(caller):
            raise _too_often(
                f"send at most {self._settings.limits.rate:g} requests a second", after
            )
        self._rates.take(caller)

    def _refuse_host(self, headers: Mapping[str, str]) -> None:
        name = _PORT.sub("", headers.get("host", "").lower())
        if name not in self._settings.hosts:
            hint = "start the server with `--name NAME` for further names"
            raise Refusal(421, "this server is not addressed by that name", hint=hint)

    def _refuse_origin(self, headers: Mapping[str, str]) -> None:
        origin, host = headers.get("origin"), headers.get("host", "").lower()
        if origin is not None:
            if urlsplit(origin).netloc.lower() != host:
                raise Refusal(403, "a page of another site may change nothing here")
        elif headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refusal(403, "a page of another site may change nothing here")

    async def _identify(self, scope: Mapping[str, Any], headers: Mapping[str, str]) -> Identity:
        """Identify the sender by its token; one without a token is rated by its address."""
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "link" and self._find is not None:
            return await self._by_link(self._find, secret.strip(), address_of(scope))
        if self._tokens and kind.lower() == "bearer":
            token = self._token(secret.strip(), scope)
            # rates and keys are counted by this: two tenants may name a token alike
            unnamed = f"token-{hashlib.sha256(token.secret.encode()).hexdigest()[:8]}"
            name = f"{token.tenant}{MARK}{token.name}" if token.name else unnamed
            return Identity(name, token.scope, token.name, token.reach)
        self._take(address_of(scope))
        if not self._tokens:
            return ANYBODY
        if scope["path"] in OPEN_PATHS:
            return Identity("", "read", reach=Reach(""))
        raise _no_token()

    async def _by_link(self, find: FindLink, secret: str, address: str) -> Identity:
        """Who holds a link. Guesses count like those of tokens; a dead link counts once a day."""
        if after := self._guesses.wait(address):
            raise _too_often("this address has sent wrong tokens", after)
        if (link := await find(secret)) is None:
            dead = f"{address} {_hash(secret).hex()}"
            if not self._dead.wait(dead):
                self._dead.take(dead)
                self._guesses.take(address)
            raise Refusal(
                401, "This link is not valid: it was revoked, or not copied to its end.",
                headers={"WWW-Authenticate": 'Link realm="chartloop"'},
            )  # fmt: skip
        return Identity(f"link-{link.id}", "read", link.to, Reach(tenant_of(link.run)), link)

    def _token(self, secret: str, scope: Mapping[str, Any]) -> Token:
        """The token that a secret belongs to. An address that guesses is locked out for a while."""
        address = address_of(scope)
        if after := self._guesses.wait(address):
            raise _too_often("this address has sent wrong tokens", after)
        digest, match = _hash(secret), None
        for token, known in self._tokens:  # compares all, so that the time does not tell which
            if hmac.compare_digest(digest, known):
                match = token
        if match is None:
            self._guesses.take(address)
            raise _no_token()
        return match


_PORT = re.compile(r":[0-9]{1,5}\Z")


def _refuse_two_lengths(headers: Mapping[str, str]) -> None:
    """Refuse a request with two lengths, and close its connection (RFC 9112, 6.1).

    A proxy may have believed the other one, and have checked another request.
    """
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Refusal(
            400, "a request has Content-Length or Transfer-Encoding, not both",
            headers={"Connection": "close"},
        )  # fmt: skip


def _no_token() -> Refusal:
    return Refusal(
        401, "send a token: `Authorization: Bearer TOKEN`",
        headers={"WWW-Authenticate": 'Bearer realm="chartloop"'},
    )  # fmt: skip


def _too_often(hint: str, after: float) -> Refusal:
    seconds = {"Retry-After": str(math.ceil(after))}
    return Refusal(429, "too many requests at once", hint=hint, headers=seconds)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def address_of(scope: Mapping[str, Any]) -> str:
    """The address of the client; of an IPv6 address its /64 network, which is one customer's."""
    client = scope.get("client")
    text = client[0] if client else ""
    if ":" not in text:
        return text
    try:
        address = ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return text
    return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))


class Rates:
    """A token bucket for each caller: it refills at `rate` per second and holds `burst`.

    At most `CALLERS` buckets are kept: the least recently used ones are dropped.
    """

    def __init__(
        self, rate: float, burst: int, now: Callable[[], float] = time.monotonic
    ) -> None:  # fmt: skip
        self._rate, self._burst = rate, float(burst)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Seconds until the caller may act again; 0 if it may now."""
        return max(0.0, (1 - self._level(caller)) / self._rate)

    def take(self, caller: str) -> None:
        """Take one from the caller's bucket."""
        level = self._level(caller)
        self._buckets[caller] = (max(0.0, level - 1), self._now())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > CALLERS:
            self._buckets.popitem(last=False)

    def _level(self, caller: str) -> float:
        level, at = self._buckets.get(caller, (self._burst, self._now()))
        return min(self._burst, level + (self._now() - at) * self._rate)


def _is_large(scope: Mapping[str, Any]) -> bool:
    """Whether a request may have a body of which only some are held at once."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return scope["method"] in _CHANGING and not (length.isdigit() and int(length) <= SMALL)


# bodies -----------------------------------------------------------------------------------------


async def _read(receive: Receive, headers: Mapping[str, str], limits: Limits) -> bytes:
    """Read the whole body: JSON that is neither too large nor too deeply nested."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.body:
        raise _too_large(limits)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
        if size > limits.body:
            raise _too_large(limits)
    body = b"".join(parts)
    if body:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refusal(415, "a body is JSON", hint="send `Content-Type: application/json`")
        await off_loop(body, lambda: _refuse_unreadable(body, limits))
    return body


def _refuse_unreadable(body: bytes, limits: Limits) -> None:
    if depth_of(body, limits.depth) > limits.depth:
        text = f"the body is nested more than {limits.depth} levels deep"
        raise Refusal(413, text, wrong=[Wrong("", text)])
    try:
        read_strictly(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refusal(400, "the body is not UTF-8") from None
    except UnfitError as error:
        wrong = [Wrong(*error.unfit[:2])]
        raise Refusal(400 if error.constant else 422, f"the body: {error}", wrong=wrong) from None
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None


def _too_large(limits: Limits) -> Refusal:
    message = f"the body has more than {limits.body:,} bytes"
    return Refusal(413, message, wrong=[Wrong("", message)])


def depth_of(body: bytes, most: int) -> int:
    """The depth of nested brackets outside strings; stops counting beyond `most`."""
    depth = deepest = 0
    inside = escaped = False
    for byte in body:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            deepest = max(deepest, depth)
            if deepest > most:
                break
        elif byte in (0x5D, 0x7D):
            depth -= 1
    return deepest


class _Replay:
    """An ASGI `receive` that replays the body that was read, then passes on to the connection."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


# answers ----------------------------------------------------------------------------------------


class _Outlet:
    """An ASGI `send` that redacts a response and adds the common headers.

    A stream is redacted before it is cut into chunks, so no secret is split between two of them.
    """

    def __init__(self, send: Send, redactor: Redactor) -> None:
        self._send = send
        self._redactor = redactor
        self.status = 0
        """The status of the response; 0 before it starts."""
        self._start: MutableMapping[str, Any] | None = None
        self._binary = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._start, self.status = message, message["status"]
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is not None:
            self._binary = _kind(self._start).startswith((b"image/png", b"font/"))
        hidden = body
        if not (self._binary or isinstance(body, Hidden)):
            hidden = await off_loop(body, lambda: hide(self._redactor, body))
        if self._start is not None:
            start, self._start = self._start, None
            headers = [(n, v) for n, v in start.get("headers", []) if n != b"content-length"]
            had = len(headers) != len(start.get("headers", []))
            if had and not more:
                headers.append((b"content-length", str(len(hidden)).encode()))
            known = {name for name, _ in headers}
            policy = {"content-security-policy": _policy(start, hidden)}
            headers += [
                (n.encode(), v.encode())
                for n, v in {**policy, **HEADERS}.items()
                if n.encode() not in known
            ]
            await self._send({**start, "headers": headers})
        await self._send({**message, "body": hidden})


def hide(redactor: Redactor, body: bytes) -> Hidden:
    """A response without its secrets."""
    text = body.decode("utf-8", "surrogatepass")
    hidden = (redactor.markup if "<svg" in text else redactor.text)(text)
    return Hidden(body if hidden == text else hidden.encode("utf-8", "surrogatepass"))


async def off_loop(body: bytes, work: Callable[[], T]) -> T:
    """What `work` makes of a body: in a thread, unless the body is small."""
    return work() if len(body) <= SMALL else await in_lane(work)


def _kind(start: Mapping[str, Any]) -> bytes:
    kinds = (value for name, value in start.get("headers", []) if name == b"content-type")
    return next(kinds, b"")


_STYLE = re.compile(rb"<style(?: [^<>]*)?>([^<]*)</style>")


def _policy(start: Mapping[str, Any], body: bytes) -> str:
    """The content security policy of a response; a picture may apply the styles it contains."""
    if not _kind(start).startswith(b"image/svg+xml"):
        return POLICY
    hashes = (
        base64.b64encode(hashlib.sha256(unescape(style.decode()).encode()).digest()).decode()
        for style in _STYLE.findall(body)
    )
    styles = " ".join(f"'sha256-{known}'" for known in dict.fromkeys(hashes))
    return f"{POLICY}; style-src {styles}" if styles else POLICY


async def _answer(send: Send | _Outlet, problem: Problem) -> None:
    body = json.dumps(problem.body).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
