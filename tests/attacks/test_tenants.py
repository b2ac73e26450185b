"""Where an env.py migrates several schemas or databases, the gate is asked in each, and of the tables that go there."""

import re

import pytest

from attacks.orders import BODY, CONTRACT, approve
from attacks.project import Project
from attacks.psql import feed, without_psql_commands

SECOND = (
    "SELECT (SELECT version_num FROM second.alembic_version), to_regclass('second.old_orders') IS NOT NULL"
)
OF_A_TENANT = ("def upgrade() -> None", "def upgrade(tenant: str) -> None")
ONLY_FOR_THE_FIRST = '''"""What asks its gate for one tenant, and not for the other."""

from alembic import op

from pipestate.gate import gate

revision = "c3"
down_revision = "b2"


def upgrade(tenant: str) -> None:
    if tenant == "public":
        with gate("orders/ready", lock=["old_orders"], revision=revision):
            pass
    op.execute("DROP TABLE old_orders")
'''


@pytest.fixture
def tenants(gated: Project) -> Project:
    """The attacked project for two tenants; the gate of the first one is open."""
    gated.use_environment("tenants")
    tables = ("old_orders", "approvals", "alembic_version")
    gated.database.run(
        "CREATE SCHEMA second",
        *(f"CREATE TABLE second.{table} AS TABLE public.{table}" for table in tables),
    )
    approve(gated)
    return gated


def second(project: Project) -> tuple[object, ...]:
    """Version of the second tenant, and whether its orders are there."""
    (found,) = project.database.rows(SECOND)
    return found


def test_the_gate_of_the_second_tenant_is_closed_by_its_own_rows(tenants: Project) -> None:
    tenants.edit(CONTRACT, OF_A_TENANT)
    done = tenants.alembic("upgrade", "c3")
    assert done.returncode != 0
    assert "the gate orders/ready is closed" in done.stdout + done.stderr
    assert second(tenants) == ("b2", True)


def test_the_guard_refuses_what_asks_its_gate_for_the_first_tenant_alone(tenants: Project) -> None:
    tenants.write(CONTRACT, ONLY_FOR_THE_FIRST)
    done = tenants.alembic("upgrade", "c3")
    assert done.returncode != 0, "the second tenant was not guarded"
    assert "without passing the gate orders/ready" in done.stdout + done.stderr
    assert second(tenants) == ("b2", True)


def test_the_guard_writes_no_script_for_what_asks_its_gate_for_the_first_alone(tenants: Project) -> None:
    tenants.write(CONTRACT, ONLY_FOR_THE_FIRST)
    done = tenants.alembic("upgrade", "b2:c3", "--sql")
    assert done.returncode != 0, "the second tenant was not guarded"
    assert "without passing the gate orders/ready" in done.stdout + done.stderr


def test_in_the_second_script_of_a_run_every_statement_asks_for_the_mark(tenants: Project) -> None:
    """As a client runs it that leaves out BEGIN and COMMIT, and goes on after errors."""
    tenants.edit(CONTRACT, OF_A_TENANT)
    assert tenants.alembic("upgrade", "b2:c3", "--sql").returncode == 0
    script = without_psql_commands(tenants.read("second.sql"))
    bare = re.sub(r"^(BEGIN|COMMIT);$", "", script, flags=re.MULTILINE)
    feed(tenants.database, f"SET search_path TO second;\n{bare}")
    assert second(tenants) == ("b2", True)


def test_the_ledger_keeps_what_was_applied_for_each_tenant(tenants: Project) -> None:
    tenants.edit(CONTRACT, OF_A_TENANT)
    tenants.database.run("INSERT INTO second.approvals (what) VALUES ('drop old_orders')")
    assert tenants.pipestate("ledger", "install").returncode == 0
    done = tenants.alembic("upgrade", "c3")
    assert done.returncode == 0, done.stderr
    applied = "SELECT count(*) FROM pipestate.run WHERE event = 'upgrade' AND revision = 'c3'"
    assert tenants.database.value(applied) == 2


def test_a_table_that_sqlalchemy_puts_into_another_schema_is_refused(gated: Project) -> None:
    """The gate would look at the empty table on the search path, and Alembic would drop the one of the tenant."""
    gated.use_environment("translated")
    gated.edit(CONTRACT, (BODY, 'op.drop_table("old_orders")'))
    gated.database.run(
        "CREATE SCHEMA tenant",
        "CREATE TABLE tenant.old_orders AS TABLE public.old_orders",
        "TRUNCATE public.old_orders",
    )
    done = gated.alembic("upgrade", "c3")
    assert done.returncode != 0, "nothing was asked"
    assert "schema_translate_map" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert gated.database.value("SELECT count(*) FROM tenant.old_orders") == 3
