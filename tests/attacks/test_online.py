"""A gate inside a migration: which page it reads, what that page must say, and when it looks."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attacks import attacked
from attacks.orders import AT_B2, AT_D4, CONTRACT, PAGE, State, approve, assert_refused, state_of
from attacks.project import PROJECTS, Project
from attacks.psql import feed
from attacks.sessions import uncommitted, wait_until, waits_for_lock, while_committing
from attacks.worlds import TABLES
from support.servers import Postgres

PHASE = 'ready: {from: "b2", until: "c3", opens: ["c3"]}'
APPROVED = """-- check: approved
-- require: rows >= 1
SELECT what FROM approvals WHERE what = 'drop old_orders';
"""
# A page of the same name on which everything holds.
EASY = """---
runbook: orders
default: true
phases:
  ready: {from: "b2", until: "c3", opens: ["c3"]}
---
# Orders

## Phase: ready

```sql
-- check: quiet
-- require: recent = 0
SELECT 0 AS recent;
```

```sql
-- check: approved
-- require: rows >= 1
SELECT 1 AS what;
```
"""


def test_an_open_gate_goes_through(gated: Project) -> None:
    approve(gated)
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_a_closed_gate_says_why_and_leaves_everything(gated: Project) -> None:
    done = gated.alembic("upgrade", "head")
    assert_refused(done, gated.database, "the gate orders/ready is closed", "approved: ")


# --- The page is the one beside the alembic.ini ----------------------------------------------------


@pytest.mark.parametrize(
    "planted",
    ["orders", "orders.md", "runbooks/orders.md", "runbooks/orders", "migrations/runbooks/orders.md"],
)
def test_a_file_named_like_the_runbook_in_the_current_directory_replaces_nothing(
    gated: Project, tmp_path: Path, planted: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / planted).parent.mkdir(parents=True)
    (elsewhere / planted).write_text(EASY)
    ini = str(gated.root / "alembic.ini")
    done = gated.alembic("-c", ini, "upgrade", "head", cwd=elsewhere)
    assert_refused(done, gated.database, "the gate orders/ready is closed")
    assert gated.pipestate("gate", "orders/ready", "--config", ini, cwd=elsewhere).returncode == 1
    assert gated.pipestate("verify", "orders", "--config", ini, cwd=elsewhere).returncode == 1


@pytest.mark.parametrize("planted", ["orders", "orders.md"])
def test_a_file_named_like_the_runbook_in_the_project_replaces_nothing(gated: Project, planted: str) -> None:
    (gated.root / planted).write_text(EASY)
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")


def test_a_deleted_page_opens_nothing(gated: Project) -> None:
    approve(gated)
    (gated.root / PAGE).unlink()
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "orders")
    shutil.rmtree(gated.root / "runbooks")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "orders")


def test_a_phase_that_does_not_exist_opens_nothing(gated: Project) -> None:
    approve(gated)
    gated.edit(CONTRACT, ("orders/ready", "orders/redy"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "redy", "orders/ready")


def test_a_phase_that_opens_another_revision_opens_nothing(gated: Project) -> None:
    approve(gated)
    gated.edit(PAGE, ('opens: ["c3"]', 'opens: ["d4"]'))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "c3")


@pytest.mark.parametrize("dash", ["—", "–", "#", "//"])
def test_a_check_whose_dashes_an_editor_has_changed_is_not_prose(gated: Project, dash: str) -> None:
    gated.edit(CONTRACT, ('must_pass=["quiet", "approved"],', ""), ('recheck=["quiet"],', ""))
    gated.edit(PAGE, ("-- check: approved\n-- require", f"{dash} check: approved\n{dash} require"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "is not read: write `-- check:")
    assert gated.pipestate("runbook", "lint").returncode == 2


@pytest.mark.parametrize("language", ["sql+jinja", "mysql", "SQL-postgres"])
def test_a_check_in_a_fence_of_almost_sql_is_not_prose(gated: Project, language: str) -> None:
    gated.edit(CONTRACT, ('must_pass=["quiet", "approved"],', ""), ('recheck=["quiet"],', ""))
    gated.edit(PAGE, ("```sql\n-- check: approved", f"```{language}\n-- check: approved"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "write ```sql, because other")


def test_a_page_that_cannot_be_read_opens_nothing(gated: Project) -> None:
    approve(gated)
    gated.edit(PAGE, ("-- require: recent = 0\n", ""))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "orders.md:")


# --- Nothing to ask is closed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "phase",
    [
        'ready: {from: "b2", until: "b2", opens: ["c3"]}',
        'ready: {from: "a1", until: "b2", opens: ["b2", "c3"]}',
        'ready: {from: "c3", opens: ["c3"]}',
    ],
)
def test_a_phase_that_does_not_apply_at_the_revision_opens_nothing(gated: Project, phase: str) -> None:
    approve(gated)
    gated.edit(PAGE, (PHASE, phase))
    assert_refused(gated.alembic("upgrade", "head"), gated.database)


@pytest.mark.parametrize("directive", ["until: b2", "from: c3", "level: warn", "dialect: sqlite"])
def test_checks_that_are_all_skipped_or_warnings_open_nothing(gated: Project, directive: str) -> None:
    gated.write(PAGE, EASY.replace("-- require:", f"-- {directive}\n-- require:"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database)


# --- What a revision insists on is asked, now, and closes the gate ---------------------------------


@pytest.mark.parametrize(
    "change",
    [
        ("-- check: approved\n", "-- check: approved\n-- level: warn\n"),
        ("-- check: approved\n", "-- check: approved\n-- until: b2\n"),
        ("-- check: approved\n", "-- check: approved\n-- from: c3\n"),
        ("-- check: approved\n", "-- check: approved\n-- dialect: sqlite\n"),
        (f"```sql\n{APPROVED}```\n", ""),
        (f"```sql\n{APPROVED}```\n", f"```text\n{APPROVED}```\n"),
        (f"```sql\n{APPROVED}```\n", f"<!--\n```sql\n{APPROVED}```\n-->\n"),
    ],
    ids=["a warning", "until", "from", "for SQLite only", "gone", "a fence of text", "a comment"],
)
def test_a_page_that_no_longer_asks_what_the_revision_insists_on_opens_nothing(
    gated: Project, change: tuple[str, str]
) -> None:
    """`approved` does not hold; all that is left of it on the page is its id, or not even that."""
    gated.edit(PAGE, change)
    assert_refused(gated.alembic("upgrade", "head"), gated.database)
    feed(gated.database, gated.script("b2:head"))
    assert state_of(gated.database) == AT_B2


def test_what_is_asked_again_under_the_lock_may_not_have_become_a_warning(gated: Project) -> None:
    approve(gated)
    gated.edit(PAGE, ("-- check: quiet\n", "-- check: quiet\n-- level: warn\n"))
    gated.edit(CONTRACT, ('must_pass=["quiet", "approved"]', 'must_pass=["approved"]'))
    gated.database.run("UPDATE old_orders SET written_at = now()")
    assert_refused(gated.alembic("upgrade", "head"), gated.database)


def test_a_sign_off_that_has_become_a_warning_of_its_name_opens_nothing(gated: Project) -> None:
    approve(gated)
    gated.edit(
        CONTRACT, ('must_pass=["quiet", "approved"]', 'must_pass=["quiet", "approved", "backup-taken"]')
    )
    check = "\n```sql\n-- check: backup-taken\n-- level: warn\n-- require: n = 0\nSELECT 0 AS n;\n```\n"
    gated.write(PAGE, gated.read(PAGE) + check)
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "backup-taken")


# --- Between the first look and the lock -----------------------------------------------------------

LATE = "UPDATE old_orders SET written_at = now() WHERE id = 1"


def set_isolation(project: Project, level: str) -> None:
    name = project.database.url.database
    project.database.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_write_between_the_look_and_the_lock_is_seen(gated: Project, isolation: str) -> None:
    """The second look must not read a snapshot that is older than its lock."""
    approve(gated)
    set_isolation(gated, isolation)
    done = while_committing(gated.database, "old_orders", LATE, lambda: gated.alembic("upgrade", "head"))
    assert_refused(done, gated.database)


def test_a_gate_that_is_not_asked_says_so(gated: Project) -> None:
    gated.database.run("DELETE FROM old_orders")
    done = gated.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert "was not evaluated: there is no row in old_orders, so nothing can be lost" in done.stderr


def test_rows_that_come_into_an_empty_table_before_the_lock_are_judged(gated: Project) -> None:
    gated.database.run("DELETE FROM old_orders")
    rows = "INSERT INTO old_orders SELECT n, '2020-01-01' FROM generate_series(1, 3) AS n"
    done = while_committing(gated.database, "old_orders", rows, lambda: gated.alembic("upgrade", "head"))
    assert_refused(done, gated.database, "approved: ")


def test_a_page_edited_between_the_looks_changes_nothing(gated: Project) -> None:
    """While the migration waits for its lock, a write makes the gate's answer no, and somebody eases the page."""
    approve(gated)
    with uncommitted(gated.database, LATE) as writer, ThreadPoolExecutor(1) as pool:
        attacking = pool.submit(gated.alembic, "upgrade", "head")
        wait_until(lambda: waits_for_lock(gated.database, "old_orders"), "the migration waits")
        gated.write(PAGE, EASY)
        writer.commit()
        assert_refused(attacking.result(), gated.database, "quiet: ")


