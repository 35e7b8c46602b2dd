"""Which run follows another one: moved runs, other attempts, next messages.

A move replaces a run. A retry is another attempt at it, and a next message continues its
conversation: each happens once, unless the caller insists or says that it branches. The mark is a
column of the new run, `RunRow.follows`, and so is written with it. Removing that run takes the mark
away.

Belongs here: the rule, and its errors, pure. Never: SQL, what a retry keeps (`run.retry`).

Source: docs/stuck.md, "Try it again"; docs/chat.md, "In your application".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chartloop.core.errors import Fenced, FollowedError, MovedError

if TYPE_CHECKING:
    from chartloop.run.journal_records import RunRow

AFTER = " after "
"""In `RunRow.follows`, before the run that followed already."""
UNBEGUN = 30.0
"""Seconds after which a run without a record is not about to begin."""
_WORDS = {
    "attempt": ("tried again as", "another attempt of"),
    "next": ("continued as", "continues"),
}


def follows_as(kind: str, after: str = "") -> str:
    """The `follows` of a new run; `after` is the run that the caller insists to come after."""
    return f"{kind.partition(AFTER)[0]}{AFTER}{after}" if after else kind


def said_of(row: RunRow) -> tuple[str, str]:
    """How a run and the one that it was made from are named beside each other.

    That one was ``tried again as`` this one, and this one is ``another attempt of`` that one.
    """
    return _WORDS.get(row.follows.partition(AFTER)[0], ("forked as", "made from"))


def is_unbegun(row: RunRow, now: float) -> bool:
    """Whether a run that has no driver died before its first record: then nothing is lost with it.

    A driver takes it a moment after it was created.
    """
    return not row.head and row.created < now - UNBEGUN


def refuse_followed(row: RunRow, newest: RunRow) -> None:
    """Raise `FollowedError` if `newest` follows the parent of a new run before it.

    Unless the new one's caller knew of it, and insists.
    """
    if row.follows.partition(AFTER)[2] != newest.run_id:
        raise followed_error(row.follows, row.parent, newest)


def followed_error(kind: str, run_id: str, newest: RunRow, more: str = "") -> FollowedError:
    """The error for another attempt, or next message, although `newest` follows a run.

    `more` is what that one has paid.
    """
    again = "`--branch` (`branch=True`) starts another conversation from the old one"
    if kind.startswith("attempt"):
        again = "`--again` (`again=True`) makes another attempt all the same"
    became, stands = said_of(newest)[0], newest.phase().word
    return FollowedError(
        f"run `{run_id}` was {became} run `{newest.run_id}`: {stands}{more}",
        hint=f"`chartloop show {newest.run_id}` shows it; {again}",
        successor=newest.run_id,
    )  # fmt: skip


def freed_origins(removed: Sequence[RunRow]) -> Sequence[str]:
    """The runs that removed ones followed, and that are still there."""
    return sorted({row.parent for row in removed if row.follows} - {row.run_id for row in removed})


def refuse_moved(row: RunRow) -> None:
    """Raise `MovedError` if the run continues as another one."""
    if row.moved_to:
        raise MovedError(
            f"run `{row.run_id}` continues as run `{row.moved_to}`, under a changed file",
            hint=f"`chartloop show {row.moved_to}` shows it; `chartloop fork {row.run_id}` starts "
            "another run from the records of this one",
            run_id=row.run_id, successor=row.moved_to,
        )  # fmt: skip


def refuse_move(row: RunRow) -> None:
    """Raise if a run continues as another one, or another one follows it."""
    refuse_moved(row)
    if row.successor:
        raise FollowedError(
            f"run `{row.run_id}` is followed by run `{row.successor}`, and moves no more",
            hint=f"`chartloop show {row.successor}` shows it",
            successor=row.successor,
        )  # fmt: skip


def refuse_overtaken(row: RunRow, read: RunRow) -> None:
    """Raise `Fenced` if a run was driven or moved since its row was `read`."""
    if (row.head, row.epoch) != (read.head, read.epoch):
        raise Fenced(
            f"run `{row.run_id}` was driven or moved by another process since it was read",
            hint="nothing was written; read the run again, and retry",
        )
