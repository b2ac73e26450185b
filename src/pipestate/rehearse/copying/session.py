"""A connection of psycopg2 itself: COPY, and locks before the snapshot, are not SQLAlchemy's business."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from psycopg2.extensions import get_wait_callback, set_wait_callback
from sqlalchemy import URL

from pipestate.config import shown, without_secrets
from pipestate.engines.postgresql import CONNECT_TIMEOUT_S
from pipestate.errors import Unreachable
from pipestate.interrupt import listen

Rows = list[tuple[Any, ...]]


@contextmanager
def session(url: URL, *, autocommit: bool = False) -> Iterator[Any]:
    """Connect, and close at the end; what was not committed is gone."""
    listen()
    arguments = url.get_dialect()().create_connect_args(url)[1]
    named = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "pipestate clone"}
    try:
        with blocking():
            driver = psycopg2.connect(**{**named, **arguments})
    except psycopg2.Error as error:
        raise Unreachable(
            f"cannot reach {shown(url)}: {said(error, url)}; check that the server runs and the URL is right"
        ) from error
    try:
        driver.autocommit = autocommit
        yield driver
    finally:
        driver.close()


@contextmanager
def blocking() -> Iterator[None]:
    """Let psycopg2 wait by itself, as COPY needs it.

    A connection that was made while a callback waits does not block: it would keep in memory what a slow server has not
    taken yet, and its COPY would not end when it is cancelled.
    """
    callback = get_wait_callback()
    set_wait_callback(None)
    try:
        yield
    finally:
        set_wait_callback(callback)


def ask(driver: Any, query: str) -> Rows:
    """Run a query, and return its rows, if it has any."""
    with driver.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall()) if cursor.description else []


def quoted(text: str) -> str:
    """Write a text as a literal of SQL, whatever the server's settings are.

    >>> quoted("it's"), quoted("C:\\\\x")
    ("'it''s'", " E'C:\\\\\\\\x'")
    """
    doubled = text.replace("'", "''")
    return " E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in text else f"'{doubled}'"


def said(error: BaseException, url: URL) -> str:
    """Return what the server said of an error, on one line and without a password."""
    diagnosed = getattr(getattr(error, "diag", None), "message_primary", None)
    return without_secrets(" ".join(str(diagnosed or error).split()), url)
