"""What `alembic --sql` writes into a script with a gate, what it refuses to write, and what the script records."""

import pytest

from attacks.conftest import MakeRole
from attacks.ledger import recorded, recorded_failures
from attacks.orders import AT_B2, AT_D4, BODY, CONTRACT, PAGE, State, approve, state_of
from attacks.project import Project
from attacks.psql import feed, without_psql_commands
from attacks.sessions import while_committing
from support.versions import sqlalchemy_is

LATE = "UPDATE old_orders SET written_at = now() WHERE id = 1"
PHASE = 'ready: {from: "b2", until: "c3", opens: ["c3"]}'


def attack(project: Project, revisions: str = "b2:head") -> str:
    """Write the script and run it, whatever the first of the two said."""
    return feed(project.database, project.script(revisions))


# --- Nothing to ask is closed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "phase",
    [
        'ready: {from: "b2", until: "b2", opens: ["c3"]}',
        'ready: {from: "a1", until: "b2", opens: ["b2", "c3"]}',
        'ready: {from: "c3", opens: ["c3"]}',
        'ready: {from: "d4", opens: ["c3"]}',
    ],
)
def test_a_phase_that_does_not_apply_at_the_revision_opens_nothing(gated: Project, phase: str) -> None:
    approve(gated)
    gated.edit(PAGE, (PHASE, phase))
    attack(gated)
    assert state_of(gated.database) == AT_B2


@pytest.mark.parametrize("directive", ["until: b2", "from: c3", "level: warn"])
def test_checks_that_are_all_skipped_or_warnings_open_nothing(gated: Project, directive: str) -> None:
    approve(gated)
    gated.edit(PAGE, ("-- require:", f"-- {directive}\n-- require:"))
    attack(gated)
    assert state_of(gated.database) == AT_B2


BRANCH = '''"""Another branch.

Revision ID: x9
Revises: a1
"""

revision = "x9"
down_revision = "a1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    pass


def downgrade() -> None:
    pass
'''


@pytest.mark.parametrize("directive", ["from: x9", "until: x9"])
def test_a_check_of_another_branch_is_not_left_out_of_a_script(gated: Project, directive: str) -> None:
    """The database has that branch, or not; a script cannot know."""
    approve(gated)
    gated.write("migrations/versions/x9_branch.py", BRANCH)
    gated.database.run("INSERT INTO alembic_version VALUES ('x9')")
    gated.add_check(f"-- {directive}\nSELECT id FROM old_orders", "rows = 0")
    done = gated.alembic("upgrade", "b2:c3", "--sql")
    assert done.returncode != 0
    assert "x9 of another branch" in done.stdout + done.stderr
    feed(gated.database, done.stdout)
    assert gated.database.value("SELECT count(*) FROM old_orders") == 3


def test_checks_that_are_for_another_engine_open_nothing(gated: Project) -> None:
    gated.edit(
        PAGE,
        ("-- dialect: postgresql", "-- dialect: sqlite"),
        ("-- check: approved", "-- check: approved\n-- dialect: sqlite"),
        ("now() - interval '24 hours'", "datetime('now', '-1 day')"),
    )
    attack(gated)
    assert state_of(gated.database) == AT_B2


# --- Between the first look and the lock -----------------------------------------------------------


def test_a_gate_that_is_not_asked_says_so(gated: Project) -> None:
    gated.database.run("DELETE FROM old_orders")
    said = feed(gated.database, gated.script("b2:head"))
    assert "was not evaluated: there is no row in old_orders, so nothing can be lost" in said


