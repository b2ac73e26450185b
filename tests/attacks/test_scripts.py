"""A gate in a script: however psql is set up and however the script is run, a closed one lets nothing through."""

from pathlib import Path

import pytest

from attacks.orders import State, approve, state_of
from attacks.project import Project
from attacks.psql import feed, paste, without_psql_commands
from attacks.worlds import Status, World
from support.servers import Database

ON_ERROR_ROLLBACK = "\\set ON_ERROR_ROLLBACK on\n"
INTERACTIVE = "\\set ON_ERROR_ROLLBACK interactive\n"


@pytest.fixture(params=["as written", "without psql's own commands"])
def given(request: pytest.FixtureRequest, script: str) -> str:
    """The script whole; and as it is for those who paste it from BEGIN on, or into another program."""
    return script if request.param == "as written" else without_psql_commands(script)


def write_psqlrc(directory: Path, text: str) -> Path:
    path = directory / "psqlrc"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_open_gate_goes_through(world: World, given: str, opened: Database) -> None:
    said = feed(opened, given)
    assert world.state(opened) == world.after, said


@pytest.mark.parametrize("stop", ["on", "off"])
def test_a_psql_that_goes_on_after_errors_drops_nothing(
    world: World, given: str, closed: Database, stop: str
) -> None:
    said = feed(
        closed, given.replace("ON_ERROR_STOP on", f"ON_ERROR_STOP {stop}"), "-v", f"ON_ERROR_STOP={stop}"
    )
    assert world.state(closed) == world.before
    assert "is closed" in said


def test_a_psqlrc_with_on_error_rollback_drops_nothing(
    world: World, given: str, closed: Database, tmp_path: Path
) -> None:
    feed(closed, given, psqlrc=write_psqlrc(tmp_path, ON_ERROR_ROLLBACK))
    assert world.state(closed) == world.before


def test_a_psqlrc_with_on_error_rollback_does_not_stop_an_open_gate(
    world: World, given: str, opened: Database, tmp_path: Path
) -> None:
    said = feed(opened, given, psqlrc=write_psqlrc(tmp_path, ON_ERROR_ROLLBACK))
    assert world.state(opened) == world.after, said


def test_pasted_into_a_terminal_with_on_error_rollback_interactive_it_drops_nothing(
    world: World, given: str, closed: Database, tmp_path: Path
) -> None:
    screen = paste(closed, given, write_psqlrc(tmp_path, INTERACTIVE))
    assert world.state(closed) == world.before
    assert "is closed" in screen


def test_pasted_into_a_terminal_an_open_gate_goes_through(
    world: World, script: str, opened: Database, tmp_path: Path
) -> None:
    screen = paste(opened, script, write_psqlrc(tmp_path, INTERACTIVE))
    assert world.state(opened) == world.after, screen


@pytest.mark.parametrize("rc", ["", ON_ERROR_ROLLBACK, "\\set AUTOCOMMIT off\n"])
def test_in_a_single_transaction_of_psql_it_drops_nothing(
    world: World, given: str, closed: Database, tmp_path: Path, rc: str
) -> None:
    feed(closed, given, "-1", psqlrc=write_psqlrc(tmp_path, rc))
    assert world.state(closed) == world.before


@pytest.mark.parametrize("rc", ["", ON_ERROR_ROLLBACK, "\\set AUTOCOMMIT off\n"])
def test_inside_a_begin_of_somebody_elses_it_drops_nothing(
    world: World, given: str, closed: Database, tmp_path: Path, rc: str
) -> None:
    feed(closed, f"BEGIN;\n{given}\nCOMMIT;\n", psqlrc=write_psqlrc(tmp_path, rc))
    assert world.state(closed) == world.before


def test_inside_savepoints_of_somebody_elses_it_drops_nothing(
    world: World, script: str, closed: Database
) -> None:
    """What a program does that keeps a savepoint a statement, as ON_ERROR_ROLLBACK in another client."""
    inner = "".join(
        line for line in without_psql_commands(script).splitlines(keepends=True) if line.strip() != "COMMIT;"
    )
    parts = inner.split("BEGIN;\n", 1)
    feed(closed, f"{parts[0]}BEGIN;\n{parts[-1]}\nCOMMIT;\n", "-v", "ON_ERROR_ROLLBACK=on")
    assert world.state(closed) == world.before


def test_a_client_that_leaves_out_begin_and_commit_drops_nothing(
    world: World, script: str, closed: Database
) -> None:
    """Each statement is then a transaction of its own, and no gate stands in that of the DROP."""
    lines = without_psql_commands(script).splitlines(keepends=True)
    feed(closed, "".join(line for line in lines if line.strip() not in ("BEGIN;", "COMMIT;")))
    assert world.state(closed) == world.before


def test_run_twice_it_does_nothing_more(world: World, script: str, opened: Database) -> None:
    for _ in range(2):
        feed(opened, without_psql_commands(script))
        assert world.state(opened) == world.after


def test_run_at_another_revision_it_does_nothing(standing: Status, script: str) -> None:
    """A script that starts where the database is not: one revision further, and one behind."""
    database = standing.opened()
    version = standing.world.version_table
    database.run(f"UPDATE {version} SET version_num = 'somewhere'")
    feed(database, without_psql_commands(script))
    assert database.rows(f"SELECT version_num FROM {version}") == [("somewhere",)]
    database.run(f"UPDATE {version} SET version_num = '{standing.world.starts_at}'")
    assert standing.world.state(database) == standing.world.before


def test_a_script_run_again_spares_a_table_that_came_back(gated: Project) -> None:
    """The application of last week still runs somewhere, and has created and filled its table again."""
    approve(gated)
    script = without_psql_commands(gated.script("b2:c3"))
    feed(gated.database, script)
    assert state_of(gated.database) == State("c3", None)
    gated.database.run("CREATE TABLE old_orders AS SELECT 1 AS id, timestamp '2020-01-01' AS written_at")
    feed(gated.database, script)
    assert state_of(gated.database) == State("c3", 1)
