"""Alembic projects: configuration, migrations, runbooks, and the position of a database in them."""
