"""A legacy table whose times are text: refused before the first change, and adopted when they are times."""

import pytest

from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations, psql
from support.legacy_database import SITE_PROGRESS, SITES, progress_statement, site_statement
from support.servers import Database
from support.verdicts import shipped, verdicts

SENTENCE = (
    "site_progress exists, but the type of started_at is character varying, of updated_at is character varying, and "
    "the migrations compare them with the clock: give them a time's, as in ALTER TABLE site_progress ALTER COLUMN "
    "started_at TYPE timestamptz USING started_at::timestamptz, then run the same again"
)
AS_TIMES = "ALTER COLUMN {0} TYPE {1} USING {0}::{1}"


def fill(database: Database, time: str) -> None:
    """The old world, with times of this type."""
    numbers = range(50)
    database.run(
        SITES,
        SITE_PROGRESS.format(time=time),
        *(site_statement(number) for number in numbers),
        *(progress_statement(number) for number in numbers if number % 7),
    )


def test_times_that_are_text_are_refused_before_the_first_change(pg: Database) -> None:
    fill(pg, "varchar")
    tables = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    before = pg.value(tables)
    with pytest.raises(MigrationError) as refused:
        Migrations(pg).upgrade("0001")
    assert str(refused.value) == SENTENCE
    assert pg.value(tables) == before


def test_a_script_says_the_same(pg: Database) -> None:
    fill(pg, "varchar")
    done = psql(pg, Migrations(pg).script("upgrade", "0001"), "-v", "ON_ERROR_STOP=1")
    assert SENTENCE in done.stderr


@pytest.mark.parametrize("time", ["timestamp", "timestamptz", "date"])
def test_with_the_type_of_a_time_no_check_is_errored(pg: Database, time: str) -> None:
    fill(pg, "varchar")
    columns = ("started_at", "updated_at")
    pg.run(f"ALTER TABLE site_progress {', '.join(AS_TIMES.format(each, time) for each in columns)}")
    Migrations(pg).upgrade("0005")
    found = verdicts(pg, shipped("sites-consolidation"))
    assert {"backfill/backfill-complete", "readiness/recent-site-progress-writes"} <= set(found)
    assert [check for check, each in found.items() if each.outcome == "errored"] == []
