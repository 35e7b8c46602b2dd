"""Finds machine files: the shipped ones by name, others by path.

The shipped machines lie beside the package in an installation, and two folders up in a clone.
"""

from __future__ import annotations

import os
from pathlib import Path

from chartloop.core.errors import SetupError, nearest

_HERE = Path(__file__).resolve().parent
_LARGEST = 4_000_000
"""Bytes of a file that are read before the language says that it is too large."""


def folder() -> Path:
    """The folder of the shipped machines."""
    # in a clone the sources win: an editable install may hold a stale copy
    for place in (_HERE.parents[1] / "machines", _HERE / "machines"):
        if (place / "lifecycle.yaml").is_file():
            return place
    raise SetupError("the shipped machines are not there", hint="install chartloop again")


def shipped() -> dict[str, Path]:
    """The shipped machines by name."""
    return {p.stem: p for p in sorted(folder().glob("*.yaml"))}


def find(source: str | Path) -> Path:
    """The file that a path or a shipped name means."""
    path = Path(source)
    if path.is_file():
        return path
    name = str(source)
    known = shipped()
    if name in known:
        return known[name]
    if path.is_dir():
        raise SetupError(f"`{source}` is a folder", hint="name a machine file in it")
    hint = nearest(name, known, otherwise=f"give a path, or one of: {', '.join(known)}")
    raise SetupError(f"there is no machine file `{source}`", hint=hint)


def shown(path: Path) -> str:
    """A path as messages write it: from the working directory, where it is inside that."""
    inside = path.absolute().is_relative_to(Path.cwd())
    return os.path.relpath(path) if inside else str(path)


def read_text(path: Path) -> str:
    """The text of a machine file. Bytes that are no UTF-8 are kept for the reader to name."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror or error}") from None
    return data.decode("utf-8", errors="surrogateescape")
