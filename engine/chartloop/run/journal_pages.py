"""Watching a journal: pages of its runs, the events of all runs, and their cursors.

    page = await journal.page(RunFilter(waiting=True))              the inbox
    page = await journal.page(RunFilter(waiting=True), page.next)   its second page

    token = await journal.changed()                                 before the first reading
    tail = await journal.tail()
    if (now := await journal.changed(token)) is not None:           cheap while nothing happens
        token, tail = now, await journal.tail(tail.cursor)

A cursor is a URL-safe text, valid for the journal that issued it. A cursor of runs holds the sort
key of a row, so that it stays valid while runs are added and removed. A cursor of events holds the
journal's id and the number of an event in commit order. Numbers rise and are never reused: a reader
that continues from a cursor misses nothing and gets nothing twice.

Belongs here: filters, pages and cursors, for every journal. Never: tables.
"""

from __future__ import annotations

import binascii
import heapq
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate, takewhile
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar, cast, get_args

from chartloop.core.errors import CursorError, CursorGoneError, RunError
from chartloop.core.strict_json import WHOLE
from chartloop.core.values import Value
from chartloop.run.journal_records import Event, RunRow
from chartloop.run.lease import CHILD_MARK

T = TypeVar("T")
PAGE = 50
"""The default number of runs in a page."""
EVENTS = 256
"""The default number of events in a page."""


class RunFilter(Value, frozen=True, gc=False):
    """A filter of runs: all fields must match. None matches everything."""

    machine: str | None = None
    status: str | None = None
    reason: str | None = None
    """Why it stopped; empty if it has not."""
    agent: str | None = None
    session: str | None = None
    tenant: str | None = None
    """Whose run it is; empty for those without a tenant."""
    parent: str | None = None
    """The id of its parent, or of the run that it follows or was forked from."""
    prefix: str | None = None
    """The prefix of its id."""
    waiting: bool | None = None
    """Whether it waits for an answer to its row's `question`."""
    created_from: float | None = None
    """Started at this time or later. Times are in seconds since the epoch."""
    created_to: float | None = None
    """Started before this time."""
    updated_from: float | None = None
    """Its newest record is of this time or later."""
    updated_to: float | None = None
    """Its newest record is from before this time."""
    ending: str | None = None
    """The name of the phase in which it ended; empty if it has not."""
    followed: bool | None = None
    """Whether another run follows it: another attempt, or the next message."""
    parked: bool | None = None
    """Whether no worker takes it up any more."""
    search: str | None = None
    """A text in its task or its id, whatever the case of ASCII letters."""
    children: bool = False
    """Include children. A child's question is its parent's question as well."""

    def fits(self, row: RunRow) -> bool:
        """Whether a run matches."""
        return (
            all(wanted in (None, getattr(row, name)) for name, wanted in self.columns())
            and (self.prefix is None or row.run_id.startswith(self.prefix))
            and (
                not self.search
                or (found := self.search.lower()) in row.task.lower()
                or found in row.run_id.lower()
            )
            and (self.followed is None or self.followed is bool(row.successor))
            and (self.parked is None or self.parked is (row.parked is not None))
            and (self.waiting is None or self.waiting is (row.question is not None))
            and _within(row.created, self.created_from, self.created_to)
            and _within(row.updated, self.updated_from, self.updated_to)
            and (self.children or CHILD_MARK not in row.run_id)
        )

    def columns(self) -> list[tuple[str, str]]:
        """The columns that must equal a text, with that text."""
        named = ((name, getattr(self, name)) for name in _TEXTS)
        return [(name, wanted) for name, wanted in named if wanted is not None]


class Wanted(TypedDict, total=False):
    """What `Journal.rows` compares. Child runs are left out if `children` is false."""

    machine: str | None
    status: str | None
    agent: str | None
    session: str | None
    tenant: str | None
    parent: str | None
    prefix: str | None
    children: bool


_TEXTS = ("machine", "status", "reason", "agent", "session", "tenant", "parent", "ending")


def _within(at: float, first: float | None, end: float | None) -> bool:
    return (first is None or at >= first) and (end is None or at < end)


ALL = RunFilter()
"""Every run except children."""


Sort = Literal["started", "duration", "cost", "steps", "tokens"]
SORTS: tuple[Sort, ...] = get_args(Sort)


class RunOrder(NamedTuple):
    """An order of runs; those that are equal by their ids."""

    by: Sort = "started"
    ascending: bool = False

    def place(self, row: RunRow) -> tuple[float, str]:
        """The sort key of a run. What is not known comes last of all that is sorted downwards."""
        keys: Mapping[Sort, float | None] = {
            "started": row.created, "duration": row.updated - row.created, "steps": row.steps,
            "cost": row.cost, "tokens": row.tokens,
        }  # fmt: skip
        key = keys[self.by]
        return (-1 if key is None else key), row.run_id


