"""A rehearsal in production's ledger: a check can demand it, for exactly these files."""

from collections.abc import Mapping, Sequence

from sqlalchemy import URL

from pipestate import db
from pipestate.chain.files import hash_files
from pipestate.chain.position import Position
from pipestate.errors import ConfigError
from pipestate.ledger.rehearsals import Rehearsed, record_rehearsal
from pipestate.ledger.state import require_ledger
from pipestate.rehearse.felt import Rehearsal
from pipestate.rehearse.job import Job


def require_recordable(job: Job) -> None:
    """Refuse, before anything runs, a rehearsal that could not be recorded."""
    with db.reader(_production(job)) as connection:
        job.locate(connection)
        require_ledger(connection)


def files_of(job: Job, position: Position, wanted: Sequence[str]) -> dict[str, str]:
    """Hash the files of the pending revisions as they are now, before they run."""
    pending = job.chain.ancestors(wanted) - position.applied
    return hash_files({revision: job.chain.by_id[revision].path for revision in pending})


def as_record(made: Rehearsal, files: Mapping[str, str]) -> Rehearsed:
    """Choose what the ledger keeps of a rehearsal; what failed or would be a guess is not known."""
    failed = made.failure is not None
    return Rehearsed(
        revision=made.before,
        target=made.after,
        files=dict(files),
        clone=made.clone,
        ok=made.exit_code == 0,
        duration_ms=round(made.duration_ms, 1),
        rows=made.rows,
        longest_stall_ms=None if failed or made.beyond else round(made.longest_stall_ms, 1),
        noise_ms=round(made.noise_ms, 1),
        bounded=None if failed else made.bounded,
        tables={table.table: table.rows for table in made.tables},
        scale=None if made.beyond else max((table.scale or 1.0 for table in made.tables), default=1.0),
    )


def write_record(job: Job, done: Rehearsed) -> None:
    """Write the result into production's ledger."""
    with db.writer(_production(job)) as connection:
        job.locate(connection)
        record_rehearsal(connection, done)


def _production(job: Job) -> URL:
    if job.production is None:
        raise ConfigError(
            "--record writes into production's ledger, and no production is known: name it with --database-url"
        )
    return job.production
