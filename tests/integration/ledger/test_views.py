"""What checks read: ages, streaks and gaps, and that nothing unknown ever passes."""

import itertools
import sqlite3
from decimal import Decimal
from typing import Any

import pytest

from pipestate.ledger.install import install
from support.servers import Database
from support.sql_times import run_timed

FUTURE = {"postgresql": "now() + interval '{}'", "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '+{}')"}


def record(when: str, gate: str = "open", *, event: str = "verify", phase: str = "one") -> str:
    return (
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate) "
        f"VALUES ({when}, '{event}', 'ci-{gate}', 'book', '{phase}', '{gate}')"
    )


def fact(when: str, value: float, name: str = "depth") -> str:
    return (
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
        f"VALUES ({when}, '{name}', {value}, 'probe', 'cron')"
    )


def ahead(database: Database, age: str) -> str:
    return FUTURE[database.url.get_backend_name()].format(age)


def soak(database: Database, phase: str = "one") -> dict[str, Any]:
    names = (
        "records",
        "days_open",
        "hours_since_last_record",
        "longest_gap_hours",
        "open_since IS NULL",
        "last_closed_by",
    )
    ((*values,),) = database.rows(f"SELECT {', '.join(names)} FROM pipestate.soak WHERE phase = '{phase}'")
    shown = [float(value) if isinstance(value, Decimal) else value for value in values]
    return dict(zip(names, shown, strict=True))


def test_a_phase_is_open_since_the_first_open_record_after_the_last_closed_one(ledger: Database) -> None:
    days = ((20, "open"), (12, "closed"), (10, "open"), (7, "open"), (6, "open"), (1, "open"))
    run_timed(ledger, *(record(f"<{day} days ago>", gate) for day, gate in days))
    found = soak(ledger)
    assert found["records"] == 4
    assert found["days_open"] == pytest.approx(10, abs=0.01)
    assert found["hours_since_last_record"] == pytest.approx(24, abs=0.03)
    assert found["longest_gap_hours"] == pytest.approx(120, abs=0.03), "from six days ago to yesterday"
    assert found["last_closed_by"] == "ci-closed"


def test_the_gap_up_to_now_counts(ledger: Database) -> None:
    run_timed(ledger, record("<10 days ago>"), record("<9 days ago>"))
    assert soak(ledger)["longest_gap_hours"] == pytest.approx(9 * 24, abs=0.03)


def test_two_records_eight_days_apart_show_their_gap(ledger: Database) -> None:
    """They passed as a week of holding."""
    run_timed(ledger, record("<8 days ago>"), record("<1 hours ago>"))
    found = soak(ledger)
    assert found["days_open"] >= 7.99
    assert found["longest_gap_hours"] > 48


def test_days_are_rounded_down_and_hours_up(ledger: Database) -> None:
    run_timed(ledger, record("<167 hours ago>"), record("<1 minutes ago>"))  # an hour short of seven days
    found = soak(ledger)
    assert 6.94 <= found["days_open"] <= 6.96
    assert found["hours_since_last_record"] == pytest.approx(0.02, abs=0.001)


def test_after_a_closed_record_nothing_is_open(ledger: Database) -> None:
    run_timed(ledger, record("<10 days ago>"), record("<1 days ago>", "closed"))
    found = soak(ledger)
    assert (found["records"], found["days_open"], found["longest_gap_hours"]) == (0, None, None)
    assert found["open_since IS NULL"]
    assert found["hours_since_last_record"] == pytest.approx(24, abs=0.03)


def test_a_phase_without_a_record_has_no_row(ledger: Database) -> None:
    run_timed(ledger, record("<9 days ago>", event="gate"), record("<9 days ago>", event="force"))
    assert ledger.rows("SELECT * FROM pipestate.soak") == [], "what gates found is no record"


def test_the_records_of_phases_are_kept_apart(ledger: Database) -> None:
    run_timed(ledger, record("<9 days ago>"), record("<1 days ago>", "closed", phase="two"))
    assert soak(ledger)["records"] == 1
    assert soak(ledger, "two")["records"] == 0


def test_records_of_the_same_moment_are_taken_in_their_order(ledger: Database) -> None:
    run_timed(ledger, record("<1 days ago>", "closed"), record("<1 days ago>"))
    assert soak(ledger)["records"] == 1
    run_timed(ledger, "DELETE FROM pipestate.run", record("<1 days ago>"), record("<1 days ago>", "closed"))
    assert soak(ledger)["records"] == 0


def test_an_open_record_in_the_future_holds_nothing_and_a_closed_one_closes(ledger: Database) -> None:
    ledger.run(record(ahead(ledger, "40 days")))
    found = soak(ledger)
    assert (found["records"], found["days_open"], found["hours_since_last_record"]) == (0, None, None)
    run_timed(ledger, record("<9 days ago>"), record("<8 days ago>"))
    assert soak(ledger)["longest_gap_hours"] > 8 * 23, "the gap goes up to now, not to the future"
    ledger.run(record(ahead(ledger, "1 days"), "closed"))
    assert soak(ledger)["days_open"] is None


