"""The job queues, as RQ keeps them in Redis: what stands in the way of the pipeline."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.errors import ConfigError, Unreachable
from pipestate.pipeline.call import Call, read_call
from pipestate.pipeline.wiring import Wiring

if TYPE_CHECKING:
    from redis import Redis

CHUNK = 1000


@dataclass(frozen=True, slots=True)
class Kept:
    """An id that a queue or a registry keeps; the job may be gone, or not to be read."""

    id: str
    call: Call | None
    gone: bool

    def calls(self, function: str) -> bool:
        return self.call is not None and self.call.name == function


def counts(redis_url: str, wiring: Wiring | None = None) -> dict[str, float]:
    """How many coordinators are deferred and how many OCR jobs have failed."""
    wired = wiring or Wiring()
    coordinators, jobs = wired.coordinators["ocr"], wired.jobs["ocr"]
    with connected(redis_url) as redis:
        from rq import Queue

        deferred = Queue(coordinators.queue, connection=redis).deferred_job_registry
        failed = Queue(jobs.queue, connection=redis).failed_job_registry
        return {
            "deferred_coordinators": _count(redis, deferred.get_job_ids(cleanup=False), coordinators.name),
            "failed_ocr_jobs": _count(redis, failed.get_job_ids(cleanup=False), jobs.name),
        }


def _count(redis: "Redis", ids: list[str], function: str) -> float:
    """Jobs of that function, and ids whose job is gone: both stand in the way until they are cleared."""
    return float(sum(kept.gone or kept.calls(function) for kept in look_up(redis, ids)))


def look_up(redis: "Redis", ids: Iterable[str]) -> Iterator[Kept]:
    """What stands behind each id, in pages, without changing anything."""

    from rq.job import Job

    pending = list(ids)
    for start in range(0, len(pending), CHUNK):
        page = pending[start : start + CHUNK]
        with redis.pipeline(transaction=False) as pipeline:
            for job_id in page:
                pipeline.hget(Job.key_for(job_id), "data")
            for job_id, data in zip(page, pipeline.execute(), strict=True):
                yield Kept(job_id, None if data is None else read_call(_decompressed(data)), data is None)


def _decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:  # as RQ does for jobs of its early versions
        return data


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
