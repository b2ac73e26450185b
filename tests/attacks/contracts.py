"""The project `attacked_contract`: what its contract takes away, and whether all of it comes back."""

from dataclasses import dataclass
from pathlib import Path

from alembics import ROOT, dump
from attacks import attacked
from attacks.project import Project, lay_out
from bed import Database

LIMITS = ROOT / "docs" / "limits.md"
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


@dataclass(frozen=True)
class Answer:
    """What becomes of what a contract takes away: it comes back, is refused, or is in docs/limits.md. One of them."""

    refused: str = ""  # a part of the sentence
    limit: str = ""  # a part of the line: all rows come back, and this does not


RESTORED = Answer()


def refused(words: str) -> Answer:
    return Answer(refused=words)


def limited(words: str) -> Answer:
    return Answer(limit=words)


def there_and_back(project: Project, answer: Answer = RESTORED) -> None:
    """Go up and down again; the answer must be the one that is expected, and nothing else."""
    database = project.database
    before, schema = contents(database), _schema(database)
    up = project.alembic("upgrade", "head")
    assert "Traceback" not in up.stderr, up.stderr
    if answer.refused:
        assert up.returncode != 0, "it was not refused"
        assert answer.refused in up.stderr, up.stderr
    else:
        assert up.returncode == 0, up.stderr
        assert _schema(database) != schema, "nothing was taken away"
        down = project.alembic("downgrade", "a1")
        assert down.returncode == 0, down.stderr
    assert contents(database) == before
    assert (_schema(database) == schema) is not bool(answer.limit)
    assert answer.limit in " ".join(LIMITS.read_text(encoding="utf-8").split())


def _schema(database: Database) -> str:
    return dump(database, "--exclude-schema=pipestate*")
