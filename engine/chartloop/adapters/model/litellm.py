"""Real models, through litellm: the only door to it.

litellm is an extra of seconds and 100 MB, imported by `prepare` or the first call. It is kept
quiet, offline and without retries: waiting and trying again belong to the machine, where they
are counted.

Belongs here: the call, and what litellm must be told. Which models are asked is in `model_target`,
what arrives in `model_reply`, what goes wrong in `model_errors`. Never: retries, waits, prompts.
Source: design "language", section 1 (`model`); design "traps", litellm.
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
    `ModelReply.model` says who answered.

    Servers, keys and prices are looked up once for each mapping of settings: one instance is for
    one run.
    """

    suspends = True

    def __init__(self) -> None:
        self._settled: list[tuple[Mapping[str, Any], list[Target]]] = []
        self._row = functools.cache(_row)

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Raise `SetupError` for a name, key or setting that cannot work, before any call."""
        self._targets(_litellm(), settings)

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The file's figure, else litellm's, in tokens; None when neither is known."""
        if (given := settings.get("context_window")) is not None:
            return int(given)
        with contextlib.suppress(SetupError):
            row = self._row(settings.get("name"))
            return row.get("max_input_tokens") or row.get("max_tokens")
        return None

    def prices(self, settings: Mapping[str, Any]) -> tuple[float, float] | None:
        """USD for a token that is sent and for one that is written, by litellm's table."""
        with contextlib.suppress(SetupError):
            row = self._row(settings.get("name"))
            sent, written = row.get("input_cost_per_token"), row.get("output_cost_per_token")
            return None if sent is None or written is None else (float(sent), float(written))
        return None

    def worst(self, settings: Mapping[str, Any]) -> tuple[int | None, tuple[float, float] | None]:
        """The most tokens of a call with its reply, and the dearest prices, by litellm's table."""
        with contextlib.suppress(SetupError):
            row = self._row(settings.get("name"))
            window = row.get("max_input_tokens") or row.get("max_tokens")
            longest = window and int(window) + int(row.get("max_output_tokens") or 0)
            return longest or None, _dearest(row)
        return None, None

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Answer; streamed when `on_text` is given, unless ``stream`` says differently."""
        try:
            # Its import takes seconds, of another thread.
            ready = _litellm.cache_info().currsize
            litellm = _litellm() if ready else await asyncio.to_thread(_litellm)
            targets = self._targets(litellm, request.settings)
        except SetupError as error:
            raise failure("setup", f"{error.message}; {error.hint}") from None
        failures: list[ModelError] = []
        for target in targets:
            answer = await _ask(litellm, target, request, on_text)
            if isinstance(answer, ModelReply):
                return _instead(answer, failures) if failures else answer
            failures.append(answer)
            if answer.kind not in FALL_BACK_ON or answer.partial:
                break
        # Where one of them may work later, so may the same call.
        first = next((f for f in failures if f.category is Category.TRANSIENT), failures[-1])
        more = {"status": first.status, "retry_after": first.retry_after, "partial": first.partial}
        raise failure(first.kind, "; ".join(f.message for f in failures), **more)

    def _targets(self, litellm: Any, settings: Mapping[str, Any]) -> list[Target]:
        """Whom these settings ask; what cannot work is looked at again each time."""
        for known, targets in self._settled:
            if known == settings:
                return targets
        targets = targets_of(litellm, settings)
        self._settled = [(dict(settings), targets), *self._settled[:_SETTLED]]
        return targets


BOTH = (
    "some servers refuse an output schema next to tools: ask for `output` in a state of its own, "
    "with `allow: []`"
)
"""A hint for a refused request that has both."""
ANSWERED = "`{}` gave no answer ({}): `{}` answered"
"""A warning: which of `fallbacks` took over."""


def _instead(answer: ModelReply, failures: Sequence[ModelError]) -> ModelReply:
    """The answer of a fallback, with who did not answer and why."""
    asked = [error.message.partition(": ")[0] for error in failures]
    kinds = ", ".join(dict.fromkeys(error.kind.replace("_", " ") for error in failures))
    message = ANSWERED.format("`, `".join(asked), kinds, answer.model)
    return answer.replace(warnings=(message, *answer.warnings))


_SETTLED = 7
"""Mappings of settings that an instance remembers next to the last: a machine has few."""


@functools.cache
def _litellm() -> Any:
    """litellm, imported once, offline and quiet. A person may set the variables otherwise."""
    os.environ.setdefault(_LOCAL, "True")
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
        raise SetupError(text, hint=install("llm")) from error
    litellm.suppress_debug_info = True
    with contextlib.suppress(AttributeError, ImportError):
        watch()
    # What a server sent in another form than litellm's classes have would be printed, whole.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    # In place of HF_HUB_OFFLINE, which would bind the whole process: no tokenizer is fetched.
    litellm.disable_hf_tokenizer_download = True
    for logger in loggers:  # without its handlers, nor Python's last resort, to stderr
        own = [h for h in logger.handlers if not type(h).__module__.startswith("litellm")]
        logger.handlers[:] = [*own, logging.NullHandler()]
    return litellm


_PASSED = ("temperature", "top_p", "max_tokens", "stop", "seed")


def _arguments(
    request: ModelRequest, target: Target, messages: Iterable[Message], *, streamed: bool
) -> dict[str, Any]:
    settings = request.settings
    given = {name: settings[name] for name in _PASSED if settings.get(name) is not None}
    given |= {"model": target.name, "messages": messages, **target.where}
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
    # litellm writes into what it is given.
    made: dict[str, Any] = copy_json({**given, **target.extra})
    if cached := settings.get("cache"):
        mark_for_cache(made, cached, target.provider)
    return made


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
    """One call. A failure is returned, so that it does not drag litellm's own along."""
    wanted = request.settings.get("stream")
    streamed = on_text is not None if wanted is None else bool(wanted)
    received, outer = ReceivedReply(on_text, target.most), sys.exception()
    wire = Wire(target.most, streamed)
    sent = with_reasoning(request.messages, target.provider)
    messages, received.media = with_media(sent.messages, target.provider)
    try:
        with wire:
            async with asyncio.timeout(target.timeout):
                arguments = _arguments(request, target, messages, streamed=streamed)
                response = await litellm.acompletion(**arguments)
                if streamed:
                    await received.listen(response, target.idle)
                else:
                    received.take(response)
    except Exception as error:  # noqa: BLE001 - litellm lets through whatever its parts raise
        if not received.read(wire):
            refused = classify_error(error, target, received, wire, outer)
            both = request.tools and request.output is not None
            if both and refused.kind in ("bad_request", "server"):
                return failure(refused.kind, f"{refused.message}; {BOTH}", status=refused.status)
            return refused
    if problem := received.problem(streamed=streamed):
        return failure(problem[0], f"{target.name}: {problem[1]}", partial=received.text)
    reply = received.reply(request, target, _cost(litellm, request.settings, target, received))
    odd = (*sent.warnings, *(lost_blocks(wire) if target.provider == "anthropic" else ()))
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
            given = usage if known else litellm.Usage(**usage._asdict())
            received.cost = math.fsum(litellm.cost_per_token(model=target.name, usage_object=given))
    # litellm says 0 where it has no price.
    return received.cost or (0.0 if target.row.get("input_cost_per_token") == 0 else None)


