"""A Redis full of RQ jobs, made through RQ: those that stand in the way, and others around them."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from redis import Redis
from rq import Queue, SimpleWorker
from rq.job import Job, JobStatus

from support.documentation import examples, find_page

OCR = "clerk.workers.ocr_page_job"
COORDINATOR = "clerk.workers.ocr_complete_coordinator"
# What workers leave for a while whatever they ran.
PASSING = (b"rq:worker", b"rq:clean_registries")
READ: dict[bytes, Callable[[Any, bytes], Any]] = {
    b"string": lambda redis, key: redis.get(key),
    b"hash": lambda redis, key: redis.hgetall(key),
    b"set": lambda redis, key: redis.smembers(key),
    b"list": lambda redis, key: redis.lrange(key, 0, -1),
    b"zset": lambda redis, key: redis.zrange(key, 0, -1, withscores=True),
    b"stream": lambda redis, key: redis.xrange(key),
}


@dataclass(frozen=True)
class Scene:
    redis: "Redis"
    ocr: str = "ocr"
    compilation: str = "compilation"

    def queue(self, name: str) -> Queue:
        return Queue(name, connection=self.redis)

    def enqueue(self, queue: str, function: str, *args: Any, **options: Any) -> Job:
        return self.queue(queue).enqueue(function, *args, **options)

    def defer(self, function: str = COORDINATOR, *, on: Sequence[Job], **options: Any) -> Job:
        return self.enqueue(self.compilation, function, "a.ca.us", depends_on=list(on), **options)

    def run(self, function: str = OCR, *args: Any, **options: Any) -> Job:
        """A job that a worker runs and fails with: no such module is here to be imported."""
        queue = self.queue(self.ocr)
        job = queue.enqueue(function, *(args or ("a.ca.us",)), **options)
        queue.remove(job)
        SimpleWorker([queue], connection=self.redis).execute_job(job, queue)
        assert job.get_status() == JobStatus.FAILED
        return job

    def fail_many(self, number: int, function: str = OCR) -> list[Job]:
        """What a worker writes when a job fails, without running it."""
        jobs = []
        with self.redis.pipeline() as pipeline:
            for page in range(number):
                job = Job.create(function, ("a.ca.us", page), connection=self.redis, origin=self.ocr)
                job.set_status(JobStatus.FAILED, pipeline=pipeline)
                job._handle_failure("Traceback ...\nOSError: no such page", pipeline, worker_name="w1")
                jobs.append(job)
            pipeline.execute()
        return jobs

    def bystanders(self) -> list[Job]:
        """Other jobs in the same queues and registries: none of them may change."""
        waiting = [self.enqueue(self.ocr, OCR, "b.ca.us", page) for page in range(5)]
        failed = self.run("clerk.workers.split_pdf_job")
        self.fail_many(20, "clerk.workers.split_pdf_job")
        deferred = self.defer("clerk.workers.compile_db_job", on=[waiting[0], failed])
        elsewhere = self.enqueue("deploy", COORDINATOR, depends_on=waiting[1])
        self.enqueue(self.compilation, COORDINATOR, "b.ca.us")
        scheduled = Job.create(OCR, connection=self.redis, origin=self.ocr, status=JobStatus.SCHEDULED)
        scheduled.save()
        self.queue(self.ocr).scheduled_job_registry.add(scheduled, ttl=3600)
        return [*waiting, failed, deferred, elsewhere, scheduled]


def contents(redis: "Redis") -> dict[bytes, Any]:
    """Every key with its value, and whether it expires."""
    keys: Any = [key for key in redis.scan_iter(count=5000) if not key.startswith(PASSING)]
    with redis.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.type(key)
        kinds = pipeline.execute()
        for key, kind in zip(keys, kinds, strict=True):
            READ[kind](pipeline, key)
            pipeline.ttl(key)
        answers = pipeline.execute()
    rows = zip(keys, kinds, answers[::2], answers[1::2], strict=True)
    return {key: (kind, value, ttl >= 0) for key, kind, value, ttl in rows}


def lines(file: Path) -> list[dict[str, Any]]:
    """The jobs of an export file."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def put_back(redis: "Redis", file: Path) -> None:
    """Run the script of the operations page, exactly as it stands there."""
    address = redis.connection_pool.connection_kwargs
    url = f"redis://{address.get('host', 'localhost')}:{address['port']}/{address.get('db', 0)}"
    (script,) = [
        each for each in examples(find_page("migration/operations.md")) if each.file == "put_back.py"
    ]
    assert len([line for line in script.text.splitlines() if line.strip()]) < 15
    with (
        file.open() as opened,
        patch.object(sys, "stdin", opened),
        patch.object(sys, "argv", ["put_back.py", url]),
    ):
        exec(compile(script.text, "put_back.py", "exec"), {})
