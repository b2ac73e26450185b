"""Make a clone of production, on a server of our own.

    inventory ─► require (refusals) ─► snapshot (locks, one moment) ─┬─► schema (pg_dump, pg_restore)
                                                                     └─► rows (COPY to COPY) ─► finish

Production is only read, by one session and pg_dump's, and left alone as soon as the rows are there: indexes and
constraints are built on the clone afterwards. `place` is where the clone lies, and removes it whatever happens.
"""
