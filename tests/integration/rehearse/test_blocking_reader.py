"""Blocking readers, and the scratch copy for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL

from attacks.project import lay_out
from pipestate.rehearse import blocking_reader
from pipestate.rehearse import blocking_reader as module
from pipestate.rehearse.blocking_reader import MOST_NAMED, PREFIX, run_beside_readers, scratch_copy
from pipestate.rehearse.clone import tables_of
from support.rehearsals import job_for
from support.servers import Database, Postgres


def is_there(database: Database, name: object) -> object:
    return database.value(f"SELECT count(*) FROM pg_database WHERE datname = '{name}'")


def copies_of(database: Database) -> list[object]:
    """List the copies that are on the server: their names begin with that of the clone."""
    mine = f"{PREFIX}{str(database.url.database)[:MOST_NAMED]}"
    return [
        name for (name,) in database.rows("SELECT datname FROM pg_database") if str(name).startswith(mine)
    ]


@pytest.fixture
def role(postgres: Postgres, pg: Database) -> Iterator[str]:
    """A role that owns the database, and may create none."""
    name = f"owner_{pg.url.database}"
    admin = Database(postgres.admin)
    admin.run(f"CREATE ROLE {name} LOGIN", f"ALTER DATABASE {pg.url.database} OWNER TO {name}")
    yield name
    admin.run(f"ALTER DATABASE {pg.url.database} OWNER TO postgres", f"DROP ROLE {name}")


def test_it_has_the_rows_and_the_settings_and_is_gone_at_the_end(pg: Database) -> None:
    name = pg.url.database
    pg.run(
        "CREATE TABLE orders AS SELECT 1 AS id",
        f"ALTER DATABASE {name} SET lock_timeout = '3s'",
        f'ALTER DATABASE {name} SET search_path = "$user", public, other',
        f"ALTER ROLE postgres IN DATABASE {name} SET work_mem = '5MB'",
    )
    with scratch_copy(pg.url) as copy:
        url, _ = copy
        assert url is not None
        found = Database(url)
        assert copies_of(pg) == [url.database]
        assert found.value("SELECT id FROM orders") == 1
        settings = [found.value(f"SHOW {name}") for name in ("lock_timeout", "search_path", "work_mem")]
        assert settings == ["3s", '"$user", public, other', "5MB"]
    assert is_there(pg, url.database) == 0


def test_it_is_gone_after_an_error_too_and_ends_who_is_connected(pg: Database) -> None:
    def interrupted(copy: URL) -> None:
        names.append(copy.database)
        with Database(copy).connect() as somebody:
            somebody.exec_driver_sql("SELECT 1")
            raise KeyboardInterrupt

    names: list[str | None] = []
    with pytest.raises(KeyboardInterrupt), scratch_copy(pg.url) as copy:
        interrupted(copy[0] or pg.url)
    assert is_there(pg, names[0]) == 0


def test_a_role_that_may_not_create_databases_is_reported(pg: Database, role: str) -> None:
    with scratch_copy(pg.url.set(username=role)) as copy:
        assert copy == (None, "the role may not create databases")


def test_a_large_clone_is_not_copied(pg: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    with scratch_copy(pg.url) as copy:
        assert copy == (None, "the clone has more than 1 MB")


def test_a_copy_without_the_settings_is_none(pg: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTINGS", "SELECT 'ALTER DATABASE ' || :name || ' SET no_such TO 1'")
    with scratch_copy(pg.url) as copy:
        assert copy[0] is None
        assert "the clone could not be copied: unrecognized configuration parameter" in str(copy[1])
    assert copies_of(pg) == []


def test_a_session_that_is_ended_before_the_settings_leaves_no_copy(
    pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = "SELECT pg_terminate_backend(pg_backend_pid())::text || :name"
    monkeypatch.setattr(module, "SETTINGS", ended)
    with scratch_copy(pg.url) as copy:
        assert copy[0] is None
        assert "terminating connection due to administrator command" in str(copy[1])
    assert copies_of(pg) == []


def test_whatever_happens_before_the_settings_leaves_no_copy(
    pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM, as a shell's `timeout` sends it, becomes SystemExit where somebody handles it so."""

    def stop(*_: object) -> None:
        assert len(copies_of(pg)) == 1
        raise SystemExit(143)

    monkeypatch.setattr(module, "SETTINGS", "SELECT 'a setting of ' || :name")
    monkeypatch.setattr("pipestate.database.connections.send", stop)
    with pytest.raises(SystemExit), scratch_copy(pg.url):
        pass
    assert copies_of(pg) == []


@pytest.fixture
def directory(tmp_path: Path, pg: Database) -> Path:
    project = lay_out("blocking_reader", tmp_path, pg)
    assert project.alembic("upgrade", "a1").returncode == 0
    return tmp_path


@pytest.mark.scene
def test_each_request_meets_a_reader_and_is_reported_by_how_it_waits(
    directory: Path, pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that gave up for good is run again; nobody waits for ever, whatever it waits for."""
    monkeypatch.setattr(blocking_reader, "READER_MS", 1000.0)
    tables = {table.name: table for table in tables_of(pg.url)}
    requests = {
        "b2": [tables["orders"]],
        "c3": [tables["orders"]],
        "d4": [tables["orders"], tables["order_log"]],
        "e5": [tables["orders"]],
        "f6": [tables["orders"]],
    }
    found, failure = run_beside_readers(job_for(directory, pg), [("upgrade", "f6")], requests)
    assert failure is None
    assert pg.value("SELECT version_num FROM alembic_version") == "f6"
    gave_up = {(each.revision, each.table): each.gave_up for each in found}
    assert gave_up.pop(("d4", "order_log"), True)  # behind the one before it, it may find its table free
    assert gave_up == {
        ("b2", "orders"): False,
        ("c3", "orders"): True,
        ("d4", "orders"): True,
        ("e5", "orders"): False,
    }
    waited = {each.revision: each.waited_ms for each in found if each.table == "orders"}
    assert waited["c3"] < 1000 <= waited["b2"]


@pytest.mark.scene
def test_a_failure_that_is_no_readers_is_reported(directory: Path, pg: Database) -> None:
    log = [table for table in tables_of(pg.url) if table.name == "order_log"]
    pg.run("DROP TABLE orders")
    found, failure = run_beside_readers(job_for(directory, pg), [("upgrade", "b2")], {"b2": log})
    assert failure is not None
    assert 'relation "orders" does not exist' in failure.message
    assert found == []