NEWEST_FIRST = RunOrder()


class RunCount(NamedTuple):
    """How many runs of a span of time stand alike."""

    span: int
    """The number of the span, from 0."""
    phase: str
    """The name of their phase, as far as their rows say it."""
    runs: int


def count_runs(rows: Iterable[RunRow], filter: RunFilter, width: float) -> list[RunCount]:
    """The rows that match, counted by the span in which they began, and by their phase."""
    start = filter.created_from or 0.0
    matches = (row for row in rows if filter.fits(row))
    counts = Counter((int((row.created - start) // width), row.phase().name) for row in matches)
    return [RunCount(*key, runs) for key, runs in sorted(counts.items())]


class RunPage(NamedTuple):
    """Runs in an order."""

    rows: list[RunRow]
    next: str = ""
    """The cursor of the next page; empty on the last."""


class TailEvent(NamedTuple):
    """One event of one run, as it was committed."""

    cursor: str
    """The cursor after this event."""
    run_id: str
    event: Event | None
    """None if it is unreadable: `problem` says why. The events after it are not affected."""
    problem: str = ""


class Tail(NamedTuple):
    """Events of all runs in commit order, without those of removed runs."""

    events: list[TailEvent]
    cursor: str
    """The cursor after the last of these; that of the request if there are none."""
    newest: str
    """The cursor after the newest event of the journal."""


def page_of(
    rows: Iterable[RunRow], filter: RunFilter, cursor: str, limit: int, order: RunOrder
) -> RunPage:
    """A page of rows in memory."""
    check_page(limit)
    behind: Any = read_run_cursor(cursor) if cursor else None
    place, least = order.place, order.ascending
    matches = (
        row
        for row in rows
        if filter.fits(row)
        and (not behind or (place(row) > behind if least else place(row) < behind))
    )
    first = (heapq.nsmallest if least else heapq.nlargest)(limit + 1, matches, place)
    more = len(first) > limit
    return RunPage(first[:limit], run_cursor(*place(first[limit - 1])) if more else "")


def part_of(items: list[T], start: int, limit: int | None, size: int | None) -> list[T]:
    """A page of events or records in memory: `size` ends it as in a database, nearly."""
    found = items[start : None if limit is None else start + limit]
    if size is None:
        return found
    sizes = accumulate(len(str(item)) for item in found)
    return found[: 1 + sum(1 for _ in takewhile(lambda read: read < size, sizes))]


def check_page(limit: int, least: int = 1) -> None:
    """Raise `RunError` for an invalid page size."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < least:  # pyright: ignore[reportUnnecessaryIsInstance]  callers pass what they were sent
        raise RunError(
            f"a page cannot have {limit!a} entries",
            hint=f"`limit` is a whole number from {least} on",
        )


# cursors of runs ------------------------------------------------------------------------------

Mark: TypeAlias = float | int | str | bytes
"""A value of the sort key of runs. An edited file may hold a text for a number."""


def run_cursor(created: Mark, run_id: Mark) -> str:
    """The cursor after the run with this start time and id."""
    text = json.dumps([_write(created), _write(run_id)], separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_run_cursor(cursor: str, *, edited: bool = False) -> tuple[Mark, Mark]:
    """The sort key and the id in a cursor. `CursorError` for any other text.

    In a file that may be `edited` the key may be of another type.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        marks: Any = json.loads(urlsafe_b64decode(padded))
        created, run_id = map(_read, cast("list[Any]", marks))
        fits = isinstance(created, (int, float)) and isinstance(run_id, str) and "\0" not in run_id
        f"{created}{run_id}".encode()
        long = isinstance(created, int) and abs(created) > WHOLE
        if (fits or edited) and not long and run_cursor(created, run_id) == cursor:
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


# cursors of events ----------------------------------------------------------------------------


def event_number(cursor: str) -> int:
    """The number in a valid cursor; 0 in an empty one. Numbers rise."""
    return int(cursor.rpartition("-")[2] or 0)


class EventCursors(NamedTuple):
    """The cursors of one journal's events, from before the first to after the newest."""

    journal: str
    """The journal's id: unique for each file, and for each journal in memory."""
    oldest: int
    """The number before the first existing event."""
    newest: int
    """The highest number that any event has had."""

    def write(self, number: int) -> str:
        """The cursor after an event."""
        return f"{self.journal}-{number}"

    def read(self, cursor: str) -> int:
        """The number in a cursor; 0, before the first event, for an empty one.

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
