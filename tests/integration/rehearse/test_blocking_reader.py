"""The upgrade beside a blocking reader: whoever gives up is bounded, whoever does not stops everybody."""

from pathlib import Path

import pytest

from attacks.project import lay_out
from pipestate.rehearse import blocking_reader
from pipestate.rehearse.blocking_reader import run_beside_readers
from pipestate.rehearse.clone import tables_of
from support.rehearsals import job_for
from support.servers import Database

pytestmark = pytest.mark.scene


@pytest.fixture
def directory(tmp_path: Path, pg: Database) -> Path:
    project = lay_out("patient", tmp_path, pg)
    assert project.alembic("upgrade", "a1").returncode == 0
    return tmp_path


def test_each_request_meets_a_reader_and_is_told_by_how_it_waits(
    directory: Path, pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that gave up for good is run again; nobody waits for ever, whatever it waits for."""
    monkeypatch.setattr(blocking_reader, "READER_MS", 1000.0)
    tables = {table.name: table for table in tables_of(pg.url)}
    asked = {
        "b2": [tables["orders"]],
        "c3": [tables["orders"]],
        "d4": [tables["orders"], tables["order_log"]],
        "e5": [tables["orders"]],
        "f6": [tables["orders"]],
    }
    found = run_beside_readers(job_for(directory, pg), [("upgrade", "f6")], asked)
    assert found.failure is None
    assert pg.value("SELECT version_num FROM alembic_version") == "f6"
    gave_up = {(each.revision, each.table): each.gave_up for each in found.encounters}
    assert gave_up.pop(("d4", "order_log"), True)  # behind the one before it, it may find its table free
    assert gave_up == {
        ("b2", "orders"): False,
        ("c3", "orders"): True,
        ("d4", "orders"): True,
        ("e5", "orders"): False,
    }
    waited = {each.revision: each.waited_ms for each in found.encounters if each.table == "orders"}
    assert waited["c3"] < 1000 <= waited["b2"]


def test_a_failure_that_is_no_readers_is_told(directory: Path, pg: Database) -> None:
    log = [table for table in tables_of(pg.url) if table.name == "order_log"]
    pg.run("DROP TABLE orders")
    found = run_beside_readers(job_for(directory, pg), [("upgrade", "b2")], {"b2": log})
    assert found.failure is not None
    assert 'relation "orders" does not exist' in found.failure.message
    assert found.encounters == ()
