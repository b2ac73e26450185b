"""Statements, sightings and waits as they would be, on a clock that begins at 0."""

from pipestate.rehearse.attribute import attribute
from pipestate.rehearse.child_process import Begun, GateOutcome, Lock, Statement, Trace
from pipestate.rehearse.clone import Server, Table
from pipestate.rehearse.impact import TableImpact
from pipestate.rehearse.watch import READER, WRITER, Seen, Sighting, Wait

ORDERS = Table(20000, "public.orders", "orders", 1000, 8192, 20000)
EXCLUSIVE = "AccessExclusiveLock"
ROWS = "RowExclusiveLock"


def statement(
    revision: str, line: int, start: float, end: float, *locks: Lock, timeout: float = 0.0
) -> Statement:
    return Statement(revision, 1, f"{revision}.py:{line}", f"line {line}", start, end, locks, timeout)


def traced(*statements: Statement, ended: float, done: float) -> Trace:
    revisions = dict.fromkeys(each.revision for each in statements)
    begun = [
        Begun(revision, f"{revision}.py", min(each.start for each in statements if each.revision == revision))
        for revision in revisions
    ]
    return Trace(list(statements), begun, [(1, ended)], done_at=done)


def only_table(trace: Trace, seen: Seen) -> TableImpact:
    (table,) = [table for revision in attribute(trace, seen, [ORDERS]) for table in revision.tables]
    return table


def test_the_lock_is_its_taker_and_the_time_its_spender() -> None:
    trace = traced(
        statement("b2", 7, 1.0, 1.01, Lock(ORDERS.oid, EXCLUSIVE, ORDERS.file)),
        statement("b2", 8, 1.01, 3.0, Lock(ORDERS.oid, EXCLUSIVE, ORDERS.file)),
        ended=3.0,
        done=3.1,
    )
    seen = Seen(waits=[Wait(ORDERS.oid, WRITER, 1.02, 3.02), Wait(ORDERS.oid, READER, 1.5, 3.0)])
    table = only_table(trace, seen)
    assert table.taken_by is not None
    assert table.spent_by is not None
    assert (table.taken_by.source, table.spent_by.source) == ("b2.py:7", "b2.py:8")
    assert (round(table.writer_ms or 0), round(table.reader_ms or 0), table.rows_ms) == (2000, 1500, 0)
    assert table.never_gives_up
    assert not table.rewritten


def test_a_lock_that_outlives_its_revision_belongs_to_the_one_that_took_it() -> None:
    """One transaction for the whole run: c3 spends the time, b2 holds the lock."""
    trace = traced(
        statement("b2", 7, 1.0, 1.01, Lock(ORDERS.oid, EXCLUSIVE, 1), timeout=200.0),
        statement("c3", 9, 1.02, 3.0),
        ended=3.0,
        done=3.0,
    )
    table = only_table(trace, Seen(waits=[Wait(ORDERS.oid, WRITER, 1.1, 3.0)]))
    assert table.revision == "b2"
    assert table.spent_by is not None
    assert table.spent_by.source == "c3.py:9"
    assert (table.rewritten, table.never_gives_up, table.lock_timeout_ms) == (True, False, 200.0)


def test_a_wait_belongs_to_the_lock_that_was_there_when_it_began() -> None:
    """The UPDATE's lock was never seen, and the next revision's is held for longer than the rows were."""
    lock = Lock(ORDERS.oid, ROWS, 1)
    update = Statement("b2", 1, "b2.py:7", "UPDATE orders SET x = 1", 1.0, 2.0, (lock,), 0.0)
    check = statement("c3", 9, 2.1, 5.0, Lock(ORDERS.oid, EXCLUSIVE, 1))
    begun = [Begun("b2", "b2.py", 1.0), Begun("c3", "c3.py", 2.1)]
    trace = Trace([update, check], begun, [(1, 2.05), (1, 5.0)], done_at=5.0)
    seen = Seen(waits=[Wait(ORDERS.oid, "rows", 1.1, 3.9), Wait(ORDERS.oid, WRITER, 2.2, 5.0)])
    (first,), (second,) = (each.tables for each in attribute(trace, seen, [ORDERS]))
    assert round(first.rows_ms or 0) == 2800
    assert (second.rows_ms, round(second.writer_ms or 0)) == (0, 2800)


def test_a_lock_outside_of_a_transaction_is_known_from_sightings() -> None:
    """CREATE INDEX CONCURRENTLY holds nothing any more when it is over."""
    trace = traced(statement("b2", 7, 1.0, 2.0), ended=2.1, done=2.1)
    mode = "ShareUpdateExclusiveLock"
    seen = Seen(sightings=[Sighting(ORDERS.oid, mode, "client backend", 1.0 + n / 50) for n in range(40)])
    table = only_table(trace, seen)
    assert table.modes == (mode,)
    assert table.taken_by is not None
    assert table.taken_by.source == "b2.py:7"


def test_autovacuum_is_not_the_migration() -> None:
    trace = traced(statement("b2", 7, 1.0, 2.0), ended=2.1, done=2.1)
    seen = Seen(sightings=[Sighting(ORDERS.oid, "ShareUpdateExclusiveLock", "autovacuum worker", 1.5)])
    (revision,) = attribute(trace, seen, [ORDERS])
    assert revision.tables == ()


def test_the_evaluations_of_one_gate_are_one_line() -> None:
    trace = traced(statement("b2", 7, 1.0, 2.0), ended=2.1, done=2.1)
    trace.gates += [
        GateOutcome("b2", "orders/ready", "closed", ("quiet", "soak")),
        GateOutcome("b2", "orders/ready", "open", ()),
    ]
    (revision,) = attribute(trace, Seen(), [ORDERS])
    assert revision.gates == (GateOutcome("b2", "orders/ready", "closed", ("quiet", "soak")),)


def test_nothing_has_begun() -> None:
    assert attribute(Trace(), Seen(), [ORDERS]) == ()


def test_a_primary_is_distinguished_from_a_restored_backup() -> None:
    """Both have the identifier of the system that they were copied from."""
    primary, standby = Server(False, 7, 1, 5), Server(True, 7, 1, 5)
    restored, sibling = Server(False, 7, 2, 5), Server(False, 7, 1, 6)
    assert primary.is_primary_of(standby)
    assert not restored.is_primary_of(standby)
    assert not sibling.is_primary_of(standby)
    assert not primary.is_primary_of(sibling)
