"""Blocking readers: transactions that read a table and stay open while the upgrade runs a second time.

1. A scratch copy of the clone is made before the clone is migrated; the second run uses it.
2. Before each revision the child waits until its tables are read: those on which it requests ACCESS EXCLUSIVE.
3. Every 10 ms `pg_locks` shows which requests wait for a reader. Some give up within two
   seconds. After that the reader ends, and the upgrade continues.
"""

import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import Unreachable
from pipestate.core.text import size
from pipestate.database import connections as db
from pipestate.database.drivers import message
from pipestate.database.queries import named_query
from pipestate.rehearse.child_process import Failure, Step, Trace, run_child
from pipestate.rehearse.clone import Job, Table
from pipestate.rehearse.impact import READER_MS, STRONGEST, LockEncounter, RevisionImpact, TableImpact
from pipestate.rehearse.watch import PolledConnection, RepeatedMessage, Rows, run_tasks

MOST_BYTES = 1 << 30  # a larger copy takes minutes, and more disk than expected
PREFIX = "pipestate_rehearsal_"
MOST_NAMED = 30  # characters of the clone's name: the whole name has at most 63
FACTS = named_query("rehearse", "copy_facts")
SETTINGS = named_query("rehearse", "copy_settings")
MOST_READERS = 16
SAMPLE_S = 0.010
READ = "BEGIN; LOCK TABLE ONLY {table} IN ACCESS SHARE MODE NOWAIT"
HAS_WAITSTART = 140000
GAVE_UP = frozenset(("55P03", "57014"))  # a lock_timeout or NOWAIT, a statement_timeout
Encounters = tuple[Sequence[LockEncounter], Failure | None]  # with the failure that stopped the run
ExclusiveRequests = Mapping[str, Sequence[Table]]  # tables with a request for ACCESS EXCLUSIVE, by revision


@contextmanager
def scratch_copy(clone: URL) -> Iterator[tuple[URL | None, str | None]]:
    """Copy the clone on its own server, and drop the copy at the end; without a copy, yield the reason."""
    name = _named(clone)
    if (why_not := _copy(clone, name)) is not None:
        yield None, why_not
        return
    try:
        yield clone.set(database=name), None
    finally:
        _drop(clone, name)


def _named(clone: URL) -> str:
    """Choose a name that contains the clone's: a killed process leaves its copy behind.

    >>> from sqlalchemy import make_url
    >>> _named(make_url('postgresql://db/Shop "Clöne"'))[:33]
    'pipestate_rehearsal_shop__cl_ne__'
    """
    known = re.sub(r"[^a-z0-9_]", "_", str(clone.database).lower())[:MOST_NAMED]
    return f"{PREFIX}{known}_{secrets.token_hex(6)}"


def _copy(clone: URL, name: str) -> str | None:
    """Make the copy, with the settings of the clone; return the reason if there is none. An error leaves no copy.

    The files are copied and flushed before this returns; a WAL copy would be written out during the rehearsal.
    """
    with db.autocommit(clone) as connection:  # a database can be copied by its only session
        (facts,) = db.run_own(connection, FACTS)
        if not facts.may_copy:
            return "the role may not create databases"
        if facts.bytes > MOST_BYTES:
            return f"the clone has more than {size(MOST_BYTES)}"
        source = connection.dialect.identifier_preparer.quote(facts.name)
        strategy = " STRATEGY FILE_COPY" if facts.has_strategies else ""
        try:
            connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {source}{strategy}")
            for (statement,) in db.run_own(connection, SETTINGS, name=name):
                db.send(connection, statement)
        except BaseException as error:
            _drop(clone, name)  # uses a separate session: this one may have been ended
            if not isinstance(error, DBAPIError):
                raise
            return f"the clone could not be copied: {message(error).partition(chr(10))[0]}"
    return None


def _drop(clone: URL, name: str) -> None:
    try:
        with db.autocommit(clone) as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    except Unreachable as error:
        raise Unreachable(
            f"the copy {name} of the clone could not be dropped, so drop it: {error}"
        ) from error


@dataclass(slots=True)
class BlockingReader:
    """A transaction that reads a table for a revision, and the start of a request's wait for it."""

    table: Table
    line: PolledConnection
    revision: str | None = None
    mode: str | None = None
    since: float | None = None
    began: object = None  # the server's start of the request; with a new value, the first request gave up


