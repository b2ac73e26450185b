"""A gate on PostgreSQL: what the transaction must be like, in which it looks twice."""

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.ddl.failure import MigrationError
from pipestate.drivers import sqlstate

NOT_READ_COMMITTED = (
    "the gate of revision {revision} needs READ COMMITTED, and this transaction is {level}: its second look would "
    "not see what was written before the lock. Give the engine isolation_level='READ COMMITTED', or change "
    "default_transaction_isolation of the role or the database"
)
AUTOCOMMIT = (
    "the gate of revision {revision} needs a transaction, and this connection commits every statement by itself: "
    "take isolation_level='AUTOCOMMIT' out of env.py"
)


def require_transaction(connection: Connection, revision: str) -> None:
    """Refuse a connection whose savepoints do nothing, and a transaction with an old snapshot."""
    try:
        connection.exec_driver_sql("SAVEPOINT pipestate_transaction")
        connection.exec_driver_sql("RELEASE SAVEPOINT pipestate_transaction")
    except DBAPIError as error:
        if sqlstate(error) != "25P01":
            raise
        raise MigrationError(AUTOCOMMIT.format(revision=revision)) from error
    level = str(connection.exec_driver_sql("SHOW transaction_isolation").scalar_one())
    if level != "read committed":
        raise MigrationError(NOT_READ_COMMITTED.format(revision=revision, level=level.upper()))


def has_written(connection: Connection) -> bool:
    """Say whether this transaction has written something."""
    query = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL"
    return bool(connection.exec_driver_sql(query).scalar())


def require_script() -> None:
    """Allow a script: its blocks look at the rows when they run."""
