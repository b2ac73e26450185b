"""Create the ledger, or bring an older one up to date, and nothing else. How, is in the modules of the engines."""

from collections.abc import Sequence

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.drivers import message, sqlstate
from pipestate.errors import OWN_SQLSTATE, ConfigError
from pipestate.ledger.engine import engine_of


def install(connection: Connection) -> None:
    """Install the ledger through this connection; the caller commits."""
    for statement in additions(connection) + statements(connection.dialect.name):
        try:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
        except DBAPIError as error:
            if sqlstate(error) == OWN_SQLSTATE:
                raise ConfigError(message(error).splitlines()[0]) from error
            raise


def statements(dialect: str, *, only: Sequence[str] | None = None) -> list[str]:
    """Render the installation; `only` names tables, and leaves the views out."""
    return engine_of(dialect).statements(only)


def additions(connection: Connection) -> list[str]:
    """List what an older ledger's tables lack, where the installation does not look for itself."""
    return engine_of(connection).additions(connection)
