"""The roles that the documentation describes can do what it says, and nothing more."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations
from support.documentation import Shell, examples, find_page, lay_out
from support.legacy_database import everything_legacy, fill_legacy, without_derived
from support.servers import Database, Postgres

MakeRole = Callable[..., Database]


@pytest.fixture
def make_role(pg_legacy: Migrations) -> Iterator[MakeRole]:
    """Run the SQL of a page that makes the role; roles belong to the whole server, so under another name."""
    database, made = pg_legacy.database, []

    def make(page: str, role: str, owner: str = str(database.url.username)) -> Database:
        name = f"{role}_{database.url.database}"
        made.append(name)
        for example in examples(find_page(page)):
            if example.language == "sql" and role in example.text:
                script = example.text.replace("shop_owner", owner)
                database.run(re.sub(rf"\b{role}\b", name, script))
        return Database(database.url.set(username=name, password="change me"))

    yield make
    for name in made:
        database.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def shell_of(database: Database, directory: Path) -> Shell:
    checkout = directory / "checkout"
    checkout.mkdir()
    lay_out(checkout, [])
    return Shell(checkout, {"DATABASE_URL": database.text})


def test_the_read_only_role_can_verify_and_cannot_write(
    pg_legacy: Migrations, make_role: MakeRole, tmp_path: Path
) -> None:
    pg_legacy.contract()
    reader = make_role("roles.md", "pipestate_reader")
    shell = shell_of(reader, tmp_path)
    done = shell.run("pipestate verify sites-consolidation content-item-pipeline-state")
    assert done.returncode == 1, done.stdout + done.stderr  # only watched-24h is missing
    assert "errored" not in done.stdout
    assert "0007" in shell.run("alembic current").stdout
    done = shell.run("pipestate attest watched-24h --by me")
    assert done.returncode == 3
    assert "read-only transaction" in done.stderr
    with pytest.raises(DBAPIError, match=r"permission denied|read-only"):
        reader.run("SET transaction_read_only = off", "DELETE FROM sites")


def test_the_read_only_role_can_read_what_the_owner_creates_later(
    pg_legacy: Migrations, make_role: MakeRole
) -> None:
    """The script runs as an administrator; the tables of the next revision are the owner's."""
    pg_legacy.upgrade("0002")
    database = pg_legacy.database
    owner = f"shop_{database.url.database}"
    database.run(f"CREATE ROLE {owner}", f"GRANT CREATE ON SCHEMA public TO {owner}")
    reader = make_role("roles.md", "pipestate_reader", owner)
    database.run(f"SET ROLE {owner}", "CREATE TABLE later (id int)", "RESET ROLE")
    assert reader.rows("SELECT * FROM later") == []
    reader.engine.dispose()
    database.run(f"DROP OWNED BY {owner}", f"DROP ROLE {owner}")


def test_the_recorder_can_write_into_the_ledger_and_nowhere_else(
    pg_legacy: Migrations, make_role: MakeRole, tmp_path: Path
) -> None:
    pg_legacy.upgrade("0005")
    recorder = make_role("roles.md", "pipestate_recorder")
    shell = shell_of(recorder, tmp_path)
    for command in (
        "pipestate verify content-item-pipeline-state --record",
        "pipestate attest backup-taken --by dba@example.com",
        "pipestate observe --set failed_ocr_jobs=0",
        "pipestate history",
    ):
        done = shell.run(command)
        assert done.returncode == 0, command + done.stderr
    for statement in (
        "DELETE FROM pipestate.run",
        "UPDATE pipestate.result SET outcome = 'passed'",
        "UPDATE sites SET status = 'x'",
    ):
        with pytest.raises(DBAPIError, match="permission denied"):
            recorder.run(statement)


def test_the_operator_can_reconcile_and_cannot_touch_the_rest(
    pg_legacy: Migrations, make_role: MakeRole, tmp_path: Path, redis_url: str
) -> None:
    pg_legacy.upgrade("0005")
    pg_legacy.database.run(
        "INSERT INTO sites (subdomain, current_stage, ocr_total, ocr_completed) VALUES ('a.gov', 'ocr', 1, 1)"
    )
    operator = make_role("operations.md", "pipestate_operator")
    shell = shell_of(operator, tmp_path)
    shell.environment["REDIS_URL"] = redis_url
    for command in ("observe", "reconcile", "verify content-item-pipeline-state --record", "status"):
        done = shell.run(f"pipestate {command}")
        assert done.returncode == 0, command + done.stderr
    assert operator.rows("SELECT found, recovered, failed FROM pipeline_reconciliation") == [(1, 1, 0)]
    for statement in ("DELETE FROM sites", "DELETE FROM pipestate.run", "DROP TABLE site_progress"):
        with pytest.raises(DBAPIError, match=r"permission denied|must be owner"):
            operator.run(statement)


def test_the_query_for_session_replication_role_tells_who_may(
    pg_legacy: Migrations, make_role: MakeRole
) -> None:
    pg_legacy.upgrade("0002")
    database = pg_legacy.database
    recorder = make_role("roles.md", "pipestate_recorder")
    (query,) = [
        example.text
        for example in examples(find_page("postgresql.md"))
        if "set_config('session_replication_role'" in example.text
    ]
    database.run(query)
    with pytest.raises(DBAPIError, match="permission denied to set parameter"):
        recorder.run(query)
    if int(str(database.value("SHOW server_version_num"))) >= 150000:
        database.run(f"GRANT SET ON PARAMETER session_replication_role TO {recorder.url.username}")
        recorder.run(query)


def test_an_owner_who_may_not_create_a_schema_can_expand_and_loses_nothing(postgres: Postgres) -> None:
    """The right to create one is needed only where they are missing; as on a managed service."""
    database = postgres.create()
    role = f"owner_{database.url.database}"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"GRANT CREATE, USAGE ON SCHEMA public TO {role}")
    owner = Database(database.url.set(username=role, password="x"))
    fill_legacy(owner, sites=20)
    with pytest.raises(MigrationError, match="permission denied for database"):
        Migrations(owner).upgrade("0005")
    assert Migrations(owner).revision() is None
    database.run(
        *(f"CREATE SCHEMA {name} AUTHORIZATION {role}" for name in ("pipestate", "pipestate_archive"))
    )
    before = everything_legacy(owner)
    Migrations(owner).contract()
    assert Migrations(owner).revision() == "0007"
    Migrations(owner).downgrade("0005")
    assert without_derived(everything_legacy(owner), before) == before
    owner.engine.dispose()
    postgres.drop(database)
    Database(postgres.admin).run(f"DROP ROLE {role}")
