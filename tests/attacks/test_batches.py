"""Attacks on work in batches: a sentence instead of a traceback, and no false word about a rollback."""

from attacks.contracts import CONTRACT, ORDERS
from attacks.project import Project


def test_batches_outside_of_autocommit_are_a_sentence(contract: Project) -> None:
    contract.write(
        CONTRACT,
        'from pipestate.ddl import update_in_batches\nrevision, down_revision = "b2", "a1"\n'
        "def upgrade():\n    update_in_batches('orders', 'id', \"UPDATE orders SET name = 'x' WHERE {range}\")\n",
    )
    contract.database.run(ORDERS.format("text"), "INSERT INTO orders VALUES (1, 'a', 'b')")
    contract.edit("runbooks/orders.md", (', opens: ["b2"]', ""))
    up = contract.alembic("upgrade", "head")
    assert "Traceback" not in up.stderr, up.stderr
    assert "PL/pgSQL" not in up.stderr


def test_an_error_after_committed_batches_does_not_claim_that_all_was_rolled_back(contract: Project) -> None:
    contract.write(
        "migrations/env.py",
        "from alembic import context\nfrom pipestate.environment import run\n"
        'from sqlalchemy import MetaData\nrun(context, metadata=MetaData(), version_table="alembic_version")\n',
    )
    contract.write(
        CONTRACT,
        "from alembic import op\nfrom pipestate.ddl import update_in_batches\n"
        'revision, down_revision = "b2", "a1"\n'
        "def upgrade():\n    update_in_batches('orders', 'id', \"UPDATE orders SET name = 'x' WHERE {range}\")\n"
        "    op.execute('SELECT 1 / 0')\n",
    )
    contract.database.run(ORDERS.format("text"), "INSERT INTO orders VALUES (1, 'a', 'b')")
    contract.edit("runbooks/orders.md", (', opens: ["b2"]', ""))
    up = contract.alembic("upgrade", "head")
    assert "division by zero" in up.stdout
    assert "uncommitted changes of this revision were rolled back" in up.stdout
    assert contract.database.value("SELECT name FROM orders") == "x"
