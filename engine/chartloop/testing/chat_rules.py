"""The rules of the OpenAI chat format: refused requests, and error replies.

Belongs here: the validation of requests, and the errors that providers send. Never: HTTP, or the
format of replies.
Source: OpenAI API reference, "Create chat completion" and "Error codes".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

__all__ = ["FAULTS", "REFUSALS", "Refusal", "fields_of", "refuse"]


class Refusal(NamedTuple):
    """An error reply of a provider. `retry_after` is in seconds."""

    status: int
    message: str
    code: str | None = None
    type: str = "invalid_request_error"
    retry_after: float | None = None

    def body(self) -> dict[str, Any]:
        """The JSON that a provider sends."""
        fault = {"message": self.message, "type": self.type, "param": None, "code": self.code}
        return {"error": fault}


REFUSALS: Mapping[str, Refusal] = {
    "rate_limit": Refusal(429, "Rate limit reached.", "rate_limit_exceeded", "requests", 7),
    "quota": Refusal(429, "You exceeded your current quota.", "insufficient_quota"),
    "unauthorized": Refusal(401, "Incorrect API key provided: {key}.", "invalid_api_key"),
    "forbidden": Refusal(403, "You are not allowed to use this model.", "permission_denied"),
    "not_found": Refusal(404, "The model `{model}` does not exist.", "model_not_found"),
    "bad_request": Refusal(400, "Invalid value for 'messages[0].content'.", "invalid_value"),
    "context_too_long": Refusal(400, "The messages are too long.", "context_length_exceeded"),
    "content_refused": Refusal(400, "Rejected by our safety system.", "content_policy_violation"),
    "server_error": Refusal(500, "The server had an error.", None, "server_error"),
    "unavailable": Refusal(503, "The engine is currently overloaded.", None, "server_error"),
}
FAULTS: Mapping[str, str] = MappingProxyType(
    {name: f"{refusal.status}: {refusal.message}" for name, refusal in REFUSALS.items()}
    | {
        "timeout": "never answers, and holds the connection",
        "disconnect": "closes the connection without an answer",
        "malformed_json": "200, and the JSON ends in the middle",
        "html": "200 with a web page, as a captive proxy sends it",
        "not_streamed": "200 with one JSON reply, even where a stream was asked for",
        "empty_stream": "200 and nothing in it: `[DONE]` at once; unstreamed, no choices",
        "cut_stream": "ends before the last word as if all were well; unstreamed, in mid-body",
        "torn_stream": "breaks the connection before the last word; unstreamed, in mid-body",
        "stalled_stream": "says no more before the last word; unstreamed, as `timeout`",
        "cut_tool_arguments": "ends in the middle of a tool call's arguments",
        "stream_error": "an error event before the last word; unstreamed, an error with 200",
        "slow": "a twentieth of a second before each word",
        "length": "a reply that ran into its token limit",
        "content_filter": "a reply that the provider's filter cut",
    }
)
"""The faults by name, for ``{"fault": name}`` in a script or the model ``fault-<name>``."""

_ROLES = ("system", "developer", "user", "assistant", "tool")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UP_TO_128 = "a list of at most 128"
_OBJECT = "the text of a JSON object"
_PARTS = ("text", "image_url", "input_audio", "file", "refusal")
_RULES: tuple[tuple[str, Any], ...] = (
    ("model", str),
    ("messages", list),
    ("messages[].role", _ROLES),
    ("messages[].tool_calls?", _UP_TO_128),
    ("messages[].tool_calls[].id", str),
    ("messages[].tool_calls[].type", ("function",)),
    ("messages[].tool_calls[].function.name", _NAME),
    ("messages[].tool_calls[].function.arguments", _OBJECT),
    ("messages[].content[].type", _PARTS),
    ("tools?", _UP_TO_128),
    ("tools[].type", ("function",)),
    ("tools[].function.name", _NAME),
    ("tools[].function.parameters.type", ("object",)),
    ("temperature?", range(3)),
    ("top_p?", range(2)),
    ("n?", range(1, 129)),
    ("max_tokens?", range(1, 2**31)),
)
"""The allowed values at a path: of a type, one of some words, a text of a pattern, a number from
the first to the last of a range, or what the words say. A question mark allows a missing value. No
list may be empty. Servers that apply a template to the calls, such as vLLM and llama.cpp, refuse
arguments that are not a JSON object, as the providers do to which such a request is translated."""


def refuse(body: Mapping[str, Any], models: Collection[str]) -> Refusal | None:
    """The error with which a provider of these models would refuse this request, or None.

    >>> refuse({"model": "m", "messages": []}, ["m"]).code
    'empty_array'
    """
    for path, wanted in _RULES:
        for at, value in _values(body, path.removesuffix("?")):
            if not _fits(value, wanted) and not (value is None and path.endswith("?")):
                code = "empty_array" if value == [] else "invalid_value"
                return Refusal(400, f"Invalid value for '{at}'.", code)
    if body["model"] not in models and body["model"].removeprefix("fault-") not in FAULTS:
        return REFUSALS["not_found"]
    if body.get("stream_options") is not None and not body.get("stream"):
        return Refusal(400, "'stream_options' is only allowed when 'stream' is enabled.")
    if body.get("tool_choice") is not None and body.get("tools") is None:
        return Refusal(400, "'tool_choice' is only allowed when 'tools' are specified.")
    fault = _check_tool_answers(body["messages"])
    return Refusal(400, fault) if fault else None


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, range):
        return isinstance(value, (int, float)) and wanted[0] <= value <= wanted[-1]
    if isinstance(wanted, tuple):
        return value in wanted
    if wanted is _UP_TO_128:
        return isinstance(value, list) and 1 <= len(cast("list[Any]", value)) <= 128
    if wanted is _OBJECT:
        return isinstance(value, str) and is_object(value)
    if wanted is _NAME:
        return isinstance(value, str) and _NAME.fullmatch(value) is not None
    return isinstance(value, wanted) and value != []


def is_object(text: str) -> bool:
    """Whether a text is a JSON object, by the standard: without NaN."""
    try:
        return isinstance(json.loads(text, parse_constant=_no_constant), dict)
    except (ValueError, RecursionError):
        return False


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def fields_of(data: Any) -> dict[str, Any]:
    """The fields of a JSON object; empty for any other value."""
    return cast(dict[str, Any], data) if isinstance(data, dict) else {}


def _values(body: Any, path: str) -> list[tuple[str, Any]]:
    """Every value at a path, with its place; None for a missing one."""
    values: list[tuple[str, Any]] = [("", body)]
    for part in path.split("."):
        key = part.removesuffix("[]")
        values = [(f"{at}.{key}", fields_of(data).get(key)) for at, data in values]
        if key != part:
            lists = [(at, cast("list[Any]", d)) for at, d in values if isinstance(d, list)]
            values = [(f"{at}[{n}]", item) for at, items in lists for n, item in enumerate(items)]
    return [(at.lstrip("."), data) for at, data in values]


def _check_tool_answers(messages: Sequence[Mapping[str, Any]]) -> str:
    """The fault in tool calls and replies, which must match one to one; empty if there is none."""
    asked: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            called = message.get("tool_call_id")
            if not asked:
                return f"Invalid parameter: {_UNASKED}"
            if called not in waiting:
                return f"Invalid parameter: 'tool_call_id' '{called}' not found in 'tool_calls'."
            waiting.remove(called)
        elif waiting:
            break
        else:
            calls = message.get("tool_calls") if message["role"] == "assistant" else None
            asked = [call["id"] for call in calls or ()]
            waiting = list(asked)
        if not asked and not isinstance(message.get("content"), (str, list)):
            return "Invalid value for 'content': expected a string or an array."
    return _UNANSWERED + ", ".join(waiting) if waiting else ""


_UNASKED = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to "
    "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
)
