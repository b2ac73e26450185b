"""How a database stands: in one snapshot, from the gates and from what the ledger holds."""

from collections.abc import Callable
from datetime import timedelta

from integration.status.conftest import phase_of
from pipestate.runbook.model import Runbook
from pipestate.status.collect import collect
from pipestate.status.model import DayState, Status
from pipestate.verify.checks import find_phases
from pipestate.verify.report import Gate
from support.runbook_samples import NOWHERE
from support.servers import Database
from support.sql_times import run_timed

ReadStatus = Callable[[Database], Status]

ALMOST = timedelta(minutes=2)


def record(when: str, gate: str = "open", *, event: str = "verify", phase: str = "one") -> str:
    return (
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate, reason) "
        f"VALUES (<{when}>, '{event}', 'cron', 'book', '{phase}', '{gate}', 'why not')"
    )


def failure(check: str, *, outcome: str = "failed", level: str = "block") -> str:
    """A result of the run that was written last."""
    return (
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level, message) "
        f"SELECT max(id), '{check}', '{outcome}', '{level}', '{check} is wrong' FROM pipestate.run"
    )


def word(when: str, name: str, person: str) -> str:
    return (
        "INSERT INTO pipestate.attestation (signed_at, runbook, phase, name, person, note) "
        f"VALUES (<{when}>, 'book', 'two', '{name}', '{person}', 's3')"
    )


def fact(when: str, value: float, name: str = "depth") -> str:
    return (
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
        f"VALUES (<{when}>, '{name}', {value}, 'probe', 'cron')"
    )


def test_a_phase_says_its_gate_and_what_is_missing(ledger: Database, status: ReadStatus) -> None:
    ledger.run("INSERT INTO writers VALUES ('ann')")
    found = status(ledger)
    one, two = phase_of(found, "one"), phase_of(found, "two")
    assert (one.gate, two.gate) == (Gate.CLOSED, Gate.CLOSED)
    assert [(verdict.check_id, verdict.message) for verdict in one.missing] == [
        ("quiet", "1 row, first: 'ann'; required rows = 0")
    ]
    assert {verdict.check_id for verdict in two.missing} == {"backup", "agreed", "soak", "short"}
    assert found.database.dialect == ledger.url.get_backend_name()


def test_a_soak_says_when_the_gate_can_open_and_what_else_it_waits_for(
    ledger: Database, status: ReadStatus
) -> None:
    run_timed(ledger, *(record(f"{days} days ago") for days in (3, 2, 1)))
    found = status(ledger)
    two = phase_of(found, "two")
    (soak,) = two.soaks
    assert (soak.of, soak.required, soak.days, soak.passed) == ("book/one", 7, 3.0, False)
    assert two.opening is not None
    assert two.opening.at == soak.opens_at
    assert soak.opens_at is not None
    assert abs(soak.opens_at - found.at - timedelta(days=4)) < ALMOST
    assert two.opening.waits_for == ("backup", "agreed", "short")
    open_streak = phase_of(found, "one").open_streak
    assert open_streak is not None
    assert (open_streak.records, open_streak.days) == (3, 3.0)
    assert open_streak.since is not None
    assert abs(found.at - open_streak.since - timedelta(days=3)) < ALMOST


def test_an_open_gate_needs_no_opening(ledger: Database, status: ReadStatus) -> None:
    assert phase_of(status(ledger), "one").opening is None


def test_the_strip_tells_records_gaps_and_what_was_before_them(ledger: Database, status: ReadStatus) -> None:
    run_timed(
        ledger,
        *(record("10 days ago"), record("9 days ago", "closed"), record("6 days ago")),
        *(record("5 days ago"), record("5 days ago", "closed"), record("0 days ago", event="gate")),
    )
    days = phase_of(status(ledger), "one").days
    assert len(days) == 14
    states = [day.state for day in days]
    assert states[:3] == [DayState.NONE] * 3, "nothing was recorded before"
    assert states[3:9] == [
        *(DayState.OPEN, DayState.CLOSED, DayState.GAP, DayState.GAP, DayState.OPEN, DayState.MIXED)
    ]
    assert states[-1] is DayState.NONE, "today is not over, and what a gate found is no record"
    assert (days[8].open, days[8].closed) == (1, 1)


