"""Backfills of one's own: an UPDATE on a runbook's page, run in batches, that goes on after a kill.

`find` reads their names from the pages, `look` what a run will find, `loop` runs one; `pace` says how large a batch
is, `hold` what makes it wait. How it is done on each engine is in `postgresql` and `sqlite`.
"""


def run(name: str) -> None:
    """In a revision: run the backfill `orders/state` of the project's pages, in batches that commit as they go.

    In a script (`--sql`) it is a demand: the script stops where rows are left, and says which command to run.
    On SQLite it is one statement.
    """
    from pipestate.backfill.revision import run_in_revision

    run_in_revision(name)
