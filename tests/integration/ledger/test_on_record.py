"""What a migration leaves on record: person and role, title, file, what it dropped; and files that differ since."""

import getpass
import hashlib
import json
import os
from pathlib import Path

import pytest

from pipestate.database import connections as db
from pipestate.ledger.drift import edited_files
from pipestate.ledger.history import Wanted, history
from pipestate.ledger.record import VARIABLES, record_event, who
from pipestate.project.find import Named, find_project
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from support.programs import run_program
from support.servers import Database
from support.shop_project import Shop, open_shop

RUN = (
    "SELECT revision, actor, role, title, file_sha256, version_table, dropped FROM pipestate.run "
    "WHERE event = '{event}' ORDER BY id"
)
APPLIED = RUN.format(event="upgrade")


@pytest.fixture
def shop(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop that was upgraded to d4 by somebody with a name; its tables were empty."""
    monkeypatch.setenv("PIPESTATE_ACTOR", "ada@example.com")
    shop = open_shop(tmp_path, database)
    shop.upgrade("head")
    return shop


def file_of(shop: Shop, revision: str) -> Path:
    (found,) = (shop.root / "migrations" / "versions").glob(f"{revision}*.py")
    return found


def edited(shop: Shop) -> tuple[str, ...]:
    project = find_project(Named(config=shop.root / "alembic.ini"))
    with db.reader(shop.database.url) as connection:
        return edited_files(connection, locator(project, read_migrations(project))(connection))


def test_a_revision_keeps_who_applied_it_and_which_file(shop: Shop) -> None:
    (b2, c3, d4) = shop.database.rows(APPLIED)
    sqlite = shop.database.is_sqlite
    role = None if sqlite else shop.database.value("SELECT current_user::text")
    assert d4 == (
        "d4",
        "ada@example.com",
        role,
        "Receipts, which come after the contract",
        hashlib.sha256(file_of(shop, "d4").read_bytes()).hexdigest(),
        '"alembic_version"' if sqlite else '"public"."alembic_version"',
        None,
    )
    assert (b2[0], c3[3]) == ("b2", "The log and the old status go")


def test_a_downgrade_is_on_record_likewise(shop: Shop) -> None:
    shop.downgrade("c3")
    ((revision, actor, _, title, hashed, _, _),) = shop.database.rows(RUN.format(event="downgrade"))
    assert (revision, actor, title) == ("d4", "ada@example.com", "Receipts, which come after the contract")
    assert hashed == hashlib.sha256(file_of(shop, "d4").read_bytes()).hexdigest()


def test_the_history_shows_title_role_and_what_was_dropped(shop: Shop) -> None:
    dropped = [{"kind": "table", "name": "order_log", "rows": 2}]
    with db.writer(shop.database.url) as connection:
        record_event(
            connection, "upgrade", revision="e5", title="Fewer tables", dropped=dropped, reason="ticket 4711"
        )
    with db.reader(shop.database.url) as connection:
        newest, before, *_ = history(connection, Wanted(kinds=frozenset({"upgrade"}))).entries
    assert newest.what == "Fewer tables: dropped table order_log: ticket 4711"
    assert before.what.startswith("Receipts, which come after the contract (")
    assert (newest.role is None) is shop.database.is_sqlite


def test_files_as_they_were_applied_are_no_news(shop: Shop) -> None:
    assert edited(shop) == ()


def test_an_applied_file_that_was_edited_is_named(shop: Shop) -> None:
    file = file_of(shop, "d4")
    file.write_text(file.read_text().replace("receipts (id", "receipts (number"))
    (said,) = edited(shop)
    assert said.startswith("edited after it was applied here: ")
    assert file.name in said
    shop.downgrade("c3")
    assert edited(shop) == (), "a revision that is not applied may be edited"
    shop.upgrade("d4")
    assert edited(shop) == (), "its newest upgrade counts"


def test_an_id_that_was_reused_is_named(shop: Shop) -> None:
    file = file_of(shop, "d4")
    file.write_text(file.read_text().replace("Receipts, which come after the contract", "Invoices"))
    (said,) = edited(shop)
    assert "the id was reused" in said
    assert 'd4 was "Receipts, which come after the contract" and is "Invoices"' in said


def test_the_same_id_in_another_project_is_not_meant(shop: Shop) -> None:
    with db.writer(shop.database.url) as connection:
        record_event(
            connection,
            "upgrade",
            revision="d4",
            title="Other",
            file_sha256="0",
            version_table='"other_version"',
        )
    assert edited(shop) == ()


@pytest.mark.parametrize("command", ["plan", "verify", "gate ready"])
def test_commands_warn_of_an_edited_file(shop: Shop, command: str) -> None:
    environment = {**os.environ, "DATABASE_URL": shop.database.text}
    clean = run_program(["pipestate", *command.split()], cwd=shop.root, environment=environment)
    file = file_of(shop, "b2")
    file.write_text(file.read_text() + "\n# edited\n")
    done = run_program(["pipestate", *command.split()], cwd=shop.root, environment=environment)
    assert "edited after" not in clean.stderr
    assert "warning: edited after it was applied here: migrations/versions/b2" in done.stderr
    assert done.returncode == clean.returncode


def test_a_role_that_may_not_read_the_ledger_is_not_stopped(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    role = f"{pg.url.database}_reader"
    pg.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"GRANT SELECT ON alembic_version TO {role}")
    try:
        reading = Shop(shop.root, Database(pg.url.set(username=role, password="x"), keeps_session=False))
        assert edited(reading) == ()
    finally:
        pg.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_run_without_a_ledger_says_once_that_it_is_not_recorded(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = open_shop(tmp_path, database)
    shop.upgrade("a1")
    assert [each.message for each in caplog.records if "no ledger" in each.message] == [
        "this database has no ledger, so nothing of this run is recorded: pipestate ledger install"
    ]
    caplog.clear()
    shop.upgrade("d4")
    assert "no ledger" not in caplog.text


def test_a_schema_that_cannot_be_recorded_is_a_warning(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    pg.run("ALTER TABLE pipestate.schema_record ADD CONSTRAINT full_up CHECK (revision <> 'd4')")
    shop.upgrade("d4")
    assert shop.version() == "d4"
    assert "the schema was not recorded" in caplog.text
    assert 'violates check constraint "full_up"' in caplog.text


# --- The person ------------------------------------------------------------------------------------


def test_the_person_is_the_first_that_is_known() -> None:
    known = dict(zip(VARIABLES, ("ada", "octocat", "tanuki"), strict=True))
    assert [who(dict(list(known.items())[left:])) for left in range(4)] == [
        *("ada", "octocat", "tanuki"),
        getpass.getuser(),
    ]
    assert who({"PIPESTATE_ACTOR": "  Ada \n Lovelace "}) == "Ada Lovelace"


# --- The commands ------------------------------------------------------------------------------------


def test_drift_on_the_command_line(shop: Shop) -> None:
    environment = {**os.environ, "DATABASE_URL": shop.database.text}

    def pipestate(*arguments: str) -> tuple[int, str, str]:
        done = run_program(["pipestate", *arguments], cwd=shop.root, environment=environment)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = pipestate("drift")
    assert code == 0
    assert out.startswith("no drift: nothing differs from the record of ")
    assert "drift" not in pipestate("status")[1]
    shop.database.run("CREATE INDEX by_status ON orders (status)")
    code, out, _ = pipestate("drift")
    assert code == 1
    first, second = out.splitlines()
    assert first.startswith("drift: 1 object differs from the record of ")
    assert first.endswith(", revision d4")
    assert second == "  index by_status added"
    code, out, _ = pipestate("drift", "--json")
    assert code == 1
    assert json.loads(out)["differences"] == [{"kind": "index", "name": "by_status", "change": "added"}]
    assert "schema differs from its record: index by_status added" in pipestate("status")[1]
    assert json.loads(pipestate("status", "--json")[1])["drift"]["revision"] == "d4"


def test_drift_without_a_record_says_what_to_do(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, database)
    environment = {**os.environ, "DATABASE_URL": database.text}
    done = run_program(["pipestate", "drift"], cwd=shop.root, environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no record of its schema: install the ledger (pipestate ledger install)" in done.stderr
