"""RQ's jobs in Redis: the connection, the keys of a job, and its call, read without importing the application.

RQ pickles function, arguments and keywords. Every class becomes opaque, so reading never executes data from Redis.
"""

import io
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.pipeline.queues.port import Obstacle, State

if TYPE_CHECKING:
    from redis import Redis

JOBS = "rq:job:"
EXECUTIONS = "rq:execution:"


class Keys(NamedTuple):
    """Keys of a job: its hash, results, dependencies, dependents and runs."""

    job: str
    results: str
    dependencies: str
    dependents: str
    executions: str

    @property
    def kept(self) -> tuple[str, ...]:
        """Return the keys that an export keeps: all but the runs."""
        return self[:4]


def keys_of(job_id: str) -> Keys:
    return Keys(
        f"{JOBS}{job_id}",
        f"rq:results:{job_id}",
        f"{JOBS}:{job_id}:dependencies",  # RQ uses two colons here
        f"{JOBS}{job_id}:dependents",
        f"rq:executions:{job_id}",
    )


def registry_key(obstacle: Obstacle) -> str:
    """Return the key of the registry that holds the jobs of an obstacle."""
    return f"rq:{obstacle.state}:{obstacle.queue}"


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


# Calls of RQ's jobs.


UNREADABLE = "unreadable"  # in place of a function, if neither serializer wrote the call


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function by its import path, and the site of the call: the keyword, or the first argument."""

    function: str
    subdomain: str | None

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]


def read_call(data: bytes) -> FunctionCall | None:
    """Read a call; None unless RQ's pickle or JSON serializer wrote it.

    >>> read_call(pickle.dumps(("clerk.workers.deploy_job", None, ("a.ca.us",), {}))).subdomain
    'a.ca.us'
    >>> read_call(b"nonsense") is None
    True
    """
    try:
        function, _instance, args, kwargs = load_plain(data)
        if not isinstance(args, tuple | list):
            return None
        site = dict(kwargs).get("subdomain", args[0] if args else None)
        return FunctionCall(str(function), site if isinstance(site, str) else None)
    except Exception:  # a pickle can raise anything
        return None


def load_plain(data: bytes) -> Any:
    """Load the output of either serializer; invalid bytes may raise any exception."""
    if data[:1] in (b"[", b"{"):
        return json.loads(data)
    return _PlainUnpickler(io.BytesIO(data)).load()


class Opaque:
    """Placeholder for an object of any class."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "Opaque":
        return super().__new__(cls)

    def __setstate__(self, _state: Any) -> None: ...

    def append(self, _item: Any) -> None: ...

    def extend(self, _items: Any) -> None: ...

    def __setitem__(self, _key: Any, _value: Any) -> None: ...


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return type(name, (Opaque,), {"__module__": module})


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """An id in a queue or a registry; its job may be deleted, or its call unreadable."""

    id: str
    call: FunctionCall | None
    gone: bool
    status: str = ""

    def blocks(self, obstacle: Obstacle) -> bool:
        """Check whether the entry blocks: a job in that state, or a dangling id.

        RQ keeps stopped jobs among the failed; any other status means a moved job.
        """
        stopped = obstacle.state is State.FAILED and self.status == "stopped"
        return self.gone or self.status == obstacle.state or stopped

    def other(self, obstacle: Obstacle) -> str | None:
        """Return the function of a job that is not the obstacle's."""
        name = self.call.name if self.call else UNREADABLE
        return None if self.gone or name == obstacle.function else name


def look_up(redis: "Redis", ids: Iterable[str]) -> Iterator[RegistryEntry]:
    """Read the job of each id."""
    for page in pages(list(ids)):
        with redis.pipeline(transaction=False) as pipeline:
            for job_id in page:
                pipeline.hmget(keys_of(job_id).job, ["data", "status"])
            for job_id, (data, status) in zip(page, pipeline.execute(), strict=True):
                call = None if data is None else read_call(decompressed(data))
                yield RegistryEntry(job_id, call, data is None, text(status or b""))


def decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:  # uncompressed, as in jobs of early RQ versions
        return data
