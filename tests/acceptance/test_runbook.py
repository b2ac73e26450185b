"""`pipestate runbook lint` and `show`, as people and pre-commit call them: without a database."""

import json
import os
import re
import sqlite3
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from support.alembic_runs import ROOT, Migrations, psql
from support.documentation import find_schema
from support.programs import run_program
from support.runbook_samples import block, page

PAGES = ("content-item-pipeline-state", "queue-cutover", "sites-consolidation")


def pipestate(*arguments: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    done = run_program(["pipestate", *arguments], cwd=cwd, environment=dict(os.environ))
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture
def books(tmp_path: Path) -> Path:
    """A project with a page and its variants."""
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = alembic\n")
    (tmp_path / "alembic" / "versions").mkdir(parents=True)
    folder = tmp_path / "runbooks"
    folder.mkdir()
    (folder / "orders.md").write_text(page(block("SELECT now() IS NULL AS x"), name="orders"))
    (folder / "orders.sqlite.md").write_text("## Phase: one\n\n```sql\n-- check: c\nSELECT 0 AS x;\n```\n")
    return folder


def test_a_page_and_its_variants_are_one_runbook(books: Path) -> None:
    for arguments in ([], ["runbooks/orders.md"], ["runbooks/orders.sqlite.md", "runbooks/orders.md"]):
        done = pipestate("runbook", "lint", *arguments, cwd=books.parent)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "1 runbook, 0 findings\n")


def test_a_fault_beside_the_page_is_reported_with_its_file_and_line(books: Path) -> None:
    (books / "orders.sqlite.md").write_text("## Phase: one\n\n```sql\n-- check: d\nSELECT 0 AS x;\n```\n")
    for name in ("orders.md", "orders.sqlite.md"):
        done = pipestate("runbook", "lint", f"runbooks/{name}", cwd=books.parent)
        assert done.returncode == 2
        assert "runbooks/orders.sqlite.md:3: check d has no block of that id in this phase" in done.stdout
        assert "runbooks/orders.md:11: check c: SQLite does not know `now()`" in done.stdout


def test_findings_are_data_too(books: Path) -> None:
    """The same findings, the same exit codes, in a shape that a schema promises."""
    schema = json.loads(find_schema("lint").read_text(encoding="utf-8"))
    for variant, code in (("c", 0), ("d", 2)):
        text = f"## Phase: one\n\n```sql\n-- check: {variant}\nSELECT 0 AS x;\n```\n"
        (books / "orders.sqlite.md").write_text(text)
        said = pipestate("runbook", "lint", cwd=books.parent)
        done = pipestate("runbook", "lint", "--json", cwd=books.parent)
        assert (done.returncode, done.stderr) == (code, said.stderr)
        data = json.loads(done.stdout)
        jsonschema.Draft202012Validator(schema).validate(data)
        assert (data["ok"], data["runbooks"]) == (code == 0, ["runbooks/orders.md"])
        lines = [f"{each['path']}:{each['line']}: {each['message']}" for each in data["findings"]]
        assert lines == said.stdout.splitlines()


def test_variants_without_a_page_are_found(books: Path) -> None:
    (books / "orders.md").rename(books / "sales.md")
    done = pipestate("runbook", "lint", cwd=books.parent)
    assert done.returncode == 2
    assert "orders.sqlite.md:1: there is no runbook" in done.stdout


def test_variants_are_no_runbook_that_could_be_verified(books: Path) -> None:
    url = f"sqlite:///{books.parent}/x.db"
    sqlite3.connect(books.parent / "x.db").close()
    done = pipestate("verify", "runbooks/orders.sqlite.md", "--database-url", url, cwd=books.parent)
    assert done.returncode == 2
    assert "this file has only the SQLite variants of runbooks/orders.md" in done.stderr


@pytest.mark.parametrize("name", PAGES)
def test_a_phase_is_shown_as_sql_that_pastes_into_psql(pg_migrations: Migrations, name: str) -> None:
    pg_migrations.upgrade("0005")
    for phase in phases(name):
        shown = pipestate("runbook", "show", name, "--phase", phase).stdout
        assert shown.startswith(f"-- {name}/{phase}")
        if phase != "cleanup" or name == "queue-cutover":  # whose tables come with 0006
            done = psql(pg_migrations.database, shown, "-v", "ON_ERROR_STOP=1")
            assert (done.returncode, done.stderr) == (0, ""), phase


@pytest.mark.parametrize("name", PAGES)
def test_and_for_sqlite_as_sql_that_sqlite_runs(name: str, tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    migrations = ["alembic", "-x", f"url=sqlite:///{database}", "upgrade", "0005"]
    assert run_program(migrations, cwd=ROOT, environment=dict(os.environ)).returncode == 0
    for phase in phases(name):
        shown = pipestate("runbook", "show", name, "--phase", phase, "--dialect", "sqlite").stdout
        assert "now()" not in shown
        if phase != "cleanup" or name == "queue-cutover":
            with sqlite3.connect(database) as connection:
                connection.executescript(shown)


def phases(name: str) -> list[str]:
    text = (ROOT / "runbooks" / f"{name}.md").read_text()
    return [line.removeprefix("## Phase: ") for line in text.splitlines() if line.startswith("## Phase: ")]


def test_what_is_evaluated_again_is_shown_as_it_is_evaluated(books: Path) -> None:
    recent = block("SELECT 1 AS x WHERE '24 hours' > ''", require="x = 1", window="24 hours")
    text = page(
        recent,
        "## Phase: two\n\n- again: `one/c`, requires `x >= 1`, over `2 days`\n- [ ] `b` (24h, 2 people): word\n",
        front="  one: {}\n  two: {opens: [b2]}\n",
    )
    (books / "book.md").write_text(text)
    shown = pipestate("runbook", "show", "book", "--phase", "two", cwd=books.parent).stdout
    assert shown == (
        "-- book/two, the gate of b2, on postgresql\n\n"
        "-- check: c (again one/c, at runbooks/book.md:21; its block: runbooks/book.md:12)\n"
        "-- require: x >= 1\n"
        "SELECT 1 AS x WHERE '2 days' > '';\n\n"
        "-- sign-off: b (runbooks/book.md:22)\n"
        "-- require: sign-offs of 2 people, not older than 24h: word\n"
    )


def test_a_phase_that_is_not_there_is_one_sentence() -> None:
    done = pipestate("runbook", "show", "queue-cutover", "--phase", "nowhere")
    assert done.returncode == 2
    assert "has no phase nowhere; it has dual-write, shadow, cutover, cleanup" in done.stderr


def test_pre_commit_hands_over_both_files() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for name in ("orders.md", "orders.sqlite.md"):
        assert re.search(hook["files"], f"runbooks/{name}")
