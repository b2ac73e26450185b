"""Where a database stands, on real servers: the version table is found, or its candidates are named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection

from pipestate.core.errors import ConfigError
from pipestate.database.connections import reader
from pipestate.project.find import Named, find_project
from pipestate.project.graph import Position
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from support.runbook_samples import block, page, verify, write
from support.servers import Database, Postgres

Enter = Callable[[str], Path]


def stand(database: Database, option: str | None = None) -> Position:
    project = find_project(Named())
    with reader(database.url) as connection:
        position = locator(project, read_migrations(project), option)(connection)
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1, "the transaction goes on"
        return position


def version_table(name: str, *revisions: str) -> list[str]:
    rows = [f"INSERT INTO {name} VALUES ('{revision}')" for revision in revisions]
    return [f"CREATE TABLE {name} (version_num varchar(32) NOT NULL PRIMARY KEY)", *rows]


def test_the_default_table(database: Database, miniature: Enter) -> None:
    miniature("stock")
    assert stand(database).current is None
    database.run(*version_table("alembic_version"))
    assert stand(database).current is None
    database.run("INSERT INTO alembic_version VALUES ('a1')")
    position = stand(database)
    assert (position.current, position.head, set(position.applied)) == ("a1", "b2", {"a1"})


def test_another_projects_revision(database: Database, miniature: Enter) -> None:
    miniature("stock")
    database.run(*version_table("alembic_version", "ffff"))
    with pytest.raises(ConfigError, match="the database is at revision ffff"):
        stand(database)


def test_several_heads(database: Database, miniature: Enter) -> None:
    miniature("branches")
    database.run(*version_table("alembic_version", "left1", "right1"))
    position = stand(database)
    assert (position.current, set(position.applied)) == ("left1 right1", {"r0", "left1", "right1"})


def test_a_table_that_env_py_computes_is_found_by_its_rows(database: Database, miniature: Enter) -> None:
    miniature("stock")
    Path("alembic/env.py").write_text("import acme\nacme.migrate()\n")
    database.run(*version_table('"Our Versions"', "a1"), "CREATE TABLE documents (version_num integer)")
    assert stand(database).current == "a1"
    database.run(*version_table("copy", "b2"))
    with pytest.raises(ConfigError, match="Our Versions \\(a1\\)"):
        stand(database)
    assert stand(database, "copy").current == "b2"


def test_a_table_and_schema_of_its_own(pg: Database, miniature: Enter) -> None:
    miniature("own_version_table")
    pg.run(*version_table("alembic_version", "ffff"))
    assert stand(pg).current is None
    pg.run("CREATE SCHEMA billing", *version_table("billing.billing_version", "c1"))
    assert stand(pg).current == "c1"
    assert stand(pg, "billing.billing_version").current == "c1"


def test_the_default_table_in_a_schema_that_is_not_on_the_path(pg: Database, miniature: Enter) -> None:
    miniature("stock")
    pg.run("CREATE SCHEMA app", *version_table("app.alembic_version", "b2"))
    assert stand(pg).current == "b2"
    pg.run("CREATE SCHEMA other", *version_table("other.alembic_version", "a1"))
    with pytest.raises(ConfigError, match=r"app\.alembic_version \(b2\), other\.alembic_version \(a1\)"):
        stand(pg)
    assert stand(pg, "other.alembic_version").current == "a1"


def test_a_table_that_may_not_be_read(postgres: Postgres, pg: Database, miniature: Enter) -> None:
    miniature("stock")
    role = f"reader_{pg.url.database}"
    pg.run(
        *version_table("alembic_version", "a1"),
        "CREATE SCHEMA app",
        *version_table("app.alembic_version", "a1"),
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
    )
    theirs = Database(pg.url.set(username=role, password="x"))
    try:
        with pytest.raises(ConfigError, match=r"public\.alembic_version \(may not be read\)"):
            stand(theirs)
        pg.run(f"GRANT SELECT ON alembic_version TO {role}")
        assert stand(theirs).current == "a1"
        with pytest.raises(ConfigError, match=r"version table app\.alembic_version may not be read"):
            stand(theirs, "app.alembic_version")
    finally:
        theirs.engine.dispose()
        pg.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_the_shipped_migrations_beside_an_applications_own(database: Database) -> None:
    """Its ini names its version table; the application's may even hold the same ids."""
    project = find_project(Named(shipped=True))
    where = locator(project, read_migrations(project))
    database.run(*version_table("alembic_version", "0003"))
    with reader(database.url) as connection:
        assert where(connection).current is None
    database.run(*version_table("pipestate_alembic_version", "0005"))
    with reader(database.url) as connection:
        assert where(connection).current == "0005"


def test_the_position_and_the_checks_are_of_one_snapshot(pg: Database, tmp_path: Path) -> None:
    """A migration that ends between the two cannot make them disagree: one connection reads both."""
    pg.run("CREATE TABLE seen (n integer)")
    position = Position(frozenset(), frozenset(), None, None)
    pids: list[object] = []

    def locate(connection: Connection) -> Position:
        pids.append(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar())
        pg.run("INSERT INTO seen VALUES (1)")
        return position

    sql = "SELECT pg_backend_pid() AS pid, (SELECT count(*) FROM seen) AS late"
    book = write(tmp_path, page(block(sql, require="pid > 0 and late = 0")))
    (verdict,) = verify(pg.url, [(book, book.phases[0])], locate).verdicts()
    assert str(verdict.outcome) == "passed", verdict.message
    assert [verdict.observed["pid"]] == pids
