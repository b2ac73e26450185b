"""A value, a query around it and a criterion: `verify` and the server, which gates ask, give the same verdict."""

import json
import random
from collections.abc import Mapping, Sequence
from itertools import product

from sqlalchemy import Connection, text

from pipestate.ledger.install import install
from pipestate.plan.compile import CompiledCheck, compile_check
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check
from pipestate.verify.read import QueryFailed, read_verdict
from pipestate.verify.report import escaped
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
PORTABLE = [
    *("0", "1", "-3", "9223372036854775807", "1.0", "3.30", "0.10", "12345678901234567890.5", "NULL"),
    *("'a'", "'A'", "''", "'it''s'", "'é'", "'ab  '", "'1'", "'revoked'", "'\\'", "'{query}'", "'%s :y $$'"),
    *("CAST(NULL AS integer)", "CAST(NULL AS text)", "CAST(2 AS smallint)", "'line\nbreak'"),
]
VALUES = [
    *PORTABLE,
    *("2::smallint", "3::oid", "1::whole", "NULL::numeric", "'NaN'::numeric", "0.1::float8", "0.1::float4"),
    *("0.1::float8 + 0.2", "1e20::float8", "'NaN'::float8", "'-Infinity'::float8", "'Infinity'::float8"),
    *("true", "false", "NULL::boolean", "'revoked'::state", "'ab'::char(5)", "'ab'::code", "'r'::\"char\""),
    *("'ab'::name", "'ab'::varchar", "'Revoked'::citext", "DATE '2024-01-01'", "TIMESTAMP '2024-01-01'"),
    *(
        "TIMESTAMPTZ '2024-01-01 00:00+00'",
        "INTERVAL '1 day'",
        "TIME '10:00'",
        "'1'::jsonb",
        "'\"a\"'::jsonb",
    ),
    *("'\\x61'::bytea", "ARRAY[1]", "B'1'", "'00000000-0000-0000-0000-000000000001'::uuid"),
    *("'pg_class'::regclass", "'<a/>'::xml", "TIMESTAMPTZ '20000-01-01'", "DATE '0044-03-15 BC'"),
    *("INTERVAL '178000000 years'", "chr(27) || '[31m'", "repeat('long ', 100)", "ROW(1, 'a')"),
]
LITERALS = ["0", "1", "1.0", "0.1", "3.3", "-3", "'a'", "'ab'", "'revoked'", "''", "'it''s'", "true", "FALSE"]
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]
Shapes = Mapping[str, Sequence[str]]
PORTABLE_SHAPES: Shapes = {
    "SELECT {v} AS x": ["x", "X", "y"],
    "SELECT {v} AS x, 1 AS x": ["x"],
    "SELECT {v} AS rows": ["x", "rows"],
    "SELECT {v} AS x WHERE 1 = 0": ["x", "y", "rows"],
    "SELECT {v} AS x UNION ALL SELECT {v}": ["x", "rows"],
    "WITH a AS (SELECT {v} AS x) SELECT x, 7 AS n FROM a -- the end": ["x", "ROWS"],
}
SHAPES: Shapes = {
    **PORTABLE_SHAPES,
    'SELECT {v} AS "X"': ["x", "X"],
    'SELECT {v} AS "X", 1 AS x': ["x", "X"],
    'SELECT {v} AS "X", 1 AS "x", 2 AS "x"': ["x", "X"],
    'SELECT {v} AS x, 2 AS "Rows"': ["x", "rows"],
    "VALUES ({v})": ["column1", "x"],
    "SELECT FROM (VALUES ({v})) AS v": ["x", "rows"],
}
Case = tuple[str, str]
ERRORED = ("errored", None, None)


def cases(values: Sequence[str], shapes: Shapes, most: int) -> list[Case]:
    """Compare every value with every literal, and choose other queries and criteria; the same ones each time."""
    chosen = random.Random(24)
    plain = [(f"SELECT {value} AS x", f"x = {literal}") for value, literal in product(values, LITERALS)]
    found = []
    for value, (shape, columns) in product(values, shapes.items()):
        for column in columns:
            for operator, literal in chosen.sample(list(product(OPERATORS, LITERALS)), 6):
                if literal in ("true", "FALSE") and operator not in ("=", "!="):
                    continue
                if column.lower() == "rows" and literal[0] not in "-0123456789":
                    continue
                more = chosen.choice(["", "", f" and rows {operator} 1", " AND n = 7"])
                found.append((shape.replace("{v}", value), f"{column} {operator} {literal}{more}"))
    return plain + chosen.sample(found, min(most, len(found)))


def compiled(case: Case, dialect: str) -> CompiledCheck:
    query, criterion = case
    check = Check("c", 1, query, parse_requirement(criterion))
    return compile_check(check, dialect, runbook="book", phase="one")


def by_verify(connection: Connection, case: Case) -> tuple[object, ...]:
    """Return outcome, message and rows."""
    try:
        answer = read_verdict(connection, compiled(case, connection.dialect.name), 10)
    except QueryFailed as error:
        return "errored", str(error), None
    return str(answer.outcome), answer.message, answer.rows


def by_server(connection: Connection, case: Case) -> tuple[object, ...]:
    check = compiled(case, "postgresql")
    shows = check.shows_own_rows
    task = {
        "check_id": "c",
        "query": check.query,
        "frame": check.frame,
        "shows_rows": shows,
        "level": "block",
    }
    found = connection.execute(
        text("SELECT pipestate.evaluate(CAST(:task AS jsonb), 'pg_catalog, public, pg_temp', '')"),
        {"task": json.dumps(task)},
    ).scalar_one()
    message = escaped(found["message"].partition("; first: ")[0])
    return found["outcome"], message, found.get("rows")


def test_verify_and_the_server_give_the_same_verdict(pg: Database) -> None:
    tried = cases(VALUES, SHAPES, times(1000, long=20_000))
    with pg.begin() as connection:
        install(connection)
        for statement in TYPES:
            connection.exec_driver_sql(statement)
    with pg.reader() as reader, pg.connect() as connection:
        both = {case: (by_verify(reader, case), by_server(connection, case)) for case in tried}
    assert {case: answers for case, answers in both.items() if answers[0] != answers[1]} == {}
    assert {verdict[0] for verdict, _ in both.values()} == {"passed", "failed", "errored"}


def test_the_engines_give_portable_values_the_same_outcome(pg: Database, sqlite_database: Database) -> None:
    tried = cases(PORTABLE, PORTABLE_SHAPES, times(600, long=20_000))
    with pg.reader() as server, sqlite_database.reader() as file:
        both = {case: (by_verify(server, case)[0], by_verify(file, case)[0]) for case in tried}
    assert {case: answers for case, answers in both.items() if answers[0] != answers[1]} == {}
    assert {outcome for outcome, _ in both.values()} == {"passed", "failed", "errored"}
