"""Autogenerate writes contracts: what the models have lost goes behind a gate, and has a way back.

    context.configure(..., process_revision_directives=contracts("orders/readiness"))

`op.drop_table` and `op.drop_column` of a new revision become `Contract(..., revision=revision).upgrade()`, together
with the indexes and constraints that hang on them; what would have made them anew becomes `.downgrade()`. When the
revision is written, its id goes into `opens` of the page.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from alembic.autogenerate import Rewriter, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext

from pipestate.ddl.failure import MigrationError
from pipestate.errors import PipestateError
from pipestate.gate.question import runbooks_of
from pipestate.scaffold.contract import draft_page, ends_with, find_phase
from pipestate.scaffold.draft import write
from pipestate.scaffold.going import Going, read_going
from pipestate.scaffold.layout import Name, Value, call

__all__ = ["contracts"]

Operations = Iterable[ops.MigrateOperation]


def contracts(phase: str) -> Rewriter:
    """Make a rewriter whose contracts ask the gate `RUNBOOK/PHASE`.

    Give it to `configure` as `process_revision_directives`; `.chain(another)` joins it with another one.
    """
    return _Contracts(phase)


class _Contracts(Rewriter):
    """Rewrites whole revisions: one contract takes the place of all drops."""

    def __init__(self, phase: str) -> None:
        super().__init__()
        self.phase = phase

    def process_revision_directives(
        self, context: MigrationContext, revision: Any, directives: list[ops.MigrationScript]
    ) -> None:
        """Put a contract into each revision that drops something."""
        del context, revision
        for script in directives:
            up, down = script.upgrade_ops_list[-1], script.downgrade_ops_list[-1]
            going = _going(up.ops)
            if going is None:
                continue
            if up.upgrade_token != "upgrades":
                raise MigrationError(
                    f"contracts({self.phase!r}) serves a project with one database: in this one, write what drops "
                    f"{going} with `pipestate revision --contract {self.phase} --engine ...`"
                )
            contract = ContractOp(self.phase, going, script)
            up.ops = _upgrade(up.ops, contract)
            down.ops = _downgrade(down.ops, contract.reverse())


@dataclass(frozen=True, slots=True, eq=False)
class ContractOp(ops.MigrateOperation):
    """A contract among the operations of a revision that is being generated."""

    phase: str
    going: Going
    script: ops.MigrationScript
    function: str = "upgrade"

    def reverse(self) -> "ContractOp":
        """Return the way back."""
        return ContractOp(self.phase, self.going, self.script, "downgrade")

    def to_diff_tuple(self) -> tuple[Any, ...]:
        """Say what `alembic check` shows."""
        return ("contract", self.phase, str(self.going))


@renderers.dispatch_for(ContractOp)
def _render(context: AutogenContext, contract: ContractOp) -> str:
    """Write the call; only a revision that is written comes here, so that the page is changed with it."""
    context.imports.add("from pipestate import Contract")
    if contract.function == "upgrade":
        _open(context, contract)
    arguments: dict[str, Value] = {
        "": contract.phase,
        "tables=": contract.going.tables,
        "columns=": contract.going.columns,
        "revision=": Name("revision"),
    }
    return call("Contract", arguments, f".{contract.function}()", used=4)


def _open(context: AutogenContext, contract: ContractOp) -> None:
    """Add the revision to `opens` of the phase, and say so."""
    migration, revision = context.migration_context, str(contract.script.rev_id)
    assert migration is not None
    try:
        runbook, phase = find_phase(runbooks_of(migration), contract.phase)
        ends = ends_with(runbook, phase, contract.going)
        write([draft_page(runbook, phase, revision, ends)])
    except PipestateError as error:
        raise MigrationError(f"{error}; no revision was written") from error
    if migration.config is not None:
        migration.config.print_stdout("  Changed %s: %s opens %s", runbook.path, contract.phase, revision)


def _going(operations: Operations) -> Going | None:
    """Collect what is dropped; None where nothing is."""
    tables, columns = [], []
    for operation in _flat(operations):
        if isinstance(operation, ops.DropTableOp):
            tables.append(_name(operation.schema, operation.table_name))
        elif isinstance(operation, ops.DropColumnOp):
            columns.append(f"{_name(operation.schema, operation.table_name)}.{operation.column_name}")
    if not tables and not columns:
        return None
    try:
        return read_going(sorted(tables), sorted(columns))
    except PipestateError as error:
        raise MigrationError(f"a contract cannot be generated: {error}") from error


def _upgrade(operations: Operations, contract: ContractOp) -> list[ops.MigrateOperation]:
    """Put the contract first, but after the foreign keys that would hold its tables back."""
    kept = list(_kept(operations, contract.going))
    before = list(_only(kept, contract.going, pointing=True))
    if before and contract.going.columns:
        raise MigrationError(
            f"a foreign key to {', '.join(contract.going.tables)} is dropped while its column stays: drop it in a "
            "revision of its own, before the one with the contract"
        )
    return [*before, contract, *_only(kept, contract.going, pointing=False)]


def _downgrade(operations: Operations, contract: ContractOp) -> list[ops.MigrateOperation]:
    """Put the way back last, but before the foreign keys that point at its tables."""
    kept = list(_kept(operations, contract.going))
    after = list(_only(kept, contract.going, pointing=True))
    return [*_only(kept, contract.going, pointing=False), contract, *after]


def _kept(operations: Operations, going: Going) -> Iterator[ops.MigrateOperation]:
    """Leave out what the contract does, and what goes and comes back by itself with it."""
    for operation in operations:
        if isinstance(operation, ops.ModifyTableOps):
            inner = list(_kept(operation.ops, going))
            if inner:
                yield ops.ModifyTableOps(operation.table_name, inner, schema=operation.schema)
        elif not _hangs_on(operation, going):
            yield operation


def _only(operations: Operations, going: Going, *, pointing: bool) -> Iterator[ops.MigrateOperation]:
    """Choose the operations on foreign keys that point at a table which goes, or all others."""
    for operation in operations:
        if isinstance(operation, ops.ModifyTableOps):
            inner = list(_only(operation.ops, going, pointing=pointing))
            if inner:
                yield ops.ModifyTableOps(operation.table_name, inner, schema=operation.schema)
        elif _points_at(operation, going) is pointing:
            yield operation


def _hangs_on(operation: Any, going: Going) -> bool:
    """Say whether an operation makes or drops what goes, or an index or constraint of it."""
    made = _made(operation)
    table = getattr(made, "table_name", None) or getattr(made, "source_table", None)
    if table is None:
        return False
    name = _name(_schema(made), str(table))
    if name in going.tables:
        return True
    gone = going.columns.get(name, ())
    if isinstance(operation, ops.DropColumnOp | ops.AddColumnOp):
        column = operation.column_name if isinstance(operation, ops.DropColumnOp) else operation.column.name
        return column in gone
    return not _words(made).isdisjoint(gone)


def _points_at(operation: Any, going: Going) -> bool:
    made = _made(operation)
    if not isinstance(made, ops.CreateForeignKeyOp):
        return False
    return _name(made.kw.get("referent_schema"), made.referent_table) in going.tables


def _made(operation: Any) -> Any:
    """Return what makes the thing: of a drop of an index or a constraint, its reverse."""
    if isinstance(operation, ops.DropIndexOp | ops.DropConstraintOp):
        return operation._reverse or operation
    return operation


def _words(made: Any) -> set[str]:
    """List the names in what an index or constraint is made of: columns, expressions, conditions."""
    if isinstance(made, ops.CreateForeignKeyOp):
        parts: Iterable[Any] = made.local_cols
    elif isinstance(made, ops.CreateCheckConstraintOp):
        parts = [made.condition]
    elif isinstance(made, ops.CreateIndexOp):
        parts = [
            *made.columns,
            *(made.kw.get(f"{dialect}_where", "") for dialect in ("postgresql", "sqlite")),
        ]
    else:
        parts = getattr(made, "columns", ())
    texts = [str(part) for part in parts]
    return {*texts, *(word for text in texts for word in re.findall(r"\w+", text))}


def _flat(operations: Operations) -> Iterator[ops.MigrateOperation]:
    for operation in operations:
        if isinstance(operation, ops.OpContainer):
            yield from _flat(operation.ops)
        else:
            yield operation


def _schema(made: Any) -> str | None:
    found = getattr(made, "schema", None)
    return found or getattr(made, "kw", {}).get("source_schema")


def _name(schema: str | None, table: str) -> str:
    return f"{schema}.{table}" if schema else table
