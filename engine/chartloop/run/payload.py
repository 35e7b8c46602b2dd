"""Payloads: large texts move from events into the journal's blobs, each stored once.

A string of more than `LARGE` characters becomes ``{"$blob": "<hash>"}``. So a model's long answer,
which is in its reply, in the conversation and in a result, is stored once. Lists and mappings are
never moved as a whole: their strings make them large, and two of them are hardly ever equal.

A key ``$blob`` in the data itself is written with one more ``$`` before it, and read back without
it, so that nothing that a model or a tool writes can name a blob.

Belongs here: JSON text to JSON text. Never: files, SQL.
Source: docs/design.md, "The journal".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

from chartloop.core.codec import from_json, to_json
from chartloop.core.facts import EMPTY
from chartloop.run.journal import digest

LARGE = 16 * 1024
"""Characters. A longer string becomes a blob."""

DEEPEST = 256
"""The most levels of nesting that `json` is sure to read, whatever the depth of the stack."""

_BLOB = "$blob"
_SIGN = '$blob"'
"""JSON text without it holds neither a reference nor a key to escape."""


class Packed(NamedTuple):
    """JSON text, and the texts taken out of it, by hash."""

    text: str
    blobs: Mapping[str, str] = EMPTY


def pack(text: str) -> Packed:
    """Take the large strings out of a JSON object, given as text."""
    if len(text) <= LARGE and _SIGN not in text:
        return Packed(text)
    blobs: dict[str, str] = {}
    stack = [data := json.loads(text)]
    while stack:  # not recursive: data may be deep
        node = stack.pop()
        for at, value in _parts(node):
            if isinstance(value, str):
                if len(value) > LARGE:
                    blobs[key := digest(value)] = value
                    node[at] = {_BLOB: key}
            elif _has_parts(value):
                stack.append(value)
    return Packed(to_json(data), blobs) if blobs or _SIGN in text else Packed(text)


def too_deep(text: str) -> bool:
    """Whether JSON text is nested deeper than `DEEPEST` levels."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    try:
        level: list[Any] = [json.loads(text)]
    except RecursionError:
        return True
    for _ in range(DEEPEST):
        level = [part for node in level for _, part in _parts(node) if _has_parts(part)]
        if not level:
            return False
    return True


def is_whole(text: str) -> bool:
    """Whether text from `pack` is JSON as it was given."""
    return _SIGN not in text


def references(text: str) -> set[str]:
    """The hashes of the blobs that text from `pack` refers to."""
    found = set[str]()
    if not is_whole(text):
        unpack(text, lambda key: found.add(key) or "")
    return found


def unpack(text: str, fetch: Callable[[str], str]) -> Any:
    """Read the output of `pack`; `fetch` returns a blob by its hash."""
    if is_whole(text):
        return from_json(text)

    def restore(node: dict[str, Any]) -> Any:
        reference = node.get(_BLOB)
        if reference is not None:
            return fetch(reference)
        return {(key[1:] if _looks_like_ours(key) else key): value for key, value in node.items()}

    return json.loads(text, object_hook=restore)


def _parts(node: Any) -> list[tuple[Any, Any]]:
    if isinstance(node, list):
        return list(enumerate(cast("list[Any]", node)))
    if any(map(_looks_like_ours, node)):
        entries = [("$" + k if _looks_like_ours(k) else k, value) for k, value in node.items()]
        node.clear()
        node.update(entries)
    return list(node.items())


def _has_parts(value: object) -> bool:
    return isinstance(value, (dict, list))


def _looks_like_ours(key: str) -> bool:
    return key[:1] == "$" and key.lstrip("$") == "blob"
