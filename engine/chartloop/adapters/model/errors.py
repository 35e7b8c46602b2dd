"""Errors of a model call: the kinds, and how an exception is assigned to one.

Every failure becomes a `ModelError` of one of `KINDS`, whose category decides what a machine may
do about it. Its text contains no key.

Belongs here: the meaning of exceptions and statuses. Never: a call, or an import of the library
that raised; its exceptions are recognised by class name.
Source: 003 "Error Categories"; docs/models.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from chartloop.adapters.model.target import Target
from chartloop.adapters.model.waits import wait_asked
from chartloop.adapters.model.wire import Wire
from chartloop.core.errors import Category, ModelError

if TYPE_CHECKING:
    from chartloop.adapters.model.reply import ReceivedReply


class Kind(NamedTuple):
    """A kind of failure of a model call, with its cure."""

    category: Category
    cure: str


_T, _R, _C = Category.TRANSIENT, Category.RECOVERABLE, Category.CRITICAL

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "rate_limit": Kind(_T, "wait, as long as `retry_after` says, and call again"),
        "timeout": Kind(_T, "call again, or raise `model.timeout`"),
        "server": Kind(_T, "the provider failed: call again later"),
        "connection": Kind(_T, "check the network and `model.api_base`, and call again"),
        "broken_body": Kind(_T, "the answer is not a model's reply: check `model.api_base`"),
        "stream_broken": Kind(_T, "the reply was cut off: call again"),
        "empty": Kind(_T, "call again: `retry` with `on: [EMPTY]` does so by itself"),
        "empty_stream": Kind(_T, "call again; for a server that cannot stream, `stream: false`"),
        "unreadable": Kind(_R, "the provider's reply has another form: check `model.api_base`"),
        "reply": Kind(_R, "ask again: the model or its server made a mistake in this reply"),
        "too_long": Kind(_R, "ask for less, set `max_tokens`, or raise `model.reply_limit`"),
        "context_overflow": Kind(_R, "prune the conversation"),
        "content_filter": Kind(_R, "change the prompt"),
        "refusal": Kind(_R, "change the prompt: the model refuses this one again"),
        "reasoning": Kind(
            _R, "prune the conversation down to replies without thinking, or turn thinking off"
        ),
        "media": Kind(
            _R, "take a model that reads such images or files, or send others: see its message"
        ),
        "quota": Kind(_C, "raise the limit or add credit at the provider"),
        "auth": Kind(_C, "check the key, and what it may be used for"),
        "model_not_found": Kind(_C, "check `model.name`"),
        "bad_request": Kind(_C, "the provider does not take this request: see its message"),
        "setup": Kind(_C, "install or set what is named"),
        "unexpected": Kind(_C, "litellm failed in an unknown way: report it"),
    }
)
"""The kinds of failures. The category decides what a machine may do about one."""

FALL_BACK_ON = frozenset({"server", "timeout", "rate_limit", "model_not_found"})
"""Kinds after which another model may succeed."""


class _Sign(NamedTuple):
    """The signs of a kind: a class in the chain of causes, or a status with a word of the text."""

    kind: str
    classes: str
    statuses: Sequence[int] = ()
    words: Sequence[str] = ("",)

    def fits(self, names: set[str], status: int | None, text: str) -> bool:
        fits = status in self.statuses and any(word in text for word in self.words)
        return fits or not names.isdisjoint(self.classes.split())


_FULL = (
    "context_length",  # OpenAI's code, which many copy
    "context length",  # OpenAI, vLLM, DeepSeek, OpenRouter, Mistral, Ollama
    "context window",  # MiniMax, litellm
    "context size",  # llama.cpp
    "context limit",  # Anthropic: "exceed context limit"
    "prompt is too long",  # Anthropic
    "input is too long",  # Bedrock
    "input length should be",  # DashScope
    "input token count",  # Gemini
    "exceeded model token limit",  # Moonshot
    "length of the messages",  # Groq, Cerebras: "reduce the length of the messages"
    "length of all messages",  # Perplexity: "the total length of all messages is too long"
    "maximum prompt length",  # xAI
    "maximum model length",  # vLLM: "longer than the maximum model length"
    "too many tokens",  # Cohere
    "tokens + `max_new_tokens`",  # Text Generation Inference
    "prompt token count",  # GitHub Copilot
)
"""The words by which providers say that the conversation is longer than the model's window. Source:
their messages, as public issues quote them; each has its row in ``tests/replies``."""

_FILTERED = (
    "content_policy",
    "content_filter",
    "safety",
    "content management policy",  # Azure
    "content filter",
    "content exists risk",  # DeepSeek
    "data_inspection_failed",  # DashScope
    "usage policy",  # OpenAI, of reasoning models
)
"""The words by which providers refuse a prompt for what it says."""
_SLIPS = (
    "failed_generation",  # Groq: a call or an object that it could not read
    "tool_use_failed",
    "tool call validation failed",
    "model did not call a tool",
    "was not in request.tools",
)
"""The words by which providers refuse what their own model wrote."""

# The first match counts. The order matters: litellm calls a 403 and a full window a
# BadRequestError, an empty account a RateLimitError, a torn body an InternalServerError.
_SIGNS = (
    _Sign("too_long", "TooLongError"),
    _Sign("context_overflow", "ContextWindowExceededError", (400, 413, 422), _FULL),
    _Sign("content_filter", "ContentPolicyViolationError", (400, 403, 422), _FILTERED),
    _Sign("reply", "", (400, 422), _SLIPS),
    _Sign(
        "reasoning",
        "",
        (400, 422),
        (
            "thinking block",
            "`thinking`",
            "redacted_thinking",
            "reasoning_content",
            "reasoning_details",
            "thought_signature",
            "thought signature",
            "reasoning item",
        ),
    ),
    _Sign("quota", "", (403, 429), ("quota", "billing", "credit balance")),
    _Sign("quota", "PaymentRequiredError", (402,)),
    _Sign("auth", "AuthenticationError PermissionDeniedError", (401, 403)),
    _Sign("rate_limit", "RateLimitError", (429,)),
    _Sign("model_not_found", "NotFoundError", (404,)),
    _Sign("timeout", "Timeout TimeoutError TimeoutException", (408,)),
    _Sign("bad_request", "BadRequestError UnprocessableEntityError", (400, 405, 413, 422)),
    _Sign("setup", "ImportError"),
    _Sign("broken_body", "JSONDecodeError ClientPayloadError", (500,), ("invalid response from",)),
    _Sign("connection", "ConnectError ReadError RemoteProtocolError ClientConnectionError"),
    _Sign("server", "APIError APIStatusError", range(500, 600)),
)


def classify_error(
    error: Exception,
    target: Target,
    received: ReceivedReply,
    wire: Wire,
    outer: BaseException | None,
) -> ModelError:
    """Classify the error of a call.

    `wire` holds what the server sent; `outer` is the exception that the caller was handling.
    """
    partial = received.text
    chain = list(_chain(error, outer))
    names = {cls.__name__ for e in chain for cls in type(e).__mro__}
    # litellm makes up a status where there is none, so the one on the wire wins.
    status = next((s for e in chain if isinstance(s := getattr(e, "status_code", None), int)), None)
    status = wire.status if wire.status is not None and wire.status >= 400 else status
    text = " ".join(f"{e} {getattr(e, 'code', '')}" for e in chain).lower()
    kind = next((s.kind for s in _SIGNS if s.fits(names, status, text)), "unexpected")
    if kind in {"server", "connection", "broken_body"}:
        kind = "stream_broken" if partial or "MidStreamFallbackError" in names else kind
    kind = "unreadable" if received.unreadable else kind
    if kind == "bad_request" and received.media and any(word in text for word in _OF_MEDIA):
        kind = "media"
    if kind == "timeout":
        message = f"no answer within {target.timeout:g} s"
        message = f"no further piece within {target.idle:g} s" if received.idle else message
    elif kind == "too_long":
        message = f"the reply has more than {target.most:,} characters"
    else:
        original = chain[1] if getattr(chain[0], "original_exception", None) else chain[0]
        whole = str(original)
        head, traceback, rest = whole.partition("Traceback (most recent call last)")
        if traceback:  # litellm failed to read a reply: the last line says why
            last = next((line for line in reversed(rest.splitlines()) if line.strip()), "")
            whole = f"{head.strip().rstrip(',')}: {last.strip()}"  # cut once keys are hidden
        text = " ".join(_PREFIX.sub("", whole).split())
        quoted = _QUOTED.search(text)
        message = (quoted[1] if quoted else text) or type(original).__name__
        if message.strip() == f"Error code: {wire.status}":  # the client's text for an empty body
            message = f"HTTP {wire.status}"
        is_enough = wire.status is None or wire.status < 400 or str(wire.status) in message
        message = message if is_enough or kind in _PLAIN else f"HTTP {wire.status}: {message}"
    after = _retry_after(chain, text) if wire.retry_after is None else wire.retry_after
    more: dict[str, Any] = {"status": status, "retry_after": after}
    message = f"{target.name}: {_without_keys(message, target)}"
    return failure(kind, message, partial=partial, **more)


_OF_MEDIA = ("image", "media", "file", "pdf", "document", "vision", "content part", "content type")
"""Words by which a provider's message refuses an image or a file that was sent."""
_PLAIN = frozenset({"rate_limit", "quota", "auth", "context_overflow", "content_filter"})
"""Kinds whose message does not need the status."""


