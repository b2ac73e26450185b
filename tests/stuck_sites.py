"""Stuck sites, their files and their queues, for tests of what brings them back to life."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis
from rq import Queue
from rq.job import Job

from alembics import ROOT
from bed import Database
from pipestate.pipeline.reconcile import Outcome, Reconciler
from pipestate.pipeline.storage import Storage
from pipestate.pipeline.wiring import Wiring, read_wiring

WIRING = read_wiring(ROOT / "alembic.ini")


@dataclass
class Pipeline:
    """A database at 0005, a directory with files, and an empty Redis."""

    database: Database
    root: Path
    redis: Redis
    wiring: Wiring = WIRING

    def put(self, subdomain: str, stage: str | None, *, hours: float | None = 3, **columns: object) -> None:
        """A site that was touched so many hours ago (None: nobody knows)."""
        values = {"subdomain": subdomain, "current_stage": stage, **columns}
        names = ", ".join([*values, "updated_at"])
        literals = ", ".join(_literal(value) for value in values.values())
        self.database.run(f"INSERT INTO sites ({names}) VALUES ({literals}, {self.ago(hours)})")

    def age(self, hours: float = 3) -> None:
        """Let time pass for every site that is under way."""
        self.database.run(
            f"UPDATE sites SET updated_at = {self.ago(hours)} WHERE current_stage <> 'completed'"
        )

    def ago(self, hours: float | None) -> str:
        if hours is None:
            return "NULL"
        if self.database.is_sqlite:
            return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-{hours} hours')"
        return f"now() - interval '{hours} hours'"

    def files(self, subdomain: str, *, pdfs: int, texts: int) -> None:
        for number in range(pdfs):
            self._touch(subdomain, "pdfs", f"{number:02}.pdf")
        for number in range(texts):
            self._touch(subdomain, "txt", f"{number:02}.txt")

    def _touch(self, subdomain: str, kind: str, name: str) -> None:
        path = self.root / subdomain / kind / "Council" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")

    def reconciler(self, **changes: Any) -> Reconciler:
        given: dict[str, Any] = {"storage": Storage(self.root), "wiring": self.wiring} | changes
        return Reconciler(self.database.url, self.redis, **given)

    def reconcile(self, **changes: Any) -> list[Outcome]:
        outcomes = self.reconciler(**changes).run(revision="0005")
        assert outcomes is not None, "another reconciler is at work"
        return outcomes

    def queued(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Queue, function and keywords of what waits, in order."""
        found = []
        for name in self.wiring.queues():
            for job in Job.fetch_many(
                Queue(name, connection=self.redis).get_job_ids(), connection=self.redis
            ):
                assert job is not None
                found.append((name, str(job.func_name).rpartition(".")[2], job.kwargs))
        return found

    def enqueue(self, where: str, function: str) -> None:
        """A job of a.gov: queued, scheduled, running; or as good as dead: deferred, abandoned, failed."""
        queue = Queue("ocr", connection=self.redis)
        job = Job.create(f"clerk.workers.{function}", args=("a.gov",), connection=self.redis, origin="ocr")
        job.save()
        later, earlier = 4_000_000_000, 1_000_000_000
        if where == "queued":
            queue.push_job_id(job.id)
        elif where == "deferred":
            queue.deferred_job_registry.add(job)
        elif where in ("running", "abandoned"):
            score = later if where == "running" else earlier
            self.redis.zadd(queue.started_job_registry.key, {f"{job.id}:execution": score})
        else:
            registry = queue.scheduled_job_registry if where == "scheduled" else queue.failed_job_registry
            self.redis.zadd(registry.key, {job.id: later})

    def site(self, subdomain: str, *columns: str) -> tuple[object, ...]:
        (row,) = self.database.rows(f"SELECT {', '.join(columns)} FROM sites WHERE subdomain = '{subdomain}'")
        return row

    def everything(self) -> tuple[object, ...]:
        """All rows and all of Redis: to show that nothing was written."""
        tables = ("sites", "pipeline_claim", "pipeline_job", "pipeline_reconciliation")
        rows = [self.database.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]
        keys = {key: self.redis.dump(key) for key in sorted(self.redis.keys("*"))}
        return (*rows, keys)


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value or "false" if value is not None else "NULL").lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def told(outcomes: list[Outcome]) -> list[tuple[str, str, str]]:
    return [(done.step.site.subdomain, str(done.result), str(done.step.action)) for done in outcomes]
