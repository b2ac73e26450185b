"""Pruning deletes what is old, and never what a gate rests on."""

from datetime import timedelta

import pytest

from pipestate.ledger.prune import Old, find_old, prune
from support.servers import Database
from support.sql_times import run_timed

YEAR = timedelta(days=365)


def record(days: int, gate: str = "open", event: str = "verify") -> str:
    return (
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, reason) "
        f"VALUES (<{days} days ago>, '{event}', 'ci', 'book', 'one', '{gate}', '{days}')"
    )


def word(days: int, person: str, name: str = "backup") -> str:
    return (
        "INSERT INTO pipestate.attestation (signed_at, runbook, phase, name, person, note) "
        f"VALUES (<{days} days ago>, 'book', 'one', '{name}', '{person}', '{days}')"
    )


def fact(days: int, name: str = "depth") -> str:
    return (
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
        f"VALUES (<{days} days ago>, '{name}', {days}, 'probe', 'cron')"
    )


def pruned(database: Database) -> int:
    with database.begin() as connection:
        counted = sum(old.rows for old in find_old(connection, YEAR))
        deleted = prune(connection, YEAR)
    assert counted == deleted, "it asks about what it then does"
    return deleted


def left(database: Database, table: str, column: str) -> list[object]:
    return [row[0] for row in database.rows(f"SELECT {column} FROM pipestate.{table} ORDER BY id")]


def test_records_before_the_last_closed_one_go_and_the_streak_stays(ledger: Database) -> None:
    run_timed(
        ledger,
        *(record(days, gate) for days, gate in ((900, "open"), (800, "closed"), (700, "open"))),
        *(record(days, gate) for days, gate in ((650, "closed"), (600, "open"), (400, "open"), (1, "open"))),
    )
    before = ledger.rows("SELECT records, open_since, last_closed_at FROM pipestate.soak")
    assert pruned(ledger) == 3
    assert left(ledger, "run", "reason") == ["650", "600", "400", "1"]
    assert ledger.rows("SELECT records, open_since, last_closed_at FROM pipestate.soak") == before


def test_a_streak_without_a_closed_record_stays_whole(ledger: Database) -> None:
    run_timed(ledger, record(900), record(500), record(1))
    assert pruned(ledger) == 0


def test_results_go_with_their_run(ledger: Database) -> None:
    run_timed(ledger, record(900), record(800, "closed"))
    ledger.run(
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level) "
        "SELECT id, 'c', 'passed', 'block' FROM pipestate.run"
    )
    assert pruned(ledger) == 1
    assert ledger.value("SELECT count(*) FROM pipestate.result") == 1


@pytest.mark.parametrize("event", ["gate", "force", "purge", "upgrade", "downgrade", "stamp"])
def test_what_a_migration_wrote_stays(ledger: Database, event: str) -> None:
    run_timed(ledger, record(900, event=event), record(1, "closed"))
    assert pruned(ledger) == 0


def test_the_latest_word_of_each_person_stays(ledger: Database) -> None:
    run_timed(ledger, word(900, "ann"), word(800, " Ann"), word(700, "ben"), word(600, "ann", "other"))
    assert pruned(ledger) == 1
    assert left(ledger, "attestation", "note") == ["800", "700", "600"]


def test_the_latest_observation_of_each_name_stays(ledger: Database) -> None:
    run_timed(ledger, fact(900), fact(800), fact(700, "other"), fact(1))
    assert pruned(ledger) == 2
    assert left(ledger, "observation", "value") == [700, 1]


def test_what_is_younger_stays(ledger: Database) -> None:
    run_timed(
        ledger, fact(300), fact(200), record(300), record(200, "closed"), word(300, "a"), word(200, "a")
    )
    with ledger.begin() as connection:
        prefix = "pipestate_" if ledger.is_sqlite else "pipestate."
        assert find_old(connection, YEAR) == [
            Old(f"{prefix}{table}", 0, is_read_back=table == "observation")
            for table in (
                *("run", "attestation", "observation"),
                *("backfill_progress", "rehearsal", "statement_calls", "schema_record"),
            )
        ]


def test_the_latest_rehearsal_of_the_same_files_stays(ledger: Database) -> None:
    """Of either kind: what compat found is another answer."""
    done = "INSERT INTO pipestate.rehearsal (actor, clone, files, kind, rehearsed_at)"
    rows = (
        ('{"a": "1"}', "rehearse", 900),
        ('{"a": "1"}', "rehearse", 800),
        ('{"a": "2"}', "rehearse", 700),
        ('{"a": "1"}', "compat", 900),
    )
    run_timed(
        ledger,
        *(f"{done} VALUES ('me', 'x', '{files}', '{kind}', <{days} days ago>)" for files, kind, days in rows),
    )
    assert pruned(ledger) == 1
    assert left(ledger, "rehearsal", "id") == [2, 3, 4]


def test_old_runs_of_a_backfill_go_and_the_latest_stays(ledger: Database) -> None:
    started = "INSERT INTO pipestate.backfill_progress (runbook, name, table_name, key_column, sql_sha256, actor, updated_at)"
    run_timed(
        ledger,
        *(
            f"{started} VALUES ('a', 'b', 't', 'id', 'x', 'me', <{days} days ago>)"
            for days in (900, 800, 700)
        ),
    )
    assert pruned(ledger) == 2
    assert left(ledger, "backfill_progress", "id") == [3]
