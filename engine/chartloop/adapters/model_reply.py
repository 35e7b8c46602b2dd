"""What has arrived of one reply, in one piece or in many, and whether it is one.

Belongs here: how litellm's answers are read, and what it makes up. Never: a call.
Imported by: adapters.litellm
Source: design "traps", litellm; OpenAI API reference, "Streaming".
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from chartloop.adapters.model_target import Target
from chartloop.adapters.model_wire import TooLongError
from chartloop.core.facts import ToolCall
from chartloop.run.ports import ModelReply, ModelRequest, OnText

__all__ = ["Heard"]


class Heard:
    """What has arrived of one reply."""

    def __init__(self, on_text: OnText | None, most: int) -> None:
        self.text = ""
        self.size = 0
        self.most = most
        self.idle = False
        """The last piece of a stream was waited for in vain."""
        self.usage: Any = None
        self._on_text = on_text
        self._calls: list[dict[str, Any]] = []
        self._finish = ""
        self._cut = self._lone = False

    def take(self, response: Any) -> None:
        """A reply in one piece. litellm puts zeros where the provider sent no usage."""
        self.usage = _told(getattr(response, "usage", None))
        for choice in response.choices[:1]:
            self._add(choice.message, choice.finish_reason)

    async def listen(self, stream: Any, idle: float) -> None:
        """A reply in pieces, `idle` seconds apart at most. However it ends, it is closed."""
        async with contextlib.aclosing(stream):
            pause: float | None = None  # a model may think for long before its first word
            while True:
                scope = asyncio.timeout(pause)
                try:
                    async with scope:
                        chunk = await anext(stream, None)
                finally:
                    self.idle = scope.expired()
                pause = idle
                if chunk is None:
                    break
                self.usage = _told(getattr(chunk, "usage", None)) or self.usage
                for choice in chunk.choices[:1]:
                    self._add(choice.delta, choice.finish_reason)
        # litellm makes up a finish and a usage, and takes a body that is no stream for one event.
        self._lone = len(stream.chunks) == 1
        self._cut = not (stream.received_finish_reason or stream.intermittent_finish_reason)
        if not any(getattr(chunk, "usage", None) for chunk in stream.chunks):
            self.usage = None

    def _add(self, part: Any, finish: str | None) -> None:
        self._finish = finish or self._finish
        self._measure(part)
        if part.content:
            self.text += part.content
            if self._on_text is not None:
                self._on_text(part.content)
        for n, delta in enumerate(part.tool_calls or ()):
            call = self._call(getattr(delta, "index", n), delta.id or "")
            call["name"] += delta.function.name or ""
            call["arguments"] += delta.function.arguments or ""

    def _measure(self, part: Any) -> None:
        self.size += len(part.content or "")
        self.size += sum(len(call.function.arguments or "") for call in part.tool_calls or ())
        if self.size > self.most:
            raise TooLongError

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

    def reply(self, request: ModelRequest, target: Target, cost: float | None) -> ModelReply:
        """The reply. A call without an id gets one that is the same whenever this is replayed."""
        calls = tuple(
            ToolCall(c["id"] or f"call_{request.number}_{n}", c["name"], c["arguments"] or "{}")
            for n, c in enumerate(self._calls)
        )
        finish = self._finish or "stop"
        finish = "tool_calls" if calls and finish == "stop" else finish
        prompt = getattr(self.usage, "prompt_tokens", None)
        completion = getattr(self.usage, "completion_tokens", None)
        return ModelReply(self.text, calls, finish, prompt, completion, cost, target.name)


def _told(usage: Any) -> Any:
    """Usage, unless it is all zeros: that of no call, which litellm makes up."""
    counts = (getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens"))
    return usage if any(counts) else None
