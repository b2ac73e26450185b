"""A force is for one gate, with a reason that is kept, shown once and never obeyed; what is not enforced is on record."""

import pytest

from attacks.ledger import recorded, recorded_failures
from attacks.orders import AT_B2, AT_D4, CONTRACT, PAGE, State, assert_refused, state_of
from attacks.project import Project
from attacks.psql import feed

D4 = "migrations/versions/d4_after_orders.py"
SECOND = """
def upgrade() -> None:
    with gate("orders/later", lock=["new_orders"], revision=revision):
        op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")
"""
LATER = "\n## Phase: later\n\n```sql\n-- check: moved\n-- require: n = 0\nSELECT count(*) AS n FROM new_orders;\n```\n"


@pytest.fixture
def two_gates(gated: Project) -> Project:
    """The project with a second closed gate, before d4."""
    gated.edit(PAGE, ('opens: ["c3"]}', 'opens: ["c3"]}\n  later: {from: "c3", until: "d4", opens: ["d4"]}'))
    gated.write(PAGE, gated.read(PAGE) + LATER)
    gated.edit(
        D4,
        ("from alembic import op\n", "from alembic import op\n\nfrom pipestate.gate import gate\n"),
        (
            '\ndef upgrade() -> None:\n    op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")\n',
            SECOND,
        ),
    )
    gated.database.run("INSERT INTO new_orders VALUES (1)")
    return gated


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "script"])
def test_a_reason_that_could_mean_two_gates_forces_none(two_gates: Project, script: bool) -> None:
    arguments = ("upgrade", "b2:head", "--sql") if script else ("upgrade", "head")
    done = two_gates.alembic("-x", "force=incident 7", *arguments)
    assert_refused(done, two_gates.database, "has orders/later and orders/ready")
    assert '-x force="orders/ready: incident 7"' in done.stderr
    feed(two_gates.database, done.stdout)
    assert state_of(two_gates.database) == AT_B2


def test_a_reason_that_names_a_gate_forces_that_one(two_gates: Project) -> None:
    two_gates.use_environment("per_migration")
    done = two_gates.alembic("-x", "force=orders/ready: incident 7", "upgrade", "head")
    assert "the gate orders/later is closed" in done.stderr
    assert state_of(two_gates.database) == State("c3", None)
    assert recorded(two_gates.database, "force") == [("orders", "ready", "incident 7")]
    done = two_gates.alembic(
        "-x", "force=orders/ready: no", "-x", "force=orders/later: yes", "upgrade", "head"
    )
    assert (done.returncode, state_of(two_gates.database)) == (0, AT_D4), done.stderr
    assert recorded(two_gates.database, "force")[1:] == [("orders", "later", "yes")]


def test_a_reason_for_pipestate_upgrade_is_for_one_gate_too(two_gates: Project) -> None:
    """pipestate runs each revision with a gate by itself, so Alembic alone would meet one gate at a time."""
    done = two_gates.pipestate("upgrade", "-x", "force=incident 7")
    assert (done.returncode, state_of(two_gates.database)) == (2, AT_B2)
    assert "has orders/later and orders/ready" in done.stderr
    two_gates.write("list.txt", two_gates.database.text)
    done = two_gates.pipestate("fleet", "upgrade", "--databases", "list.txt", "-x", "force=incident 7")
    assert (done.returncode, state_of(two_gates.database)) == (2, AT_B2), done.stdout + done.stderr
    done = two_gates.pipestate("upgrade", "-x", "force=orders/ready: incident 7")
    assert (done.returncode, state_of(two_gates.database)) == (1, State("c3", None)), done.stderr
    assert recorded(two_gates.database, "force") == [("orders", "ready", "incident 7")]
    done = two_gates.pipestate("upgrade", "-x", "force=incident 8")
    assert (done.returncode, state_of(two_gates.database)) == (0, AT_D4), done.stderr
    assert recorded(two_gates.database, "force")[1:] == [("orders", "later", "incident 8")]


