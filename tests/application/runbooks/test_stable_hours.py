"""`stable-hours` of queue-cutover reads no more of the diary than it needs, and says the same as all of it."""

from collections.abc import Iterator
from random import Random

import pytest

from application.runbooks.queue_cutover_cases import PROBES
from pipestate.runbook.model import Check
from pipestate.runbook.variants import ledger_names
from support.alembic_runs import Migrations
from support.servers import Database, Postgres, Sqlite
from support.sql_times import run_timed
from support.verdicts import dialect, shipped

# What the page read before: every observation of the four probes, however old.
WHOLE_DIARY = """
WITH bound (name, most) AS (
  VALUES ('sqs_queue_depth', 100), ('sqs_dlq_depth', 0),
         ('sqs_oldest_message_seconds', 600), ('prefect_failed_runs', 0)
), probe AS (
  SELECT min(o.age_seconds) AS silent,
         min(coalesce(o.age_seconds, 0)) FILTER (
           WHERE o.age_seconds IS NULL OR o.gap_seconds IS NULL OR o.gap_seconds > 3600
              OR o.value < 0 OR o.value > b.most) AS stable
  FROM bound b JOIN pipestate.observed o ON o.name = b.name GROUP BY b.name
)
SELECT count(*) AS probes, max(silent) AS seconds_silent, min(stable) / 3600.0 AS stable_hours
FROM probe
"""
HOURS = {"cutover": 48, "cleanup": 168}
DIARIES = 40
# So many hours ago the history of a probe begins: about what is read, and one hour more.
BEGINS = (2, 47.9, 48, 48.1, 48.9, 49, 49.1, 60, 167.9, 168.1, 168.9, 169.1, 200)
Found = tuple[int, float | None, float | None]


@pytest.fixture
def ledger(bed: Postgres | Sqlite) -> Iterator[Database]:
    database = bed.copy_of("at 0005", lambda fresh: Migrations(fresh).upgrade("0005"))
    yield database
    bed.drop(database)


def written(database: Database, phase: str) -> str:
    """Return the check's SQL of that phase, on the database's engine."""
    section = shipped("queue-cutover").phase(phase)
    assert section is not None
    (sql,) = (
        check.sql
        for check in section.checks_for(dialect(database))
        if isinstance(check, Check) and check.id == "stable-hours"
    )
    return sql


def both(database: Database, sql: str) -> tuple[Found, Found]:
    """Read both in one statement, for which time stands still."""
    query = f"SELECT * FROM ({WHOLE_DIARY}) AS whole, ({sql}) AS limited"
    (row,) = database.rows(ledger_names(query) if dialect(database) == "sqlite" else query)
    numbers = tuple(None if value is None else float(str(value)) for value in row)
    return numbers[:3], numbers[3:]  # type: ignore[return-value]


def passes(found: Found, hours: int) -> bool:
    probes, silent, stable = found
    return probes == 4 and silent is not None and silent <= 3600 and stable is not None and stable >= hours


def diary(random: Random, probe: str, hours: float) -> Iterator[tuple[str, float, float]]:
    """Yield observations of a probe, most of them calm: name, value, and how many minutes old it is."""
    ends = random.choices([-30, -3, 0, 5, 59, 61, 2950], [1, 2, 40, 40, 10, 1, 1])[0]
    step, minutes = random.choice([15, 55, 59.9]), hours * 60
    while minutes > ends:
        loud = random.random() < 0.0003
        yield probe, random.choice([-1, 1000]) if loud else 0, minutes
        minutes -= step if random.random() > 0.0005 else random.choice([60, 60.1, 180])


def write_diary(database: Database, random: Random) -> None:
    hours = random.choice(BEGINS)
    begins = [hours if random.random() < 0.9 else random.choice(BEGINS) for _ in PROBES]
    named = zip(PROBES, begins, strict=True)
    rows = [row for probe, hours in named if random.random() > 0.03 for row in diary(random, probe, hours)]
    random.shuffle(rows)
    values = ", ".join(f"('{name}', {value}, '', '', <{age} minutes ago>)" for name, value, age in rows)
    run_timed(
        database,
        "DELETE FROM pipestate.observation",
        "INSERT INTO pipestate.observation (name, value, source, actor, observed_at) "
        f"VALUES {values or '(0, 0, 0, 0, <0 minutes ago>)'}",
    )


@pytest.mark.scene
def test_it_gives_the_verdict_that_the_whole_diary_would(ledger: Database) -> None:
    random, seen = Random(20261117), set()
    for number in range(DIARIES):
        write_diary(ledger, random)
        for phase, hours in HOURS.items():
            whole, limited = both(ledger, written(ledger, phase))
            assert passes(whole, hours) == passes(limited, hours), (number, phase, whole, limited)
            if whole[0] == limited[0] == 4:
                assert (whole[1], min(whole[2] or 0, hours)) == (limited[1], min(limited[2] or 0, hours))
            seen.add((phase, passes(whole, hours)))
    assert len(seen) == 4, "both verdicts of both phases were among the diaries"


def test_it_reads_its_hours_by_the_index(pg_migrations: Migrations) -> None:
    """Not on SQLite, whose times may be written in several ways: no index serves that."""
    pg_migrations.upgrade("0002")
    ledger = pg_migrations.database
    ledger.run(
        *(
            "INSERT INTO pipestate.observation (name, value, source, actor, observed_at) "
            f"SELECT '{probe}', 0, 'test', 'test', now() - n * interval '15 minutes' "
            "FROM generate_series(0, 90 * 96) n"
            for probe in PROBES
        ),
        "ANALYZE pipestate.observation",
    )
    plan = "\n".join(
        str(row[0]) for row in ledger.rows(f"EXPLAIN (ANALYZE, TIMING OFF) {written(ledger, 'cutover')}")
    )
    assert "idx_pipestate_observation_name" in plan, plan
    assert "Seq Scan on observation" not in plan, plan
