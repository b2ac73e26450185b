"""Stuck sites, their files and their queues, for tests of what brings them back to life."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipestate.pipeline import reconcile
from pipestate.pipeline.planning import Plan, Result
from pipestate.pipeline.queues.config import QueueConfig, read_config
from pipestate.pipeline.reconcile.decide import Recovery, Rules
from pipestate.pipeline.storage import Storage
from support.alembic_runs import ROOT
from support.queues import QueueBed, Waiting
from support.servers import Database

CONFIG = read_config(ROOT / "alembic.ini")


@dataclass
class Pipeline:
    """A database at 0005, a directory with files, and an empty queue."""

    database: Database
    root: Path
    jobs: QueueBed
    config: QueueConfig = CONFIG

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

    def rules(self, **changes: Any) -> Rules:
        given: dict[str, Any] = {"storage": Storage(self.root), "config": self.config}
        return Rules(**given | changes)

    def plan(self, **changes: Any) -> Plan[Recovery]:
        return reconcile.plan(self.database.url, self.jobs.queues, self.rules(**changes))

    def reconcile(self, **changes: Any) -> list[Result[Recovery]]:
        results = reconcile.run(self.database.url, self.jobs.queues, self.rules(**changes), revision="0005")
        assert results is not None, "another reconciliation is under way"
        return list(results)

    def queued(self) -> list[Waiting]:
        """Queue, function and keywords of what waits, in order."""
        return self.jobs.waiting()

    def site(self, subdomain: str, *columns: str) -> tuple[object, ...]:
        (row,) = self.database.rows(f"SELECT {', '.join(columns)} FROM sites WHERE subdomain = '{subdomain}'")
        return row

    def everything(self) -> tuple[object, ...]:
        """All rows and all jobs: to show that nothing was written."""
        tables = ("sites", "pipeline_claim", "pipeline_job", "pipeline_reconciliation")
        rows = [self.database.rows(f"SELECT * FROM {table} ORDER BY 1") for table in tables]
        return (*rows, self.jobs.everything())


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value or "false" if value is not None else "NULL").lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def reported(results: list[Result[Recovery]]) -> list[tuple[str, str, str]]:
    return [(done.subject.site.subdomain, str(done.outcome), str(done.subject.action)) for done in results]
