"""Helpers for revisions: DDL that writers do not notice. `docs/reference/python.md` describes each name."""

from pipestate.migration.adoption import Index
from pipestate.migration.contract import DerivedRows
from pipestate.migration.helpers import (
    add_checks,
    add_columns,
    add_foreign_key,
    create_index,
    install_ledger,
    lock_tables,
    remove_ledger,
    update_in_batches,
)

__all__ = [
    "DerivedRows",
    "Index",
    "add_checks",
    "add_columns",
    "add_foreign_key",
    "create_index",
    "install_ledger",
    "lock_tables",
    "remove_ledger",
    "update_in_batches",
]
