"""Attribution: which statement of the child made the watcher's probes wait."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pipestate.rehearse.child_process import GateOutcome, Statement, Trace, first_word
from pipestate.rehearse.clone import Table
from pipestate.rehearse.impact import MODES, STRONGEST, RevisionImpact, TableImpact
from pipestate.rehearse.watch import BLOCKING, READER, SAMPLE_S, WRITER, Seen, Sighting, Wait

APART_S = 3 * SAMPLE_S  # sightings further apart are two locks
AUTOVACUUM = "autovacuum worker"
CALLS = frozenset(("DO", "CALL", "SELECT"))
# These statements hold their lock once they have run in a transaction.
EXCLUSIVE = frozenset(("ALTER", "DROP", "TRUNCATE", "REINDEX", "CLUSTER", "VACUUM", "REFRESH"))


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock from when it was taken until its transaction ended."""

    oid: int
    mode: str
    start: float
    end: float
    statement: Statement

    def overlap(self, wait: Wait) -> float:
        return min(self.end, wait.end) - max(self.start, wait.start)


def attribute(trace: Trace, seen: Seen, tables: Sequence[Table]) -> tuple[RevisionImpact, ...]:
    """Return the impact of each revision on the tables that existed before."""
    known = {table.oid: table for table in tables}
    holds = [hold for hold in find_holds(trace, seen.sightings) if hold.oid in known]
    return tuple(_revisions(trace, seen, known, holds))


def find_holds(trace: Trace, sightings: Sequence[Sighting]) -> list[HeldLock]:
    """Find the locks: those that the child reported, and those that only the watcher saw."""
    ours = [each for each in sightings if each.by != AUTOVACUUM]
    reported = list(_reported_holds(trace, ours))
    rest = [
        each
        for each in ours
        if not any(
            hold.oid == each.oid
            and hold.mode == each.mode
            and hold.start - APART_S <= each.at <= hold.end + APART_S
            for hold in reported
        )
    ]
    return [*reported, *_seen_holds(trace, rest)]


def _reported_holds(trace: Trace, sightings: Sequence[Sighting]) -> Iterator[HeldLock]:
    known: set[tuple[int, float, int, str]] = set()
    for statement in trace.statements:
        ends = (at for session, at in trace.ended if session == statement.session and at >= statement.end)
        end = next(ends, trace.done_at or max(each.end for each in trace.statements))
        for lock in statement.locks:
            key = (statement.session, end, lock.oid, lock.mode)
            if key not in known:
                known.add(key)
                start = _taken(statement, lock.oid, lock.mode, sightings)
                yield HeldLock(lock.oid, lock.mode, start, end, statement)


def _taken(statement: Statement, oid: int, mode: str, sightings: Sequence[Sighting]) -> float:
    """Return when a statement took a lock: when first seen, else at its start; for a call, at its end."""
    during = (
        each.at
        for each in sightings
        if (each.oid, each.mode) == (oid, mode) and statement.start <= each.at <= statement.end
    )
    on_the_way = first_word(statement.sql) in CALLS and statement.end - statement.start > APART_S
    unseen = statement.end if on_the_way else statement.start
    return max(next(during, unseen) - SAMPLE_S, statement.start)


def _seen_holds(trace: Trace, sightings: Sequence[Sighting]) -> Iterator[HeldLock]:
    groups: dict[tuple[int, str], list[list[Sighting]]] = {}
    for each in sightings:
        runs = groups.setdefault((each.oid, each.mode), [])
        if runs and each.at - runs[-1][-1].at <= APART_S:
            runs[-1].append(each)
        else:
            runs.append([each])
    for (oid, mode), runs in groups.items():
        for run in runs:
            statement = trace.statement_at(run[0].at)
            if statement is not None:
                yield HeldLock(oid, mode, run[0].at, run[-1].at, statement)


def find_rewrites(trace: Trace, known: dict[int, Table]) -> dict[int, list[Statement]]:
    """Find the statements that moved a table to another file."""
    files = {oid: table.file for oid, table in known.items()}
    found: dict[int, list[Statement]] = {}
    for statement in trace.statements:
        for lock in statement.locks:
            if lock.file and files.get(lock.oid) and lock.file != files[lock.oid]:
                found.setdefault(lock.oid, []).append(statement)
                files[lock.oid] = lock.file
    return found


