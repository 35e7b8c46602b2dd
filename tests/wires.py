"""Providers with other wire formats on loopback: OpenAI's responses, Gemini, Bedrock converse.

Each form is written short, as in `tests/replies`; this module makes the whole body or the stream of
it. The server answers each request with the next reply, whatever is asked.
Source: OpenAI API reference, "Responses"; Gemini API reference, "generateContent"; Amazon Bedrock
API reference, "Converse"; Smithy, "Event stream specification".
"""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from packaging.version import Version

Short = Mapping[str, Any]

NAMES = {
    "responses": "openai/responses/gpt-4.1",
    "gemini": "gemini/gemini-2.5-flash",
    "converse": "bedrock/converse/anthropic.claude-3-5-sonnet-20240620-v1:0",
}
"""A model's name in litellm for each form."""


def _is_sent(form: str) -> bool:
    """Whether litellm sends this form with what is installed."""
    if form == "responses" and find_spec("litellm") and not find_spec("mcp"):
        return Version(version("litellm")) >= Version("1.107")  # older ones import `mcp` for it
    return form != "converse" or find_spec("botocore") is not None


FORMS = tuple(filter(_is_sent, NAMES))


class Answer(NamedTuple):
    """The body of an answer."""

    kind: str
    data: bytes
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


def answer(form: str, short: Short, *, streamed: bool) -> Answer:
    """The answer that a provider sends for a reply written short."""
    whole = _WHOLE[form](short)
    if not streamed:
        return Answer("application/json", json.dumps(whole).encode())
    if form == "converse":
        frames = b"".join(_frame(event, fields) for event, fields in _converse_events(short))
        return Answer("application/vnd.amazon.eventstream", frames)
    events = _responses_events(whole) if form == "responses" else [whole]
    return Answer("text/event-stream", "".join(map(_event, events)).encode())


def good(form: str, text: str, *, streamed: bool) -> Answer:
    """A plain good reply."""
    plain = {
        "responses": {"output": [{"text": text}]},
        "gemini": {"parts": [{"text": text}], "finishReason": "STOP"},
        "converse": {"content": [{"text": text}], "stopReason": "end_turn"},
    }
    return answer(form, plain[form], streamed=streamed)


def _responses(short: Short) -> dict[str, Any]:
    items = [_item(number, item) for number, item in enumerate(short.get("output", ()))]
    usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    head = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    rest: Short = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage}
    empty = {"error": None, "incomplete_details": None}
    return {**head, **rest, **empty, **short, "output": items}


def _item(number: int, item: Short) -> dict[str, Any]:
    if "call" in item:
        named = {"id": f"fc{number}", "call_id": f"c{number}", "status": "completed"}
        return {"type": "function_call", **named, **item["call"]}
    part: Short = {"type": "output_text", "text": item.get("text", ""), "annotations": []}
    if "refusal" in item:
        part = {"type": "refusal", "refusal": item["refusal"]}
    head = {"type": "message", "id": f"m{number}", "status": "completed", "role": "assistant"}
    return {**head, "content": [part]}


def _responses_events(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun: Short = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": {**begun, "error": None}}
    for number, item in enumerate(whole["output"]):
        at = {"output_index": number, "item_id": item["id"]}
        if item["type"] == "function_call":
            empty = {**item, "arguments": "", "status": "in_progress"}
            yield {"type": "response.output_item.added", **at, "item": empty}
            kind = "response.function_call_arguments"
            yield {"type": f"{kind}.delta", **at, "delta": item["arguments"]}
            yield {"type": f"{kind}.done", **at, "arguments": item["arguments"]}
        else:
            part = item["content"][0]
            kind, text = part["type"], part.get("text", part.get("refusal"))
            yield {"type": "response.output_item.added", **at, "item": {**item, "content": []}}
            yield {"type": f"response.{kind}.delta", **at, "content_index": 0, "delta": text}
            if kind == "refusal":
                yield {"type": "response.refusal.done", **at, "refusal": text}
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


def _gemini(short: Short) -> dict[str, Any]:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}
    if "parts" not in short:
        return dict(short)
    candidate = {"content": {"role": "model", "parts": short["parts"]}, "index": 0}
    candidate["finishReason"] = short["finishReason"]
    return {"candidates": [candidate], "usageMetadata": short.get("usageMetadata", usage)}


_USED = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}


def _converse(short: Short) -> dict[str, Any]:
    message = {"role": "assistant", "content": short["content"]}
    rest = {"usage": short.get("usage", _USED), "metrics": {"latencyMs": 1}}
    return {"output": {"message": message}, "stopReason": short["stopReason"], **rest}


def _converse_events(short: Short) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "messageStart", {"role": "assistant"}
    for number, block in enumerate(short["content"]):
        at = {"contentBlockIndex": number}
        if call := block.get("toolUse"):
            named = {name: call[name] for name in ("toolUseId", "name")}
            yield "contentBlockStart", {**at, "start": {"toolUse": named}}
            delta: dict[str, Any] = {"toolUse": {"input": json.dumps(call["input"])}}
        else:
            delta = {"text": block["text"]}
        yield "contentBlockDelta", {**at, "delta": delta}
        yield "contentBlockStop", at
    yield "messageStop", {"stopReason": short["stopReason"]}
    yield "metadata", {"usage": short.get("usage", _USED), "metrics": {"latencyMs": 1}}


_WHOLE = {"responses": _responses, "gemini": _gemini, "converse": _converse}


def _event(fields: Mapping[str, Any]) -> str:
    named = f"event: {fields['type']}\n" if "type" in fields else ""
    return f"{named}data: {json.dumps(fields)}\n\n"


def _frame(event: str, fields: Mapping[str, Any]) -> bytes:
    """One event of Bedrock's binary stream, with its two checksums."""
    names = {":event-type": event, ":content-type": "application/json", ":message-type": "event"}
    heads = b"".join(
        bytes([len(name)])
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in names.items()
    )
    body = json.dumps(fields, separators=(",", ":")).encode()
    prelude = struct.pack(">II", 16 + len(heads) + len(body), len(heads))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + heads + body
    return whole + struct.pack(">I", zlib.crc32(whole))


class WireServer:
    """A server on loopback that answers each request with the next of `answers`, then the last."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []
        """The requests, in order of arrival."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None: ...

            def do_POST(self) -> None:
                owner.bodies.append(
                    json.loads(self.rfile.read(int(self.headers["content-length"])))
                )
                number = min(len(owner.bodies), len(owner.answers)) - 1
                kind, data, status, headers = owner.answers[number]
                self.send_response(status)
                usual = {"content-type": kind, "content-length": str(len(data))}
                for name, value in (usual | dict(headers)).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
