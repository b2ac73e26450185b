"""SIGKILL at any instant, then the same command again: it finishes, and nothing is lost."""

import os
import random
import signal
import time

import pytest

from support.alembic_runs import Migrations
from support.legacy_database import archived_legacy, everything_legacy, fill_legacy
from support.long_form import times
from support.servers import Database, Postgres

pytestmark = pytest.mark.scene

INSTANTS = times(6, long=30)
FORCE = ("force=a drill has no week to wait",)


def fill_contracted(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).upgrade("head", *FORCE)


def killed_after(migrations: Migrations, direction: str, target: str, seconds: float) -> None:
    """Run it in a forked process and kill that; forked, so that the time goes into the migration."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(2)
            getattr(migrations, direction)(target, *FORCE)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.fixture(scope="module")
def full_runs(postgres: Postgres) -> tuple[dict[str, list[tuple[object, ...]]], dict[str, float]]:
    """What the old world holds, and how long each direction takes when nobody interferes."""
    database = postgres.copy_of("upgrade", fill_legacy)
    before = everything_legacy(database)
    durations = {}
    for direction, target in (("upgrade", "head"), ("downgrade", "base")):
        start = time.monotonic()
        getattr(Migrations(database), direction)(target, *FORCE)
        durations[direction] = time.monotonic() - start
    postgres.drop(database)
    return before, durations


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
def test_a_killed_migration_is_finished_by_a_rerun(
    postgres: Postgres,
    full_runs: tuple[dict[str, list[tuple[object, ...]]], dict[str, float]],
    direction: str,
    part: int,
) -> None:
    """Many instants of each direction, in three tests so that they spread over the workers."""
    before, durations = full_runs
    chooser = random.Random(f"{direction}{part}")
    for _ in range(INSTANTS // 3):
        database = postgres.copy_of(direction, fill_legacy if direction == "upgrade" else fill_contracted)
        migrations = Migrations(database)
        target = "head" if direction == "upgrade" else "base"
        killed_after(migrations, direction, target, chooser.uniform(0, durations[direction] * 1.1))
        getattr(migrations, direction)(target, *FORCE)
        assert migrations.revision() == ("0007" if target == "head" else None)
        now = archived_legacy(database) if target == "head" else everything_legacy(database)
        assert now == before
        postgres.drop(database)


def test_a_migration_killed_on_sqlite_is_rolled_back_and_finished(sqlite_database: Database) -> None:
    fill_legacy(sqlite_database)
    migrations = Migrations(sqlite_database)
    before = everything_legacy(sqlite_database)
    for seconds in (0.05, 0.2, 0.4, 0.6):
        killed_after(migrations, "upgrade", "head", seconds)
    migrations.upgrade("head", *FORCE)
    migrations.check()
    migrations.downgrade("base")
    assert everything_legacy(sqlite_database) == before
