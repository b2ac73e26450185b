"""Code that runs inside Alembic; `server/` holds the functions that the ledger installs."""
