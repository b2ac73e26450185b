"""What sites-consolidation promises besides its cases: ids, words, pasting into psql, corners."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from application.runbooks.sites_consolidation_cases import PAGE
from pipestate.migration import purge
from pipestate.runbook.markdown import Fence, blocks
from pipestate.runbook.model import Check, Level, SignOff
from pipestate.verify.report import Outcome
from support.alembic_runs import Migrations, psql
from support.check_cases import Case
from support.healthy_database import build_healthy, reconciliation, recorded, refresh
from support.servers import Database, Postgres, Sqlite
from support.sql_times import run_timed
from support.verdicts import applies, dialect, not_passed, rows_of, verdict, verdicts

RUNBOOK = PAGE.runbook
PASSED, FAILED = Outcome.PASSED, Outcome.FAILED

POSTGRESQL = {"possible-dependents", "rehearsed"}  # SQLite has no functions, and no setting for hashes


@pytest.fixture
def ready(bed: Postgres | Sqlite) -> Iterator[Database]:
    """Healthy, at 0005: everything is there for the contract."""
    with PAGE.copy(bed, "readiness") as database:
        yield database


@pytest.fixture
def contracted(bed: Postgres | Sqlite) -> Iterator[Database]:
    with PAGE.copy(bed, "cleanup") as database:
        yield database


def variants() -> str:
    return Path(str(RUNBOOK.variants)).read_text(encoding="utf-8")


def check_of(database: Database, check: str) -> Outcome:
    return verdict(database, RUNBOOK, check).outcome


# --- The page --------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["postgresql", "sqlite"])
def test_both_engines_are_evaluated_the_same_and_require_the_same(engine: str) -> None:
    only = POSTGRESQL if engine == "sqlite" else set()
    for phase in RUNBOOK.phases:
        assert {check.id for check in phase.checks_for(engine)} == {check.id for check in phase.checks} - only
        criteria = {(check.id, check.require.text) for check in phase.checks if isinstance(check, Check)}
        assert len({id for id, _ in criteria}) == len(criteria)


def test_only_what_nobody_can_be_sure_of_does_not_block() -> None:
    warning = {check.id for phase in RUNBOOK.phases for check in phase.checks if check.level is Level.WARN}
    assert warning == {
        "failure-rate",
        "failure-rate-unchanged",
        "gate-indexes",
        "possible-dependents",
        "rehearsed",
    }


def test_no_way_back_counts_revisions() -> None:
    """At 0006, `downgrade -2` would end at 0004, and take the tables of 0005 away."""
    assert "downgrade -" not in RUNBOOK.text
    assert RUNBOOK.text.count("alembic downgrade 0005") >= 3


def test_no_line_of_sql_is_too_long_to_read() -> None:
    fences = [block for block in blocks(RUNBOOK.text) if isinstance(block, Fence) and block.language == "sql"]
    fences += [block for block in blocks(variants()) if isinstance(block, Fence)]
    assert [line for fence in fences for line in fence.content.split("\n") if len(line) > 100] == []


def test_sign_offs_outlast_the_soak_except_the_backup() -> None:
    """A sign-off that expires closes the gate of `backfill`, and that would end every streak."""
    backfill = RUNBOOK.phase("backfill")
    assert backfill is not None
    assert all(signoff.valid_for.days >= 30 for signoff in backfill.signoffs)


def test_stuck_is_defined_once() -> None:
    """In these words, wherever `updated_at` of a site is compared with two hours ago."""
    words = {
        "postgresql": "updated_at IS NULL OR updated_at < now() - interval '2 hours'",
        "sqlite": "julianday(updated_at) IS NULL OR julianday(updated_at) < julianday('now', '-2 hours')",
    }
    text = " ".join((RUNBOOK.text + variants()).replace("p.updated_at", "updated_at").split())
    assert text.count("interval '2 hours'") == text.count(words["postgresql"]) > 0
    assert text.count("'-2 hours'") == text.count(words["sqlite"]) > 0


# --- Healthy ---------------------------------------------------------------------------------------


def test_every_check_passes_between_the_two_contracts(bed: Postgres | Sqlite) -> None:
    database = bed.copy_of("healthy-0006", partial(build_healthy, revision="0006"))
    refresh(database)
    assert len(found := verdicts(database, RUNBOOK)) >= 3
    assert not_passed(found) == {}
    bed.drop(database)


def test_every_view_shows_something(ready: Database) -> None:
    views = [view for phase in RUNBOOK.phases for view in phase.views_for(dialect(ready))]
    assert [view.id for view in views] == [
        "stages",
        "stuck",
        "failure-rates",
        "failing-sites",
        "last-errors",
        "reconciliation",
    ]
    run_timed(ready, "UPDATE sites SET updated_at = NULL WHERE subdomain = 'site010.example.gov'")
    for view in views:
        assert ready.rows(view.sql), view.id


def test_every_block_pastes_into_psql(postgres: Postgres) -> None:
    for revision, phase in (("0005", "readiness"), ("0007", "cleanup")):
        with PAGE.copy(postgres, phase) as database:
            script = "\n".join(_blocks(revision))
            done = psql(database, script, "-v", "ON_ERROR_STOP=1")
            assert done.returncode == 0, done.stderr
            assert done.stdout.count("row") >= 3


def _blocks(revision: str) -> Iterator[str]:
    """The SQL fences as they stand in the file, of the phases and checks that apply."""
    lines = RUNBOOK.text.split("\n")
    for phase in (phase for phase in RUNBOOK.phases if applies(phase, revision)):
        parts = [part for part in phase.checks_for("postgresql") if applies(part, revision)]
        shown = [part.evidence_for("postgresql") for part in parts if isinstance(part, Check)]
        for part in (*parts, *phase.views_for("postgresql"), *shown):
            if part is None or isinstance(part, SignOff) or (isinstance(part, Check) and part.again):
                continue
            if lines[part.line - 1] != "```sql":  # the soak of the front matter
                continue
            end = lines.index("```", part.line)
            yield "\n".join(lines[part.line : end])


# --- Corners ---------------------------------------------------------------------------------------


def test_nothing_is_divided_by_zero_on_an_empty_database(migrations: Migrations) -> None:
    migrations.upgrade("0005")
    judged = {
        id: verdict(migrations.database, RUNBOOK, id)
        for id in ("readiness/stuck-sites", "readiness/health-score", "backfill/failure-rate")
    }
    assert {id: each.outcome for id, each in judged.items()} == dict.fromkeys(judged, PASSED)
    assert judged["readiness/stuck-sites"].observed["stuck_pct"] == 0
    assert judged["readiness/health-score"].observed["health_score"] == 100


def test_what_was_never_recorded_never_passes(migrations: Migrations) -> None:
    migrations.upgrade("0005")
    seen = {check: each.outcome for check, each in verdicts(migrations.database, RUNBOOK).items()}
    assert {check for check, outcome in seen.items() if outcome is FAILED} == {
        "backfill/deferred-coordinators",
        "backfill/failed-ocr-jobs",
        "backfill/end-to-end",
        "backfill/reconciliation-schedule",
        "readiness/reconciliation-runs",
        "readiness/manual-interventions",
        "readiness/soak",
        *(() if migrations.database.is_sqlite else ("readiness/rehearsed",)),
    }
    assert Outcome.ERRORED not in seen.values()


def test_nothing_in_flight_is_nothing_stuck(ready: Database) -> None:
    ready.run("UPDATE sites SET current_stage = 'completed'")
    found = verdict(ready, RUNBOOK, "readiness/stuck-sites")
    assert found.observed == {"stuck": 0, "total": 0, "stuck_pct": 0}
    assert found.outcome is PASSED


def test_less_than_one_in_a_hundred_may_be_stuck(ready: Database) -> None:
    run_timed(
        ready,
        "UPDATE sites SET current_stage = 'ocr', updated_at = <1 minutes ago>",
        "UPDATE sites SET updated_at = <3 hours ago> WHERE subdomain LIKE 'site00_.example.gov' "
        "AND subdomain < 'site002'",
    )
    assert check_of(ready, "readiness/stuck-sites") is PASSED, "2 of 300 are 0.7 %"
    run_timed(ready, "UPDATE sites SET updated_at = <3 hours ago> WHERE subdomain = 'site002.example.gov'")
    assert check_of(ready, "readiness/stuck-sites") is FAILED, "3 of 300 are 1.0 %"


def test_a_score_just_below_the_limit_is_not_rounded_over_it(ready: Database) -> None:
    ready.run(
        *(
            f"INSERT INTO sites (subdomain, current_stage) VALUES ('more{number}', 'completed')"
            for number in range(19)
        ),
        "UPDATE sites SET current_stage = 'ocr', updated_at = NULL "
        "WHERE subdomain BETWEEN 'site100' AND 'site115.example.gov'",
    )
    judged = verdict(ready, RUNBOOK, "readiness/health-score")
    assert judged.observed["stuck"] == 16
    assert judged.observed["total"] == 319
    assert judged.outcome is FAILED, "303 of 319 are 94.98 %"


def test_evidence_shows_only_what_is_at_fault(ready: Database) -> None:
    run_timed(
        ready,
        reconciliation("6 days ago", found=1, triggered_by="manual"),
        reconciliation("1 minutes ago", found=7),
        "UPDATE site_progress SET started_at = <23 hours ago> WHERE subdomain = 'site001.example.gov'",
        "UPDATE site_progress SET updated_at = <23 hours ago> WHERE subdomain = 'site002.example.gov'",
    )
    found = {
        id: rows_of(verdict(ready, RUNBOOK, f"readiness/{id}"))
        for id in ("manual-interventions", "reconciliation-runs", "recent-site-progress-writes")
    }
    assert len(found["manual-interventions"]) == 1, "that of eight days ago is none of them"
    assert [row[0] for row in found["reconciliation-runs"]] == ["found five or more"]
    assert sorted(str(row[0]) for row in found["recent-site-progress-writes"]) == [
        "begun within 24 hours",
        "updated within 24 hours",
    ]


def test_an_old_row_of_a_live_site_is_no_backfill_to_come(ready: Database) -> None:
    """Live rows are left to the old code until they are stale."""
    run_timed(
        ready,
        "UPDATE sites SET current_stage = NULL WHERE subdomain = 'site006.example.gov'",
        "UPDATE site_progress SET updated_at = <1 hours ago> WHERE subdomain = 'site006.example.gov'",
    )
    assert check_of(ready, "backfill/backfill-complete") is PASSED


def test_where_the_columns_were_adopted_the_counting_begins_with_pipestate(ready: Database) -> None:
    ready.run("DELETE FROM pipestate.object WHERE kind = 'column'")
    assert check_of(ready, "backfill/end-to-end") is PASSED
    run_timed(ready, "UPDATE pipestate.object SET created_at = <1 days ago>")
    assert check_of(ready, "backfill/end-to-end") is FAILED


@pytest.mark.parametrize(
    "time", ["2099-01-01T10:00:00+00:00", "2099-01-01 10:00:00.123456", "2099-01-01T10:00"]
)
def test_every_spelling_of_a_time_is_read_on_sqlite(sqlite: Sqlite, time: str) -> None:
    with PAGE.copy(sqlite, "readiness") as database:
        database.run(f"UPDATE sites SET updated_at = '{time}' WHERE current_stage = 'ocr'")
        assert check_of(database, "readiness/stuck-sites") is PASSED
        database.run("UPDATE sites SET updated_at = 'yesterday' WHERE current_stage = 'ocr'")
        assert check_of(database, "readiness/stuck-sites") is FAILED


def test_old_times_and_what_is_no_time_are_no_recent_writes(ready: Database) -> None:
    run_timed(
        ready,
        "UPDATE sites SET last_updated = <text 37 hours ago>, last_deployed = 'never', last_extracted = ''",
    )
    assert check_of(ready, "readiness/recent-legacy-column-writes") is PASSED


def test_a_legacy_column_of_another_collation_is_read_all_the_same(postgres: Postgres) -> None:
    with PAGE.copy(postgres, "readiness") as database:
        database.run('ALTER TABLE sites ALTER last_updated TYPE varchar COLLATE "POSIX"')
        assert check_of(database, "readiness/recent-legacy-column-writes") is PASSED
        run_timed(
            database, "UPDATE sites SET last_updated = <text 1 hours ago> WHERE subdomain LIKE 'site001%'"
        )
        assert check_of(database, "readiness/recent-legacy-column-writes") is FAILED


@pytest.mark.parametrize(
    ("table", "columns", "kind"),
    [
        ("sites", ("last_updated", "last_deployed", "last_extracted"), "timestamptz"),
        ("sites", ("last_deployed",), "timestamp"),
        ("site_progress", ("updated_at", "started_at"), "text"),
        ("site_progress", ("current_stage",), "stage"),
    ],
)
def test_no_index_is_missed_that_0003_does_not_build(
    pg_0002: Migrations, table: str, columns: tuple[str, ...], kind: str
) -> None:
    pg_0002.database.run(
        "CREATE TYPE stage AS ENUM ('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')",
        *(f"ALTER TABLE {table} ALTER {column} TYPE {kind} USING NULL" for column in columns),
    )
    pg_0002.upgrade("0003")
    assert not_passed(verdicts(pg_0002.database, RUNBOOK, "expand")) == {}


def test_an_application_that_never_had_the_columns_has_not_written_them(ready: Database) -> None:
    ready.run(
        "ALTER TABLE sites DROP COLUMN last_updated",
        "ALTER TABLE sites DROP COLUMN last_deployed",
        "ALTER TABLE sites DROP COLUMN last_extracted",
    )
    assert check_of(ready, "readiness/recent-legacy-column-writes") is PASSED


def test_a_late_write_is_shown_where_another_column_never_was(ready: Database) -> None:
    ready.run("ALTER TABLE sites DROP COLUMN last_deployed")
    run_timed(
        ready,
        "UPDATE sites SET last_updated = <text 1 hours ago> WHERE subdomain = 'site001.example.gov'",
    )
    found = verdict(ready, RUNBOOK, "readiness/recent-legacy-column-writes")
    assert found.outcome is FAILED
    assert [row[:2] for row in rows_of(found)] == [("written within 36 hours", "site001.example.gov")]


IMPOSTORS = (
    "CREATE FUNCTION public.replace(varchar, text, text) RETURNS text LANGUAGE sql AS $$SELECT '1999'$$",
    "CREATE FUNCTION public.never(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
    *(
        f"CREATE OPERATOR public.{operator} (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.never)"
        for operator in ("=", "<>", "~~")
    ),
    # of another role than the one that verifies
    "ALTER FUNCTION public.replace(varchar, text, text) OWNER TO pg_monitor",
    *(
        f"ALTER OPERATOR public.{operator} (varchar, varchar) OWNER TO pg_monitor"
        for operator in ("=", "<>", "~~")
    ),
)


@pytest.mark.parametrize(
    "broken",
    [
        each
        for each in PAGE.cases
        if each.check.partition("/")[2]
        in {"backfill-complete", "stuck-sites", "health-score", "recent-legacy-column-writes"}
    ],
    ids=lambda case: f"{case.check}: {case.what}",
)
def test_a_check_that_would_call_an_impostor_does_not_run(postgres: Postgres, broken: Case) -> None:
    with PAGE.copy(postgres, "readiness") as database:
        broken.apply(database)
        database.run(*IMPOSTORS)
        assert check_of(database, broken.check) is Outcome.ERRORED


def test_a_publication_of_all_tables_names_none(postgres: Postgres) -> None:
    with PAGE.copy(postgres, "readiness") as database:
        database.run("CREATE PUBLICATION everything FOR ALL TABLES")
        assert check_of(database, "readiness/no-dependents") is PASSED


def test_names_that_only_look_alike_are_no_dependents(ready: Database) -> None:
    ready.run(
        "CREATE VIEW app_sites AS SELECT subdomain, current_stage AS http_status FROM sites",
        "CREATE TABLE site_progress_old (id INTEGER PRIMARY KEY)",
        "CREATE VIEW app_old AS SELECT * FROM site_progress_old",
    )
    assert check_of(ready, "readiness/no-dependents") is PASSED


def test_a_function_that_names_other_columns_is_no_dependent(postgres: Postgres) -> None:
    with PAGE.copy(postgres, "readiness") as database:
        database.run(
            "CREATE FUNCTION app_stage(text) RETURNS text LANGUAGE sql AS "
            "'SELECT current_stage AS http_status FROM sites WHERE subdomain = $1'",
            "CREATE FUNCTION app_waiting() RETURNS bigint LANGUAGE sql AS "
            "'SELECT count(*) FROM jobs WHERE status = current_user'",
        )
        assert check_of(database, "readiness/no-dependents") is PASSED
        assert check_of(database, "readiness/possible-dependents") is PASSED


def test_a_gate_of_a_migration_is_no_record_of_the_phase(ready: Database) -> None:
    run_timed(ready, recorded("1 hours ago", "closed", event="gate"))
    assert check_of(ready, "readiness/soak") is PASSED


@pytest.mark.parametrize(("days", "outcome"), [(8, PASSED), (6, FAILED)])
def test_behind_a_gap_the_seven_days_begin_anew(ready: Database, days: int, outcome: Outcome) -> None:
    """A weekend without a record closed the gate for good: the gap stayed in the streak."""
    run_timed(
        ready,
        "DELETE FROM pipestate.run WHERE phase = 'backfill'",
        *(recorded(f"{days * 24 + 60 + 24 * before} hours ago", "open") for before in range(9)),
        *(recorded(f"{day} days ago", "open") for day in range(days, 0, -1)),
    )
    found = verdict(ready, RUNBOOK, "readiness/soak")
    assert found.outcome is outcome, found.message
    assert found.observed["days_open"] == days
    assert found.observed["longest_gap_hours"] == pytest.approx(24, abs=0.1)


def test_where_no_beginning_is_good_enough_the_message_names_the_gap(ready: Database) -> None:
    run_timed(ready, "DELETE FROM pipestate.run WHERE phase = 'backfill' AND recorded_at > <70 hours ago>")
    found = verdict(ready, RUNBOOK, "readiness/soak")
    assert re.match(
        r"longest_gap_hours is 72\.\d+, required <= 48; hours_since_last_record is 72", found.message
    )


def test_after_a_purge_nothing_is_expected(contracted: Database) -> None:
    with contracted.begin() as connection:
        purge.drop(connection, purge.find(connection), revision="0007")
    assert check_of(contracted, "cleanup/archive-complete") is PASSED


def test_what_was_never_there_needs_no_archive(migrations: Migrations) -> None:
    migrations.upgrade("0005")
    columns = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")
    migrations.database.run(
        "DROP TABLE site_progress", *(f"ALTER TABLE sites DROP COLUMN {column}" for column in columns)
    )
    migrations.upgrade("head")
    assert check_of(migrations.database, "cleanup/archive-complete") is PASSED


def test_a_site_that_is_new_since_needs_no_archive(contracted: Database) -> None:
    contracted.run("INSERT INTO sites (subdomain, current_stage) VALUES ('new.example.gov', 'fetch')")
    assert check_of(contracted, "cleanup/archive-complete") is PASSED