def test_infinite_times_never_hold_and_break_nothing(pg_ledger: Database) -> None:
    pg_ledger.run(record("'-infinity'"), record("'infinity'"), fact("'infinity'", 0), fact("'-infinity'", 1))
    found = soak(pg_ledger)
    assert (found["records"], found["days_open"]) == (0, None)
    assert pg_ledger.rows("SELECT * FROM pipestate.latest_observation") == []
    assert pg_ledger.rows("SELECT * FROM pipestate.observed") == []
    pg_ledger.run(record("now() - interval '9 days'"), record("'infinity'", "closed"))
    assert soak(pg_ledger)["days_open"] is None
    assert since(pg_ledger) == [(0, None, None)]


def since(database: Database, phase: str = "one") -> list[tuple[Any, ...]]:
    """Beginnings of the streak, the earliest first: records, days and the longest gap from there on."""
    rows = database.rows(
        "SELECT records, days_open, longest_gap_hours FROM pipestate.soak_since "
        f"WHERE phase = '{phase}' ORDER BY records DESC"
    )
    return [
        (row[0], *(None if value is None else round(float(str(value)), 1) for value in row[1:]))
        for row in rows
    ]


def test_a_streak_can_be_counted_from_each_of_its_records(ledger: Database) -> None:
    days = ((20, "open"), (12, "closed"), (10, "open"), (7, "open"), (6, "open"), (1, "open"))
    run_timed(ledger, *(record(f"<{day} days ago>", gate) for day, gate in days))
    assert since(ledger) == [(4, 10, 120), (3, 7, 120), (2, 6, 120), (1, 1, 24)]
    ((*whole,),) = ledger.rows("SELECT * FROM pipestate.soak")
    ((*first,),) = ledger.rows("SELECT * FROM pipestate.soak_since WHERE records = 4")
    assert whole == first, "the whole streak is the one that begins with the first record"


def test_from_a_record_behind_a_gap_the_gap_is_gone(ledger: Database) -> None:
    run_timed(ledger, *(record(f"<{hours} hours ago>") for hours in (120, 96, 36, 24)))
    assert since(ledger) == [(4, 5, 60), (3, 4, 60), (2, 1.5, 24), (1, 1, 24)]


def test_the_gap_up_to_now_is_in_every_beginning(ledger: Database) -> None:
    run_timed(ledger, record("<80 hours ago>"), record("<70 hours ago>"))
    assert [gap for _, _, gap in since(ledger)] == [70, 70]


def test_without_a_streak_there_is_one_row_and_no_beginning(ledger: Database) -> None:
    run_timed(ledger, record("<10 days ago>"), record("<1 days ago>", "closed"))
    ledger.run(record(ahead(ledger, "40 days"), phase="two"))
    assert since(ledger) == since(ledger, "two") == [(0, None, None)]
    assert since(ledger, "three") == []


def test_a_closed_record_of_another_phase_ends_nothing(ledger: Database) -> None:
    run_timed(
        ledger, record("<9 days ago>"), record("<1 days ago>"), record("<2 days ago>", "closed", phase="two")
    )
    assert [records for records, _, _ in since(ledger)] == [2, 1]


def test_the_latest_observation_has_its_age_and_the_last_ten_values(ledger: Database) -> None:
    run_timed(
        ledger,
        *(fact(f"<{minutes} minutes ago>", minutes + 0.5) for minutes in range(12, 0, -1)),
        fact("<3 hours ago>", 7, "other"),
    )
    rows = ledger.rows(
        "SELECT name, value, age_seconds, source, actor, last_ten FROM pipestate.latest_observation ORDER BY name"
    )
    name, value, age, source, actor, last_ten = rows[0]
    assert (name, value, source, actor) == ("depth", 1.5, "probe", "cron")
    assert isinstance(age, int)
    assert 59 <= age <= 90
    assert last_ten == ", ".join(f"{minutes}.5" for minutes in range(1, 11))
    assert [row[0] for row in rows] == ["depth", "other"]
    assert rows[1][5] == "7"


def test_the_latest_is_the_newest_in_time_and_then_in_order(ledger: Database) -> None:
    run_timed(ledger, fact("<5 minutes ago>", 1), fact("<9 minutes ago>", 2), fact("<5 minutes ago>", 3))
    assert ledger.value("SELECT value FROM pipestate.latest_observation") == 3


def test_an_observation_in_the_future_has_no_age(ledger: Database) -> None:
    """Else it would be younger than an hour for as long as it lies ahead."""
    run_timed(ledger, fact("<5 minutes ago>", 1))
    ledger.run(fact(ahead(ledger, "10 days"), 0))
    assert ledger.rows("SELECT value, age_seconds FROM pipestate.latest_observation") == [(0, None)]
    ledger.run("DELETE FROM pipestate.observation", fact(ahead(ledger, "2 minutes"), 4))
    query = "SELECT value, age_seconds FROM pipestate.latest_observation"
    assert ledger.rows(query) == [(4, 0)], "clocks differ a little"


