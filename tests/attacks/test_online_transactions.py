"""Whose transaction it is: a gate never commits, and what it stands in is committed whole or not at all."""

import os
import signal

import pytest

from attacks.attacked import Done, finish
from attacks.orders import AT_B2, AT_D4, BODY, CONTRACT, State, approve, assert_refused, state_of
from attacks.project import PROJECTS, Project
from attacks.sessions import has_ended, sessions, uncommitted, wait_until, waits_for_lock

GATE = '    with gate(\n        "orders/ready",\n'


def before_gate(project: Project, statement: str) -> None:
    """Have the revision do something before it asks its gate."""
    project.edit(CONTRACT, ("    with gate(", f'    op.execute("{statement}")\n    with gate('))


# --- An env.py that begins the transaction ---------------------------------------------------------


def test_in_an_env_py_that_owns_the_transaction_a_closed_gate_is_a_closed_gate(gated: Project) -> None:
    gated.use_environment("own_transaction")
    done = gated.alembic("upgrade", "head")
    assert_refused(done, gated.database, "the gate orders/ready is closed")


def test_in_an_env_py_that_owns_the_transaction_an_open_gate_goes_through(gated: Project) -> None:
    approve(gated)
    gated.use_environment("own_transaction")
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_a_lock_that_an_env_py_took_for_its_transaction_is_kept(gated: Project) -> None:
    approve(gated)
    gated.use_environment("advisory_lock")
    held = (
        "INSERT INTO approvals (what) SELECT 'locks: ' || count(*) FROM pg_locks "
        "WHERE locktype = 'advisory' AND objid = 112233 AND pid = pg_backend_pid()"
    )
    gated.edit(CONTRACT, (BODY, f'op.execute("{held}")\n        {BODY}'))
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr
    assert ("locks: 1",) in gated.database.rows("SELECT what FROM approvals")


# --- A caller who is inside a transaction ----------------------------------------------------------


def call(project: Project, then: str) -> Done:
    """Run an application that upgrades through its own connection, and then commits or rolls back."""
    project.use_environment("callers_connection")
    program = (PROJECTS / "attacked_environments" / "caller.py").read_text(encoding="utf-8")
    project.write("caller.py", program)
    with project.running("caller.py", then) as process:
        return finish(process)


def caller_wrote(project: Project) -> bool:
    return ("by the caller",) in project.database.rows("SELECT what FROM approvals")


def test_a_closed_gate_leaves_the_work_of_a_caller_to_the_caller(gated: Project) -> None:
    done = call(gated, "commit")
    assert done.stderr.count("the gate orders/ready is closed") >= 1, done.stderr
    assert "AssertionError" not in done.stderr
    assert state_of(gated.database) == AT_B2
    assert not caller_wrote(gated), "the gate has committed what was not its own"


def test_a_caller_who_rolls_back_takes_an_open_gate_s_change_back(gated: Project) -> None:
    approve(gated)
    done = call(gated, "roll back")
    assert "upgraded" in done.stdout, done.stderr
    assert state_of(gated.database) == AT_B2
    assert not caller_wrote(gated)


def test_a_caller_who_commits_has_both(gated: Project) -> None:
    approve(gated)
    done = call(gated, "commit")
    assert "upgraded" in done.stdout, done.stderr
    assert state_of(gated.database) == AT_D4
    assert caller_wrote(gated)


# --- What came before the gate ---------------------------------------------------------------------


@pytest.mark.parametrize("environment", [None, "per_migration"])
def test_a_statement_before_a_closed_gate_is_not_committed_by_it(
    gated: Project, environment: str | None
) -> None:
    if environment is not None:
        gated.use_environment(environment)
    before_gate(gated, "CREATE TABLE too_early (id int)")
    assert_refused(gated.alembic("upgrade", "head"), gated.database)
    assert gated.database.value("SELECT to_regclass('too_early') IS NULL")


def back_to_a1(project: Project) -> None:
    done = project.alembic("downgrade", "a1")
    assert done.returncode == 0, done.stderr
    assert state_of(project.database) == State("a1", 3)


