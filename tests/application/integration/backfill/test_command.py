"""`pipestate backfill` in a shell: what it prints, how it ends, and what it survives."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.alembic_runs import ROOT, Migrations
from support.programs import run_at_once, run_program, started
from support.servers import Database, Postgres, Sqlite
from support.stale_rows import LIVE, Stuck, fill_expanded

OUTCOMES = ["migrated", "completed without documents", "already moved on", "orphaned", "failed"]


@pytest.fixture
def stuck(bed: Postgres | Sqlite, tmp_path: Path) -> Iterator[Stuck]:
    database = bed.copy_of("backfill", fill_expanded)
    yield Stuck(database, tmp_path)
    bed.drop(database)


@pytest.fixture
def crowd(postgres: Postgres, tmp_path: Path) -> Iterator[Stuck]:
    """2,000 sites on PostgreSQL, of all kinds."""
    database = postgres.copy_of("backfill", fill_expanded)
    stuck = Stuck(database, tmp_path)
    database.run(
        "INSERT INTO sites (subdomain) SELECT 's' || n FROM generate_series(1, 2000) n",
        "INSERT INTO site_progress (subdomain, current_stage, stage_total, started_at, updated_at) "
        "SELECT 's' || n, 'ocr', n % 4, now() - interval '4 days', now() - interval '3 days' "
        "FROM generate_series(1, 2000) n",
    )
    for number in range(1, 2001, 3):
        stuck.put(f"s{number}", "pdfs/c/1.pdf", "pdfs/c/2.pdf", "txt/c/1.txt")
    yield stuck
    postgres.drop(database)


STATE = (
    "SELECT subdomain, current_stage, ocr_total, ocr_completed, ocr_failed, coordinator_enqueued, started_at, "
    "last_error_stage, last_error_message, updated_at < now() - interval '2 hours', "
    "updated_at > now() - interval '3 hours' FROM sites ORDER BY subdomain"
)


def some_of_each(stuck: Stuck) -> None:
    for name in ("site1.ca.us", "site3.ca.us"):
        stuck.site(name, 15)
        stuck.put(name, *(f"pdfs/c/{n}.pdf" for n in range(15)), *(f"txt/c/{n}.txt" for n in range(12)))
    stuck.site("site2.ca.us", 0)
    stuck.site("moved.ca.us", 1)
    stuck.site("live.ca.us", 1, at=LIVE)
    stuck.site("orphan.ca.us", 1, site=False)
    stuck.database.run("UPDATE sites SET current_stage = 'deploy' WHERE subdomain = 'moved.ca.us'")


def test_a_dry_run_prints_the_plan_that_the_run_applies_and_writes_nothing(stuck: Stuck) -> None:
    some_of_each(stuck)
    before = stuck.everything()
    dry = stuck.command("--dry-run")
    assert stuck.everything() == before
    real = stuck.command()
    assert (dry.returncode, real.returncode) == (0, 0)
    next_step = "Next: run the same without --dry-run"
    assert dry.stdout.splitlines()[1:] == [*real.stdout.splitlines()[1:], next_step]
    assert dry.stdout.splitlines()[0] == "Would migrate 3 sites"
    assert real.stdout.splitlines()[0] == "Migrated 3 sites"
    assert "  site1.ca.us: 12/15 completed, 3 failed" in real.stdout.splitlines()
    assert "orphaned: 1" in real.stdout.splitlines()[1].split(", ")
    assert (dry.stderr, real.stderr) == ("", "")


def test_one_site_is_one_site(stuck: Stuck) -> None:
    stuck.site("a.gov")
    assert stuck.command("--dry-run").stdout.startswith("Would migrate 1 site\n")
    assert stuck.command().stdout.startswith("Migrated 1 site\n")
    assert stuck.command().stdout == "Migrated 0 sites\nalready moved on: 1\n"


def test_a_dry_run_cannot_write_even_where_reading_would(crowd: Stuck) -> None:
    """Its connections refuse: PostgreSQL alone can be made to write by a read."""
    crowd.database.run(
        "ALTER TABLE site_progress RENAME TO progress_data",
        "CREATE FUNCTION touch() RETURNS boolean LANGUAGE plpgsql AS "
        "'BEGIN UPDATE sites SET name = ''touched''; RETURN true; END'",
        "CREATE VIEW site_progress AS SELECT * FROM progress_data WHERE touch()",
    )
    done = crowd.command("--dry-run")
    assert done.returncode == 3
    assert "read-only transaction" in done.stderr
    assert crowd.database.value("SELECT count(*) FROM sites WHERE name = 'touched'") == 0


def test_the_list_is_short_and_json_has_all(stuck: Stuck) -> None:
    for number in range(105):
        stuck.site(f"s{number:03}.gov")
    lines = stuck.command("--dry-run").stdout.splitlines()
    assert lines[0] == "Would migrate 105 sites"
    assert lines[-2:] == ["  and 95 more: --json shows them", "Next: run the same without --dry-run"]
    assert len(lines) == 14
    data = stuck.data("--dry-run")
    assert len(data["sites"]) == 105


def test_the_json_has_the_keys_that_were_promised(stuck: Stuck) -> None:
    some_of_each(stuck)
    data = stuck.data()
    assert list(data) == ["dry_run", "storage_dir", "threshold_hours", "summary", "sites"]
    assert data["summary"] == dict(zip(OUTCOMES, [2, 1, 1, 1, 0], strict=True))
    assert data["sites"][2] == {
        "subdomain": "site1.ca.us",
        "outcome": "migrated",
        "completed": 12,
        "failed": 3,
        "total": 15,
        "reason": None,
    }


def test_a_failed_site_is_named_first_and_the_exit_is_1(stuck: Stuck) -> None:
    stuck.site("a.gov")
    stuck.site("b/c.gov")
    done = stuck.command("--dry-run")
    assert done.returncode == 1
    assert done.stdout.splitlines()[2].startswith("  b/c.gov: failed (")
    assert stuck.command().returncode == 1
    assert stuck.counters("b/c.gov")[0] is None


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--batch-size", "0"], "--batch-size 0: give a number of sites from 1 to 10000"),
        (["--batch-size", "-5"], "--batch-size -5"),
        (["--batch-size", "10001"], "--batch-size 10001"),
        (["--threshold-hours", "-1"], "--threshold-hours -1"),
        (["--threshold-hours", "nan"], "--threshold-hours nan"),
        (["--threshold-hours", "1e12"], "--threshold-hours 1e+12"),
        (["--storage-dir", "/nowhere/sites"], "/nowhere/sites does not exist"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(stuck: Stuck, arguments: list[str], sentence: str) -> None:
    done = stuck.command(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("pipestate: ")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_no_storage_directory_at_all_is_exit_2(stuck: Stuck) -> None:
    environment = {name: value for name, value in stuck.environment.items() if name != "STORAGE_DIR"}
    done = run_program(["pipestate", "backfill", "--dry-run"], cwd=ROOT, environment=environment)
    assert done.returncode == 2
    assert "--storage-dir or STORAGE_DIR" in done.stderr


def test_the_wrong_storage_directory_is_exit_2_and_nothing_is_written(stuck: Stuck) -> None:
    stuck.site("a.gov", 3)
    before = stuck.everything()
    done = stuck.command()
    assert done.returncode == 2
    assert "nothing was written" in done.stderr
    assert stuck.everything() == before


def test_before_the_counters_come_the_way_is_shown(migrations: Migrations, tmp_path: Path) -> None:
    stuck = Stuck(migrations.database, tmp_path)
    for revision in (None, "0002"):
        if revision:
            migrations.upgrade(revision)
        done = stuck.command()
        assert (done.returncode, done.stdout) == (2, "")
        assert "run alembic upgrade 0005 first" in done.stderr


def test_after_the_contract_there_is_nothing_to_backfill(migrations: Migrations, tmp_path: Path) -> None:
    migrations.upgrade("0006")
    done = Stuck(migrations.database, tmp_path).command()
    assert done.returncode == 2
    assert "nothing to backfill any more" in done.stderr


def test_an_unreachable_database_is_exit_3(tmp_path: Path) -> None:
    class Away(Database):
        def __post_init__(self) -> None: ...

        @property
        def text(self) -> str:
            return "postgresql://app:secret@127.0.0.1:1/civic"

    done = Stuck(Away.__new__(Away), tmp_path).command("--dry-run")
    assert done.returncode == 3
    assert "cannot reach" in done.stderr
    assert "secret" not in done.stderr


def test_killed_in_the_middle_a_rerun_ends_as_if_nothing_had_happened(
    crowd: Stuck, postgres: Postgres
) -> None:
    whole = Stuck(postgres.create(str(crowd.database.url.database)), crowd.root)
    assert whole.command().returncode == 0
    command = ["pipestate", "backfill", "--batch-size", "1"]
    written = "SELECT count(*) FROM sites WHERE current_stage IS NOT NULL"
    with started(command, cwd=ROOT, environment=crowd.environment) as program:
        while program.process.is_alive() and int(str(crowd.database.value(written))) < 200:
            time.sleep(0.01)
        program.process.kill()
        program.process.join(10)
    assert 200 <= int(str(crowd.database.value(written))) < 2000
    assert crowd.command().returncode == 0
    assert crowd.database.rows(STATE) == whole.database.rows(STATE)
    postgres.drop(whole.database)


def test_two_at_once_do_no_harm(crowd: Stuck, postgres: Postgres) -> None:
    alone = Stuck(postgres.create(str(crowd.database.url.database)), crowd.root)
    assert alone.command().returncode == 0
    commands = [["pipestate", "backfill", "--batch-size", size] for size in ("30", "70")]
    ends = run_at_once(commands, cwd=ROOT, environment=crowd.environment)
    migrated = [int(end.stdout.split()[1].replace(",", "")) for end in ends]
    assert [end.returncode for end in ends] == [0, 0]
    assert sum(migrated) == 2000
    assert crowd.database.rows(STATE) == alone.database.rows(STATE)
    postgres.drop(alone.database)
