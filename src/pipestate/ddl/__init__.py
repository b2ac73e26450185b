"""What revisions call: DDL that writers do not notice, adoption of what is there, archives."""

from pipestate.ddl.archive import archive_table, restore_table
from pipestate.ddl.batches import update_in_batches
from pipestate.ddl.column_archive import archive_columns, drop_archived_columns
from pipestate.ddl.column_return import restore_columns
from pipestate.ddl.columns import add_columns, drop_columns, require_not_null, use_timestamptz
from pipestate.ddl.constraints import add_checks, add_foreign_key, drop_constraint
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.indexes import Index, create_index, drop_index
from pipestate.ddl.ledger import install_ledger, install_objects, remove_ledger, remove_objects
from pipestate.ddl.locks import lock_tables
from pipestate.ddl.tables import KeyOf, create_table, create_view, drop_table, drop_view, table_of

__all__ = [
    "Index",
    "KeyOf",
    "MigrationError",
    "add_checks",
    "add_columns",
    "add_foreign_key",
    "archive_columns",
    "archive_table",
    "create_index",
    "create_table",
    "create_view",
    "drop_archived_columns",
    "drop_columns",
    "drop_constraint",
    "drop_index",
    "drop_table",
    "drop_view",
    "install_ledger",
    "install_objects",
    "lock_tables",
    "remove_ledger",
    "remove_objects",
    "require_not_null",
    "restore_columns",
    "restore_table",
    "table_of",
    "update_in_batches",
    "use_timestamptz",
]
