"""The journal of a run as a caller names it: an open one, the path of its file, or a URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from chartloop.core.durability import Durability, known_durability
from chartloop.core.errors import SetupError, UnknownRunError
from chartloop.run.journal import Journal

JournalOrPath: TypeAlias = Journal | str | Path
"""An open journal, or a SQLite file by its path or as ``sqlite:///runs.db``.

A file is opened once a process and shared by all who name it. ``sqlite:////var/runs.db``, with four
slashes, is an absolute path.
"""

_SQLITE = "sqlite:///"
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def journal_of(
    given: JournalOrPath, *, make: bool = True, durability: Durability | None = None
) -> Journal:
    """The journal that is meant. Of a path the file, made where it is missing, if `make`.

    Raises:
        SetupError: this is neither a journal nor a path, or it is open with another durability.
        UnknownRunError: there is no such file, and none is to be made.
        JournalError: the file is not a journal, or cannot be opened.
    """
    wanted = None if durability is None else known_durability(durability)
    if isinstance(given, (str, Path)):
        return _with(wanted, _at(given, make, wanted or "process"))
    if not hasattr(given, "suspends"):  # what an untyped caller may give
        raise SetupError(
            f"`journal` is a {type(given).__name__}, not a journal", hint=f"give {_PATH}"
        )
    return _with(wanted, given)


def _with(durability: Durability | None, journal: Journal) -> Journal:
    """The journal, where it has the durability that is asked for."""
    known = getattr(journal, "durability", None)
    if durability in (None, known):
        return journal
    if known is None:
        raise SetupError(
            f"`durability` is of a journal's file, and this one is `{journal.name}`",
            hint='name a file: `journal="runs.db"`',
        )
    raise SetupError(
        f"`{journal.name}` is open in this process with the durability `{known}`, not "
        f"`{durability}`",
        hint="say the same wherever the file is named, or open one of your own: "
        f'`SqliteJournal(path, durability="{durability}")`',
    )


_PATH = (
    'the path of a SQLite file, `journal="runs.db"` or `"sqlite:///runs.db"`, '
    "or an open `SqliteJournal`"
)


def without_scheme(text: str) -> str:
    """The path in a ``sqlite:///`` URL; any other text as it is."""
    return unquote(text[len(_SQLITE) :]) if text.lower().startswith(_SQLITE) else text


def _at(given: str | Path, make: bool, durability: Durability) -> Journal:
    text = without_scheme(str(given))
    if text == ":memory:":
        raise SetupError(
            "`:memory:` is not the path of a journal",
            hint="leave `journal` out, or share a `MemoryJournal()`: both keep runs in memory",
        )
    if not text.strip() or _URL.match(text):
        raise SetupError(f"`{text}` is not the path of a journal", hint=f"give {_PATH}")
    path = Path(text).expanduser()
    if path.suffix == ".jsonl":
        raise SetupError(
            f"`{path}` is named like an export, which holds records and cannot be added to",
            hint=f"give {_PATH}; `stats`, `coverage` and `what_if` read exports",
        )
    if not make and not path.exists():
        raise UnknownRunError(
            f"there is no journal at `{path}`", hint="name the file that the run was started with"
        )
    from chartloop.adapters.journal.sqlite import shared_journal  # noqa: PLC0415  when it is needed

    return shared_journal(path, durability)
