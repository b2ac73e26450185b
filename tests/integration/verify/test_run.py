"""Running checks on real engines: verdicts, one snapshot, timeouts, and errors that stop nobody."""

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from pipestate.core.errors import Unreachable
from pipestate.project.graph import Position
from pipestate.verify.report import Gate
from support.runbook_samples import block, explained, page, run, verify, write
from support.servers import Database


def only(
    database: Database, tmp_path: Path, *blocks: str, timeout_s: float = 30
) -> dict[str, tuple[str, str]]:
    report = run(database, write(tmp_path, page(*blocks)), timeout_s=timeout_s)
    return {verdict.check_id: (str(verdict.outcome), verdict.message) for verdict in report.verdicts()}


def test_a_check_passes_fails_and_errs(database: Database, tmp_path: Path) -> None:
    found = only(
        database,
        tmp_path,
        block("SELECT 1 AS x", check="good"),
        block("SELECT 2 AS x", check="bad"),
        block("SELECT x FROM nowhere", check="broken"),
        block("SELECT 3 - 2 AS x", check="after"),
    )
    assert found["good"] == ("passed", "x is 1, required = 1")
    assert found["bad"] == ("failed", "x is 2, required = 1")
    assert found["broken"][0] == "errored"
    assert "nowhere" in found["broken"][1]
    assert found["after"][0] == "passed", "an error must not stop the others"


@pytest.mark.parametrize(
    ("sql", "require", "outcome"),
    [
        ("SELECT NULL AS x", "x = 1", "failed"),
        ("SELECT 1 AS y", "x = 1", "errored"),
        ("SELECT 1 AS x UNION ALL SELECT 1", "x = 1", "errored"),
        ("SELECT 1 AS x WHERE 1 = 0", "x = 1", "failed"),
        ("SELECT 1 AS x WHERE 1 = 0", "rows = 0", "passed"),
        ("SELECT 'a:b%c' AS x", "x = 'a:b%c'", "passed"),
        ("SELECT 1 AS x -- a comment at the end", "x = 1", "passed"),
    ],
)
def test_what_is_never_a_pass(
    database: Database, tmp_path: Path, sql: str, require: str, outcome: str
) -> None:
    assert only(database, tmp_path, block(sql, require=require))["c"][0] == outcome


def test_evidence_is_shown_only_for_a_failure(database: Database, tmp_path: Path) -> None:
    why = explained("SELECT 7 AS why")
    failed = run(database, write(tmp_path, page(block("SELECT 2 AS x"), why)))
    passed = run(database, write(tmp_path, page(block("SELECT 1 AS x"), why)))
    assert next(failed.verdicts()).evidence == ({"why": 7},)
    assert next(passed.verdicts()).evidence == ()


def test_evidence_that_fails_does_not_hide_the_verdict(database: Database, tmp_path: Path) -> None:
    why = explained("SELECT * FROM nowhere")
    (verdict,) = run(database, write(tmp_path, page(block("SELECT 2 AS x"), why))).verdicts()
    assert verdict.outcome == "failed"
    assert "nowhere" in str(verdict.evidence)


def test_a_warning_closes_nothing(database: Database, tmp_path: Path) -> None:
    book = write(tmp_path, page(block("SELECT 1 AS x"), block("SELECT 2 AS x", check="w", level="warn")))
    report = run(database, book)
    assert report.exit_code == 0
    assert report.summary() == {"passed": 1, "failed": 0, "warned": 1, "errored": 0, "skipped": 0}
    assert [phase.gate for _, phase in report.phases()] == [Gate.OPEN]


def test_errored_outranks_failed(database: Database, tmp_path: Path) -> None:
    book = write(tmp_path, page(block("SELECT 2 AS x"), block("SELECT 1 AS x FROM nowhere", check="e")))
    assert run(database, book).exit_code == 3


def test_a_slow_check_is_stopped_and_the_next_one_runs(database: Database, tmp_path: Path) -> None:
    slow = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) "
        "SELECT count(*) AS x FROM n"
    )
    found = only(database, tmp_path, block(slow), block("SELECT 1 AS x", check="d"), timeout_s=0.3)
    assert found["c"][0] == "errored"
    assert "took longer than 0.3 s" in found["c"][1]
    assert found["d"][0] == "passed"


