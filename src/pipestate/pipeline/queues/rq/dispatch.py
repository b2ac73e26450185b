"""Calls on their way: which are still alive in RQ, and sending new ones."""

import importlib
import pickle
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipestate.errors import ConfigError, PipestateError
from pipestate.pipeline.queues.config import SECTION, Place, Wiring
from pipestate.pipeline.queues.rq.registries import look_up

if TYPE_CHECKING:
    from redis import Redis
    from rq import Queue


class HookFailed(PipestateError):
    """The application's hook raised, or its answer is no list of keywords."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One call to be enqueued."""

    place: Place
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Alive:
    """How many calls of a function for a site are queued, scheduled or running."""

    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def of(self, subdomain: str, place: Place | None) -> int:
        return 0 if place is None else self.calls.get((subdomain, place.name), 0)


def alive(redis: "Redis", wiring: Wiring) -> Alive:
    """Look into every queue, without changing anything (RQ's own look cleans up as it goes).

    A deferred job is not alive: it waits for others that may never end, which is how sites got stuck. A
    running one is, until its worker has been silent for so long that RQ takes it for abandoned.
    """
    from rq import Queue

    found: Counter[tuple[str, str]] = Counter()
    for name in wiring.queues():
        for kept in look_up(redis, _ids(redis, Queue(name, connection=redis))):
            if kept.call is not None and kept.call.subdomain is not None:
                found[kept.call.subdomain, kept.call.name] += 1
    return Alive(found)


def _ids(redis: "Redis", queue: "Queue") -> set[str]:
    """All places at one moment: RQ moves jobs from one to the other."""
    from rq.utils import as_text

    started = queue.started_job_registry
    with redis.pipeline(transaction=True) as pipeline:
        pipeline.lrange(queue.key, 0, -1)
        pipeline.lrange(queue.intermediate_queue_key, 0, -1)
        pipeline.zrange(queue.scheduled_job_registry.key, 0, -1)
        pipeline.zrangebyscore(started.key, time.time(), "+inf")
        *waiting, running = pipeline.execute()
    return {
        *(as_text(entry) for entries in waiting for entry in entries),
        *(started.parse_job_id(as_text(entry)) for entry in running),
    }


def send(redis: "Redis", parcels: Iterable[Parcel]) -> None:
    """All of them or none: one Redis transaction."""
    from rq import Queue

    with redis.pipeline(transaction=True) as pipeline:
        for parcel in parcels:
            place = parcel.place
            call = Queue.prepare_data(
                place.function,
                kwargs=dict(parcel.kwargs),
                timeout=place.timeout,
                description=f"{place.name} (recovered): {parcel.kwargs['subdomain']}",
            )
            Queue(place.queue, connection=redis).enqueue_many([call], pipeline=pipeline)
        pipeline.execute()


def missing_by_hook(wiring: Wiring, subdomain: str, stage: str) -> list[dict[str, Any]] | None:
    """The application's own answer: keywords for each job that has not succeeded; None without a hook."""
    if wiring.missing is None:
        return None
    hook = _imported(wiring.missing)
    try:
        answer = hook(subdomain, stage)
        return None if answer is None else [_keywords(kwargs) for kwargs in answer]
    except Exception as error:  # it is not our code
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise HookFailed(f"{wiring.missing} does not say which {stage} jobs are missing: {reason}") from error


def _imported(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # a module can raise anything
        raise ConfigError(f"[{SECTION}] names missing = {path}, which cannot be imported: {error}") from error


def _keywords(kwargs: Any) -> dict[str, Any]:
    """As they can be sent."""
    found = dict(kwargs)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"{found} are no keywords")
    pickle.dumps(found)
    return found
