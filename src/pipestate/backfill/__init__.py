"""Backfills of a project: an UPDATE in a runbook, run in batches, resumable after a kill.

`source` finds backfills in the runbooks. `forecast` counts rows. `loop` is the one batching loop. `recorded` runs a
backfill with it, resumes it, and obeys orders. `postgresql` and `sqlite` hold the engine-specific parts.
"""


def run(name: str) -> None:
    """Run the backfill `orders/state` of the project's runbooks inside a revision, in batches that commit.

    A script (`--sql`) only checks: it stops if rows are left, and names the command to run. On SQLite the
    backfill is one statement.
    """
    from pipestate.backfill.revision import run_in_revision

    run_in_revision(name)
