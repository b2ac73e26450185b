"""Script of the demo on temporary servers, with real commands and their real output."""

import shlex
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pipestate.database import embedded
from pipestate.pipeline.demo import scene
from pipestate.pipeline.demo import stage as redis_server
from pipestate.pipeline.demo.stage import Stage

DAILY = (
    "pipestate reconcile --trigger cron",
    "pipestate observe",
    "pipestate verify sites-consolidation --phase backfill --record",
)


def demo(*, pause: bool = False, keep: bool = False) -> None:
    """Play the whole demo; `pause` waits for a key before each command, `keep` leaves the servers running."""
    with _world(keep=keep) as (database, redis, directory):
        stage = Stage(database, redis, directory, pause=pause)
        _old_world(stage)
        _expand(stage)
        _backfill(stage)
        if redis is None:
            _contract_by_force(stage)
        else:
            _queues(stage)
            _ten_days(stage)
            _contract(stage)
        _report(stage, keep=keep)
        stage.tell(f"That was all of it, in {stage.seconds():.0f} seconds.")
        if keep:
            stage.kept()


def only_database() -> tuple[str, str]:
    """Start a PostgreSQL with the initial state and leave it running; return its URL and its stop command."""
    with _world(keep=True, queues=False) as (database, redis, directory):
        stage = Stage(database, redis, directory)
        with stage.connection() as connection:
            scene.build(connection)
        scene.write_files(stage.storage)
        return database, stage.ending()


@contextmanager
def _world(*, keep: bool, queues: bool = True) -> Iterator[tuple[str, str | None, Path]]:
    with ExitStack() as servers:
        url = servers.enter_context(embedded.embedded_server(keep=keep))
        queues = queues and redis_server.has_redis()
        redis = servers.enter_context(redis_server.embedded_redis(keep=keep)) if queues else None
        if keep:
            directory = Path(tempfile.mkdtemp(prefix="pipestate-demo-"))
        else:
            directory = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="pipestate-demo-")))
        owner = scene.create_owner(url)
        yield owner.render_as_string(hide_password=False), redis, directory


def _old_world(stage: Stage) -> None:
    with stage.connection() as connection:
        scene.build(connection)
    scene.write_files(stage.storage)
    stage.tell(
        f"The legacy schema: {scene.SITES} sites in two tables that contradict each other. {scene.STUCK} sites are "
        "stuck in OCR; their files are on the disk."
    )
    if stage.redis is not None:
        with stage.queues() as redis:
            scene.fill_queues(redis, stage.storage)
        stage.tell(
            f"Redis holds {scene.DEFERRED} coordinators that wait for ever and {scene.FAILED:,} failed OCR "
            "jobs."
        )
    stage.run("pipestate plan")


def _expand(stage: Stage) -> None:
    stage.tell("Expand. Every change is additive, and writers continue.")
    stage.run("alembic upgrade 0005")
    stage.tell("Verify: may the old tables be dropped? The runbook's SQL runs on the database, read-only.")
    stage.run("pipestate verify --phase readiness", code=1)
    stage.tell("The gate is closed. The destructive revision evaluates the same gate, and refuses to run.")
    stage.run("alembic upgrade head", code=255)


def _backfill(stage: Stage) -> None:
    stage.tell(
        "Follow the runbook. The backfill counts the documents of each site; a dry run shows its plan and "
        "cannot write."
    )
    stage.run("pipestate backfill --dry-run")
    stage.run("pipestate backfill")
    stage.tell("The state of the other sites is only in a column that will be dropped. They get their stage.")
    stage.run("pipestate backfill sites-consolidation/stage")


def _queues(stage: Stage) -> None:
    stage.tell("Clear the jobs that can never end. A file keeps them.")
    stage.run("pipestate queues show")
    stage.run("pipestate queues clear --export cleared_jobs.jsonl")
    stage.tell(
        "Reconcile: stuck sites get a coordinator again, and workers (examples/clerk) finish their jobs."
    )
    stage.run("pipestate reconcile")
    stage.run("python -m clerk.worker --burst --simple")
    stage.tell("A new site proves that the whole pipeline works, from fetch to completed.")
    stage.run(f"python -m clerk.start {scene.NEW_SITE}")
    stage.run("python -m clerk.worker --burst --simple")
    stage.run("pipestate status")
    stage.tell("Record the facts that only people know. Then the gate of this phase is open.")
    stage.run('pipestate attest code-deployed --by ops@example.com --note "release 26.3"')
    stage.run('pipestate attest dry-run-done --by ops@example.com --note "105 sites"')
    stage.tell("Cron runs these two every 15 minutes.")
    stage.run("pipestate reconcile --trigger cron")
    stage.run("pipestate observe")
    stage.run("pipestate gate backfill")


def _ten_days(stage: Stage) -> None:
    stage.tell(
        "Ten days pass. (The demo cannot wait: it moves the times of its own rows into the past, day by day. "
        "It runs the daily cron commands, too.)"
    )
    for command in DAILY:
        stage.show(command)
    for day in range(1, 11):
        with stage.connection() as connection:
            scene.let_a_day_pass(connection)
        stage.note(f"day {day:2}: {' · '.join(stage.cron(command) for command in DAILY)}")


def _contract(stage: Stage) -> None:
    stage.tell("Rehearse the contract on a copy: how long would others wait? The ledger keeps the answer.")
    stage.run("pipestate rehearse --clone --record")
    stage.tell(
        "The deployed release and today's backup are signed off. Now the gate of the contract is open."
    )
    stage.run('pipestate attest old-columns-unread --by ops@example.com --note "release 26.4"')
    stage.run('pipestate attest backup-taken --by dba@example.com --note "snapshot of today"')
    stage.run("pipestate gate readiness")
    _there_and_back(stage, "alembic upgrade head")


def _contract_by_force(stage: Stage) -> None:
    """Force the gate: without Redis the sites stay stuck and the gate stays closed."""
    stage.tell(
        "No Redis server here (pip install 'pipestate[demo]'): the queues and the workers are left out."
    )
    stage.tell("The gate stays closed. In an emergency a reason forces it, and the ledger keeps the reason.")
    _there_and_back(stage, 'alembic -x force="the demo without its queues" upgrade head')


def _there_and_back(stage: Stage, upgrade: str) -> None:
    before = stage.fingerprint()
    stage.run(upgrade)
    stage.tell("Downgrade: the table and the columns return.")
    stage.run("alembic downgrade -2")
    stage.require_same(before)
    stage.tell(f"Every row and value of the {scene.SITES} sites is back (md5 {before}). Forward again:")
    stage.run(upgrade)
    stage.run("pipestate history --limit 6")


def _report(stage: Stage, *, keep: bool) -> None:
    """Write the report outside the demo's temporary files; with `keep`, into the kept directory."""
    stage.tell("Write the report: gates, observations and history, as one page for a browser.")
    parent = stage.directory if keep else Path(tempfile.mkdtemp(prefix="pipestate-report-"))
    file = parent / "report.html"
    stage.run(f"pipestate report --output {shlex.quote(str(file))}")
    stage.console.print(f"Open {file.as_uri()}", soft_wrap=True)
