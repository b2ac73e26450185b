"""Alembic's private names: each one that pipestate uses is still there, and one file uses them."""

import inspect
import re
from pathlib import Path

import alembic
import pytest
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script.revision import RevisionMap
from alembic.util import langhelpers
from sqlalchemy import create_engine

import pipestate

SOURCE = Path(pipestate.__file__).parent
HOME = SOURCE / "migration" / "alembic.py"
NAMES = {
    "_migrations_fn": MigrationContext,
    "_in_external_transaction": MigrationContext,
    "_transaction_per_migration": MigrationContext,
    "_transaction": MigrationContext,
    "_version": MigrationContext,
    "_migration_context": EnvironmentContext,
    "_get_ancestor_nodes": RevisionMap,
    "_get_descendant_nodes": RevisionMap,
    "_proxy": langhelpers.ModuleClsProxy,
}


@pytest.mark.parametrize("name", NAMES)
def test_alembic_has_the_name(name: str) -> None:
    owner = NAMES[name]
    made = MigrationContext.configure(create_engine("sqlite://").connect())
    there = hasattr(owner, name) or hasattr(made, name) or name in inspect.getsource(owner)
    assert there, f"Alembic {alembic.__version__} has no {owner.__name__}.{name}: change migration/alembic.py"


def test_the_file_uses_no_other_private_name_of_alembic() -> None:
    used = set(re.findall(r"\.(_[a-z]\w+)|\"(_proxy)\"", HOME.read_text(encoding="utf-8")))
    assert {name for pair in used for name in pair if name} == set(NAMES)


def test_no_other_file_uses_them() -> None:
    used = re.compile(rf"\.({'|'.join(NAMES)})\b|\"_proxy\"")
    found = [
        f"{path.relative_to(SOURCE)}:{number}"
        for path in SOURCE.rglob("*.py")
        if path != HOME
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if used.search(line) and "self._" not in line
    ]
    assert not found
