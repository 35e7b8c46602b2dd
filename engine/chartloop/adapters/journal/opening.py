"""One door to every journal: what a user wrote, a path or a URL, or an open journal.

Belongs here: which kind it is, and the refusal of anything else. Never: how one is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from chartloop.core.durability import Durability, known_durability
from chartloop.core.errors import (
    ChartloopError,
    JournalCorrupt,
    JournalError,
    JournalLocked,
    JournalUnavailable,
    PluginError,
    SetupError,
    UnknownRunError,
)
from chartloop.extras import install
from chartloop.run.journal import Journal
from chartloop.run.redact import Redactor

if TYPE_CHECKING:
    from chartloop.core.specs import PluginSpec

JournalOrPath: TypeAlias = Journal | str | Path
"""An open journal, a SQLite file by its path or as ``sqlite:///runs.db``, or a database of a server
by its URL, ``postgresql://team@db.example.org/runs``.

A file or database is opened once per process and shared by all its users.
``sqlite:////var/runs.db``, with four slashes, is an absolute path.
"""

_SQLITE = "sqlite:///"
_POSTGRES = "postgresql://", "postgres://"
_URL = re.compile(r"[a-z][a-z0-9+.-]+:/+", re.IGNORECASE)
"""With one slash too, as a `Path` writes it."""


def journal_of(
    given: JournalOrPath, *, make: bool = True, durability: Durability | None = None,
    plugins: Iterable[PluginSpec] = (), wait: float | None = None,
) -> Journal:  # fmt: skip
    """The open journal, or the one at a path or URL. `make` creates the file if it is missing.

    A plugin opens the URLs of its scheme. With `wait`, the seconds that another process may lock
    it or its server may be away, it is not shared: the caller closes it.

    Raises:
        SetupError: this is neither a journal nor a path, or it is open with another durability.
        UnknownRunError: the file is missing, and `make` is false.
        JournalUnavailable: it is not a journal, or cannot be opened; no message shows a password.
        JournalTooOld: its tables are of an older version.
        JournalTooNew: or of a newer one.
    """
    wanted = None if durability is None else known_durability(durability)
    if isinstance(given, str) and (opened := _by_plugin(given, make, plugins)) is not None:
        return _with(wanted, opened)
    if isinstance(given, (str, Path)):
        with at_start():
            if is_server(given):  # flushes what it commits: as durable as asked
                return _on_server(str(given), make, wait)
            opened = _at(given, make, wanted or "process", wait)
        return _with(wanted, opened)
    if not hasattr(given, "suspends"):  # what an untyped caller may give
        raise SetupError(
            f"`journal` is a {type(given).__name__}, not a journal", hint=f"give {_PATH}"
        )
    return _with(wanted, given)


def _by_plugin(url: str, make: bool, plugins: Iterable[PluginSpec]) -> Journal | None:
    """The journal of a URL with a plugin's scheme; None for any other text."""
    scheme, sign, _ = url.partition("://")
    for plugin in plugins if sign else ():
        if plugin.name == scheme and plugin.opens is not None:
            try:
                opened = plugin.opens(url, make=make)
            except ChartloopError:
                raise
            except (Exception, SystemExit) as error:
                from chartloop.run.exceptions import describe  # noqa: PLC0415  slow, and rare

                why = Redactor().text(describe(error))
                text = f"plugin `{scheme}` cannot open its journal: {why}"
                raise PluginError(text, hint="see what the plugin says of its URLs") from error
            if not hasattr(opened, "suspends"):
                text = f"plugin `{scheme}` gave a {type(opened).__name__}, not a journal"
                raise PluginError(text, hint="it must honour `chartloop.run.journal.Journal`")
            return opened
    return None


def is_server(given: object) -> bool:
    """Whether this is the URL of a PostgreSQL database."""
    return isinstance(given, str) and given.lower().startswith(_POSTGRES)


def migrate_tables(given: str) -> tuple[str, int, int]:
    """Make or update the tables of a journal; returns its name, their version before and after.

    Before is 0 for a new one. Raises what `journal_of` does.
    """
    with at_start():
        if is_server(given):
            return _postgres().migrate_database(given)
        from chartloop.adapters.journal.sqlite_migrations import migrate_file  # noqa: PLC0415

        path = file_of(given)
        return str(path), *migrate_file(path)


@contextmanager
def at_start() -> Generator[None]:
    """Whatever is wrong with a journal when a program starts: it is unavailable."""
    try:
        yield
    except JournalError as error:
        if type(error) not in (JournalError, JournalLocked, JournalCorrupt):
            raise
        raise JournalUnavailable(error.message, hint=error.hint) from error


def _on_server(url: str, make: bool, wait: float | None) -> Journal:
    postgres = _postgres()
    if wait is not None:
        return postgres.PostgresJournal(url, make=make, wait=wait)
    return postgres.shared_journal(url, make=make)


def _postgres() -> Any:
    try:
        from chartloop.adapters.journal import postgres  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise SetupError(
            "a journal in PostgreSQL needs psycopg, which is not installed",
            hint=install("postgres"),
        ) from None
    return postgres


def _with(durability: Durability | None, journal: Journal) -> Journal:
    """The journal; `SetupError` if it has another durability than the one requested."""
    known = journal.durability
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
        hint="use the same value wherever the file is named, or open your own: "
        f'`SqliteJournal(path, durability="{durability}")`',
    )


_PATH = (
    'the path of a SQLite file, `journal="runs.db"` or `"sqlite:///runs.db"`, '
    "the URL of a PostgreSQL database, or an open `SqliteJournal`"
)


def file_of(given: str | Path) -> Path:
    """The path that a user wrote, or that of a ``sqlite:///`` URL. `SetupError` for other URLs."""
    text = str(given)
    if text.lower().startswith(_SQLITE):
        text = unquote(text[len(_SQLITE) :])
    if text == ":memory:":
        raise SetupError(
            "`:memory:` is not the path of a journal",
            hint="leave `journal` out, or share a `MemoryJournal()`: both keep runs in memory",
        )
    if url := _URL.match(text):  # what follows may hold a password
        raise SetupError(
            f"`{url[0]}...` is not the path of a journal, and nothing here opens such URLs",
            hint=f"give {_PATH}; a plugin may open other URLs: `--plugin NAME`",
        )
    if not text.strip():
        raise SetupError(f"`{text}` is not the path of a journal", hint=f"give {_PATH}")
    return Path(text).expanduser()


def _at(given: str | Path, make: bool, durability: Durability, wait: float | None) -> Journal:
    path = file_of(given)
    if path.suffix == ".jsonl":
        raise SetupError(
            f"`{path}` is named like an export, which holds records and cannot be added to",
            hint=f"give {_PATH}; `stats`, `coverage` and `what_if` read exports",
        )
    if not make and not path.exists():
        raise UnknownRunError(
            f"there is no journal at `{path}`", hint="name the file that the run was started with"
        )
    # in-memory runs load no SQLite
    from chartloop.adapters.journal.sqlite import SqliteJournal, shared_journal  # noqa: PLC0415

    if wait is not None:
        return SqliteJournal(path, durability=durability, wait=wait)
    return shared_journal(path, durability)
