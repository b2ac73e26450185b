"""`pipestate report` as people and cron type it."""

import os
import subprocess
from pathlib import Path

import pytest

from support.alembic_runs import ROOT, Migrations
from support.html_pages import Html, must_be_whole
from support.programs import run_program
from support.servers import Database

Done = subprocess.CompletedProcess[str]


def report(database: Database, *arguments: str, cwd: Path = ROOT) -> Done:
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": database.text}
    done = run_program(["pipestate", "report", *arguments], cwd=cwd, environment=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_the_page_is_written_whatever_the_gates_say(legacy_0005: Database, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = report(legacy_0005, "--output", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith(f"wrote {file} (")
    page = Html(file.read_text())
    must_be_whole(page)
    assert "Closed: sites-consolidation/backfill (" in page.words


def test_runbooks_can_be_named_and_the_page_can_go_to_stdout(pg_expanded: Migrations) -> None:
    done = report(pg_expanded.database, "queue-cutover", "-o", "-", "--days", "365")
    assert (done.returncode, done.stderr) == (0, "")
    page = Html(done.stdout)
    must_be_whole(page)
    assert "From the old poller to the queue" in page.words
    assert "sites-consolidation/" not in page.words


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-o", "nowhere/report.html"], 2, "its directory is missing or not writable"),
        (["-o", "."], 2, "cannot write ."),
        (["-o", "/dev/full"], 3, "No space left on device"),
        (["-o", "r.html", "nosuch"], 2, "there is no runbook nosuch"),
        (["-o", "r.html", "--days", "0"], 2, "--days"),
        ([], 2, "--output"),
        (["-o", "r.html", "--database-url", "postgresql://app:secret@127.0.0.1:1/x"], 3, "127.0.0.1"),
    ],
)
def test_wrong_input_is_one_sentence(
    sqlite_database: Database, tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    done = report(sqlite_database, *arguments, "--shipped", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "secret" not in done.stderr
    assert not (tmp_path / "r.html").exists()


def test_a_project_without_a_runbook_has_a_page_that_says_how_to_begin(
    sqlite_database: Database, project: Path
) -> None:
    (project / "versions").mkdir()
    done = report(sqlite_database, "-o", "-", "--scripts", ".", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "pipestate init NAME" in Html(done.stdout).words
