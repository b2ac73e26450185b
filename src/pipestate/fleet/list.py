"""The list of a fleet's databases: each line is a database, or a query that returns databases.

# a comment
postgresql://app@db1/acme
globex = postgresql://app@db2/globex
postgresql://app@db3/postgres databases: SELECT datname FROM pg_database WHERE datname LIKE 'tenant%'
postgresql://app@db4/crm schemas: SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tenant%'
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.text import many
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.interrupt import Interrupted, stopped_together
from pipestate.database.urls import parse_url, shown, without_secrets
from pipestate.runbook.statement import objections
from pipestate.verify.read import QueryResult, read

STDIN = "-"
_LINE = re.compile(
    r"(?:(?P<name>[^\s=:/|]+)\s*=\s*)?(?P<url>[a-z][a-z0-9+]*://.*?)(?:\s+(?P<each>databases|schemas):\s*(?P<query>.*))?",
    re.IGNORECASE | re.DOTALL,
)
MOST = 100_000  # rows of one query
PATIENCE_S = 10.0  # time for the threads to cancel their queries
T = TypeVar("T")
A = TypeVar("A")


class Each(StrEnum):
    """The kind of object that each row of a line's query names."""

    DATABASE = "databases"
    SCHEMA = "schemas"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the list. `source` is its position in the file; without a query it is one database."""

    source: str
    name: str | None
    url: URL
    each: Each | None = None
    query: str = ""


def read_list(file: str) -> list[Line]:
    """Read the list from a file or stdin; raise ConfigError if it is unreadable or empty."""
    where = "stdin" if file == STDIN else file
    lines = list(parse_list(_text(file), where))
    if not lines:
        raise ConfigError(f"{where} names no database: write a URL a line, or a URL and a query")
    return lines


def parse_list(text: str, where: str) -> Iterator[Line]:
    """Parse every line except comments and empty lines."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield _parse(line.strip(), f"{where}:{number}")


def _parse(line: str, source: str) -> Line:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ConfigError(
            f"{source}: not a line of a list: write URL, or NAME = URL, or URL databases: SELECT ..., or URL schemas: SELECT ..."
        )
    url = parse_url(found["url"], source=source)
    if not found["each"]:
        return Line(source, found["name"], url)
    each, query = Each(found["each"].lower()), found["query"].strip().rstrip(";").rstrip()
    if engine_of(url).IS_FILE:
        raise ConfigError(f"{source}: a file of SQLite holds no other {each}: name each file on a line")
    for objection in objections(query, "postgresql"):
        raise ConfigError(f"{source}: its query {objection}")
    return Line(source, found["name"], url, each, query)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; --databases takes a file, or -") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {file}: it is not UTF-8") from error


