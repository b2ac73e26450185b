"""RQ registries, and the calls of their jobs, read without importing the application.

RQ pickles function, arguments and keywords. Classes other than plain values become opaque, so reading never
executes data from Redis.
"""

import io
import json
import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from pipestate.pipeline.queues.port import Blocked, Depth, Obstacle, State
from pipestate.pipeline.queues.rq.connection import keys_of, pages, registry_key, text

if TYPE_CHECKING:
    from redis import Redis


PLAIN = {
    "builtins": {"set", "frozenset", "bytearray", "complex"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "uuid": {"UUID"},
}
PATHS = {"Path", "PosixPath", "PurePath", "PurePosixPath"}


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function by its import path, with its arguments."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]

    @property
    def subdomain(self) -> str | None:
        """Return the site of the call: the keyword, or the first argument."""
        found = self.kwargs.get("subdomain", self.args[0] if self.args else None)
        return found if isinstance(found, str) else None


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
        return FunctionCall(str(function), tuple(args), dict(kwargs))
    except Exception:  # a pickle can raise anything
        return None


def load_plain(data: bytes) -> Any:
    """Load the output of either serializer; invalid bytes may raise any exception."""
    if data[:1] in (b"[", b"{"):
        return json.loads(data)
    return _PlainUnpickler(io.BytesIO(data)).load()


class Opaque:
    """Placeholder for an object of the application."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> "Opaque":
        return super().__new__(cls)

    def __setstate__(self, _state: Any) -> None: ...

    def append(self, _item: Any) -> None: ...

    def extend(self, _items: Any) -> None: ...

    def __setitem__(self, _key: Any, _value: Any) -> None: ...

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__}>"


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module in ("pathlib", "pathlib._local") and name in PATHS:
            # Return a function: a pickle can set attributes on a named class, and this one is Python's own.
            return lambda *parts: PurePosixPath(*map(str, parts))
        return type(name, (Opaque,), {"__module__": module})


# RQ's registries of deferred and failed jobs: the blocking jobs and their number.
# RQ's own functions remove entries while they list or count a registry; this code only reads.


STATES = ("started", "deferred", "scheduled", "failed", "finished")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """An id in a queue or a registry; its job may be deleted, or its call unreadable."""

    id: str
    call: FunctionCall | None
    gone: bool
    status: str = ""

    def blocks(self, obstacle: Obstacle) -> bool:
        """Check whether the entry blocks: a job of that function in that state, or a dangling id."""
        if self.gone:
            return True
        return self.call is not None and self.call.name == obstacle.function and self._is_in(obstacle.state)

    def _is_in(self, state: State) -> bool:
        """Compare the status. RQ keeps stopped jobs among the failed; any other status means a moved job."""
        return self.status == state or (state is State.FAILED and self.status == "stopped")


def blocked(redis: "Redis", obstacle: Obstacle) -> list[Blocked]:
    """List the blocking jobs in the registry of an obstacle."""
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.zrange(registry_key(obstacle.queue, obstacle.state), 0, -1)
        (ids,) = pipeline.execute()
    return [
        Blocked(entry.id, obstacle, entry.gone)
        for entry in look_up(redis, [text(each) for each in ids])
        if entry.blocks(obstacle)
    ]


def look_up(redis: "Redis", ids: Iterable[str]) -> Iterator[RegistryEntry]:
    """Read the job of each id."""
    for page in pages(list(ids)):
        with redis.pipeline(transaction=False) as pipeline:
            for job_id in page:
                pipeline.hmget(keys_of(job_id).job, ["data", "status"])
            for job_id, (data, status) in zip(page, pipeline.execute(), strict=True):
                call = None if data is None else read_call(decompressed(data))
                yield RegistryEntry(job_id, call, data is None, text(status or b""))


def depths(redis: "Redis", queues: Sequence[str]) -> list[Depth]:
    return [_depth(redis, name) for name in queues]


def _depth(redis: "Redis", name: str) -> Depth:
    from rq import Queue

    queue = Queue(name, connection=redis)
    with redis.pipeline(transaction=False) as pipeline:
        pipeline.llen(queue.key)
        for state in STATES:
            pipeline.zcard(getattr(queue, f"{state}_job_registry").key)
        queued, *states = pipeline.execute()
    return Depth(name, queued, **dict(zip(STATES, states, strict=True)))


def decompressed(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:  # uncompressed, as in jobs of early RQ versions
        return data
