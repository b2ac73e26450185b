"""What is interrupted: each a command on a database of its own, and what must be true once it was finished."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from alembic import command as alembic_command

from alembics import ROOT, Chain, dump
from attacks.project import Project, lay_out
from bed import Database
from contracted import Contracted
from faults.world import World
from legacy import archived_legacy, everything_legacy, fill_legacy
from miniatures import copy_project
from pipestate.pipeline.demo import scene
from queue_beds import RqBed
from queue_scene import lines
from ready import make_ready
from stale_rows import Stuck, fill_expanded
from stuck_sites import Pipeline

Rows = dict[str, list[tuple[object, ...]]]


@dataclass(frozen=True)
class Case:
    """One command to interrupt; `complaints` says what is lost or doubled after `again` has finished it."""

    argv: Sequence[str]
    cwd: Path
    variables: dict[str, str]
    complaints: Callable[[], list[str]]
    databases: Sequence[Database] = ()
    again: Sequence[str] = ()
    codes: frozenset[int] = field(default=frozenset({0}))

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}


Subject = Callable[[World], Case]


def _fill_ready(database: Database) -> None:
    fill_legacy(database)
    Chain(database).upgrade("0005")
    make_ready(database)


def _fill_contracted(database: Database) -> None:
    _fill_ready(database)
    Chain(database).upgrade("head")


def _alembic(database: Database, *arguments: str, complaints: Callable[[], list[str]]) -> Case:
    variables = {"PIPESTATE_DATABASE_URL": database.text}
    return Case(["alembic", *arguments], ROOT, variables, complaints, [database])


def _differences(wanted: Rows, found: Rows) -> list[str]:
    told = []
    for table, rows in wanted.items():
        lost = Counter(rows) - Counter(found[table])
        more = Counter(found[table]) - Counter(rows)
        told += [f"{table}: lost {row}" for row in lost] + [
            f"{table}: doubled or changed {row}" for row in more
        ]
    return told


@cache
def _schema_of(world: World, revision: str) -> str:
    """The schema after a run that nobody disturbed."""
    database = world.postgres.copy_of("legacy", fill_legacy)
    Chain(database).upgrade(revision)
    schema = dump(database)
    world.postgres.drop(database)
    return schema


def upgrade(world: World) -> Case:
    """Expand the old world."""
    database = world.postgres.copy_of("legacy", fill_legacy)
    before = everything_legacy(database)

    def complaints() -> list[str]:
        other = [] if dump(database) == _schema_of(world, "0005") else ["the schema is another one"]
        return _differences(before, everything_legacy(database)) + other

    return _alembic(database, "upgrade", "0005", complaints=complaints)


def contract(world: World) -> Case:
    """Take the old tables away, through their open gate."""
    database = world.postgres.copy_of("ready", _fill_ready)
    before = everything_legacy(database)
    return _alembic(
        database,
        *("upgrade", "head"),
        complaints=lambda: _differences(before, archived_legacy(database)),
    )


def downgrade(world: World) -> Case:
    """Bring them back."""
    database = world.postgres.copy_of("contracted", _fill_contracted)
    before = archived_legacy(database)
    return _alembic(
        database,
        *("downgrade", "0005"),
        complaints=lambda: _differences(before, everything_legacy(database)),
    )


def own_backfill(world: World) -> Case:
    """Run the UPDATE of a page of one's own, in batches."""
    project = Contracted(copy_project("backfilled", world.new_directory()), world.postgres.create())
    alembic_command.upgrade(project.config(), "b2")
    project.database.run(
        "INSERT INTO orders (id, old_state) SELECT n, n % 2 FROM generate_series(1, 10000) n"
    )

    def complaints() -> list[str]:
        found = project.database.rows("SELECT times, count(*) FROM orders WHERE times <> 1 GROUP BY times")
        return [f"{count} orders were updated {times} times" for times, count in found]

    argv = ["pipestate", "backfill", "orders/state", "--batch-size", "100"]
    return Case(argv, project.root, {"DATABASE_URL": project.database.text}, complaints, [project.database])


STATE = (
    "SELECT current_stage, ocr_total, ocr_completed, ocr_failed, last_error_stage, count(*) FROM sites "
    "GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"
)


