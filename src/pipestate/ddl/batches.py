"""Work on many rows, in batches that commit as they go."""

from collections.abc import Sequence

from pipestate.ddl.engine import engine
from pipestate.ddl.postgresql.batches import BATCH_SIZE


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = BATCH_SIZE
) -> None:
    """Run `statement` once for each range of keys, each in a transaction of its own: it commits as it goes.

    In it, `{range}` stands for the condition that selects the batch's keys (`{range s}`: of the alias
    `s`, where the statement reads the table a second time). It must stand being run again: after a kill the
    ranges start anew. `condition` says whether there is anything to do.
    """
    engine().update_in_batches(table, key, statement, condition=condition, size=size)
