"""`pipestate compat`: what the code of today will find after the pending revisions."""

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from attacks.project import Project, lay_out
from bed import Database, Postgres
from pipestate.render.compat import SCHEMA

pytestmark = pytest.mark.scene

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
    done = project.pipestate("compat", "--on", clone.text, "--statements", "today.sql", "--json", "--record")
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    broken = [(each["statement"].split()[0], each["revision"], each["what"]) for each in data["broken"]]
    assert broken == [
        ("SELECT", "c3", 'column "old_status" does not exist'),
        ("INSERT", "c3", 'relation "order_log" does not exist'),
    ]
    assert [(each["what"], each["revision"]) for each in data["changed"]] == [
        ("returns without old_status", "c3")
    ]
    assert [each["statement"].split()[0] for each in data["unprepared"]] == ["VACUUM", "SELECT"]
    assert list(data["unprepared_by_reason"].values()) == [1, 1]
    assert (data["statements"], Path(data["broken"][0]["path"]).name) == (7, "c3_no_log.py")


DEMAND = """
```sql
-- check: understood
-- dialect: postgresql
-- require: broken = 0 and age_seconds <= 3600
SELECT broken, age_seconds FROM pipestate.compat WHERE revision = 'c3';
```

```sql
-- check: rehearsed
-- dialect: postgresql
-- level: warn
-- require: rows = 1
SELECT 1 FROM pipestate.rehearsed WHERE revision = 'c3';
```
"""


def test_a_record_lets_a_check_demand_it_and_is_no_rehearsal(project: Project, clone: Database) -> None:
    project.database.run("INSERT INTO approvals VALUES ('the log')", "INSERT INTO order_log VALUES (1, 'x')")
    project.write("runbooks/shop.md", project.read("runbooks/shop.md") + DEMAND)
    project.write("today.sql", "SELECT id FROM orders")
    assert project.pipestate("gate", "shop/ready").returncode == 1
    done = project.pipestate(
        *("compat", "--on", clone.text, "--statements", "today.sql"),
        *("--record", "--format", "markdown", "-o", "comment.md"),
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert project.read("comment.md").startswith("### ✅ pipestate compat: 1 statement: 0 would break")
    gate = project.pipestate("gate", "shop/ready", "--json")
    outcomes = {
        each["id"]: each["outcome"] for each in json.loads(gate.stdout)["runbooks"][0]["phases"][0]["checks"]
    }
    assert (gate.returncode, outcomes["understood"], outcomes["rehearsed"]) == (0, "passed", "failed")
    (line,) = json.loads(project.pipestate("history", "--event", "compat", "--json").stdout)
    assert line["what"].startswith("c3, d4: 0 of 1 statement would break, 0 return other columns on ")
    assert "c3" not in project.pipestate("history", "--event", "rehearsal").stdout


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