def test_all_checks_see_one_snapshot(pg: Database, tmp_path: Path) -> None:
    """A writer changes the table all the time; every check must see the same state."""
    pg.run("CREATE TABLE t (n int)", "INSERT INTO t VALUES (0)")
    stop = threading.Event()

    def write_on() -> None:
        while not stop.is_set():
            pg.run("UPDATE t SET n = n + 1")

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        time.sleep(0.1)
        blocks = [
            block(f"SELECT n AS x FROM t WHERE {i} >= 0", check=f"c{i}", require="x >= 0") for i in range(40)
        ]
        for jobs in (1, 3):
            report = run(pg, write(tmp_path, page(*blocks)), jobs=jobs)
            seen = {str(verdict.observed["x"]) for verdict in report.verdicts()}
            assert len(seen) == 1, f"with {jobs} jobs the checks saw {len(seen)} states"
    finally:
        stop.set()
        writer.join()


def test_with_jobs_the_verdicts_stay_in_order(pg: Database, tmp_path: Path) -> None:
    blocks = [block(f"SELECT {i} AS x", check=f"c{i}", require=f"x = {i}") for i in range(30)]
    report = run(pg, write(tmp_path, page(*blocks)), jobs=4)
    assert [verdict.check_id for verdict in report.verdicts()] == [f"c{i}" for i in range(30)]
    assert report.ok


CONNECTED = (
    "SELECT count(*) AS x FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'pipestate'"
)

NAP = "CREATE FUNCTION nap(seconds float8) RETURNS int LANGUAGE sql AS 'SELECT 1 FROM pg_sleep($1)'"


def test_a_short_run_opens_no_second_connection(pg: Database, tmp_path: Path) -> None:
    blocks = [block(f"{CONNECTED} AND {i} >= 0", check=f"c{i}") for i in range(10)]
    assert run(pg, write(tmp_path, page(*blocks)), jobs=8).ok