def test_observed_has_a_row_for_each_with_the_gap_before_it(ledger: Database) -> None:
    run_timed(ledger, fact("<60 minutes ago>", 3), fact("<50 minutes ago>", 2), fact("<20 minutes ago>", 1))
    rows = ledger.rows("SELECT value, gap_seconds, last_ten FROM pipestate.observed ORDER BY observed_at")
    assert [row[0] for row in rows] == [3, 2, 1]
    assert rows[0][1] is None
    assert 599 <= int(str(rows[1][1])) <= 602
    assert 1799 <= int(str(rows[2][1])) <= 1802
    assert [row[2] for row in rows] == ["3", "2, 3", "1, 2, 3"]
    both = {"latest_observation", "observed"}
    columns = {view: list(ledger_columns(ledger, view)) for view in both}
    assert columns["observed"] == [*columns["latest_observation"], "gap_seconds"]


def ledger_columns(database: Database, view: str) -> tuple[str, ...]:
    with database.engine.connect() as connection:
        result = connection.exec_driver_sql(database.spelt(f"SELECT * FROM pipestate.{view}"))
        return tuple(result.keys())


@pytest.mark.parametrize(
    ("view", "columns"),
    [
        ("latest_observation", "name value age_seconds observed_at source actor last_ten"),
        ("observed", "name value age_seconds observed_at source actor last_ten gap_seconds"),
        (
            "soak",
            "runbook phase records open_since last_record_at days_open hours_since_last_record "
            "longest_gap_hours last_closed_at last_closed_by",
        ),
        (
            "soak_since",
            "runbook phase records open_since last_record_at days_open hours_since_last_record "
            "longest_gap_hours last_closed_at last_closed_by",
        ),
        ("sign_off", "runbook phase name person note revision signed_at age_seconds text_sha256"),
    ],
)
def test_the_columns_are_those_that_the_documentation_promises(
    ledger: Database, view: str, columns: str
) -> None:
    assert ledger_columns(ledger, view) == tuple(columns.split())


def test_a_word_has_an_age_unless_it_was_given_in_the_future(ledger: Database) -> None:
    word = "INSERT INTO pipestate.attestation (signed_at, runbook, phase, name, person) VALUES "
    run_timed(ledger, f"{word} (<2 hours ago>, 'book', 'one', 'backup', 'ann')")
    ledger.run(f"{word} ({ahead(ledger, '2 days')}, 'book', 'one', 'backup', 'ben')")
    rows = ledger.rows("SELECT person, age_seconds FROM pipestate.sign_off ORDER BY person")
    assert 7199 <= int(str(rows[0][1])) <= 7230
    assert rows[1] == ("ben", None)


@pytest.mark.parametrize("person", ["NULL", "''", "'  '"])
def test_a_word_of_nobody_is_refused(ledger: Database, person: str) -> None:
    from sqlalchemy.exc import IntegrityError

    with pytest.raises(IntegrityError):
        ledger.run(
            "INSERT INTO pipestate.attestation (runbook, phase, name, person) "
            f"VALUES ('book', 'one', 'backup', {person})"
        )


def test_times_are_the_clocks_not_the_transactions(pg_ledger: Database) -> None:
    """A gate may be recorded at the end of a transaction that began an hour ago."""
    with pg_ledger.begin() as connection:
        connection.exec_driver_sql("SELECT pg_sleep(0.2)")
        connection.exec_driver_sql(
            "INSERT INTO pipestate.run (event, actor) VALUES ('purge', 'a'), ('purge', 'b')"
        )
        late = connection.exec_driver_sql(
            "SELECT bool_and(recorded_at > now() + interval '0.2 seconds') FROM pipestate.run"
        )
        assert late.scalar_one() is True


def test_on_sqlite_views_of_observations_read_a_year_once(sqlite_database: Database) -> None:
    """Steps of SQLite's machine, which no other load disturbs: four times the rows cost about four times as much."""
    with sqlite_database.begin() as connection:
        install(connection)
    for view in ("pipestate_latest_observation", "pipestate_observed"):
        few, many = (steps(sqlite_database, f"SELECT * FROM {view}", rows) for rows in (500, 2000))
        assert many < 6 * few, view


def steps(database: Database, query: str, rows: int) -> int:
    """Count hundreds of steps that a query takes with that many observations of four names."""
    database.run(
        "DELETE FROM pipestate_observation",
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n "
        f"WHERE n < {rows}) INSERT INTO pipestate_observation (observed_at, name, value, source, actor) "
        "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now', -n || ' minutes'), 'name' || n % 4, n, 'probe', 'cron' FROM n",
    )
    taken = itertools.count()
    with database.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_progress_handler(lambda: next(taken) and None, 100)
        driver.execute(query).fetchall()
        driver.set_progress_handler(None, 0)
    return next(taken)