def test_rows_that_come_into_an_empty_table_before_the_lock_are_judged(gated: Project) -> None:
    """The check that does not hold is not among those that are asked again under the lock."""
    script = gated.script("b2:head")
    gated.database.run("DELETE FROM old_orders")
    row = "INSERT INTO old_orders VALUES (1, '2020-01-01'), (2, '2020-01-01'), (3, '2020-01-01')"
    while_committing(gated.database, "old_orders", row, lambda: feed(gated.database, script))
    assert state_of(gated.database) == AT_B2


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_late_write_is_seen_under_the_lock(gated: Project, isolation: str) -> None:
    """With another isolation by default, the second look would read a snapshot older than its lock."""
    approve(gated)
    script = gated.script("b2:head")
    name = gated.database.url.database
    gated.database.run(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    while_committing(gated.database, "old_orders", LATE, lambda: feed(gated.database, script))
    assert state_of(gated.database) == AT_B2


# --- By another role -------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["", ", may_be_gone=True"], ids=["must be there", "may be gone"])
def test_a_table_with_a_percent_sign_in_its_name_is_not_taken_for_gone(gated: Project, gone: str) -> None:
    gated.database.run('ALTER TABLE old_orders RENAME TO "old%orders"')
    gated.edit(PAGE, ("FROM old_orders", 'FROM "old%orders"'))
    gated.edit(CONTRACT, (BODY, 'op.drop_table("old%orders")'), ('["old_orders"]', f'["old%orders"]{gone}'))
    said = feed(gated.database, gated.script("b2:c3"))
    assert "the gate orders/ready is closed" in said
    assert gated.database.value('SELECT count(*) FROM "old%orders"') == 3


def test_a_role_that_may_not_read_what_is_asked_drops_nothing(gated: Project, make_role: MakeRole) -> None:
    """The owner of the one table, who has no right to the other: the check errs, and that is no pass."""
    approve(gated)
    script = gated.script("b2:head")
    owner = make_role(gated.database)
    gated.database.run(
        f"ALTER TABLE old_orders OWNER TO {owner.url.username}",
        f"GRANT ALL ON alembic_version TO {owner.url.username}",
        f"GRANT CREATE ON SCHEMA public TO {owner.url.username}",
    )
    for rollback in ("on", "off"):
        feed(owner, without_psql_commands(script), "-v", f"ON_ERROR_ROLLBACK={rollback}")
        assert state_of(gated.database) == AT_B2


def test_a_role_that_may_not_drop_the_table_stamps_nothing(gated: Project, make_role: MakeRole) -> None:
    """The gate is open and the DROP fails. A psqlrc that goes on behind it must not stamp the version."""
    approve(gated)
    script = gated.script("b2:head")
    role = make_role(gated.database)
    gated.database.run(
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role.url.username}",
        f"GRANT CREATE ON SCHEMA public TO {role.url.username}",
    )
    for rollback in ("on", "off"):
        feed(role, script, "-v", f"ON_ERROR_ROLLBACK={rollback}")
        assert state_of(gated.database) == AT_B2


# --- What cannot stand in a script -----------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        'with op.get_context().autocommit_block():\n            op.execute("DROP TABLE old_orders")',
        'op.execute("COMMIT")\n        op.execute("DROP TABLE old_orders")',
        'op.execute("ROLLBACK; DROP TABLE old_orders")',
        'op.execute("SAVEPOINT s")\n        op.execute("DROP TABLE old_orders")',
        'op.execute("COPY old_orders TO STDOUT")\n        op.execute("DROP TABLE old_orders")',
        'op.execute("SELECT * INTO kept FROM old_orders")\n        op.execute("DROP TABLE old_orders")',
    ],
    ids=["autocommit_block", "COMMIT", "ROLLBACK", "SAVEPOINT", "COPY", "SELECT INTO"],
)
def test_a_body_that_cannot_be_held_together_is_refused_when_the_script_is_written(
    gated: Project, body: str
) -> None:
    gated.edit(CONTRACT, (BODY, body))
    done = gated.alembic("upgrade", "b2:head", "--sql")
    feed(gated.database, done.stdout)
    assert state_of(gated.database) == AT_B2
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "c3" in done.stderr


@pytest.mark.parametrize("fails", ["first", "last"])
def test_of_a_body_that_fails_in_the_middle_nothing_more_is_done(gated: Project, fails: str) -> None:
    """In a client that takes a failed statement back and goes on, and that knows no psql commands; the gate is open."""
    copied = 'op.execute("INSERT INTO new_orders SELECT id FROM old_orders")'
    wrong = 'op.execute("INSERT INTO new_orders SELECT 1 / 0 FROM old_orders")'
    body = {"first": [wrong, copied, BODY], "last": [copied, BODY, wrong]}[fails]
    gated.edit(CONTRACT, (BODY, "\n        ".join(body)))
    approve(gated)
    script = without_psql_commands(gated.script("b2:head"))
    said = feed(gated.database, "\\set ON_ERROR_ROLLBACK on\n" + script)
    assert "an earlier statement has failed" in said
    if fails == "first":
        assert state_of(gated.database) == AT_B2
    else:  # what was done before is committed by the client; what comes after is not, the version least of all
        assert state_of(gated.database) == State("b2", None)


