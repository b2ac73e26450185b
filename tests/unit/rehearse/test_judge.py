from typing import Any

import pytest

from pipestate.rehearse.felt import Finding, RevisionFelt, TableFelt, Verdict
from pipestate.rehearse.judge import judge, judge_file
from pipestate.rehearse.trace import Statement


def made_statement(sql: str) -> Statement:
    return Statement("b2", 1, "versions/b2.py:7", sql, 0.0, 1.0)


def made_table(sql: str = "SELECT 1", **overrides: Any) -> TableFelt:
    statement = made_statement(sql)
    values: dict[str, Any] = {
        "revision": "b2",
        "table": "orders",
        "rows": 10,
        "bytes": 8192,
        "modes": ("AccessExclusiveLock",),
        "rewritten": False,
        "taken_by": statement,
        "spent_by": statement,
        "unbounded": False,
        "lock_timeout_ms": 200.0,
        "held_ms": 2000.0,
        "queued_ms": 0.0,
        "writer_ms": 2000.0,
        "reader_ms": 0.0,
        "rows_ms": 0.0,
    }
    return TableFelt(**values | overrides)


def found(table: TableFelt, *, limit: float = 500, floor: float = 100) -> tuple[Finding, ...]:
    return judge([RevisionFelt("b2", "versions/b2.py", 2000.0, (table,))], limit, floor)


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("CREATE INDEX i ON orders (note)", "create_index"),
        ("create unique index i on orders (note)", "create_index"),
        ("ALTER TABLE orders ADD CONSTRAINT c CHECK (total > 0)", "add_checks"),
        ("ALTER TABLE orders ADD FOREIGN KEY (shop) REFERENCES shops", "add_foreign_key"),
        ("ALTER TABLE orders ALTER COLUMN note SET NOT NULL", "IS NOT NULL"),
        ("ALTER TABLE orders VALIDATE CONSTRAINT c", "validate in a transaction of their own"),
        ("UPDATE orders SET note = 'x'", "pipestate backfill"),
        ("WITH old AS (SELECT 1) DELETE FROM orders", "pipestate backfill"),
        ("SELECT pg_sleep(2)", "transaction_per_migration=True"),
        ("CREATE INDEX CONCURRENTLY i ON orders (note)", "transaction_per_migration=True"),
        ("ALTER TABLE orders ADD CONSTRAINT c CHECK (total > 0) NOT VALID", "transaction_per_migration=True"),
    ],
)
def test_a_finding_names_the_line_and_what_avoids_it(sql: str, instead: str) -> None:
    (finding,) = found(made_table(sql))
    assert instead in finding.instead
    assert (finding.revision, finding.source, finding.verdict) == ("b2", "versions/b2.py:7", Verdict.OVER)


def test_a_rewrite_outranks_what_the_statement_looks_like() -> None:
    (finding,) = found(made_table("UPDATE orders SET note = 'x'", rewritten=True))
    assert finding.what == "rewrites the table under its lock"


def test_an_unbounded_request_fails_whatever_it_holds() -> None:
    (finding,) = found(made_table(unbounded=True, held_ms=1.0, writer_ms=1.0))
    assert finding.verdict is Verdict.OVER
    assert "without a lock_timeout" in finding.what


def test_a_patient_request_may_make_everybody_wait_as_long() -> None:
    (finding,) = found(made_table(lock_timeout_ms=60_000.0, writer_ms=1.0))
    assert finding.what.startswith("asks for ACCESS EXCLUSIVE with a lock_timeout above the limit")


def test_near_the_limit_nobody_can_say() -> None:
    (finding,) = found(made_table(writer_ms=300.0))
    assert finding.verdict is Verdict.TOO_CLOSE


def test_noise_is_no_finding_unless_it_is_far_over() -> None:
    assert found(made_table(writer_ms=300.0), floor=400) == ()
    assert found(made_table(writer_ms=1100.0), floor=2000) != ()


def test_a_table_that_was_not_probed_is_judged_by_how_long_it_was_held() -> None:
    assert found(made_table(writer_ms=None, reader_ms=None, rows_ms=None)) != ()


def test_on_sqlite_the_revision_itself_is_the_wait() -> None:
    slow = RevisionFelt("b2", "versions/b2.py", 2000.0, slowest=made_statement("SELECT 1"))
    (finding,) = judge_file([slow, RevisionFelt("c3", "versions/c3.py", 10.0)], 500)
    assert (finding.revision, finding.table, finding.source) == ("b2", "the file", "versions/b2.py:7")