def test_where_one_transaction_holds_the_run_a_closed_gate_takes_all_of_it_back(gated: Project) -> None:
    back_to_a1(gated)
    done = gated.alembic("upgrade", "head")
    assert done.returncode != 0
    assert state_of(gated.database) == State("a1", 3)
    assert gated.database.value("SELECT to_regclass('new_orders') IS NULL")


def test_where_a_revision_is_committed_at_a_time_what_came_before_is_kept(gated: Project) -> None:
    gated.use_environment("per_migration")
    back_to_a1(gated)
    done = gated.alembic("upgrade", "head")
    assert_refused(done, gated.database)
    assert gated.database.value("SELECT to_regclass('new_orders') IS NOT NULL")


# --- Work that commits, before the gate ------------------------------------------------------------


def test_the_phase_is_evaluated_after_what_a_revision_prepares(gated: Project) -> None:
    """An index takes an hour; meanwhile the approval is withdrawn."""
    approve(gated)
    gated.use_environment("per_migration")
    work = (
        "    with op.get_context().autocommit_block():\n"
        '        op.execute("CREATE INDEX CONCURRENTLY prepared ON old_orders (written_at)")\n'
        '        op.execute("DELETE FROM approvals")\n'
    )
    gated.edit(CONTRACT, ("    with gate(\n", f"{work}    with gate(\n"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    assert gated.database.value("SELECT to_regclass('prepared') IS NOT NULL")


# --- Commits in the middle -------------------------------------------------------------------------


def test_a_connection_that_commits_every_statement_is_refused(gated: Project) -> None:
    approve(gated)
    gated.use_environment("autocommit")
    assert_refused(gated.alembic("upgrade", "head"), gated.database)


def test_an_autocommit_block_in_the_body_cannot_leave_half_of_it_behind(gated: Project) -> None:
    """Without a refusal the table would be gone and the version the old one."""
    approve(gated)
    block = (
        f'with op.get_context().autocommit_block():\n            {BODY}\n        raise RuntimeError("a bug")'
    )
    gated.edit(CONTRACT, (BODY, block))
    done = gated.alembic("upgrade", "head")
    assert done.returncode != 0
    assert state_of(gated.database) == AT_B2
    assert "autocommit_block" in done.stderr


# --- More than one migration, and a dead one -------------------------------------------------------


def test_two_upgrades_at_once_under_the_guard_are_one_after_the_other(gated: Project) -> None:
    approve(gated)
    gated.use_environment("guarded")
    upgrade = ("-m", "alembic", "upgrade", "head")
    with (
        uncommitted(gated.database, "LOCK TABLE old_orders IN ACCESS SHARE MODE") as reader,
        gated.running(*upgrade) as one,
        gated.running(*upgrade) as other,
    ):
        wait_until(lambda: has_ended(one, other) or waits_for_lock(gated.database, "old_orders"), "one waits")
        wait_until(lambda: has_ended(one, other) or sessions(gated.database) >= 3, "the other is there, too")
        reader.rollback()
        done = [finish(one), finish(other)]
    assert [each.returncode for each in done] == [0, 0], "\n".join(each.stderr for each in done)
    assert state_of(gated.database) == AT_D4


def test_a_migration_that_is_killed_in_its_body_has_done_nothing(gated: Project) -> None:
    approve(gated)
    whole = gated.read(CONTRACT)
    stuck = f'{BODY}\n        import pathlib, time\n        pathlib.Path("in-the-body").touch()\n        time.sleep(600)'
    gated.edit(CONTRACT, (BODY, stuck))
    with gated.running("-m", "alembic", "upgrade", "head") as process:
        wait_until((gated.root / "in-the-body").exists, "the body runs")
        os.kill(process.pid, signal.SIGKILL)
        finish(process)
    wait_until(lambda: sessions(gated.database) == 0, "the server has noticed")
    assert state_of(gated.database) == AT_B2
    gated.write(CONTRACT, whole)
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr
