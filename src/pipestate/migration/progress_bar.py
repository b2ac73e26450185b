"""A progress bar on the terminal, after two seconds, while a statement builds an index, validates or
restores."""

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from pipestate.core.text import plain
from pipestate.database import connections as db

SHOW_AFTER_S = 2.0
REFRESH_S = 0.5
WIDTH = 20
_NAME = r'((?:"[^"]+"|[\w.])+)'
# The work of a statement, by its text; the group captures the name.
_WORK = (
    (rf"CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?{_NAME}", "building index {}"),
    (r"CALL \w+\.(?:refuse_rows|add_checks)\('([^']+)'", "checking the rows of {}"),
    (
        rf"CALL \w+\.validate_constraints\('([^']+)'|ALTER TABLE {_NAME} VALIDATE",
        "validating constraints of {}",
    ),
    (
        r"CALL pipestate\.validate_restored\([^,]+, '(?:table|columns)', '([^']+)'",
        "validating constraints of {}",
    ),
    (r"CALL pipestate\.fill\(()", "restoring rows that were written since the drop"),
    (rf"UPDATE {_NAME} AS s SET", "restoring rows of {}"),  # SQLite
)
_BUILD = text(
    "SELECT phase, CASE WHEN tuples_total > 0 THEN tuples_done / tuples_total::float "
    "WHEN blocks_total > 0 THEN blocks_done / blocks_total::float END AS share "
    "FROM pg_catalog.pg_stat_progress_create_index WHERE pid = :pid"
)
Share = tuple[str, float | None]  # the phase of an index build, and the finished share


def run_with_bar(connection: Connection, statement: str, call: Callable[[], None]) -> None:
    """Run the statement, and show its progress on the terminal."""
    work = work_of(statement)
    if work is None:
        call()
        return
    with _shown(work, connection):
        call()


def work_of(statement: str) -> str | None:
    """Name the long work of a statement.

    >>> work_of('CREATE UNIQUE INDEX CONCURRENTLY "a b" ON t (x)')
    'building index "a b"'
    >>> work_of("ALTER TABLE orders VALIDATE CONSTRAINT positive")
    'validating constraints of orders'
    >>> work_of("SELECT 1") is None
    True
    """
    for pattern, words in _WORK:
        if found := re.search(pattern, statement, re.DOTALL):
            return words.format(next(filter(None, found.groups()), ""))
    return None


def bar(work: str, seconds: float, build: Share | None, columns: int) -> str:
    """Write the line: a share if the server reports one, else a moving block.

    >>> bar("building index i", 12.4, ("building index: scanning table", 0.43), 80)
    'building index i  █████████░░░░░░░░░░░   43 %  scanning table  12 s'
    >>> bar("restoring rows of orders", 3, None, 80)
    'restoring rows of orders  ░░░░░░███░░░░░░░░░░░  3 s'
    """
    phase, share = build or ("", None)
    if share is None:
        at = int(seconds * 2) % (WIDTH - 2)
        blocks = "░" * at + "███" + "░" * (WIDTH - 3 - at)
    else:
        done = round(WIDTH * share)
        blocks = "█" * done + "░" * (WIDTH - done) + f" {100 * share:4.0f} %"
    parts = (work, blocks, phase.rpartition(": ")[2], f"{seconds:.0f} s")
    return plain("  ".join(filter(None, parts)))[: columns - 1]


@contextmanager
def _shown(work: str, connection: Connection) -> Iterator[None]:
    """Show the bar from a thread, until the work ends; then clear the line."""
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(work, connection, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(REFRESH_S * 4)


def _show(work: str, connection: Connection, ended: threading.Event) -> None:
    began = time.monotonic()
    if ended.wait(SHOW_AFTER_S):
        return
    with ExitStack() as stack:
        read = _READ_BUILD[connection.dialect.name](connection, stack) if "index" in work else None
        while not ended.wait(REFRESH_S):
            line = bar(
                work, time.monotonic() - began, read() if read else None, shutil.get_terminal_size().columns
            )
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _build_on_server(connection: Connection, stack: ExitStack) -> Callable[[], Share | None] | None:
    """Query the progress of the build on a second connection; without one, the bar shows the time alone."""
    own: Any = connection.connection.driver_connection
    pid = own.info.backend_pid if hasattr(own, "info") else own.get_server_pid()
    engine = db.engine_for(connection.engine.url.set(drivername="postgresql+psycopg2"))
    try:
        second = stack.enter_context(engine.connect()).execution_options(isolation_level="AUTOCOMMIT")
    except SQLAlchemyError:
        return None

    def read() -> Share | None:
        try:
            row = second.execute(_BUILD, {"pid": pid}).one_or_none()
        except SQLAlchemyError:
            return None
        return (row.phase, row.share) if row else None

    return read


_READ_BUILD: Mapping[str, Callable[[Connection, ExitStack], Callable[[], Share | None] | None]] = {
    "postgresql": _build_on_server,
    "sqlite": lambda _connection, _stack: None,
}