def test_a_body_arrives_as_it_was_written(gated: Project) -> None:
    """Whatever is wrapped round a statement: quotes of every kind, percent signs and colons stay."""
    approve(gated)
    hostile = "$stmt$ $pipestate$ $$ 100% %s %% it's \\ :name $1 --"
    if not sqlalchemy_is("2.1"):
        hostile = hostile.replace("\\", "")
    gated.edit(CONTRACT, ("from alembic import op\n", TABLE))
    gated.edit(CONTRACT, (BODY, f"op.bulk_insert(kept, [{{'note': {hostile!r}}}])\n        {BODY}"))
    gated.database.run("CREATE TABLE kept (note text)")
    said = attack(gated)
    assert state_of(gated.database) == AT_D4, said
    assert gated.database.rows("SELECT note FROM kept") == [(hostile,)]


TABLE = """import sqlalchemy as sa
from alembic import op

kept = sa.table("kept", sa.column("note", sa.Text))
"""


# --- Break glass, and the record -------------------------------------------------------------------


def force(project: Project) -> str:
    script = project.alembic("-x", "force=incident 7", "upgrade", "b2:head", "--sql")
    assert script.returncode == 0, script.stderr
    return feed(project.database, script.stdout)


def test_a_forced_script_goes_through(gated: Project) -> None:
    said = force(gated)
    assert state_of(gated.database) == AT_D4, said


def test_a_forced_script_goes_through_past_a_check_that_errs(gated: Project) -> None:
    gated.database.run("DROP TABLE approvals")
    said = force(gated)
    assert state_of(gated.database) == AT_D4, said


def test_a_forced_script_goes_through_past_an_errored_check_and_the_ledger_keeps_it(gated: Project) -> None:
    gated.database.run("DROP TABLE approvals")
    said = force(gated)
    assert state_of(gated.database) == AT_D4, said
    assert set(recorded(gated.database, "force")) == {("orders", "ready", "incident 7")}
    assert recorded_failures(gated.database, "force") == {"approved"}


def test_the_ledger_keeps_what_failed_when_a_script_was_forced(gated: Project) -> None:
    gated.database.run("UPDATE old_orders SET written_at = now()")
    said = force(gated)
    assert state_of(gated.database) == AT_D4, said
    assert set(recorded(gated.database, "force")) == {("orders", "ready", "incident 7")}
    assert recorded_failures(gated.database, "force") == {"quiet", "approved"}


def test_the_ledger_keeps_that_a_script_asked_an_open_gate(gated: Project) -> None:
    approve(gated)
    said = attack(gated)
    assert state_of(gated.database) == AT_D4, said
    assert set(recorded(gated.database, "gate")) == {("orders", "ready", None)}


def test_a_closed_gate_that_nobody_forced_leaves_no_row(gated: Project) -> None:
    attack(gated)
    assert state_of(gated.database) == AT_B2
    assert recorded(gated.database, "gate") == recorded(gated.database, "force") == []


def test_a_script_cannot_be_forced_without_a_reason(gated: Project) -> None:
    done = gated.alembic("-x", "force= ", "upgrade", "b2:head", "--sql")
    feed(gated.database, done.stdout)
    assert done.returncode != 0
    assert state_of(gated.database) == AT_B2


def test_a_page_edited_after_the_script_was_written_changes_nothing(gated: Project) -> None:
    script = gated.script("b2:c3")
    gated.write(PAGE, "# This page has been emptied.\n")
    feed(gated.database, script)
    assert state_of(gated.database) == AT_B2
    approve(gated)
    feed(gated.database, script)
    assert state_of(gated.database) == State("c3", None)


def test_an_older_ledger_is_told_in_one_sentence_and_nothing_is_done(gated: Project) -> None:
    approve(gated)
    gated.database.run("ALTER TABLE pipestate.result DROP COLUMN observed CASCADE")
    said = attack(gated)
    assert "the ledger of this database is older than the pipestate that wrote this script" in said
    assert "pipestate ledger install" in said
    assert state_of(gated.database) == AT_B2
