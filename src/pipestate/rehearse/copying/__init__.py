"""Make a clone of production, on a private embedded server.

    inventory ─► require (refusals) ─► snapshot (locks, one moment) ─┬─► schema (pg_dump, pg_restore)
                                                                     └─► rows (pg_dump to psql) ─► finish

Production is only read, by one session and pg_dump's, until the rows are copied. Indexes and constraints are built on
the clone afterwards. `place` holds the clone, and always removes it.
"""