def test_what_broke_the_streak_is_reported_with_its_checks(ledger: Database, status: ReadStatus) -> None:
    run_timed(
        ledger,
        *(record("9 days ago", "closed"), failure("old")),
        *(record("4 days ago", "closed"), failure("quiet"), failure("slow", outcome="errored")),
        *(failure("only-warned", level="warn"), failure("fine", outcome="passed"), record("3 days ago")),
    )
    found = status(ledger)
    closed = phase_of(found, "one").last_closed
    assert closed is not None
    assert closed.by == "cron"
    assert abs(found.at - closed.at - timedelta(days=4)) < ALMOST
    assert [(each.check, each.message) for each in closed.failures] == [
        *(("quiet", "quiet is wrong"), ("slow", "slow is wrong"))
    ]
    assert phase_of(found, "two").last_closed is None


def test_sign_offs_say_who_how_long_and_how_many_are_missing(ledger: Database, status: ReadStatus) -> None:
    run_timed(
        ledger,
        *(word("30 hours ago", "backup", "dba"), word("6 days ago", "agreed", "Ann")),
        *(word("2 days ago", "agreed", "ann "), word("1 days ago", "agreed", "ben")),
    )
    found = status(ledger)
    backup, agreed = phase_of(found, "two").sign_offs
    assert (backup.missing, backup.until, backup.words[0].is_valid) == (1, None, False), "it has expired"
    assert (backup.words[0].person, backup.words[0].note) == ("dba", "s3")
    assert [each.person for each in agreed.words] == ["ben", "ann "], "the latest word of each person"
    assert (agreed.people, agreed.missing) == (2, 0)
    assert agreed.until is not None
    assert abs(agreed.until - found.at - timedelta(days=5)) < ALMOST, "then ann's word is over"


def test_a_word_too_few_is_counted(ledger: Database, status: ReadStatus) -> None:
    run_timed(ledger, word("2 days ago", "agreed", "ann"), word("1 days ago", "agreed", "ANN"))
    _, agreed = phase_of(status(ledger), "two").sign_offs
    assert (agreed.missing, agreed.until) == (1, None)


def test_observations_have_their_age_their_source_and_who_uses_it(
    ledger: Database, status: ReadStatus
) -> None:
    run_timed(
        ledger,
        *(fact("3 hours ago", 5), fact("2 hours ago", 12), fact("1 days ago", 7, "tickets")),
        *(fact("2 hours ago", 12.5), fact("1 hours ago", 1, "zoo")),
    )
    depth, tickets, zoo = status(ledger).observations
    assert (depth.name, depth.value, depth.source, depth.actor) == ("depth", 12.5, "probe", "cron")
    assert abs(depth.age - timedelta(hours=2)) < ALMOST
    assert depth.checked_by == ("book/two/short",)
    assert depth.fails, "it is too old for the check"
    assert (tickets.name, tickets.checked_by, tickets.fails, zoo.name) == ("tickets", (), (), "zoo")


def test_an_observation_that_its_check_takes_is_not_wrong(ledger: Database, status: ReadStatus) -> None:
    run_timed(ledger, fact("10 minutes ago", 12))
    (depth,) = status(ledger).observations
    assert not depth.fails


def test_the_last_force_is_reported_with_its_reason_and_what_failed(
    ledger: Database, status: ReadStatus
) -> None:
    run_timed(
        ledger,
        *(record("9 days ago", "closed", event="force", phase="two"), failure("soak")),
        *(record("3 days ago", "closed", event="force"), failure("quiet")),
        record("1 days ago", "closed", event="gate"),
    )
    forced = status(ledger).forced
    assert forced is not None
    assert (forced.runbook, forced.phase, forced.by, forced.reason) == ("book", "one", "cron", "why not")
    assert [each.check for each in forced.failures] == ["quiet"]


def test_prepared_statements_are_no_rehearsal(ledger: Database, status: ReadStatus) -> None:
    ledger.run(
        "INSERT INTO pipestate.rehearsal (kind, actor, files, clone, ok, statements, broken) "
        "VALUES ('compat', 'ops', '{\"b2\": \"\"}', 'clone', false, 9, 1)"
    )
    assert status(ledger).rehearsal is None


