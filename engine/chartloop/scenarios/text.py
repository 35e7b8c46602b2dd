"""The text of a scenario file: short values on one line, long texts as blocks.

Belongs here: YAML, its quotes, comments. Never: the content of a scenario.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from chartloop.language.yaml.scalar import plain

WIDEST = 100
"""Maximum length of a line."""
_BLOCKS = frozenset({"replies", "events", "requests", "expect"})
"""Keys whose entries always get lines of their own."""
_PLAIN = re.compile(r"[A-Za-z0-9_][\w./()?!'+;= -]*[\w./)?!]|[A-Za-z0-9_]", re.ASCII)
_SHARE = re.compile(r"\d+(?:\.\d+)?%", re.ASCII)
_BLOCK = re.compile(
    r"[^\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]*"
)
_INVISIBLE = re.compile(
    r"[\x7f-\xa0\xad\u0600-\u0605\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\uffff]"
)


def scenario_text(keys: Mapping[str, Any], head: Iterable[str] = ()) -> str:
    """Write a scenario from plain data, below the comments of `head`.

    A comment that starts with two spaces continues the one before it.
    """
    lines = [line for comment in head for line in _comment(comment)]
    for name, value in keys.items():
        lines += _entry(f"{_scalar(name)}:", value, 0, block=name in _BLOCKS)
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    clean = "".join(c if c.isprintable() else " " for c in text)
    body = clean.lstrip(" ")
    indent = "# " + clean[: len(clean) - len(body)]
    return textwrap.wrap(body, WIDEST, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _entry(head: str, value: Any, indent: int, *, block: bool = False) -> Iterator[str]:
    """`head` and its value, on one line if it fits, else below it."""
    if isinstance(value, str) and "\n" in value and _is_block(value):
        # the chomping indicator: `-` for no final line end, none for one, `+` for more
        ends = len(value) - len(value.rstrip("\n"))
        yield f"{head} |{'-' if ends == 0 else '' if ends == 1 else '+'}"
        lines = value.removesuffix("\n").split("\n")
        yield from (f"{' ' * (indent + 2)}{line}".rstrip(" ") for line in lines)
        return
    flow = _flow(value)
    fits = not block and len(head) + 1 + len(flow) <= WIDEST
    if fits or not value or not isinstance(value, (Mapping, list)):
        yield f"{head} {flow}"
    elif isinstance(value, Mapping):
        yield head
        for name, part in cast("Mapping[str, Any]", value).items():
            yield from _entry(f"{' ' * (indent + 2)}{_scalar(name)}:", part, indent + 2)
    else:
        yield from _list(head, cast("list[Any]", value), indent, block=block)


def _list(head: str, values: Sequence[Any], indent: int, *, block: bool) -> Iterator[str]:
    yield head
    if not block and not any(isinstance(value, (Mapping, list)) for value in values):
        yield from _wrap_list([_flow(value) for value in values], " " * (indent + 2))
        return
    inner = indent + 2
    for value in values:
        first, *rest = _entry(f"{' ' * inner}-", value, inner)
        if isinstance(value, Mapping) and rest and first.endswith("-"):
            first, *rest = (f"{' ' * inner}- {rest[0].strip()}", *rest[1:])
        yield from (first, *rest)


def _wrap_list(parts: Sequence[str], indent: str) -> Iterator[str]:
    """Wrap a long list of short values in brackets; each repetition starts a line."""
    line = f"{indent}["
    turn, times = Counter(parts).most_common(1)[0]
    for number, part in enumerate(parts):
        sign = "," if number < len(parts) - 1 else "]"
        round_begins = times > 1 and part == turn
        too_long = len(line) + len(part) + 1 > WIDEST
        if (round_begins or too_long) and line.strip() not in ("", "["):
            yield line.rstrip(" ")
            line = f"{indent} "
        line += f"{part}{sign} "
    yield line.rstrip(" ")


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return "{" + ", ".join(f"{_scalar(n)}: {_flow(v)}" for n, v in entries) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, cast("Sequence[Any]", value))) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if (_PLAIN.fullmatch(value) and plain(value) == value) or _SHARE.fullmatch(value):
        return value
    if '"' in value and "'" not in value and value.isprintable() and not _INVISIBLE.search(value):
        return f"'{value}'"
    quoted = json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _is_block(text: str) -> bool:
    """Whether a text can be written as a block: YAML reads it back without a change."""
    lines = text.split("\n")
    blank = any(line != line.rstrip(" \t") for line in lines)
    return not blank and lines[0][:1] not in ("", " ", "\t") and _BLOCK.fullmatch(text) is not None
