"""Columns that go out of use without losing a value: copied aside while a trigger keeps the copy true.

1. Under a short lock, a copy `pipestate_archive.<table>_columns_<revision>` and two triggers.
2. In batches and without a lock, the values; what is written meanwhile, the triggers bring along.
3. Without a lock, a description of what hangs on the columns (`describe_columns`).
4. Under a short lock, the triggers and the columns go (`drop_archived_columns`); what has changed is described anew.

Where the transaction is not Alembic's own, nothing may be committed in between: then the values are copied in one
statement, under the lock. The way back is in `columns_return`.
"""

from contextlib import nullcontext

from pipestate.ddl import sql
from pipestate.ddl.contract_parts import GoingColumns
from pipestate.ddl.force import force_statement
from pipestate.ddl.notice import warn
from pipestate.ddl.postgresql import names
from pipestate.ddl.postgresql.archive import create_archive
from pipestate.ddl.postgresql.batches import run_batches
from pipestate.ddl.postgresql.block import Constants, Expression, run_block
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.transaction import may_commit

# Whoever writes a row that is being copied waits for the end of its batch.
COPIED_AT_A_TIME = 500


def refuse_unfit_columns(going: GoingColumns, *, must_exist: bool = False, when: str = "true") -> None:
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_columns": going.columns,
        "the_revision": going.revision,
        "must_exist": must_exist,
        "the_others": (),
        "applies": Expression("boolean", when),
    }
    run_block("refuse_unfit", constants, why=f"what could not come back as it was: {going.described}")


def archive_columns(going: GoingColumns) -> None:
    watched = may_commit()
    if not watched and not sql.is_offline():
        warn(
            "%s are copied under the lock, because this transaction is not Alembic's own, one for each revision. To "
            "have them copied while writers go on, configure env.py with transaction_per_migration=True",
            going.described,
        )
    there = _any_column(going)
    refuse_unfit_columns(going)
    create_archive(going.table, there)
    lock_tables(going.table, mode="SHARE ROW EXCLUSIVE" if watched else "ACCESS EXCLUSIVE", when=there)
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_columns": going.columns,
        "the_key": going.key,
        "the_changed_at": going.changed_at,
        "the_copy": names.copy(going),
        **names.keeping(going),
        "watched": watched,
    }
    run_block("watch_columns", constants, why=f"{going.described}: a copy, which triggers keep true")
    run_batches(going.table, going.key, size=COPIED_AT_A_TIME)
    with sql.autocommit() if watched else nullcontext():
        # Without statistics the planner would read all of it, under the lock, in `refuse_late_writes`.
        sql.do_when(there, f"ANALYZE {names.copy(going)}")
        _prove_copy(going)
        if watched:
            copied = f"to_regclass({sql.literal(names.copy(going))}) IS NOT NULL"
            sql.break_off_unless(f"NOT {there} OR {copied}")


def refuse_late_writes(going: GoingColumns, gate: str) -> None:
    runbook, _, phase = gate.partition("/")
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_copy": names.copy(going),
        "the_gate": gate,
        "force_record": force_statement(runbook=runbook, phase=phase),
    }
    run_block("refuse_late_writes", constants, why=f"{going.described}: written while they were copied?")


def describe_columns(going: GoingColumns) -> None:
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_columns": going.columns,
        "the_copy": names.copy(going),
    }
    run_block("describe_columns", constants, why=f"{going.described}: what hangs on them")
    # A child or a reader may have come while they were copied.
    refuse_unfit_columns(going, when="current_setting('pipestate.described_anew') = 'yes'")


def drop_archived_columns(going: GoingColumns) -> None:
    describe_columns(going)
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_columns": going.columns,
        "the_name": going.table,
        "the_revision": going.revision,
        "the_copy": names.copy(going),
        **names.keeping(going),
        "watched": may_commit(),
    }
    run_block("drop_columns", constants, why=f"{going.described} go")


def abandon_archived_columns(going: GoingColumns) -> None:
    keeping = names.keeping(going)
    begun = (
        f"EXISTS (SELECT FROM pg_trigger WHERE tgrelid = {sql.regclass(going.table)} "
        f"AND tgname = {sql.literal(keeping['the_inserted'])})"
    )
    lock_tables(going.table, when=begun)
    constants: Constants = {"the_table": sql.name(going.table), "the_copy": names.copy(going), **keeping}
    run_block("abandon_columns", constants, why=f"{going.table}: an archive that was begun and given up")


def _any_column(going: GoingColumns) -> str:
    return (
        f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(going.table)} "
        f"AND attname IN ({sql.literals(going.columns)}) AND NOT attisdropped)"
    )


def _prove_copy(going: GoingColumns) -> None:
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_columns": going.columns,
        "the_copy": names.copy(going),
    }
    run_block("prove_copy", constants, why=f"every row of {going.table} is in the copy as it is")
