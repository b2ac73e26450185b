"""The project `attacked_contract`: what its contract takes away, and whether all of it comes back."""

from pathlib import Path

from attacks.project import Project, lay_out
from support.alembic_runs import dump
from support.servers import Database

CONTRACT = "migrations/versions/b2_contract.py"
ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text, old {})"


def lay_out_contract(root: Path, database: Database) -> Project:
    return lay_out("attacked_contract", root, database)


def takes(project: Project, *, tables: str = "[]", columns: str = "{}") -> None:
    """Say what the contract takes away."""
    project.edit(CONTRACT, ("TABLES = []", f"TABLES = {tables}"), ("COLUMNS = {}", f"COLUMNS = {columns}"))


def takes_old(project: Project, kind: str, *rows: str, first: str = "SELECT 1") -> None:
    """Make a table with a column of that type, and have the contract take the column."""
    values = [f"INSERT INTO orders VALUES ({n}, 'order {n}', {row})" for n, row in enumerate(rows, start=1)]
    project.database.run(first, ORDERS.format(kind), *values)
    takes(project, columns='{"orders": ["old"]}')


def contents(database: Database, table: str = "orders") -> list[tuple[object, ...]]:
    """Return the rows as text: 1.0 and 1.00 are two values."""
    return database.rows(f"SELECT t::text FROM {table} AS t ORDER BY id")


def there_and_back(project: Project, refusal: str = "") -> None:
    """Go up and down again: it is identical, or it is refused with these words and nothing is changed."""
    database = project.database
    before, schema = contents(database), _schema(database)
    up = project.alembic("upgrade", "head")
    assert "Traceback" not in up.stderr, up.stderr
    if refusal:
        assert up.returncode != 0, "it was not refused"
        assert refusal in up.stderr, up.stderr
    else:
        assert up.returncode == 0, up.stderr
        assert _schema(database) != schema, "nothing was dropped"
        down = project.alembic("downgrade", "a1")
        assert down.returncode == 0, down.stderr
    assert contents(database) == before
    assert _schema(database) == schema


def _schema(database: Database) -> str:
    return dump(database, "--exclude-schema=pipestate*")
