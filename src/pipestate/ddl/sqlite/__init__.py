"""The helpers on SQLite: one writer, one transaction a revision; look first, then act."""

from pipestate.ddl.sqlite.adopt import refuse_state, refuse_wrong_shapes
from pipestate.ddl.sqlite.archive import (
    archive_table,
    drop_archive_if_empty,
    forget_archived,
    keep_baseline,
    note_absence,
    refuse_unfit_table,
    require_archived,
    restore_table,
)
from pipestate.ddl.sqlite.batches import update_in_batches
from pipestate.ddl.sqlite.columns import (
    add_columns,
    comment_column,
    drop_columns,
    require_not_null,
    set_default,
    use_timestamptz,
)
from pipestate.ddl.sqlite.columns_archive import (
    abandon_archived_columns,
    archive_columns,
    describe_columns,
    drop_archived_columns,
    empty_copy,
    refuse_late_writes,
    refuse_unfit_columns,
    restore_columns,
)
from pipestate.ddl.sqlite.constraints import add_checks, add_foreign_key, drop_constraint
from pipestate.ddl.sqlite.indexes import create_index, drop_index
from pipestate.ddl.sqlite.ledger import install_ledger, install_objects, remove_ledger, remove_objects
from pipestate.ddl.sqlite.locks import lock_tables
from pipestate.ddl.sqlite.tables import (
    analyze_table,
    create_table,
    create_view,
    drop_table,
    drop_view,
    replace_comment,
    restore_comment,
)

__all__ = [
    "abandon_archived_columns",
    "add_checks",
    "add_columns",
    "add_foreign_key",
    "analyze_table",
    "archive_columns",
    "archive_table",
    "comment_column",
    "create_index",
    "create_table",
    "create_view",
    "describe_columns",
    "drop_archive_if_empty",
    "drop_archived_columns",
    "drop_columns",
    "drop_constraint",
    "drop_index",
    "drop_table",
    "drop_view",
    "empty_copy",
    "forget_archived",
    "install_ledger",
    "install_objects",
    "keep_baseline",
    "lock_tables",
    "note_absence",
    "refuse_late_writes",
    "refuse_state",
    "refuse_unfit_columns",
    "refuse_unfit_table",
    "refuse_wrong_shapes",
    "remove_ledger",
    "remove_objects",
    "replace_comment",
    "require_archived",
    "require_not_null",
    "restore_columns",
    "restore_comment",
    "restore_table",
    "set_default",
    "update_in_batches",
    "use_timestamptz",
]
