"""A clone of a SQLite database: a copy of its file, read in one transaction."""

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL

from pipestate.config import shown
from pipestate.errors import ConfigError, Unreachable
from pipestate.plural import size
from pipestate.progress import Progress
from pipestate.rehearse.copying.wanted import WantedClone

PAGES = 1000


def copy_file(production: URL, wanted: WantedClone, directory: Path, on_progress: Progress) -> URL:
    """Copy the file into the directory; what is written meanwhile is in it or not, never half."""
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
    target = directory / source.name
    try:
        _back_up(source, target, on_progress)
    except sqlite3.Error as error:
        raise Unreachable(f"{shown(production)} cannot be copied: {error}") from error
    return production.set(database=str(target))


def _back_up(source: Path, target: Path, on_progress: Progress) -> None:
    read_only = f"{source.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(read_only, uri=True)) as there, closing(sqlite3.connect(target)) as here:
        (page,) = there.execute("PRAGMA page_size").fetchone()

        def tell(_status: int, left: int, total: int) -> None:
            on_progress((total - left) * page, total * page)

        there.backup(here, pages=PAGES, progress=tell)
