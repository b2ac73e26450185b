"""Those who read tables patiently while the upgrade runs, and how it meets them.

1. Before each revision the child waits until the tables on which that revision asks for ACCESS EXCLUSIVE are read, by
   a transaction for each of them that stays open.
2. A look every 10 ms: who waits for one of these readers? Whoever gives up within two seconds is bounded. After two
   seconds the reader ends, and the upgrade goes on.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import URL

from pipestate.rehearse.child_process import Step, child, require_told, write_line
from pipestate.rehearse.clone import Table
from pipestate.rehearse.felt import PATIENT_MS, STRONGEST, Met
from pipestate.rehearse.job import Job
from pipestate.rehearse.line import PolledLine, RepeatedMessage, Rows, follow
from pipestate.rehearse.trace import Failure, Statement, Trace

LOOK_S = 0.010
READ = "BEGIN; LOCK TABLE ONLY {table} IN ACCESS SHARE MODE NOWAIT"
WAITS = (
    "PREPARE pipestate_waits AS SELECT reader.pid, CASE l.locktype WHEN 'relation' THEN l.mode END, {began} FROM pg_locks l "
    "CROSS JOIN LATERAL unnest(pg_blocking_pids(l.pid)) AS reader (pid) "
    "WHERE NOT l.granted AND reader.pid = ANY (ARRAY[{pids}]::int[])"
)
HAS_WAITSTART = 140000
GAVE_UP = frozenset(("55P03", "57014"))  # a lock_timeout or NOWAIT, a statement_timeout

Asked = Mapping[str, Sequence[Table]]  # the tables on which each revision asks for ACCESS EXCLUSIVE


def _running(trace: Trace, met: Met) -> Statement | None:
    """Find the statement that waited for a reader; one that failed has told nothing."""
    during = (each for each in trace.statements if each.start <= met.at <= each.end)
    return next(during, None)


@dataclass(slots=True)
class Reader:
    """A transaction that reads a table: for which revision, and since when somebody waits for it."""

    table: Table
    line: PolledLine
    revision: str | None = None
    mode: str | None = None
    since: float | None = None
    began: object = (
        None  # when the server says that the request began; another one means that the first gave up
    )


@dataclass(slots=True)
class Readers:
    """One reader a table, whom one run of the upgrade meets; `tried` are the requests that it need not meet again."""

    clone: URL
    asked: Asked
    met: list[Met] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)
    readers: list[Reader] = field(default_factory=list)
    lines: list[PolledLine] = field(default_factory=list)

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
        self.met = [replace(each, by=_running(trace, each)) for each in self.met]
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

    def _line(self) -> PolledLine:
        self.lines.append(PolledLine(self.clone))
        return self.lines[-1]

    def _looker(self) -> RepeatedMessage:
        line = self._line()
        began = "l.waitstart" if line.driver.server_version >= HAS_WAITSTART else "NULL"
        pids = ", ".join(str(reader.line.pid) for reader in self.readers)
        line.ask(WAITS.format(pids=pids, began=began))
        return RepeatedMessage(line, "EXECUTE pipestate_waits", LOOK_S, self._take)

    def _take(self, rows: Rows, sent: float, now: float) -> None:
        waiting = {pid: (mode, began) for pid, mode, began in rows}
        for reader in self.readers:
            mode, began = waiting.get(reader.line.pid, (None, None))
            is_another = began is not None and reader.began not in (None, began)
            if reader.line.pid in waiting and not is_another:
                reader.since = reader.since or sent
                reader.mode, reader.began = mode, began or reader.began
                if (now - reader.since) * 1000 >= PATIENT_MS:
                    self._settle(reader, now, gave_up=False)
            elif reader.since is not None:
                self._settle(reader, sent, gave_up=True)

    def _settle(self, reader: Reader, now: float, *, gave_up: bool) -> None:
        """Keep how a request met its reader, and end the reader: the next request finds the table free."""
        if reader.revision is not None and reader.mode == STRONGEST:
            waited = (now - reader.since) * 1000 if reader.since is not None else 0.0
            met = Met(reader.revision, reader.table.name, gave_up, waited, reader.since or now)
            self.met.append(met)
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
        reader.revision, reader.mode, reader.since, reader.began = None, None, None, None
