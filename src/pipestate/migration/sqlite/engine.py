"""SQLite's functions for `migration.engine`."""

from pipestate.migration.sqlite.columns import (
    add_checks,
    add_columns,
    add_foreign_key,
    comment_column,
    create_index,
    drop_columns,
    drop_constraint,
    drop_index,
    require_not_null,
    set_default,
    use_timestamptz,
)
from pipestate.migration.sqlite.gate import (
    evaluate_gate,
    evaluate_gate_again,
    finish_gate,
    record_gate,
    require_gate_script,
    require_gate_transaction,
    watch_others,
)
from pipestate.migration.sqlite.losses import (
    find_losses,
    may_have_lost,
    prepare_statement,
    read_catalogue,
    release_savepoint,
    roll_back,
    set_savepoint,
)
from pipestate.migration.sqlite.session import (
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
from pipestate.migration.sqlite.soft_drop import also_locked, refuse_drop, restore, soft_drop
from pipestate.migration.sqlite.tables import (
    analyze_table,
    create_table,
    create_view,
    drop_table,
    drop_view,
    install_ledger,
    install_objects,
    lock_tables,
    refuse_state,
    refuse_wrong_shapes,
    remove_ledger,
    remove_objects,
    replace_comment,
    restore_comment,
    update_in_batches,
)
