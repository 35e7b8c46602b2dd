"""Who delivers the runs of a journal to workers: its own table, or an engine.

Belongs here: the choice, with no import of an engine before it is chosen.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeAlias

from chartloop.adapters.journal.opening import is_server
from chartloop.core.errors import SetupError
from chartloop.extras import install
from chartloop.run.journal import Journal
from chartloop.run.schedule import Engine

if TYPE_CHECKING:
    from chartloop.adapters.journal.postgres import PostgresJournal

ScheduleName: TypeAlias = Literal["table", "dbos"]
SCHEDULES: tuple[ScheduleName, ...] = ("table", "dbos")


def engine_of(journal: Journal, wanted: ScheduleName | None = None) -> Engine | None:
    """The engine that delivers a journal's runs; None for its own table.

    Without `wanted` it is the one that the journal was prepared for, so that its workers agree.

    Raises:
        SetupError: DBOS is not installed, or this journal was not prepared for it.
    """
    if wanted == "table" or (wanted is None and not is_server(journal.name)):
        return None
    server = _on_server(journal)
    from chartloop.adapters.schedule.dbos_tables import uses_dbos  # noqa: PLC0415  an extra

    if wanted is None and not uses_dbos(server.address):
        return None
    _check_dbos()
    from chartloop.adapters.schedule.dbos import DbosSchedule  # noqa: PLC0415  an extra

    return DbosSchedule(server)


def prepare(journal: Journal, schedule: ScheduleName | None = None) -> ScheduleName:
    """Let a journal's table deliver its runs, or DBOS, whose tables are made or migrated.

    None: who delivers them now. Returns who does. Raises `SetupError` if DBOS cannot be had.
    """
    if schedule != "dbos" and not is_server(journal.name):
        return "table"
    server = _on_server(journal)
    from chartloop.adapters.schedule import dbos_tables  # noqa: PLC0415  an extra

    if schedule == "table":
        dbos_tables.deliver_through_table(server.address)
    if schedule == "table" or (schedule is None and not dbos_tables.uses_dbos(server.address)):
        return "table"
    _check_dbos()
    from chartloop.adapters.schedule import dbos  # noqa: PLC0415  an extra

    dbos.install(server)
    return "dbos"


def _on_server(journal: Journal) -> PostgresJournal:
    if is_server(journal.name):
        from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415  an extra

        if isinstance(journal, PostgresJournal):
            return journal
    raise SetupError(
        f"DBOS cannot deliver the runs of `{journal.name}`",
        hint="it needs a journal in PostgreSQL: `--journal postgresql://...`",
    )


def _check_dbos() -> None:
    if find_spec("dbos") is None:
        raise SetupError(
            "the runs of this journal are delivered by DBOS, which is not installed",
            hint=f"{install('distributed')}, or take them from the journal's table: "
            "`--schedule table`",
        )
