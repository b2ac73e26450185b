"""The job queues, as RQ keeps them in Redis: what stands in the way of the pipeline."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipestate.errors import ConfigError, Unreachable

if TYPE_CHECKING:
    from redis import Redis

# (queue, function)
COORDINATORS = ("compilation", "ocr_complete_coordinator")
OCR_JOBS = ("ocr", "ocr_page_job")


def counts(redis_url: str) -> dict[str, float]:
    """How many coordinators are deferred and how many OCR jobs have failed."""
    with connected(redis_url) as redis:
        from rq import Queue

        deferred = Queue(COORDINATORS[0], connection=redis).deferred_job_registry
        failed = Queue(OCR_JOBS[0], connection=redis).failed_job_registry
        return {
            "deferred_coordinators": _count(redis, deferred.get_job_ids(cleanup=False), COORDINATORS[1]),
            "failed_ocr_jobs": _count(redis, failed.get_job_ids(cleanup=False), OCR_JOBS[1]),
        }


def _count(redis: "Redis", ids: list[str], function: str) -> float:
    """Jobs of that function, and ids whose job is gone: both stand in the way until they are cleared."""
    from rq.job import Job

    jobs = Job.fetch_many(ids, connection=redis)
    return float(sum(job is None or (job.func_name or "").rpartition(".")[2] == function for job in jobs))


@contextmanager
def connected(redis_url: str) -> Iterator["Redis"]:
    try:
        from redis import Redis
        from redis.exceptions import RedisError
    except ImportError as error:
        raise ConfigError("RQ is not installed: run pip install 'pipestate[rq]'") from error
    try:
        redis = Redis.from_url(redis_url, socket_connect_timeout=5)
    except ValueError as error:
        raise ConfigError("the Redis URL must look like redis://host:6379/0") from error
    try:
        with redis:
            yield redis
    except RedisError as error:
        raise Unreachable(f"Redis does not answer: {error}; check --redis-url or REDIS_URL") from error
