"""Reconciliation against the odds: other settings of the server, late jobs, odd files, a hook that fails."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Connection, Redis
from rq import Queue

from bed import Database
from pipestate.errors import ConfigError
from pipestate.pipeline import finish_job, initialize_stage
from pipestate.pipeline.queues.config import Place
from pipestate.pipeline.queues.rq.dispatch import alive
from pipestate.pipeline.reconcile.lock import reconcile_lock
from stuck_sites import Pipeline, told


def test_the_time_zone_of_the_server_does_not_matter(pg_pipeline: Pipeline) -> None:
    name = pg_pipeline.database.url.database
    pg_pipeline.database.run(f"ALTER DATABASE {name} SET TimeZone = 'America/New_York'")
    pg_pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    assert told(pg_pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]


def test_stages_side_by_side_share_their_attempts(pipeline: Pipeline) -> None:
    """The job that fails claims for its own stage, the reconciler for the one that the site is in."""
    pipeline.put("a.gov", "extraction", extraction_total=1, extraction_completed=1, compilation_total=1)
    actions = []
    for _ in range(8):
        actions += [outcome.step.action for outcome in pipeline.reconcile(max_attempts=5)]
        with pipeline.database.begin() as conn:
            finish_job(conn, "a.gov", "compilation", error="disk full", job_key="only")
        pipeline.redis.flushall()
        pipeline.age()
    assert actions[-1] == "person"


def test_a_try_counts_once(pipeline: Pipeline) -> None:
    """Jobs that fail claim the coordinator, which counts: sending them again is not one more."""
    pipeline.put("a.gov", None)
    with pipeline.database.begin() as conn:
        initialize_stage(conn, "a.gov", "deploy", 1)
    for attempt in range(1, 5):
        with pipeline.database.begin() as conn:
            assert finish_job(conn, "a.gov", "deploy", error="no host", job_key="only").claimed
        assert pipeline.database.value("SELECT attempts FROM pipeline_claim") == attempt
        pipeline.age()
        pipeline.redis.flushall()  # the coordinator gives up, too
        (done,) = pipeline.reconcile(max_attempts=4)
        assert done.step.action == ("jobs" if attempt < 4 else "person")
    assert done.reason == "tried 4 times, it needs a person; its last error: no host"


@pytest.mark.parametrize("key", ["Council/{:02}", "{root}/a.gov/pdfs/Council/{:02}.pdf"])
@pytest.mark.parametrize("texts", [3, 4])
def test_a_late_job_whose_text_was_found_is_not_counted_again(
    pipeline: Pipeline, key: str, texts: int
) -> None:
    keys = [key.format(number, root=pipeline.root) for number in range(4)]
    pipeline.files("a.gov", pdfs=4, texts=texts)
    pipeline.put("a.gov", None)
    with pipeline.database.begin() as conn:
        initialize_stage(conn, "a.gov", "ocr", 4)
        finish_job(conn, "a.gov", "ocr", job_key=keys[0])
    pipeline.age()
    assert pipeline.reconcile()[0].result == "recovered"
    with pipeline.database.begin() as conn:
        late = {finish_job(conn, "a.gov", "ocr", job_key=keys[number]) for number in range(texts)}
    assert late == {(texts, 0, 4, False)}


def test_a_file_name_that_is_no_text_stops_nobody(pipeline: Pipeline) -> None:
    pipeline.files("a.gov", pdfs=2, texts=1)
    for kind, name in (("pdfs", b"caf\xe9.pdf"), ("txt", b"caf\xe9.txt")):
        (pipeline.root / "a.gov" / kind / "Council" / os.fsdecode(name)).write_text("x")
    pipeline.put("a.gov", "ocr", ocr_total=3, ocr_completed=1)
    assert told(pipeline.reconcile()) == [("a.gov", "recovered", "jobs")]
    assert pipeline.site("a.gov", "ocr_total", "ocr_completed") == (3, 2)


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


def test_a_scheduled_job_that_comes_due_is_seen_in_one_place_or_the_other(
    pipeline: Pipeline, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.enqueue("scheduled", "ocr_page_job")
    queue = Queue("ocr", connection=pipeline.redis)
    (job_id,) = queue.scheduled_job_registry.get_job_ids(cleanup=False)
    plain: Any = Connection.send_packed_command
    moved: list[str] = []

    def send(self: Connection, command: Any, check_health: bool = True) -> None:
        plain(self, command, check_health)
        if not moved and queue.key.encode() in b"".join(command):
            moved.append(job_id)
            with Redis.from_url(redis_url) as other:
                time.sleep(0.1)
                other.zrem(queue.scheduled_job_registry.key, job_id)
                other.rpush(queue.key, job_id)

    monkeypatch.setattr(Connection, "send_packed_command", send)
    assert dict(alive(pipeline.redis, pipeline.wiring).calls) == {("a.gov", "ocr_page_job"): 1}


def test_a_lock_file_that_cannot_be_opened_is_named(sqlite_database: Database) -> None:
    path = Path(f"{sqlite_database.url.database}.reconcile")
    path.mkdir()
    with (
        pytest.raises(ConfigError, match=r"cannot open .*\.reconcile: "),
        reconcile_lock(sqlite_database.engine),
    ):
        pass


def test_stages_side_by_side_may_name_a_coordinator_each(pipeline: Pipeline) -> None:
    """The job that ended the step has sent the one of its own stage, whichever the site is in."""
    coordinators = {**pipeline.wiring.coordinators, "compilation": Place("ocr", "clerk.workers.compiled")}
    both = replace(pipeline.wiring, coordinators=coordinators)
    pipeline.put("a.gov", "extraction", extraction_total=1, extraction_completed=1)
    pipeline.enqueue("queued", "compiled")
    assert told(pipeline.reconcile(wiring=both)) == [("a.gov", "skipped", "wait")]
