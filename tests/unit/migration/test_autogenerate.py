"""The operations of a generated revision, in an order that works."""

import pytest
from alembic.autogenerate import Rewriter
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Column, Integer, MetaData, Table

from pipestate.autogenerate import contracts
from pipestate.migration.autogenerate import ContractOp
from pipestate.migration.failure import MigrationError

CONTEXT = MigrationContext.configure(dialect_name="postgresql")


def log_table(schema: str | None = None) -> Table:
    return Table("order_log", MetaData(), Column("id", Integer, primary_key=True), schema=schema)


def drop_key(schema: str | None = None) -> ops.ModifyTableOps:
    """`orders.log_id` stays, and no longer points at the log."""
    made = ops.CreateForeignKeyOp(
        "fk", "orders", "order_log", ["log_id"], ["id"], source_schema=schema, referent_schema=schema
    )
    dropped = ops.DropConstraintOp("fk", "orders", type_="foreignkey", schema=schema, _reverse=made)
    return ops.ModifyTableOps("orders", [dropped], schema=schema)


def rewritten(*operations: ops.MigrateOperation, token: str = "upgrades") -> ops.MigrationScript:
    up = ops.UpgradeOps(list(operations), upgrade_token=token)
    script = ops.MigrationScript("b2", up, up.reverse())
    contracts("orders/ready")(CONTEXT, "a1", [script])
    return script


def flat(container: ops.OpContainer | None) -> list[str]:
    assert container is not None
    names: list[str] = []
    for operation in container.ops:
        if isinstance(operation, ops.ModifyTableOps):
            names += flat(operation)
        elif isinstance(operation, ContractOp):
            names.append(f"{operation.dropped} {operation.function}")
        else:
            names.append(type(operation).__name__)
    return names


def test_a_foreign_key_to_the_table_goes_first_and_comes_back_last() -> None:
    new = ops.AddColumnOp("orders", Column("note", Integer), schema="sales")
    script = rewritten(new, drop_key("sales"), ops.DropTableOp.from_table(log_table("sales")))
    assert flat(script.upgrade_ops) == ["DropConstraintOp", "sales.order_log upgrade", "AddColumnOp"]
    assert flat(script.downgrade_ops) == ["DropColumnOp", "sales.order_log downgrade", "CreateForeignKeyOp"]


def test_with_columns_that_go_such_a_key_must_go_before() -> None:
    column = ops.DropColumnOp("orders", "old", _reverse=ops.AddColumnOp("orders", Column("old", Integer)))
    with pytest.raises(MigrationError, match="drop it in a revision of its own"):
        rewritten(drop_key(), column, ops.DropTableOp.from_table(log_table()))


def test_a_revision_that_drops_nothing_stays_as_it_is() -> None:
    script = rewritten(ops.CreateTableOp.from_table(log_table()))
    assert flat(script.upgrade_ops) == ["CreateTableOp"]
    assert flat(script.downgrade_ops) == ["DropTableOp"]


def test_several_databases_are_refused() -> None:
    with pytest.raises(MigrationError, match="pipestate revision --contract orders/ready --engine"):
        rewritten(ops.DropTableOp.from_table(log_table()), token="engine1_upgrades")


@pytest.mark.parametrize("first", [True, False])
def test_it_joins_with_another_rewriter(first: bool) -> None:
    other = Rewriter()

    @other.rewrites(ops.AddColumnOp)
    def leave_out(context: MigrationContext, revision: object, op: ops.AddColumnOp) -> list[object]:
        return []

    up = ops.UpgradeOps(
        [ops.AddColumnOp("orders", Column("note", Integer)), ops.DropTableOp.from_table(log_table())]
    )
    script = ops.MigrationScript("b2", up, up.reverse())
    ours = contracts("orders/ready")
    joined = ours.chain(other) if first else other.chain(ours)
    joined(CONTEXT, "a1", [script])
    assert flat(script.upgrade_ops) == ["order_log upgrade"]
