"""A second queue behind the port, in one file: jobs in a table of SQLite.

It is a real one: what reconcile sends can be read back, and every promise of the port is kept. The ini opens
it with `backend = table_queues:connect` and `url`, the path of the file.
"""

import json
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from pipestate.core.errors import Unreachable
from pipestate.pipeline.planning import SubjectOutcome
from pipestate.pipeline.queues.port import (
    Alive,
    Blocked,
    Call,
    Depth,
    Exported,
    Obstacle,
)

TABLE = (
    "CREATE TABLE IF NOT EXISTS job (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, queue TEXT, "
    "state TEXT, function TEXT, kwargs TEXT)"
)
ALIVE = ("queued", "scheduled", "started")


@contextmanager
def connect(url: str) -> Iterator["TableQueues"]:
    try:
        with closing(sqlite3.connect(url, isolation_level=None)) as table:
            table.execute(TABLE)
            yield TableQueues(table)
    except sqlite3.Error as error:
        raise Unreachable(f"the queue in {url} does not answer: {error}") from error


class TableQueues:
    """The port `Queues`; a job's id cannot dangle here."""

    def __init__(self, table: sqlite3.Connection) -> None:
        self.table = table

    def depths(self, queues: Sequence[str]) -> list[Depth]:
        rows = self.table.execute("SELECT queue, state, count(*) FROM job GROUP BY 1, 2").fetchall()
        counted = {(queue, state): number for queue, state, number in rows}
        states = ("queued", "started", "deferred", "scheduled", "failed", "finished")
        return [Depth(name, *(counted.get((name, state), 0) for state in states)) for name in queues]

    def alive(self, queues: Sequence[str]) -> Alive:
        found: Counter[tuple[str, str]] = Counter()
        for queue, state, function, kwargs in self.table.execute(
            "SELECT queue, state, function, kwargs FROM job"
        ):
            if queue in queues and state in ALIVE:
                found[str(json.loads(kwargs)["subdomain"]), _name(function)] += 1
        return Alive(found)

    def send(self, calls: Sequence[Call]) -> None:
        with self._transaction():
            for call in calls:
                self._insert(uuid.uuid4().hex, call.place.queue, "queued", call.place.function, call.kwargs)

    def blocked(self, obstacles: Sequence[Obstacle]) -> list[Blocked]:
        return [
            Blocked(job_id, obstacle, other=_if(_name(function) == obstacle.function, None, _name(function)))
            for obstacle in obstacles
            for job_id, function in self.table.execute(
                "SELECT id, function FROM job WHERE queue = ? AND state = ? ORDER BY number",
                (obstacle.queue, obstacle.state),
            )
        ]

    def export(self, jobs: Sequence[Blocked]) -> Iterator[Exported | SubjectOutcome]:
        for job in jobs:
            row = self._row(job.id)
            if row is None:
                yield SubjectOutcome.GONE
            elif row[2] != job.obstacle.state:
                yield SubjectOutcome.CHANGED
            else:
                content = dict(zip(("number", "function", "kwargs"), (row[0], *row[3:]), strict=True))
                yield Exported(job, content, proof=row)

    def clear(self, jobs: Sequence[Exported]) -> Iterator[SubjectOutcome]:
        for exported in jobs:
            with self._transaction():
                row = self._row(exported.job.id)
                if row == exported.proof:
                    self.table.execute("DELETE FROM job WHERE id = ?", (exported.job.id,))
            yield (
                SubjectOutcome.GONE
                if row is None
                else _if(row == exported.proof, SubjectOutcome.DELETED, SubjectOutcome.CHANGED)
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.table.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.table.execute("ROLLBACK")
            raise
        self.table.execute("COMMIT")

    def _insert(self, job_id: str, queue: str, state: str, function: str, kwargs: Any) -> None:
        row = (job_id, queue, state, function, json.dumps(dict(kwargs)))
        self.table.execute("INSERT INTO job (id, queue, state, function, kwargs) VALUES (?, ?, ?, ?, ?)", row)

    def _row(self, job_id: str) -> Any:
        columns = "number, queue, state, function, kwargs"
        return self.table.execute(f"SELECT {columns} FROM job WHERE id = ?", (job_id,)).fetchone()


def _name(function: str) -> str:
    return function.rpartition(".")[2]


def _if(condition: bool, yes: Any, no: Any) -> Any:
    return yes if condition else no
