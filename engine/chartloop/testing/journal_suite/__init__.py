"""The suite that every journal must pass, with pytest.

    from chartloop.testing import SharedJournalSuite

    class TestMyJournal(SharedJournalSuite):
        def open(self, folder, now):
            return MyJournal(folder / "my.db", now=now)

`JournalSuite` needs a journal of one process; `SharedJournalSuite` opens it several times, and adds
what must hold when two processes use it at the same moment.

Belongs here: what the port promises. Never: how a journal keeps it.
"""

from __future__ import annotations

import pytest

PARTS = (
    "desk",
    "rows",
    "chains",
    "copies",
    "watched",
    "leases",
    "requests",
    "activations",
    "crons",
    "fleet",
    "concurrent",
    "same_call",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in PARTS))

from chartloop.testing.journal_suite.activations import ScheduleCases  # noqa: E402
from chartloop.testing.journal_suite.chains import ChainCases  # noqa: E402
from chartloop.testing.journal_suite.concurrent import ConcurrentCases  # noqa: E402
from chartloop.testing.journal_suite.copies import CopyCases  # noqa: E402
from chartloop.testing.journal_suite.crons import CronCases  # noqa: E402
from chartloop.testing.journal_suite.desk import Desk, Opening  # noqa: E402
from chartloop.testing.journal_suite.fleet import FleetCases, SharedFleetCases  # noqa: E402
from chartloop.testing.journal_suite.leases import LeaseCases  # noqa: E402
from chartloop.testing.journal_suite.requests import RequestCases  # noqa: E402
from chartloop.testing.journal_suite.rows import RowCases  # noqa: E402
from chartloop.testing.journal_suite.same_call import SameCallCases  # noqa: E402
from chartloop.testing.journal_suite.watched import WatchedCases  # noqa: E402

__all__ = ["Desk", "JournalSuite", "SharedJournalSuite"]


class JournalSuite(
    RowCases, ChainCases, CopyCases, WatchedCases, LeaseCases, RequestCases, ScheduleCases,
    CronCases, FleetCases, Opening,
):  # fmt: skip
    """The cases of one journal. A subclass named ``Test...`` gives `open`.

    `open(folder, now)` returns the journal that belongs to `folder`; `now` is to be its clock.
    """


class SharedJournalSuite(JournalSuite, ConcurrentCases, SameCallCases, SharedFleetCases):
    """The cases of a journal that several processes share: `open` is called several times."""
