"""The project `attacked_contract`: what its contract takes away, and whether all of it comes back."""

from pathlib import Path

from alembics import dump
from attacks import attacked
from attacks.project import Project, lay_out
from bed import Database

CONTRACT = "migrations/versions/b2_contract.py"
ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text, old {})"


def lay_out_contract(root: Path, database: Database) -> Project:
    project = lay_out("attacked_contract", root, database)
    if attacked.is_first_version():
        project.write(CONTRACT, project.read("first_version.py"))
    return project


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


def there_and_back(project: Project, *tables: str) -> None:
    """Go up and down again. Whatever is not refused in a sentence, at once, must come back as it was."""
    names = tables or ("orders",)
    before = [contents(project.database, name) for name in names]
    schema = dump(project.database, "--exclude-schema=pipestate*")
    up = project.alembic("upgrade", "head")
    assert "Traceback" not in up.stderr, up.stderr
    if up.returncode == 0:
        down = project.alembic("downgrade", "a1")
        assert down.returncode == 0, down.stderr
    assert [contents(project.database, name) for name in names] == before
    assert dump(project.database, "--exclude-schema=pipestate*") == schema
