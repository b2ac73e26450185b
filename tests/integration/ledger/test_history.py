"""The history: newest first, in an order that does not depend on luck, with lines of other packages."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipestate.core.errors import ConfigError
from pipestate.ledger.history import Entry, Source, Wanted, history
from pipestate.ledger.record import Rehearsed, record_rehearsal
from support.servers import Database
from support.sql_times import run_timed

NOW = datetime.now(UTC)


def read(database: Database, *others: Source, **wanted: object) -> list[Entry]:
    with database.engine.connect() as connection:
        lines = history(connection, Wanted(**wanted), others=others)  # type: ignore[arg-type]
    assert lines.errors == ()
    return list(lines.entries)


@pytest.fixture
def filled(ledger: Database) -> Database:
    run_timed(
        ledger,
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, revision) "
        "VALUES (<3 days ago>, 'verify', 'ci', 'orders', 'ready', 'closed', 'a1')",
        "INSERT INTO pipestate.run (recorded_at, event, actor, reason, duration_ms, revision) "
        "VALUES (<2 days ago>, 'upgrade', 'ops', NULL, 1500, 'b2')",
        "INSERT INTO pipestate.attestation (signed_at, runbook, phase, name, person, note) "
        "VALUES (<1 days ago>, 'orders', 'ready', 'backup', 'dba', 's3')",
        *(
            "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
            f"VALUES (<1 hours ago>, 'depth', {value}, 'probe', 'cron')"
            for value in (1, 1234567)
        ),
    )
    return ledger


def test_it_is_newest_first_and_at_the_same_time_the_later_one_comes_first(filled: Database) -> None:
    assert [(entry.kind, entry.what) for entry in read(filled)] == [
        ("observation", "depth = 1234567: probe"),
        ("observation", "depth = 1: probe"),
        ("sign-off", "orders/ready/backup: s3"),
        ("upgrade", "1.5 s"),
        ("verify", "orders/ready closed"),
    ]


def test_the_order_is_the_same_each_time_and_a_limit_cuts_it(ledger: Database) -> None:
    """Everything at one moment: within a kind the later one comes first, whatever the limit leaves out."""
    at = "'2026-01-20 10:00:00'" if ledger.is_sqlite else "'2026-01-20 10:00:00+00'"
    for number in range(3):
        ledger.run(
            f"INSERT INTO pipestate.run (recorded_at, event, actor, reason) VALUES ({at}, 'purge', 'o', '{number}')",
            "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
            f"VALUES ({at}, 'depth', {number}, 'probe', 'cron')",
            "INSERT INTO pipestate.attestation (signed_at, runbook, phase, name, person) "
            f"VALUES ({at}, 'orders', 'ready', 'backup{number}', 'dba')",
        )
    whole = read(ledger)
    assert len(whole) == 9
    for kind in ("purge", "observation", "sign-off"):
        ids = [entry.id for entry in whole if entry.kind == kind]
        assert ids == sorted(ids, reverse=True), kind
    for limit in range(1, 10):
        assert read(ledger, limit=limit) == whole[:limit]


def test_times_have_their_zone(filled: Database) -> None:
    assert all(timedelta(0) < NOW - entry.at.astimezone(UTC) < timedelta(days=4) for entry in read(filled))


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        ({"limit": 2}, ["observation", "observation"]),
        ({"since": NOW - timedelta(hours=36)}, ["observation", "observation", "sign-off"]),
        ({"runbook": "orders"}, ["sign-off", "verify"]),
        ({"runbook": "invoices"}, []),
        ({"kinds": frozenset({"upgrade", "verify"})}, ["upgrade", "verify"]),
        ({"kinds": frozenset({"sign-off"}), "runbook": "orders"}, ["sign-off"]),
        ({"kinds": frozenset({"gate"})}, []),
    ],
)
def test_it_can_be_narrowed(filled: Database, wanted: dict[str, object], kinds: list[str]) -> None:
    assert [entry.kind for entry in read(filled, **wanted)] == kinds


def test_rehearsals_say_what_was_found(ledger: Database) -> None:
    """A longest wait, or why there is none; of compat, how many statements break."""
    common: dict[str, Any] = {"revision": "b2", "files": {"c3": "x"}, "clone": "clone", "duration_ms": 1.0}
    recorded = [
        Rehearsed(**common, target="c3", ok=True, longest_wait_ms=412.0, bounded=True, scale=1.0),
        Rehearsed(**common, target="c3", ok=False, longest_wait_ms=3.0, bounded=False, scale=1.0),
        Rehearsed(**common, target="c3", ok=False, bounded=True),
        Rehearsed(**common, target="b2", ok=False, scale=1.0),
        Rehearsed(
            **common, target="c3", ok=False, kind="compat", statements=7, broken=2, changed=1, unprepared=0
        ),
        Rehearsed(**common, target="b2", ok=False, kind="compat", statements=7, unprepared=0),
    ]
    with ledger.begin() as connection:
        for each in recorded:
            record_rehearsal(connection, each)
    lines = sorted(read(ledger), key=lambda line: line.id)
    assert [(line.kind, line.what) for line in lines] == [
        ("rehearsal", "c3: longest wait 412 ms on clone"),
        ("rehearsal", "c3: longest wait 3 ms (a lock request may never give up) on clone"),
        ("rehearsal", "c3: waits not known for so many rows on clone"),
        ("rehearsal", "c3: failed on clone"),
        ("compat", "c3: 2 of 7 statements would break, 1 return other columns on clone"),
        ("compat", "c3: failed on clone"),
    ]
    assert len(read(ledger, kinds=frozenset({"compat"}))) == 2


def test_an_unknown_event_is_refused_with_those_that_there_are(filled: Database) -> None:
    with pytest.raises(ConfigError, match=r"no event verfiy; there are .*observation.*sign-off.*verify"):
        read(filled, kinds=frozenset({"verfiy"}))


def test_another_package_adds_its_lines(filled: Database) -> None:
    line = Entry(NOW - timedelta(hours=12), 1, "deployment", "ops", "release 7", None)
    source = Source(("deployment",), lambda _connection, _wanted: [line])
    assert [entry.kind for entry in read(filled, source, limit=3)][2] == "deployment"
    assert read(filled, source, kinds=frozenset({"deployment"})) == [line]
    assert line not in read(filled, source, kinds=frozenset({"verify"}))


def test_a_time_that_python_does_not_know_is_left_out(pg_ledger: Database) -> None:
    for when in ("infinity", "-infinity", "20000-01-01", "0044-03-15 BC"):
        pg_ledger.run(
            f"INSERT INTO pipestate.run (recorded_at, event, actor) VALUES ('{when}', 'purge', 'me')",
            "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
            f"VALUES ('{when}', 'x', 1, 'y', 'z')",
        )
    assert read(pg_ledger) == []


def test_without_a_ledger_it_says_so(database: Database) -> None:
    with pytest.raises(ConfigError, match="this database has no ledger"):
        read(database)
