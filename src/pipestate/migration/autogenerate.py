"""Autogenerate writes contracts: objects that the models have lost are dropped behind a gate, and can be
restored.

    context.configure(..., process_revision_directives=contracts())

    alembic -x contract=orders/readiness revision --autogenerate -m "drop the old status"

`op.drop_table` and `op.drop_column` of a new revision become `Contract(..., revision=revision).upgrade()`.
Indexes and constraints that depend on them are included. The reverse operations become `.downgrade()`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alembic.autogenerate import Rewriter, renderers
from alembic.autogenerate.api import AutogenContext
from alembic.operations import ops
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.migration.failure import MigrationError
from pipestate.migration.request import runbooks_of
from pipestate.project.graph import Migrations, Revision, make_migrations
from pipestate.project.phases import fill_opens
from pipestate.project.revision_files import read_gates
from pipestate.project.scaffold.contract import draft_runbook, ends_with, find_phase, refuse_useless
from pipestate.project.scaffold.draft import Name, Value, call, write
from pipestate.project.scaffold.revision import Dropped, read_dropped

__all__ = ["contracts"]

Operations = Iterable[ops.MigrateOperation]


OPTION = "contract"  # of `alembic -x`


def contracts(phase: str | None = None) -> Rewriter:
    """Make a rewriter; its contracts use the gate that `-x contract=RUNBOOK/PHASE` names, else `phase`.

    Give it to `configure` as `process_revision_directives`; `.chain(another)` joins it with another one.
    """
    return _Contracts(phase)


class _Contracts(Rewriter):
    """Rewrites whole revisions: one contract takes the place of all drops."""

    def __init__(self, phase: str | None) -> None:
        super().__init__()
        self.phase = phase

    def process_revision_directives(
        self, context: MigrationContext, revision: Any, directives: list[ops.MigrationScript]
    ) -> None:
        """Put a contract into each revision that drops something."""
        del revision
        environment = context.environment_context
        given = environment.get_x_argument(as_dictionary=True).get(OPTION) if environment else None
        for script in directives:
            up, down = script.upgrade_ops_list[-1], script.downgrade_ops_list[-1]
            dropped = _dropped(up.ops)
            if dropped is None:
                continue
            if up.upgrade_token != "upgrades":
                phase = given or self.phase or "RUNBOOK/PHASE"
                raise MigrationError(
                    "contracts() works only in a project with one database: here, write the contract that drops "
                    f"{dropped} with `pipestate revision --contract {phase} --engine ...`"
                )
            contract = ContractOp(given or self.phase or "", dropped, script, named=given is not None)
            up.ops = _upgrade(up.ops, contract)
            down.ops = _downgrade(down.ops, contract.reverse())


@dataclass(frozen=True, slots=True, eq=False)
class ContractOp(ops.MigrateOperation):
    """A contract among the operations of a generated revision.

    `named` means that the command line names its phase.
    """

    phase: str
    dropped: Dropped
    script: ops.MigrationScript
    function: str = "upgrade"
    named: bool = False

    def reverse(self) -> "ContractOp":
        """Return the operation that restores."""
        return replace(self, function="downgrade")

    def to_diff_tuple(self) -> tuple[Any, ...]:
        """Return the tuple that `alembic check` shows."""
        return ("contract", self.phase, str(self.dropped))


@renderers.dispatch_for(ContractOp)
def _render(context: AutogenContext, contract: ContractOp) -> str:
    """Write the call; Alembic renders only revisions that it writes."""
    if not contract.phase:
        raise MigrationError(
            f"the models no longer have {contract.dropped}: name the gate of this change with `alembic -x "
            f"{OPTION}=RUNBOOK/PHASE revision --autogenerate`; no revision was written"
        )
    context.imports.add("from pipestate import Contract")
    if contract.function == "upgrade":
        _refuse_or_edit(context, contract)
    arguments: dict[str, Value] = {
        "": contract.phase,
        "tables=": contract.dropped.tables,
        "columns=": contract.dropped.columns,
        "revision=": Name("revision"),
    }
    return call("Contract", arguments, f".{contract.function}()", used=4)


def _refuse_or_edit(context: AutogenContext, contract: ContractOp) -> None:
    """Refuse a phase if its gate could never open.

    End earlier phases that read dropped objects, and report it.
    """
    migration, revision = context.migration_context, str(contract.script.rev_id)
    assert migration is not None
    assert migration.script is not None
    migrations = _migrations(migration.script)
    try:
        runbook, phase = find_phase(runbooks_of(migration), contract.phase)
        refuse_useless(migrations, runbook, phase, revision, below=migrations.heads)
        opened = fill_opens(migrations, runbook).phases[runbook.phases.index(phase)].opens
        if opened and not contract.named:
            raise ConfigError(
                f"{', '.join(opened)} already used the gate {contract.phase}: name a new one with "
                f"`alembic -x {OPTION}=RUNBOOK/PHASE revision --autogenerate`"
            )
        drafts = draft_runbook(
            runbook, phase, revision, ends_with(migrations, runbook, phase, contract.dropped)
        )
        write(drafts)
    except PipestateError as error:
        raise MigrationError(f"{error}; no revision was written") from None
    if migration.config is not None and drafts:
        migration.config.print_stdout("  Changed %s: phases end with %s", runbook.path, revision)


def _migrations(scripts: ScriptDirectory) -> Migrations:
    """Describe Alembic's revisions, with the gates that their files name."""
    every = list(scripts.walk_revisions())
    known = {script.revision for script in every}

    def ids(named: str | Iterable[str] | None) -> tuple[str, ...]:
        return tuple(each for each in ([named] if isinstance(named, str) else named or ()) if each in known)

    return make_migrations(
        [
            Revision(
                script.revision,
                ids(script.down_revision),
                ids(script.dependencies),
                (),
                script.doc,
                path := Path(script.path),
                1,
                read_gates(path),
            )
            for script in every
        ]
    )


