"""Backfills for tests: a page with one, and how it is run in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from pipestate.backfill.recorded import BackfillResult, How, run
from pipestate.backfill.source import Found, find_backfill
from pipestate.ledger.install import install
from pipestate.runbook.lint import load
from support.runbook_samples import block
from support.servers import Database

FILL = (
    "UPDATE orders SET state = 'new', times = times + 1 WHERE id BETWEEN :first AND :last AND state IS NULL"
)


def find(directory: Path, dialect: str, sql: str = FILL, *, table: str = "orders", key: str = "id") -> Found:
    """Write a page with this one backfill, and find it."""
    text = f"```sql\n-- backfill: state\n-- table: {table}\n-- key: {key}\n{sql};\n```\n"
    front = "---\nrunbook: orders\nphases:\n  fill:\n---\n## Phase: fill\n\n"
    path = directory / "orders.md"
    path.write_text(f"{front}{block('SELECT 1 AS x')}\n{text}", encoding="utf-8")
    return find_backfill("state", [load(path)], dialect)


@contextmanager
def by_itself(database: Database) -> Iterator[Connection]:
    """Connect so that every statement is committed by itself."""
    with database.engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


def install_in(database: Database) -> None:
    with database.begin() as connection:
        install(connection)


class Orders:
    """A table of orders, and the backfill of its page."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database, self.directory = database, directory
        self.dialect = database.url.get_backend_name()

    def make(self, rows: int, *, key: str = "integer PRIMARY KEY", table: str = "orders") -> None:
        self.database.run(
            f"CREATE TABLE {table} (id {key}, state text, times integer NOT NULL DEFAULT 0, old text)"
        )
        if rows:
            self.add(1, rows, table=table)

    def add(self, first: int, last: int, *, table: str = "orders") -> None:
        self.database.run(
            f"INSERT INTO {table} (id) WITH RECURSIVE n(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM n "
            f"WHERE n < {last}) SELECT n FROM n WHERE n <= {last}"
        )

    def run(self, sql: str = FILL, *, size: Any = None, **options: Any) -> BackfillResult:
        """Run it; `table` and `key` go to the page, the others say how."""
        page = {name: options.pop(name) for name in ("table", "key") if name in options}
        with by_itself(self.database) as connection:
            return run(connection, find(self.directory, self.dialect, sql, **page), How(size, **options))

    def times(self) -> dict[object, object]:
        """How many rows were updated how often."""
        return dict(self.database.rows("SELECT times, count(*) FROM orders GROUP BY times"))  # type: ignore[arg-type]

    def view(self, *columns: str) -> tuple[object, ...]:
        (row,) = self.database.rows(f"SELECT {', '.join(columns)} FROM pipestate.backfill")
        return row


def at(number: int, act: Callable[[], object]) -> Callable[[int, int], None]:
    """A progress callback that does something behind that batch."""
    reported: list[int] = []

    def tell(done: int, _total: int) -> None:
        reported.append(done)
        if len(reported) == number:
            act()

    return tell
