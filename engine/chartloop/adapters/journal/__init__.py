"""Journals: storage for the records of runs.

A write, in the order in which to read it: `face` makes it data of `writes` (after `run.redact`,
large texts to `texts`), `grouped` may put it into one transaction with those of other runs,
`sqlite` or `postgres` opens that transaction, and `rows` does it: `Rows.append` inserts the event
if the lease is still the writer's. Reads go the same way without `grouped`.

Beside it: leases and who waits (`leases`, `activations`), limits across runs (`quotas`), schedules
(`cron_rows`), whole runs as stored (`raw_rows`). Tables and migrations are in `sqlite_migrations`
and `postgres_tables`, the SQL that differs in `postgres_dialect`; `opening` is the door.
"""
