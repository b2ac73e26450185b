"""Queues to test on: what lies in them, put there and looked at without the port."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from redis import Redis
from rq import Queue
from rq.job import Job, JobStatus

from pipestate.pipeline.queues import rq
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.queues.rq import RqQueues
from support import table_queues
from support.queue_scene import contents

Waiting = tuple[str, str, dict[str, Any]]  # queue, function, keywords
LATER, EARLIER = 4_000_000_000, 1_000_000_000
TABLE_STATES = {"running": "started", "abandoned": "failed"}
QUEUES = ("compilation", "deploy", "extraction", "fetch", "ocr")


class QueueBed(Protocol):
    """A queue under test."""

    @property
    def queues(self) -> Queues: ...

    def waiting(self) -> list[Waiting]:
        """What is queued, queue by queue, in order."""

    def put(self, where: str, function: str) -> str:
        """Put a job of a.gov: queued, scheduled, running; or as good as dead: deferred, abandoned, failed."""

    def lose_all(self) -> None: ...

    def everything(self) -> object:
        """All that it holds: to show that nothing was written."""

    def unreachable(self) -> AbstractContextManager[Queues]:
        """The same kind of queue, where nobody answers when calls are sent."""


@dataclass(frozen=True)
class RqBed:
    redis: Redis

    @property
    def queues(self) -> RqQueues:
        return RqQueues(self.redis)

    def waiting(self) -> list[Waiting]:
        found = []
        for name in QUEUES:
            ids = Queue(name, connection=self.redis).get_job_ids()
            for job in Job.fetch_many(ids, connection=self.redis):
                assert job is not None
                found.append((name, str(job.func_name).rpartition(".")[2], job.kwargs))
        return found

    def put(self, where: str, function: str) -> str:
        queue = Queue("ocr", connection=self.redis)
        status = JobStatus(where) if where in ("deferred", "failed") else None
        job = Job.create(
            f"clerk.workers.{function}", ("a.gov",), connection=self.redis, origin="ocr", status=status
        )
        job.save()
        if where == "queued":
            queue.push_job_id(job.id)
        elif where == "deferred":
            queue.deferred_job_registry.add(job)
        elif where in ("running", "abandoned"):
            score = LATER if where == "running" else EARLIER
            self.redis.zadd(queue.started_job_registry.key, {f"{job.id}:execution": score})
        else:
            registry = queue.scheduled_job_registry if where == "scheduled" else queue.failed_job_registry
            self.redis.zadd(registry.key, {job.id: LATER})
        return job.id

    def lose_all(self) -> None:
        self.redis.flushall()

    def everything(self) -> object:
        return contents(self.redis)

    @contextmanager
    def unreachable(self) -> Iterator[Queues]:
        address = self.redis.connection_pool.connection_kwargs
        with rq.connect(f"redis://{address.get('host', 'localhost')}:1/0") as queues:
            yield queues


@dataclass(frozen=True)
class TableBed:
    queues: table_queues.TableQueues
    path: Path

    def waiting(self) -> list[Waiting]:
        rows = self.queues.table.execute(
            "SELECT queue, function, kwargs FROM job WHERE state = 'queued' ORDER BY queue, number"
        )
        return [(queue, name.rpartition(".")[2], json.loads(kwargs)) for queue, name, kwargs in rows]

    def put(self, where: str, function: str) -> str:
        job_id = f"{where}-{function}"
        row = ("ocr", TABLE_STATES.get(where, where), f"clerk.workers.{function}", {"subdomain": "a.gov"})
        self.queues._insert(job_id, *row)
        return job_id

    def lose_all(self) -> None:
        self.queues.table.execute("DELETE FROM job")

    def everything(self) -> object:
        return self.queues.table.execute("SELECT * FROM job ORDER BY number").fetchall()

    @contextmanager
    def unreachable(self) -> Iterator[Queues]:
        with table_queues.connect(str(self.path)) as queues:
            queues.table.execute("PRAGMA query_only = ON")
            yield queues
