"""The job queues, as RQ keeps them in Redis: what stands in the way of the pipeline."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pipestate.errors import ConfigError, Unreachable
from pipestate.pipeline.queues.config import Wiring
from pipestate.pipeline.queues.rq.stored_call import Call, read_call

if TYPE_CHECKING:
    from redis import Redis

CHUNK = 1000
Item = TypeVar("Item")
URL_SHAPE = (
    "the Redis URL must look like redis://user:password@host:6379/0 "
    "(a special character in the password must be percent-encoded)"
)


class State(StrEnum):
    """A registry in which jobs stand in the way."""

    DEFERRED = "deferred"
    FAILED = "failed"

    def holds(self, status: str) -> bool:
        """RQ keeps stopped jobs among the failed; any other status is that of a job that has moved on."""
        return status == self or (self is State.FAILED and status == "stopped")


@dataclass(frozen=True, slots=True)
class Kept:
    """An id that a queue or a registry keeps; the job may be gone, or not to be read."""

    id: str
    call: Call | None
    gone: bool
    status: str = ""

    def calls(self, function: str) -> bool:
        return self.call is not None and self.call.name == function


@dataclass(frozen=True, slots=True)
class Registry:
    """A queue's deferred or failed jobs, and the function whose jobs are meant."""

    queue: str
    state: State
    function: str
    key: str

    def meant(self, kept: Kept) -> bool:
        """A job of that function in that state, or an id whose job is gone: it would never leave."""
        return kept.gone or (kept.calls(self.function) and self.state.holds(kept.status))


def registries(redis: "Redis", wiring: Wiring) -> tuple[Registry, Registry]:
    """Where the deferred coordinators are, and where the failed OCR jobs are."""
    from rq import Queue

    after, page = wiring.coordinators["ocr"], wiring.jobs["ocr"]
    deferred = Queue(after.queue, connection=redis).deferred_job_registry.key
    failed = Queue(page.queue, connection=redis).failed_job_registry.key
    return (
        Registry(after.queue, State.DEFERRED, after.name, deferred),
        Registry(page.queue, State.FAILED, page.name, failed),
    )


def in_the_way(redis: "Redis", registry: Registry) -> list[Kept]:
    """What is meant of a registry. RQ's own way to list one may drop entries from it; this only reads."""
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.zrange(registry.key, 0, -1)
        (ids,) = pipeline.execute()
    return [kept for kept in look_up(redis, [each.decode() for each in ids]) if registry.meant(kept)]


def counts(redis_url: str, wiring: Wiring | None = None) -> dict[str, float]:
    """How many coordinators are deferred and how many OCR jobs have failed, dangling ids among them."""
    with connected(redis_url) as redis:
        deferred, failed = registries(redis, wiring or Wiring())
        return {
            "deferred_coordinators": float(len(in_the_way(redis, deferred))),
            "failed_ocr_jobs": float(len(in_the_way(redis, failed))),
        }


def look_up(redis: "Redis", ids: Iterable[str]) -> Iterator[Kept]:
    """What stands behind each id, in pages, without changing anything."""
    from rq.job import Job

    for page in pages(list(ids)):
        with redis.pipeline(transaction=False) as pipeline:
            for job_id in page:
                pipeline.hmget(Job.key_for(job_id), ["data", "status"])
            for job_id, (data, status) in zip(page, pipeline.execute(), strict=True):
                call = None if data is None else read_call(decompressed(data))
                yield Kept(job_id, call, data is None, (status or b"").decode(errors="replace"))


def pages(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """In pieces that are one round trip each."""
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:  # as RQ does for jobs of its early versions
        return data


@contextmanager
def connected(redis_url: str) -> Iterator["Redis"]:
    try:
        from redis import Redis
        from redis.exceptions import RedisError, ResponseError

        import_module("rq")
    except ImportError as error:
        raise ConfigError("RQ is not installed: run pip install 'pipestate[rq]'") from error
    try:
        _require_whole(redis_url)
        redis = Redis.from_url(redis_url, socket_connect_timeout=5, socket_timeout=30)
    except ValueError as error:
        raise ConfigError(URL_SHAPE) from error
    try:
        with redis:
            yield redis
    except ResponseError as error:
        raise Unreachable(f"Redis refuses: {_reason(error)}; check the rights of its user") from error
    except RedisError as error:
        raise Unreachable(
            f"Redis does not answer: {_reason(error)}; check --redis-url or REDIS_URL"
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _require_whole(redis_url: str) -> None:
    """A password that holds / ? or # ends the host there, and its parts would be shown as host and port."""
    parts = urlsplit(redis_url)
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("an @ behind the host")
