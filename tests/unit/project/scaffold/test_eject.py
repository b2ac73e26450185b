"""Rewriting one file at a time: what is replaced, what is kept, what is refused."""

import ast
from pathlib import Path

import pytest

from pipestate.project.scaffold.eject import _File

HEAD = 'revision = "b2"\ndown_revision = "a1"\n'


def file_of(source: str, *, server: bool = True, by_engine: bool = False) -> _File:
    known = {("b2", "orders"): {"old": "text"}}
    text = source.encode()
    return _File(
        Path("b2.py"), text, ast.parse(text), known=known, server=server, by_engine=by_engine, revision="b2"
    )


def rewritten(source: str, **more: bool) -> str:
    file = file_of(source, **more)
    after = file.rewritten().decode()
    assert file.faults == []
    ast.parse(after)
    assert "pipestate" not in after
    return after


def test_a_gate_leaves_its_body_with_comments_and_texts() -> None:
    source = f'''from alembic import op

from pipestate.gate import gate
from pipestate.ddl import lock_tables

{HEAD}

def upgrade() -> None:
    # before
    with gate(
        "orders/ready",
        lock=["orders"],  # short
    ):
        # in it
        lock_tables("orders")
        op.execute("""
            DROP TABLE old
        """)  # gone
        if True:
            op.drop_table(
                "older"
            )
    op.execute("SELECT 1")
'''
    assert (
        rewritten(source)
        == f'''from alembic import op

{HEAD}

def upgrade() -> None:
    # before
    # short
    # in it
    op.execute("""
            DROP TABLE old
        """)  # gone
    if True:
        op.drop_table(
            "older"
        )
    op.execute("SELECT 1")
'''
    )


def test_a_contract_becomes_two_functions() -> None:
    source = f'''"""Contract"""

from pipestate import Contract

{HEAD}
contract = Contract(
    "orders/ready",
    columns={{"orders": ["old"]}},  # nobody reads it
    revision=revision,
)
upgrade, downgrade = contract.upgrade, contract.downgrade
'''
    assert (
        rewritten(source)
        == f'''"""Contract"""

from alembic import op

{HEAD}
# nobody reads it

def upgrade() -> None:
    op.drop_column("orders", "old")


def downgrade() -> None:
    op.execute('ALTER TABLE "orders" ADD COLUMN "old" text')
'''
    )


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


def test_helpers_with_an_equivalent() -> None:
    source = f"""import sqlalchemy as sa
from alembic import op
from pipestate.ddl import Index, add_checks, add_columns, add_foreign_key, create_index

{HEAD}
RULES = {{"ck": "a > 0"}}


def upgrade():
    add_checks("s.orders", RULES)
    add_columns(
        sa.Table(
            "orders", sa.MetaData(), sa.Column("a", sa.Integer()), sa.Column("b", sa.Text(), nullable=False)
        )
    )
    create_index(Index("i", "orders", "a, b DESC", unique=True, where="a > 'x'"))
    add_foreign_key("orders", "fk", "site_id", "sites", on_delete="CASCADE")
"""
    assert rewritten(source).endswith(
        """
def upgrade():
    op.execute('ALTER TABLE "s"."orders" ADD CONSTRAINT "ck" CHECK (a > 0)')
    op.add_column("orders", sa.Column("a", sa.Integer()))
    op.add_column("orders", sa.Column("b", sa.Text(), nullable=False))
    op.execute("CREATE UNIQUE INDEX \\"i\\" ON \\"orders\\" (a, b DESC) WHERE (a > 'x')")
    op.execute('ALTER TABLE "orders" ADD CONSTRAINT "fk" FOREIGN KEY ("site_id") REFERENCES "sites" ("id") ON DELETE CASCADE')
"""
    )


def test_nested_gates_and_lines_of_windows() -> None:
    source = f"""from pipestate.gate import gate
{HEAD}

def upgrade():
    with gate("a/b"):
        with gate("a/c"): f()
        g()
"""
    after = rewritten(source)
    assert after.endswith("def upgrade():\n    f()\n    g()\n")
    assert rewritten(source.replace("\n", "\r\n")) == after.replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("c = Contract('a/b', tables=TABLES())\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', **more)\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', tables=['x'], may_be_gone=True)\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', tables=['x']); d = 1", 7),
        ("def upgrade():\n    with gate('a/b') as g:\n        pass", 8),
        ("def upgrade():\n    with gate('a/b'), other():\n        pass", 8),
        ("def upgrade():\n    with gate('a/b'):\n        add_checks('t', {})", 9),
        ("import os, pipestate", 7),
        ("T = ['x']\nT.append('y')\nc = Contract('a/b', tables=T)\nupgrade = c.upgrade", 10),
        ("T = ['x']\ndef upgrade():\n    T = ['y']\n    Contract('a/b', tables=T).upgrade()", 10),
        ("c = Contract('a/b', tables=['x'])\nc = Contract('a/b', tables=['y'])\nupgrade = c.upgrade", 8),
        ("c = Contract('a/b', tables=['x:y'])\nupgrade = c.upgrade", 8),
        ("def upgrade():\n    add_checks('t', {'n': 'a = :b'})", 8),
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
