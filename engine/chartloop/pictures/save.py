"""Atomic files, with the format chosen by the suffix.

Belongs here: suffixes, and replacing a file. Never: the content.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from chartloop.core.errors import RunError


def save(path: str | Path, formats: Mapping[str, Callable[[], str | bytes]]) -> Path:
    """Write the format of a path's suffix; returns the path.

    The write is atomic. RunError: no such format, or the file cannot be written.
    """
    path = Path(path)
    write = formats.get(path.suffix.lower())
    if write is None:
        raise RunError(
            f"`{path.name}` does not say which format you want",
            hint=f"end it with one of {' '.join(formats)}",
        )
    content = write()
    write_whole(path, content.encode() if isinstance(content, str) else content)
    return path


def write_whole(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file atomically: readers see the old content or the new, given whole or in parts.

    A device or a pipe, such as `/dev/stdout`, is written to directly, since a file must not
    replace it. RunError: it cannot be written.
    """
    parts = (content,) if isinstance(content, bytes) else content
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as file:
                file.writelines(parts)
            return
        target = path.resolve()
        unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with unfinished.open("xb") as file:
                file.writelines(parts)
            unfinished.replace(target)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RunError(f"`{path}` cannot be written: {error.strerror or error}") from None