@dataclass(frozen=True, slots=True)
class Tenant:
    """A database, or with `path` a schema in it: the first of the path. `source` is its line in the list."""

    name: str
    url: URL
    source: str
    path: tuple[str, ...] = ()

    @property
    def schema(self) -> str | None:
        return self.path[0] if self.path else None

    @property
    def address(self) -> str:
        """The URL without its password, and the schema."""
        return f"{shown(self.url)} schema {self.schema}" if self.path else shown(self.url)

    @property
    def identity(self) -> tuple[object, ...]:
        """The key that identifies a tenant, independent of its URL's spelling; users and options are ignored."""
        return (*engine_of(self.url).address(self.url), self.schema)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A line that yielded no tenants, with the reason."""

    name: str
    url: URL
    source: str
    error: PipestateError


@dataclass(frozen=True, slots=True)
class Tenants:
    """All tenants of a list. `repeated` are those that a later line names again."""

    found: tuple[Tenant, ...]
    unlisted: tuple[Unlisted, ...] = ()
    repeated: tuple[Tenant, ...] = ()


def find_tenants(lines: Sequence[Line], timeout_s: float, jobs: int) -> Tenants:
    """Run the queries of the list, `jobs` at a time; a line that fails does not stop the others."""
    once: dict[tuple[object, ...], Tenant] = {}
    repeated = []
    listed = _listed(lines, timeout_s, jobs)
    for tenant in (tenant for each in listed if not isinstance(each, Unlisted) for tenant in each):
        if tenant.identity in once:
            repeated.append(tenant)
        once.setdefault(tenant.identity, tenant)
    unlisted = tuple(each for each in listed if isinstance(each, Unlisted))
    return Tenants(tuple(_with_unique_names(list(once.values()))), unlisted, tuple(repeated))


def _listed(lines: Sequence[Line], timeout_s: float, jobs: int) -> list[list[Tenant] | Unlisted]:
    """Resolve each line, in order; only lines with a query connect to a server."""
    found: dict[str, list[Tenant] | Unlisted] = {}

    def read_line(line: Line) -> tuple[str, list[Tenant] | Unlisted]:
        try:
            return line.source, _of_line(line, timeout_s)
        except PipestateError as error:
            said = error
        except Exception as error:  # drivers raise many types
            said = Unreachable(without_secrets(f"{type(error).__name__}: {error}", line.url))
        return line.source, Unlisted(line.name or shown(line.url), line.url, line.source, said)

    if not survey(lines, read_line, jobs, lambda answer: found.update([answer])):
        raise Interrupted("interrupted while listing databases: none was checked")
    return [found[line.source] for line in lines]


def _of_line(line: Line, timeout_s: float) -> list[Tenant]:
    if line.each is None:
        return [Tenant(line.name or _name(line.url), line.url, line.source)]
    with db.reader(line.url) as connection:
        found = read(connection, line.query, timeout_s, most=MOST)
    return list(_of_rows(line, _checked(line, found)))


def _of_rows(line: Line, found: QueryResult) -> Iterator[Tenant]:
    prefix = f"{line.name}/" if line.name else ""
    for row in found.rows:
        first, *more = (str(value) for value in row if value is not None)
        if line.each is Each.SCHEMA:
            yield Tenant(prefix + first, line.url, line.source, (first, *more))
        else:
            yield Tenant(prefix + first, line.url.set(database=first), line.source)


def _checked(line: Line, found: QueryResult) -> QueryResult:
    """Refuse a query result that is empty, too long, or has rows without a name."""
    what = f"{line.source}: its query returned"
    if found.total == 0:
        raise ConfigError(f"{what} no row, and so no {line.each}")
    if found.total > MOST:
        raise ConfigError(f"{what} {many(found.total, 'row')}, and at most {MOST:,} are evaluated")
    if line.each is Each.DATABASE and len(found.columns) != 1:
        raise ConfigError(
            f"{what} {', '.join(found.columns)}: let it return one column, the name of the database"
        )
    if any(row[0] is None or row[0] == "" for row in found.rows):
        raise ConfigError(
            f"{what} a row without a name: its first column is the name of one of the {line.each}"
        )
    return found


def _name(url: URL) -> str:
    return engine_of(url).database_name(url) or shown(url)


def _with_unique_names(tenants: Sequence[Tenant]) -> Iterator[Tenant]:
    """Rename tenants with equal names: their whole address becomes the name."""
    seen: dict[str, int] = {}
    for tenant in tenants:
        seen[tenant.name] = seen.get(tenant.name, 0) + 1
    for tenant in tenants:
        yield tenant if seen[tenant.name] == 1 else replace(tenant, name=tenant.address)


def survey(items: Sequence[T], call: Callable[[T], A], jobs: int, on_answer: Callable[[A], None]) -> bool:
    """Run `call` for each item, `jobs` at a time; pass on every answer, and return True if all were run.

    Ctrl-C reaches only the main thread: it starts no further item, cancels running queries on the servers, and
    drops their answers. A second Ctrl-C is ignored: an uncancelled query would keep running.
    """
    pool, started = ThreadPoolExecutor(jobs), list[Future[A]]()
    try:
        with stopped_together():
            for item in items:
                started.append(pool.submit(call, item))
            for answer in as_completed(started):
                on_answer(answer.result())
    except KeyboardInterrupt:
        return False
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        end = time.monotonic() + PATIENCE_S
        running = [each for each in started if not each.cancelled()]
        while not all(each.done() for each in running) and time.monotonic() < end:
            with suppress(KeyboardInterrupt):
                wait(running, end - time.monotonic())
    return True