def test_a_reason_for_another_gate_forces_nothing(gated: Project) -> None:
    done = gated.alembic("-x", "force=orders/other: incident 7", "upgrade", "head")
    assert_refused(done, gated.database, "the gate orders/ready is closed")


def test_one_gate_that_two_revisions_ask_is_one(gated: Project) -> None:
    """As the shipped migrations do."""
    gated.edit(PAGE, ('until: "c3", opens: ["c3"]', 'until: "d4", opens: ["c3", "d4"]'))
    gated.edit(
        D4,
        ("from alembic import op\n", "from alembic import op\n\nfrom pipestate.gate import gate\n"),
        (
            '\ndef upgrade() -> None:\n    op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")\n',
            SECOND.replace("orders/later", "orders/ready"),
        ),
    )
    gated.database.run("INSERT INTO new_orders VALUES (1)")
    done = gated.alembic("-x", "force=incident 7", "upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


HOSTILE = "why\x1b[2J\n::error::owned"


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_the_reason_is_shown_once_escaped_with_the_command_that_undoes_it(
    gated: Project, script: bool
) -> None:
    if script:
        said = feed(gated.database, gated.script("b2:c3", "-x", f"force={HOSTILE}"))
    else:
        done = gated.alembic("-x", f"force={HOSTILE}", "upgrade", "c3")
        said = done.stdout + done.stderr
    assert state_of(gated.database) == State("c3", None), said
    assert "\x1b" not in said
    assert "\n::error" not in said
    assert said.count("is closed, and forced: why\\x1b[2J\\n\\::error::owned") == 1
    assert "to undo it: alembic downgrade b2" in said
    assert recorded_failures(gated.database, "force") == {"approved"}


# --- Not enforced ----------------------------------------------------------------------------------


def in_ini(project: Project) -> dict[str, str]:
    project.write("alembic.ini", project.read("alembic.ini") + "\n[pipestate]\nenforce = warn\n")
    return {}


def in_environment(project: Project) -> dict[str, str]:
    del project
    return {"PIPESTATE_ENFORCE": "warn"}


@pytest.mark.parametrize("setting", [in_ini, in_environment])
def test_a_gate_that_is_not_enforced_is_evaluated_shown_and_recorded(gated: Project, setting: object) -> None:
    assert callable(setting)
    project = Project(gated.root, gated.database, setting(gated))
    done = project.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr
    assert "the gate orders/ready is closed, and not enforced" in done.stderr
    (run,) = gated.database.rows("SELECT gate, reason, failed FROM pipestate.run WHERE event = 'gate'")
    assert run == ("closed", "not enforced: enforce = warn", 1)


@pytest.mark.parametrize("setting", [in_ini, in_environment])
def test_a_script_is_enforced_wherever_it_was_written(gated: Project, setting: object) -> None:
    """It is written on a laptop, and runs in production."""
    assert callable(setting)
    project = Project(gated.root, gated.database, setting(gated))
    said = feed(gated.database, project.script("b2:head"))
    assert "the gate orders/ready is closed" in said
    assert state_of(gated.database) == AT_B2


def test_another_word_than_warn_is_refused(gated: Project) -> None:
    project = Project(gated.root, gated.database, {"PIPESTATE_ENFORCE": "wran"})
    assert_refused(project.alembic("upgrade", "head"), gated.database, "PIPESTATE_ENFORCE")


# --- What is evaluated again under the lock --------------------------------------------------------


def test_without_recheck_what_reads_a_locked_table_is_evaluated_again(gated: Project) -> None:
    """The name counts as a word anywhere in the SQL: `approved` has it in a text."""
    gated.edit(CONTRACT, ('        recheck=["quiet"],\n', ""))
    gated.add_check("SELECT count(*) AS n FROM new_orders", "n = 0")
    script = gated.script("b2:c3")
    calls = script.split("CALL pipestate.evaluate_check(")[1:]
    again = {call.split("'")[3]: "again => true" in call for call in calls}
    assert again == {"quiet": True, "approved": True, "more": False}
