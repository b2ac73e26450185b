"""The same gate on SQLite: what is behind it stands or falls as one, and PostgreSQL's checks open nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.attacked import Done
from attacks.orders import APPROVAL, BODY, CONTRACT, PAGE
from attacks.project import Project, lay_out
from support.servers import Database, Sqlite

PAGE_TEXT = """---
runbook: orders
default: true
phases:
  ready: {from: "b2", until: "c3", opens: ["c3"]}
---
# Orders

## Phase: ready

```sql
-- check: approved
-- require: rows >= 1
SELECT what FROM approvals WHERE what = 'drop old_orders';
```
"""


@pytest.fixture(params=["stock", "guarded"])
def file(request: pytest.FixtureRequest, sqlite: Sqlite, tmp_path: Path) -> Iterator[Project]:
    """The project on a file of SQLite, at b2, with three orders; under each env.py."""
    database = sqlite.create()
    project = lay_out("attacked", tmp_path / "project", database)
    project.write(PAGE, PAGE_TEXT)
    project.edit(
        CONTRACT, ('recheck=["quiet"],', 'recheck=["approved"],'), ('["quiet", "approved"]', '["approved"]')
    )
    done = project.alembic("upgrade", "b2")
    assert done.returncode == 0, done.stderr
    database.run(
        "INSERT INTO old_orders VALUES (1, '2020-01-01', 'a'), (2, '2020-01-01', 'b'), (3, '2020-01-01', 'c')"
    )
    if request.param == "guarded":
        project.use_environment("guarded")
    yield project
    sqlite.drop(database)


def state(database: Database) -> tuple[object, ...]:
    """Version, and the rows of old_orders where there is one."""
    there = database.value("SELECT count(*) FROM sqlite_master WHERE name = 'old_orders'")
    rows = database.value("SELECT count(*) FROM old_orders") if there else None
    return database.value("SELECT version_num FROM alembic_version"), rows


def assert_refused(done: Done, database: Database) -> None:
    assert done.returncode != 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert state(database) == ("b2", 3)


def test_a_closed_gate_leaves_everything(file: Project) -> None:
    assert_refused(file.alembic("upgrade", "head"), file.database)


@pytest.mark.parametrize("lock", ["empty_one", "old_orders"])
@pytest.mark.parametrize(
    "body", ["DROP TABLE customers", "ALTER TABLE customers DROP COLUMN name", "DROP TABLE CUSTOMERS"]
)
def test_the_body_of_a_gate_destroys_nothing_that_the_gate_names_not(
    file: Project, body: str, lock: str
) -> None:
    file.database.run(
        APPROVAL,
        "CREATE TABLE customers (id int, name text)",
        "INSERT INTO customers VALUES (1, 'a')",
        "CREATE TABLE empty_one (id int)",
    )
    file.edit(CONTRACT, ('lock=["old_orders"]', f'lock=["{lock}"]'), ('"DROP TABLE old_orders"', repr(body)))
    assert_refused(file.alembic("upgrade", "c3"), file.database)
    assert file.database.rows("SELECT * FROM customers") == [(1, "a")]


def test_the_body_of_a_gate_may_rename_and_copy_other_tables(file: Project) -> None:
    file.database.run(
        APPROVAL, "CREATE TABLE customers (id int, name text)", "INSERT INTO customers VALUES (1, 'a')"
    )
    body = (
        BODY,
        'op.execute("ALTER TABLE customers RENAME TO clients")',
        'with op.batch_alter_table("clients", recreate="always") as batch:',
        '    batch.alter_column("name", nullable=False)',
    )
    file.edit(CONTRACT, (BODY, "\n        ".join(body)))
    done = file.alembic("upgrade", "c3")
    assert state(file.database) == ("c3", None), done.stderr
    assert file.database.rows("SELECT * FROM clients") == [(1, "a")]


def test_an_open_gate_goes_through_or_says_what_it_needs(file: Project) -> None:
    """The stock env.py has no transaction that holds DDL: the gate begins one, or it refuses."""
    file.database.run(APPROVAL)
    done = file.alembic("upgrade", "head")
    if done.returncode == 0:
        assert state(file.database) == ("d4", None)
    else:
        assert "guard" in done.stderr
        assert_refused(done, file.database)


def test_a_body_that_fails_after_the_drop_has_dropped_nothing(file: Project) -> None:
    file.database.run(APPROVAL)
    file.edit(CONTRACT, (BODY, f'{BODY}\n        op.execute("SELECT * FROM no_such_table")'))
    done = file.alembic("upgrade", "head")
    assert done.returncode != 0
    assert state(file.database) == ("b2", 3)


@pytest.mark.parametrize("hidden", ["approvals", "OLD_ORDERS"])
def test_a_temporary_table_approves_nothing(file: Project, hidden: str) -> None:
    """SQLite finds it before the one of the file: one that approves, or one that is empty, with nothing to lose."""
    made = f"CREATE TEMP TABLE {hidden} AS SELECT 'drop old_orders' AS what WHERE '{hidden}' = 'approvals'"
    file.edit(CONTRACT, ("    with gate(", f'    op.execute("{made}")\n    with gate('))
    file.edit(CONTRACT, (BODY, 'op.execute("DROP TABLE main.old_orders")'))
    assert_refused(file.alembic("upgrade", "head"), file.database)


def test_checks_that_are_for_postgresql_open_nothing(file: Project) -> None:
    file.database.run(APPROVAL)
    file.edit(PAGE, ("-- check: approved\n", "-- check: approved\n-- dialect: postgresql\n"))
    assert_refused(file.alembic("upgrade", "head"), file.database)


def test_a_script_is_refused(file: Project) -> None:
    file.database.run(APPROVAL)
    done = file.alembic("upgrade", "b2:head", "--sql")
    assert_refused(done, file.database)
    assert "DROP TABLE old_orders" not in done.stdout


@pytest.mark.parametrize("sql", ["SELECT 1 AS what; DROP TABLE old_orders", "PRAGMA writable_schema = on"])
def test_a_check_that_is_no_plain_read_runs_nothing(file: Project, sql: str) -> None:
    file.edit(PAGE, ("SELECT what FROM approvals WHERE what = 'drop old_orders'", sql))
    assert_refused(file.alembic("upgrade", "head"), file.database)
    assert file.pipestate("verify").returncode == 2


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_table_that_the_revision_has_emptied_is_not_empty(file: Project, mode: str) -> None:
    """Empty means empty before this transaction."""
    file.database.run(f"PRAGMA journal_mode = {mode}")
    file.edit(CONTRACT, ("    with gate(", '    op.execute("DELETE FROM old_orders")\n    with gate('))
    done = file.alembic("upgrade", "head")
    assert_refused(done, file.database)
    assert "the gate orders/ready is closed" in done.stderr


def test_a_table_that_was_emptied_before_needs_no_gate(file: Project) -> None:
    file.database.run("DELETE FROM old_orders")
    done = file.alembic("upgrade", "head")
    assert (done.returncode, state(file.database)) == (0, ("d4", None)), done.stderr
