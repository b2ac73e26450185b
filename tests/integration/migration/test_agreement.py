"""One meaning of a check: `verify`, which evaluates in Python, and the gate, which the server evaluates, agree.

Migrations and scripts call the same procedures, so one comparison covers both.
"""

import json
import random
from collections.abc import Iterator
from itertools import product

import pytest
from sqlalchemy import Connection, text

from pipestate.database.connections import engine_of
from pipestate.ledger.install import install
from pipestate.runbook.criterion import parse_requirement
from pipestate.verify.checks import judge
from pipestate.verify.read import QueryFailed, read
from support.long_form import times
from support.servers import Database

TYPES = (
    # As the extension has it, which not every server brings.
    "CREATE TYPE citext",
    "CREATE FUNCTION citextin(cstring) RETURNS citext LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
    "CREATE FUNCTION citextout(citext) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'",
    "CREATE TYPE citext (INPUT = citextin, OUTPUT = citextout, INTERNALLENGTH = VARIABLE, CATEGORY = 'S')",
    "CREATE TYPE state AS ENUM ('open', 'revoked')",
    "CREATE DOMAIN whole AS integer",
    "CREATE DOMAIN code AS char(5)",
)
VALUES = [
    *("0", "1", "-3", "2::smallint", "9223372036854775807", "3::oid", "1::whole", "NULL::integer"),
    *("1.0", "3.30", "0.10", "12345678901234567890.5", "'NaN'::numeric", "NULL::numeric"),
    *(
        "0.1::float8",
        "0.1::float4",
        "0.1::float8 + 0.2",
        "1e20::float8",
        "'NaN'::float8",
        "'-Infinity'::float8",
    ),
    *("'Infinity'::float8", "true", "false", "NULL::boolean", "'a'", "'A'", "''", "'it''s'", "'é'", "'ab  '"),
    *(
        "'revoked'::state",
        "'ab'::char(5)",
        "'ab'::code",
        "'r'::\"char\"",
        "'ab'::name",
        "'ab'::varchar",
        "NULL::text",
    ),
    *(
        "'Revoked'::citext",
        "DATE '2024-01-01'",
        "TIMESTAMP '2024-01-01'",
        "TIMESTAMPTZ '2024-01-01 00:00+00'",
    ),
    *(
        "INTERVAL '1 day'",
        "TIME '10:00'",
        "'1'::jsonb",
        "'\"a\"'::jsonb",
        "'\\x61'::bytea",
        "ARRAY[1]",
        "B'1'",
    ),
    *("'00000000-0000-0000-0000-000000000001'::uuid", "'pg_class'::regclass", "'<a/>'::xml"),
]
VALUES += ["TIMESTAMPTZ '20000-01-01'", "DATE '0044-03-15 BC'", "INTERVAL '178000000 years'"]
LITERALS = ["0", "1", "1.0", "0.1", "3.3", "-3", "'a'", "'ab'", "'revoked'", "''", "'it''s'", "true", "FALSE"]
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
SHAPES = {
    "SELECT {v} AS x": ["x", "X"],
    'SELECT {v} AS "X"': ["x", "X"],
    'SELECT {v} AS "X", 1 AS x': ["x", "X"],
    'SELECT {v} AS "X", 1 AS "x", 2 AS "x"': ["x", "X"],
    "SELECT {v} AS rows": ["x", "rows"],
    'SELECT {v} AS x, 2 AS "Rows"': ["x", "rows"],
    "SELECT {v} AS x WHERE false": ["x", "y"],
    "SELECT {v} AS x UNION ALL SELECT {v}": ["x", "rows"],
    "WITH a AS (SELECT {v} AS x) SELECT x, 7 AS n FROM a -- the end": ["x", "ROWS"],
    "VALUES ({v})": ["column1", "x"],
    "SELECT FROM (VALUES ({v})) AS v": ["x", "rows"],
}


@pytest.fixture
def connection(pg: Database) -> Iterator[Connection]:
    with pg.engine.begin() as connection:
        install(connection)
        for statement in TYPES:
            connection.exec_driver_sql(statement)
    with pg.engine.connect() as connection:
        yield connection


def cases(most: int) -> list[tuple[str, str]]:
    """Choose queries and criteria; the same ones each time."""
    chosen = random.Random(24)
    every = [
        (shape.format(v=value), column)
        for value, (shape, columns) in product(VALUES, SHAPES.items())
        for column in columns
    ]
    found = []
    for query, column in every:
        for operator, literal in chosen.sample(list(product(OPERATORS, LITERALS)), 6):
            if literal in ("true", "FALSE") and operator not in ("=", "!="):
                continue
            if column.lower() == "rows" and literal[0] not in "-0123456789":
                continue
            more = chosen.choice(["", "", f" and rows {operator} 1", " AND n = 7"])
            found.append((query, f"{column} {operator} {literal}{more}"))
    return chosen.sample(found, min(most, len(found)))


def by_verify(connection: Connection, query: str, criterion: str) -> str:
    with engine_of(connection).read_only_session(connection):
        try:
            return str(judge(parse_requirement(criterion), read(connection, query, 10, most=10)).outcome)
        except QueryFailed:
            return "errored"


def by_server(connection: Connection, query: str, criterion: str) -> str:
    task = {"check_id": "c", "required": criterion, "query": query, "level": "block", "source": "p:1"}
    found = connection.execute(
        text("SELECT pipestate.evaluate(CAST(:task AS jsonb), 'pg_catalog, public, pg_temp', '')"),
        {"task": json.dumps(task)},
    ).scalar_one()
    return str(found["outcome"])


@pytest.mark.scene
def test_the_server_and_verify_judge_alike(connection: Connection) -> None:
    tried = cases(times(2500, long=20_000))
    different = {
        (query, criterion): answers
        for query, criterion in tried
        if len(
            set(answers := (by_verify(connection, query, criterion), by_server(connection, query, criterion)))
        )
        > 1
    }
    assert different == {}
    assert len(tried) >= 2500


@pytest.mark.parametrize(
    ("query", "criterion", "outcome"),
    [
        ("SELECT 'Revoked'::citext AS state", "state != 'revoked'", "passed"),
        ("SELECT 'revoked'::state AS state", "STATE = 'revoked'", "passed"),
        ("SELECT 3 AS rows", "rows = 1", "errored"),
        ("SELECT 0 AS n", "N = 0 AND ROWS = 1", "passed"),
        ("SELECT DATE '2024-01-01' AS d", "d = '2024-01-01'", "errored"),
        ("SELECT 1 AS n UNION ALL SELECT 2", "n = 1", "errored"),
        ("EXPLAIN SELECT 1", "rows >= 1", "passed"),
    ],
)
def test_what_a_script_once_judged_otherwise(
    connection: Connection, query: str, criterion: str, outcome: str
) -> None:
    assert by_server(connection, query, criterion) == by_verify(connection, query, criterion) == outcome
