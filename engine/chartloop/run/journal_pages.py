"""How a journal is watched: pages of its runs, the events of all of them, and where to go on.

    page = await journal.page(RunFilter(waiting=True))              the inbox
    page = await journal.page(RunFilter(waiting=True), page.next)   its second page

    token = await journal.changed()                                 before the first reading
    tail = await journal.tail()
    if (now := await journal.changed(token)) is not None:           cheap while nothing happens
        token, tail = now, await journal.tail(tail.cursor)

Cursors are texts for the journal that gave them, safe in an URL. One of runs holds the place of a
row among those of any time and id, so that it stays right while runs are added and removed. One
of events holds the journal's id and the number of an event in the order of commits. Numbers rise
and are never given twice: a reader that continues from a cursor misses nothing and gets nothing
twice.

Belongs here: filters, pages and cursors, for every journal. Never: tables.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple, TypeAlias, cast

from chartloop.core.errors import CursorError, CursorGoneError, RunError
from chartloop.core.values import Value
from chartloop.run.journal_records import Event, RunRow
from chartloop.run.lease import CHILD_MARK

PAGE = 50
"""Runs of a page, unless more are asked for."""
EVENTS = 256
"""Events of a page, unless more are asked for."""


class RunFilter(Value, frozen=True, gc=False):
    """Which runs are meant: those that every field fits. None fits all."""

    machine: str | None = None
    status: str | None = None
    reason: str | None = None
    """Why it stopped; empty: it has not."""
    agent: str | None = None
    session: str | None = None
    parent: str | None = None
    """The run that it follows, was forked from or is a child of."""
    prefix: str | None = None
    """The prefix of its id."""
    waiting: bool | None = None
    """Whether it waits for an answer: what it asks is its row's `question`."""
    created_from: float | None = None
    """Begun at this moment or later; times are in seconds since the epoch."""
    created_to: float | None = None
    """Begun before this moment."""
    updated_from: float | None = None
    """Its newest record is of this moment or later."""
    updated_to: float | None = None
    """Its newest record is of before this moment."""
    children: bool = False
    """Children too. What a child asks is its parent's question as well."""

    def fits(self, row: RunRow) -> bool:
        """Whether a run is one of those."""
        return (
            all(wanted in (None, getattr(row, name)) for name, wanted in self.columns())
            and (self.prefix is None or row.run_id.startswith(self.prefix))
            and (self.waiting is None or self.waiting is (row.question is not None))
            and _within(row.created, self.created_from, self.created_to)
            and _within(row.updated, self.updated_from, self.updated_to)
            and (self.children or CHILD_MARK not in row.run_id)
        )

    def columns(self) -> list[tuple[str, str]]:
        """The columns that have to hold a text, with that text."""
        named = ((name, getattr(self, name)) for name in _TEXTS)
        return [(name, wanted) for name, wanted in named if wanted is not None]


_TEXTS = ("machine", "status", "reason", "agent", "session", "parent")


def _within(at: float, first: float | None, end: float | None) -> bool:
    return (first is None or at >= first) and (end is None or at < end)


ALL = RunFilter()
"""Every run except children."""


class RunPage(NamedTuple):
    """Runs, the newest first; of those that began at the same moment the last by id."""

    rows: list[RunRow]
    next: str = ""
    """The cursor of the next page; empty where this is the last."""


class TailEvent(NamedTuple):
    """One event of one run, as it was committed."""

    cursor: str
    """Where a reader that has seen this one continues."""
    run_id: str
    event: Event | None
    """None where it cannot be read: `problem` says why, and the events after it can."""
    problem: str = ""


class Tail(NamedTuple):
    """Events of all runs, in the order of their commits. Those of removed runs are not there."""

    events: list[TailEvent]
    cursor: str
    """Where to continue: behind the last of these, or where this page started if it is empty."""
    newest: str
    """The cursor behind the newest event of the journal."""


def check_page(limit: int, least: int = 1) -> None:
    """`RunError` for a page of no size."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < least:  # pyright: ignore[reportUnnecessaryIsInstance]  callers pass what they were sent
        raise RunError(
            f"a page cannot have {limit!a} entries",
            hint=f"`limit` is a whole number from {least} on",
        )


# a place among runs ---------------------------------------------------------------------------

Mark: TypeAlias = float | int | str | bytes
"""A value by which runs are in order. A file that was edited may hold a text for a number."""


def run_cursor(created: Mark, run_id: Mark) -> str:
    """The cursor behind the run of this id, begun at this moment."""
    text = json.dumps([_write(created), _write(run_id)], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_run_cursor(cursor: str) -> tuple[Mark, Mark]:
    """The moment and the id in a cursor. `CursorError` for any other text."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        found: Any = json.loads(urlsafe_b64decode(padded))
        created, run_id = map(_read, cast("list[Any]", found))
        if run_cursor(created, run_id) == cursor:
            return created, run_id
    except (binascii.Error, ValueError, TypeError, RecursionError):
        pass
    raise CursorError(
        f"{_quote(cursor)} is not a cursor of a list of runs",
        hint="give the `next` of the page before as it came, or nothing for the first page",
    )


def _write(mark: Mark) -> Any:
    return {"hex": mark.hex()} if isinstance(mark, bytes) else mark


def _read(written: Any) -> Mark:
    if isinstance(written, dict):
        return bytes.fromhex(cast("dict[str, str]", written)["hex"])
    if isinstance(written, (float, int, str)) and not isinstance(written, bool):
        return written
    raise TypeError


def _quote(cursor: str) -> str:
    return ascii(cursor if len(cursor) <= 40 else f"{cursor[:40]}...")


# a place among events -------------------------------------------------------------------------


def event_number(cursor: str) -> int:
    """The number in a cursor that a journal gave; 0 in an empty one. Numbers rise."""
    return int(cursor.rpartition("-")[2] or 0)


class EventCursors(NamedTuple):
    """The cursors of one journal's events, from before the first to behind the newest."""

    journal: str
    """The journal's id: another file, or another process's memory, has another."""
    oldest: int
    """The number before the first event that there is."""
    newest: int
    """The number of the newest event that there ever was."""

    def write(self, number: int) -> str:
        """The cursor behind an event."""
        return f"{self.journal}-{number}"

    def read(self, cursor: str) -> int:
        """The number in a cursor; an empty one is before the first event.

        `CursorError` for any other text, `CursorGoneError` for a cursor of another journal or
        beyond the newest event.
        """
        if not cursor:
            return 0
        journal, mark, number = cursor.rpartition("-")
        if not (mark and journal.isalnum() and number.isdecimal() and number.isascii()):
            raise CursorError(
                f"{_quote(cursor)} is not a cursor of a journal's events",
                hint="give the `cursor` of an event as it came, or nothing to begin at the first",
            )
        if journal != self.journal:
            raise self._gone_error(f"the cursor {_quote(cursor)} is of another journal")
        if len(number) > 18 or int(number) > self.newest:
            raise self._gone_error(
                f"the cursor {_quote(cursor)} is beyond the newest event of this journal"
            )
        return int(number)

    def _gone_error(self, what: str) -> CursorGoneError:
        oldest, newest = self.write(self.oldest), self.write(self.newest)
        return CursorGoneError(
            what, hint=f"begin at the oldest, {oldest}, or at the newest, {newest}",
            oldest=oldest, newest=newest,
        )  # fmt: skip
