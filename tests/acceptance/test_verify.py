"""`pipestate` as CI and DBAs type it: exit codes, JSON, formats, the ledger."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from pipestate.migration.failure import MigrationError
from support.alembic_runs import ROOT, Migrations
from support.documentation import find_schema
from support.healthy_database import build_healthy, refresh
from support.metrics import open_metrics
from support.programs import run_program
from support.readiness_records import make_ready
from support.runbook_samples import block, explained, page
from support.servers import Database, Postgres, Sqlite
from support.shop_project import Shop, open_shop
from support.terminal import Typed, in_terminals, plain

Done = subprocess.CompletedProcess[str]
PASSWORD = "s3cr3t-pa55w0rd"


def pipestate(*arguments: str, **environment: str) -> Done:
    done = run_program(["pipestate", *arguments], cwd=ROOT, environment={**os.environ, **environment})
    assert "Traceback" not in done.stderr, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done


def on(database: Database, *arguments: str, **environment: str) -> Done:
    return pipestate(*arguments, PIPESTATE_DATABASE_URL=database.text, **environment)


def as_json(done: Done) -> dict[str, object]:
    data: dict[str, object] = json.loads(done.stdout)
    jsonschema.validate(data, json.loads(find_schema("verify").read_text()))
    return data


def books_of(done: Done) -> list[dict[str, Any]]:
    books: list[dict[str, Any]] = as_json(done)["runbooks"]  # type: ignore[assignment]
    return books


def build(database: Database) -> None:
    build_healthy(database, "0005")


@pytest.fixture
def healthy(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("healthy", build)
    refresh(database)
    yield database
    bed.drop(database)


def test_a_healthy_database_exits_0_and_the_json_validates(healthy: Database) -> None:
    for name in ("backup-taken", "code-deployed", "dry-run-done"):
        assert on(healthy, "attest", name, "--by", "dba").returncode == 0
    done = on(healthy, "verify", "--json")
    data = as_json(done)
    assert (done.returncode, data["ok"]) == (0, True), done.stdout
    assert data["summary"]["failed"] == 0  # type: ignore[index]


def test_a_database_that_is_not_ready_exits_1(legacy_0005: Database) -> None:
    done = on(legacy_0005, "verify", "--json", "--phase", "readiness")
    data = as_json(done)
    assert (done.returncode, data["ok"]) == (1, False)
    (phase,) = data["runbooks"][0]["phases"]  # type: ignore[index]
    assert phase["gate"] == "closed"
    (stuck,) = [check for check in phase["checks"] if check["id"] == "stuck-sites"]
    assert stuck["message"] == "stuck_pct is 0.0, required < 1.0"
    assert stuck["source"].startswith("runbooks/sites-consolidation.md:")


def test_phases_that_are_named_are_evaluated_each_once_in_the_order_of_the_pages(
    legacy_0005: Database,
) -> None:
    chosen = (
        "readiness",
        "content-item-pipeline-state/schema",
        "backfill",
        "sites-consolidation/backfill",
    )
    options = [word for phase in chosen for word in ("--phase", phase)]
    done = on(legacy_0005, "verify", "--json", "--record", *options)
    called = [f"{book['name']}/{phase['name']}" for book in books_of(done) for phase in book["phases"]]
    assert called == [
        "content-item-pipeline-state/schema",
        "sites-consolidation/backfill",
        "sites-consolidation/readiness",
    ]
    assert done.returncode == 1
    ledger = "pipestate_run" if legacy_0005.is_sqlite else "pipestate.run"
    rows = legacy_0005.rows(f"SELECT runbook, phase FROM {ledger} WHERE event = 'verify' ORDER BY id")
    assert [f"{runbook}/{phase}" for runbook, phase in rows] == called
    assert on(legacy_0005, "verify", *options[2:4]).returncode == 0, "what fails is the other two"


def test_a_phase_of_a_page_that_does_not_run_by_default_can_be_named(legacy_0005: Database) -> None:
    done = on(legacy_0005, "verify", "--json", "--phase", "queue-cutover/shadow", "--phase", "backfill")
    assert [book["name"] for book in books_of(done)] == ["queue-cutover", "sites-consolidation"]


def test_an_unreachable_database_exits_3() -> None:
    done = pipestate("verify", "--json", DATABASE_URL=f"postgresql://app:{PASSWORD}@127.0.0.1:1/civic")
    data = as_json(done)
    assert (done.returncode, data["ok"]) == (3, False)
    assert data["database"]["url"] == "postgresql://app:***@127.0.0.1:1/civic"  # type: ignore[index]
    assert len(done.stderr.splitlines()) == 1


def test_a_migration_that_cannot_be_applied_leaves_nothing_evaluated() -> None:
    url = f"postgresql://app:{PASSWORD}@127.0.0.1:1/civic"
    done = pipestate("verify", "--apply-migration", "--json", DATABASE_URL=url)
    assert (done.returncode, as_json(done)["ok"]) == (3, False)


def test_no_database_url_exits_2_and_says_how_to_give_one() -> None:
    done = pipestate("verify")
    assert done.returncode == 2
    assert "PIPESTATE_DATABASE_URL" in done.stderr


def test_a_database_before_the_migrations_checks_nothing_and_that_is_no_pass(database: Database) -> None:
    done = on(database, "verify")
    assert done.returncode == 2
    assert "Nothing was checked" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify", "no-such-runbook"], "there is no runbook no-such-runbook; there are"),
        (["verify", "missing.md"], "cannot read the runbook missing.md"),
        (["verify", "--phase", "nowhere"], "no phase is called nowhere; the phases are"),
        (
            ["verify", "--phase", "shadow"],
            "no default runbook has a phase shadow: write --phase queue-cutover/shadow",
        ),
        (["verify", "--phase", "expand", "--phase", "nowhere"], "no phase is called nowhere; the phases are"),
        (
            ["verify", "sites-consolidation", "queue-cutover", "--phase", "expand", "--phase", "cleanup"],
            "2 runbooks have a phase cleanup: write `pipestate verify --phase sites-consolidation/cleanup` or `pipe",
        ),
        (["gate", "cleanup"], "2 runbooks have a phase cleanup: write `pipestate gate queue-cutover/cleanup"),
        (["verify", "--config", "none.ini"], "there is no none.ini"),
        (["attest", "backup", "--by", "me"], "no runbook has a sign-off backup"),
        (["observe"], "nothing to observe"),
        (["purge", "--older-than", "soon"], "write 30d, 12h or 45m"),
        (["observe", "--set", "depth"], "write name=value"),
        (["observe", "--set", "depth=many"], "write name=value"),
    ],
)
def test_wrong_input_is_one_sentence(pg_migrations: Migrations, arguments: list[str], said: str) -> None:
    pg_migrations.upgrade("0002")
    done = on(pg_migrations.database, *arguments)
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_ledger_is_needed_for_a_sign_off(pg_migrations: Migrations) -> None:
    pg_migrations.upgrade("0001")
    done = on(pg_migrations.database, "attest", "preflight/backup-taken", "--by", "dba")
    assert done.returncode == 2
    assert "this database has no ledger: run `pipestate ledger install`, or a revision" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (page(block("SELECT 1 AS x", check="a"), block("SELECT 1 AS x", check="a")), ":17:"),
        (page(block("SELECT 1 AS x", colour="blue")), "colour"),
        (page("```sql\n-- check: c\nSELECT 1 AS x;\n```\n"), "require"),
        (page(block("SELECT 1 AS x", require="x ~ 1")), ":11:"),
        (page("prose"), "book.md:"),
        ("# no front matter\n", ":1:"),
        (page(block("DELETE FROM sites")), "book.md:"),
    ],
)
def test_a_wrong_runbook_is_refused_with_its_line(
    pg_migrations: Migrations, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "book.md"
    path.write_text(text)
    done = on(pg_migrations.database, "verify", str(path))
    assert done.returncode == 2
    assert said in done.stderr
    linted = pipestate("runbook", "lint", str(path))
    assert linted.returncode == 2
    assert said in linted.stdout


def test_the_shipped_runbooks_lint_clean() -> None:
    done = pipestate("runbook", "lint")
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 runbooks, 0 findings" in done.stderr


def test_a_runbook_can_be_shown() -> None:
    assert "## Phase: readiness" in pipestate("runbook", "show", "sites-consolidation").stdout


def test_junit_has_one_suite_a_phase(legacy_0005: Database, tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    assert on(legacy_0005, "verify", "--format", "junit", "--output", str(path)).returncode == 1
    suites = {suite.get("name"): suite for suite in ET.parse(path).getroot()}
    ready = suites["sites-consolidation/readiness"]
    assert int(ready.get("failures", "0")) >= 4
    (case,) = [case for case in ready if case.get("name") == "soak"]
    assert case.find("failure") is not None
    assert int(suites["sites-consolidation/cleanup"].get("skipped", "0")) > 0


def test_github_gets_annotations_and_a_summary(legacy_0005: Database, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    done = on(
        legacy_0005, "verify", "--phase", "readiness", "--format", "github", GITHUB_STEP_SUMMARY=str(summary)
    )
    assert "::error file=runbooks/sites-consolidation.md,line=" in done.stdout
    assert "title=soak::" in done.stdout
    assert "## sites-consolidation/readiness: closed" in summary.read_text()


def test_markdown_is_a_table_a_phase(legacy_0005: Database) -> None:
    out = on(legacy_0005, "verify", "--phase", "readiness", "--format", "markdown").stdout
    assert "| ❌ | `soak` |" in out
    assert "| ✅ | `stuck-sites` | `stuck_pct < 1.0` | stuck\\_pct is 0.0, required \\< 1.0 |" in out


def test_an_output_that_cannot_be_written(legacy_0005: Database) -> None:
    done = on(legacy_0005, "verify", "--format", "json", "--output", "/no/such/place.json")
    assert done.returncode == 2
    assert "cannot write /no/such/place.json" in done.stderr


def test_a_recorded_run_is_in_the_ledger(legacy_0005: Database) -> None:
    on(legacy_0005, "verify", "--record")
    rows = legacy_0005.rows("SELECT runbook, phase, gate, revision FROM pipestate.run ORDER BY id")
    assert ("sites-consolidation", "readiness", "closed", "0005") in rows
    assert not [row for row in rows if row[1] in ("preflight", "cleanup")], "a phase that did not run"
    entries = json.loads(on(legacy_0005, "history", "--json").stdout)
    assert {"verify", "upgrade"} == {entry["kind"] for entry in entries}


def test_history_is_newest_first(legacy_0005: Database) -> None:
    assert on(legacy_0005, "attest", "backup-taken", "--by", "dba", "--note", "s3://x").returncode == 0
    assert (
        on(legacy_0005, "observe", "--set", "sqs_queue_depth=12", "--set", "sqs_dlq_depth=0").returncode == 0
    )
    kinds = [
        entry["kind"] for entry in json.loads(on(legacy_0005, "history", "--json", "--limit", "2").stdout)
    ]
    assert kinds == ["observation", "observation"]
    signed = json.loads(on(legacy_0005, "history", "--json", "--event", "sign-off").stdout)
    assert [entry["what"].endswith("backup-taken: s3://x") for entry in signed] == [True]


def test_observe_reads_the_queues(pg_migrations: Migrations, redis_url: str) -> None:
    from redis import Redis
    from rq import Queue

    with Redis.from_url(redis_url) as redis:
        redis.flushdb()
        waiting = Queue("ocr", connection=redis).enqueue("app.ocr_page_job", "x")
        for _ in range(3):
            Queue("compilation", connection=redis).enqueue("app.ocr_complete_coordinator", depends_on=waiting)
        Queue("compilation", connection=redis).enqueue("app.compile_db_job", depends_on=waiting)
    pg_migrations.upgrade("0002")
    done = on(pg_migrations.database, "observe", "--json", REDIS_URL=redis_url)
    assert json.loads(done.stdout) == {"deferred_coordinators": 4.0, "failed_ocr_jobs": 0.0}
    rows = pg_migrations.database.rows("SELECT name, value, source FROM pipestate.observation ORDER BY name")
    assert rows == [("deferred_coordinators", 4.0, "rq"), ("failed_ocr_jobs", 0.0, "rq")]


def test_a_redis_that_does_not_answer_is_one_sentence(pg_migrations: Migrations) -> None:
    pg_migrations.upgrade("0002")
    done = on(pg_migrations.database, "observe", REDIS_URL="redis://127.0.0.1:1/0")
    assert (done.returncode, "Redis does not answer" in done.stderr) == (3, True)
    assert len(done.stderr.strip().splitlines()) == 1


def test_apply_migration_goes_to_the_last_revision_without_a_gate(database: Database) -> None:
    done = on(database, "verify", "content-item-pipeline-state", "--apply-migration", "--json")
    data = as_json(done)
    assert (done.returncode, data["ok"]) == (0, True), done.stderr
    assert Migrations(database).revision() == "0005"


def test_the_gate_command_opens_when_all_is_done(legacy_0005: Database) -> None:
    assert on(legacy_0005, "gate", "readiness").returncode == 1
    make_ready(legacy_0005)
    done = on(legacy_0005, "gate", "sites-consolidation/readiness")
    assert done.returncode == 0, done.stdout
    assert "Open: sites-consolidation/readiness" in done.stdout


def test_purge_drops_the_archive_and_the_way_back_is_refused(legacy: Database) -> None:
    Migrations(legacy).contract()
    assert "nothing was soft-dropped longer than" in on(legacy, "purge", "--older-than", "1d", "--yes").stderr
    called = on(legacy, "purge", "--older-than", "0m")
    assert called.returncode == 1, "without an answer nothing may be dropped"
    assert "site_progress" in called.stdout
    done = on(legacy, "purge", "--older-than", "0m", "--yes")
    assert done.returncode == 0, done.stderr
    assert legacy.value("SELECT count(*) FROM pipestate.run WHERE event = 'purge'") == 2
    with pytest.raises(MigrationError, match="purged"):
        Migrations(legacy).downgrade("-2")
    verified = json.loads(on(legacy, "verify", "--phase", "sites-consolidation/cleanup", "--json").stdout)
    checks = {check["id"]: check for check in verified["runbooks"][0]["phases"][0]["checks"]}
    assert checks["archive-complete"]["outcome"] == "passed"
    Migrations(legacy).downgrade("-2", "force=we need the tables, empty or not")
    assert legacy.value("SELECT count(*) FROM site_progress") == 0


def test_plan_says_what_comes_next(legacy: Database) -> None:
    assert "Next: alembic upgrade 0005" in on(legacy, "plan").stdout
    Migrations(legacy).upgrade("0005")
    assert "0006 waits for sites-consolidation/readiness" in on(legacy, "plan").stdout
    plan = json.loads(on(legacy, "plan", "--json").stdout)
    assert [step["applied"] for step in plan["steps"]] == [True] * 5 + [False] * 2


def test_the_next_step_can_be_typed_where_the_project_is_elsewhere(legacy: Database) -> None:
    ini = str(ROOT / "alembic.ini")
    said = on(legacy, "plan", "--config", ini).stdout
    assert f"Next: alembic -c {ini} upgrade 0005" in said
    Migrations(legacy).upgrade("0005")
    said = on(legacy, "plan", "--config", ini).stdout
    assert f": pipestate gate sites-consolidation/readiness --config {ini}\n" in said
    Migrations(legacy).downgrade("base")
    said = on(legacy, "plan", ALEMBIC_CONFIG=str(ROOT / "alembic.ini")).stdout
    assert "Next: alembic upgrade 0005" in said


def test_before_the_first_revision_the_way_is_shown(legacy: Database) -> None:
    for command in ("verify", "status"):
        assert "Next: pipestate plan" in on(legacy, command).stdout


def test_a_terminal_without_unicode_is_no_traceback(legacy: Database) -> None:
    done = on(legacy, "plan", PYTHONIOENCODING="ascii")
    assert (done.returncode, "Next: " in done.stdout) == (0, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_sentence_and_no_verdict() -> None:
    for command in ("runbook show sites-consolidation", "--version"):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "pipestate", *command.split()],
                cwd=ROOT,
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.stderr == "pipestate: cannot write the output: No space left on device\n"
        assert done.returncode == 3


def test_status_shows_the_views(legacy_0005: Database) -> None:
    legacy_0005.run("UPDATE sites SET current_stage = 'ocr' WHERE subdomain < 'site010'")
    views = json.loads(on(legacy_0005, "status", "--json").stdout)["views"]
    assert {"stages", "stuck", "failure-rates", "last-errors", "reconciliation"} <= {
        view["id"] for view in views
    }
    assert not [view for view in views if view["error"]]
    assert "stages" in on(legacy_0005, "status").stdout


def test_a_terminal_escape_in_a_row_is_not_obeyed(pg: Database, tmp_path: Path) -> None:
    path = tmp_path / "book.md"
    path.write_text(page(block("SELECT 2 AS x"), explained("SELECT chr(27) || '[2J' AS wipe")))
    for form in ("console", "markdown", "junit", "github"):
        assert "\x1b" not in on(pg, "verify", str(path), "--format", form).stdout


def test_openmetrics_have_the_gates_and_what_the_ledger_knows(legacy_0005: Database, tmp_path: Path) -> None:
    path = tmp_path / "pipestate.prom"
    assert on(legacy_0005, "observe", "--set", "sqs_queue_depth=12").returncode == 0
    done = on(legacy_0005, "verify", "--record", "--format", "openmetrics", "--output", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    found = {
        (sample.name, sample.labels.get("phase") or sample.labels.get("name")): sample.value
        for family in open_metrics(path.read_text())
        for sample in family.samples
    }
    assert found["pipestate_up", None] == 1
    assert found["pipestate_gate_open", "readiness"] == 0
    assert found["pipestate_observation_value", "sqs_queue_depth"] == 12
    assert 0 <= found["pipestate_record_age_seconds", "readiness"] < 60, "this very run was recorded"
    assert [each.name for each in tmp_path.iterdir()] == ["pipestate.prom"]


def test_openmetrics_say_so_where_nothing_could_be_evaluated(tmp_path: Path) -> None:
    """A gate that was open yesterday must not stay in the file for ever."""
    path = tmp_path / "pipestate.prom"
    path.write_text('pipestate_gate_open{phase="readiness"} 1\n')
    url = f"postgresql://app:{PASSWORD}@127.0.0.1:1/civic"
    done = pipestate("verify", "--format", "openmetrics", "--output", str(path), DATABASE_URL=url)
    assert done.returncode == 3
    families = {family.name: family for family in open_metrics(path.read_text())}
    assert families["pipestate_up"].samples[0].value == 0
    assert "pipestate_gate_open" not in families


def test_openmetrics_without_a_ledger_or_the_right_to_read_it(
    pg_migrations: Migrations, tmp_path: Path
) -> None:
    book = tmp_path / "book.md"
    book.write_text(page(block("SELECT 1 AS x")))
    done = on(pg_migrations.database, "verify", str(book), "--format", "openmetrics")
    assert done.returncode == 0
    assert done.stdout.endswith("\n# EOF\n")
    assert "pipestate_record" not in done.stdout
    pg_migrations.upgrade("0002")
    pg_migrations.database.run("DROP VIEW pipestate.soak")
    done = on(pg_migrations.database, "verify", str(book), "--format", "openmetrics")
    assert (done.returncode, "pipestate_record" in done.stdout) == (0, False)
    assert (
        "warning: the figures of the ledger are left out: the ledger of this database is older" in done.stderr
    )


@pytest.mark.scene
def test_a_long_verify_says_which_check_runs_on_a_terminal_and_leaves_nothing_there(
    pg: Database, tmp_path: Path
) -> None:
    path = tmp_path / "slow.md"
    endless = "SELECT count(*) AS x FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"
    blocks = block("SELECT 1 AS x", check="quick"), block(endless, check="endless")
    path.write_text(page(*blocks, name="slow"))
    called = ["verify", str(path), "--timeout", "1.8"]
    (written,) = in_terminals([Typed(called, 60)], cwd=ROOT, DATABASE_URL=pg.text)
    during, _, after = written.rpartition("\x1b[2K")  # a line is taken away
    assert "1 s, check 2 of 2: slow/one/endless" in plain(during)
    assert "check 2 of 2" not in after
    assert "errored  endless: took longer than" in plain(after)
    assert "check 2 of 2" not in on(pg, *called).stderr


OFFENDING_ROWS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 37)
SELECT 'late' AS fault, 1000 + i AS id FROM n"""