def shipped_backfill(world: World) -> Case:
    """Carry 500 stuck sites over."""
    database = world.postgres.copy_of("backfill", fill_expanded)
    stuck = Stuck(database, world.new_directory())
    database.run(
        "INSERT INTO sites (subdomain) SELECT 's' || n FROM generate_series(1, 500) n",
        "INSERT INTO site_progress (subdomain, current_stage, stage_total, started_at, updated_at) "
        "SELECT 's' || n, 'ocr', 2, now() - interval '4 days', now() - interval '3 days' "
        "FROM generate_series(1, 500) n",
    )
    for number in range(1, 501):
        stuck.put(f"s{number}", "pdfs/c/1.pdf", "pdfs/c/2.pdf", "txt/c/1.txt")
    wanted = [("ocr", 2, 1, 1, None, 500)]

    def complaints() -> list[str]:
        found = database.rows(STATE)
        return [] if found == wanted else [f"sites are {found}"]

    return Case(
        ["pipestate", "backfill", "--batch-size", "10"], ROOT, stuck.environment, complaints, [database]
    )


def reconcile(world: World) -> Case:
    """Send the coordinators of 40 sites whose jobs are done."""
    database = world.postgres.copy_of("expanded", lambda each: Chain(each).upgrade("0005"))
    world.redis.flushall()
    pipeline = Pipeline(database, world.new_directory(), RqBed(world.redis))
    for number in range(40):
        pipeline.put(f"s{number}.gov", "ocr", ocr_total=1, ocr_completed=1)

    def complaints() -> list[str]:
        sent = Counter(str(keywords["subdomain"]) for _, _, keywords in pipeline.queued())
        told = [f"{site} has {count} calls" for site, count in sent.items() if count > 1]
        return told + [f"s{number}.gov has no call" for number in range(40) if f"s{number}.gov" not in sent]

    variables = {
        "PIPESTATE_DATABASE_URL": database.text,
        "REDIS_URL": world.redis_url,
        "STORAGE_DIR": str(pipeline.root),
    }
    return Case(["pipestate", "reconcile"], ROOT, variables, complaints, [database])


def queues_clear(world: World) -> Case:
    """Export what stands in the way, and delete it."""
    directory = world.new_directory()
    world.redis.flushall()
    scene.fill_queues(world.redis, directory)
    wanted = {key.decode().removeprefix("rq:job:") for key in world.redis.scan_iter("rq:job:*")}
    wanted = {key for key in wanted if ":" not in key}
    file = directory / "cleared.jsonl"

    def complaints() -> list[str]:
        left = {key.decode().removeprefix("rq:job:") for key in world.redis.scan_iter("rq:job:*")}
        kept = {str(line["id"]) for each in directory.glob("*.jsonl") for line in lines(each)}
        lost = wanted - kept - left
        return [f"job {each} is lost" for each in sorted(lost)] + [
            f"job {each} is still there" for each in sorted(wanted & left)
        ]

    argv = ["pipestate", "queues", "clear", "--shipped", "--export", str(file)]
    database = world.postgres.copy_of("expanded", lambda each: Chain(each).upgrade("0005"))
    variables = {"PIPESTATE_DATABASE_URL": database.text, "REDIS_URL": world.redis_url}
    return Case(argv, directory, variables, complaints, [database])


def rehearse(world: World) -> Case:
    """Rehearse revisions on a clone: production is not touched, and nobody stays on the clone."""
    production = world.postgres.create()
    project: Project = lay_out("stalling", world.new_directory() / "project", production)
    done = project.alembic("upgrade", "a1")
    assert done.returncode == 0, done.stderr
    clones = [world.postgres.create(str(production.url.database)) for _ in range(2)]
    before = dump(production)

    def complaints() -> list[str]:
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        stayed = [str(each.value(others)) for each in clones]
        told = [] if dump(production) == before else ["production has changed"]
        return told + ([f"sessions stayed on the clones: {stayed}"] if set(stayed) != {"0"} else [])

    first, second = (["pipestate", "rehearse", "--on", each.text, "--json"] for each in clones)
    variables = {"DATABASE_URL": production.text}
    return Case(first, project.root, variables, complaints, [production, *clones], second)


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
