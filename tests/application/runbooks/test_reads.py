"""What the shipped checks read: what they find, and not what there is."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from application.runbooks.test_cases import PAGES
from pipestate.runbook.model import Check
from support.alembic_runs import Migrations
from support.servers import Database, Postgres
from support.verdicts import applies

ROWS = 40_000
# A check may count so many rows before it knows enough: of sites, those touched last and as many that never were.
MOST = 21_000
JOINED = (
    "backfill-complete",
)  # a row of each stage may be the only one that knows it: it reads both tables once
STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
DONE = ", ".join(f"{stage}_total, {stage}_completed" for stage in STAGES)

FILLED = (
    f"""INSERT INTO sites (subdomain, current_stage, started_at, updated_at, {DONE},
          last_updated, last_deployed, last_extracted)
        SELECT 'site-' || n, CASE WHEN n % 1000 = 0 THEN 'ocr' ELSE 'completed' END, t, t,
               {", ".join("1" for _ in range(2 * len(STAGES)))}, s, s, s
        FROM generate_series(1, {ROWS}) n, LATERAL (SELECT now() - n * interval '1 minute' AS t) w,
             to_char(now() - interval '9 days', 'YYYY-MM-DD"T"HH24:MI:SS') s""",
    f"INSERT INTO sites (subdomain) SELECT 'untouched-' || n FROM generate_series(1, {ROWS}) n",
    f"""INSERT INTO site_progress (subdomain, current_stage, started_at, updated_at)
        SELECT 'site-' || n, CASE WHEN n % 1000 = 0 THEN 'ocr' ELSE 'completed' END, t, t
        FROM generate_series(1, {ROWS}) n, LATERAL (SELECT now() - interval '2 days' - n * interval '1 minute' AS t) w""",
    f"INSERT INTO content_items (id) SELECT generate_series(1, {ROWS})",
    f"""INSERT INTO content_item_pipeline_state (content_item_id, pipeline, status)
        SELECT n, 'technical', 'processed' FROM generate_series(1, {ROWS}) n""",
    f"""INSERT INTO jobs (status, package_size, created_at)
        SELECT 'completed', 1, now() - n * interval '2 hours' FROM generate_series(1, {ROWS}) n""",
    """INSERT INTO job_results (job_id, directory_name, status, idempotency_key, created_at)
       SELECT id, 'd', 'submitted', id, created_at FROM jobs""",
    "VACUUM ANALYZE",
)


def fill(database: Database) -> None:
    Migrations(database).upgrade("0005")
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in FILLED:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


@pytest.fixture(scope="module")
def large(postgres: Postgres) -> Iterator[Database]:
    database = postgres.copy_of("large", fill)
    yield database
    postgres.drop(database)


CHECKS = {
    f"{page.name}/{phase.name}/{check.id}": check
    for page in PAGES
    for phase in page.runbook.phases
    if applies(phase, "0005")
    for check in phase.checks_for("postgresql")
    if isinstance(check, Check) and applies(check, "0005")
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_does_not_read_a_whole_table(large: Database, name: str) -> None:
    check = CHECKS[name]
    with large.reader() as connection:
        assert rows_read(connection, check.sql) <= (2 * ROWS if check.id in JOINED else MOST)
        evidence = check.evidence_for("postgresql")
        if evidence is not None:
            assert rows_read(connection, evidence.sql) <= MOST, "its evidence does"


def test_where_the_schema_proves_nothing_the_rows_are_read(large: Database) -> None:
    """The same checks, without the index, the rule and the key that would answer them."""
    wanted = {"duplicate-keys", "invalid-status", "orphan-rows"}
    checks = {check.id: check for check in CHECKS.values()}
    with large.engine.connect() as connection:
        connection.exec_driver_sql("DROP INDEX uix_cips_content_item_pipeline")
        for name in ("ck_cips_status", "fk_cips_content_item"):
            connection.exec_driver_sql(f"ALTER TABLE content_item_pipeline_state DROP CONSTRAINT {name}")
        read = {id for id in wanted if rows_read(connection, checks[id].sql) >= ROWS}
        connection.rollback()
    assert read == wanted


def rows_read(connection: Connection, sql: str) -> float:
    """The rows that the statement takes out of tables and indexes, those included that a filter throws away."""
    explained = connection.exec_driver_sql(
        f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", execution_options={"no_parameters": True}
    ).scalar_one()
    return sum(_rows(node) for node in _nodes(explained[0]["Plan"]))


def _nodes(node: dict[str, object]) -> Iterator[dict[str, object]]:
    yield node
    for child in node.get("Plans", []):  # type: ignore[attr-defined]
        yield from _nodes(child)


def _rows(node: dict[str, object]) -> float:
    if "Relation Name" not in node and "Index Name" not in node:
        return 0
    removed = sum(
        float(str(value)) for name, value in node.items() if str(name).startswith("Rows Removed by")
    )
    return (float(str(node["Actual Rows"])) + removed) * float(str(node["Actual Loops"]))