def test_evidence_all_lists_every_offending_row(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "late.md"
    path.write_text(page(block(OFFENDING_ROWS, check="late", require="rows = 0"), name="late"))
    for command, rows in (
        (["verify"], 5),
        (["verify", "--evidence", "all"], 37),
        (["verify", "--evidence", "7"], 7),
    ):
        done = on(database, *command, str(path))
        assert done.returncode == 1
        assert len(re.findall(r"late +10\d\d", done.stdout)) == rows
        assert ("--evidence all lists them" in done.stdout) is (rows < 37)
    (check,) = books_of(on(database, "verify", str(path), "--json"))[0]["phases"][0]["checks"]
    assert (len(check["evidence"]), check["evidence_rows"]) == (10, 37), "as before"
    (check,) = books_of(on(database, "verify", str(path), "--json", "--evidence", "all"))[0]["phases"][0][
        "checks"
    ]
    assert len(check["evidence"]) == 37


@pytest.mark.parametrize("wrong", ["0", "-1", "some", "", "1e3", "٣"])
def test_a_wrong_number_of_rows_is_refused_in_a_sentence(wrong: str) -> None:
    done = pipestate("verify", f"--evidence={wrong}", DATABASE_URL="sqlite://")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pipestate: --evidence {wrong}: give a number of rows from 1 on, or all\n"


def test_an_empty_ledger_says_that_nothing_is_recorded_yet(legacy_0005: Database) -> None:
    done = on(legacy_0005, "gate", "readiness")
    assert "failed   soak: nothing recorded yet, required days_open >= 7" in done.stdout
    assert "no row" not in done.stdout


def test_a_division_has_no_zeros_at_its_end(pg: Database, tmp_path: Path) -> None:
    path = tmp_path / "share.md"
    path.write_text(
        page(block("SELECT 3 / 10.0 AS share", check="share", require="share > 0.9"), name="share")
    )
    assert "share: share is 0.3, required > 0.9" in on(pg, "verify", str(path)).stdout


ONLY_A_WARNING = (
    ("-- check: approved\n", "-- check: approved\n-- from: d4\n"),
    ("-- check: no-order-without-status\n", "-- check: no-order-without-status\n-- level: warn\n"),
)


def test_a_gate_without_an_applicable_blocking_check_is_closed_everywhere(
    database: Database, tmp_path: Path
) -> None:
    """Its only check that applies is a warning, and passes."""
    shop = open_shop(tmp_path, database)
    for path, changes in (
        ("runbooks/shop.md", ONLY_A_WARNING),
        ("migrations/versions/c3_no_log.py", ((', recheck=["approved"]', ", recheck=[]"),)),
    ):
        text = (shop.root / path).read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (shop.root / path).write_text(text)
    shop.upgrade("b2")
    database.run("INSERT INTO orders VALUES (1, 'a', 'new')", "INSERT INTO order_log VALUES (1, 'x')")
    shop.approve()
    (shop.root / "fleet.txt").write_text(f"{database.text}\n")
    why = "shop/ready (no blocking check applies here)"
    page = "report --output page.html"
    commands = {
        "gate ready": 1,
        "gate ready --wait 1s": 1,
        "verify": 1,
        "verify --record": 1,
        "plan": 0,
        "status": 0,
        page: 0,
        "upgrade": 1,
        "fleet gate shop/ready --databases fleet.txt": 1,
        "fleet verify --databases fleet.txt": 1,
    }
    said = {}
    for command, code in commands.items():
        done = run_program(["pipestate", *command.split()], cwd=shop.root, environment=os.environ)
        said[command] = done.stdout + done.stderr
        assert done.returncode == code, (command, said[command])
    for command in ("gate ready", "gate ready --wait 1s", "verify", "verify --record", "status"):
        assert f"Closed: {why}." in said[command], command
    assert "c3 waits for shop/ready" in said["plan"]
    assert "no blocking check applies here" in said["upgrade"]
    assert "no blocking check applies here" in (shop.root / "page.html").read_text()
    recorded = database.rows("SELECT gate FROM pipestate.run WHERE event = 'verify'")
    assert recorded == [("closed",)]
    with pytest.raises(Exception, match="no blocking check applies here"):
        shop.upgrade("head")
    script = run_program(["alembic", "upgrade", "b2:c3", "--sql"], cwd=shop.root, environment=os.environ)
    assert script.returncode != 0
    assert shop.version() == "b2"


def test_a_phase_of_warnings_alone_is_verified_with_exit_code_0(pg: Database, tmp_path: Path) -> None:
    """It opens no revision; its gate stays closed."""
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    text = page(block("SELECT 1 AS x", level="warn"), name="watch")
    (shop.root / "runbooks" / "watch.md").write_text(text)
    codes = []
    for command in ("verify watch", "gate watch/one"):
        done = run_program(["pipestate", *command.split()], cwd=shop.root, environment=os.environ)
        codes.append(done.returncode)
        assert done.stdout.startswith("Closed: watch/one (no blocking check applies here).")
    assert codes == [0, 1]


TRIGGER = (
    "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.old_status := 'x'; RETURN new; END $$",
    "CREATE TRIGGER keeper BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION keep()",
)
SQLITE_TRIGGER = (
    "CREATE TRIGGER keeper AFTER INSERT ON order_log BEGIN UPDATE orders SET old_status = 'x'; END",
)


def refused_early(shop: Shop, *, said: str) -> None:
    """`gate` and `plan` say what `alembic upgrade head` then says, and `gate` exits with 1."""
    (shop.root / "fleet.txt").write_text(f"{shop.database.text}\n")
    for command, code in (
        ("gate ready", 1),
        ("gate ready --json", 1),
        ("gate ready --wait 1s", 1),
        ("verify", 0),
        ("plan", 0),
        ("fleet gate shop/ready --databases fleet.txt", 1),
        ("status", 0),
        ("status --json", 0),
        ("fleet plan --databases fleet.txt", 0),
    ):
        done = run_program(["pipestate", *command.split()], cwd=shop.root, environment=os.environ)
        shown = done.stdout + done.stderr
        assert done.returncode == code, (command, shown)
        assert "An upgrade would refuse revision c3:" in shown, command
        assert said in " ".join(shown.split()) + shown, command
        assert "alembic upgrade head" not in done.stdout
        assert "may run" not in done.stdout, command
    with pytest.raises(Exception, match=re.escape(said)):
        shop.upgrade("head")
    assert shop.version() == "b2"


def test_a_missing_ledger_is_said_before_the_upgrade(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg)
    (shop.root / "migrations" / "versions" / "b2_ledger.py").write_text(
        'revision, down_revision = "b2", "a1"\n\n\ndef upgrade():\n    pass\n\n\ndef downgrade():\n    pass\n'
    )
    shop.upgrade("b2")
    shop.fill()
    pg.run("UPDATE orders SET status = 'new' WHERE status IS NULL")
    shop.approve()
    refused_early(shop, said="this database has no ledger")


def test_a_ledger_that_a_pending_revision_installs_is_not_missed(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg)
    runbook = shop.root / "runbooks" / "shop.md"
    runbook.write_text(runbook.read_text().replace('from: "b2"', 'from: "a1"'))
    shop.upgrade("a1")
    shop.approve()
    done = run_program(["pipestate", "gate", "ready"], cwd=shop.root, environment=os.environ)
    assert (done.returncode, "refuse" in done.stdout) == (0, False), done.stdout


def test_a_trigger_that_names_a_hidden_column_is_said_before_the_upgrade(
    database: Database, tmp_path: Path
) -> None:
    shop = open_shop(tmp_path, database)
    shop.upgrade("b2")
    shop.fill()
    shop.approve()
    database.run(*(SQLITE_TRIGGER if database.is_sqlite else TRIGGER))
    said = "old_status cannot be dropped while others depend on it: trigger keeper"
    refused_early(
        shop,
        said=said if database.is_sqlite else "the trigger keeper of public.orders runs ",
    )
    database.run("DROP TRIGGER keeper" + (" " if database.is_sqlite else " ON orders"))
    done = run_program(["pipestate", "gate", "ready"], cwd=shop.root, environment=os.environ)
    assert done.returncode == 0, done.stdout
    shop.upgrade("head")
    assert shop.version() == "d4"


def test_a_variable_that_names_another_database_than_the_ini_is_said(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg)
    shop.upgrade("b2")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / "staging.db") as driver:
        driver.execute("CREATE TABLE other (id integer)")
    other = f"sqlite:///{tmp_path}/other/staging.db"
    environment = {**os.environ, "DATABASE_URL": other}
    said = f"warning: a variable names {other}, and sqlalchemy.url names postgresql://"
    for command in ("plan", "gate ready", "verify", "status", "drift"):
        done = run_program(["pipestate", *command.split()], cwd=shop.root, environment=environment)
        assert said in done.stderr, (command, done.stderr)
        assert "plain `alembic` migrates the latter" in done.stderr
        assert "staging.db" in done.stdout + done.stderr
        assert "alembic upgrade" not in done.stdout
    for environment in (
        {**os.environ, "DATABASE_URL": pg.text},
        {**os.environ, "DATABASE_URL": pg.text.replace("postgresql://", "postgres://")},
    ):
        done = run_program(["pipestate", "plan"], cwd=shop.root, environment=environment)
        assert "variable" not in done.stderr, done.stderr
    env_py = shop.root / "migrations" / "env.py"
    env_py.write_text("import os\nos.environ.get('DATABASE_URL')\n" + env_py.read_text())
    done = run_program(
        ["pipestate", "plan"], cwd=shop.root, environment={**os.environ, "DATABASE_URL": other}
    )
    assert "variable" not in done.stderr
