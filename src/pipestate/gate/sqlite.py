"""A gate on SQLite: the transaction that holds its DDL, and nobody beside it."""

from sqlalchemy import Connection

from pipestate.ddl.failure import MigrationError
from pipestate.drivers import on_sqlite


def require_transaction(connection: Connection, revision: str) -> None:
    """Have a transaction that holds DDL: the driver by itself begins one only before a write of rows."""
    del revision
    if not on_sqlite(connection, lambda driver: driver.in_transaction):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def has_written(connection: Connection) -> bool:
    """Say no: what was written before is in the same transaction as the rest, and work there commits nothing."""
    del connection
    return False


def require_script() -> None:
    """Refuse a script, which could not look at the rows."""
    raise MigrationError(
        "a gate looks at the rows before anything is dropped, which a script for SQLite cannot: "
        "run it without --sql"
    )