# --- The shipped migrations -----------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
@pytest.mark.parametrize("way", ["alembic", "psql"])
def test_a_write_between_the_look_and_the_lock_of_0006_is_seen(
    postgres: Postgres, tmp_path: Path, way: str, isolation: str
) -> None:
    database = postgres.copy_of("attacked shipped-tables", lambda fresh: TABLES.fill(fresh, tmp_path))
    name = database.url.database
    database.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    root, url = attacked.shipped_ini().parent, {"DATABASE_URL": database.text}

    def attack() -> object:
        if way == "psql":
            return feed(database, TABLES.write_script(database, tmp_path))
        return attacked.run("alembic", "upgrade", "head", cwd=root, environment=url)

    while_committing(database, "site_progress", "UPDATE site_progress SET updated_at = now()", attack)
    assert TABLES.state(database) == TABLES.before
    postgres.drop(database)


# --- Empty means empty before this transaction -----------------------------------------------------

EMPTYING = {
    "DELETE": 'op.execute("DELETE FROM old_orders")',
    "TRUNCATE": 'op.execute("TRUNCATE old_orders")',
    "DELETE below a savepoint": "with op.get_bind().begin_nested():\n        op.execute('DELETE FROM old_orders')",
}
EMPTIED = [name for name in EMPTYING if "savepoint" not in name]