def _chain(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, up to `outer`."""
    link: BaseException | None = error
    for _ in range(16):
        if link is None or link is outer:
            return
        yield link
        link = getattr(link, "original_exception", None) or link.__cause__ or link.__context__


_PREFIX = re.compile(r"\A(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?::| -)\s*)+")

_QUOTED = re.compile(r'"message": ?"((?:[^"\\]|\\.)+)"')


_NAMES_SECRET = re.compile(r"(?i)KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_LOOKS_SECRET = re.compile(r"\b(?:sk|pk)-[\w\-]{8,}|(?i:bearer) [\w.\-]{8,}")


def _without_keys(text: str, target: Target) -> str:
    """The text with every key, and whatever looks like one, replaced; at most 1,000 characters."""
    secrets = [value for name, value in os.environ.items() if _NAMES_SECRET.search(name)]
    secrets += [target.where.get("api_key", "")]
    secrets += re.findall(r"[^\s'\"{},]{6,}", str(target.extra.get("extra_headers")))
    for secret in sorted(secrets, key=len, reverse=True):
        # A shorter value may be an ordinary word.
        text = text.replace(secret, "***") if len(secret) >= 6 else text
    return _LOOKS_SECRET.sub("***", text)[:1000]


def _retry_after(chain: Sequence[BaseException], text: str) -> float | None:
    """The seconds that the provider asks to wait, from litellm's headers or an error's text."""
    headers: Mapping[str, str] = {}
    for error in chain:
        headers = headers or getattr(error, "litellm_response_headers", None) or {}
    return wait_asked({name.lower(): value for name, value in headers.items()}, text)


def failure(kind: str, message: str, **more: Any) -> ModelError:
    """A `ModelError` of this kind, with its category and cure. `more` are its other arguments."""
    error = ModelError(message, category=KINDS[kind].category, kind=kind, **more)
    error.hint = KINDS[kind].cure
    return error
