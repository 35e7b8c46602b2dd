"""What DBOS needs in a journal's database: a trigger that enqueues the runs that become due.

Belongs here: SQL, with no import of DBOS: whoever opens the journal may ask whether it is used.
"""

from __future__ import annotations

from typing import Any

import psycopg

from chartloop.adapters.journal.postgres_connection import Address

QUEUE = "chartloop"
"""The queue in DBOS, which its own tools may limit."""
LATE = 10.0
"""The seconds for which a run is due before it is looked whether DBOS knows it."""
_FREE = "NEW.outcome IS NULL AND NEW.worker IS NULL AND NEW.due IS NOT NULL"
_INSTALL = f"""
CREATE OR REPLACE FUNCTION "{{schema}}".enqueue_run(run TEXT, due FLOAT8) RETURNS TEXT
LANGUAGE sql AS $$
    SELECT "{{engine}}".enqueue_workflow(
        '{QUEUE}.drive', '{QUEUE}', ARRAY[to_json(run)],
        workflow_id => concat_ws(':', run,
            coalesce((SELECT head FROM "{{schema}}".run AS r WHERE r.run_id = run), 0),
            pg_current_xact_id(), (due * 1000)::int8),
        delay_until_epoch_ms => CASE WHEN due > extract(epoch FROM clock_timestamp())
            THEN ceil(due * 1000)::int8 END)
$$;
CREATE OR REPLACE FUNCTION "{{schema}}".enqueue_due() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM "{{schema}}".enqueue_run(NEW.run_id, NEW.due);
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RAISE WARNING 'DBOS does not know that run % is due: %', NEW.run_id, SQLERRM;
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS enqueue_new ON "{{schema}}".request;
CREATE TRIGGER enqueue_new AFTER INSERT ON "{{schema}}".request FOR EACH ROW
    WHEN ({_FREE}) EXECUTE FUNCTION "{{schema}}".enqueue_due();
DROP TRIGGER IF EXISTS enqueue_due ON "{{schema}}".request;
CREATE TRIGGER enqueue_due AFTER UPDATE OF due, worker ON "{{schema}}".request FOR EACH ROW
    WHEN ({_FREE} AND (OLD.worker IS NOT NULL OR OLD.due IS DISTINCT FROM NEW.due))
    EXECUTE FUNCTION "{{schema}}".enqueue_due();
"""  # noqa: S608  checked names
"""Two causes before a claim change `due` once, so they are one activation. Its id has the run and
its head. What follows them tells a second activation of one head from the first, which is over."""
_REMOVE = """
DROP TRIGGER IF EXISTS enqueue_new ON "{schema}".request;
DROP TRIGGER IF EXISTS enqueue_due ON "{schema}".request;
"""
FORGOTTEN = f"""
SELECT "{{schema}}".enqueue_run(run_id, due) FROM "{{schema}}".request
WHERE outcome IS NULL AND worker IS NULL AND needs = ANY(%s)
AND due < extract(epoch FROM clock_timestamp()) - {LATE} AND run_id NOT IN (
    SELECT regexp_replace(workflow_uuid, '(:[0-9]+){{{{3}}}}$', '')
    FROM "{{engine}}".workflow_status
    WHERE queue_name = '{QUEUE}' AND status IN ('ENQUEUED', 'DELAYED', 'PENDING')
)
"""  # noqa: S608  checked names
"""Enqueues the runs that are due and that DBOS does not know."""
AGAIN = (
    'SELECT "{schema}".enqueue_run(run_id, due) FROM "{schema}".request '
    "WHERE run_id = %s AND outcome IS NULL AND worker IS NULL AND due IS NOT NULL"
)
"""Enqueues a run that was delivered in vain."""


def engine_schema(where: Address) -> str:
    """The schema of DBOS' tables."""
    return f"{where.schema}_dbos"


def uses_dbos(where: Address) -> bool:
    """Whether a journal delivers its runs through DBOS."""
    sql = (
        "SELECT 1 FROM pg_trigger WHERE tgname = 'enqueue_due' "
        "AND tgrelid = to_regclass('\"{schema}\".request')"
    )
    return execute(where, sql) > 0


def deliver_through_dbos(where: Address) -> None:
    """Enqueue runs that become due, and those that are due already. DBOS' tables are there."""
    execute(where, _INSTALL)
    execute(where, FORGOTTEN.replace("AND needs = ANY(%s)", "").replace(f"- {LATE}", ""))


def deliver_through_table(where: Address) -> None:
    """Let the journal's own table be the schedule again. DBOS' tables stay."""
    execute(where, _REMOVE)


def execute(where: Address, sql: str, *given: Any) -> int:
    """Execute statements with the names of the schemas; the number of rows of the last one."""
    text = sql.format(schema=where.schema, engine=engine_schema(where))
    with psycopg.connect(where.url) as database:
        return database.execute(text.encode(), given or None).rowcount
