"""Real models through litellm, which only this module imports.

litellm is an extra of 100 MB that takes seconds to import, at `prepare` or the first call. It is
kept quiet, offline and without retries: waiting and retrying belong to the machine, where they
are counted.

Belongs here: the call, and the configuration of litellm. Servers and keys are in `target`, the
parsing of replies is in `reply`, failures are in `errors`. Never: retries, waits, prompts.
Source: docs/language.md, "model"; docs/models.md.
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
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from chartloop.adapters.model.caching import mark_for_cache
from chartloop.adapters.model.errors import FALL_BACK_ON, KINDS, Kind, classify_error, failure
from chartloop.adapters.model.reply import ReceivedReply
from chartloop.adapters.model.sent_parts import with_media
from chartloop.adapters.model.target import Target, row_of, targets_of
from chartloop.adapters.model.thinking import lost_blocks, with_reasoning
from chartloop.adapters.model.wire import Wire, watch
from chartloop.core.errors import Category, ModelError, SetupError
from chartloop.core.outcome import Message, is_tokens
from chartloop.extras import install
from chartloop.language.json_schema.reply import in_words
from chartloop.language.json_schema.sent import sent_tools
from chartloop.run.ports import ModelReply, ModelRequest, OnText

_LOCAL = "LITELLM_LOCAL_MODEL_COST_MAP"

__all__ = ["FALL_BACK_ON", "KINDS", "Kind", "LiteLLM"]


class LiteLLM:
    """Any model that litellm reaches, as a `Model`.

    `settings` are the file's `model` mapping. ``name`` is litellm's: ``provider/model``. The key
    is in the provider's own variable or in the one that ``api_key_env`` names; a server at
    ``api_base`` may need none. ``timeout`` is the longest that a whole reply may take, streamed or
    not, ``idle_timeout`` the longest pause between two pieces of a streamed one, both in seconds;
    ``reply_limit`` is the most characters of its text and tool arguments. ``fallbacks`` are asked
    in order while models fail with a kind of `FALL_BACK_ON` before their first word;
    `ModelReply.model` names the model that replied.

    Servers, keys and prices are looked up once for each mapping of settings: use one instance per
    run.
    """

    suspends = True

    def __init__(self) -> None:
        self._cached: list[tuple[Mapping[str, Any], list[Target]]] = []
        self._sent: list[tuple[Sequence[Mapping[str, Any]], str, list[dict[str, Any]]]] = []
        self._row = functools.cache(_row)

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Raise `SetupError` for a name, key or setting that cannot work, before any call."""
        self._targets(_litellm(), settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The file's context window, else litellm's, in tokens; None when neither is known."""
        if (window := settings.get("context_window")) is not None:
            return int(window)
        row = self._known(settings)
        return row.get("max_input_tokens") or row.get("max_tokens")

    def prices(self, settings: Mapping[str, Any]) -> tuple[float, float] | None:
        """USD per prompt token and per completion token, by litellm's table; None if unknown."""
        row = self._known(settings)
        sent, written = row.get("input_cost_per_token"), row.get("output_cost_per_token")
        return None if sent is None or written is None else (float(sent), float(written))

    def worst(self, settings: Mapping[str, Any]) -> tuple[int | None, tuple[float, float] | None]:
        """The most tokens of a call with its reply, and the highest prices, by litellm's table."""
        row = self._known(settings)
        window = row.get("max_input_tokens") or row.get("max_tokens")
        longest = window and int(window) + int(row.get("max_output_tokens") or 0)
        return longest or None, _highest_prices(row)

    def _known(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row of the model in litellm's table; empty if there is none."""
        with contextlib.suppress(SetupError):
            return self._row(settings.get("name"))
        return {}

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Call the model; streamed when `on_text` is given, unless ``stream`` overrides it."""
        try:
            # Its import takes seconds: keep them off the event loop.
            ready = _litellm.cache_info().currsize
            litellm = _litellm() if ready else await asyncio.to_thread(_litellm)
            targets = self._targets(litellm, request.settings)
        except SetupError as error:
            raise failure("setup", f"{error.message}; {error.hint}") from None
        failures: list[ModelError] = []
        for target in targets:
            sent = request.replace(tools=self._fitted(request.tools, target.provider))
            answer = await _ask(litellm, target, sent, on_text)
            if isinstance(answer, ModelReply):
                return _instead(answer, failures) if failures else answer
            failures.append(answer)
            if answer.kind not in FALL_BACK_ON or answer.partial:
                break
        # If one model may work later, so may the same call: report that failure.
        first = next((f for f in failures if f.category is Category.TRANSIENT), failures[-1])
        more = {"status": first.status, "retry_after": first.retry_after, "partial": first.partial}
        raise failure(first.kind, "; ".join(f.message for f in failures), **more)

    def _targets(self, litellm: Any, settings: Mapping[str, Any]) -> list[Target]:
        """The targets of these settings. Settings that fail are tried again at each call."""
        for cached, targets in self._cached:
            if cached == settings:
                return targets
        targets = targets_of(litellm, settings)
        self._cached = [(dict(settings), targets), *self._cached[:_CACHED]]
        return targets

    def _fitted(
        self, tools: Sequence[Mapping[str, Any]], provider: str
    ) -> Sequence[Mapping[str, Any]]:
        """The tools of a request as the provider takes them; a state offers the same each time."""
        for known, of, sent in self._sent:
            if known is tools and of == provider:
                return sent
        sent = sent_tools(tools, provider)
        self._sent = [(tools, provider, sent), *self._sent[:_CACHED]]
        return sent


BOTH = (
    "some servers refuse an output schema next to tools: ask for `output` in a state of its own, "
    "with `allow: []`"
)
"""A hint for a refused request with both."""
ANSWERED = "`{}` gave no answer ({}): `{}` answered"
"""A warning: which of `fallbacks` took over."""


def _instead(answer: ModelReply, failures: Sequence[ModelError]) -> ModelReply:
    """The reply of a fallback, with a warning that names the models that failed and why."""
    failed = [error.message.partition(": ")[0] for error in failures]
    kinds = ", ".join(dict.fromkeys(error.kind.replace("_", " ") for error in failures))
    message = ANSWERED.format("`, `".join(failed), kinds, answer.model)
    return answer.replace(warnings=(message, *answer.warnings))


_CACHED = 7
"""Mappings of settings that an instance caches besides the last one: a machine has few."""


@functools.cache
def _litellm() -> Any:
    """Import litellm once, offline and quiet, unless its environment variables say otherwise."""
    os.environ.setdefault(_LOCAL, "True")
    os.environ.setdefault("LITELLM_OFFLINE_MODE", "true")
    # `openai`, which makes its calls, logs the headers of `extra`.
    loggers = [*map(logging.getLogger, ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai"))]
    for logger in loggers:
        logger.setLevel(logger.level or logging.WARNING)
    try:
        # By name: its types are unknown where it is not installed.
        litellm: Any = importlib.import_module("litellm")
    except Exception as error:
        missing = getattr(error, "name", "") == "litellm"
        text = "litellm is not installed" if missing else f"litellm cannot be imported: {error}"
        raise SetupError(text, hint=install("llm")) from error
    litellm.suppress_debug_info = True
    with contextlib.suppress(AttributeError, ImportError):
        watch()
    # Pydantic would print whole replies that do not match litellm's classes.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    # Fetch no tokenizer. HF_HUB_OFFLINE would affect the whole process.
    litellm.disable_hf_tokenizer_download = True
    for logger in loggers:  # neither its handlers nor Python's last resort write to stderr
        own = [h for h in logger.handlers if not type(h).__module__.startswith("litellm")]
        logger.handlers[:] = [*own, logging.NullHandler()]
    return litellm


GO_ON = {"role": "user", "content": "Continue."}
"""Sent after a reply where no message follows it: some providers refuse a request that ends with a
reply, and others write on in the middle of it."""
_THINKS = frozenset({"thinking", "reasoning_effort"})
"""Settings of `extra` with which a model thinks."""
_PASSED = ("temperature", "top_p", "max_tokens", "stop", "seed")


def _arguments(
    request: ModelRequest, target: Target, messages: Iterable[Message], *, streamed: bool
) -> dict[str, Any]:
    settings = request.settings
    arguments = {name: settings[name] for name in _PASSED if settings.get(name) is not None}
    arguments |= {"model": target.name, "messages": messages, **target.where}
    arguments |= {"timeout": target.timeout, "num_retries": 0, "max_retries": 0}
    if request.tools:
        # 1.106.2 imports `mcp`, which is not installed, whenever there are tools.
        arguments |= {"tools": request.tools, "_skip_mcp_handler": True}
    if request.tool_choice is not None:
        arguments["tool_choice"] = request.tool_choice
    if request.output is not None:
        shape = {"name": "reply", "schema": request.output}
        arguments["response_format"] = {"type": "json_schema", "json_schema": shape}
        if target.provider not in _SHOWS_SCHEMA or "api_base" in target.where:
            arguments["messages"] = _with_schema(messages, request.output)
    if streamed:
        arguments |= {"stream": True, "stream_options": {"include_usage": True}}
    # litellm changes its arguments in place.
    copied: dict[str, Any] = copy_json({**arguments, **target.extra})
    for message in copied["messages"]:
        if message.get("tool_calls") and message.get("content") == "":
            message["content"] = None  # some gateways refuse an empty text
    if wanted := settings.get("cache"):
        mark_for_cache(copied, wanted, target.provider)
    return copied


_SHOWS_SCHEMA = frozenset(
    {"openai", "azure", "azure_ai", "gemini", "vertex_ai", "anthropic", "bedrock"}
)
"""Providers whose own service shows the model the schema of its reply. Others, and servers of one's
own, only force its letters."""


def _with_schema(messages: Iterable[Message], schema: Mapping[str, Any]) -> list[Message]:
    """The messages with the schema of the reply in the instructions."""
    given = [*messages]
    told = f"Your answer is nothing but {in_words(schema)}"
    if given and given[0].get("role") == "system" and isinstance(given[0].get("content"), str):
        return [{**given[0], "content": f"{given[0]['content']}\n\n{told}"}, *given[1:]]
    return [{"role": "system", "content": told}, *given]


def copy_json(value: Any) -> Any:
    """A copy in new dicts and lists. `TypeError` for a value that JSON cannot hold."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {name: copy_json(part) for name, part in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [copy_json(part) for part in cast("Sequence[Any]", value)]
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


async def _ask(
    litellm: Any, target: Target, request: ModelRequest, on_text: OnText | None
) -> ModelReply | ModelError:
    """Make one call. A failure is returned, not raised, to drop litellm's chain of exceptions."""
    wanted = request.settings.get("stream")
    streamed = on_text is not None if wanted is None else bool(wanted)
    received, outer = ReceivedReply(on_text, target.most), sys.exception()
    wire = Wire(target.most, streamed)
    sent = with_reasoning(request.messages, target.provider, target.name)
    if sent.thoughtless:
        extra = {n: value for n, value in target.extra.items() if n not in _THINKS}
        target = target._replace(extra=extra)
    messages, received.media = with_media(sent.messages, target.provider)
    if messages and messages[-1].get("role") == "assistant":
        messages = [*messages, GO_ON]
    try:
        with wire:
            async with asyncio.timeout(target.timeout):
                arguments = _arguments(request, target, messages, streamed=streamed)
                response = await litellm.acompletion(**arguments)
                if streamed:
                    await received.listen(response, target.idle, wire)
                else:
                    received.take(response, wire)
    except Exception as error:  # noqa: BLE001 - litellm lets through whatever its parts raise
        if not received.read(wire):
            if fault := received.bad_end(wire.reason):
                return failure(fault[0], f"{target.name}: {fault[1]}", partial=received.text)
            refused = classify_error(error, target, received, wire, outer)
            both = request.tools and request.output is not None
            if both and refused.kind in ("bad_request", "server"):
                return failure(refused.kind, f"{refused.message}; {BOTH}", status=refused.status)
            return refused
    fault = received.fault(ended := wire.reason)
    problem = received.problem(streamed=streamed)
    if problem is not None and not (fault is not None and ended):
        return failure(problem[0], f"{target.name}: {problem[1]}", partial=received.text)
    reply = received.reply(request, target, _cost(litellm, request.settings, target, received))
    odd = (*sent.warnings, *(lost_blocks(wire) if target.provider == "anthropic" else ()))
    if fault is not None:
        error = failure(fault[0], f"{target.name}: {fault[1]}")
        reply = reply.replace(error=error)
    return reply.replace(warnings=(*odd, *reply.warnings)) if odd else reply


def _cost(
    litellm: Any, settings: Mapping[str, Any], target: Target, received: ReceivedReply
) -> float | None:
    """USD by the file's prices, else by litellm's table; None when no price is known."""
    usage = received.usage
    if usage is None or not (is_tokens(usage.prompt_tokens) and is_tokens(usage.completion_tokens)):
        return None
    sent, written = (settings.get(f"{way}_cost_per_token") for way in ("input", "output"))
    if sent is not None and written is not None and target.name == settings.get("name"):
        return usage.prompt_tokens * sent + usage.completion_tokens * written
    if not target.row:
        return None
    if received.cost is None:
        with contextlib.suppress(Exception):
            known = isinstance(usage, litellm.Usage)
            counts = usage if known else litellm.Usage(**usage._asdict())
            received.cost = math.fsum(
                litellm.cost_per_token(model=target.name, usage_object=counts)
            )
    # litellm returns 0 for an unknown price.
    return received.cost or (0.0 if target.row.get("input_cost_per_token") == 0 else None)


_ASKED_FOR = ("batch", "flex", "priority")
"""Service tiers that a call must request by `extra`."""


def _highest_prices(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """The highest prices per prompt and completion token: long prompts or audio may cost more."""
    sides: list[float] = []
    for way in ("input", "output"):
        prices = [
            float(price) for name, price in row.items()
            if way in name and "token" in name and "cost" in name
            and isinstance(price, (int, float)) and not any(word in name for word in _ASKED_FOR)
        ]  # fmt: skip
        if row.get(f"{way}_cost_per_token") is None:
            return None
        sides.append(max(prices))
    return sides[0], sides[1]


_TABLE = "model_prices_and_context_window_backup.json"
"""The file with litellm's table, in its package."""


@functools.cache
def _table() -> Mapping[str, Any]:
    """Litellm's table, read without the slow import of litellm; empty if there is none."""
    spec = None if os.environ.get(_LOCAL, "True") != "True" else find_spec("litellm")
    for folder in spec.submodule_search_locations or () if spec else ():
        with contextlib.suppress(OSError, ValueError):
            return json.loads((Path(folder) / _TABLE).read_text("utf-8"))
    return {}


def _row(name: Any) -> Mapping[str, Any]:
    """The model's row in litellm's table; may be empty. Imports litellm only for unusual names."""
    if "litellm" not in sys.modules and isinstance(name, str):
        provider, slash, model = name.partition("/")
        for key in (name, model) if slash else (name,):
            row: Mapping[str, Any] = _table().get(key, {})
            if row and (not slash or str(row.get("litellm_provider")).startswith(provider)):
                return row
        if slash and any(row.get("litellm_provider") == provider for row in _table().values()):
            return {}
    return row_of(_litellm(), name)
