"""Helpers are calls of functions in the server: their text stands once, and nothing else is called in their place."""

import subprocess
from collections.abc import Iterator

import pytest

from pipestate.ddl import lock_tables
from pipestate.ledger.functions import routines
from pipestate.ledger.install import install
from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations, psql, script_for
from support.revision_context import revision
from support.servers import Database, Postgres, postgres_binary

ALTERED = "CREATE OR REPLACE PROCEDURE pipestate.say(the_sentence text) LANGUAGE plpgsql AS $$ BEGIN END $$"


@pytest.fixture
def elsewhere(postgres: Postgres) -> Iterator[Database]:
    database = postgres.create()
    yield database
    postgres.drop(database)


@pytest.fixture
def without_temporary(pg: Database) -> Iterator[Database]:
    name = f"{pg.url.database}_plain"
    pg.run(
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'",
        f"REVOKE TEMPORARY ON DATABASE {pg.url.database} FROM PUBLIC",
        "CREATE TABLE orders (id int)",
        f"ALTER TABLE orders OWNER TO {name}",
    )
    database = Database(pg.url.set(username=name, password="x"))
    yield database
    database.engine.dispose()
    pg.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_script_of_all_migrations_has_the_text_of_each_function_once() -> None:
    script = script_for("postgresql://", "upgrade", "base:head")
    repeated = {routine.name for routine in routines() if script.count(routine.statement) != 1}
    assert repeated == set()


def test_helpers_call_no_function_that_was_altered(pg_legacy: Migrations) -> None:
    pg_legacy.upgrade("0002")
    pg_legacy.database.run(ALTERED)
    with pytest.raises(MigrationError, match="were altered; to update them: pipestate ledger install"):
        pg_legacy.upgrade("0003")
    done = psql(pg_legacy.database, pg_legacy.script("upgrade", "0002:0003"))
    assert "are not those that this script was written for" in done.stderr
    assert pg_legacy.revision() == "0002"
    with pg_legacy.database.begin() as connection:
        install(connection)
    pg_legacy.upgrade("0003")
    assert pg_legacy.revision() == "0003"


def test_a_dump_that_is_restored_elsewhere_goes_on(pg_legacy: Migrations, elsewhere: Database) -> None:
    pg_legacy.upgrade("0004")
    dumped = subprocess.run(
        [postgres_binary("pg_dump"), "--format=custom", pg_legacy.database.text],
        capture_output=True,
        timeout=120,
        check=True,
    )
    done = subprocess.run(
        [postgres_binary("pg_restore"), f"--dbname={elsewhere.text}"],
        input=dumped.stdout,
        capture_output=True,
        timeout=120,
        check=False,
    )
    said = [line for line in done.stderr.decode().splitlines() if "error:" in line]
    # A program that is newer than the server sets what that does not know.
    assert [line for line in said if "transaction_timeout" not in line] == []
    restored = Migrations(elsewhere)
    restored.upgrade("0005")
    assert psql(elsewhere, restored.script("downgrade", "0005:0004")).returncode == 0
    assert restored.revision() == "0004"


def test_without_a_ledger_the_missing_right_is_named(without_temporary: Database) -> None:
    with pytest.raises(MigrationError, match="GRANT TEMPORARY ON DATABASE"), revision(without_temporary):
        lock_tables("orders")
