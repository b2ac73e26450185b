"""`pipestate_notify`: a command gets the changed gates of `verify --record`; its failures change nothing."""

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipestate.ledger.install import install
from support.alembic_runs import ROOT
from support.documentation import examples, find_page, find_schema
from support.programs import run_program
from support.runbook_samples import block, page
from support.servers import Database
from support.web_servers import Reply, serving

Done = subprocess.CompletedProcess[str]
SECRET = "s3cr3t"
HOSTILE = "<!channel> @here '; touch owned; $(touch owned) `touch owned`\n::error::owned \x1b[2J \u202e"
KEEP = "sh -c 'cat >> told'"


@dataclass(frozen=True)
class Book:
    """A page of one phase, whose gate is open when the table has one row, and an ini with a command."""

    database: Database
    directory: Path

    def verify(self, *arguments: str, command: str = KEEP, **environment: str) -> Done:
        ini = f"[alembic]\nscript_location = {ROOT}/alembic\npipestate_notify = {command}\n"
        (self.directory / "alembic.ini").write_text(ini)
        done = run_program(
            ["pipestate", "verify", str(self.directory / "book.md"), "--record", *arguments],
            cwd=self.directory,
            environment={**os.environ, "PIPESTATE_DATABASE_URL": self.database.text, **environment},
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done

    def open(self) -> None:
        self.database.run("DELETE FROM t", "INSERT INTO t VALUES ('x')")

    def close(self) -> None:
        self.database.run("DELETE FROM t")

    def reported(self) -> dict[str, Any] | None:
        """Return the last message, and forget it: there is at most one, and it is as the schema says."""
        kept = self.directory / "told"
        if not kept.exists():
            return None
        data: dict[str, Any] = json.loads(kept.read_text())
        kept.unlink()
        jsonschema.validate(data, json.loads(find_schema("notice").read_text()))
        return data

    def records(self) -> int:
        return int(str(self.database.value("SELECT count(*) FROM pipestate.run WHERE event = 'verify'")))


@pytest.fixture
def make_book(tmp_path: Path) -> Callable[[Database], Book]:
    def make(database: Database) -> Book:
        with database.begin() as connection:
            install(connection)
        database.run("CREATE TABLE t (note TEXT)")
        (tmp_path / "book.md").write_text(page(block("SELECT count(*) AS x FROM t", check="one-row")))
        return Book(database, tmp_path)

    return make


@pytest.fixture
def book(database: Database, make_book: Callable[[Database], Book]) -> Book:
    """On each engine."""
    return make_book(database)


@pytest.fixture
def lite(sqlite_database: Database, make_book: Callable[[Database], Book]) -> Book:
    """On SQLite: for what has nothing to do with an engine."""
    return make_book(sqlite_database)


# --- What is news ----------------------------------------------------------------------------------


def test_a_gate_that_opens_and_closes_is_reported_once(book: Book) -> None:
    assert book.verify().returncode == 1
    assert book.reported() is None, "the first record of a closed gate is no news"

    book.open()
    assert book.verify().returncode == 0
    data = book.reported()
    assert data is not None
    assert (data["ok"], str(data["text"]).splitlines()[1:]) == (True, ["Opened: book/one"])
    change = {"runbook": "book", "phase": "one", "opens": []}
    assert data["changes"] == [change | {"gate": "open", "before": "closed", "failing": []}]

    assert book.verify().returncode == 0
    assert book.reported() is None, "nothing has changed"

    book.close()
    assert book.verify().returncode == 1
    data = book.reported()
    assert data is not None
    assert (data["ok"], str(data["text"]).splitlines()[1:]) == (False, ["Closed: book/one: one-row"])
    failing = [{"id": "one-row", "outcome": "failed", "message": "x is 0, required = 1"}]
    assert data["changes"] == [change | {"gate": "closed", "before": "open", "failing": failing}]
    assert book.records() == 4


def test_the_first_record_of_an_open_gate_is_news_and_one_message_has_all_phases(lite: Book) -> None:
    second = "\n## Phase: two\n\n" + block("SELECT max(1) AS x FROM t", check="any-row")
    first = block("SELECT count(*) AS x FROM t", check="one-row")
    (lite.directory / "book.md").write_text(page(first, second, front="  one: {}\n  two: {}\n"))
    lite.open()
    lite.verify()
    data = lite.reported()
    assert data is not None
    reported = [(change["phase"], change["gate"], change["before"]) for change in data["changes"]]
    assert reported == [("one", "open", None), ("two", "open", None)]


def test_a_run_that_is_not_recorded_tells_nobody(lite: Book) -> None:
    lite.verify()
    lite.open()
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": lite.database.text}
    done = run_program(["pipestate", "verify", "book.md"], cwd=lite.directory, environment=environment)
    assert (done.returncode, lite.reported()) == (0, None)


# --- Hostile values ---------------------------------------------------------------------------------


def test_values_of_the_database_are_data(pg: Database, make_book: Callable[[Database], Book]) -> None:
    book = make_book(pg)
    text = page(block("SELECT max(note) AS x FROM t", check="fine", require="x = 'fine'"))
    (book.directory / "book.md").write_text(text)
    pg.run("INSERT INTO t VALUES ('fine')")
    book.verify()
    book.reported()
    hostile = HOSTILE.replace("'", "''")
    pg.run(f"UPDATE t SET note = '{hostile}'")
    book.verify()
    data = book.reported()
    assert data is not None
    assert str(data["text"]).splitlines()[1:] == ["Closed: book/one: fine"]
    (failing,) = data["changes"][0]["failing"]
    assert "<!channel> @here" in failing["message"]
    assert not {"\n", "\x1b", "\u202e"} & set(failing["message"])
    assert not (book.directory / "owned").exists()


# --- What goes wrong changes nothing ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"sh -c 'echo no >&2; exit 4' {SECRET}", "sh ended with exit code 4: no"),
        (f"timeout=1s sh -c 'sleep 60' {SECRET}", "sh took longer than 1 s, and was ended"),
        (f"./no-such-program {SECRET}", "cannot run ./no-such-program: No such file or directory"),
        (f"sh -c '{SECRET}", "a quotation mark is never closed: quote whole words, as in a shell"),
    ],
    ids=["exit code", "slow", "missing", "quotes"],
)
def test_a_command_that_fails_changes_nothing(lite: Book, command: str, said: str) -> None:
    lite.open()
    done = lite.verify(command=command)
    assert (done.returncode, lite.records()) == (0, 1)
    assert done.stderr == f"warning: pipestate_notify failed: {said}\n"
    assert "Open: book/one." in done.stdout


