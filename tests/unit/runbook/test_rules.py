from collections.abc import Callable

import pytest

from pipestate.runbook.rules import cuts_rows

Lint = Callable[[str], list[tuple[int, str]]]


def check(require: str, sql: str) -> str:
    return f"```sql\n-- check: a\n-- require: {require}\n{sql}\n```\n"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM b LIMIT 10",
        "SELECT a FROM b\nlimit\n10",
        "SELECT a FROM b FETCH FIRST 10 ROWS ONLY",
        "SELECT a FROM b FETCH NEXT ROW ONLY",
        "(SELECT a FROM b LIMIT 10)",
        "((SELECT a FROM b) LIMIT 10)",
        "SELECT ')' LIMIT 2",
        "WITH a AS (SELECT 1) SELECT * FROM a LIMIT 1",
    ],
)
def test_a_limit_of_the_statement_itself_cuts_its_rows(sql: str, findings_in: Lint) -> None:
    assert cuts_rows(sql, None)
    assert findings_in(check("rows = 0", sql)) == [
        (
            1,
            "check a: LIMIT hides rows from `require: rows = 0`: take it out; "
            "the first rows are shown, and all are counted",
        )
    ]
    assert findings_in(check("rows >= 1", sql)) == []
    assert findings_in(check("a = 1", sql)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT (SELECT a FROM b LIMIT 1) AS c",
        "(SELECT a FROM b LIMIT 1) UNION ALL (SELECT a FROM c LIMIT 1)",
        "WITH a AS (SELECT 1 LIMIT 1) SELECT * FROM a",
        "SELECT 1 AS limit FROM b",
        "SELECT b.limit FROM b",
        "SELECT 'LIMIT 10' FROM b -- LIMIT 10",
    ],
)
def test_a_limit_elsewhere_does_not(sql: str, findings_in: Lint) -> None:
    assert not cuts_rows(sql, None)
    assert findings_in(check("rows = 0", sql)) == []


def test_a_limit_does_not_cut_a_plan() -> None:
    assert not cuts_rows("EXPLAIN QUERY PLAN SELECT a FROM b LIMIT 10", "sqlite")