def test_backfills_and_rehearsals_are_reported(ledger: Database, status: ReadStatus) -> None:
    run_timed(
        ledger,
        "INSERT INTO pipestate.backfill_progress (runbook, name, table_name, key_column, sql_sha256, actor, "
        "rows_seen, rows_expected, rows_updated) VALUES ('book', 'fill', 'writers', 'id', '', 'ops', 41, 100, 40)",
        "INSERT INTO pipestate.rehearsal (rehearsed_at, actor, files, clone, rows, longest_wait_ms, ok) "
        "VALUES (<2 days ago>, 'ops', '{\"b2\": \"x\"}', 'postgresql://clone/db', 100, 12.5, true)",
    )
    found = status(ledger)
    (fill,) = found.backfills
    assert (fill.id, fill.table, fill.percent, fill.rows_updated) == ("fill", "writers", 41, 40)
    assert fill.finished_at is None
    assert found.rehearsal is not None
    assert (found.rehearsal.revisions, found.rehearsal.ok) == (("b2",), True)
    assert not found.rehearsal.unchanged, "there is no such file"


def test_views_come_with_their_page(ledger: Database, status: ReadStatus) -> None:
    ledger.run("INSERT INTO writers VALUES ('ann')")
    (view,) = status(ledger).views
    assert (view.runbook, view.id, view.rows) == ("book", "v", ({"who": "ann"},))


def test_without_a_ledger_everything_else_is_there(database: Database, status: ReadStatus) -> None:
    database.run("CREATE TABLE writers (who text)")
    found = status(database)
    assert found.no_ledger is not None
    assert found.no_ledger.startswith("this database has no ledger: run")
    assert phase_of(found, "one").gate is Gate.OPEN
    two = phase_of(found, "two")
    assert (two.sign_offs, two.soaks, two.open_streak, two.days) == ((), (), None, ())
    assert two.opening is not None
    assert two.opening.at is None, "a check that could not be evaluated has no date"
    assert [view.id for view in found.views] == ["v"]


def test_a_ledger_that_cannot_be_read_is_one_sentence(pg_ledger: Database, status: ReadStatus) -> None:
    pg_ledger.run("CREATE ROLE no_ledger LOGIN PASSWORD 'x'", "GRANT SELECT ON writers TO no_ledger")
    try:
        found = status(Database(pg_ledger.url.set(username="no_ledger", password="x")))
    finally:
        pg_ledger.run("DROP OWNED BY no_ledger", "DROP ROLE no_ledger")
    assert found.no_ledger == "the ledger cannot be read: permission denied for schema pipestate"
    assert phase_of(found, "one").gate is Gate.OPEN


def test_times_that_python_does_not_know_break_nothing(pg_ledger: Database, status: ReadStatus) -> None:
    pg_ledger.run(
        *(
            statement.replace("<when>", f"'{when}'")
            for when in ("infinity", "-infinity", "20000-01-01", "0044-03-15 BC")
            for statement in (
                record("when", "closed"),
                record("when", "closed", event="force"),
                word("when", "backup", "dba"),
                fact("when", 1),
                "INSERT INTO pipestate.rehearsal (rehearsed_at, actor, files, clone) VALUES (<when>, 'a', '{}', 'c')",
            )
        ),
    )
    found = status(pg_ledger)
    assert found.no_ledger is None
    assert (found.forced, found.observations, found.rehearsal) == (None, (), None)
    assert phase_of(found, "one").last_closed is None


def test_a_large_ledger_is_not_read_through(pg_ledger: Database, book: Runbook) -> None:
    """Years of records of other pages, and a probe of every minute: only indexes are read."""
    pg_ledger.run(
        "INSERT INTO pipestate.run (recorded_at, event, actor, runbook, phase, gate) SELECT now() - n * "
        "interval '1 hour', 'verify', 'cron', 'book' || n % 20, 'one', 'open' FROM generate_series(1, 20000) n",
        "INSERT INTO pipestate.result (run_id, check_id, outcome, level) "
        "SELECT id, 'quiet', 'passed', 'block' FROM pipestate.run",
        "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) SELECT now() - n * "
        "interval '1 minute', 'name' || n % 5, n, 'probe', 'cron' FROM generate_series(1, 20000) n",
        *(f"ANALYZE pipestate.{table}" for table in ("run", "result", "observation")),
    )
    run_timed(pg_ledger, record("2 days ago", "closed"), failure("quiet"), record("1 days ago"))
    read = (
        "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE schemaname = 'pipestate'"
    )
    with pg_ledger.reader() as connection:
        found = collect(connection, pg_ledger.url, find_phases([book]), NOWHERE)
        assert connection.exec_driver_sql(read).scalar_one() == 0
    assert len(found.observations) == 5
    assert phase_of(found, "one").last_closed is not None
