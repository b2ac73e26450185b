"""Connection to Redis, and the keys that RQ uses for a job."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.pipeline.queues.port import Obstacle, State

if TYPE_CHECKING:
    from redis import Redis


JOBS = "rq:job:"
EXECUTIONS = "rq:execution:"


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a job: its hash, dependents, dependencies, results and runs."""

    job: str
    dependents: str
    dependencies: str
    results: str
    executions: str

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the keys that an export keeps: all but the runs of a worker."""
        return self.job, self.results, self.dependencies, self.dependents


def keys_of(job_id: str) -> Keys:
    """Return the keys of a job, from RQ's own functions if they need only the id."""
    from rq.executions import ExecutionRegistry
    from rq.job import Job
    from rq.results import Result

    return Keys(
        job=f"{JOBS}{job_id}",
        dependents=Job.dependents_key_for(job_id),
        dependencies=f"{JOBS}:{job_id}:dependencies",  # RQ uses two colons here
        results=Result.get_key(job_id),  # type: ignore[no-untyped-call]
        executions=ExecutionRegistry.key_template.format(job_id),
    )


def registry_key(obstacle: Obstacle) -> str:
    """Return the key of the registry that holds the jobs of an obstacle."""
    from rq.registry import DeferredJobRegistry, FailedJobRegistry

    registry = DeferredJobRegistry if obstacle.state is State.DEFERRED else FailedJobRegistry
    return registry.key_template.format(obstacle.queue)


# Connection to Redis, with its errors as one sentence without a password.


PAGE = 1000
Item = TypeVar("Item")
URL_SHAPE = (
    "the Redis URL must look like redis://user:password@host:6379/0 "
    "(a special character in the password must be percent-encoded)"
)


def pages(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Split the items into pages of one round trip each."""
    return (items[start : start + PAGE] for start in range(0, len(items), PAGE))


def text(data: bytes) -> str:
    """Decode a value from Redis, so that the client encodes it to the same bytes."""
    return data.decode(errors="surrogateescape")


@contextmanager
def connected(redis_url: str) -> Iterator["Redis"]:
    """Connect to Redis; a refused command or a lost connection raises Unreachable."""
    try:
        from redis import Redis
        from redis.exceptions import RedisError, ResponseError

        import_module("rq")
    except ImportError as error:
        raise ConfigError("RQ is not installed: run pip install 'pipestate[rq]'") from error
    try:
        parts = urlsplit(redis_url)
        # A password with / ? or # ends the URL's host there, and messages would show the rest.
        if "@" in parts.path + parts.query + parts.fragment:
            raise ConfigError(URL_SHAPE)
        redis = Redis.from_url(
            redis_url, socket_connect_timeout=5, socket_timeout=30, encoding_errors="surrogateescape"
        )
    except ValueError as error:
        raise ConfigError(URL_SHAPE) from error
    try:
        with redis:
            yield redis
    except ResponseError as error:
        raise Unreachable(f"Redis refuses: {_reason(error)}; check the rights of its user") from error
    except RedisError as error:
        message = f"Redis does not answer: {_reason(error)}; check --redis-url or REDIS_URL"
        raise Unreachable(message) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