def _dropped(operations: Operations) -> Dropped | None:
    """Collect the dropped objects; return None if the revision drops nothing."""
    tables, columns = [], []
    for operation in _flat(operations):
        if isinstance(operation, ops.DropTableOp):
            tables.append(_name(operation.schema, operation.table_name))
        elif isinstance(operation, ops.DropColumnOp):
            columns.append(f"{_name(operation.schema, operation.table_name)}.{operation.column_name}")
    if not tables and not columns:
        return None
    try:
        return read_dropped(sorted(tables), sorted(columns))
    except PipestateError as error:
        raise MigrationError(f"a contract cannot be generated: {error}") from None


def _upgrade(operations: Operations, contract: ContractOp) -> list[ops.MigrateOperation]:
    """Put the contract first, but after dropping the foreign keys that would block its tables."""
    kept = list(_kept(operations, contract.dropped))
    before = list(_only(kept, contract.dropped, pointing=True))
    if before and contract.dropped.columns:
        raise MigrationError(
            f"a foreign key to {', '.join(contract.dropped.tables)} is dropped while its column stays: drop "
            "it in a revision of its own, before the one with the contract"
        )
    return [*before, contract, *_only(kept, contract.dropped, pointing=False)]


def _downgrade(operations: Operations, contract: ContractOp) -> list[ops.MigrateOperation]:
    """Put the restore last, but before the foreign keys that point at its tables."""
    kept = list(_kept(operations, contract.dropped))
    after = list(_only(kept, contract.dropped, pointing=True))
    return [*_only(kept, contract.dropped, pointing=False), contract, *after]


def _kept(operations: Operations, dropped: Dropped) -> Iterator[ops.MigrateOperation]:
    """Leave out the operations of the contract, and objects that are dropped and restored with its tables."""
    for operation in operations:
        if isinstance(operation, ops.ModifyTableOps):
            inner = list(_kept(operation.ops, dropped))
            if inner:
                yield ops.ModifyTableOps(operation.table_name, inner, schema=operation.schema)
        elif not _hangs_on(operation, dropped):
            yield operation


def _only(operations: Operations, dropped: Dropped, *, pointing: bool) -> Iterator[ops.MigrateOperation]:
    """Choose the operations on foreign keys that point at a dropped table, or all others."""
    for operation in operations:
        if isinstance(operation, ops.ModifyTableOps):
            inner = list(_only(operation.ops, dropped, pointing=pointing))
            if inner:
                yield ops.ModifyTableOps(operation.table_name, inner, schema=operation.schema)
        elif _points_at(operation, dropped) is pointing:
            yield operation


def _hangs_on(operation: Any, dropped: Dropped) -> bool:
    """Say whether an operation creates or drops a dropped object, or an index or constraint of it."""
    made = _made(operation)
    table = getattr(made, "table_name", None) or getattr(made, "source_table", None)
    if table is None:
        return False
    name = _name(_schema(made), str(table))
    if name in dropped.tables:
        return True
    gone = dropped.columns.get(name, ())
    if isinstance(operation, ops.DropColumnOp | ops.AddColumnOp):
        column = operation.column_name if isinstance(operation, ops.DropColumnOp) else operation.column.name
        return column in gone
    return not _words(made).isdisjoint(gone)


def _points_at(operation: Any, dropped: Dropped) -> bool:
    made = _made(operation)
    if not isinstance(made, ops.CreateForeignKeyOp):
        return False
    return _name(made.kw.get("referent_schema"), made.referent_table) in dropped.tables


def _made(operation: Any) -> Any:
    """Return the creating operation: for a dropped index or constraint, its reverse."""
    if isinstance(operation, ops.DropIndexOp | ops.DropConstraintOp):
        return operation._reverse or operation
    return operation


def _words(made: Any) -> set[str]:
    """List the names that an index or constraint uses: columns, expressions, conditions."""
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
