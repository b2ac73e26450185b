"""The databases and schemas that a list means: queries are run, and what is named twice is asked once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import URL

from pipestate import db
from pipestate.config import shown, without_secrets
from pipestate.engines.engine import engine_of
from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.fleet.listing import Each, Line
from pipestate.fleet.survey import survey
from pipestate.interrupt import Interrupted
from pipestate.plural import many
from pipestate.verify.read import read
from pipestate.verify.values import QueryResult

MOST = 100_000  # rows of one query


@dataclass(frozen=True, slots=True)
class Tenant:
    """A database, or with `path` a schema of one: the first of the path; `source` is its line in the list."""

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
        """What tells two tenants apart, however their URLs are spelt; users and options do not."""
        return (*engine_of(self.url).address(self.url), self.schema)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A line whose query gave no tenants, and why."""

    name: str
    url: URL
    source: str
    error: PipestateError


@dataclass(frozen=True, slots=True)
class Tenants:
    """All that a list means. `repeated` are those that it names again, at another line."""

    found: tuple[Tenant, ...]
    unlisted: tuple[Unlisted, ...] = ()
    repeated: tuple[Tenant, ...] = ()


def find_tenants(lines: Sequence[Line], timeout_s: float, jobs: int) -> Tenants:
    """Run the queries of the list, `jobs` at a time; a line that gives no tenants stops nobody."""
    once: dict[tuple[object, ...], Tenant] = {}
    repeated = []
    listed = _listed(lines, timeout_s, jobs)
    for tenant in (tenant for each in listed if not isinstance(each, Unlisted) for tenant in each):
        if tenant.identity in once:
            repeated.append(tenant)
        once.setdefault(tenant.identity, tenant)
    unlisted = tuple(each for each in listed if isinstance(each, Unlisted))
    return Tenants(tuple(_with_unique_names(list(once.values()))), unlisted, tuple(repeated))


def _listed(lines: Sequence[Line], timeout_s: float, jobs: int) -> "list[list[Tenant] | Unlisted]":
    """Say what each line means, in their order; only those with a query ask a server."""
    found: dict[str, list[Tenant] | Unlisted] = {}

    def look(line: Line) -> tuple[str, "list[Tenant] | Unlisted"]:
        try:
            return line.source, _of_line(line, timeout_s)
        except PipestateError as error:
            said = error
        except Exception as error:  # whatever a driver raises for one odd server
            said = Unreachable(without_secrets(f"{type(error).__name__}: {error}", line.url))
        return line.source, Unlisted(line.name or shown(line.url), line.url, line.source, said)

    if not survey(lines, look, jobs, lambda answer: found.update([answer])):
        raise Interrupted("the queries of the list had not ended; no database was asked")
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
    """Refuse a result that cannot be the list of a fleet: nothing, too much, or what has no name."""
    what = f"{line.source}: its query returned"
    if found.total == 0:
        raise ConfigError(f"{what} no row, and so no {line.each}")
    if found.total > MOST:
        raise ConfigError(f"{what} {many(found.total, 'row')}, and {MOST:,} are the most that are asked")
    if line.each is Each.DATABASE and len(found.columns) != 1:
        raise ConfigError(
            f"{what} {', '.join(found.columns)}: one column, the name of the database, is wanted"
        )
    if any(row[0] is None or row[0] == "" for row in found.rows):
        raise ConfigError(
            f"{what} a row without a name: its first column is the name of one of the {line.each}"
        )
    return found


def _name(url: URL) -> str:
    return engine_of(url).database_name(url) or shown(url)


def _with_unique_names(tenants: Sequence[Tenant]) -> Iterator[Tenant]:
    """Give those whose name is another's as well their whole address for a name."""
    seen: dict[str, int] = {}
    for tenant in tenants:
        seen[tenant.name] = seen.get(tenant.name, 0) + 1
    for tenant in tenants:
        yield tenant if seen[tenant.name] == 1 else replace(tenant, name=tenant.address)
