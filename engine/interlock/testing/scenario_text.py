"""A scenario as the text of its file: short things on one line, long texts as blocks.

Belongs here: YAML, its quotes, comments. Never: what a scenario says.

Imported by: testing.recording
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from interlock.language.yaml.scalar import plain

WIDEST = 96
"""Characters of a line that holds a list or mapping whole."""
_PLAIN = re.compile(r"[A-Za-z0-9_][\w./()?!'+;= -]*[\w./)?!]|[A-Za-z0-9_]", re.ASCII)
_BLOCK = re.compile(
    r"[^\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]*"
)
_INVISIBLE = re.compile(
    r"[\x7f-\xa0\xad\u0600-\u0605\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\uffff]"
)


def scenario_text(keys: Mapping[str, Any], head: Iterable[str] = ()) -> str:
    """The file of a scenario that is given as plain data, `head` as comments above it."""
    lines = [f"# {_INVISIBLE.sub(' ', ' '.join(line.split()))}" for line in head]
    return "\n".join([*lines, *_mapping(keys, 0)]) + "\n"


def _mapping(data: Mapping[str, Any], indent: int) -> Iterator[str]:
    for name, value in data.items():
        yield from _entry(f"{' ' * indent}{_scalar(name)}:", value, indent)


def _list(data: Sequence[Any], indent: int) -> Iterator[str]:
    for value in data:
        first, *rest = _entry(f"{' ' * indent}-", value, indent)
        if isinstance(value, Mapping) and rest and first.endswith("-"):
            first, *rest = (f"{' ' * indent}- {rest[0].strip()}", *rest[1:])
        yield from (first, *rest)


def _entry(head: str, value: Any, indent: int) -> Iterator[str]:
    """`head` and its value: on one line where that fits, else below it."""
    if isinstance(value, str) and "\n" in value and _is_block(value):
        yield f"{head} |{_chomp(value)}"
        yield from (f"{' ' * (indent + 2)}{line}".rstrip(" ") for line in _lines(value))
        return
    flow = _flow(value)
    if not isinstance(value, (Mapping, list)) or not value or _fits(head, flow):
        yield f"{head} {flow}"
        return
    yield head
    if isinstance(value, Mapping):
        yield from _mapping(cast("Mapping[str, Any]", value), indent + 2)
    else:
        yield from _list(cast("list[Any]", value), indent + 2)


def _fits(head: str, flow: str) -> bool:
    return len(head) + 1 + len(flow) <= WIDEST


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return "{" + ", ".join(f"{_scalar(n)}: {_flow(v)}" for n, v in entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, cast("list[Any]", value))) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and plain(value) == value:
        return value
    quoted = json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _is_block(text: str) -> bool:
    """Whether a text can stand as a block: YAML would read back every character of it."""
    lines = text.split("\n")
    blank = any(line != line.rstrip(" \t") for line in lines)
    return not blank and lines[0][:1] not in ("", " ", "\t") and _BLOCK.fullmatch(text) is not None


def _chomp(text: str) -> str:
    """How the end of a block is kept: `-` no line end, nothing for one, `+` for more."""
    ends = len(text) - len(text.rstrip("\n"))
    return "-" if ends == 0 else "" if ends == 1 else "+"


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")
