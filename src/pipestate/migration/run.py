"""State of a migration that runs: one object for each database that an env.py configures."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from alembic import op
from alembic.runtime.migration import MigrationContext

if TYPE_CHECKING:
    from pipestate.migration.postgresql.gate_script import GuardedOutput


@dataclass
class MigrationRun:
    """Everything that pipestate remembers of one run on one database."""

    # The chain, as `pipestate.environment.run` configures it.
    has_registry: bool = False  # the chain records the objects that it creates
    naive_timezone: str = "UTC"  # adopted times without a zone are read in this one
    # The run.
    is_guarded: bool = False
    is_locked: bool = False  # the migration lock is held
    heads: Collection[str] | None = None  # after the last revision that was applied
    has_ledger: bool | None = None  # after the last revision that was applied
    has_warned_of_ledger: bool = False
    forced: str | None = None  # the gate that a reason without a name has forced
    output: "GuardedOutput | None" = None  # of a script, after its first gate
    # The revision that runs.
    revision: str = ""
    is_upgrade: bool | None = None
    began: float = 0.0
    part: int = 0  # how often this revision has committed
    is_autocommit: bool = False  # each statement commits by itself
    passed_gates: set[str] = field(default_factory=set)
    marked: str | None = None  # the last revision that passed its gate
    empty_tables: set[str] = field(
        default_factory=set
    )  # tables of gates that were not evaluated: these are empty
    is_evaluated: bool | None = None  # a gate of this revision was evaluated; None without a gate
    required_ledger: str | None = None  # the revision whose script asserts the ledger
    compared_functions: str | None = None  # the revision that has compared the server's functions
    written_functions: tuple[str, frozenset[str]] = ("", frozenset())  # into a script without a ledger
    has_script_functions: bool = False  # the guard's, at the head of a script
    gate_body: tuple[str, tuple[str, ...]] | None = None  # inside a gate: its revision, its locked tables
    dropped: tuple[str, list[dict[str, Any]], str | None] | None = None  # revision, objects, reason


SCHEMAS = "pipestate_schemas"  # in config.attributes: the search path of a tenant
# Alembic hands one dictionary of options to every database of an env.py, so state is kept by context.
_RUNS: WeakKeyDictionary[MigrationContext, MigrationRun] = WeakKeyDictionary()


def run_of(context: MigrationContext) -> MigrationRun:
    """Return the state of the run in this context."""
    return _RUNS.setdefault(context, MigrationRun())


def current_run() -> MigrationRun:
    """Return the state of the run that calls this: inside a revision, or inside env.py."""
    return run_of(op.get_context())
