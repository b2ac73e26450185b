"""Outside a project nothing is guessed, and inside one nothing of the shipped application is served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks import attacked
from attacks.attacked import Done
from attacks.orders import State, state_of
from attacks.project import Project
from support.servers import Database, Postgres

COMMANDS = [
    "plan",
    "status",
    "verify",
    "verify --json",
    "verify --record",
    "verify --apply-migration",
    "verify sites-consolidation",
    "gate readiness",
    "gate sites-consolidation/readiness",
    "history",
    "attest backup-taken --by me",
    "observe --set depth=1",
    "purge --older-than 1d --yes",
    "runbook lint",
    "runbook show sites-consolidation",
    "backfill",
    "reconcile",
    "queues show",
]


@pytest.fixture(scope="module")
def nowhere(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Path]]:
    """A stranger's empty database, and a directory without an alembic.ini."""
    database = postgres.create()
    yield database, tmp_path_factory.mktemp("nowhere")
    postgres.drop(database)


def objects(database: Database) -> object:
    return database.value(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname NOT LIKE 'pg%' AND nspname <> 'information_schema'"
    )


def run(command: str, database: Database, directory: Path) -> Done:
    url = {"DATABASE_URL": database.text}
    return attacked.run("pipestate", *command.split(), cwd=directory, environment=url)


@pytest.mark.parametrize("command", COMMANDS)
def test_outside_a_project_nothing_is_served_and_nothing_is_made(
    nowhere: tuple[Database, Path], command: str
) -> None:
    database, directory = nowhere
    before = objects(database)
    done = run(command, database, directory)
    assert objects(database) == before
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "alembic.ini" in done.stdout + done.stderr
    assert "upgrade" not in done.stdout, "a stranger is told to run somebody else's migrations"


def test_the_shipped_migrations_are_served_where_it_is_named(nowhere: tuple[Database, Path]) -> None:
    database, directory = nowhere
    ini = str(attacked.shipped_ini())
    assert run(f"plan --config {ini}", database, directory).returncode == 0
    assert run("plan --shipped", database, directory).returncode == 0


@pytest.mark.parametrize("command", ["backfill", "reconcile", "queues show", "queues clear"])
def test_in_a_project_of_their_own_the_application_s_commands_refuse(gated: Project, command: str) -> None:
    before = objects(gated.database)
    done = gated.pipestate(*command.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert objects(gated.database) == before


def test_a_runbook_of_the_shipped_ones_is_not_served_to_a_project(gated: Project) -> None:
    assert gated.pipestate("verify", "sites-consolidation").returncode == 2
    assert gated.pipestate("gate", "sites-consolidation/readiness").returncode == 2


def test_a_project_without_runbooks_is_not_given_the_shipped_ones(gated: Project) -> None:
    (gated.root / "runbooks" / "orders.md").unlink()
    (gated.root / "runbooks").rmdir()
    for command in (["verify"], ["gate", "readiness"], ["runbook", "lint"]):
        done = gated.pipestate(*command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "sites-consolidation" not in done.stdout + done.stderr


def test_apply_migration_migrates_the_database_that_was_named_or_none(
    gated: Project, postgres: Postgres
) -> None:
    """An env.py with settings of its own ignores what it is told; the wrong database stays as it is."""
    assert gated.alembic("downgrade", "a1").returncode == 0
    other = postgres.create(str(gated.database.url.database))
    gated.write("settings.txt", other.url.render_as_string(hide_password=False))
    gated.use_environment("settings_of_its_own")
    done = gated.pipestate("verify", "--apply-migration", "--database-url", gated.database.text)
    assert state_of(other) == State("a1", 3), done.stderr
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    postgres.drop(other)
