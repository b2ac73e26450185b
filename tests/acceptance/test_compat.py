"""`pipestate compat`: what the code of today will find after the pending revisions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.project import Project, lay_out
from bed import Database, Postgres

STATEMENTS = """
-- what the code of today runs
SELECT id, old_status FROM orders WHERE id = $1;
SELECT * FROM orders WHERE status = $1 /* ; */;
INSERT INTO order_log (id, line) VALUES ($1, ';');
SELECT status, count(*) FROM orders GROUP BY 1;
UPDATE orders SET status = $2 WHERE id = $1 RETURNING id;
VACUUM orders;
SELECT * FROM nowhere
"""


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Project:
    made = lay_out("shop", tmp_path / "project", pg)
    assert made.alembic("upgrade", "b2").returncode == 0
    return made


@pytest.fixture
def clone(postgres: Postgres, project: Project) -> Iterator[Database]:
    made = postgres.create(project.database.url.database)
    yield made
    postgres.drop(made)


def test_what_breaks_and_what_changes_with_the_revision_that_does_it(
    project: Project, clone: Database
) -> None:
    project.write("today.sql", STATEMENTS)
    done = project.pipestate("compat", "--on", clone.text, "--statements", "today.sql", "--json")
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    broken = [(each["statement"].split()[0], each["revision"], each["what"]) for each in data["broken"]]
    assert broken == [
        ("SELECT", "c3", 'column "old_status" does not exist'),
        ("INSERT", "c3", 'relation "order_log" does not exist'),
    ]
    assert [(each["what"], each["revision"]) for each in data["changed"]] == [
        ("returns without old_status", "c3")
    ]
    assert [each["statement"].split()[0] for each in data["unprepared"]] == ["VACUUM", "SELECT"]
    assert (data["statements"], Path(data["broken"][0]["path"]).name) == (7, "c3_no_log.py")


def test_what_cannot_be_compared(project: Project, clone: Database) -> None:
    """Nothing of this migrates the clone: an empty file, one that is none, no extension, prose."""
    project.write("empty.sql", "-- nothing\n;")
    project.write("prose.sql", "Dear DBA, please run this.")
    said = {
        "empty.sql": "empty.sql holds no statement",
        "none.sql": "cannot read none.sql",
        "pg_stat_statements": "pg_stat_statements cannot be read on",
        "prose.sql": "none of the 1 statements can be prepared",
    }
    for source, sentence in said.items():
        done = project.pipestate("compat", "--on", clone.text, "--statements", source)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
    assert clone.value("SELECT version_num FROM alembic_version") == "b2"
