"""SIGKILL at any instant, then the same command again: it finishes, and nothing is lost."""

import os
import random
import signal
import time

import pytest

from alembics import Chain
from bed import Database, Postgres
from legacy import everything_legacy, fill_legacy

INSTANTS = 30


def fill_contracted(database: Database) -> None:
    fill_legacy(database)
    Chain(database).upgrade("head")


def killed_after(chain: Chain, direction: str, target: str, seconds: float) -> None:
    """Run it in a forked process and kill that; forked, so that the time goes into the migration."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(2)
            getattr(chain, direction)(target)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize(
    ("direction", "target", "filled"),
    [("upgrade", "head", fill_legacy), ("downgrade", "base", fill_contracted)],
)
def test_a_killed_migration_is_finished_by_a_rerun(
    postgres: Postgres, direction: str, target: str, filled: object, part: int
) -> None:
    """30 instants of each direction, ten a test so that they spread over the workers."""
    chooser = random.Random(f"{direction}{part}")
    before = None
    duration = None
    for _ in range(INSTANTS // 3):
        database = postgres.copy_of(direction, filled)  # type: ignore[arg-type]
        chain = Chain(database)
        if before is None:
            before, duration = what_a_full_run_gives(postgres, direction, target, filled)
        assert duration is not None
        killed_after(chain, direction, target, chooser.uniform(0, duration * 1.1))
        getattr(chain, direction)(target)
        assert chain.revision() == ("0007" if target == "head" else None)
        if target == "head":
            chain.check()
            chain.downgrade("base")
        assert everything_legacy(database) == before
        postgres.drop(database)


def what_a_full_run_gives(
    postgres: Postgres, direction: str, target: str, filled: object
) -> tuple[dict[str, list[tuple[object, ...]]], float]:
    database = postgres.copy_of(direction, filled)  # type: ignore[arg-type]
    chain = Chain(database)
    start = time.monotonic()
    getattr(chain, direction)(target)
    duration = time.monotonic() - start
    if target == "head":
        chain.downgrade("base")
    before = everything_legacy(database)
    postgres.drop(database)
    return before, duration


def test_a_migration_killed_on_sqlite_is_rolled_back_and_finished(sqlite_database: Database) -> None:
    fill_legacy(sqlite_database)
    chain = Chain(sqlite_database)
    before = everything_legacy(sqlite_database)
    for seconds in (0.05, 0.2, 0.4, 0.6):
        killed_after(chain, "upgrade", "head", seconds)
    chain.upgrade("head")
    chain.check()
    chain.downgrade("base")
    assert everything_legacy(sqlite_database) == before
