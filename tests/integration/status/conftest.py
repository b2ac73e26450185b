"""A database with the ledger, a page of two phases, and what people and cron lines left behind."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.ledger.install import install
from pipestate.runbook.model import Runbook
from pipestate.status.collect import collect
from pipestate.status.model import PhaseStatus, Status
from pipestate.verify.checks import find_phases
from support.runbook_samples import NOWHERE, page, shown, write
from support.servers import Database

SOAK = "SELECT * FROM pipestate.soak WHERE runbook = 'book' AND phase = 'one'"
BOOK = page(
    "```sql\n-- check: quiet\n-- require: rows = 0\nSELECT who FROM writers;\n```\n",
    shown("SELECT who FROM writers"),
    "\n## Phase: two\n",
    "- [ ] `backup` (24h): A backup lies elsewhere.\n- [ ] `agreed` (7d, 2 people): Two of us agree.\n",
    f"```sql\n-- check: soak\n-- require: days_open >= 7 and longest_gap_hours <= 48\n{SOAK};\n```\n",
    "```sql\n-- check: short\n-- require: value <= 100 and age_seconds <= 3600\n"
    "SELECT value, age_seconds FROM pipestate.latest_observation WHERE name = 'depth';\n```\n",
    front="  one: {}\n  two: {}\n",
)


@pytest.fixture
def ledger(database: Database) -> Database:
    return fill(database)


@pytest.fixture
def pg_ledger(pg: Database) -> Database:
    return fill(pg)


def fill(database: Database) -> Database:
    with database.begin() as connection:
        install(connection)
    database.run("CREATE TABLE writers (who text)")
    return database


@pytest.fixture
def book(tmp_path: Path) -> Runbook:
    return write(tmp_path, BOOK)


@pytest.fixture
def status(book: Runbook) -> Callable[[Database], Status]:
    def read(database: Database) -> Status:
        with database.reader() as connection:
            return collect(connection, database.url, find_phases([book]), NOWHERE)

    return read


def phase_of(found: Status, name: str) -> PhaseStatus:
    (phase,) = [phase for _, phase in found.phases() if phase.name == name]
    return phase
