"""The journal's port over PostgreSQL: the suite of every journal, on a server of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chartloop.run.journal import Journal
from chartloop.testing import SharedJournalSuite
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]


class _OnPostgres(SharedJournalSuite):
    @pytest.fixture(autouse=True)
    def server(self, postgres: Cluster) -> None:
        self.cluster = postgres


class TestPostgres(_OnPostgres):
    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

        return PostgresJournal(self.cluster.of(folder), redactor=None, now=now)


class TestPostgresGrouped(_OnPostgres):
    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

        return PostgresJournal(self.cluster.of(folder), redactor=None, now=now).grouped
