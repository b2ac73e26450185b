"""The line on stderr that names an index build, a validation or a restore of more than two seconds."""

import os
from pathlib import Path

import pytest

from support.new_user import Walk
from support.programs import run_program
from support.servers import Database

pytestmark = pytest.mark.scene

# Each call takes 0.1 seconds: forty rows make any work last for four seconds.
SLOW = """CREATE FUNCTION slow(number int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN PERFORM pg_sleep(0.1); RETURN number; END'"""
ROWS = "INSERT INTO orders (id, old_status, status) SELECT n, 'sent', 'sent' FROM generate_series(3, 42) n"
REVISION = '''"""{name}"""
from alembic import op
from pipestate import Contract
from pipestate.ddl import Index, add_checks, create_index
revision, down_revision = "{name}", "c3"
{body}
'''
INDEX = """
def upgrade():
    create_index(Index("slow_idx", "orders", "(slow(id))"))
def downgrade():
    pass
"""
LONG = """
def upgrade():
    add_checks("orders", {"positive": "slow(id) > 0"})
    op.execute("CREATE INDEX own_idx ON orders (slow(id))")
    create_index(Index("slow_idx", "orders", "(slow(id))"))
def downgrade():
    pass
"""
WORK = (
    "building index own_idx",
    "checking the rows of orders",
    "validating constraints of orders",
    "building index slow_idx",
)
RESTORE = """contract = Contract("orders/readiness", columns={"orders": ["old_status"]},
    derived={"orders": {"old_status": "slow(s.id)::text"}}, revision=revision)
upgrade, downgrade = contract.upgrade, contract.downgrade"""


@pytest.fixture(params=["generic", "async"])
def shop(request: pytest.FixtureRequest, pg: Database, tmp_path: Path) -> Walk:
    walk = Walk(tmp_path / "shop", pg, request.param)
    walk.make_shop()
    pg.run(SLOW, "UPDATE orders SET status = old_status WHERE status IS NULL")
    return walk


def write(shop: Walk, name: str, body: str) -> None:
    path = shop.directory / "alembic" / "versions" / f"{name}.py"
    path.write_text(REVISION.format(name=name, body=body))


def migrate(shop: Walk, *arguments: str) -> list[str]:
    """Run Alembic; return the lines that name a long work."""
    done = run_program(["alembic", *arguments], cwd=shop.directory, environment=os.environ)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("still ")]


def test_an_index_build_and_a_validation_are_named(shop: Walk) -> None:
    shop.database.run(ROWS)
    write(shop, "d4", LONG)
    said = migrate(shop, "upgrade", "head")
    assert shop.database.value("SELECT version_num FROM alembic_version") == "d4"
    assert sorted(said) == sorted(f"still {work}" for work in WORK)


def test_a_restore_is_named(shop: Walk) -> None:
    write(shop, "d4", RESTORE)
    migrate(shop, "upgrade", "head")
    shop.database.run(ROWS.replace("old_status, status", "status").replace("'sent', 'sent'", "'sent'"))
    assert "still restoring rows that were written since the drop" in migrate(shop, "downgrade", "-1")
    assert shop.database.value("SELECT count(*) FROM orders WHERE old_status = id::text") == 40


def test_short_work_is_not_named(shop: Walk) -> None:
    write(shop, "d4", INDEX)
    assert not migrate(shop, "upgrade", "head")
