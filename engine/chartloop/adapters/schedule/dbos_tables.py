"""What DBOS needs in a journal's database: a trigger that enqueues the runs that become due.

Belongs here: SQL, with no import of DBOS: whoever opens the journal may ask whether it is used.
"""

from __future__ import annotations

from typing import Any

import psycopg

from chartloop.adapters.journal.postgres_connection import Address, explain

QUEUE = "chartloop"
"""The queue in DBOS, which its own tools may limit."""
LATE = 10.0
"""The seconds for which a run is due before it is looked whether DBOS knows it."""
TURNS = 2**27
"""How many turns there are in DBOS' priorities for one of ours. Runs after them are not told apart:
if for so many rounds the queue was never empty, submitters do not take turns until it is."""
_FREE = "NEW.outcome IS NULL AND NEW.worker IS NULL AND NEW.due IS NOT NULL"
_INSTALL = f"""
CREATE OR REPLACE FUNCTION "{{schema}}".enqueue_run(
    run TEXT, due FLOAT8, priority INT8, turn INT8
) RETURNS TEXT
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT "{{engine}}".enqueue_workflow(
        '{QUEUE}.drive', '{QUEUE}', ARRAY[to_json(run)],
        workflow_id => concat_ws(':', run,
            coalesce((SELECT head FROM "{{schema}}".run AS r WHERE r.run_id = run), 0),
            pg_current_xact_id(), (due * 1000)::int8),
        priority => (priority * {TURNS} + least({TURNS} - 1, coalesce(turn, (
            SELECT min(r.turn) FROM "{{schema}}".request AS r
            WHERE r.outcome IS NULL AND r.worker IS NULL AND r.turn IS NOT NULL
            AND r.priority = enqueue_run.priority
        ), 0)))::int4,
        delay_until_epoch_ms => CASE WHEN due > extract(epoch FROM clock_timestamp())
            THEN ceil(due * 1000)::int8 END)
$$;
CREATE OR REPLACE FUNCTION "{{schema}}".enqueue_due() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM "{{schema}}".enqueue_run(NEW.run_id, NEW.due, NEW.priority, NEW.turn);
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
"""The functions have the rights of whoever made them: a program that only submits needs none in
DBOS' schema. Two causes before a claim change `due` once, so they are one activation. Its id has
the run and its head; what follows tells a second activation of one head from one that is over.

DBOS takes the lowest priority first, and of one priority what was enqueued first. So a priority of
its queue is one of ours with the turn. A run that waits for a time has no turn before it; then it
is served with those that were when it began to wait."""
_REMOVE = """
DROP TRIGGER IF EXISTS enqueue_new ON "{schema}".request;
DROP TRIGGER IF EXISTS enqueue_due ON "{schema}".request;
"""
FORGOTTEN = f"""
SELECT "{{schema}}".enqueue_run(run_id, due, priority, turn) FROM "{{schema}}".request
WHERE outcome IS NULL AND worker IS NULL AND needs = ANY(coalesce(%s::text[], ARRAY[needs]))
AND due <= extract(epoch FROM clock_timestamp()) - %s AND run_id NOT IN (
    SELECT regexp_replace(workflow_uuid, '(:[0-9]+){{{{3}}}}$', '')
    FROM "{{engine}}".workflow_status
    WHERE queue_name = '{QUEUE}' AND (status IN ('ENQUEUED', 'PENDING') OR status = 'DELAYED'
    AND delay_until_epoch_ms > extract(epoch FROM clock_timestamp()) * 1000)
)
"""  # noqa: S608  checked names
"""Enqueues the runs that DBOS does not know: with these needs or any, due for so many seconds.

A delay that is over by the server's clock counts as unknown: DBOS ends it by that of a worker."""
NEEDED = (
    'SELECT needs, min(run_id) FROM "{schema}".request '
    "WHERE outcome IS NULL AND worker IS NULL AND due IS NOT NULL AND needs != '' GROUP BY needs"
)
"""What free runs need, with one of each."""
AGAIN = (
    'SELECT "{schema}".enqueue_run(run_id, due, priority, turn) FROM "{schema}".request '
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
    return bool(execute(where, sql))


def deliver_through_dbos(where: Address) -> None:
    """Enqueue runs that become due, and those that are due already. DBOS' tables are there."""
    execute(where, _INSTALL)
    execute(where, FORGOTTEN, None, 0.0)


def deliver_through_table(where: Address) -> None:
    """Let the journal's own table be the schedule again. DBOS' tables stay."""
    execute(where, _REMOVE)


def execute(where: Address, sql: str, *given: Any) -> list[tuple[Any, ...]]:
    """Execute statements with the names of the schemas; gives the rows of one alone.

    Raises what the journal at `where` does.
    """
    text = sql.format(schema=where.schema, engine=engine_schema(where))
    try:
        with psycopg.connect(where.url) as database:
            cursor = database.execute(text.encode(), given or None)
            return cursor.fetchall() if cursor.description else []
    except psycopg.Error as error:
        raise explain(error, where) from error
