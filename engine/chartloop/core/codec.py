"""The codec of stored values: records, positions and totals as JSON text, and read back.

A value is described by its struct alone: names, types and defaults of the fields. A field with its
default is left out, so a default stands for what was stored: it is never changed.

Belongs here: values to text and back. Never: what a value means, or where it is kept.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, TypeVar, cast

import msgspec

from chartloop.core.plain import plain

T = TypeVar("T")


class Custom(Protocol):
    """A type that msgspec does not know. It is written as a text, list or mapping."""

    @classmethod
    def read(cls, data: Any, reasons: Mapping[str, Any]) -> Any:
        """Read it back. `reasons` are those that the machine knows, by name."""
        ...


class Plain:
    """The base of a stored value that is no struct of msgspec."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The value as plain data."""
        raise NotImplementedError


def _hook(reasons: Mapping[str, Any]) -> Callable[[type[Custom], Any], Any]:
    """The hook for decoders, given the stop reasons that a machine knows."""
    return lambda kind, data: kind.read(data, reasons)


def decoder(kind: type[T], reasons: Mapping[str, Any]) -> Callable[[bytes | str], T]:
    """A function that reads JSON text as a value of a type.

    One thread at a time: msgspec (0.22) keeps what it knows of a struct on the class before it is
    complete, and a second thread that meets the struct at that moment crashes the process.
    """
    with _DESCRIBING:
        made = msgspec.json.Decoder(kind, dec_hook=_hook(reasons)).decode
        _described.add(kind)
    return made


_DESCRIBING = threading.RLock()
_described = set[Any]()
"""The types of which msgspec knows all."""


def read(data: Any, kind: type[T], reasons: Mapping[str, Any]) -> T:
    """A value from plain data. Raises `ValueError`, with the place and what is wrong there."""
    if kind not in _described:
        decoder(kind, reasons)
    try:
        return msgspec.convert(data, kind, dec_hook=_hook(reasons))
    except msgspec.ValidationError as error:
        wrong, _, place = str(error).partition(" - at `$.")
        raise ValueError(f"`{place}: {wrong[:1].lower()}{wrong[1:]}" if place else wrong) from None


def written(value: Any) -> Any:
    """A value as plain data of JSON, without the fields that have their default."""
    return plain(msgspec.to_builtins(value, enc_hook=_write))


def _write(value: object) -> Any:
    if isinstance(value, str):  # a stop reason
        return str(value)
    return dict(cast("Mapping[str, object]", value))


def _write_slow(value: object) -> Any:
    if isinstance(value, msgspec.Struct):
        defaults = _defaults(type(value))
        given = msgspec.structs.asdict(value).items()
        return {name: part for name, part in given if part is not defaults.get(name, _REQUIRED)}
    return value.to_dict() if isinstance(value, Plain) else _write(value)


@cache
def _defaults(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {field.name: field.default for field in msgspec.structs.fields(kind)}


_REQUIRED = object()
_slow = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=_write_slow).encode
_fast = msgspec.json.Encoder(enc_hook=_write).encode
_decode = msgspec.json.Decoder().decode
NOT_FAST = (msgspec.MsgspecError, ArithmeticError, RecursionError, TypeError, ValueError)
"""The exceptions of msgspec for what it does not write or read, and `json` does: infinity, lone
surrogates, larger numbers."""


def to_json(data: Any) -> str:
    """Compact JSON, as journals hold it."""
    return _slow(data)


def to_json_fast(
    data: Any, decode: Callable[[bytes], Any] = _decode, check: Callable[[str], object] = str
) -> str:
    """Like `to_json`, but much faster. Numbers may be written differently with the same value.

    The text of msgspec is used only if `decode` reads it back equal to `data`; otherwise `to_json`
    decides, and `check` raises if its text cannot be read back. msgspec accepts more than JSON
    (dates, bytes, sets) and also less.
    """
    try:
        text = _fast(data)
        if decode(text) == data:
            return text.decode()
    except NOT_FAST:
        pass
    text = to_json(data)
    check(text)
    return text


def from_json(text: str) -> Any:
    """The value of JSON text, as `json.loads` reads it."""
    try:
        return _decode(text)
    except NOT_FAST:  # `json` names the fault otherwise
        return json.loads(text)
