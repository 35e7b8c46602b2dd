"""The answers of Anthropic: scripted replies in the Messages format, whole or as a stream.

Belongs here: the format of an answer. Never: sockets, headers, or refusals.
Source: Anthropic API reference, "Create a message", "Streaming messages", "Errors".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from chartloop.adapters.model.scripted import pieces
from chartloop.testing.chat_rules import Refusal
from chartloop.testing.chat_wire import Answer

__all__ = ["MessagesAnswer"]

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error",
    500: "api_error", 503: "overloaded_error",
}  # fmt: skip


class MessagesAnswer(Answer):
    """A turn in the wire format of the Messages API."""

    def blocks(self) -> list[dict[str, Any]]:
        """The content of the reply. Reasoning given as a text is one signed thinking block."""
        reply, blocks = self.turn.reply, list[dict[str, Any]]()
        if isinstance(reply.reasoning, str):
            if reply.reasoning:
                signature = f"signed-{crc32(reply.reasoning.encode()):08x}"
                thought = {"thinking": reply.reasoning, "signature": signature}
                blocks.append({"type": "thinking", **thought})
        else:
            blocks += map(dict[str, Any], reply.reasoning)
        if reply.text:
            blocks.append({"type": "text", "text": reply.text})
        for call in reply.calls(self.number):
            arguments = json.loads(call.arguments)
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
            blocks.append(block)
        return blocks

    def signatures(self) -> set[str]:
        """The signatures that must come back unchanged, if at all."""
        texts = (block.get("signature") or block.get("data") for block in self.blocks())
        return {text for text in texts if isinstance(text, str)}

    def _message(self, content: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
        head = {"id": f"msg_{self.number}", "type": "message", "role": "assistant"}
        reply = self.turn.reply
        cached, written = reply.cached_tokens or 0, reply.cache_write_tokens or 0
        usage = {
            "input_tokens": (reply.prompt_tokens or 0) - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": reply.completion_tokens or 0,
        }
        end = {"stop_reason": reason, "stop_sequence": None, "usage": usage}
        return {**head, "model": self.asked["model"], "content": content, **end}

    def whole(self) -> str:
        """The body, if no stream was asked for."""
        empty = self.turn.fault == "empty_stream"
        return json.dumps(self._message([] if empty else self.blocks(), self._reason()))

    def _reason(self) -> str:
        reason = "refusal" if self.turn.reply.refusal else self.turn.reply.finish_reason
        return _REASONS.get(reason, reason)

    def words(self) -> list[str]:
        """The events of a stream up to its last word, as JSON."""
        return [json.dumps(event) for event in self._events()]

    def _events(self) -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": self._message([], None)}
        for number, block in enumerate(self.blocks()):
            at = {"index": number}
            first, deltas = _in_pieces(block)
            yield {"type": "content_block_start", **at, "content_block": first}
            for delta in deltas:
                yield {"type": "content_block_delta", **at, "delta": delta}
            yield {"type": "content_block_stop", **at}

    def end(self) -> list[str]:
        """The events after the last word."""
        used = {"output_tokens": self.turn.reply.completion_tokens or 0}
        last = {"type": "message_delta", "delta": {"stop_reason": self._reason()}, "usage": used}
        return [json.dumps(last), json.dumps({"type": "message_stop"})]

    def after(self) -> Sequence[str]:
        """Nothing ends a stream but its last event."""
        return ()

    def frame(self, data: str) -> str:
        """One event as it is sent."""
        named = re.match(r'\{"type": "(\w+)"', data)
        return (f"event: {named[1]}\n" if named else "") + f"data: {data}\n\n"

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        """A no, in the shape of this format."""
        kind = _ERRORS.get(refusal.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": refusal.message}}


def _in_pieces(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How a block starts in a stream, and what then comes of it."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            return {"type": "text", "text": ""}, deltas
        case "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])
            ]
            if "signature" in block:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "tool_use":
            parts = re.findall(r"(?s).{1,6}", json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return {**block, "input": {}}, deltas
        case _:
            return dict(block), []
