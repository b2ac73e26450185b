"""A compiled check is one SELECT that returns its verdict: the same on both engines."""

import sqlite3
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.database import connections as db
from pipestate.ledger.install import install
from pipestate.plan.compile import QUERY, compile_check, compile_criterion
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check, SignOff
from pipestate.verify.read import read_verdict
from support.servers import Database

SEVERAL = "the query returned more than one row, and a column is compared in one"
BOTH = [
    ("SELECT 1 AS x", "x = 1", "passed", "x is 1, required = 1"),
    ("SELECT 1 AS x", "X != 1", "failed", "X is 1, required != 1"),
    ("SELECT 1 AS x", "x < 1.5 and x > 0.5", "passed", "x is 1, required < 1.5; x is 1, required > 0.5"),
    ("SELECT 1 AS x, 2 AS y", "x = 2 and y = 2", "failed", "x is 1, required = 2"),
    ("SELECT 1 AS x, 'b' AS y", "x = 2 and y = 2", "errored", "y is 'b', required = 2: a value of type text"),
    ("SELECT 1 AS x", "x = '1'", "errored", "x is 1, required = '1': a value of type number cannot be compared with a text"),
    ("SELECT '1' AS x", "x = 1", "errored", "x is '1', required = 1: a value of type text cannot be compared with a number"),
    ("SELECT 'abc' AS x", "x >= 95", "errored", "x is 'abc', required >= 95: "),
    ("SELECT 'it''s' AS x", "x = 'it''s'", "passed", "x is 'it''s', required = 'it''s'"),
    ("SELECT 'B' AS x", "x < 'a'", "passed", "x is 'B', required < 'a'"),
    ("SELECT 'é' AS x", "x > 'z'", "passed", "x is 'é', required > 'z'"),
    ("SELECT NULL AS x", "x = 1", "failed", "x is NULL, required = 1"),
    ("SELECT CAST(NULL AS text) AS x", "x != 'a'", "failed", "x is NULL, required != 'a'"),
    ("SELECT 1 AS x", "x = true", "passed", "x is 1, required = true"),
    ("SELECT 0 AS x", "x != true", "passed", "x is 0, required != true"),
    ("SELECT 2 AS x", "x = true", "errored", "x is 2, required = true: a value of type number cannot be compared with a boolean"),
    ("SELECT 1 AS x WHERE 1 = 0", "x = 1", "failed", "no row, required x = 1"),
    ("SELECT 1 AS x UNION ALL SELECT 2", "x = 1", "errored", SEVERAL),
    ("SELECT 1 AS x WHERE 1 = 0", "rows = 0", "passed", "rows is 0, required = 0"),
    ("SELECT 1 AS x UNION ALL SELECT 2", "rows = 0", "failed", "rows is 2, required = 0"),
    ("SELECT 1 AS x UNION ALL SELECT 2", "rows >= 1 and rows <= 5", "passed", "rows is 2, required >= 1 and <= 5"),
    ("SELECT 1 AS x", "rows = 1 and x = 1", "passed", "rows is 1, required = 1, x is 1, required = 1"),
    ("SELECT 1 AS x WHERE 1 = 0", "rows = 1 and x = 1", "failed", "rows is 0, required = 1"),
    ("SELECT 1 AS x UNION ALL SELECT 2", "rows = 1 and x = 1", "failed", "rows is 2, required = 1"),
    ("SELECT 1 AS x UNION ALL SELECT 2", "rows = 2 and x = 1", "errored", SEVERAL),
    ("SELECT 1 AS x, 2 AS outcome, 3 AS message, 4 AS rows", "x = 1 and outcome = 2 and message = 3", "passed", "x is 1"),
    ("SELECT 1 AS x -- the end", "x = 1", "passed", "x is 1, required = 1"),
]  # fmt: skip
ONLY_POSTGRESQL = [
    ("SELECT true AS x", "x = TRUE", "passed", "x is true, required = true"),
    ("SELECT true AS x", "x = 'true'", "errored", "x is true, required = 'true': a value of type boolean"),
    ("SELECT 0.30000000000000000000 AS x", "x = 0.3", "passed", "x is 0.3, required = 0.3"),
    ("SELECT 0.1::float4 AS x", "x = 0.1", "passed", "x is 0.1, required = 0.1"),
    ("SELECT 'NaN'::float8 AS x", "x >= 95", "failed", "x is NaN, required >= 95"),
    ("SELECT 'Infinity'::float8 AS x", "x >= 95", "failed", "x is Infinity, required >= 95"),
    ("SELECT 'NaN' AS x", "x = 'NaN'", "passed", "x is 'NaN', required = 'NaN'"),
    ("SELECT DATE '2024-01-01' AS x", "x = '2024-01-01'", "errored", "a value of type date cannot be compared"),
    ("SELECT TIMESTAMPTZ '20000-01-01 00:00+00' AS x, 1 AS y", "y = 1", "passed", "y is 1, required = 1"),
    ("SELECT '5'::jsonb AS x", "x = 5", "passed", "x is 5, required = 5"),
    ("SELECT ARRAY[1] AS x", "x = 1", "errored", "a value of type array cannot be compared with a number"),
    ("SELECT 'ab'::char(5) AS x", "x = 'ab'", "passed", "x is 'ab', required = 'ab'"),
    ("SELECT relkind AS x FROM pg_class WHERE relname = 'pg_class'", "x = 'r'", "passed", "x is 'r', required = 'r'"),
    ("SELECT 3::oid AS x", "x = 3", "passed", "x is 3, required = 3"),
    ("SELECT 9999999999999999999999.5 AS x", "x > 1", "passed", "x is 9999999999999999999999.5, required > 1"),
    ("SELECT repeat('a', 100) AS x", "x = 'b'", "failed", f"x is '{'a' * 80}', required = 'b'"),
]  # fmt: skip
ONLY_SQLITE = [
    ("SELECT x'61' AS x", "x = 'a'", "errored", "x is X'61', required = 'a': a value of type blob"),
    ("SELECT 9e999 AS x", "x > 1", "failed", "x is Inf, required > 1"),
    ("SELECT 0.1 + 0.2 AS x", "x > 0.3", "passed", "x is 0.3"),
]


