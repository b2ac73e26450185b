"""The format of runbooks on real engines: variants, `again:`, windows, the ledger's names."""

from pathlib import Path

from pipestate.cli.formats.json import as_plain
from pipestate.database.connections import reader
from pipestate.status.collect import run_views
from pipestate.verify.checks import find_phases
from pipestate.verify.report import Gate, Verdict
from support.runbook_samples import NOWHERE, block, explained, page, run, shown, write
from support.servers import Database

FRONT = "  one: {}\n  two: {}\n"
TWO = "\n## Phase: two\n\n"
RECENT = "SELECT n, at FROM t WHERE at > now() - interval '24 hours' ORDER BY n"
RECENT_LITE = "SELECT n, at FROM t WHERE julianday(at) > julianday('now', '-24 hours') ORDER BY n"
BESIDE = "## Phase: one\n\n```sql\n-- check: recent\n" + RECENT_LITE + ";\n```\n"


def fill(database: Database) -> None:
    """Three rows of 12, 36 and 72 hours ago."""
    database.run("CREATE TABLE t (n INTEGER, at TIMESTAMP)")
    for n, hours in enumerate((12, 36, 72)):
        ago = (
            f"datetime('now', '-{hours} hours')"
            if database.is_sqlite
            else f"now() - interval '{hours} hours'"
        )
        database.run(f"INSERT INTO t VALUES ({n}, {ago})")


def by_phase(database: Database, directory: Path, items: str) -> dict[str, Verdict]:
    recent = block(RECENT, check="recent", require="rows = 0", window="24 hours")
    book = write(directory, page(recent, TWO, items, front=FRONT), sqlite=BESIDE)
    return {phase.name: phase.checks[0] for _, phase in run(database, book).phases()}


def test_a_check_is_evaluated_again_over_another_length(database: Database, tmp_path: Path) -> None:
    fill(database)
    found = by_phase(database, tmp_path, "- again: `one/recent`, over `48 hours`\n")
    assert [row["n"] for row in found["one"].evidence] == [0]
    assert [row["n"] for row in found["two"].evidence] == [0, 1]
    assert found["two"].message.startswith("2 rows, first: n 0, at ")
    assert found["two"].check_id == "recent"


def test_and_with_another_criterion(database: Database, tmp_path: Path) -> None:
    fill(database)
    found = by_phase(database, tmp_path, "- again: `one/recent`, requires `rows <= 3`, over `96 hours`\n")
    assert (found["two"].outcome, found["two"].require) == ("passed", "rows <= 3")
    assert found["two"].observed == {"rows": 3}


def test_a_verdict_tells_who_uses_it_and_where_the_sql_stands(database: Database, tmp_path: Path) -> None:
    fill(database)
    found = by_phase(database, tmp_path, "- again: `one/recent`\n")
    lines = (tmp_path / "book.md").read_text().split("\n")
    fence, item = (
        f"{tmp_path}/book.md:{lines.index(text) + 1}" for text in ("```sql", "- again: `one/recent`")
    )
    stands = f"{tmp_path}/book.sqlite.md:3" if database.is_sqlite else fence
    assert (found["one"].source, found["one"].block) == (fence, stands)
    assert (found["two"].source, found["two"].block) == (item, stands)


def test_what_sqlite_cannot_hold_is_skipped_there_with_the_reason(database: Database, tmp_path: Path) -> None:
    only = block("SELECT count(*) AS x FROM pg_class", require="x > 1", dialect="postgresql")
    report = run(database, write(tmp_path, page(only, block("SELECT 1 AS x", check="d"))))
    first, second = report.verdicts()
    assert second.outcome == "passed"
    if database.is_sqlite:
        assert (first.outcome, first.message) == (
            "skipped",
            "the runbook says that SQLite cannot hold this state: postgresql alone evaluates it",
        )
    else:
        assert first.outcome == "passed"


def test_a_gate_of_which_sqlite_can_hold_nothing_is_closed(sqlite_database: Database, tmp_path: Path) -> None:
    only = block("SELECT count(*) AS x FROM pg_class", dialect="postgresql")
    report = run(sqlite_database, write(tmp_path, page(only)))
    assert [phase.gate for _, phase in report.phases()] == [Gate.CLOSED]
    assert report.exit_code == 2


def test_the_ledger_s_names_are_read_on_both_engines(database: Database, tmp_path: Path) -> None:
    """In checks, evidence and views; the names alone, for the ledger's views are made elsewhere."""
    if database.is_sqlite:
        database.run("CREATE TABLE pipestate_soak (days_open REAL)", "INSERT INTO pipestate_soak VALUES (3)")
    else:
        database.run("CREATE SCHEMA pipestate", "CREATE TABLE pipestate.soak AS SELECT 3 AS days_open")
    soak = "SELECT days_open, 'pipestate.soak' AS name FROM pipestate.soak"
    parts = (
        block(soak, require="days_open >= 7 and name = 'pipestate.soak'"),
        explained(f"{soak} ORDER BY 1"),
        shown(f"{soak} ORDER BY 2"),
    )
    book = write(tmp_path, page(*parts))
    (verdict,) = run(database, book).verdicts()
    assert verdict.message == f"days_open is {'3.0' if database.is_sqlite else '3'}, required >= 7"
    assert verdict.evidence == ({"days_open": 3, "name": "pipestate.soak"},)
    with reader(database.url) as connection:
        (view,) = run_views(connection, find_phases([book]), NOWHERE, 5)
    assert view.rows == ({"days_open": 3, "name": "pipestate.soak"},)


def test_the_json_has_the_block(database: Database, tmp_path: Path) -> None:
    report = run(database, write(tmp_path, page(block("SELECT 1 AS x"))))
    (check,) = as_plain(report)["runbooks"][0]["phases"][0]["checks"]
    assert check["source"] == check["block"] == f"{tmp_path}/book.md:11"
