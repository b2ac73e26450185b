"""The same as b2_contract.py, as it was written for 0.1.0, which had no Contract."""

from pipestate.migrations import (
    archive_columns,
    archive_table,
    drop_archived_columns,
    restore_columns,
    restore_table,
)

from pipestate.gate import gate

revision = "b2"
down_revision = "a1"

TABLES = []
COLUMNS = {}


def copy() -> None:
    for table, columns in COLUMNS.items():
        archive_columns(table, "id", columns)


def upgrade() -> None:
    with gate("orders/ready", lock=[*TABLES, *COLUMNS], prepare=copy):
        for table, columns in COLUMNS.items():
            drop_archived_columns(table, columns)
        for table in TABLES:
            archive_table(table)


def downgrade() -> None:
    for table in TABLES:
        restore_table(table)
    for table, columns in COLUMNS.items():
        derived = {column: f"a.{column}" for column in columns}
        restore_columns(table, "id", columns, changed="a.id IS NULL", derived=derived)
