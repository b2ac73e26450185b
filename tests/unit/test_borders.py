"""The borders of the package: who may import whom, read from the sources."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "pipestate"
FILES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def uses(path: Path, *packages: str) -> set[str]:
    return {
        name
        for name in imports(path)
        for package in packages
        if name == package or name.startswith(f"{package}.")
    }


def within(path: Path, *places: str) -> bool:
    relative = path.relative_to(PACKAGE)
    return any(relative == Path(place) or relative.is_relative_to(place) for place in places)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_borders(path: Path) -> None:
    if not within(path, "cli", "render", "__main__.py", "pipeline/cli", "pipeline/render", "pipeline/demo"):
        assert not uses(path, "rich", "typer", "pipestate.cli", "pipestate.render"), (
            "only the command line prints"
        )
    if not within(path, "ddl", "gate", "environment", "chain", "contract.py"):
        assert not uses(path, "alembic"), "only migrations and the gate know Alembic"
    if within(path, "runbook"):
        assert not uses(path, "sqlalchemy", "pipestate.verify", "pipestate.db", "pipestate.ledger"), (
            "a runbook knows no database"
        )


def test_alembic_is_not_shadowed() -> None:
    """An `__init__.py` in our `alembic/` would hide the installed package."""
    assert not (PACKAGE.parents[1] / "alembic" / "__init__.py").exists()


def test_revisions_do_not_import_the_moving_schema() -> None:
    for path in (PACKAGE.parents[1] / "alembic" / "versions").glob("*.py"):
        assert not uses(path, "pipestate.schema"), path.name


def test_files_stay_readable() -> None:
    long = {str(path): lines for path in FILES if (lines := len(path.read_text().splitlines())) > 350}
    assert not long
