"""`pipestate ready` on real servers: behind, at head, newer, several heads, no version table, unreachable."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import event

from pipestate.config import parse_url
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.migration.postgresql.session import one_migration_at_a_time
from pipestate.project.find import Named, find_project
from pipestate.project.ready import Readiness, read_readiness
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import Locator, locator
from support.programs import run_program
from support.servers import Database

Enter = Callable[[str], Path]
AT_ONCE = 50


def locate(option: str | None = None) -> Locator:
    project = find_project(Named())
    return locator(project, read_migrations(project), option)


def readiness(database: Database, option: str | None = None) -> Readiness:
    return read_readiness(database.url, locate(option))


def version_table(name: str, *revisions: str) -> list[str]:
    rows = [f"INSERT INTO {name} VALUES ('{revision}')" for revision in revisions]
    return [f"CREATE TABLE {name} (version_num varchar(32) NOT NULL PRIMARY KEY)", *rows]


@pytest.mark.parametrize(
    ("project", "stored", "ok", "sentence"),
    [
        ("stock", ["a1"], False, "behind: the database is at a1 and lacks b2"),
        ("stock", ["b2"], True, "ready: the database is at b2"),
        ("stock", [], False, "behind: the database is at base and lacks a1 and b2"),
        (
            "stock",
            ["zz"],
            True,
            "ready: the database is at zz, newer than this code, which does not know zz",
        ),
        ("stock", ["a1", "zz"], False, "behind: the database is at a1 zz and lacks b2"),
        ("branches", ["left1", "right1"], False, None),
        ("branches", ["left1", "zz"], False, None),
    ],
)
def test_a_version_table_is_compared_with_the_migrations(
    database: Database,
    miniature: Enter,
    project: str,
    stored: list[str],
    ok: bool,
    sentence: str | None,
) -> None:
    miniature(project)
    database.run(*version_table("alembic_version", *stored))
    found = readiness(database)
    assert found.ok is ok
    assert sentence is None or found.sentence == sentence


def test_every_head_of_several_is_wanted(database: Database, miniature: Enter) -> None:
    miniature("branches")
    first, *others = read_migrations(find_project(Named())).heads
    assert others
    database.run(*version_table("alembic_version", first))
    assert not readiness(database).ok
    database.run(*(f"INSERT INTO alembic_version VALUES ('{head}')" for head in others))
    assert readiness(database).ok
    database.run(f"UPDATE alembic_version SET version_num = 'zz' WHERE version_num = '{first}'")
    assert readiness(database).ok, "zz may follow the head that it took the place of"


def test_no_version_table_is_behind(database: Database, miniature: Enter) -> None:
    miniature("stock")
    assert readiness(database).sentence == "behind: the database has no version table and lacks a1 and b2"


def test_a_version_table_that_cannot_be_read_is_said(pg: Database, miniature: Enter) -> None:
    miniature("stock")
    pg.run("CREATE SCHEMA hidden", *version_table("hidden.alembic_version", "b2"))
    assert readiness(pg).ok, "the only one there is"
    with pytest.raises(ConfigError, match="names the version table other"):
        readiness(pg, "other")
    assert readiness(pg, "hidden.alembic_version").ok


def test_a_server_that_does_not_answer_is_unreachable(miniature: Enter) -> None:
    miniature("stock")
    with pytest.raises(Unreachable, match="cannot reach"):
        read_readiness(parse_url("postgresql://app@127.0.0.1:1/shop"), locate())


def test_one_query_is_sent(pg: Database, miniature: Enter, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipestate.database import connections as db

    miniature("stock")
    pg.run(*version_table("alembic_version", "b2"))
    sent: list[str] = []
    make = db.engine_for

    def listening(*arguments: object, **options: object) -> object:
        engine = make(*arguments, **options)  # type: ignore[arg-type]
        event.listen(engine, "before_cursor_execute", lambda *reported: sent.append(reported[2]))
        return engine

    monkeypatch.setattr(db, "engine_for", listening)
    assert readiness(pg).ok
    assert [each for each in sent if "set_config" not in each] == [
        'SELECT version_num FROM "alembic_version" ORDER BY 1'
    ]


def test_fifty_at_once_do_not_queue_behind_a_migration(pg: Database, miniature: Enter) -> None:
    """A migration holds its lock, and has changed the version row: all fifty answer before it ends."""
    miniature("stock")
    pg.run(*version_table("alembic_version", "a1"))
    found, together = locate(), threading.Barrier(AT_ONCE)

    def read(_: int) -> Readiness:
        together.wait()
        return read_readiness(pg.url, found)

    with pg.connect() as migrating, one_migration_at_a_time(migrating):
        migrating.exec_driver_sql("UPDATE alembic_version SET version_num = 'b2'")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(read, range(AT_ONCE)))
        migrating.commit()
    assert {answer.stored for answer in answers} == {("a1",)}
    assert readiness(pg).ok


def command(database: Database, root: Path, *options: str) -> tuple[int, str, str]:
    environment = {**os.environ, "DATABASE_URL": database.text}
    done = run_program(["pipestate", "ready", *options], cwd=root, environment=environment)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_the_command_exits_with_its_answer(database: Database, miniature: Enter) -> None:
    root = miniature("stock")
    assert command(database, root) == (
        1,
        "behind: the database has no version table and lacks a1 and b2",
        "",
    )
    database.run(*version_table("alembic_version", "b2"))
    assert command(database, root) == (0, "ready: the database is at b2", "")
    code, out, err = command(database, root, "--wait", "soon")
    assert (code, out) == (2, "")
    assert "--wait soon: write" in err


def test_the_command_waits_until_it_is_ready(database: Database, miniature: Enter) -> None:
    root = miniature("stock")
    database.run(*version_table("alembic_version", "a1"))
    later = threading.Timer(2.0, database.run, ["UPDATE alembic_version SET version_num = 'b2'"])
    later.start()
    code, out, err = command(database, root, "--wait", "1m")
    later.join()
    assert (code, out) == (0, "ready: the database is at b2")
    assert err == "waiting: behind: the database is at a1 and lacks b2"


def test_the_command_ends_when_the_time_is_over(pg: Database, miniature: Enter) -> None:
    root = miniature("stock")
    code, out, _ = command(pg, root, "--wait", "1s")
    assert (code, out) == (1, "behind: the database has no version table and lacks a1 and b2")
    gone = Database(parse_url("postgresql://app:s3cret@127.0.0.1:1/shop"))
    code, out, err = command(gone, root, "--wait", "1s")
    assert (code, out) == (3, "")
    assert err.startswith("waiting: cannot reach")
    assert "s3cret" not in err
