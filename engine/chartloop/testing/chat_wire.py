"""The answers of a provider: scripted replies in the OpenAI chat format, whole or as a stream.

Belongs here: the format of an answer, and how a fault changes it. Never: sockets and headers.
Source: OpenAI API reference, "Create chat completion", "Streaming".
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chartloop.adapters.model.scripted import ScriptedCall, ScriptedReply, parse_replies, pieces
from chartloop.core.errors import ScriptError, nearest
from chartloop.core.facts import PARTS
from chartloop.testing.chat_rules import FAULTS, REFUSALS, Refusal, fields_of

__all__ = ["SAMPLE", "Answer", "Sent", "Turn", "as_text", "read_script", "turn_of"]

_CALL = ScriptedCall("get_weather", '{"city": "Paris"}')
SAMPLE = ScriptedReply("The quick brown fox jumps over the lazy dog.", (), "stop", 12, 9)
_SAMPLES = {"cut_tool_arguments": ScriptedReply("", (_CALL,), "tool_calls", 12, 9)}


class Sent(NamedTuple):
    """An answer exactly as a provider sent it. A text is sent as it is, other data as JSON."""

    whole: Any = None
    stream: Sequence[Any] | None = None
    """The data of each event, and comments, which begin with a colon; None: `whole` is sent to a
    request for a stream, too."""
    status: int = 200


class Turn(NamedTuple):
    """The answer to one request: a reply, one with a fault, a refusal, or what was seen."""

    reply: ScriptedReply
    fault: str = ""
    refusal: Refusal | None = None
    sent: Sent | None = None


def as_text(data: Any) -> str:
    """Data as it is sent: a text as it is, other data as JSON."""
    return data if isinstance(data, str) else json.dumps(data)


def turn_of(fault: str, reply: ScriptedReply | None = None) -> Turn:
    """Make a turn of a reply, by default a sample, with a fault or none."""
    reply = reply or _SAMPLES.get(fault, SAMPLE)
    if fault in ("length", "content_filter"):
        return Turn(reply.replace(finish_reason=fault))
    if (error := reply.error) is None:
        return Turn(reply, fault, REFUSALS.get(fault))
    usual = {"TRANSIENT": "unavailable", "RECOVERABLE": "context_too_long"}
    name = error.kind if error.kind in REFUSALS else usual.get(error.category, "bad_request")
    refusal = REFUSALS[name]._replace(message=error.message, retry_after=error.retry_after)
    return Turn(reply, name, refusal)


def read_script(replies: Sequence[Mapping[str, Any] | str]) -> list[Turn]:
    """Read a script. Its replies may be ``{"fault": name}``, or ``{"sent": fields}`` of `Sent`.

    Raises `ScriptError`.
    """
    entries = [{"text": r} if isinstance(r, str) else dict(r) for r in replies]
    faults = [reply.pop("fault", "") for reply in entries]
    seen: list[Any] = [reply.pop("sent", None) for reply in entries]
    sent = [fields and Sent(**fields) for fields in seen]
    parsed, problems = parse_replies(entries)
    for n, fault in enumerate(faults):
        if fault and fault not in FAULTS:
            problems.append(f"replies.{n}: unknown fault `{fault}`: {nearest(fault, FAULTS)}")
    if problems:
        raise ScriptError("the script cannot be read:\n  " + "\n  ".join(problems))
    rows = zip(faults, parsed, entries, sent, strict=True)
    return [
        turn_of(fault, reply if entry else None)._replace(sent=own)
        for fault, reply, entry, own in rows
    ]


@dataclass(frozen=True)
class Answer:
    """A turn in its wire format, with the number and the body of the request (`asked`)."""

    turn: Turn
    number: int
    asked: Mapping[str, Any]

    def body(self, kind: str, reason: str | None, **content: Any) -> dict[str, Any]:
        count = range(self.asked.get("n") or 1)
        choices = [{"index": n, "finish_reason": reason, **content} for n in count]
        head = {"id": f"chatcmpl-{self.number}", "object": kind, "created": int(time.time())}
        return {**head, "model": self.asked["model"], "choices": choices}

    def usage(self) -> dict[str, Any]:
        prompt, completion = self.turn.reply.prompt_tokens, self.turn.reply.completion_tokens
        options = fields_of(self.asked.get("stream_options"))
        wanted = options.get("include_usage") or not self.asked.get("stream")
        if prompt is None or completion is None or not wanted:
            return {}
        sums = {"completion_tokens": completion, "total_tokens": prompt + completion}
        details: dict[str, dict[str, int]] = {}
        for name, part in PARTS.items():
            section, field = part.sent_as[0]
            if (count := getattr(self.turn.reply, name)) is not None:
                details.setdefault(section, {})[field] = count
        return {"usage": {"prompt_tokens": prompt, **sums, **details}}

    def calls(self) -> list[dict[str, Any]]:
        return [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in self.turn.reply.calls(self.number)
        ]

    def whole(self) -> str:
        """The body of an answer without streaming."""
        if self.turn.fault == "stream_error":
            return json.dumps(REFUSALS["server_error"].body())
        reply, calls = self.turn.reply, self.calls()
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"refusal": reply.refusal} if reply.refusal else {}
        if reply.reasoning:
            named = isinstance(reply.reasoning, str)
            message["reasoning_content" if named else "reasoning_details"] = reply.reasoning
        body = self.body("chat.completion", reply.finish_reason, message=message) | self.usage()
        return json.dumps(body | {"choices": []} if self.turn.fault == "empty_stream" else body)

    def deltas(self) -> Iterator[dict[str, Any]]:
        """The delta of each event of a stream; arguments come in pieces of six characters."""
        yield {"role": "assistant", "content": ""}
        reasoning = self.turn.reply.reasoning
        if isinstance(reasoning, str):
            yield from ({"reasoning_content": piece} for piece in pieces(reasoning))
        else:
            yield from ({"reasoning_details": [block]} for block in reasoning)
        for piece in pieces(self.turn.reply.text):
            yield {"content": piece}
        for piece in pieces(self.turn.reply.refusal):
            yield {"refusal": piece}
        for n, call in enumerate(self.calls()):
            arguments, call["function"]["arguments"] = call["function"]["arguments"], ""
            yield {"tool_calls": [{"index": n, **call}]}
            for part in re.findall(r"(?s).{1,6}", arguments):
                yield {"tool_calls": [{"index": n, "function": {"arguments": part}}]}

    def words(self) -> list[str]:
        """The events of a stream up to its last word, as JSON."""
        event = functools.partial(self.body, "chat.completion.chunk")
        return [json.dumps(event(None, delta=delta)) for delta in self.deltas()]

    def end(self) -> list[str]:
        """The events after the last word."""
        event = functools.partial(self.body, "chat.completion.chunk")
        end = [event(self.turn.reply.finish_reason, delta={})]
        end += [event(None) | {"choices": []} | used] if (used := self.usage()) else []
        return [*map(json.dumps, end), "[DONE]"]

    def after(self) -> Sequence[str]:
        """What ends a stream that is sent as it was seen."""
        return ("[DONE]",)

    def frame(self, data: str) -> str:
        """One event in its wire format."""
        return f"data: {data}\n\n"

    def refusal(self, refusal: Refusal) -> dict[str, Any]:
        """A refusal in this format."""
        return refusal.body()

    def lines(self) -> Iterator[str]:
        """The data of each event of a stream."""
        if (sent := self.turn.sent) is not None:
            yield from map(as_text, sent.stream or ())
            yield from self.after()
            return
        words = self.words()
        match self.turn.fault:
            case "cut_stream" | "torn_stream" | "stalled_stream" | "cut_tool_arguments":
                yield from words[:-1]
            case "malformed_json":
                yield from (*words[:-1], words[-1][:40])
            case "stream_error":
                yield from (*words[:-1], json.dumps(self.refusal(REFUSALS["server_error"])))
            case "empty_stream":
                yield "[DONE]"
            case _:
                yield from (*words, *self.end())