@dataclass(slots=True)
class BlockingReaders:
    """The readers of one run, one per table; requests in `tried` need no further run."""

    clone: URL
    requests: ExclusiveRequests
    encounters: list[LockEncounter] = field(default_factory=list)
    tried: set[tuple[str, str]] = field(default_factory=set)
    readers: list[BlockingReader] = field(default_factory=list)
    lines: list[PolledConnection] = field(default_factory=list)

    def run(self, job: Job, steps: Sequence[Step]) -> Failure | None:
        """Run the steps once; return the failure that stopped them."""
        tables = {table.name: table for each in self.requests.values() for table in each}
        self.readers = [BlockingReader(table, self._line()) for table in tables.values()]
        trace = Trace(begins=lambda begun: self.read_for(begun.revision))
        run_child(job, steps, trace, partial(run_tasks, [self._sampler()]), waits=True)
        if trace.failure is not None and trace.failure.sqlstate in GAVE_UP:
            self._gave_up_for_good(time.monotonic())
        for number, met in enumerate(
            self.encounters
        ):  # the statement that waited; failed ones are not reported
            running = (each for each in trace.statements if each.start <= met.at <= each.end)
            self.encounters[number] = replace(met, by=next(running, None))
        return trace.failure

    def close(self) -> None:
        for line in self.lines:
            line.close()

    def read_for(self, revision: str) -> None:
        """End the open readers, and read the tables of this revision unless they are locked."""
        for reader in self.readers:
            self._end(reader)
        names = {table.name for table in self.requests.get(revision, ())}
        for reader in self.readers:
            if reader.table.name not in names:
                continue
            if reader.line.refusal(READ.format(table=reader.table.quoted)) is None:
                reader.revision = revision
            else:
                reader.line.query("ROLLBACK")

    def _line(self) -> PolledConnection:
        self.lines.append(PolledConnection(self.clone))
        return self.lines[-1]

    def _sampler(self) -> RepeatedMessage:
        line = self._line()
        began = "l.waitstart" if line.driver.server_version >= HAS_WAITSTART else "NULL"
        pids = ", ".join(str(reader.line.pid) for reader in self.readers)
        line.prepare(named_query("rehearse", "prepare_waits", pids=pids, began=began))
        return RepeatedMessage(line, "EXECUTE pipestate_waits", SAMPLE_S, self._take)

    def _take(self, rows: Rows, sent: float, now: float) -> None:
        waiting = {pid: (mode, began) for pid, mode, began in rows}
        for reader in self.readers:
            mode, began = waiting.get(reader.line.pid, (None, None))
            is_another = began is not None and reader.began not in (None, began)
            if reader.line.pid in waiting and not is_another:
                reader.since = reader.since or sent
                reader.mode, reader.began = mode, began or reader.began
                if (now - reader.since) * 1000 >= READER_MS:
                    self._settle(reader, now, gave_up=False)
            elif reader.since is not None:
                self._settle(reader, sent, gave_up=True)

    def _settle(self, reader: BlockingReader, now: float, *, gave_up: bool) -> None:
        """Record an encounter, and end its reader: the table is free for the next request."""
        if reader.revision is not None and reader.mode == STRONGEST:
            waited = (now - reader.since) * 1000 if reader.since is not None else 0.0
            met = LockEncounter(reader.revision, reader.table.name, gave_up, waited, reader.since or now)
            self.encounters.append(met)
            self.tried.add((reader.revision, reader.table.name))
        self._end(reader)

    def _gave_up_for_good(self, now: float) -> None:
        """Settle the reader at which the upgrade gave up: the one it waited for, or the only one."""
        reading = [reader for reader in self.readers if reader.revision is not None]
        self.tried |= {(str(reader.revision), reader.table.name) for reader in reading}
        seen = [reader for reader in reading if reader.since is not None]
        for reader in seen or (reading if len(reading) == 1 else ()):
            reader.mode = reader.mode or STRONGEST
            self._settle(reader, now, gave_up=True)

    def _end(self, reader: BlockingReader) -> None:
        if reader.revision is not None:
            reader.line.query("ROLLBACK")
        reader.revision, reader.mode, reader.since, reader.began = None, None, None, None


def find_exclusive_requests(
    revisions: Sequence[RevisionImpact], tables: Sequence[Table]
) -> dict[str, list[Table]]:
    """Find the tables on which each revision requested ACCESS EXCLUSIVE; at most the largest ones.

    A change outside a transaction releases its locks with the statement, so its revision may have requested any table.
    """
    wanted = {
        (each.revision, each.table) for one in revisions for each in one.tables if STRONGEST in each.modes
    }
    named = {name for _, name in wanted}
    known = sorted(tables, key=lambda table: table.name not in named)[:MOST_READERS]
    found = {
        each.revision: [table for table in known if each.loose or (each.revision, table.name) in wanted]
        for each in revisions
    }
    return {revision: requests for revision, requests in found.items() if requests}


def run_beside_readers(job: Job, steps: Sequence[Step], requests: ExclusiveRequests) -> Encounters:
    """Run the steps beside blocking readers, and again after each request that gave up; return the last failure."""
    found: list[LockEncounter] = []
    while True:
        readers = BlockingReaders(job.clone, requests)
        try:
            failure = readers.run(job, steps)
        finally:
            readers.close()
        found += readers.encounters
        if failure is None or not readers.tried:
            return found, failure
        requests = {
            revision: [table for table in tables if (revision, table.name) not in readers.tried]
            for revision, tables in requests.items()
        }


def with_encounters(
    revisions: Sequence[RevisionImpact], encounters: Sequence[LockEncounter], tables: Sequence[Table]
) -> tuple[RevisionImpact, ...]:
    """Add to each request for ACCESS EXCLUSIVE its encounter; add requests that were too short to be seen."""
    known = {table.name: table for table in tables}
    found = []
    for revision in revisions:
        left = {each.table: each for each in encounters if each.revision == revision.revision}
        seen = [replace(table, encounter=left.pop(table.table, None)) for table in revision.tables]
        unseen = [_unseen(each, known[name]) for name, each in left.items()]
        found.append(replace(revision, tables=(*seen, *unseen)))
    return tuple(found)


def _unseen(encounter: LockEncounter, table: Table) -> TableImpact:
    """Describe a lock that only a reader encountered: it was too short for the probes."""
    timeout = encounter.by.lock_timeout_ms if encounter.by is not None else None
    return TableImpact(
        *(encounter.revision, table.name, table.rows, table.bytes, (STRONGEST,)),
        taken_by=encounter.by,
        never_gives_up=not timeout,
        lock_timeout_ms=timeout,
        encounter=encounter,
    )
