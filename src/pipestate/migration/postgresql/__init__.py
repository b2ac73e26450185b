"""PostgreSQL's functions for `migration.engine`. A module is loaded at its first use."""

from typing import TYPE_CHECKING

from pipestate.migration.engine import loader_of

if TYPE_CHECKING:
    from pipestate.migration.postgresql.contract import *
    from pipestate.migration.postgresql.copies import *
    from pipestate.migration.postgresql.gate import *
    from pipestate.migration.postgresql.gate_script import *
    from pipestate.migration.postgresql.indexes import *
    from pipestate.migration.postgresql.ledger import *
    from pipestate.migration.postgresql.losses import *
    from pipestate.migration.postgresql.session import *
    from pipestate.migration.postgresql.step_script import *
    from pipestate.migration.postgresql.tables import *
else:
    __getattr__ = loader_of(
        __name__,
        {
            "gate": (
                "evaluate_gate evaluate_gate_again finish_gate ledger_fault record_gate require_gate_transaction "
                "watch_others"
            ),
            "gate_script": "write_gate write_schema_record",
            "indexes": "create_index drop_index",
            "ledger": "install_ledger install_objects remove_ledger remove_objects",
            "copies": "prepare_statement",
            "losses": "compare read_catalogue release_savepoint roll_back set_savepoint",
            "session": (
                "CONNECT_ARGUMENTS assert_lock assert_start broken_references hold_lock is_new "
                "lock_tables open_session require_recordable write_head"
            ),
            "contract": "also_locked columns_fault refuse_drop refuse_other_case restore soft_drop",
            "step_script": "write_step",
            "tables": (
                "add_checks add_columns add_foreign_key analyze_table comment_column create_table "
                "create_view drop_columns drop_constraint drop_table drop_view refuse_state "
                "refuse_wrong_shapes replace_comment require_not_null restore_comment set_default "
                "update_in_batches use_timestamptz"
            ),
        },
    )
