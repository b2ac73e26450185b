"""`verify --record --notify URL`: who is told what, and what happens when nobody answers."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pipestate.ledger.install import install
from support.alembic_runs import ROOT
from support.documentation import find_schema
from support.programs import run_program
from support.runbook_samples import block, page
from support.servers import Database
from support.sql_times import run_timed
from support.web_servers import Reply, WebServer, serving

Done = subprocess.CompletedProcess[str]
SECRET = "s3cr3t"
HOSTILE = "<!channel> @here <http://evil|x> ![i](http://evil/i.png) `c` &\n::error::owned \x1b[2J \u202e"


@dataclass(frozen=True)
class Book:
    """A page of one phase, whose gate is open when the table has one row, and a webhook."""

    database: Database
    path: Path
    server: WebServer

    def verify(self, *arguments: str, notify: str | None = None, **environment: str) -> Done:
        url = f"{self.server.url}/hooks/{SECRET}" if notify is None else notify
        options = ["--notify", url] if url else []
        done = run_program(
            ["pipestate", "verify", str(self.path), "--record", *options, *arguments],
            cwd=ROOT,
            environment={**os.environ, "PIPESTATE_DATABASE_URL": self.database.text, **environment},
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert SECRET not in done.stdout + done.stderr, "what a webhook's address holds is a secret"
        return done

    def open(self) -> None:
        self.database.run("DELETE FROM t", "INSERT INTO t VALUES ('x')")

    def close(self) -> None:
        self.database.run("DELETE FROM t")

    def told(self) -> dict[str, Any]:
        """Return the last message, and forget it: there must be one, and it must be as the schema says."""
        (asked,) = self.server.asked
        self.server.asked.clear()
        assert (asked.method, asked.path) == ("POST", f"/hooks/{SECRET}")
        data: dict[str, Any] = asked.json()
        jsonschema.validate(data, json.loads(find_schema("notice").read_text()))
        assert SECRET not in asked.body.decode()
        return data

    def records(self) -> int:
        return int(str(self.database.value("SELECT count(*) FROM pipestate.run WHERE event = 'verify'")))


@pytest.fixture
def server() -> Iterator[WebServer]:
    with serving() as running:
        yield running


def write(directory: Path, sql: str = "SELECT count(*) AS x FROM t") -> Path:
    path = directory / "book.md"
    path.write_text(page(block(sql, check="one-row")))
    return path


@pytest.fixture
def make_book(server: WebServer, tmp_path: Path) -> Callable[[Database], Book]:
    def make(database: Database) -> Book:
        with database.begin() as connection:
            install(connection)
        database.run("CREATE TABLE t (note TEXT)")
        return Book(database, write(tmp_path), server)

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


def test_a_gate_that_opens_and_closes_is_told_once(book: Book) -> None:
    assert book.verify().returncode == 1
    assert book.server.asked == [], "the first record of a closed gate is no news"

    book.open()
    assert book.verify().returncode == 0
    data = book.told()
    assert data["ok"] is True
    (change,) = data["changes"]
    assert (change["runbook"], change["phase"], change["gate"], change["before"]) == (
        "book",
        "one",
        "open",
        "closed",
    )
    assert (change["turned"], change["failing"], change["hours_without_record"]) == (True, [], None)
    assert str(data["text"]).endswith("\nOpened: book/one")

    assert book.verify().returncode == 0
    assert book.server.asked == [], "nothing has changed"

    book.close()
    assert book.verify().returncode == 1
    data = book.told()
    (change,) = data["changes"]
    assert (change["gate"], change["before"], change["turned"]) == ("closed", "open", True)
    assert change["failing"] == [{"id": "one-row", "outcome": "failed", "message": "x is 0, required = 1"}]
    assert str(data["text"]).endswith("\nClosed: book/one: one-row: x is 0, required = 1")
    assert book.records() == 4


def test_the_first_record_of_an_open_gate_is_news(lite: Book) -> None:
    lite.open()
    lite.verify()
    (change,) = lite.told()["changes"]
    assert (change["gate"], change["before"], change["last_record_at"]) == ("open", None, None)


def test_a_day_without_a_record_is_told_with_the_next_one(book: Book) -> None:
    book.open()
    book.verify(notify="")
    run_timed(book.database, "UPDATE pipestate.run SET recorded_at = <29 hours ago>")
    book.verify()
    assert book.server.asked == [], "a job may start late"
    run_timed(book.database, "UPDATE pipestate.run SET recorded_at = <49 hours ago>")
    assert book.verify().returncode == 0
    data = book.told()
    (change,) = data["changes"]
    assert (change["turned"], change["hours_without_record"]) == (False, 49.0)
    assert str(data["text"]).endswith(
        "Missing: no record of book/one for 49 hours before this one; it is open"
    )


def test_one_message_tells_of_all_phases(lite: Book) -> None:
    second = "\n## Phase: two\n\n" + block("SELECT max(1) AS x FROM t", check="any-row")
    text = page(block("SELECT count(*) AS x FROM t", check="one-row"), second, front="  one: {}\n  two: {}\n")
    lite.path.write_text(text)
    lite.open()
    lite.verify()
    assert [change["phase"] for change in lite.told()["changes"]] == ["one", "two"]


def test_a_run_that_cannot_be_recorded_is_told(lite: Book) -> None:
    lite.database.run("DROP VIEW pipestate.soak")
    assert lite.verify().returncode == 2
    data = lite.told()
    assert (data["ok"], data["changes"]) == (False, [])
    assert "older than this pipestate" in str(data["error"])
    assert "\nNo record was written: the ledger of this database is older" in str(data["text"])


def test_a_database_that_does_not_answer_is_told_without_its_password(lite: Book) -> None:
    url = f"postgresql://app:{SECRET}@127.0.0.1:1/civic"
    assert lite.verify(PIPESTATE_DATABASE_URL=url).returncode == 3
    data = lite.told()
    assert data["database"] == {"url": "postgresql://app:***@127.0.0.1:1/civic", "revision": None}
    assert "cannot reach postgresql://app:***@127.0.0.1:1/civic" in str(data["error"])


# --- What is sent ----------------------------------------------------------------------------------


def test_slack_s_form_is_chosen_by_the_address(lite: Book) -> None:
    lite.open()
    url = f"{lite.server.url}/hooks/{SECRET}"
    lite.verify("--notify", f"slack+{url}", notify=f"json+{url}")
    plain, slack = (asked.json() for asked in lite.server.asked)
    assert plain["schema_version"] == 1
    assert set(slack) == {"text", "mrkdwn", "unfurl_links", "unfurl_media"}
    assert slack["text"].endswith("\nOpened: book/one")


def test_text_from_data_is_shown_and_not_obeyed(pg: Database, make_book: Callable[[Database], Book]) -> None:
    book = make_book(pg)
    write(book.path.parent, "SELECT max(note) AS x FROM t").write_text(
        book.path.read_text().replace("x = 1", "x = 'fine'")
    )
    pg.run("INSERT INTO t VALUES ('fine')")
    book.verify()
    book.server.asked.clear()
    hostile = HOSTILE.replace("'", "''")
    pg.run(f"UPDATE t SET note = '{hostile}'")
    url = f"{book.server.url}/hooks/{SECRET}"
    book.verify("--notify", f"slack+{url}")
    plain, slack = (asked.json() for asked in book.server.asked)
    assert HOSTILE.splitlines()[0] in plain["changes"][0]["failing"][0]["message"], "data is data"
    for text in (plain["text"], slack["text"]):
        assert len(text.splitlines()) == 2
        assert not {"\x1b", "\u202e"} & set(text)
    for obeyed in ("<!channel>", "@here", "<http", "](", "`"):
        assert obeyed not in slack["text"], obeyed
    assert "&lt;!channel&gt; @\u200bhere" in slack["text"]


def test_the_address_can_come_from_the_environment(lite: Book) -> None:
    lite.open()
    address = f"{lite.server.url}/hooks/{SECRET}"
    lite.verify(notify="", PIPESTATE_NOTIFY_URL=f" {address}  {address} ")
    assert len(lite.server.asked) == 2
    lite.close()
    lite.server.asked.clear()
    with serving() as other:
        lite.verify(notify=f"{other.url}/x", PIPESTATE_NOTIFY_URL=address)
        assert (len(other.asked), lite.server.asked) == (1, []), "the option outranks it"


# --- What goes wrong changes nothing ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        (lambda _: Reply(500, SECRET.encode()), "answered 500"),
        (lambda _: Reply(307, headers={"Location": f"http://127.0.0.1:1/{SECRET}"}), "answered 307"),
        (None, "did not answer within 5 s"),
    ],
    ids=["500", "a redirect", "slow"],
)
@pytest.mark.scene
def test_a_webhook_that_does_not_take_it_changes_nothing(
    lite: Book, replies: Callable[..., Reply] | None, said: str
) -> None:
    lite.open()
    lite.server.replies = replies or lite.server.never
    done = lite.verify()
    assert (done.returncode, lite.records()) == (0, 1)
    assert done.stderr == f"warning: the message was not sent: {lite.server.url}/… {said}\n"
    assert "Open: book/one." in done.stdout


def test_a_server_that_is_down_changes_nothing_and_the_next_one_is_told(lite: Book) -> None:
    lite.open()
    lite.verify(notify="")
    lite.close()
    down = f"http://bot:{SECRET}@127.0.0.1:1/{SECRET}?k={SECRET}"
    done = lite.verify("--notify", f"{lite.server.url}/hooks/{SECRET}", "--json", notify=down)
    assert (done.returncode, lite.records()) == (1, 2)
    said = "warning: the message was not sent: cannot reach http://127.0.0.1:1/…: Connection refused\n"
    assert done.stderr == said
    assert json.loads(done.stdout)["ok"] is False
    assert lite.told()["ok"] is False


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
            "warning: no webhook was notified: the last records cannot be read: permission denied"
            in done.stderr
        )
    finally:
        pg.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


# --- Wrong usage -----------------------------------------------------------------------------------


def usage(*arguments: str, **environment: str) -> Done:
    wanted = {**os.environ, "PIPESTATE_DATABASE_URL": "sqlite:///no-such-file", **environment}
    done = run_program(["pipestate", "verify", *arguments], cwd=ROOT, environment=wanted)
    assert SECRET not in done.stdout + done.stderr
    return done


def test_notify_without_record_is_wrong_usage() -> None:
    done = usage("--notify", f"http://127.0.0.1:1/{SECRET}")
    assert done.returncode == 2
    assert done.stderr == "pipestate: --notify compares the run with the last record: add --record\n"


@pytest.mark.parametrize(
    "url", [f"ftp://host/{SECRET}", SECRET, f"slack+file:///{SECRET}", f"xml+https://h/{SECRET}"]
)
def test_what_is_no_address_is_wrong_usage(url: str) -> None:
    done = usage("--record", "--notify", url)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "pipestate: --notify is not the address of a web server: write https://host/path"
    )
    done = usage("--record", PIPESTATE_NOTIFY_URL=url)
    assert (done.returncode, "PIPESTATE_NOTIFY_URL is not the address" in done.stderr) == (2, True)


def test_the_variable_alone_tells_nobody_of_runs_that_are_not_recorded(lite: Book) -> None:
    lite.open()
    environment = {
        **os.environ,
        "PIPESTATE_NOTIFY_URL": f"{lite.server.url}/x",
        "DATABASE_URL": lite.database.text,
    }
    done = run_program(["pipestate", "verify", str(lite.path)], cwd=ROOT, environment=environment)
    assert (done.returncode, lite.server.asked) == (0, [])
