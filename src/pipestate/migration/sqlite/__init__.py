"""SQLite's functions for `migration.engine`. A module is loaded at its first use."""

from typing import TYPE_CHECKING

from pipestate.migration.engine import loader_of

if TYPE_CHECKING:
    from pipestate.migration.sqlite.contract import *
    from pipestate.migration.sqlite.dropped_tables import columns_fault as columns_fault
    from pipestate.migration.sqlite.dropped_tables import ledger_fault as ledger_fault
    from pipestate.migration.sqlite.gate import *
    from pipestate.migration.sqlite.losses import *
    from pipestate.migration.sqlite.session import *
    from pipestate.migration.sqlite.tables import *
else:
    __getattr__ = loader_of(
        __name__,
        {
            "gate": (
                "evaluate_gate evaluate_gate_again finish_gate record_gate refuse_other_case "
                "require_gate_transaction watch_others write_gate"
            ),
            "dropped_tables": "columns_fault ledger_fault",
            "losses": "compare prepare_statement read_catalogue release_savepoint roll_back set_savepoint",
            "session": (
                "CONNECT_ARGUMENTS assert_lock assert_start broken_references hold_lock is_new "
                "open_session require_recordable write_head write_schema_record write_step"
            ),
            "contract": "also_locked refuse_drop restore soft_drop",
            "tables": (
                "add_checks add_columns add_foreign_key analyze_table comment_column create_index "
                "create_table create_view drop_columns drop_constraint drop_index drop_table "
                "drop_view install_ledger install_objects lock_tables refuse_state "
                "refuse_wrong_shapes remove_ledger remove_objects replace_comment "
                "require_not_null restore_comment set_default update_in_batches use_timestamptz"
            ),
        },
    )
