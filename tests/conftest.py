"""Fixtures: a server a worker, a database a test, both engines through one fixture."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from compileall import compile_dir
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

import pipestate
from support.alembic_runs import ROOT, Migrations
from support.legacy_database import Rows, everything_legacy, fill_legacy, fill_legacy_at
from support.miniatures import copy_project
from support.programs import collect_seldom
from support.queue_scene import Scene
from support.servers import Database, Postgres, Sqlite, memory, postgres_server, redis_server

collect_ignore_glob = ["projects/*"]  # miniature projects: material, not tests

# Which database and project a command means, whom it tells and how wide its output is, each test says itself.
NAMED = (
    "PIPESTATE_DATABASE_URL",
    "DATABASE_URL",
    "ALEMBIC_CONFIG",
    "PIPESTATE_NOTIFY_URL",
    "PIPESTATE_ACTOR",
    "GITHUB_ACTOR",
    "GITLAB_USER_LOGIN",
    "COLUMNS",
    "LINES",
)
for name in NAMED:
    os.environ.pop(name, None)
LONGEST = ("test_wheel", "test_production_scene", "test_screens", "test_rehearse", "test_ci", "test_demo")
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"  # web servers of tests are here
# Tests rewrite revisions; within a second, and of the same length, Python would take what it compiled before.
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
# pytest keeps the tests that it has rewritten, though: that is half of collecting them.
sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    """Compile the package and its migrations once, for the hundreds of programs that may not keep what they compile."""
    if not hasattr(config, "workerinput"):
        for directory in (Path(pipestate.__file__).parent, ROOT / "alembic"):
            compile_dir(str(directory), quiet=2)


def pytest_runtest_setup() -> None:
    """Hear Ctrl-C, and so let programs of tests hear it.

    What a shell runs in the background ignores it, and so does a worker in which a command has ended with an error.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: at the end of the run nobody then waits for a single test."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def pytest_collection_finish() -> None:
    """Keep no more bytecode, and leave thousands of collected tests out of every later garbage collection."""
    sys.dont_write_bytecode = True
    collect_seldom()


def legacy_at(bed: Postgres | Sqlite, revision: str) -> Database:
    """Copy the old world as it is at a revision of the expansion."""
    return bed.copy_of(f"legacy at {revision}", partial(fill_legacy_at, revision=revision))


def fill_contracted(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).contract()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as url:
        server = Postgres(url)
        yield server
        server.drop_templates()


@pytest.fixture(scope="session")
def sqlite() -> Iterator[Sqlite]:
    with TemporaryDirectory(prefix="pipestate-sqlite-", dir=memory()) as directory:
        yield Sqlite(Path(directory))


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture(params=["postgresql", "sqlite"])
def bed(request: pytest.FixtureRequest) -> Postgres | Sqlite:
    """The engine under test: what runs on both takes this, or a fixture made from it."""
    server: Postgres | Sqlite = request.getfixturevalue(
        "postgres" if request.param == "postgresql" else "sqlite"
    )
    return server


@pytest.fixture
def database(bed: Postgres | Sqlite) -> Iterator[Database]:
    """An empty database, on each engine."""
    database = bed.create()
    yield database
    bed.drop(database)


@pytest.fixture
def legacy(bed: Postgres | Sqlite) -> Iterator[Database]:
    """The old world, on each engine: 300 sites in an application's own tables."""
    database = bed.copy_of("legacy", fill_legacy)
    yield database
    bed.drop(database)


@pytest.fixture
def legacy_0003(bed: Postgres | Sqlite) -> Iterator[Migrations]:
    """The old world with counters, and without the pipeline state: at 0003."""
    database = legacy_at(bed, "0003")
    yield Migrations(database)
    bed.drop(database)


@pytest.fixture
def legacy_0005(bed: Postgres | Sqlite) -> Iterator[Database]:
    """The old world, expanded: at 0005."""
    database = legacy_at(bed, "0005")
    yield database
    bed.drop(database)


@pytest.fixture
def expanded(legacy_0005: Database) -> Migrations:
    return Migrations(legacy_0005)


@pytest.fixture
def contracted(bed: Postgres | Sqlite) -> Iterator[Migrations]:
    """The old world, contracted through its open gate: at 0007."""
    database = bed.copy_of("legacy at 0007", fill_contracted)
    yield Migrations(database)
    bed.drop(database)


@pytest.fixture
def legacy_rows(bed: Postgres | Sqlite) -> Rows:
    """Every row and value of the old world, as they were before any migration."""
    database = bed.copy_of("legacy", fill_legacy)
    rows = everything_legacy(database)
    bed.drop(database)
    return rows


@pytest.fixture
def migrations(database: Database) -> Migrations:
    return Migrations(database)


@pytest.fixture
def legacy_migrations(legacy: Database) -> Migrations:
    return Migrations(legacy)


@pytest.fixture
def pg(postgres: Postgres) -> Iterator[Database]:
    """An empty database, PostgreSQL only."""
    database = postgres.create()
    yield database
    postgres.drop(database)


@pytest.fixture
def pg_migrations(pg: Database) -> Migrations:
    return Migrations(pg)


@pytest.fixture
def pg_legacy(postgres: Postgres) -> Iterator[Migrations]:
    """The old world, PostgreSQL only."""
    database = postgres.copy_of("legacy", fill_legacy)
    yield Migrations(database)
    postgres.drop(database)


@pytest.fixture
def pg_0002(postgres: Postgres) -> Iterator[Migrations]:
    """The old world with a ledger, PostgreSQL only."""
    database = legacy_at(postgres, "0002")
    yield Migrations(database)
    postgres.drop(database)


@pytest.fixture
def pg_0003(postgres: Postgres) -> Iterator[Migrations]:
    """The old world at 0003, PostgreSQL only."""
    database = legacy_at(postgres, "0003")
    yield Migrations(database)
    postgres.drop(database)


@pytest.fixture
def pg_expanded(postgres: Postgres) -> Iterator[Migrations]:
    """The old world at 0005, PostgreSQL only."""
    database = legacy_at(postgres, "0005")
    yield Migrations(database)
    postgres.drop(database)


@pytest.fixture
def pg_contracted(postgres: Postgres) -> Iterator[Migrations]:
    """The old world at 0007, PostgreSQL only."""
    database = postgres.copy_of("legacy at 0007", fill_contracted)
    yield Migrations(database)
    postgres.drop(database)


@pytest.fixture
def sqlite_database(sqlite: Sqlite) -> Iterator[Database]:
    database = sqlite.create()
    yield database
    sqlite.drop(database)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty directory to be another project in."""
    return tmp_path


@pytest.fixture
def miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Go into a copy of a miniature project."""

    def enter(name: str) -> Path:
        directory = copy_project(name, tmp_path)
        monkeypatch.chdir(directory)
        return directory

    return enter


@pytest.fixture
def queues_url(redis_url: str) -> str:
    """A database of Redis to itself."""
    return redis_url.rpartition("/")[0] + "/9"


@pytest.fixture
def scene(queues_url: str) -> Iterator[Scene]:
    with Redis.from_url(queues_url) as redis:
        redis.flushdb()
        yield Scene(redis)
        redis.flushdb()
