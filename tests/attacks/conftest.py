"""Fixtures of the attacks: projects of strangers, on databases copied from a template, and roles."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attacks import attacked, orders
from attacks.contracts import lay_out_contract
from attacks.project import Project, lay_out
from attacks.worlds import WORLDS, Status, World
from support.servers import Database, Postgres

MakeRole = Callable[..., Database]


@pytest.fixture
def make_role(postgres: Postgres) -> Iterator[MakeRole]:
    """Roles belong to the whole server: they get the database's name, and go when that is gone."""
    made: list[str] = []

    def make(database: Database, options: str = "") -> Database:
        name = f"{database.url.database}_{len(made)}"
        database.run(f"CREATE ROLE {name} LOGIN PASSWORD 'x' {options}")
        made.append(name)
        return Database(database.url.set(username=name, password="x"))

    yield make
    for name in made:
        Database(postgres.admin).run(f"DROP ROLE {name}")


@pytest.fixture
def gated(postgres: Postgres, make_role: MakeRole, tmp_path: Path) -> Iterator[Project]:
    """The project `attacked` at b2, with three orders that its closed gate protects."""
    del make_role  # roles can only go when the database is gone
    database = postgres.copy_of("attacked", lambda fresh: orders.fill(fresh, tmp_path / "template"))
    yield lay_out("attacked", tmp_path / "project", database)
    postgres.drop(database)


@pytest.fixture(scope="module")
def approved_database(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The database of `gated` with its gate open, for all tests of a module that only look at it."""
    template = tmp_path_factory.mktemp("template")
    database = postgres.copy_of("attacked", lambda fresh: orders.fill(fresh, template))
    database.run(orders.APPROVAL)
    yield database
    postgres.drop(database)


@pytest.fixture
def approved(approved_database: Database, tmp_path: Path) -> Project:
    """The project with its gate open, for attacks that change its files and only look at its database."""
    return lay_out("attacked", tmp_path / "project", approved_database)


@pytest.fixture
def contract(postgres: Postgres, make_role: MakeRole, tmp_path: Path) -> Iterator[Project]:
    """The project `attacked_contract` at a1, without a table."""
    del make_role  # roles can only go when the database is gone

    def fill(fresh: Database) -> None:
        done = lay_out_contract(tmp_path / "template", fresh).alembic("upgrade", "a1")
        assert done.returncode == 0, done.stderr
        attacked.install_ledger(fresh, tmp_path / "template")

    database = postgres.copy_of("attacked contract", fill)
    yield lay_out_contract(tmp_path / "project", database)
    postgres.drop(database)


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    """What a script is tried on."""
    return WORLDS[request.param]


@pytest.fixture(scope="module")
def standing(world: World, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Status]:
    databases = Status(world, postgres, tmp_path_factory.mktemp("template"))
    yield databases
    databases.drop()


@pytest.fixture(scope="module")
def script(standing: Status, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The world's script, as `alembic upgrade … --sql` wrote it."""
    return standing.world.write_script(standing.opened(), tmp_path_factory.mktemp("project"))


@pytest.fixture
def opened(standing: Status) -> Database:
    """A database whose gate is open."""
    return standing.opened()


@pytest.fixture
def closed(standing: Status) -> Database:
    """A database whose gate is closed."""
    return standing.closed()
