"""Results of rehearsals, made by hand."""

from typing import Any

from pipestate.rehearse.child_process import Statement
from pipestate.rehearse.impact import TableImpact


def made_statement(sql: str) -> Statement:
    return Statement("b2", 1, "versions/b2.py:7", sql, 0.0, 1.0)


def made_table(sql: str = "SELECT 1", **overrides: Any) -> TableImpact:
    """A table that was locked for two seconds, by a request that gives up."""
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
        "never_gives_up": False,
        "lock_timeout_ms": 200.0,
        "held_ms": 2000.0,
        "writer_ms": 2000.0,
        "reader_ms": 0.0,
        "rows_ms": 0.0,
    }
    return TableImpact(**values | overrides)