def test_others_join_a_run_that_takes_long(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipestate.verify.run.ALONE_S", 0.05)
    pg.run(NAP)
    blocks = [
        block("SELECT 1 AS x FROM nap(1)", check="long"),
        block(CONNECTED, check="beside", require="x = 2"),
    ]
    report = run(pg, write(tmp_path, page(*blocks)), jobs=2)
    assert report.ok, [verdict.message for verdict in report.verdicts()]


def test_where_no_other_connection_is_to_be_had_one_does_it_all(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipestate.verify.run.ALONE_S", 0.05)
    pg.run(NAP, "DROP ROLE IF EXISTS lonely", "CREATE ROLE lonely LOGIN CONNECTION LIMIT 1")
    lonely = Database(pg.url.set(username="lonely"))
    blocks = [block(f"SELECT 1 AS x FROM nap(0.{i + 2})", check=f"c{i}") for i in range(3)]
    assert run(lonely, write(tmp_path, page(*blocks)), jobs=3).ok


def test_five_hundred_checks_on_an_empty_table(pg: Database, tmp_path: Path) -> None:
    pg.run("CREATE TABLE t (n int)")
    counts = "SELECT count(*) AS x FROM t WHERE n > {}"
    blocks = [block(counts.format(i), check=f"c{i}", require="x = 0") for i in range(500)]
    report = run(pg, write(tmp_path, page(*blocks)))
    assert report.summary()["passed"] == 500


def test_an_unreachable_server(tmp_path: Path) -> None:
    from pipestate.config import parse_url

    book = write(tmp_path, page(block("SELECT 1 AS x")))
    url = parse_url("postgresql://app:s3cr3t@127.0.0.1:1/x")
    from support.runbook_samples import NOWHERE

    with pytest.raises(Unreachable) as caught:
        verify(url, [(book, book.phases[0])], lambda _: NOWHERE)
    assert "s3cr3t" not in str(caught.value)


def test_a_server_that_goes_away_in_the_middle(pg: Database, tmp_path: Path) -> None:
    """The backend is ended while a check runs: could not be evaluated, and no traceback."""
    book = write(
        tmp_path, page(block("SELECT count(*) AS x FROM generate_series(1, 300000000)", require="x > 0"))
    )

    def end_it() -> None:
        time.sleep(0.7)
        pg.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    killer = threading.Thread(target=end_it)
    killer.start()
    with pytest.raises(Unreachable):
        run(pg, book)
    killer.join()


def test_a_sqlite_file_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    from sqlalchemy import URL

    from support.runbook_samples import NOWHERE

    path = tmp_path / "none.sqlite"
    book = write(tmp_path, page(block("SELECT 1 AS x")))
    with pytest.raises(Unreachable, match="there is no file"):
        verify(URL.create("sqlite", database=str(path)), [(book, book.phases[0])], lambda _: NOWHERE)
    assert not path.exists()


@pytest.mark.parametrize("jobs", [1, 3])
def test_it_tells_which_check_begins_and_what_is_skipped_does_not_count(
    jobs: int, pg: Database, tmp_path: Path
) -> None:
    book = write(
        tmp_path,
        page(
            block("SELECT 1 AS x", check="first"),
            block("SELECT 2 - 1 AS x", check="not-yet", **{"from": "a1"}),
            block("SELECT 3 - 2 AS x", check="second"),
        ),
    )
    reported: list[tuple[str, int, int]] = []
    before_a1 = Position(frozenset({"a1"}), frozenset(), None, "a1")
    run(pg, book, revisions=before_a1, jobs=jobs, on_check=lambda *check: reported.append(check))
    assert {check for check, _, _ in reported} == {"book/one/first", "book/one/second"}
    assert sorted((number, total) for _, number, total in reported) == [(1, 2), (2, 2)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_function_of_one_check_sets_is_gone_for_the_next_one(
    pg: Database, tmp_path: Path, jobs: int
) -> None:
    pg.run(
        "CREATE FUNCTION poison() RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM set_config('statement_timeout', '1', true); RETURN set_config('TimeZone', 'Asia/Tokyo', true); END $$"
    )
    query = "SELECT current_setting('TimeZone') AS zone, current_setting('statement_timeout') AS most"
    runbook = write(
        tmp_path,
        page(
            *(
                block(
                    f"SELECT poison() AS zone WHERE {n} > 0", check=f"bad-{n}", require="zone = 'Asia/Tokyo'"
                )
                for n in (1, 2, 3)
            ),
            *(block(f"SELECT {n} / 0 AS zone", check=f"broken-{n}", require="zone = 0") for n in (1, 2)),
            *(
                block(f"{query} WHERE {n} > 0", check=f"good-{n}", require="zone = 'UTC' and most = '30s'")
                for n in (1, 2, 3)
            ),
        ),
    )
    outcomes = {verdict.check_id: str(verdict.outcome) for verdict in run(pg, runbook, jobs=jobs).verdicts()}
    assert {outcomes[f"good-{n}"] for n in (1, 2, 3)} == {"passed"}
    assert {outcomes[f"broken-{n}"] for n in (1, 2)} == {"errored"}


def test_a_check_takes_one_message(pg: Database, tmp_path: Path) -> None:
    """On a far server, and on a thousand near ones, messages are what a run costs."""
    sent: list[str] = []

    def listen(*given: object) -> None:
        sent.append(str(given[2]))

    checks = [block(f"SELECT {n} / {n} AS x", check=f"c{n}") for n in range(1, 41)]
    runbook = write(tmp_path, page(*checks))
    event.listen(Engine, "before_cursor_execute", listen)
    try:
        assert run(pg, runbook).ok
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
    assert len(sent) <= len(checks) + 10, sent


def test_what_two_phases_evaluate_in_the_same_words_is_read_once(pg: Database, tmp_path: Path) -> None:
    """With another criterion it is judged by that one; in another run it is read anew."""
    now = block("SELECT extract(epoch FROM clock_timestamp()) AS x", check="now", require="x > 0")
    again = "## Phase: two\n\n- again: `one/now`, requires `x > 1`\n"
    book = write(tmp_path, page(now, again, front="  one: {}\n  two: {}\n"))
    first, second = (
        [verdict.observed["x"] for _, phase in run(pg, book).phases() for verdict in phase.checks]
        for _ in range(2)
    )
    assert len(first) == 2
    assert len(set(first)) == len(set(second)) == 1
    assert first != second
