"""What stays on a hidden column, and what a clock says, at a restore."""

from pathlib import Path

import pytest

from attacks import attacked
from attacks.contracts import takes_old, there_and_back
from attacks.project import Project
from attacks.worlds import TABLES
from support.servers import Postgres

HANGING = {
    "a statistics target": "ALTER TABLE orders ALTER old SET STATISTICS 500",
    "a way of storage": "ALTER TABLE orders ALTER old SET STORAGE EXTERNAL",
    "a number of distinct values": "ALTER TABLE orders ALTER old SET (n_distinct = 5)",
    "a comment on the column": "COMMENT ON COLUMN orders.old IS 'it''s old'",
    "a right to the column": "GRANT SELECT (old) ON orders TO PUBLIC",
    "a statistics target of an index": "CREATE INDEX by_old ON orders (lower(old)); "
    "ALTER INDEX by_old ALTER COLUMN 1 SET STATISTICS 50",
    "an index with a comment": "CREATE INDEX by_old ON orders (old); COMMENT ON INDEX by_old IS 'why'",
    "an index for CLUSTER": "CREATE INDEX by_old ON orders (old); ALTER TABLE orders CLUSTER ON by_old",
    "a check with a comment": "ALTER TABLE orders ADD CONSTRAINT wise CHECK (old <> 'x'); "
    "COMMENT ON CONSTRAINT wise ON orders IS 'why'",
    "a check that is not valid": "ALTER TABLE orders ADD CONSTRAINT late CHECK (old > 'b') NOT VALID",
    "a foreign key that is not valid": "CREATE TABLE names (name text PRIMARY KEY); "
    "ALTER TABLE orders ADD CONSTRAINT named FOREIGN KEY (old) REFERENCES names NOT VALID",
    "an exclusion constraint": "ALTER TABLE orders ADD CONSTRAINT single EXCLUDE (old WITH =)",
}


@pytest.mark.parametrize("statements", HANGING.values(), ids=HANGING)
def test_what_hangs_on_a_column_comes_back_with_it(contract: Project, statements: str) -> None:
    takes_old(contract, "text", "'a'", "'b'")
    contract.database.run(*statements.split("; "))
    there_and_back(contract)


def test_the_name_of_a_not_null_constraint_comes_back(contract: Project) -> None:
    if int(str(contract.database.value("SHOW server_version_num"))) < 180000:
        pytest.skip("PostgreSQL before 18 has no names for them")
    takes_old(contract, "text", "'a'", "'b'")
    contract.database.run("ALTER TABLE orders ADD CONSTRAINT needed NOT NULL old")
    there_and_back(contract)


def test_a_compression_comes_back(contract: Project) -> None:
    if int(str(contract.database.value("SHOW server_version_num"))) < 140000:
        pytest.skip("PostgreSQL before 14 has none to choose")
    takes_old(contract, "text", "'a'")
    contract.database.run("ALTER TABLE orders ALTER old SET COMPRESSION pglz")
    there_and_back(contract)


@pytest.mark.parametrize("moment", ["now() + interval '1 day'", "'infinity'", "NULL"])
def test_a_clock_that_is_ahead_makes_no_site_changed(postgres: Postgres, tmp_path: Path, moment: str) -> None:
    """Nobody touches the site after the contract; so its old status comes back, not one that is derived."""
    database = postgres.copy_of("attacked shipped-tables", lambda fresh: TABLES.fill(fresh, tmp_path))
    site = "subdomain = 'site001.example.gov'"
    database.run(
        f"UPDATE sites SET status = 'weird', current_stage = 'completed', updated_at = {moment} WHERE {site}"
    )
    root, url = attacked.shipped_ini().parent, {"DATABASE_URL": database.text}
    for step in (["-x", "force=a drill", "upgrade", "head"], ["downgrade", "0005"]):
        done = attacked.run("alembic", *step, cwd=root, environment=url)
        assert done.returncode == 0, done.stderr
    assert database.value(f"SELECT status FROM sites WHERE {site}") == "weird"
    postgres.drop(database)
