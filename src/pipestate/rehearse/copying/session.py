"""Connections to production and the clone: psycopg2's own, and those of pg_dump, pg_restore and psql.

COPY, and locks before the snapshot, are outside SQLAlchemy's API. The wheel contains the programs.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.extensions import get_wait_callback, make_dsn, set_wait_callback
from sqlalchemy import URL

from pipestate.core.errors import Unreachable
from pipestate.database.embedded import embedded_binaries
from pipestate.database.interrupt import listen
from pipestate.database.postgresql import CONNECT_TIMEOUT_S
from pipestate.database.urls import shown, without_secrets
from pipestate.rehearse.copying.tunnel import tunnel

Rows = list[tuple[Any, ...]]
DOLLARS = ("C", "POSIX", "en_US")  # locales of money that the clone reads unchanged
Done = subprocess.CompletedProcess[str]


@contextmanager
def session(url: URL, *, autocommit: bool = False) -> Iterator[Any]:
    """Connect, and close at the end; uncommitted changes are lost."""
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
    """Make psycopg2 wait by itself, as COPY requires.

    A connection made under a wait callback buffers in memory for a slow server. Cancelling does not end its COPY.
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
    """Write a text as an SQL literal that is independent of the server's settings.

    >>> quoted("it's"), quoted("C:\\\\x")
    ("'it''s'", " E'C:\\\\\\\\x'")
    """
    doubled = text.replace("'", "''")
    return " E'" + doubled.replace("\\", "\\\\") + "'" if "\\" in text else f"'{doubled}'"


def said(error: BaseException, url: URL) -> str:
    """Return the server's message of an error, on one line and without a password."""
    diagnosed = getattr(getattr(error, "diag", None), "message_primary", None)
    return without_secrets(" ".join(str(diagnosed or error).split()), url)


@contextmanager
def program(
    version: int, name: str, options: Sequence[str], environment: Mapping[str, str], **files: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of PostgreSQL's programs; if it still runs at the end, make it cancel its query.

    Only the arguments select the server: PGHOST, PGSSLMODE and similar variables are removed.
    """
    others = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    process = subprocess.Popen(
        [str(embedded_binaries(version) / name), *options],
        env={**others, "LC_ALL": "C", **environment},
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **files},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def run_program(version: int, name: str, options: Sequence[str], environment: Mapping[str, str]) -> Done:
    """Run one of PostgreSQL's programs to its end."""
    with program(version, name, options, environment) as process:
        out, err = (text.decode(errors="replace") for text in process.communicate())
    return Done(process.args, process.returncode, out, err)


@contextmanager
def way_to(driver: Any, place: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the connection string and the environment that lead a program to the server of `driver`.

    The password is passed in the environment. The wheel's programs lack TLS: if the session uses it, they connect
    through our tunnel.
    """
    info = driver.info
    ((money,),) = ask(driver, "SHOW lc_monetary")
    options = info.options or ""
    if not money.startswith(DOLLARS):
        options += " -c lc_monetary=C"
    where = {"user": info.user, "dbname": info.dbname, "options": options or None}
    secret = {"PGPASSWORD": info.password} if info.password else {}
    with tunnel(info, place) as (host, port):
        yield make_dsn(**where, host=host, port=port, connect_timeout=CONNECT_TIMEOUT_S), secret


def last_line(said: str) -> str:
    """Return the last line of a program's output."""
    lines = said.strip().splitlines()
    return " ".join(lines[-1].split()) if lines else "it ended without a message"
