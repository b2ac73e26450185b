"""A patient reader: the upgrade runs once more, while somebody reads its tables and does not end.

1. Before each revision the child waits until the tables on which that revision asks for ACCESS EXCLUSIVE are read, by
   a transaction for each of them that stays open.
2. A look every 10 ms: who waits for one of these readers? Whoever gives up within two seconds is bounded. After two
   seconds the reader ends, and the upgrade goes on.
3. An upgrade that gave up for good is run again, without the readers that it has met.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import URL

from pipestate.rehearse.child_process import Step, child, require_told, write_line
from pipestate.rehearse.clone import Table
from pipestate.rehearse.felt import PATIENT_MS, STRONGEST, Met, RevisionFelt
from pipestate.rehearse.job import Job
from pipestate.rehearse.line import Line, Rows, Task, follow
from pipestate.rehearse.trace import Failure, Trace

LOOK_S = 0.010
MOST_READERS = 16
READ = "BEGIN; LOCK TABLE ONLY {table} IN ACCESS SHARE MODE NOWAIT"
WAITS = (
    "PREPARE pipestate_waits AS SELECT reader.pid, CASE l.locktype WHEN 'relation' THEN l.mode END FROM pg_locks l "
    "CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS reader (pid) "
    "WHERE NOT l.granted AND reader.pid = ANY (ARRAY[{pids}]::int[])"
)
GAVE_UP = frozenset(("55P03", "57014"))  # a lock_timeout or NOWAIT, a statement_timeout

Asked = Mapping[str, Sequence[Table]]  # the tables on which each revision asks for ACCESS EXCLUSIVE


@dataclass(frozen=True, slots=True)
class Meetings:
    """Whom the upgrade met, and what stopped it, where that was no reader."""

    met: tuple[Met, ...]
    failure: Failure | None = None


def find_asked(revisions: Sequence[RevisionFelt], tables: Sequence[Table]) -> dict[str, list[Table]]:
    """Find on which tables each revision asked for ACCESS EXCLUSIVE; of very many tables, the largest ones."""
    wanted = {
        (each.revision, each.table) for one in revisions for each in one.tables if STRONGEST in each.modes
    }
    known = [table for table in tables if table.name in {name for _, name in wanted}][:MOST_READERS]
    found = {
        each.revision: [table for table in known if (each.revision, table.name) in wanted]
        for each in revisions
    }
    return {revision: asked for revision, asked in found.items() if asked}


def meet(job: Job, steps: Sequence[Step], asked: Asked) -> Meetings:
    """Run the steps beside patient readers, and again after each time that it gave up."""
    found: list[Met] = []
    while True:
        readers = Readers(job.clone, asked)
        try:
            failure = readers.run(job, steps)
        finally:
            readers.close()
        found += readers.met
        if failure is None or not readers.tried:
            return Meetings(tuple(found), failure)
        asked = _without(asked, readers.tried)


def _without(asked: Asked, tried: set[tuple[str, str]]) -> Asked:
    return {
        revision: [table for table in tables if (revision, table.name) not in tried]
        for revision, tables in asked.items()
    }


def with_meetings(revisions: Sequence[RevisionFelt], met: Sequence[Met]) -> tuple[RevisionFelt, ...]:
    """Say of each request for ACCESS EXCLUSIVE how it met its reader."""
    by_request = {(each.revision, each.table): each for each in met}
    return tuple(
        replace(
            revision,
            tables=tuple(
                replace(table, met=by_request.get((table.revision, table.table))) for table in revision.tables
            ),
        )
        for revision in revisions
    )


@dataclass(slots=True)
class Reader:
    """A transaction that reads a table: for which revision, and since when somebody waits for it."""

    table: Table
    line: Line
    revision: str | None = None
    mode: str | None = None
    since: float | None = None


@dataclass(slots=True)
class Readers:
    """One reader a table, whom one run of the upgrade meets; `tried` are the requests that it need not meet again."""

    clone: URL
    asked: Asked
    met: list[Met] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)
    readers: list[Reader] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def run(self, job: Job, steps: Sequence[Step]) -> Failure | None:
        """Run the steps once; return what stopped them, where it was no reader."""
        tables = {table.name: table for each in self.asked.values() for table in each}
        self.readers = [Reader(table, self._line()) for table in tables.values()]
        trace, look = Trace(), self._looker()
        with child(job, steps, waits=True) as process:

            def take(said: Mapping[str, Any]) -> None:
                trace.take(said)
                if said["what"] == "revision":
                    self.read_for(said["revision"])
                    write_line(process, "go")

            follow(process.stdout, [look], take)
            require_told(process, trace)
        if trace.failure is not None and trace.failure.sqlstate in GAVE_UP:
            self._gave_up_for_good(time.monotonic())
        return trace.failure

    def close(self) -> None:
        for line in self.lines:
            line.close()

    def read_for(self, revision: str) -> None:
        """End what is still read, and read the tables of this revision, where nobody has locked them."""
        for reader in self.readers:
            self._end(reader)
        names = {table.name for table in self.asked.get(revision, ())}
        for reader in self.readers:
            if reader.table.name not in names:
                continue
            if reader.line.refusal(READ.format(table=reader.table.quoted)) is None:
                reader.revision = revision
            else:
                reader.line.ask("ROLLBACK")

    def _line(self) -> Line:
        self.lines.append(Line(self.clone))
        return self.lines[-1]

    def _looker(self) -> Task:
        line = self._line()
        line.ask(WAITS.format(pids=", ".join(str(reader.line.pid) for reader in self.readers)))
        return Task(line, "EXECUTE pipestate_waits", LOOK_S, self._take)

    def _take(self, rows: Rows, sent: float, now: float) -> None:
        waiting: dict[int, str | None] = dict(rows)
        for reader in self.readers:
            if reader.line.pid in waiting:
                reader.since = reader.since or sent
                reader.mode = waiting[reader.line.pid]
                if (now - reader.since) * 1000 >= PATIENT_MS:
                    self._settle(reader, now, gave_up=False)
            elif reader.since is not None:
                self._settle(reader, sent, gave_up=True)

    def _settle(self, reader: Reader, now: float, *, gave_up: bool) -> None:
        """Keep how a request met its reader, and end the reader: the next request finds the table free."""
        if reader.revision is not None and reader.mode == STRONGEST:
            waited = (now - reader.since) * 1000 if reader.since is not None else 0.0
            self.met.append(Met(reader.revision, reader.table.name, gave_up, waited))
            self.tried.add((reader.revision, reader.table.name))
        self._end(reader)

    def _gave_up_for_good(self, now: float) -> None:
        """The upgrade ended while tables were read: it gave up on the one that it waited for, or on the only one."""
        reading = [reader for reader in self.readers if reader.revision is not None]
        self.tried |= {(str(reader.revision), reader.table.name) for reader in reading}
        seen = [reader for reader in reading if reader.since is not None]
        for reader in seen or (reading if len(reading) == 1 else ()):
            reader.mode = reader.mode or STRONGEST
            self._settle(reader, now, gave_up=True)

    def _end(self, reader: Reader) -> None:
        if reader.revision is not None:
            reader.line.ask("ROLLBACK")
        reader.revision, reader.mode, reader.since = None, None, None
