"""Alembic projects: configuration, chain, runbooks, and the position of a database in the chain."""
