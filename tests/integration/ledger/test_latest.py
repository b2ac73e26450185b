"""The ledger's last word, on each engine, whatever its clocks say."""

import pytest

from pipestate.core.errors import ConfigError
from pipestate.ledger.latest import LastRecord, read_latest
from support.servers import Database
from support.sql_times import run_timed

RUN = "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate) VALUES "


def records(database: Database) -> dict[str, LastRecord]:
    with database.reader() as connection:
        latest = read_latest(connection)
    assert latest is not None
    return {record.phase: record for record in latest.records}


def test_without_a_ledger_there_is_none(database: Database) -> None:
    with database.reader() as connection:
        assert read_latest(connection) is None


def test_an_older_ledger_is_said(ledger: Database) -> None:
    ledger.run("DROP VIEW pipestate.soak")
    with ledger.reader() as connection, pytest.raises(ConfigError, match="older than this pipestate"):
        read_latest(connection)


def test_the_last_record_of_each_phase(ledger: Database) -> None:
    run_timed(
        ledger,
        RUN
        + "(<50 hours ago>, 'verify', 'ci', 'orders', 'long', 'open'), (<2 hours ago>, 'verify', 'ci', 'orders', "
        "'long', 'open'), (<3 hours ago>, 'verify', 'ci', 'orders', 'shut', 'open'), (<1 hour ago>, 'verify', 'ci', "
        "'orders', 'shut', 'closed'), (<1 minute ago>, 'gate', 'ci', 'orders', 'shut', 'open')",
    )
    found = records(ledger)
    long, shut = found["long"], found["shut"]
    assert (long.is_open, shut.is_open, shut.open_s) == (True, False, None)
    for value, hours in ((long.age_s, 2), (long.open_s, 50), (shut.age_s, 1)):
        assert value is not None
        assert abs(value - hours * 3600) < 60
    assert long.at is not None
    assert shut.at is not None
    assert 3590 < shut.at - long.at < 3610


def test_a_time_in_the_future_has_no_age(ledger: Database) -> None:
    run_timed(ledger, RUN + "(<-2 hours ago>, 'verify', 'ci', 'orders', 'odd', 'closed')")
    assert (records(ledger)["odd"].is_open, records(ledger)["odd"].age_s) == (False, None)


def test_times_that_python_does_not_know_are_no_traceback(pg_ledger: Database) -> None:
    pg_ledger.run(
        RUN + "('infinity', 'verify', 'ci', 'orders', 'never', 'closed'), "
        "('20000-01-01', 'verify', 'ci', 'orders', 'far', 'closed')",
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
        "VALUES ('20000-01-01', 'far', 1, 's', 'ci'), ('infinity', 'never', 1, 's', 'ci')",
    )
    found = records(pg_ledger)
    assert (found["never"].at, found["never"].age_s, found["far"].age_s) == (None, None, None)
    with pg_ledger.reader() as connection:
        latest = read_latest(connection)
    assert latest is not None
    assert [(fact.name, fact.age_s) for fact in latest.observations] == [("far", None)]


def test_the_last_value_of_each_observation(ledger: Database) -> None:
    run_timed(
        ledger,
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) VALUES "
        "(<2 hours ago>, 'depth', 7, 's', 'ci'), (<1 hour ago>, 'depth', 12.5, 's', 'ci')",
    )
    with ledger.reader() as connection:
        latest = read_latest(connection)
    assert latest is not None
    (fact,) = latest.observations
    assert (fact.name, fact.value) == ("depth", 12.5)
    assert fact.age_s is not None
    assert abs(fact.age_s - 3600) < 60
