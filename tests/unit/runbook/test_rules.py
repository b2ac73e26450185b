from collections.abc import Callable

import pytest

from pipestate.runbook.lint import cuts_rows

Lint = Callable[[str], list[tuple[int, str]]]


def check(require: str, sql: str) -> str:
    return f"```sql\n-- check: a\n-- require: {require}\n{sql}\n;\n```\n"


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
            "check a: LIMIT hides rows from `rows = 0`: take it out; "
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


LATEST = "SELECT value, age_seconds FROM pipestate.latest_observation WHERE name = 'depth'"


@pytest.mark.parametrize(
    ("require", "sql"),
    [
        ("value = 0", LATEST),
        ("value = 0", "SELECT * FROM pipestate.latest_observation"),
        ("value = 0", "SELECT o.value, o.age_seconds AS age FROM pipestate.latest_observation o"),
        ("rows = 0", "SELECT name FROM pipestate.latest_observation WHERE value > 0 -- age_seconds > 3600"),
        ("value = 0", 'SELECT value FROM "pipestate"."latest_observation"'),
    ],
)
def test_a_check_on_the_newest_observation_checks_how_old_it_is(
    require: str, sql: str, findings_in: Lint
) -> None:
    [(line, said)] = findings_in(check(require, sql))

    assert line == 1
    assert said.startswith("check a: an observation may be a year old: add `and age_seconds <= 3600`")


@pytest.mark.parametrize(
    ("require", "sql"),
    [
        ("value = 0 and age_seconds <= 3600", LATEST),
        ("value = 0 and AGE_SECONDS <= 3600", LATEST),
        ("rows = 0", "SELECT name FROM pipestate.latest_observation WHERE value > 0 OR age_seconds > 3600"),
        ("value = 0", LATEST + " AND 3600 > age_seconds"),
        ("minutes <= 60", "SELECT age_seconds / 60 AS minutes FROM pipestate.latest_observation"),
        ("value = 0", "SELECT value FROM pipestate.observed"),
        ("value = 0", "SELECT 'latest_observation' AS value"),
    ],
)
def test_what_checks_it_or_checks_something_else_is_in_order(
    require: str, sql: str, findings_in: Lint
) -> None:
    assert findings_in(check(require, sql)) == []
