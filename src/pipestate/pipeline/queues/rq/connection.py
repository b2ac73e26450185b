"""A connection to Redis, and its errors as one sentence without a password."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from pipestate.errors import ConfigError, Unreachable

if TYPE_CHECKING:
    from redis import Redis

PAGE = 1000
Item = TypeVar("Item")
URL_SHAPE = (
    "the Redis URL must look like redis://user:password@host:6379/0 "
    "(a special character in the password must be percent-encoded)"
)


def pages(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Cut into pieces that are one round trip each."""
    return (items[start : start + PAGE] for start in range(0, len(items), PAGE))


def text(data: bytes) -> str:
    """Decode what Redis returns, so that the client encodes it to the same bytes again."""
    return data.decode(errors="surrogateescape")


@contextmanager
def connected(redis_url: str) -> Iterator["Redis"]:
    """Connect to Redis; what it refuses, or a connection that is lost, ends as Unreachable."""
    try:
        from redis import Redis
        from redis.exceptions import RedisError, ResponseError

        import_module("rq")
    except ImportError as error:
        raise ConfigError("RQ is not installed: run pip install 'pipestate[rq]'") from error
    try:
        _require_whole(redis_url)
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
        raise Unreachable(
            f"Redis does not answer: {_reason(error)}; check --redis-url or REDIS_URL"
        ) from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _require_whole(redis_url: str) -> None:
    """Refuse a password with / ? or #: the host would end there, and the rest be shown as host and port."""
    parts = urlsplit(redis_url)
    if "@" in parts.path + parts.query + parts.fragment:
        raise ValueError("an @ behind the host")
