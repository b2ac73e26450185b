"""A copy of a database counts no sign-off, soak or rehearsal of its original; a rewritten text begins anew."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pipestate.database import connections as db
from pipestate.ledger.record import Rehearsed, SignOffRequest, adopt, attest, record_rehearsal, record_report
from pipestate.ledger.state import foreign_warning
from pipestate.plan.compile import compile_check
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check, Level, Phase, Runbook, SignOff
from pipestate.verify.read import read_verdict
from pipestate.verify.report import DatabaseInfo, Gate, PhaseReport, Report, RunbookReport
from support.alembic_runs import psql
from support.servers import Database, Postgres, postgres_binary

SIGN_OFF = SignOff("backup-taken", 1, timedelta(days=1), "A backup lies on another machine.")
CHECK = Check("quiet", 2, "SELECT 0 AS n", parse_requirement("n = 0"))
PHASE = Phase("ready", 1, None, None, (), (CHECK, SIGN_OFF), ())
COUNTED = (
    "SELECT (SELECT count(*) FROM pipestate.sign_off), (SELECT coalesce(sum(records), 0) FROM pipestate.soak), "
    "(SELECT count(*) FROM pipestate.rehearsed)"
)
FILES = """SET pipestate.files = '{"b2": "abc"}'"""


def record(database: Database, phase: Phase = PHASE) -> None:
    reported = PhaseReport(phase.name, Gate.OPEN, (), (), phase.text_sha256)
    runbook = RunbookReport("orders", "orders.md", "abc", (reported,))
    info = DatabaseInfo("db", "postgresql", "18", "a1", "b2")
    with database.begin() as connection:
        record_report(connection, Report(info, datetime.now(UTC), 1.0, (runbook,)), event="verify")


def sign(database: Database, signoff: SignOff = SIGN_OFF) -> None:
    phase = replace(PHASE, checks=(CHECK, signoff))
    runbook = Runbook("orders", "orders.md", "Orders", True, "abc", (phase,), "")
    with database.begin() as connection:
        attest(connection, SignOffRequest(runbook, phase, signoff), by="dba", note=None, revision=None)


def counted(database: Database) -> tuple[int, ...]:
    """Count the sign-offs, records of a soak and rehearsals that count."""
    with database.connect() as connection:
        connection.exec_driver_sql(FILES)
        return tuple(int(value) for value in connection.exec_driver_sql(COUNTED).one())


def people(database: Database, signoff: SignOff) -> object:
    check = compile_check(signoff, database.url.get_backend_name(), runbook="orders", phase="ready")
    with db.reader(database.url) as connection:
        return read_verdict(connection, check, 5).observed["people"]


def soak(database: Database) -> object:
    return database.value("SELECT records FROM pipestate.soak")


@pytest.fixture
def original(pg_ledger: Database) -> Database:
    sign(pg_ledger)
    record(pg_ledger)
    with pg_ledger.begin() as connection:
        done = Rehearsed(revision="a1", target="b2", files={"b2": "abc"}, clone="c", ok=True, duration_ms=1)
        record_rehearsal(connection, done)
    assert counted(pg_ledger) == (1, 1, 1)
    pg_ledger.leave()
    return pg_ledger


@pytest.fixture(params=["template", "dump"])
def copy(request: pytest.FixtureRequest, postgres: Postgres, original: Database) -> Iterator[Database]:
    """The database once more, as CREATE DATABASE … TEMPLATE or pg_dump make it."""
    if request.param == "template":
        made = postgres.create(str(original.url.database))
    else:
        made = postgres.create()
        command = [postgres_binary("pg_dump"), "--dbname", original.text]
        dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        # pg_dump of 17 and later sets a limit that older servers do not know.
        dumped = dumped.replace("SET transaction_timeout = 0;", "")
        assert psql(made, dumped, "-v", "ON_ERROR_STOP=1").returncode == 0
    yield made
    postgres.drop(made)


def test_a_copy_counts_nothing_of_its_original_until_somebody_adopts_it(
    copy: Database, original: Database
) -> None:
    assert counted(copy) == (0, 0, 0)
    with copy.begin() as connection:
        (said,) = foreign_warning(connection)
        assert said.startswith(f"records of the database {original.url.database} do not count here")
        adopted = adopt(connection, revision="a1")
    assert adopted == f"1 sign-off, 1 record, 1 rehearsal of the database {original.url.database}"
    assert counted(copy) == (1, 1, 1)
    assert copy.rows("SELECT reason FROM pipestate.run WHERE event = 'adopt'") == [(adopted,)]
    with copy.begin() as connection:
        assert foreign_warning(connection) == ()
        assert adopt(connection, revision="a1") is None


def test_a_copy_counts_its_own_records(copy: Database) -> None:
    sign(copy)
    record(copy)
    assert counted(copy) == (1, 1, 0)


def test_a_renamed_database_is_another_one(postgres: Postgres, original: Database) -> None:
    name = original.url.database
    with postgres.engine.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} RENAME TO {name}_x")
        renamed = Database(original.url.set(database=f"{name}_x"))
        assert counted(renamed) == (0, 0, 0)
        renamed.leave()
        connection.exec_driver_sql(f"ALTER DATABASE {name}_x RENAME TO {name}")
    assert counted(original) == (1, 1, 1)


def test_a_plain_role_names_the_database_as_its_owner_does(original: Database) -> None:
    here = "SELECT pipestate.this_database()"
    role = f"{original.url.database}_plain"
    original.run(f"CREATE ROLE {role}", f"GRANT USAGE ON SCHEMA pipestate TO {role}")
    with original.begin() as connection:
        connection.exec_driver_sql(f"SET LOCAL ROLE {role}")
        assert connection.exec_driver_sql(here).scalar_one() == original.value(here)
    original.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize("change", [{"text": "A backup exists."}, {"valid_for": timedelta(days=9)}])
def test_a_rewritten_sign_off_must_be_signed_again(ledger: Database, change: dict[str, object]) -> None:
    sign(ledger)
    rewritten = replace(SIGN_OFF, **change)  # type: ignore[arg-type]
    assert (people(ledger, SIGN_OFF), people(ledger, rewritten)) == (1, 0)
    sign(ledger, rewritten)
    assert people(ledger, rewritten) == 1


REPLACED = {
    "another query": replace(CHECK, sql="SELECT 0 AS n FROM orders"),
    "another criterion": replace(CHECK, require=parse_requirement("n < 9")),
    "a warning": replace(CHECK, level=Level.WARN),
}


@pytest.mark.parametrize("check", REPLACED.values(), ids=REPLACED)
def test_a_replaced_check_begins_the_soak_anew(ledger: Database, check: Check) -> None:
    record(ledger)
    record(ledger)
    assert soak(ledger) == 2
    record(ledger, replace(PHASE, checks=(check, SIGN_OFF)))
    assert soak(ledger) == 1
    record(ledger)
    assert soak(ledger) == 1, "the old text, once more, begins anew as well"


def test_another_line_or_advice_is_the_same_text(ledger: Database) -> None:
    record(ledger)
    moved = replace(PHASE, line=7, checks=(replace(SIGN_OFF, line=8), replace(CHECK, line=9)))
    record(ledger, moved)
    assert soak(ledger) == 2
