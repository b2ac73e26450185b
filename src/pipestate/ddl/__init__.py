"""What revisions call: DDL that writers do not notice, and archives.

Each function looks at the database at the moment of the change, so that a rerun finishes what a kill
interrupted, and `alembic upgrade --sql` writes the same. How it is done on PostgreSQL and on SQLite is in the
packages of these names. What takes something away on the way up wants a gate that was passed.

`docs/gates.md` lists these names. What only a chain with a registry needs is in `pipestate.ddl.adoption`.
"""

from pipestate.ddl.archive import (
    abandon_archived_columns,
    archive_columns,
    archive_table,
    drop_archived_columns,
    restore_columns,
    restore_table,
)
from pipestate.ddl.batches import update_in_batches
from pipestate.ddl.columns import add_columns
from pipestate.ddl.constraints import add_checks, add_foreign_key
from pipestate.ddl.contract_parts import DerivedRows
from pipestate.ddl.definitions import Index
from pipestate.ddl.indexes import create_index
from pipestate.ddl.ledger import install_ledger, remove_ledger
from pipestate.ddl.locks import lock_tables

__all__ = [
    "DerivedRows",
    "Index",
    "abandon_archived_columns",
    "add_checks",
    "add_columns",
    "add_foreign_key",
    "archive_columns",
    "archive_table",
    "create_index",
    "drop_archived_columns",
    "install_ledger",
    "lock_tables",
    "remove_ledger",
    "restore_columns",
    "restore_table",
    "update_in_batches",
]
