"""Work on many rows in short transactions, in key order, so that nobody waits for long."""

from collections.abc import Sequence
from contextlib import nullcontext

from pipestate.ddl import sql
from pipestate.ddl.postgresql.block import Constants, run_block
from pipestate.ddl.transaction import may_commit

BATCH_SIZE = 2000


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = BATCH_SIZE
) -> None:
    work = f"SELECT set_config('pipestate.work', {sql.dollar(statement, 'work')}, false)"
    with sql.autocommit():
        sql.emit("SELECT set_config('pipestate.work', '', false)")
        sql.do_when(condition, work)
        keys = [key] if isinstance(key, str) else key
        _run(table, keys, size=size, at_once=False, quiet=False, by_key=False)


def run_batches(table: str, key: Sequence[str], *, quiet: bool = False, size: int = BATCH_SIZE) -> None:
    """Run what `pipestate.work` holds: in batches that commit or, where that is not allowed, in one statement.

    With `quiet`, the application's triggers do not fire, where the role may ask for that: one that sets the time
    of the last change would make every row look as if it had been written to. What it joins must have an index on
    the key: each batch goes by that, whatever the planner expects.
    """
    committing = may_commit()
    with sql.autocommit() if committing else nullcontext():
        _run(table, key, size=size, at_once=not committing, quiet=quiet, by_key=True)


def _run(table: str, key: Sequence[str], *, size: int, at_once: bool, quiet: bool, by_key: bool) -> None:
    constants: Constants = {
        "the_table": sql.name(table),
        "the_key": key,
        "the_size": size,
        "at_once": at_once,
        "quiet": quiet,
        "by_key": by_key,
    }
    why = f"{table}: all rows at once" if at_once else f"{table}: {size} rows at a time, each batch committed"
    run_block("batches", constants, why=why)
