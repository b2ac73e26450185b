"""Whatever a query returns becomes a verdict, in limited memory: odd values, many rows, wide rows."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipestate.cli.output import Format, render
from pipestate.database.connections import reader
from pipestate.project.find import Calls
from pipestate.status.collect import run_views
from pipestate.verify.checks import find_phases
from pipestate.verify.read import QueryFailed, read
from support.runbook_samples import NOWHERE, block, explained, page, run, shown, write
from support.servers import Database

# Each is a value of PostgreSQL that Python's types, or psycopg2's way into them, cannot hold.
UNREADABLE = [
    "timestamp '20000-01-01'",
    "timestamptz '20000-01-01 00:00:00+00'",
    "date '0044-03-15 BC'",
    "interval '178000000 years'",
    "interval '2000000000 days'",
    "ARRAY[date '20000-01-01']",
    "daterange('2000-01-01', '20000-01-01')",
    "('[' || repeat('1', 5000) || ']')::jsonb",
    "(repeat('[', 5000) || repeat(']', 5000))::jsonb",
]
ODD = [
    "timestamptz 'infinity'",
    "date '-infinity'",
    "'NaN'::numeric",
    "('1' || repeat('0', 5000))::numeric",
    "'\\x00ff'::bytea",
    "'\"\\ud800\"'::json",
    "(repeat('[', 200) || repeat(']', 200))::jsonb",
    "json '{\"a\": 1e400}'",
    "ROW(1, 'a')",
    "'(1,2)'::point",
]
WIDE_ROWS = {
    "postgresql": "SELECT n, repeat('x', 1000) AS wide FROM generate_series(1, 200000) AS n",
    "sqlite": "WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 200000) "
    "SELECT n, printf('%.*c', 1000, 'x') AS wide FROM s",
}

GROWTH = """
import sys
from resource import RUSAGE_SELF, getrusage
from sqlalchemy import make_url
from pipestate.database.connections import reader
from pipestate.verify.read import read

def peak():
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

with reader(make_url(sys.argv[1])) as connection:
    read(connection, "SELECT 1", 60, most=10)
    before = peak()
    found = read(connection, sys.argv[2], 60, most=10)
    print(found.total, len(found.rows), peak() - before)
"""


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("require", ["x = 1", "rows = 0"])
def test_a_value_that_python_cannot_hold_is_errored(
    pg: Database, tmp_path: Path, value: str, require: str
) -> None:
    book = write(
        tmp_path, page(block(f"SELECT {value} AS x", require=require), block("SELECT 1 AS x", check="d"))
    )
    first, second = (report := run(pg, book)).verdicts()
    assert first.outcome == "errored"
    assert first.message.startswith("the query returned a value that cannot be read (")
    assert "CAST(x AS text)" in first.message
    assert (second.outcome, report.exit_code) == ("passed", 3)


@pytest.mark.parametrize("value", UNREADABLE[:5])
def test_evidence_and_views_that_cannot_be_read_say_so(pg: Database, tmp_path: Path, value: str) -> None:
    why, view = explained(f"SELECT {value} AS why"), shown(f"SELECT {value} AS x")
    book = write(tmp_path, page(block("SELECT 2 AS x"), why, view))
    (verdict,) = run(pg, book).verdicts()
    assert verdict.outcome == "failed"
    assert "cannot be read" in str(verdict.evidence[0]["error"])
    with reader(pg.url) as connection:
        (found,) = run_views(connection, find_phases([book]), NOWHERE, 5)
    assert "cannot be read" in str(found.error)


@pytest.mark.parametrize("value", ODD)
def test_an_odd_value_is_shown_in_every_format(pg: Database, tmp_path: Path, value: str) -> None:
    report = run(pg, write(tmp_path, page(block(f"SELECT {value} AS x", require="rows = 0"))))
    (verdict,) = report.verdicts()
    assert (verdict.outcome, verdict.evidence_rows) == ("failed", 1)
    for form in set(Format) - {Format.CONSOLE}:
        assert render(report, form, Calls()).encode("utf-8")


def test_the_rows_of_a_check_are_its_evidence_and_all_are_counted(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TABLE t (n INTEGER, why TEXT)")
    database.run("INSERT INTO t VALUES " + ", ".join(f"({n}, 'late')" for n in range(1, 1245)))
    sql = "SELECT n, why FROM t ORDER BY n DESC"
    (verdict,) = run(database, write(tmp_path, page(block(sql, require="rows = 0")))).verdicts()
    assert verdict.message == "1,244 rows, first: n 1244, why 'late'; required rows = 0"
    assert verdict.observed == {"rows": 1244}
    assert [row["n"] for row in verdict.evidence] == list(range(1244, 1234, -1))
    assert verdict.evidence_rows == 1244


def test_too_few_rows_are_explained_by_evidence_and_else_shown(database: Database, tmp_path: Path) -> None:
    why = explained("SELECT 7 AS why", check="c, d")
    checks = [block(f"SELECT '{id}' AS x", check=id, require="rows >= 2") for id in ("c", "d", "e")]
    found = {v.check_id: v for v in run(database, write(tmp_path, page(*checks, why))).verdicts()}
    assert found["c"].evidence == found["d"].evidence == ({"why": 7},)
    assert found["e"].evidence == ({"x": "e"},)


def test_many_wide_rows_do_not_grow_the_process(database: Database) -> None:
    """They are 200 MB; read in a process of its own, whose peak nothing else has raised."""
    sql = WIDE_ROWS[database.url.get_backend_name()]
    command = [sys.executable, "-c", GROWTH, database.url.render_as_string(hide_password=False), sql]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    total, kept, grown = (int(word) for word in done.stdout.split())
    assert (total, kept) == (200_000, 10)
    assert grown < 40_000_000, f"the process grew by {grown} bytes"


def test_a_plan_is_read_plainly(database: Database) -> None:
    with reader(database.url) as connection:
        assert read(connection, "EXPLAIN SELECT 1", 5, most=10).total >= 1


def test_a_query_that_ends_in_a_comment_or_names_a_column_twice(database: Database) -> None:
    with reader(database.url) as connection:
        found = read(connection, "SELECT 1 AS a, 2 AS a -- the end", 5, most=10)
        assert (found.columns, found.rows, found.total) == (("a", "a"), ((1, 2),), 1)


def test_an_error_leaves_the_connection_usable(database: Database) -> None:
    with reader(database.url) as connection:
        with pytest.raises(QueryFailed):
            read(connection, "SELECT * FROM nowhere", 5, most=10)
        assert read(connection, "SELECT 1 AS a", 5, most=10).rows == ((1,),)