def test_a_role_that_cannot_read_the_last_records_records_all_the_same(
    pg: Database, make_book: Callable[[Database], Book]
) -> None:
    book = make_book(pg)
    name = f"blind_{pg.url.database}"
    pg.run(
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'",
        f"GRANT USAGE ON SCHEMA pipestate TO {name}",
        f"GRANT SELECT, INSERT ON pipestate.run, pipestate.result TO {name}",
        f"GRANT SELECT ON t TO {name}",
    )
    try:
        url = pg.url.set(username=name, password="x").render_as_string(hide_password=False)
        done = book.verify(PIPESTATE_DATABASE_URL=url)
        assert (done.returncode, book.records()) == (1, 1), done.stderr
        assert (
            "warning: no notification was sent: the last records cannot be read: permission denied"
            in done.stderr
        )
    finally:
        pg.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


# --- The recipe of the documentation ---------------------------------------------------------------


def test_the_recipe_sends_the_text_to_a_webhook(lite: Book) -> None:
    (line,) = [
        line.partition(" = ")[2]
        for each in examples(find_page("notifications.md"))
        for line in each.text.splitlines()
        if line.startswith("pipestate_notify = ")
    ]
    lite.open()
    with serving(lambda _: Reply(200, b"ok")) as server:
        address = f'url = "{server.url}/hooks/{SECRET}"\nheader = "Content-Type: application/json"\n'
        (lite.directory / "notify.curl").write_text(address)
        assert lite.verify(command=line).stderr == ""
        (received,) = server.received
        assert (received.method, received.path) == ("POST", f"/hooks/{SECRET}")
        assert received.headers["Content-Type"] == "application/json"
        assert (list(received.json()), received.json()["text"].splitlines()[1:]) == (
            ["text"],
            ["Opened: book/one"],
        )
        server.replies = lambda _: Reply(500, b"no")
        lite.close()
        done = lite.verify(command=line)
    assert done.stderr.startswith("warning: pipestate_notify failed: sh ended with exit code 22: curl: (22)")
