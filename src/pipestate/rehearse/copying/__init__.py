"""Make a clone of production, on a private embedded server.

    snapshot (inventory, locks, one moment) ─► require (refusals) ─► fill (database, pg_dump, pg_restore, psql)

Production is only read, by one session and pg_dump's, until the rows are copied. Indexes and constraints are built on
the clone afterwards. `make` holds the clone, and always removes it.
"""
