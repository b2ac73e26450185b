"""`pipestate status`, `plan` and `history` as people and programs read them: pictures, JSON with its schema."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from support.alembic_runs import ROOT, Migrations
from support.legacy_database import fill_legacy_at
from support.programs import run_program
from support.servers import Database, Postgres, Sqlite
from support.two_weeks import let_weeks_pass

RENDER = ROOT / "src" / "pipestate" / "cli" / "formats"
PATIENCE_S = 60


def fill(database: Database) -> None:
    fill_legacy_at(database, "0005")
    let_weeks_pass(database)


@pytest.fixture
def weeks(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("weeks", fill)
    yield database
    bed.drop(database)


@pytest.fixture
def lite(sqlite: Sqlite) -> Iterator[Database]:
    database = sqlite.copy_of("weeks", fill)
    yield database
    sqlite.drop(database)


def on(database: Database, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DATABASE_URL": database.text}
    done = run_program(["pipestate", *arguments], cwd=ROOT, environment=environment)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def data_of(database: Database, *arguments: str) -> Any:
    """What a command prints with --json, validated against the schema that ships."""
    done = on(database, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    schema = json.loads((RENDER / f"{arguments[0]}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(data)
    return data


def phase_of(data: Any, address: str) -> Any:
    runbook, _, name = address.partition("/")
    (found,) = [
        phase
        for book in data["runbooks"]
        for phase in book["phases"]
        if (book["name"], phase["name"]) == (runbook, name)
    ]
    return found


# --- For programs ----------------------------------------------------------------------------------


def test_the_json_of_status_has_all_of_it(weeks: Database) -> None:
    data = data_of(weeks, "status")
    assert (data["database"]["revision"], data["no_ledger"]) == ("0005", None)
    ready = phase_of(data, "sites-consolidation/readiness")
    assert (ready["gate"], ready["opens"]) == ("closed", ["0006", "0007"])
    (soak,) = ready["soaks"]
    assert (soak["days"], soak["required"], soak["of"]) == (5.0, 7.0, "sites-consolidation/backfill")
    assert soak["ends_next"]
    assert ready["opening"]["at"] == soak["opens_at"] > data["at"]
    assert "backup-taken" in ready["opening"]["waits_for"]
    backup, release = ready["sign_offs"]
    assert (release["id"], release["missing"]) == ("old-columns-unread", 1)
    assert (backup["missing"], backup["until"], backup["words"][0]["holds"]) == (1, None, False)
    states = [day["state"] for day in phase_of(data, "sites-consolidation/backfill")["days"]]
    assert states == ["none", "closed", *["open"] * 3, *["gap"] * 3, *["open"] * 5, "none"]
    assert data["forced"]["reason"] == "incident 42"
    assert [each["check"] for each in data["forced"]["failures"]] == ["soak"]
    assert data["rehearsal"]["revisions"] == ["0006"]
    assert [each["percent"] for each in data["backfills"]] == [41]
    late = {each["name"]: each["fails"] for each in data["observations"]}
    assert late == {
        "deferred_coordinators": ["sites-consolidation/backfill/deferred-coordinators"],
        "failed_ocr_jobs": [],
        "open_tickets": [],
    }
    assert {"stages", "stuck"} <= {view["id"] for view in data["views"]}


def test_the_json_of_plan_and_history_have_schemas_too(weeks: Database) -> None:
    plan = data_of(weeks, "plan")
    assert (plan["revision"], plan["steps"][-1]["gates"][0]["gate"]) == ("0005", "closed")
    history = data_of(weeks, "history", "--limit", "50")
    assert {"verify", "force", "sign-off", "observation"} <= {entry["kind"] for entry in history}


def test_the_json_is_valid_without_a_ledger_and_before_the_first_revision(legacy: Database) -> None:
    data = data_of(legacy, "status")
    assert data["no_ledger"].startswith("this database has no ledger")
    assert data_of(legacy, "plan")["revision"] is None


@pytest.mark.parametrize("name", ["verify", "status", "plan", "history", "lint", "rehearse"])
def test_a_schema_is_one_and_lets_fields_be_added(name: str) -> None:
    text = (RENDER / f"{name}.schema.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert '"additionalProperties": false' not in text


# --- For people ------------------------------------------------------------------------------------


def test_status_answers_what_people_ask(weeks: Database) -> None:
    said = " ".join(on(weeks, "status").stdout.split())
    for answer in (
        "sites-consolidation/readiness closed",
        "waiting 0006 and 0007",
        "5 of 7 days, earliest",
        "; also needs: backup-taken",
        "sites-consolidation/backfill is closed now",
        "signed code-deployed: dba@example.com, valid for another 47 days",
        "unsigned backup-taken: the sign-off of dba@example.com expired 6 hours ago",
        "pipestate attest sites-consolidation/readiness/backup-taken --by YOU",
        "days ✗■■■···■■■■■",
        "12 days ago, by cron: counters-consistent: 2 rows, first: overshot",
        "by ops: incident 42 failed checks: soak 0006 was downgraded since",
        "state: 41 %, 40 rows of sites updated",
        "0006: the longest wait 12 ms",
        "deferred_coordinators 0 2 hours rq fails backfill/deferred-coordinators",
    ):
        assert answer in said, answer


@pytest.mark.scene
def test_a_force_that_was_taken_back_is_said_to_be(legacy_0005: Database) -> None:
    """`for 0007` alone reads, the next night, as if the contract were done."""
    migrations = Migrations(legacy_0005)
    migrations.upgrade("head", "force=ticket 4711")
    assert data_of(legacy_0005, "status")["forced"]["applied"] is True
    assert "taken back" not in on(legacy_0005, "status").stdout
    migrations.downgrade("0005")
    assert data_of(legacy_0005, "status")["forced"]["applied"] is False
    said = " ".join(on(legacy_0005, "status").stdout.split())
    assert "ticket 4711 failed checks: " in said
    assert "0007 was downgraded since" in said
    page = on(legacy_0005, "report", "--output", "-").stdout
    assert "Revision 0007 was downgraded since, and is not applied now." in page


def test_empty_views_are_left_out(weeks: Database) -> None:
    said = on(weeks, "status").stdout
    assert "failure-rates" in said
    assert "last-errors" not in said


def test_a_page_that_is_not_default_is_shown_with_its_views_when_it_is_named(weeks: Database) -> None:
    """`status` never showed them."""
    assert "queue-cutover" not in on(weeks, "status").stdout
    data = data_of(weeks, "status", "queue-cutover")
    assert [book["name"] for book in data["runbooks"]] == ["queue-cutover"]
    assert {view["id"] for view in data["views"]} == {"queue-results-by-day", "queue-error-patterns"}
    assert "queue-cutover/dual-write" in on(weeks, "status", "runbooks/queue-cutover.md").stdout


def test_an_unknown_page_is_exit_2(lite: Database) -> None:
    done = on(lite, "status", "nowhere")
    assert done.returncode == 2
    assert "there is no runbook nowhere; there are" in done.stderr


def test_an_older_ledger_is_one_line_and_the_rest_is_shown(legacy_0005: Database) -> None:
    legacy_0005.run("DROP VIEW pipestate.soak")
    done = on(legacy_0005, "status", "--verbose")
    assert done.returncode == 0
    assert done.stdout.count("is older than this pipestate") == 1
    assert "sites-consolidation/expand open" in done.stdout


def test_soft_drops_are_shown_with_the_two_commands(contracted: Migrations) -> None:
    database = contracted.database
    said = " ".join(on(database, "status").stdout.split())
    assert "table" in said
    assert "site_progress" in said
    assert "restore: alembic downgrade 0007-1; purge: pipestate purge --older-than 30d" in said
    data = data_of(database, "status")["soft_dropped"]
    assert [each["kind"] for each in data] == ["table", "columns"]
    planned = " ".join(on(database, "plan").stdout.split())
    assert planned.count("Soft-dropped:") == 2
    page = on(database, "report", "--output", "-").stdout
    notices = re.findall(
        r'<p class="notice"><b>(.*?) soft-dropped</b> by (.*?)</p>', page.replace("<wbr>", ""), re.DOTALL
    )
    assert [("site_progress" in what, "last_deployed" in what) for what, _ in notices] == [
        (True, False),
        (False, True),
    ]
    above = "a downgrade below 0006 would undo later revisions, too: 0007"
    assert above in said
    assert [above in how or "alembic downgrade 0007-1" in how for _, how in notices] == [True, True]
    assert all("pipestate purge" in how for _, how in notices)
    assert all(re.search(r"UTC: [\d,]+ (rows|kB|MB)", how) for _, how in notices), notices
    assert on(database, "purge", "--older-than", "0m", "--yes").returncode == 0
    assert data_of(database, "status")["soft_dropped"] == []


def test_hidden_columns_without_an_entry_are_a_warning(pg_contracted: Migrations) -> None:
    pg_contracted.database.run("DELETE FROM pipestate.soft_drop WHERE kind = 'columns'")
    said = " ".join(on(pg_contracted.database, "status").stderr.split())
    assert "sites has hidden columns that the ledger does not know" in said
