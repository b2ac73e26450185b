"""PostgreSQL's functions for `migration.engine`."""

from pipestate.migration.postgresql.columns import (
    add_columns,
    comment_column,
    drop_columns,
    require_not_null,
    set_default,
    use_timestamptz,
)
from pipestate.migration.postgresql.constraints import add_checks, add_foreign_key, drop_constraint
from pipestate.migration.postgresql.gate import (
    evaluate_gate,
    evaluate_gate_again,
    finish_gate,
    record_gate,
    require_gate_script,
    require_gate_transaction,
    watch_others,
)
from pipestate.migration.postgresql.indexes import create_index, drop_index
from pipestate.migration.postgresql.ledger import (
    install_ledger,
    install_objects,
    remove_ledger,
    remove_objects,
)
from pipestate.migration.postgresql.locks import lock_tables
from pipestate.migration.postgresql.losses import (
    find_losses,
    may_have_lost,
    prepare_statement,
    read_catalogue,
    release_savepoint,
    roll_back,
    set_savepoint,
)
from pipestate.migration.postgresql.session import (
    CONNECT_ARGUMENTS,
    assert_lock,
    assert_start,
    broken_references,
    hold_lock,
    is_new,
    is_same,
    open_session,
    require_recordable,
    write_head,
)
from pipestate.migration.postgresql.soft_drop import also_locked, refuse_drop, restore, soft_drop
from pipestate.migration.postgresql.tables import (
    analyze_table,
    create_table,
    create_view,
    drop_table,
    drop_view,
    refuse_state,
    refuse_wrong_shapes,
    replace_comment,
    restore_comment,
    update_in_batches,
)
