"""What a chain calls that adopts a schema which is there, and drops on its way back only what it created.

The shipped chain is the one that does. The names of `pipestate.ddl` are for any project; these are not.
"""

from pipestate.ddl.archive import drop_archive_if_empty
from pipestate.ddl.columns import comment_column, drop_columns, require_not_null, set_default, use_timestamptz
from pipestate.ddl.constraints import drop_constraint
from pipestate.ddl.definitions import KeyOf, Shape, table_of
from pipestate.ddl.force import force_reason
from pipestate.ddl.indexes import drop_index
from pipestate.ddl.ledger import install_objects, remove_objects
from pipestate.ddl.shapes import refuse_state, refuse_wrong_shapes
from pipestate.ddl.tables import (
    analyze_table,
    create_table,
    create_view,
    drop_table,
    drop_view,
    replace_comment,
    restore_comment,
)

__all__ = [
    "KeyOf",
    "Shape",
    "analyze_table",
    "comment_column",
    "create_table",
    "create_view",
    "drop_archive_if_empty",
    "drop_columns",
    "drop_constraint",
    "drop_index",
    "drop_table",
    "drop_view",
    "force_reason",
    "install_objects",
    "refuse_state",
    "refuse_wrong_shapes",
    "remove_objects",
    "replace_comment",
    "require_not_null",
    "restore_comment",
    "set_default",
    "table_of",
    "use_timestamptz",
]
