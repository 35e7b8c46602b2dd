"""The three pairs of a journal and who delivers its runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres import Cluster

SQLITE, POSTGRES, DBOS = "SQLite, table", "PostgreSQL, table", "PostgreSQL, DBOS"
PAIRS = (SQLITE, POSTGRES, DBOS)

DBOS_NEEDED = pytest.mark.extra(  # noqa: S610  no Django
    "dbos", install='pip install -e ".[distributed]"'
)
WITH_DBOS = pytest.param(DBOS, marks=DBOS_NEEDED)


def place_of(pair: str, cluster: Cluster, folder: Path) -> str:
    """Where the journal of a folder is, prepared for who delivers its runs."""
    if pair == SQLITE:
        return str(folder / "j.db")
    url = cluster.of(folder)
    if pair == DBOS:
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415
        from chartloop.adapters.schedule.opening import prepare  # noqa: PLC0415
        from chartloop.run.sync import by_hand  # noqa: PLC0415

        journal = PostgresJournal(url)
        prepare(journal, "dbos")
        by_hand(journal.close())
    return url
