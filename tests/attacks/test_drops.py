"""A helper that drops or archives wants a gate on the way up, and none on the way down; under anybody's env.py."""

import pytest

from attacks.attacked import Done, finish
from attacks.orders import AT_B2, CONTRACT, PAGE, approve, assert_refused, state_of
from attacks.project import Project
from attacks.psql import feed
from pipestate import ddl
from pipestate.migration import adoption

ENVIRONMENTS = ["stock", "guarded", "per_migration", "own_transaction"]
DOWN = [("online", name) for name in ENVIRONMENTS] + [("script", name) for name in ENVIRONMENTS[:3]]
AFTER = "migrations/versions/d4_after_orders.py"
# Each of them on something that is there. A helper that is added must be added here, or below.
DROPS = {
    "drop_columns": '"old_orders", ["note"]',
    "drop_constraint": '"old_orders", "old_orders_pkey"',
    "drop_index": '"ix_old_orders"',
    "drop_table": '"old_orders"',
    "drop_view": '"notes"',
    "remove_ledger": "",
    "remove_objects": "",
}
BEFORE = (
    "CREATE UNIQUE INDEX ix_old_orders ON old_orders (note)",
    "CREATE VIEW notes AS SELECT written_at FROM old_orders",
)
REVISION = """\
from pipestate.ddl import *
from pipestate.migration.adoption import *

revision, down_revision = "c3", "b2"


def upgrade() -> None:
    {up}


def downgrade() -> None:
    {down}
"""


def write_revision(project: Project, *, up: str = "pass", down: str = "pass") -> None:
    """Make c3 a revision that no page knows."""
    project.write(CONTRACT, REVISION.format(up=up, down=down))
    project.edit(PAGE, (', opens: ["c3"]', ""))
    (project.root / AFTER).unlink()


def everything(project: Project) -> list[tuple[object, ...]]:
    """What could be missing afterwards: relations, columns, constraints, and the version."""
    return project.database.rows(
        "SELECT c.oid::regclass::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE c.relnamespace::regnamespace::text IN ('public', 'pipestate') AND a.attnum > 0 AND NOT attisdropped "
        "UNION ALL SELECT conname::text, '' FROM pg_constraint WHERE conrelid = to_regclass('old_orders') "
        "UNION ALL SELECT version_num, '' FROM alembic_version ORDER BY 1, 2"
    )


def use(project: Project, environment: str) -> None:
    if environment != "stock":
        project.use_environment(environment)


def test_no_helper_that_drops_is_forgotten() -> None:
    names = {name for name in (*ddl.__all__, *vars(adoption)) if name.startswith(("drop", "remove"))}
    assert names == {*DROPS}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("helper", DROPS)
def test_nothing_goes_on_the_way_up_without_a_gate(gated: Project, helper: str, environment: str) -> None:
    gated.database.run(*BEFORE)
    gated.pipestate("ledger", "install")
    use(gated, environment)
    write_revision(gated, up=f"{helper}({DROPS[helper]})")
    before = everything(gated)
    assert_refused(
        gated.alembic("upgrade", "head"), gated.database, f"{helper}(", "no gate was passed for it"
    )
    assert everything(gated) == before


@pytest.mark.parametrize("environment", ["stock", "guarded"])
@pytest.mark.parametrize("helper", DROPS)
def test_a_script_without_a_gate_drops_nothing(gated: Project, helper: str, environment: str) -> None:
    gated.database.run(*BEFORE)
    gated.pipestate("ledger", "install")
    use(gated, environment)
    write_revision(gated, up=f"{helper}({DROPS[helper]})")
    before = everything(gated)
    done = gated.alembic("upgrade", "b2:c3", "--sql")
    assert_refused(done, gated.database, "no gate was passed for it")
    feed(gated.database, done.stdout)
    assert everything(gated) == before


@pytest.mark.parametrize(("way", "environment"), DOWN)
def test_the_way_down_needs_no_gate(gated: Project, way: str, environment: str) -> None:
    use(gated, environment)
    write_revision(gated, down='drop_table("new_orders"); drop_columns("old_orders", ["note"])')
    assert gated.alembic("upgrade", "head").returncode == 0
    forced = ("-x", "force=values are lost")  # the guard wants a reason
    if way == "online":
        done = gated.alembic(*forced, "downgrade", "-1")
    else:
        done = gated.alembic(*forced, "downgrade", "c3:b2", "--sql")
        feed(gated.database, done.stdout)
    assert done.returncode == 0, done.stderr
    left = {relation for relation, _ in everything(gated)}
    assert "new_orders" not in left
    assert ("old_orders", "note") not in everything(gated)
    assert gated.database.value("SELECT version_num FROM alembic_version") == "b2"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_gate_of_one_revision_does_not_serve_the_next(gated: Project, environment: str) -> None:
    """The stock env.py holds both in one transaction, in which the first gate has left its mark."""
    approve(gated)
    use(gated, environment)
    gated.edit(
        AFTER,
        ("from alembic import op", "from pipestate.migration.adoption import drop_table"),
        ('op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")', 'drop_table("new_orders")'),
    )
    done = gated.alembic("upgrade", "head")
    assert done.returncode != 0
    assert "no gate was passed for it" in done.stdout + done.stderr
    assert gated.database.value("SELECT to_regclass('new_orders') IS NOT NULL") is True
    assert state_of(gated.database).version in (AT_B2.version, "c3")


@pytest.mark.parametrize("environment", ["stock", "guarded"])
def test_the_way_down_needs_no_gate_in_a_program_of_ones_own(gated: Project, environment: str) -> None:
    """A program that chooses the steps, as Alembic's documentation shows it: Alembic's step has the direction."""
    write_revision(gated, down='drop_table("new_orders")')
    assert gated.alembic("upgrade", "head").returncode == 0
    gated.write("take_back.py", TAKE_BACK)
    use(gated, environment)
    done = take_back(gated)
    assert done.returncode == 0, done.stderr
    assert gated.database.value("SELECT to_regclass('new_orders') IS NULL") is True


def take_back(project: Project) -> Done:
    with project.running("take_back.py") as process:
        return finish(process)


TAKE_BACK = """\
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

config = Config("alembic.ini")
script = ScriptDirectory.from_config(config)


def steps(heads, context):
    return script._downgrade_revs("b2", heads)


with EnvironmentContext(config, script, fn=steps, destination_rev="b2"):
    script.run_env()
"""