_ASKED_FOR = ("batch", "flex", "priority")
"""Ways of being served that a call must ask for, by `extra`."""


def _dearest(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """The highest price of a token each way: long prompts, reasoning and audio may cost more."""
    sides: list[float] = []
    for way in ("input", "output"):
        found = [
            float(price) for name, price in row.items()
            if way in name and "token" in name and "cost" in name
            and isinstance(price, (int, float)) and not any(word in name for word in _ASKED_FOR)
        ]  # fmt: skip
        if row.get(f"{way}_cost_per_token") is None:
            return None
        sides.append(max(found))
    return sides[0], sides[1]


_TABLE = "model_prices_and_context_window_backup.json"
"""litellm's table, as a file of its package."""


@functools.cache
def _table() -> Mapping[str, Any]:
    """Litellm's table without litellm, whose import takes seconds; empty where there is none."""
    found = None if os.environ.get(_LOCAL, "True") != "True" else find_spec("litellm")
    for folder in found.submodule_search_locations or () if found else ():
        with contextlib.suppress(OSError, ValueError):
            return json.loads((Path(folder) / _TABLE).read_text("utf-8"))
    return {}


def _row(name: Any) -> Mapping[str, Any]:
    """The model's row in litellm's table, or nothing. litellm is imported only for odd names."""
    if "litellm" not in sys.modules and isinstance(name, str):
        provider, slash, model = name.partition("/")
        for key in (name, model) if slash else (name,):
            row: Mapping[str, Any] = _table().get(key, {})
            if row and (not slash or str(row.get("litellm_provider")).startswith(provider)):
                return row
        if slash and any(row.get("litellm_provider") == provider for row in _table().values()):
            return {}
    return row_of(_litellm(), name)
