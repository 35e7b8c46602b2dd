"""Beginning a run once, however many processes start it.

The journal refuses the second of two starts. That is right for a program that wants a new run. One
that repeats an order, by a key or by a file of lines, wants to know that the run is there.

Belongs here: waiting for another process, and whose error is raised. The journal decides who is
first (`run.log`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from chartloop.core.errors import Driven, Fenced, RunError
from chartloop.run.journal import Journal
from chartloop.run.sync import by_hand

PATIENCE = 10.0
"""Seconds to wait for the first record of a run that another process begins."""


def begin_once(journal: Journal, run_id: str, begin: Callable[[], None]) -> bool:
    """Begin a run unless it has been begun; returns whether this call did.

    While another process is about to write the first record, this one waits for it. `begin` starts
    the run and writes its first record. Its error is raised here, unless another process has begun
    the run.
    """
    until = time.monotonic() + PATIENCE
    while True:
        row = by_hand(journal.row(run_id))
        if row is not None and row.head:
            return False
        try:
            begin()
        except RunError as error:
            row = by_hand(journal.row(run_id))
            if row is not None and row.head:
                return False
            if not isinstance(error, (Driven, Fenced)) or time.monotonic() > until:
                raise
        else:
            return True
        time.sleep(0.02)
