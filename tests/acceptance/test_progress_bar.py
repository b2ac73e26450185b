"""A bar on the terminal while an index build, a validation or a restore runs longer than two seconds."""

import os
import re
from pathlib import Path

import pytest

from support.new_user import Walk
from support.programs import run_program
from support.servers import Database
from support.terminal import Typed, in_terminals, plain

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


def on_terminal(shop: Walk, *arguments: str) -> str:
    (seen,) = in_terminals([Typed(arguments, program="alembic")], cwd=shop.directory)
    assert "Traceback" not in seen
    return seen


def lines_of(seen: str, work: str) -> list[str]:
    """The states of the bar for this work, in their order."""
    return re.findall(rf"{re.escape(work)}  [^\r\n]*", plain(seen))


def test_an_index_build_and_a_validation_show_a_bar(shop: Walk) -> None:
    shop.database.run(ROWS)
    write(shop, "d4", LONG)
    seen = on_terminal(shop, "upgrade", "head")
    assert shop.database.value("SELECT version_num FROM alembic_version") == "d4"
    for work in WORK:
        states = lines_of(seen, work)
        assert len(states) >= 2, f"{work}: {seen}"
        assert re.fullmatch(r".*  [█░]{20}( +\d+ %)?  .*\d s", states[0]), states
        assert seen.rpartition(states[-1])[2].startswith("\r\x1b[K"), "the line is cleared"
    phases = [line for line in lines_of(seen, "building index slow_idx") if "scanning table" in line]
    assert phases, f"the server says how far it is: {seen}"


def test_a_restore_shows_a_bar(shop: Walk) -> None:
    write(shop, "d4", RESTORE)
    on_terminal(shop, "upgrade", "head")
    shop.database.run(ROWS.replace("old_status, status", "status").replace("'sent', 'sent'", "'sent'"))
    seen = on_terminal(shop, "downgrade", "-1")
    assert lines_of(seen, "restoring rows that were written since the drop"), seen
    assert shop.database.value("SELECT count(*) FROM orders WHERE old_status = id::text") == 40


def test_short_work_and_a_pipe_show_none(shop: Walk) -> None:
    write(shop, "d4", INDEX)
    assert not lines_of(on_terminal(shop, "upgrade", "head"), "building index slow_idx")
    shop.database.run("DROP INDEX slow_idx", ROWS, "UPDATE alembic_version SET version_num = 'c3'")
    done = run_program(["alembic", "upgrade", "head"], cwd=shop.directory, environment=os.environ)
    assert done.returncode == 0
    assert "building index" not in done.stdout + done.stderr