def _revisions(
    trace: Trace, seen: Seen, known: dict[int, Table], holds: Sequence[HeldLock]
) -> Iterator[RevisionImpact]:
    starts = [each.at for each in trace.begun]
    last = max([trace.done_at or 0.0, *(each.end for each in trace.statements), *starts])
    waits, rewrites = list(_assigned(seen.waits, holds)), find_rewrites(trace, known)
    for begun, end in zip(trace.begun, [*starts[1:], last], strict=False):
        own = [hold for hold in holds if hold.statement.revision == begun.revision]
        tables = [
            _table(
                known[oid],
                [hold for hold in own if hold.oid == oid],
                [wait for wait, hold in waits if hold in own and wait.oid == oid],
                trace,
                seen,
                rewrites.get(oid, []),
            )
            for oid in dict.fromkeys(hold.oid for hold in own)
        ]
        statements = [each for each in trace.statements if each.revision == begun.revision]
        yield RevisionImpact(
            begun.revision,
            begun.path,
            (end - begun.at) * 1000,
            tuple(sorted(tables, key=lambda each: -each.wait_ms)),
            tuple(_gates([gate for gate in trace.gates if gate.revision == begun.revision])),
            max(statements, key=lambda each: each.duration_ms, default=None),
            any(not each.locks and first_word(each.sql) in EXCLUSIVE for each in statements),
        )


def _gates(outcomes: Sequence[GateOutcome]) -> Iterator[GateOutcome]:
    """Merge the evaluations of each gate: one closed evaluation makes it closed."""
    for name in dict.fromkeys(each.gate for each in outcomes):
        evaluations = [each for each in outcomes if each.gate == name]
        worst = next((each.state for each in evaluations if each.state != "open"), "open")
        failing = dict.fromkeys(check for each in evaluations for check in each.failing)
        yield GateOutcome(evaluations[0].revision, name, worst, tuple(failing))


def _assigned(waits: Iterable[Wait], holds: Sequence[HeldLock]) -> Iterator[tuple[Wait, HeldLock]]:
    """Assign each wait to the lock that caused it."""
    for wait in waits:
        modes = {READER: (STRONGEST,), WRITER: BLOCKING}.get(wait.kind, MODES)
        there = [
            hold for hold in holds if hold.oid == wait.oid and hold.mode in modes and hold.overlap(wait) > 0
        ]
        if there:
            yield wait, max(there, key=partial(_likeness, wait))


def _likeness(wait: Wait, hold: HeldLock) -> tuple[bool, float, int]:
    """Rank locks by how well they explain a wait: held at its beginning, and for the longest time."""
    return hold.start <= wait.start + APART_S, hold.overlap(wait), MODES.index(hold.mode)


def _table(
    table: Table,
    holds: Sequence[HeldLock],
    waits: Sequence[Wait],
    trace: Trace,
    seen: Seen,
    rewrites: Sequence[Statement],
) -> TableImpact:
    strongest = max(holds, key=lambda hold: (MODES.index(hold.mode), hold.end - hold.start))
    modes = sorted({hold.mode for hold in holds}, key=MODES.index, reverse=True)
    exclusive = [hold.statement for hold in holds if hold.mode == STRONGEST]
    timeouts = [each.lock_timeout_ms for each in exclusive if each.lock_timeout_ms is not None]
    worst = max(waits, key=lambda wait: wait.ms, default=None)
    probed = table.name not in seen.not_probed
    longest = {
        kind: max((wait.ms for wait in waits if wait.kind == kind), default=0.0 if probed else None)
        for kind in (WRITER, READER, "rows")
    }
    revision = strongest.statement.revision
    rewritten = next((each for each in rewrites if each.revision == revision), None)
    return TableImpact(
        revision,
        table.name,
        table.rows,
        table.bytes,
        tuple(modes),
        rewritten is not None,
        strongest.statement,
        _spender(trace, worst, strongest),
        any(timeout == 0 for timeout in timeouts),
        max(timeouts, default=None),
        max((strongest.end - strongest.start) * 1000, longest[WRITER] or 0.0, longest[READER] or 0.0),
        longest[WRITER],
        longest[READER],
        longest["rows"],
        rewritten_by=rewritten,
        statements=tuple(
            each
            for each in trace.statements
            if each.revision == revision
            and any(hold.start < each.end and each.start < hold.end for hold in holds)
        ),
    )


def _spender(trace: Trace, longest: Wait | None, hold: HeldLock) -> Statement | None:
    """Find the statement that took most of the wait, or of the time for which the lock was held."""
    start, end = (longest.start, longest.end) if longest is not None else (hold.start, hold.end)
    during = [each for each in trace.statements if each.end > start and each.start < end]
    return max(during, key=lambda each: min(each.end, end) - max(each.start, start), default=None)
