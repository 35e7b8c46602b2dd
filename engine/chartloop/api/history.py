"""A conversation from a caller, as a run holds it: checked before the run starts.

A message that no provider takes would fail at the first model call, perhaps a paid step later;
one that is not a message at all would break whoever counts it.

Source: 004 "Agent with Conversation History".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from chartloop.core.errors import SetupError, nearest

ROLES = ("system", "user", "assistant", "tool")
SENT = ("role", "content", "tool_calls", "tool_call_id", "name")
"""What chat APIs take. A message's other fields, an id or a time, are the caller's own."""


def history(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages, each with what is sent of it. `SetupError` names the first that is none."""
    if isinstance(messages, (str, Mapping)):
        raise _no_message("`messages` is a list of messages, not one", "write [{...}]")
    return [_message(number, given) for number, given in enumerate(messages, 1)]


def _message(number: int, given: Any) -> dict[str, Any]:
    which = f"message {number} of `messages`"
    if not isinstance(given, Mapping):
        said = f"{which} is a {type(given).__name__}, not a mapping"
        raise _no_message(said, 'write {"role": "user", "content": "Hello."}')
    said_of = cast(Mapping[str, Any], given)
    message: dict[str, Any] = {name: said_of[name] for name in SENT if name in said_of}
    role = message.get("role")
    if role not in ROLES:
        said = f"{which} has no role" if role is None else f"{which} has the role `{role}`"
        raise _no_message(said, nearest(str(role), ROLES, otherwise=f"one of {', '.join(ROLES)}"))
    _check_content(which, message)
    if "tool_calls" in message:
        _check_calls(which, message)
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise _no_message(f"{which} answers no call", "name it: `tool_call_id`")
    return message


def _check_content(which: str, message: dict[str, Any]) -> None:
    content = message.get("content")
    if content is None and message["role"] == "assistant":  # as APIs write one that only calls
        message["content"] = ""
    elif not isinstance(content, (str, list)):
        said = "no content" if content is None else f"content that is a {type(content).__name__}"
        raise _no_message(f"{which} has {said}", "write a text, or a list of parts")


def _check_calls(which: str, message: dict[str, Any]) -> None:
    calls: Any = message["tool_calls"]
    hint = 'write {"id": ..., "type": "function", "function": {"name": ..., "arguments": "{}"}}'
    if message["role"] != "assistant" or not isinstance(calls, list):
        raise _no_message(f"{which} has `tool_calls` that are no calls of the assistant", hint)
    for call in cast(list[Any], calls):
        if not _is_call(call):
            raise _no_message(f"{which} has an invalid tool call", hint)
    if not calls:
        del message["tool_calls"]


def _is_call(call: Any) -> bool:
    try:
        texts = call["id"], call["function"]["name"], call["function"]["arguments"]
    except (LookupError, TypeError):
        return False
    return all(isinstance(text, str) for text in texts)


def _no_message(said: str, hint: str) -> SetupError:
    return SetupError(f"{said}: this is not a conversation to continue", hint=hint)
