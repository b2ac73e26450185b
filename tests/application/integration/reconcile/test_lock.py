"""The lock that keeps reconciliations apart."""

import time
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.pipeline.reconcile import reconcile_lock
from support.servers import Database
from support.stuck_sites import Pipeline


def test_the_lock_may_be_lost_on_the_way(pg_pipeline: Pipeline) -> None:
    """Its connection idles: what is done by then is done, and each site is guarded by its own version."""
    with reconcile_lock(pg_pipeline.database.engine) as free:
        assert free
        pg_pipeline.database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
        )


def test_the_lock_outlives_what_ends_other_transactions(pg_pipeline: Pipeline) -> None:
    """Of the two limits that could, a server before 17 knows one."""
    database = pg_pipeline.database
    limits = "('idle_in_transaction_session_timeout', 'transaction_timeout')"
    known = database.rows(f"SELECT name FROM pg_settings WHERE name IN {limits}")
    assert known
    for (limit,) in known:
        database.run(f"ALTER DATABASE {database.url.database} SET {limit} = '200ms'")
    with reconcile_lock(database.engine) as free:
        time.sleep(0.5)
        with reconcile_lock(database.engine) as another:
            assert (free, another) == (True, False)


def test_a_lock_file_that_cannot_be_opened_is_named(sqlite_database: Database) -> None:
    path = Path(f"{sqlite_database.url.database}.reconcile")
    path.mkdir()
    with (
        pytest.raises(ConfigError, match=r"cannot open .*\.reconcile: "),
        reconcile_lock(sqlite_database.engine),
    ):
        pass
