"""`pipestate compat`: what the code of today will find after the pending revisions."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from attacks.project import Project, lay_out
from support.documentation import find_schema
from support.servers import Database, Postgres

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
    jsonschema.validate(data, json.loads(find_schema("compat").read_text()))
    broken = [(each["statement"].split()[0], each["revision"], each["what"]) for each in data["broken"]]
    assert broken == [
        ("SELECT", "c3", 'column "old_status" does not exist'),
        ("INSERT", "c3", 'relation "order_log" does not exist'),
    ]
    assert [(each["what"], each["revision"]) for each in data["changed"]] == [
        ("returns without old_status", "c3")
    ]
    assert [each["statement"].split()[0] for each in data["unprepared"]] == ["VACUUM", "SELECT"]
    assert data["unprepared"][0]["what"] == "a command that cannot be prepared"
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
    assert not re.search(r"\bc3\b", project.pipestate("history", "--event", "rehearsal").stdout)


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


def revisions(project: Project, *statements: str) -> list[str]:
    """Write revisions after d4, each of one statement; return their ids."""
    ids = [f"x{number}" for number in range(1, len(statements) + 1)]
    for revision, below, statement in zip(ids, ["d4", *ids], statements, strict=False):
        project.write(
            f"migrations/versions/{revision}.py",
            f"from alembic import op\n\nrevision, down_revision = {revision!r}, {below!r}\n\n\n"
            f"def upgrade():\n    op.execute({statement!r})\n",
        )
    return ids


TABLES = (
    "CREATE TABLE tickets (id int PRIMARY KEY, code text, state text)",
    "CREATE UNIQUE INDEX ux_tickets_code ON tickets (code)",
)


@pytest.fixture
def tickets(project: Project, clone: Database) -> Project:
    for database in (project.database, clone):
        database.run(*TABLES)
    return project


@pytest.mark.parametrize(
    ("change", "statement", "error"),
    [
        ("ALTER TABLE tickets ADD kind text NOT NULL", "INSERT INTO tickets (id, code) VALUES ($1, $2)", "kind"),
        ("ALTER TABLE tickets ADD kind text NOT NULL", "INSERT INTO tickets VALUES ($1, $2, $3)", "kind"),
        ("ALTER TABLE tickets ADD kind text NOT NULL",
         "WITH new AS (INSERT INTO tickets (id) SELECT id FROM orders RETURNING id) SELECT id FROM new", "kind"),
        ("ALTER TABLE tickets ALTER state SET NOT NULL", "INSERT INTO tickets (id) VALUES ($1)", "state"),
        ("ALTER TABLE tickets ADD kind text NOT NULL DEFAULT 'x'", "INSERT INTO tickets (id) VALUES ($1)", None),
        ("ALTER TABLE tickets ADD kind text NOT NULL", "UPDATE tickets SET code = $2 WHERE id = $1", None),
        ("ALTER TABLE tickets ADD _pipestate_3_0 boolean NOT NULL DEFAULT true", "SELECT * FROM tickets", None),
        ("DROP INDEX ux_tickets_code",
         "INSERT INTO tickets (id, code) VALUES ($1, $2) ON CONFLICT (code) DO NOTHING", "ON CONFLICT"),
        ("ALTER TABLE tickets RENAME TO all_tickets; "
         "CREATE VIEW tickets AS SELECT code, count(*) AS id FROM all_tickets GROUP BY 1",
         "SELECT code FROM tickets FOR UPDATE", "FOR UPDATE is not allowed with GROUP BY"),
        ("ALTER TABLE tickets RENAME TO all_tickets; CREATE VIEW tickets AS "
         "SELECT t.code FROM all_tickets t LEFT JOIN orders o ON o.id = t.id",
         "SELECT code FROM tickets FOR UPDATE", "nullable side of an outer join"),
        ("ALTER TABLE tickets RENAME TO all_tickets; CREATE MATERIALIZED VIEW tickets AS SELECT * FROM all_tickets",
         "SELECT code FROM tickets FOR UPDATE", "materialized view"),
    ],
)  # fmt: skip
def test_what_is_found_only_when_a_statement_is_planned(
    tickets: Project, clone: Database, change: str, statement: str, error: str | None
) -> None:
    revisions(tickets, change)
    tickets.write("today.sql", f"{statement};")
    done = tickets.pipestate("compat", "--on", clone.text, "--statements", "today.sql", "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, len(data["broken"]), data["changed"], data["unprepared"]) == (
        1 if error else 0,
        1 if error else 0,
        [],
        [],
    ), data
    assert all(error is not None and error in each["what"] for each in data["broken"])
    assert all(each["revision"] == "x1" for each in data["broken"])


def test_a_statement_that_is_broken_between_two_revisions(tickets: Project, clone: Database) -> None:
    revisions(
        tickets,
        "ALTER TABLE tickets RENAME state TO status",
        "ALTER TABLE tickets ADD kind text",
        "ALTER TABLE tickets ADD state text",
    )
    tickets.write("today.sql", "SELECT state FROM tickets;")
    done = tickets.pipestate("compat", "--on", clone.text, "--statements", "today.sql", "--json")
    (broken,) = json.loads(done.stdout)["broken"]
    assert (done.returncode, broken["revision"]) == (1, "x1")
    assert broken["what"] == 'column "state" does not exist; it works again after x3'


def test_a_hidden_column_is_a_dropped_one(tickets: Project, clone: Database) -> None:
    revisions(tickets, "ALTER TABLE tickets RENAME state TO _pipestate_1_0")
    tickets.write("today.sql", "SELECT * FROM tickets; SELECT state FROM tickets;")
    done = tickets.pipestate("compat", "--on", clone.text, "--statements", "today.sql", "--json")
    data = json.loads(done.stdout)
    assert [each["what"] for each in data["changed"]] == ["returns without state"]
    assert [each["what"] for each in data["broken"]] == ['column "state" does not exist']


def test_statements_are_compared_behind_from(tickets: Project, clone: Database) -> None:
    revisions(tickets, "ALTER TABLE tickets DROP state", "ALTER TABLE tickets DROP code")
    tickets.write("today.sql", "SELECT code FROM tickets; SELECT state FROM tickets;")
    done = tickets.pipestate(
        *("compat", "--on", clone.text, "--statements", "today.sql", "--from", "x1", "--json")
    )
    data = json.loads(done.stdout)
    assert [each["revision"] for each in data["broken"]] == ["x2"]
    assert (data["before"], len(data["unprepared"])) == ("x1", 1)
