"""The project `attacked`: where its database stands, and how its gate is opened."""

from dataclasses import dataclass
from pathlib import Path

from attacks import attacked
from attacks.attacked import Done
from attacks.project import Project, lay_out
from support.servers import Database

PAGE = "runbooks/orders.md"
CONTRACT = "migrations/versions/c3_drop_old_orders.py"
GATE = "orders/ready"
BODY = 'op.execute("DROP TABLE old_orders")'
APPROVAL = "INSERT INTO approvals (what) VALUES ('drop old_orders')"
ORDERS = (
    "INSERT INTO old_orders SELECT n, now() - interval '7 days' - n * interval '1 hour', 'order ' || n "
    "FROM generate_series(1, 3) AS n"
)


@dataclass(frozen=True)
class State:
    """What an attack would change. `rows` are those of old_orders, None where it is gone."""

    version: str | None
    rows: int | None
    after: bool = False


AT_B2 = State("b2", 3)
AT_D4 = State("d4", None, after=True)


def state_of(database: Database) -> State:
    ((version, has_rows, after),) = database.rows(
        "SELECT (SELECT max(version_num) FROM alembic_version), to_regclass('public.old_orders') IS NOT NULL, "
        "to_regclass('public.after_orders') IS NOT NULL"
    )
    rows = database.value("SELECT count(*) FROM public.old_orders") if has_rows else None
    return State(
        None if version is None else str(version), None if rows is None else int(str(rows)), bool(after)
    )


def fill(database: Database, root: Path) -> None:
    """Upgrade to b2, with three orders of last week; nobody has approved anything, so the gate is closed."""
    project = lay_out("attacked", root, database)
    done = project.alembic("upgrade", "b2")
    assert done.returncode == 0, done.stderr
    attacked.install_ledger(database, root)
    database.run(ORDERS)


def approve(project: Project) -> None:
    project.database.run(APPROVAL)


def assert_refused(done: Done, database: Database, *said: str) -> None:
    """Assert that a command was refused in a sentence, and that nothing has happened."""
    assert done.returncode != 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    for words in said:
        assert words in done.stdout + done.stderr
    assert state_of(database) == AT_B2
