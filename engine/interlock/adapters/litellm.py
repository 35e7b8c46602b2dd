"""Real models, through litellm: the only door to it.

litellm is an extra of seconds and 100 MB, imported by `prepare` or the first call. It is kept
quiet, offline and without retries: waiting and trying again belong to the machine, where they
are counted. Every failure becomes a `ModelError` of one of `KINDS`, and holds no key.

Belongs here: what litellm must be told, and what its answers and exceptions mean. Never: retries,
waits, prompts.
Source: 003 "Error Categories"; design "language", section 1 (`model`); design "traps", litellm.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import logging
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from interlock.core.errors import Category, ModelError, SetupError
from interlock.core.facts import ToolCall
from interlock.core.units import parse_duration
from interlock.run.ports import ModelReply, ModelRequest, OnText

__all__ = ["FALL_BACK_ON", "KINDS", "Kind", "LiteLLM"]


class Kind(NamedTuple):
    """One of the known failures of a model call, and what helps."""

    category: Category
    cure: str


_T, _R, _C = Category.TRANSIENT, Category.RECOVERABLE, Category.CRITICAL

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "rate_limit": Kind(_T, "wait, as long as `retry_after` says, and call again"),
        "timeout": Kind(_T, "call again, or raise `model.timeout`"),
        "server": Kind(_T, "the provider failed: call again later"),
        "connection": Kind(_T, "check the network and `model.api_base`, and call again"),
        "broken_body": Kind(_T, "the answer is no model's reply: check `model.api_base`"),
        "stream_broken": Kind(_T, "the reply was cut off: call again"),
        "empty_stream": Kind(_T, "call again, or check that `model.api_base` can stream"),
        "context_overflow": Kind(_R, "prune the conversation"),
        "content_filter": Kind(_R, "change the prompt"),
        "quota": Kind(_C, "raise the limit or add credit at the provider"),
        "auth": Kind(_C, "check the key, and what it may be used for"),
        "model_not_found": Kind(_C, "check `model.name`"),
        "bad_request": Kind(_C, "the provider does not take this request: see its message"),
        "setup": Kind(_C, "install or set what is named"),
        "unexpected": Kind(_C, "litellm failed in a way that is not known: report it"),
    }
)
"""What can go wrong with a call. The category decides what a machine may do about it."""

FALL_BACK_ON = frozenset({"server", "timeout", "rate_limit", "model_not_found"})


class LiteLLM:
    """Any model that litellm reaches, as a `Model`.

    `settings` are the file's `model` mapping. ``name`` is litellm's: ``provider/model``. The key
    is in the provider's own variable or in the one that ``api_key_env`` names; a server at
    ``api_base`` may need none. ``timeout`` is the longest wait, in seconds, for the reply or for
    the next piece of a streamed one. ``fallbacks`` are asked in order while models fail with a
    kind of `FALL_BACK_ON` before their first word; `ModelReply.model` says who answered.
    """

    suspends = True

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Raise `SetupError` for a name, key or setting that cannot work, before any call."""
        _targets(_litellm(), settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The file's figure, else litellm's, in tokens; None when neither is known."""
        if (given := settings.get("context_window")) is not None:
            return int(given)
        with contextlib.suppress(SetupError):
            row = _known(_litellm(), settings.get("name"))
            return row.get("max_input_tokens") or row.get("max_tokens")
        return None

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Answer; streamed when `on_text` is given, unless ``stream`` says otherwise."""
        try:
            litellm = await asyncio.to_thread(_litellm)
            targets = _targets(litellm, request.settings)
        except SetupError as error:
            raise _failure("setup", f"{error.message}; {error.hint}") from None
        failures: list[ModelError] = []
        for target in targets:
            answer = await _ask(litellm, target, request, on_text)
            if isinstance(answer, ModelReply):
                return answer
            failures.append(answer)
            if answer.kind not in FALL_BACK_ON or answer.partial:
                break
        # Where one of them may work later, so may the same call.
        first = next((f for f in failures if f.category is _T), failures[-1])
        more = {"status": first.status, "retry_after": first.retry_after, "partial": first.partial}
        raise _failure(first.kind, "; ".join(f.message for f in failures), **more)


@functools.cache
def _litellm() -> Any:
    """litellm, imported once, offline and quiet. A person may set the variables otherwise."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
    # `openai`, which calls for it, logs the headers that `extra` sends.
    loggers = [*map(logging.getLogger, ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai"))]
    for logger in loggers:
        logger.setLevel(logger.level or logging.WARNING)
    try:
        # By name: its types are not known where it is not installed.
        litellm: Any = importlib.import_module("litellm")
    except Exception as error:
        missing = getattr(error, "name", "") == "litellm"
        text = "litellm is not installed" if missing else f"litellm cannot be imported: {error}"
        raise SetupError(text, hint='pip install --upgrade "interlock[llm]"') from error
    litellm.suppress_debug_info = True
    # In place of HF_HUB_OFFLINE, which would bind the whole process: no tokenizer is fetched.
    litellm.disable_hf_tokenizer_download = True
    for logger in loggers:  # without its handlers, nor Python's last resort, to stderr
        own = [h for h in logger.handlers if not type(h).__module__.startswith("litellm")]
        logger.handlers[:] = [*own, logging.NullHandler()]
    return litellm


_PASSED = ("temperature", "top_p", "max_tokens", "stop", "seed")
_NOT_EXTRA = frozenset(
    "model messages tools tool_choice response_format temperature top_p max_tokens stop seed "
    "stream timeout api_base base_url api_key fallbacks num_retries max_retries mock_response "
    "callbacks custom_llm_provider".split()
)
"""What `extra` may not hold: it has a key of its own, or would hide calls, hosts or retries."""
_PATIENCE = 600.0  # seconds, when the file sets no `timeout`
_NO_KEY = "no-key"  # for a server that needs none: HTTP clients refuse an empty one


class _Target(NamedTuple):
    name: str  # of the file's own model, or of a fallback
    where: Mapping[str, Any]  # `api_base` and `api_key`, as far as they are given
    timeout: float
    headers: Any  # what `extra` sends along: it may hold keys


def _targets(litellm: Any, settings: Mapping[str, Any]) -> list[_Target]:
    extra: Mapping[str, Any] = settings.get("extra") or {}
    if wrong := sorted(_NOT_EXTRA & extra.keys()):
        raise SetupError(f"`model.extra` may not hold `{wrong[0]}`", hint="leave it to `model`")
    given = _PATIENCE if settings.get("timeout") is None else settings["timeout"]
    timeout = parse_duration(given) if isinstance(given, str) else given
    if not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise SetupError(f"`model.timeout` cannot be `{given}`", hint="write seconds, or `60s`")
    names: list[str] = [settings.get("name", ""), *(settings.get("fallbacks") or ())]
    providers = [_provider(litellm, name) for name in names]
    targets: list[_Target] = []
    for name, provider in zip(names, providers, strict=True):
        # The file's server and key are not for a fallback at another provider.
        where = _where(litellm, name, settings if provider == providers[0] else {})
        targets.append(_Target(name, where, timeout, extra.get("extra_headers")))
    return targets


def _provider(litellm: Any, name: Any) -> str:
    with contextlib.suppress(Exception):
        model, provider, *_ = litellm.get_llm_provider(name)
        if model:
            return provider
    text = f"model name `{name}` is not one that litellm knows"
    raise SetupError(text, hint="write `provider/model`")


def _where(litellm: Any, name: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    base, variable = settings.get("api_base"), settings.get("api_key_env")
    given = {"api_base": base} if base else {}
    if variable:
        if key := os.environ.get(variable, "").strip():
            return given | {"api_key": key}
        named = f"the environment variable `{variable}`, which `model.api_key_env` names,"
        raise SetupError(f"{named} is not set", hint=f"set it to the key for `{name}`")
    if not (missing := _missing_keys(litellm, name)):
        return given
    if base:
        return given | {"api_key": _NO_KEY}
    text = f"no key for `{name}`: the environment variable {' or '.join(missing)} is not set"
    raise SetupError(text, hint="set it, or name another one as `model.api_key_env`")


def _missing_keys(litellm: Any, name: str) -> list[str]:
    """Variables of which one must hold a key. Cloud roles and local servers need none."""
    missing: list[str] = litellm.validate_environment(model=name)["missing_keys"]
    usual = f"{_provider(litellm, name)}_API_KEY".upper()
    if not os.environ.get(usual, "set").strip():
        missing.append(usual)
    if {"AZURE_AD_TOKEN", "AZURE_CLIENT_ID"} & os.environ.keys():
        missing = [key for key in missing if not key.startswith("AZURE")]
    return [f"`{key}`" for key in missing if key.endswith(("_API_KEY", "_API_TOKEN"))]


def _arguments(request: ModelRequest, target: _Target, *, streamed: bool) -> dict[str, Any]:
    settings = request.settings
    given = {name: settings[name] for name in _PASSED if settings.get(name) is not None}
    given |= {"model": target.name, "messages": request.messages, **target.where}
    given |= {"timeout": target.timeout, "num_retries": 0, "max_retries": 0}
    if request.tools:
        # 1.106.2 imports `mcp`, which is not installed, whenever there are tools.
        given |= {"tools": request.tools, "_skip_mcp_handler": True}
    if request.tool_choice is not None:
        given["tool_choice"] = request.tool_choice
    if request.output is not None:
        shape = {"name": "reply", "schema": request.output}
        given["response_format"] = {"type": "json_schema", "json_schema": shape}
    if streamed:
        given |= {"stream": True, "stream_options": {"include_usage": True}}
    # A copy in dicts and lists, for litellm writes into what it is given.
    return json.loads(json.dumps(given | (settings.get("extra") or {}), default=dict))


async def _ask(
    litellm: Any, target: _Target, request: ModelRequest, on_text: OnText | None
) -> ModelReply | ModelError:
    """One call. A failure is returned, so that it does not drag litellm's own along."""
    wanted = request.settings.get("stream")
    streamed = on_text is not None if wanted is None else bool(wanted)
    heard, outer = _Heard(on_text), sys.exception()
    try:
        async with asyncio.timeout(target.timeout):
            response = await litellm.acompletion(**_arguments(request, target, streamed=streamed))
        if streamed:
            await heard.listen(response, target.timeout)
        else:
            heard.take(response)
    except Exception as error:  # noqa: BLE001 - litellm lets through whatever its parts raise
        return _classified(error, target, heard.text, outer)
    if problem := heard.problem(streamed=streamed):
        return _failure(problem[0], f"{target.name}: {problem[1]}", partial=heard.text)
    return heard.reply(request, target, _cost(litellm, request.settings, target, heard.usage))


class _Heard:
    """What has arrived of one reply."""

    def __init__(self, on_text: OnText | None) -> None:
        self.text = ""
        self.usage: Any = None
        self._on_text = on_text
        self._calls: list[dict[str, Any]] = []
        self._finish = ""
        self._cut = self._lone = False

    def take(self, response: Any) -> None:
        """A reply in one piece. litellm puts zeros where the provider sent no usage."""
        used = getattr(response, "usage", None)
        self.usage = used if getattr(used, "total_tokens", 0) else None
        for choice in response.choices[:1]:
            self._add(choice.message, choice.finish_reason)

    async def listen(self, stream: Any, timeout: float) -> None:
        """A reply in pieces. The connection is closed however it ends."""
        async with contextlib.aclosing(stream):
            while True:
                async with asyncio.timeout(timeout):
                    chunk = await anext(stream, None)
                if chunk is None:
                    break
                self.usage = getattr(chunk, "usage", None) or self.usage
                for choice in chunk.choices[:1]:
                    self._add(choice.delta, choice.finish_reason)
        # litellm makes up a finish and a usage, and takes a body that is no stream for one event.
        self._lone = len(stream.chunks) == 1
        self._cut = not (stream.received_finish_reason or stream.intermittent_finish_reason)
        if not any(getattr(chunk, "usage", None) for chunk in stream.chunks):
            self.usage = None

    def _add(self, part: Any, finish: str | None) -> None:
        self._finish = finish or self._finish
        if part.content:
            self.text += part.content
            if self._on_text is not None:
                self._on_text(part.content)
        for n, delta in enumerate(part.tool_calls or ()):
            call = self._call(getattr(delta, "index", n), delta.id or "")
            call["name"] += delta.function.name or ""
            call["arguments"] += delta.function.arguments or ""

    def _call(self, index: int, given: str) -> dict[str, Any]:
        """The call that a piece belongs to. Some servers number all calls 0."""
        call = next((c for c in reversed(self._calls) if c["index"] == index), None)
        if call is None or (given and call["id"] not in ("", given)):
            call = {"index": index, "id": "", "name": "", "arguments": ""}
            self._calls.append(call)
        call["id"] = call["id"] or given
        return call

    def problem(self, *, streamed: bool) -> tuple[str, str] | None:
        """Kind and text, when this is no reply although nothing was raised."""
        told = self.usage and self._finish and not self._lone
        if not (self.text or self._calls or told) and self._finish in ("", "stop"):
            return ("empty_stream" if streamed else "broken_body"), "the answer is empty"
        return ("stream_broken", "the stream ended before the reply did") if self._cut else None

    def reply(self, request: ModelRequest, target: _Target, cost: float | None) -> ModelReply:
        calls = tuple(
            ToolCall(c["id"] or f"call_{request.number}_{n}", c["name"], c["arguments"] or "{}")
            for n, c in enumerate(self._calls)
        )
        finish = self._finish or "stop"
        finish = "tool_calls" if calls and finish == "stop" else finish
        prompt = getattr(self.usage, "prompt_tokens", None)
        completion = getattr(self.usage, "completion_tokens", None)
        return ModelReply(self.text, calls, finish, prompt, completion, cost, target.name)


def _cost(litellm: Any, settings: Mapping[str, Any], target: _Target, usage: Any) -> float | None:
    """USD by the file's prices, else by litellm's table; None when no price is known."""
    if usage is None:
        return None
    prices = [settings.get(f"{way}_cost_per_token") for way in ("input", "output")]
    if None not in prices and target.name == settings.get("name"):
        return usage.prompt_tokens * prices[0] + usage.completion_tokens * prices[1]
    row = _known(litellm, target.name)
    with contextlib.suppress(Exception):
        ways = litellm.cost_per_token(model=target.name, usage_object=usage) if row else ()
        # litellm says 0 where it has no price.
        return math.fsum(ways) or (0.0 if row.get("input_cost_per_token") == 0 else None)
    return None


def _known(litellm: Any, name: Any) -> Mapping[str, Any]:
    """The model's row in the table that litellm brings, or nothing. Asks no server."""
    provider = _provider(litellm, name)
    for key in (name, f"{provider}/{name}", name.removeprefix(f"{provider}/")):
        row: Mapping[str, Any] = litellm.model_cost.get(key, {})
        if str(row.get("litellm_provider")).startswith(provider):
            return row
    return {}


class _Sign(NamedTuple):
    """How a kind is recognised: by a class in the chain, or by a status and a word."""

    kind: str
    classes: str
    statuses: Sequence[int] = ()
    words: Sequence[str] = ("",)

    def fits(self, names: set[str], status: int | None, text: str) -> bool:
        said = status in self.statuses and any(word in text for word in self.words)
        return said or not names.isdisjoint(self.classes.split())


# The first that fits counts. The order matters: litellm calls a 403 and a full window a
# BadRequestError, an empty account a RateLimitError, a torn body an InternalServerError.
_SIGNS = (
    _Sign("context_overflow", "ContextWindowExceededError", (400, 413), ("context_length",)),
    _Sign("content_filter", "ContentPolicyViolationError", (400,), ("content_policy", "safety")),
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


def _classified(
    error: Exception, target: _Target, partial: str, outer: BaseException | None
) -> ModelError:
    chain = list(_chain(error, outer))
    names = {cls.__name__ for e in chain for cls in type(e).__mro__}
    status = next((s for e in chain if isinstance(s := getattr(e, "status_code", None), int)), None)
    text = " ".join(f"{e} {getattr(e, 'code', '')}" for e in chain).lower()
    kind = next((s.kind for s in _SIGNS if s.fits(names, status, text)), "unexpected")
    if kind in {"server", "connection", "broken_body"}:
        kind = "stream_broken" if partial or "MidStreamFallbackError" in names else kind
    said = f"no answer within {target.timeout:g} s" if kind == "timeout" else _said(chain)
    more: dict[str, Any] = {"status": status, "retry_after": _retry_after(chain)}
    return _failure(kind, f"{target.name}: {_without_keys(said, target)}", partial=partial, **more)


def _chain(error: BaseException, outer: BaseException | None) -> Iterator[BaseException]:
    """The error and what caused it, without what the caller was handling before."""
    link: BaseException | None = error
    for _ in range(16):
        if link is None or link is outer:
            return
        yield link
        link = getattr(link, "original_exception", None) or link.__cause__ or link.__context__


_PREFIX = re.compile(r"\A(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?::| -)\s*)+")

_QUOTED = re.compile(r'"message": ?"((?:[^"\\]|\\.)+)"')


def _said(chain: Sequence[BaseException]) -> str:
    """What the provider said, without the names that litellm puts before it."""
    told = chain[1] if getattr(chain[0], "original_exception", None) else chain[0]
    text = " ".join(_PREFIX.sub("", str(told)).split())
    quoted = _QUOTED.search(text)
    return (quoted[1] if quoted else text) or type(told).__name__


_NAMES_SECRET = re.compile(r"(?i)KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")
_LOOKS_SECRET = re.compile(r"\b(?:sk|pk)-[\w\-]{8,}|(?i:bearer) [\w.\-]{8,}")


def _without_keys(text: str, target: _Target) -> str:
    """The text, cut, with everything replaced that is or looks like a key."""
    secrets = [value for name, value in os.environ.items() if _NAMES_SECRET.search(name)]
    secrets += [target.where.get("api_key", "")]
    secrets += re.findall(r"[^\s'\"{},]{6,}", str(target.headers))
    for secret in sorted(secrets, key=len, reverse=True):
        # Shorter ones are words of the text.
        text = text.replace(secret, "***") if len(secret) >= 6 else text
    return _LOOKS_SECRET.sub("***", text)[:1000]


def _retry_after(chain: Sequence[BaseException]) -> float | None:
    """Seconds that the provider asks to wait. The only place where both versions keep it."""
    for error in chain:
        headers: Mapping[str, str] = getattr(error, "litellm_response_headers", None) or {}
        with contextlib.suppress(ValueError):
            if 0 <= (seconds := float(headers.get("retry-after", ""))) < math.inf:
                return seconds
    return None


def _failure(kind: str, message: str, **more: Any) -> ModelError:
    failure = ModelError(message, category=KINDS[kind].category, kind=kind, **more)
    failure.hint = KINDS[kind].cure
    return failure