def empty_before_gate(project: Project, how: str) -> None:
    """Empty the table in the revision of the gate, before it is asked."""
    body = EMPTYING[how]
    project.edit(CONTRACT, ("    with gate(\n", f"    {body}\n    with gate(\n"))


@pytest.mark.parametrize("how", EMPTYING)
@pytest.mark.parametrize("environment", ["stock", "guarded", "asynchronous"])
def test_a_table_that_the_revision_has_emptied_is_not_empty(
    gated: Project, how: str, environment: str
) -> None:
    empty_before_gate(gated, how)
    if environment == "asynchronous":
        text = (PROJECTS / "shop_environments" / "asynchronous.py").read_text(encoding="utf-8")
        gated.write("migrations/env.py", text)
        gated.edit("alembic.ini", ("postgresql+psycopg2://", "postgresql+asyncpg://"))
    elif environment != "stock":
        gated.use_environment(environment)
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "is closed")


@pytest.mark.parametrize("how", EMPTIED)
def test_a_table_that_a_script_has_emptied_is_not_empty(gated: Project, how: str) -> None:
    empty_before_gate(gated, how)
    said = feed(gated.database, gated.script("b2:head"))
    assert "is closed" in said
    assert state_of(gated.database) == AT_B2


@pytest.mark.parametrize("how", EMPTIED)
@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_a_table_that_an_earlier_revision_of_the_run_has_emptied_is_not_empty(
    gated: Project, how: str, script: bool
) -> None:
    """With the stock env.py all revisions are one transaction."""
    gated.edit(
        "migrations/versions/b2_new_orders.py",
        ("def upgrade() -> None:\n", f"def upgrade() -> None:\n    {EMPTYING[how]}\n"),
    )
    gated.database.run("DROP TABLE new_orders", "UPDATE alembic_version SET version_num = 'a1'")
    if script:
        feed(gated.database, gated.script("a1:head"))
    else:
        assert gated.alembic("upgrade", "head").returncode != 0
    assert state_of(gated.database) == State("a1", 3)


def test_a_partition_that_was_emptied_is_not_empty(gated: Project) -> None:
    gated.database.run(
        "ALTER TABLE old_orders RENAME TO old_part",
        "CREATE TABLE old_orders (id int, written_at timestamp NOT NULL, note text) PARTITION BY RANGE (id)",
        "ALTER TABLE old_orders ATTACH PARTITION old_part FOR VALUES FROM (0) TO (100)",
    )
    empty_before_gate(gated, "DELETE")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "is closed")


def test_a_table_that_was_emptied_before_needs_no_gate(gated: Project) -> None:
    gated.database.run("DELETE FROM old_orders")
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_a_fresh_database_goes_to_the_head_in_one_transaction(gated: Project) -> None:
    """What this run created holds nothing that was there before."""
    gated.database.run("DROP TABLE old_orders, new_orders, approvals", "DELETE FROM alembic_version")
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_a_table_that_an_earlier_transaction_of_the_run_has_emptied_is_empty(gated: Project) -> None:
    """The server's counter of deleted rows may still hold the transaction before."""
    gated.use_environment("per_migration")
    emptying = f"def upgrade() -> None:\n    {EMPTYING['DELETE']}\n"
    gated.edit("migrations/versions/b2_new_orders.py", ("def upgrade() -> None:\n", emptying))
    gated.database.run("DROP TABLE new_orders", "UPDATE alembic_version SET version_num = 'a1'")
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


SPELT = [
    "Old_Orders",
    "OLD_ORDERS",
    "public.Old_Orders",
    "PUBLIC.old_orders",
    'public."old_orders"',
    " old_orders",
]


@pytest.mark.parametrize("spelt", SPELT)
@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_another_spelling_is_not_a_table_that_is_gone(gated: Project, spelt: str, script: bool) -> None:
    """`may_be_gone` would open the gate, and PostgreSQL drops the table under its other spelling."""
    gated.edit(CONTRACT, ('lock=["old_orders"],', f"lock=[{spelt!r}], may_be_gone=True,"))
    if script:
        said = feed(gated.database, gated.script("b2:head"))
        assert state_of(gated.database) == AT_B2
    else:
        done = gated.alembic("upgrade", "head")
        assert_refused(done, gated.database)
        said = done.stdout + done.stderr
    assert f"{spelt} does not exist, and old_orders does" in said
