"""A report of anything: nothing at all, no ledger, text that wants to be more than text, a year of records."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from integration.report.conftest import gathered, runbook_file
from pipestate.ledger.install import install
from pipestate.ledger.record import Rehearsed, record_event, record_rehearsal
from pipestate.ledger.tables import ledger_on
from pipestate.project.find import Calls
from pipestate.report.gather import check_series, gather
from pipestate.report.page import render_page
from pipestate.report.series import MOST_POINTS, Window
from pipestate.status.collect import read_clock
from support.hostile_report import SEEN, write_hostile
from support.html_pages import Html, must_be_whole, words
from support.runbook_samples import NOWHERE, block, page, shown, write
from support.servers import Database
from support.sql_times import run_timed

REHEARSED = {"revision": None, "target": "b2", "files": {"a1": "0"}, "clone": "clone", "duration_ms": 5.0}


@pytest.fixture
def ledger(database: Database) -> Database:
    with database.begin() as connection:
        install(connection)
    return database


def test_nothing_at_all_is_still_a_page(database: Database) -> None:
    html = runbook_file(database)
    must_be_whole(html)
    assert (
        "No runbook here has `default: true`: name one, or write one with `pipestate init NAME`."
        in html.words
    )
    assert "pipestate init NAME" in html.words


def test_without_a_ledger_the_page_has_the_gates_and_says_how_to_get_one(
    database: Database, tmp_path: Path
) -> None:
    book = write(tmp_path, page(block("SELECT 1 AS x"), shown("SELECT 'a' AS name, 3 AS n")))
    html = runbook_file(database, book)
    must_be_whole(html)
    assert "this database has no ledger: run `pipestate ledger install`" in html.words
    assert "one open" in html.words
    assert "name n a 3" in words(html.with_id("view.book.v"))
    assert "No number is on record" in html.words


def test_a_view_that_is_a_distribution_has_bars(database: Database, tmp_path: Path) -> None:
    rows = "SELECT 'a' AS name, 9 AS \"n.o\" UNION ALL SELECT 'b', 3 ORDER BY 2 DESC"
    html = runbook_file(database, write(tmp_path, page(block("SELECT 1 AS x"), shown(rows))))
    must_be_whole(html)
    assert "name n.o share a 9 b 3" in words(html.with_id("view.book.v"))
    bars = [each.get("aria-label") for each in html.with_id("view.book.v").iter() if each.get("aria-label")]
    assert bars == ["The view v", "75 %", "25 %"]


def test_an_empty_ledger_is_a_page_without_charts(ledger: Database, tmp_path: Path) -> None:
    html = runbook_file(ledger, write(tmp_path, page(block("SELECT 1 AS x"))))
    must_be_whole(html)
    assert html.all("svg", "chart") == []
    for sentence in ("Nothing recorded yet", "Nothing was observed", "No rehearsal is on record"):
        assert sentence in html.words


def test_what_happened_is_on_the_page(ledger: Database, tmp_path: Path) -> None:
    book = write(tmp_path, page(block("SELECT 2 AS x")))
    with ledger.begin() as connection:
        record_event(connection, event="purge", reason="archive of last year", revision="a1")
        measured = {"rows": 1234567, "longest_wait_ms": 12.5}
        understood = {"kind": "compat", "statements": 40, "broken": 2}
        for ok, numbers in ((True, measured), (False, {}), (False, understood)):
            record_rehearsal(connection, Rehearsed(**REHEARSED, ok=ok, **numbers))  # type: ignore[arg-type]
    run_timed(
        ledger,
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, reason, revision) "
        "VALUES (<2 hours ago>, 'force', 'mira', 'book', 'one', 'closed', 'incident 42', 'a1')",
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level, message) "
        "SELECT max(id), 'quiet', 'failed', 'block', 'no' FROM pipestate.run",
    )
    html = runbook_file(ledger, book)
    must_be_whole(html)
    assert "book/one was forced by mira" in words(html.with_id("gates"))
    assert "incident 42" in words(html.with_id("gates"))
    assert "Failing checks: quiet." in words(html.with_id("gates"))
    assert "archive of last year" in words(html.with_id("history"))
    rehearsals = words(html.with_id("rehearsals"))
    assert "a1 ok longest wait 12.5 ms 1,234,567 changed since" in rehearsals
    assert "a1 not ok waits are not known" in rehearsals
    assert "a1 not ok 2 of 40 statements break" in rehearsals


def test_hostile_text_stays_text_wherever_it_comes_from(ledger: Database, tmp_path: Path) -> None:
    html = runbook_file(ledger, write_hostile(ledger, tmp_path))
    must_be_whole(html)
    assert html.words.count(" ".join(SEEN.split())) >= 12
    assert "\x1b" not in html.text
    assert "\u202e" not in html.text
    assert "evil.example" not in html.text


def test_long_texts_wide_rows_and_many_of_them_are_cut(ledger: Database, tmp_path: Path) -> None:
    columns = ", ".join(f"'{'x' * 400}' AS c{number}" for number in range(50))
    rows = f"SELECT {columns} FROM (VALUES {', '.join(['(1)'] * 60)}) AS many"
    html = runbook_file(ledger, write(tmp_path, page(block(rows, require="rows = 0"), shown(rows))))
    must_be_whole(html)
    view = html.with_id("view.book.v")
    assert "and 10 more rows" in words(view)
    assert "and 20 more columns" in words(view)
    assert len(html.text) < 2_000_000


def test_a_ledger_with_times_that_no_calendar_has_is_read(pg: Database, tmp_path: Path) -> None:
    with pg.begin() as connection:
        install(connection)
    book = write(tmp_path, page(block("SELECT 1 AS x")))
    for when in ("infinity", "-infinity", "20000-01-01"):
        pg.run(
            "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate) "
            f"VALUES ('{when}', 'verify', 'cron', 'book', 'one', 'open')",
            "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
            f"VALUES ('{when}', 'depth', 'NaN', 's', 'a')",
        )
    must_be_whole(runbook_file(pg, book))


def test_numbers_that_no_axis_has_are_crosses(ledger: Database, tmp_path: Path) -> None:
    book = write(tmp_path, page(block("SELECT 1 AS x", require="x < 5")))
    tables = ledger_on(ledger.url.get_backend_name())
    values = [1, "NaN", None, 10**400, {"a": 1}, True, "3", -1e308, 1e308, 2]
    with ledger.begin() as connection:
        now = read_clock(connection)
        for number, value in enumerate(values):
            at = now - timedelta(hours=len(values) - number)
            kept = {"recorded_at": at, "event": "verify", "actor": "a", "runbook": "book", "phase": "one"}
            run = connection.execute(insert(tables.run).values(kept).returning(tables.run.c.id)).scalar_one()
            observed = {"x": value} if number % 9 else [value]
            result = {"check_id": "c", "outcome": "failed", "level": "block", "required": "x < 5"}
            connection.execute(insert(tables.result).values(run_id=run, observed=observed, **result))
    seen = gathered(ledger, [book])
    (series,) = seen.history.checks["book", "one"]
    assert [point.value for point in series.points] == [*[None] * 7, -1e308, 1e308, None]
    must_be_whole(runbook_file(ledger, book))


@pytest.mark.scene
def test_a_year_of_records_has_a_limit(pg: Database, tmp_path: Path) -> None:
    """Eighty numbers, each recorded more often than a chart has points."""
    with pg.begin() as connection:
        install(connection)
    checks = [block(f"SELECT {number} AS n", check=f"c{number}", require="n < 50") for number in range(80)]
    book = write(tmp_path, page(*checks))
    pg.run(
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, failed) "
        "SELECT now() - n * interval '14 hours', 'verify', 'cron', 'book', 'one', 'open', (n % 50 = 0)::int "
        "FROM generate_series(1, 600) AS n",
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed) "
        "SELECT r.id, 'c' || c, 'passed', 'block', 'n < 50', jsonb_build_object('n', (r.id * 7919 + c) % 97) "
        "FROM pipestate.run r, generate_series(0, 79) AS c",
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
        "SELECT now() - n * interval '1 hour', 'depth', n % 91, 'sqs', 'cron' FROM generate_series(1, 8700) AS n",
    )
    seen = gathered(pg, [book], days=365)
    found = seen.history.checks["book", "one"]
    assert len(found) == 80
    assert {each.records for each in found} == {600}
    assert all(len(each.points) <= MOST_POINTS for each in seen.history.series())
    (depth,) = seen.history.observations
    assert depth.records == 8700
    assert len(render_page(seen, Calls())) < 2_000_000


def test_records_are_found_through_the_index(pg: Database, tmp_path: Path) -> None:
    with pg.begin() as connection:
        install(connection)
    pg.run(
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate) "
        "SELECT now() - n * interval '1 minute', 'verify', 'cron', 'book' || n % 50, 'one', 'open' "
        "FROM generate_series(1, 20000) AS n",
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed) "
        "SELECT r.id, 'c', 'passed', 'block', 'x = 1', '{\"x\": 1}' FROM pipestate.run r",
        "ANALYZE pipestate.run",
        "ANALYZE pipestate.result",
    )
    book = write(tmp_path, page(block("SELECT 1 AS x"), name="book7"), "book7")
    read = "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE relname IN ('run', 'result')"
    with pg.reader() as connection:
        now = read_clock(connection)
        window = Window(now - timedelta(days=30), now)
        (series,) = check_series(connection, book, book.phases[0], window)
        assert series.records == 400
        assert connection.exec_driver_sql(read).scalar_one() == 0


def test_a_closed_record_is_not_thinned_out(pg: Database, tmp_path: Path) -> None:
    with pg.begin() as connection:
        install(connection)
    book = write(tmp_path, page(block("SELECT 1 AS x", require="x = 1")))
    pg.run(
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, failed) "
        "SELECT now() - n * interval '15 minutes', 'verify', 'cron', 'book', 'one', 'open', (n = 1234)::int "
        "FROM generate_series(1, 2800) AS n",
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed) "
        "SELECT r.id, 'c', 'passed', 'block', 'x = 1', jsonb_build_object('x', 1 + r.failed) FROM pipestate.run r",
    )
    (series,) = gathered(pg, [book]).history.checks["book", "one"]
    assert series.records == 2800
    assert series.failures == 1


def test_a_role_that_may_not_read_the_ledger_is_reported_on_the_page(pg: Database, tmp_path: Path) -> None:
    book = write(tmp_path, page(block("SELECT 1 AS x")))
    with pg.begin() as connection:
        install(connection)
    with pg.engine.connect() as connection:
        connection.exec_driver_sql("SET LOCAL ROLE pg_read_all_settings")
        html = Html(render_page(gather(connection, pg.url, [book], NOWHERE), Calls()))
    must_be_whole(html)
    assert "the ledger cannot be read" in html.words
    assert "one open" in html.words
