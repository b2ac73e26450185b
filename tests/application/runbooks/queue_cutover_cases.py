"""What a healthy queue looks like in the database, and every way to break it that queue-cutover must see."""

from collections.abc import Iterator

from support.alembic_runs import Migrations
from support.check_cases import Case, Page, case
from support.servers import Database
from support.sql_times import run_timed

PROBES = ("sqs_queue_depth", "sqs_dlq_depth", "sqs_oldest_message_seconds", "prefect_failed_runs")
INDEX = "uix_job_results_idempotency_key"
LARGE, WITH_A_FAILURE, WITHOUT_SIZE = 1, 2, 3
# What 0005 gives to an adopted table, and what a hand may give to one on SQLite.
RANDOM_KEY = "'adopted:' || gen_random_uuid()"
GIVE_A_DEFAULT = (
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_master SET sql = replace(sql, 'idempotency_key VARCHAR NOT NULL', "
    "'idempotency_key VARCHAR DEFAULT (hex(randomblob(16))) NOT NULL') WHERE name = 'job_results'",
)


def fill(database: Database) -> None:
    """20 jobs of an hour ago, all done in two minutes, and eight days of calm observations.

    One job is large, so that a join which counts results instead of jobs would come out differently.
    """
    Migrations(database).upgrade("0005")
    sizes = dict.fromkeys(range(1, 21), 3) | {LARGE: 200, WITHOUT_SIZE: 1}
    jobs = ", ".join(
        f"({job}, {'NULL' if job == WITHOUT_SIZE else size}, '{'failed' if job == WITH_A_FAILURE else 'completed'}', <60 minutes ago>)"
        for job, size in sizes.items()
    )
    results = ", ".join(
        f"({job}, 'dir{number}', '{status(job, number)}', 'key-{job}-{number}', <60 minutes ago>, <58 minutes ago>)"
        for job, size in sizes.items()
        for number in range(size)
    )
    run_timed(
        database,
        f"INSERT INTO jobs (id, package_size, status, created_at) VALUES {jobs}",
        "INSERT INTO job_results (job_id, directory_name, status, idempotency_key, created_at, updated_at) "
        f"VALUES {results}",
        "INSERT INTO worker_heartbeats (worker_id, queue_name, status) VALUES ('w1', 'jobs', 'running')",
        *(
            "INSERT INTO pipestate.observation (name, value, source, actor, observed_at) "
            "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 384) "
            f"SELECT '{probe}', 0, 'test', 'test', <11530 - 30 * i minutes ago> FROM n"
            for probe in PROBES
        ),
    )


def status(job: int, number: int) -> str:
    if job == WITH_A_FAILURE and number == 0:
        return "failed"
    return "skipped" if job == LARGE and number == 0 else "submitted"


def observe(name: str, value: float, minutes: float = 1) -> str:
    return (
        "INSERT INTO pipestate.observation (name, value, source, actor, observed_at) "
        f"VALUES ('{name}', {value}, 'test', 'test', <{minutes} minutes ago>)"
    )


def add_job(job: int, minutes: int, status: str = "pending", size: str = "3") -> str:
    return (
        "INSERT INTO jobs (id, package_size, status, created_at) "
        f"VALUES ({job}, {size}, '{status}', <{minutes} minutes ago>)"
    )


def add_result(job: int, number: int, status: str, minutes: int) -> str:
    return (
        "INSERT INTO job_results (job_id, directory_name, status, idempotency_key, created_at, updated_at) "
        f"VALUES ({job}, 'dir{number}', '{status}', 'key-{job}-{number}', <{minutes} minutes ago>, <{minutes} minutes ago>)"
    )


def broken_index(phase: str) -> Iterator[Case]:
    drop = f"DROP INDEX {INDEX}"
    yield case(f"{phase}/idempotency-index", "dropped", drop, shows="no index over idempotency_key")
    yield case(
        f"{phase}/idempotency-index",
        "not unique",
        drop,
        f"CREATE INDEX {INDEX} ON job_results (idempotency_key)",
        shows="not unique",
    )
    yield case(
        f"{phase}/idempotency-index",
        "over more columns",
        drop,
        f"CREATE UNIQUE INDEX {INDEX} ON job_results (idempotency_key, job_id)",
        shows="over other columns",
    )
    yield case(
        f"{phase}/idempotency-index",
        "partial",
        drop,
        f"CREATE UNIQUE INDEX {INDEX} ON job_results (idempotency_key) WHERE status = 'submitted'",
        shows="not for all rows",
    )
    yield case(
        f"{phase}/idempotency-index",
        "a key of its own for each delivery",
        f"ALTER TABLE job_results ALTER COLUMN idempotency_key SET DEFAULT {RANDOM_KEY}",
        only="postgresql",
    )
    yield case(f"{phase}/idempotency-index", "a default", *GIVE_A_DEFAULT, only="sqlite")
    invalid = f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{INDEX}'::regclass"
    yield case(f"{phase}/idempotency-index", "INVALID", invalid, only="postgresql")


def broken_observation(phase: str, check: str, name: str, first_bad: float) -> Iterator[Case]:
    also = "stable-hours" if phase in ("cutover", "cleanup") else ""
    yield case(
        f"{phase}/{check}", "out of bounds", observe(name, first_bad), also=also, shows=f"{first_bad:.1f}"
    )
    yield case(f"{phase}/{check}", "unknown", observe(name, -1), also=also, shows="-1.0")
    yield case(
        f"{phase}/{check}",
        "stale",
        f"DELETE FROM pipestate.observation WHERE name = '{name}' AND observed_at > <61 minutes ago>",
        also=also,
    )
    yield case(
        f"{phase}/{check}",
        "missing",
        f"DELETE FROM pipestate.observation WHERE name = '{name}'",
        also=also,
        shows=None,  # its evidence are observations, and there is none
    )


def broken_loss(phase: str, minutes: int) -> Iterator[Case]:
    """`minutes`: as old as the phase's window still sees."""
    check = "jobs-without-results"
    yield case(f"{phase}/{check}", "no results", add_job(21, minutes), shows="no results 21")
    yield case(
        f"{phase}/{check}",
        "no results, size unknown",
        add_job(21, minutes, size="NULL"),
        shows="no results 21",
    )
    yield case(
        f"{phase}/{check}",
        "partly processed",
        add_job(21, minutes, "in_progress"),
        add_result(21, 0, "submitted", minutes),
        add_result(21, 1, "failed", minutes),
        shows="partly processed 21",
    )
    yield case(
        f"{phase}/{check}",
        "one still submitting",
        add_job(21, minutes, "in_progress"),
        *(add_result(21, number, "submitted", minutes) for number in range(2)),
        add_result(21, 2, "submitting", minutes),
    )
    yield case(
        f"{phase}/{check}",
        "one directory twice",
        "UPDATE job_results SET directory_name = 'dir0' WHERE job_id = 5 AND directory_name = 'dir1'",
        "UPDATE jobs SET status = 'in_progress' WHERE id = 5",
        shows="partly processed 5",
    )


def broken_agreement(phase: str) -> Iterator[Case]:
    """20 jobs are compared: one that differs is exactly 95 %, and that is not more than 95."""
    yield case(
        f"{phase}/agreement",
        "fails there only",
        "UPDATE jobs SET status = 'failed' WHERE id = 7",
        shows="failed completed",
    )
    yield case(
        f"{phase}/agreement",
        "fails here only",
        "UPDATE job_results SET status = 'failed' WHERE job_id = 7 AND directory_name = 'dir0'",
        shows="completed failed",
    )
    yield case(
        f"{phase}/agreement",
        "half done here",
        "DELETE FROM job_results WHERE job_id = 7 AND directory_name = 'dir0'",
        also="jobs-without-results" if phase == "shadow" else "processed",
        shows="completed open",
    )
    yield case(
        f"{phase}/agreement",
        "still submitting here",
        "UPDATE job_results SET status = 'submitting' WHERE job_id = 7 AND directory_name = 'dir0'",
        also="jobs-without-results" if phase == "shadow" else "processed",
        shows="completed open",
    )


def broken_workers(phase: str) -> Iterator[Case]:
    yield case(
        f"{phase}/stale-workers",
        "silent",
        "UPDATE worker_heartbeats SET last_heartbeat = <3 minutes ago>",
        shows="silent w1",
    )
    yield case(
        f"{phase}/stale-workers",
        "silent while starting",
        "INSERT INTO worker_heartbeats (worker_id, queue_name, status, last_heartbeat) "
        "VALUES ('w2', 'jobs', 'starting', <3 minutes ago>)",
        shows="silent w2",
    )
    yield case(f"{phase}/stale-workers", "none", "DELETE FROM worker_heartbeats", shows="no workers")


def broken_stability(phase: str, hours: int) -> Iterator[Case]:
    inside = hours * 60 - 5
    yield case(
        f"{phase}/stable-hours", "ten seconds too early", observe(PROBES[0], 101, hours * 60 - 10 / 60)
    )
    yield case(
        f"{phase}/stable-hours",
        "out of bounds, by a clock that is ahead",
        observe(PROBES[0], 101, -30),
        also="queue-depth",
        shows="in the future sqs_queue_depth",
    )
    bounds = zip(PROBES, (101, 1, 601, 1), strict=True)
    for name, value in bounds:
        yield case(
            f"{phase}/stable-hours",
            f"{name} out of bounds",
            observe(name, value, inside),
            shows=f"out of bounds {name} {value}.0",
        )
    yield case(
        f"{phase}/stable-hours",
        "a gap",
        f"DELETE FROM pipestate.observation WHERE name = 'sqs_queue_depth' "
        f"AND observed_at > <{inside + 60} minutes ago> AND observed_at < <{inside - 90} minutes ago>",
        shows="more than an hour without an observation before it sqs_queue_depth",
    )
    yield case(
        f"{phase}/stable-hours",
        "a short history",
        f"DELETE FROM pipestate.observation WHERE observed_at < <{inside} minutes ago>",
        shows="the history begins",
    )


def broken_success(phase: str) -> Iterator[Case]:
    yield case(
        f"{phase}/success-rate",
        "too many failures",
        f"UPDATE job_results SET status = 'failed' WHERE job_id = {LARGE} AND id % 8 = 0",
    )
    yield case(
        f"{phase}/success-rate",
        "a job of which nothing succeeded",
        "UPDATE job_results SET status = 'failed' WHERE job_id = 5",
        shows="nothing succeeded 5",
    )


CASES = (
    case("dual-write/processed", "no results", add_job(21, 60), shows="not in queue_history 21"),
    case("dual-write/processed", "only begun", add_job(21, 60), add_result(21, 0, "submitting", 60)),
    case(
        "dual-write/processed",
        "1 result of 50",
        add_job(21, 60, size="50"),
        add_result(21, 0, "submitted", 60),
        shows="not all of its results 21",
    ),
    case(
        "dual-write/processed",
        "no jobs",
        "DELETE FROM jobs",
        also="agreement",
        shows="no job in the last 24 hours",
    ),
    *broken_agreement("dual-write"),
    *broken_index("dual-write"),
    *broken_observation("dual-write", "prefect-errors", "prefect_failed_runs", 1),
    *broken_observation("dual-write", "dead-letters", "sqs_dlq_depth", 11),
    case(
        "shadow/p95-latency",
        "two slow jobs of twenty",
        "UPDATE job_results SET updated_at = <55 minutes ago> WHERE job_id IN (5, 6) AND directory_name = 'dir2'",
        shows="ended late",
    ),
    case("shadow/p95-latency", "two stuck jobs", add_job(21, 9), add_job(22, 8), shows="has not ended 21"),
    case(
        "shadow/success-rate",
        "too many failures",
        f"UPDATE job_results SET status = 'failed' WHERE job_id = {LARGE} AND id % 8 = 0",
        f"UPDATE jobs SET status = 'failed' WHERE id = {LARGE}",
        shows="some failed 1",
    ),
    case(
        "shadow/success-rate",
        "nothing finished",
        "DELETE FROM jobs",
        also="p95-latency jobs-without-results agreement",
        shows=None,  # its evidence are results, and there is none
    ),
    *broken_loss("shadow", 23 * 60),
    *broken_agreement("shadow"),
    *broken_observation("shadow", "queue-depth", "sqs_queue_depth", 101),
    *broken_observation("shadow", "oldest-message", "sqs_oldest_message_seconds", 601),
    *broken_observation("shadow", "dead-letters", "sqs_dlq_depth", 11),
    *broken_stability("cutover", 48),
    *broken_loss("cutover", 47 * 60),
    *broken_success("cutover"),
    *broken_workers("cutover"),
    *broken_observation("cutover", "dead-letters", "sqs_dlq_depth", 1),
    *broken_observation("cutover", "queue-depth", "sqs_queue_depth", 101),
    *broken_observation("cutover", "oldest-message", "sqs_oldest_message_seconds", 601),
    *broken_observation("cutover", "prefect-errors", "prefect_failed_runs", 1),
    *broken_index("cutover"),
    *broken_stability("cleanup", 168),
    *broken_loss("cleanup", 167 * 60),
    *broken_success("cleanup"),
    *broken_observation("cleanup", "dead-letters", "sqs_dlq_depth", 1),
    *broken_observation("cleanup", "queue-depth", "sqs_queue_depth", 101),
    *broken_observation("cleanup", "oldest-message", "sqs_oldest_message_seconds", 601),
    *broken_observation("cleanup", "prefect-errors", "prefect_failed_runs", 1),
    *broken_index("cleanup"),
    *broken_workers("cleanup"),
)


def refresh(database: Database) -> None:
    run_timed(database, "UPDATE worker_heartbeats SET last_heartbeat = <0 minutes ago>")


PAGE = Page("queue-cutover", healthy=fill, refresh=refresh, cases=CASES)
