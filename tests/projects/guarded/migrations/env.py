"""An env.py as `alembic init` writes it, with the guard; the test replaces it."""
