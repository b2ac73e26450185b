"""Whole rehearsals, called as a function: production's rows beside the clone's, and what may go wrong on the way."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from attacks.project import Project, lay_out
from pipestate.cli.formats.rehearse import rehearsal_as_lines
from pipestate.core.errors import Unreachable
from pipestate.rehearse import blocking_reader
from pipestate.rehearse.compat import compat
from pipestate.rehearse.impact import STRONGEST, LimitVerdict, Rehearsal
from pipestate.rehearse.run import rehearse
from support.rehearsals import job_for
from support.servers import Database, Postgres

pytestmark = pytest.mark.scene


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Project:
    made = lay_out("blocking_reader", tmp_path, pg)
    assert made.alembic("upgrade", "a1").returncode == 0
    return made


@pytest.fixture
def clone(postgres: Postgres, project: Project) -> Iterator[Database]:
    made = postgres.create(project.database.url.database)
    yield made
    postgres.drop(made)


def screen(found: Rehearsal) -> str:
    return " ".join(" ".join(rehearsal_as_lines(found)).split())


def silent(_: object) -> None:
    pass


def test_estimates_are_scaled_to_productions_rows_up_to_ten_times(
    project: Project, clone: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_reader, "READER_MS", 1000.0)
    production = project.database
    for database, orders, lines in ((clone, 100, 10), (production, 450, 500)):
        database.run(
            f"INSERT INTO orders SELECT generate_series(1, {orders})",
            f"INSERT INTO order_log SELECT generate_series(1, {lines})",
            "ANALYZE orders, order_log",
        )
    found = rehearse(job_for(project.root, clone, production), ["g7"], 60_000.0, silent)
    impacts = {(each.revision, each.table): each for each in found.tables if STRONGEST in each.modes}
    assert {key: each.scale for key, each in impacts.items()} == {
        ("b2", "orders"): 4.5,
        ("c3", "orders"): 4.5,
        ("d4", "orders"): 4.5,
        ("d4", "order_log"): None,
        ("e5", "orders"): 4.5,
        ("g7", "order_log"): None,
    }
    assert found.longest_wait_ms >= impacts["b2", "orders"].wait_ms * 4.5
    assert "in production 450 rows: estimates × 4.5" in screen(found)
    assert "in production 500 rows: more than 10 × is a guess" in screen(found)
    unknown = [(each.revision, each.table) for each in found.findings if each.verdict is LimitVerdict.UNKNOWN]
    assert unknown == [("d4", "order_log"), ("g7", "order_log")]
    assert (found.exit_code, found.not_tried) == (1, None)
    gives_up = {each.revision: each.gives_up for each in found.tables if each.encounter}
    assert gives_up == {"b2": False, "c3": True, "d4": True, "e5": True, "g7": False}


def test_a_clone_that_vanishes_on_the_way_is_one_sentence(
    project: Project, clone: Database, postgres: Postgres
) -> None:
    given = job_for(project.root, clone, project.database)
    lost = r"clone .*; the clone may be half migrated, so use a new one; production was not touched$"
    with pytest.raises(Unreachable, match=lost):
        rehearse(given, ["g7"], say=silent, begins=lambda _: postgres.drop(clone))
    again = postgres.create(project.database.url.database)
    with pytest.raises(Unreachable, match=lost):
        compat(
            replace(given, clone=again.url),
            ["g7"],
            ["SELECT 1"],
            silent,
            begins=lambda _: postgres.drop(again),
        )


def test_a_revision_that_fails_in_the_middle_leaves_the_clone_there_and_says_so(
    project: Project, clone: Database
) -> None:
    project.edit("migrations/versions/d4_polite.py", ("ADD COLUMN d4", "ADD COLUMN c3"))
    found = rehearse(job_for(project.root, clone, project.database), ["g7"], say=silent)
    assert (found.exit_code, found.after) == (1, "c3")
    assert 'd4_polite.py:12): column "c3" of relation "orders" already exists' in screen(found)
    assert "The clone is at c3 now, production was not touched." in screen(found)
    assert project.database.value("SELECT version_num FROM alembic_version") == "a1"


def test_production_is_only_read(project: Project, clone: Database) -> None:
    """Its transactions may not write, and the role may read and nothing else."""
    production = project.database
    role = f"reader_{production.url.database}"
    production.run(
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
        f"ALTER ROLE {role} SET default_transaction_read_only = on",
    )
    known = Database(production.url.set(username=role))
    try:
        found = rehearse(job_for(project.root, clone, known), ["b2"], say=silent)
    finally:
        production.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    assert (found.exit_code, found.after) == (0, "b2")
