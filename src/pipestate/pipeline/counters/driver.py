"""Run one statement on the driver's own cursor: for the call that every job makes.

SQLAlchemy's execution costs as much again as the driver's; here only its transaction and its errors
are kept. The statement does not pass through the engine's events and echo.
"""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def fetch_one(conn: Connection, sql: str, parameters: dict[str, str]) -> Any:
    """Return the first row or None, in the connection's transaction, which begins here if none has."""
    if not conn.in_transaction():
        conn.begin()
    cursor = conn.connection.cursor()
    try:
        cursor.execute(sql, parameters)
        return cursor.fetchone()
    except _driver(conn).Error as error:
        raise _as_sqlalchemy(conn, cursor, sql, parameters, error) from error
    finally:
        cursor.close()


def _driver(conn: Connection) -> Any:
    return conn.dialect.loaded_dbapi


def _as_sqlalchemy(conn: Connection, cursor: Any, sql: str, parameters: dict[str, str], error: Any) -> Any:
    """Make the error that SQLAlchemy would raise; a connection that is lost is not given back to the pool."""
    lost = conn.dialect.is_disconnect(error, conn.connection.dbapi_connection, cursor)
    if lost:
        conn.invalidate(error)
    return DBAPIError.instance(
        sql, parameters, error, _driver(conn).Error, connection_invalidated=lost, dialect=conn.dialect
    )
