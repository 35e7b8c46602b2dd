"""The catalog of machine files: finds shipped machines by name, and others by path.

The shipped machines are in the package in an installation, and two folders up in a clone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from chartloop.core.errors import SetupError

_HERE = Path(__file__).resolve().parent
_SUFFIXES = (".yaml", ".yml")
_MANY = 500
"""The most names of a folder that are compared with a misspelt one."""
_LARGEST = 4_000_000
"""The most bytes of a file that are read; the language refuses much smaller files."""


def folder() -> Path:
    """The folder of the shipped machines."""
    # in a clone the sources win: an editable install may hold a stale copy
    for place in (_HERE.parents[1] / "machines", _HERE / "machines"):
        if (place / "lifecycle.yaml").is_file():
            return place
    raise SetupError("the shipped machines are not there", hint="install chartloop again")


def shipped_machines() -> dict[str, Path]:
    """The shipped machines by name."""
    return {p.stem: p for p in sorted(folder().glob("*.yaml"))}


def find(source: str | Path) -> Path:
    """The path of a machine file, by path or by shipped name."""
    path = Path(source)
    if path.is_file():
        return path
    name = str(source)
    known = shipped_machines()
    if name in known:
        return known[name]
    if path.is_dir():
        raise SetupError(f"`{source}` is a folder", hint="name a machine file in it")
    hint = nearest_file(path, known) or f"give a path, or one of: {', '.join(known)}"
    among = " and among the shipped machines" if path.parent == Path() else ""
    message = f"there is no machine file `{source}`: looked in {folder_of(path)}{among}"
    raise SetupError(message, hint=hint)


def folder_of(path: Path) -> str:
    """The folder of a path in words, for an error message."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"`{path.parent}`, which is not a folder"
    return "this folder" if folder == Path.cwd() else f"`{display_path(folder)}`"


def nearest_file(path: Path, shipped: Iterable[str] = ()) -> str:
    """A hint with the closest machine file, beside the path or shipped; empty if none is close."""
    names = {name: str(path.with_name(name)) for name in islice(_machine_files(path), _MANY)}
    stems = {Path(name).stem: full for name, full in names.items()}
    stems |= {name: name for name in shipped if path.parent == Path()}
    known = stems if path.suffix == "" else {**stems, **names}
    word = path.name if path.suffix in ("", *_SUFFIXES) else path.stem
    close = get_close_matches(word, known, n=1) or get_close_matches(path.stem, stems, n=1)
    return f"did you mean `{known[close[0]]}`?" if close else ""


def _machine_files(path: Path) -> Iterator[str]:
    """The names of the machine files beside a path."""
    try:
        with os.scandir(path.absolute().parent) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIXES) and entry.name.isprintable():
                    yield entry.name
    except OSError:
        return


def display_path(path: Path) -> str:
    """A path for messages: relative if it is inside the working directory."""
    inside = path.absolute().is_relative_to(Path.cwd())
    return os.path.relpath(path) if inside else str(path)


def read_text(path: Path) -> str:
    """Read the text of a machine file. Invalid UTF-8 is kept as surrogates, for a finding."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror or error}") from None
    return data.decode("utf-8", errors="surrogateescape")