def verdict(connection: Connection, sql: str, criterion: str) -> tuple[str, str]:
    frame = compile_criterion(parse_requirement(criterion), connection.dialect.name)
    statement = frame.replace(QUERY, sql)
    row = connection.exec_driver_sql(statement, execution_options={"no_parameters": True}).one()
    return str(row[0]), str(row[1])


@pytest.mark.parametrize(("sql", "criterion", "outcome", "message"), BOTH, ids=lambda value: str(value)[:40])
def test_both_engines_return_the_same(
    database: Database, sql: str, criterion: str, outcome: str, message: str
) -> None:
    with db.reader(database.url) as connection:
        found = verdict(connection, sql, criterion)
    assert found[0] == outcome, found
    assert found[1].startswith(message)


@pytest.mark.parametrize(("sql", "criterion", "outcome", "message"), ONLY_POSTGRESQL)
def test_types_of_postgresql(pg: Database, sql: str, criterion: str, outcome: str, message: str) -> None:
    with db.reader(pg.url) as connection:
        found = verdict(connection, sql, criterion)
    assert found[0] == outcome, found
    assert message in found[1]


@pytest.mark.parametrize(("sql", "criterion", "outcome", "message"), ONLY_SQLITE)
def test_types_of_sqlite(
    sqlite_database: Database, sql: str, criterion: str, outcome: str, message: str
) -> None:
    with db.reader(sqlite_database.url) as connection:
        found = verdict(connection, sql, criterion)
    assert found[0] == outcome, found
    assert message in found[1]


@pytest.mark.parametrize(
    ("sql", "criterion", "message"),
    [
        ("SELECT 3 AS rows", "rows >= 1", "ambiguous"),
        ("SELECT 3 AS rows, 1 AS x", "x = 1 and rows = 1", "ambiguous"),
        ("SELECT 1 AS x", "y = 1", "the_result.y"),
    ],
)
def test_a_column_that_is_missing_or_ambiguous_is_an_error(
    database: Database, sql: str, criterion: str, message: str
) -> None:
    with db.reader(database.url) as connection, pytest.raises(DBAPIError, match=message):
        verdict(connection, sql, criterion)


@pytest.mark.parametrize(
    ("days", "people", "signed", "outcome", "message"),
    [
        (7, 1, 1, "passed", "signed off within 7d"),
        (7, 2, 1, "failed", "signed off by 1 of 2 people within 7d: pipestate attest a/b/c --by YOU"),
        (7, 2, 3, "passed", "signed off by 2 people within 7d"),
        (3650, 1, 1, "passed", "signed off"),
        (3650, 1, 0, "failed", "not signed off: pipestate attest a/b/c --by YOU"),
    ],
)
def test_a_sign_off_counts_people(
    database: Database, days: int, people: int, signed: int, outcome: str, message: str
) -> None:
    with database.engine.begin() as connection:
        install(connection)
    for number in range(signed):
        database.run(
            f"INSERT INTO {'pipestate_' if database.is_sqlite else 'pipestate.'}attestation "
            f"(runbook, phase, name, person) VALUES ('a', 'b', 'c', 'person {number}')"
        )
    signoff = SignOff("c", 1, timedelta(days=days), "It is done.", people)
    check = compile_check(signoff, database.url.get_backend_name(), runbook="a", phase="b")
    with db.reader(database.url) as connection:
        answer = read_verdict(connection, check, 5)
    assert (answer.outcome, answer.message, answer.observed) == (outcome, message, {"people": signed})


@given(
    st.one_of(st.integers(-(2**62), 2**62), st.floats(allow_nan=False, allow_infinity=False)),
    st.integers(-(10**18), 10**18),
)
def test_exactly_one_of_less_equal_greater_holds(value: float, literal: int) -> None:
    with sqlite3.connect(":memory:") as connection:
        found = []
        for op in ("<", "=", ">"):
            frame = compile_criterion(parse_requirement(f"x {op} {literal}"), "sqlite")
            found.append(connection.execute(frame.replace(QUERY, "SELECT ? AS x"), [value]).fetchone()[0])
    connection.close()
    assert sorted(found) == ["failed", "failed", "passed"]


def test_a_criterion_of_hostile_text_stays_a_text(database: Database) -> None:
    text = "'; DROP TABLE t; -- \\ % {query} $$"
    criterion = "x = '" + text.replace("'", "''") + "'"
    check = Check("c", 1, "SELECT '" + text.replace("'", "''") + "' AS x", parse_requirement(criterion))
    with db.reader(database.url) as connection:
        answer = read_verdict(
            connection, compile_check(check, database.url.get_backend_name(), runbook="a", phase="b"), 5
        )
    assert answer.outcome == "passed"
