"""Rewriting one file at a time: what is replaced, what is kept, what is refused."""

import ast
from pathlib import Path

import pytest

from pipestate.project.scaffold.eject import PythonFile

HEAD = 'revision = "b2"\ndown_revision = "a1"\n'


def file_of(source: str, *, server: bool = True, by_engine: bool = False) -> PythonFile:
    known = {("b2", "orders"): {"old": "text"}}
    text = source.encode()
    return PythonFile(Path("b2.py"), text, ast.parse(text), known, "b2", server, by_engine)


def rewritten(source: str, **more: bool) -> str:
    file = file_of(source, **more)
    after = file.rewritten().decode()
    assert file.faults == []
    ast.parse(after)
    assert "pipestate" not in after
    return after


def test_a_contract_becomes_two_functions() -> None:
    source = f'''"""Contract"""

from pipestate import Contract

{HEAD}
contract = Contract(
    "orders/ready",
    columns={{"orders": ["old"]}},
    revision=revision,
)
upgrade, downgrade = contract.upgrade, contract.downgrade
'''
    assert (
        rewritten(source)
        == f'''"""Contract"""

from alembic import op

{HEAD}

def upgrade() -> None:
    op.drop_column("orders", "old")


def downgrade() -> None:
    op.execute('ALTER TABLE "orders" ADD COLUMN "old" text')
'''
    )


def test_an_import_alone_in_its_block_leaves_a_pass() -> None:
    source = """try:
    from pipestate.environment import guard
except ImportError:
    guard = print
guard("context")
"""
    assert rewritten(source) == "try:\n    pass\nexcept ImportError:\n    guard = print\n"


def test_contracts_of_autogenerate_and_of_one_engine() -> None:
    source = f"""from alembic import op
from pipestate import Contract as C

{HEAD}

def upgrade(engine_name):
    C("a/b", tables=["x", "s.y"], engine="main").upgrade(engine_name)


def downgrade(engine_name):
    C("a/b", tables=["x", "s.y"], engine="main").downgrade(engine_name)
"""
    after = rewritten(source, by_engine=True)
    assert """    if engine_name == "main":\n        op.execute('DROP TABLE "x", "s"."y"')\n""" in after
    assert (
        'raise NotImplementedError("revision b2 dropped table x, table s.y for good: load a backup")' in after
    )
    alone = rewritten(source, server=False)
    assert '        op.drop_table("x")\n        op.drop_table("y", schema="s")\n' in alone


def test_ledger_locks_and_guard_are_removed_also_with_lines_of_windows() -> None:
    source = f"""from pipestate.ddl import install_ledger, lock_tables, remove_ledger
from pipestate.environment import guard

{HEAD}
guard(context)  # here


def upgrade():
    install_ledger()
    lock_tables("orders")


downgrade = remove_ledger
"""
    after = rewritten(source)
    assert "guard" not in after
    assert after.endswith("def upgrade():\n    pass\n    pass\n\n\n\ndef downgrade() -> None:\n    pass\n")
    assert rewritten(source.replace("\n", "\r\n")) == after.replace("\n", "\r\n")


def test_other_assignments_of_the_file_stay() -> None:
    own = 'config.attributes["engine"] = engine\ntarget_metadata.naming_convention = {}\n(a.b, c[0]) = 1, 2\n'
    source = f"from pipestate.environment import guard\n\n{own}guard(context)\n"
    assert rewritten(source) == f"\n{own}"


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("c = Contract('a/b', tables=TABLES())\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', **more)\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', tables=['x'], may_be_gone=True)\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', tables=['x']); d = 1", 7),
        ("def upgrade():\n    with gate('a/b') as g:\n        pass", 8),
        ("def upgrade():\n    with gate('a/b'), other():\n        pass", 8),
        ("def upgrade():\n    with gate('a/b'):\n        add_checks('t', {})", 8),
        ("import os, pipestate", 7),
        ("T = ['x']\nT.append('y')\nc = Contract('a/b', tables=T)\nupgrade = c.upgrade", 10),
        ("T = ['x']\ndef upgrade():\n    T = ['y']\n    Contract('a/b', tables=T).upgrade()", 10),
        ("c = Contract('a/b', tables=['x'])\nc = Contract('a/b', tables=['y'])\nupgrade = c.upgrade", 7),
        ("c = Contract('a/b', tables=['x:y'])\nupgrade = c.upgrade", 8),
        ("def upgrade():\n    add_checks('t', {'n': 'a > 0'})", 8),
    ],
)
def test_refused_with_its_line(line: str, number: int) -> None:
    source = f"""from alembic import op
from pipestate import Contract
from pipestate.gate import gate
from pipestate.ddl import add_checks
{HEAD}{line}
"""
    file = file_of(source)
    assert file.rewritten() == source.encode()
    assert file.faults[0].startswith(f"b2.py:{number}: ")


def test_a_helper_is_named_with_what_to_write() -> None:
    source = f"""from pipestate.ddl import add_columns, update_in_batches
from pipestate.gate import gate
{HEAD}
def upgrade():
    with gate("orders/ready"):
        update_in_batches("orders", "id", "state = 1")
        add_columns(table)
"""
    file = file_of(source)
    file.rewritten()
    assert file.faults == [
        "b2.py:7: gate: remove the line of the `with`, and keep the gated code",
        "b2.py:8: update_in_batches: write op.execute with one UPDATE",
        "b2.py:9: add_columns: write op.add_column",
    ]
