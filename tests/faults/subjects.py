"""What is interrupted: each a command on a database of its own, and what it must leave."""

from collections.abc import Sequence
from pathlib import Path

from alembic import command as alembic_command

from faults.case import Case, Rows, Subject
from faults.queues import Cleared
from faults.rehearsal import rehearse
from faults.world import World
from support.alembic_runs import ROOT, Migrations
from support.contract_project import Contracted
from support.legacy_database import archived_legacy, everything_legacy, fill_legacy, without_derived
from support.miniatures import copy_project
from support.queues import RqBed
from support.readiness_records import make_ready
from support.servers import Database
from support.stale_rows import fill_expanded
from support.stuck_sites import Pipeline

LEDGER = "SELECT event, runbook, phase, gate, revision FROM pipestate.run"
SITES = [f"s{number}.gov" for number in range(40)]


def upgrade(world: World) -> Case:
    """Expand the old world."""
    database = world.postgres.copy_of("legacy", fill_legacy)
    return _migration(database, ["upgrade", "0005"], everything_legacy(database))


def contract(world: World) -> Case:
    """Take the old tables away, through their open gate."""
    database = world.postgres.copy_of("ready", _fill_ready)
    return _migration(database, ["upgrade", "head"], everything_legacy(database))


def downgrade(world: World) -> Case:
    """Bring them back."""
    database = world.postgres.copy_of("contracted", _fill_contracted)
    return _migration(database, ["downgrade", "0005"], archived_legacy(database))


def own_backfill(world: World) -> Case:
    """Run the UPDATE of a page of one's own, in batches."""
    root: Path = world.once("orders", lambda: copy_project("backfilled", world.new_directory()))
    database = world.postgres.copy_of("orders", lambda each: _fill_orders(root, each))
    argv = ["pipestate", "backfill", "orders/state", "--batch-size", "100"]

    def read() -> Rows:
        """An order stands there as often as it was updated."""
        return {"orders": database.rows("SELECT id FROM orders, generate_series(1, times)")}

    wanted = {"orders": [(number,) for number in range(1, 10_001)]}
    return Case(argv, root, {"DATABASE_URL": database.text}, read, wanted, [database])


def shipped_backfill(world: World) -> Case:
    """Carry 500 stuck sites over."""
    database = world.postgres.copy_of("stuck", _fill_stuck)
    root: Path = world.once("documents", lambda: _write_documents(world.new_directory()))
    counters = "subdomain, current_stage, ocr_total, ocr_completed, ocr_failed, last_error_stage"
    return Case(
        ["pipestate", "backfill", "--batch-size", "10"],
        ROOT,
        {"PIPESTATE_DATABASE_URL": database.text, "STORAGE_DIR": str(root)},
        lambda: {"sites": database.rows(f"SELECT {counters} FROM sites")},
        {"sites": [(f"s{number}", "ocr", 2, 1, 1, None) for number in range(1, 501)]},
        [database],
    )


def reconcile(world: World) -> Case:
    """Send the coordinators of 40 sites whose jobs are done."""
    database = world.postgres.copy_of("done", lambda each: _fill_done(world, each))
    world.redis.flushall()
    root: Path = world.once("no documents", world.new_directory)
    queues = RqBed(world.redis)
    variables = {
        "PIPESTATE_DATABASE_URL": database.text,
        "REDIS_URL": world.redis_server.url,
        "STORAGE_DIR": str(root),
    }
    return Case(
        ["pipestate", "reconcile"],
        ROOT,
        variables,
        lambda: {"calls": [str(keywords["subdomain"]) for _, _, keywords in queues.waiting()]},
        {"calls": SITES},
        [database],
    )


def queues_clear(world: World) -> Case:
    """Export what stands in the way, and delete it; from the file all of it can come back."""
    cleared = Cleared.lay_out(world)
    argv = ["pipestate", "queues", "clear", "--shipped", "--export", str(cleared.file)]
    variables = {"REDIS_URL": world.redis_server.url}
    return Case(argv, cleared.file.parent, variables, cleared.read, {"restored": cleared.before})


SUBJECTS: dict[str, Subject] = {
    each.__name__: each
    for each in (
        upgrade,
        contract,
        downgrade,
        own_backfill,
        shipped_backfill,
        reconcile,
        queues_clear,
        rehearse,
    )
}


def _migration(database: Database, arguments: Sequence[str], wanted: Rows) -> Case:
    """Migrate the old world: its rows are there or archived as before, and each step is recorded once."""
    archived = arguments == ["upgrade", "head"]

    def read() -> Rows:
        rows = archived_legacy(database) if archived else without_derived(everything_legacy(database), wanted)
        return {**rows, "ledger": database.rows(LEDGER)}

    variables = {"PIPESTATE_DATABASE_URL": database.text}
    return Case(["alembic", *arguments], ROOT, variables, read, wanted, [database], schema=database)


def _fill_ready(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).upgrade("0005")
    make_ready(database)


def _fill_contracted(database: Database) -> None:
    _fill_ready(database)
    Migrations(database).upgrade("head")


def _fill_orders(root: Path, database: Database) -> None:
    alembic_command.upgrade(Contracted(root, database).config(), "b2")
    database.run("INSERT INTO orders (id, old_state) SELECT n, n % 2 FROM generate_series(1, 10000) n")


def _fill_stuck(database: Database) -> None:
    fill_expanded(database)
    database.run(
        "INSERT INTO sites (subdomain) SELECT 's' || n FROM generate_series(1, 500) n",
        "INSERT INTO site_progress (subdomain, current_stage, stage_total, started_at, updated_at) "
        "SELECT 's' || n, 'ocr', 2, now() - interval '4 days', now() - interval '3 days' "
        "FROM generate_series(1, 500) n",
    )


def _write_documents(root: Path) -> Path:
    for number in range(1, 501):
        for name in ("pdfs/c/1.pdf", "pdfs/c/2.pdf", "txt/c/1.txt"):
            path = root / f"s{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return root


def _fill_done(world: World, database: Database) -> None:
    Migrations(database).upgrade("0005")
    pipeline = Pipeline(database, world.directory, RqBed(world.redis))
    for site in SITES:
        pipeline.put(site, "ocr", ocr_total=1, ocr_completed=1)
