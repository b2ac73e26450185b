"""Disuse: the count starts anew whenever a statement may have run unseen. A false "unused" is the fault that counts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from pipestate.core.errors import ConfigError
from pipestate.ledger.install import install
from pipestate.ledger.record import COMPAT, Rehearsed, record_rehearsal
from pipestate.ledger.statements import (
    StatementSource,
    changed_names,
    make_watch,
    observe_statements,
    read_objects,
)
from support.counting_server import counting_server, crash, restart
from support.long_form import LONG
from support.servers import Database, Postgres

FILES = {"c3": "the digest of c3"}
FAKE = StatementSource("stats.statements", "stats.info")
# The columns of pg_stat_statements and pg_stat_statements_info that are read.
SHAPE = (
    "CREATE SCHEMA stats",
    "CREATE TABLE stats.statements (userid oid, dbid oid, toplevel boolean, queryid bigint, query text, calls bigint, "
    "total_exec_time float8, PRIMARY KEY (queryid, userid))",
    "CREATE TABLE stats.info (dealloc bigint, stats_reset timestamptz)",
    "INSERT INTO stats.info VALUES (0, now())",
)
OLD, NEW = "SELECT old_status FROM orders WHERE id = $1", "SELECT status FROM orders WHERE id = $1"


@dataclass
class Watched:
    """A database with statistics, the contract c3 on `orders`, and the statements that are known to be harmless."""

    database: Database
    source: StatementSource | None = None
    harmless: set[str] = field(default_factory=lambda: {NEW})

    def compat(self, files: dict[str, str] = FILES, words: tuple[str, ...] = ("orders",)) -> None:
        with self.database.begin() as connection:
            watch = make_watch(connection, words, files, [(OLD, "c3")], self.harmless, self.source)
            done = Rehearsed(
                revision="b2",
                target="c3",
                files=files,
                clone="clone",
                ok=True,
                duration_ms=1,
                kind=COMPAT,
                watch=watch,
            )
            record_rehearsal(connection, done)

    def observe(self, *, after_hours: float = 0, except_: tuple[str, ...] = ()) -> None:
        """Let time pass, then observe."""
        self.pass_hours(after_hours)
        with self.database.begin() as connection:
            observe_statements(connection, FILES, except_=except_, source=self.source)

    def pass_hours(self, hours: float) -> None:
        self.database.run(
            f"UPDATE pipestate.statement_calls SET observed_at = observed_at - {hours} * interval '1 hour'"
        )

    def run(self, query: str, times: int = 1) -> None:
        """Count calls as the server would."""
        self.database.run(
            "INSERT INTO stats.statements SELECT 10, d.oid, true, hashtextextended("
            f"$q${query}$q$, 0), $q${query}$q$, {times}, random() FROM pg_database d WHERE datname = current_database() "
            "ON CONFLICT (queryid, userid) DO UPDATE SET calls = statements.calls + excluded.calls, "
            "total_exec_time = statements.total_exec_time + excluded.total_exec_time"
        )

    def answer(self, files: str = '{"c3": "the digest of c3"}') -> tuple[float | None, str | None]:
        with self.database.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL pipestate.files = '{files}'")
            row = connection.exec_driver_sql("SELECT days_unused, why FROM pipestate.disuse").first()
            return (None, None) if row is None else (None if row[0] is None else float(row[0]), row[1])


@pytest.fixture
def watched(pg_ledger: Database) -> Watched:
    pg_ledger.run(*SHAPE)
    made = Watched(pg_ledger, FAKE)
    made.run(OLD, 7)
    made.run(NEW, 100)
    made.run("SELECT 1", 100)
    made.compat()
    made.observe()
    made.observe(after_hours=24)
    made.observe(after_hours=24)
    assert made.answer() == (2.0, "the first observation of this contract")
    return made


STATEMENT = "FROM orders WHERE id = $1"
# Something that happens between two observations, and the reason that the count then begins anew for.
ANEW = [
    (
        f"UPDATE stats.statements SET calls = calls + 1, total_exec_time = 9 WHERE query = '{OLD}'",
        f"it ran: {OLD}",
    ),
    (f"UPDATE stats.statements SET calls = 1 WHERE query = '{OLD}'", f"it ran: {OLD}"),
    (f"UPDATE stats.statements SET total_exec_time = 0.5 WHERE query = '{OLD}'", f"it ran: {OLD}"),
    (f"DELETE FROM stats.statements WHERE query = '{OLD}'", "the statistics of a statement were removed"),
    (
        "UPDATE stats.info SET stats_reset = clock_timestamp()",
        "the statistics were reset, or lost in a crash",
    ),
    (
        "UPDATE stats.info SET dealloc = dealloc + 1",
        "the server evicted statements: raise pg_stat_statements.max",
    ),
    (
        "DELETE FROM stats.statements; UPDATE pipestate.statement_calls SET started_at = '2020-01-01'",
        "the server restarted, and no statement shows that it kept its statistics",
    ),
    (
        "UPDATE stats.info SET dealloc = 0, stats_reset = '2020-01-01'",
        "the statistics were reset, or lost in a crash",
    ),
    (
        "UPDATE pipestate.statement_calls SET observed_at = observed_at - interval '25 hours'",
        "no observation for more than 48 hours",
    ),
    ("UPDATE pipestate.statement_calls SET server = '12, timeline 00000001'", "another server or version: "),
    ("UPDATE pipestate.statement_calls SET fault = 'not counted'", "before it: not counted"),
    (
        "UPDATE pipestate.statement_calls SET observed_at = observed_at + interval '26 hours'",
        "no observation for more",
    ),
]


@pytest.mark.parametrize(("happens", "why"), ANEW)
def test_the_count_begins_anew(watched: Watched, happens: str, why: str) -> None:
    watched.pass_hours(24)
    watched.database.run(happens)
    watched.observe()
    days, said = watched.answer()
    assert (days, (said or "").startswith(why)) == (0.0, True), said
    watched.observe(after_hours=12)
    assert watched.answer()[0] == 0.5


@pytest.mark.parametrize(
    "query",
    [
        "SELECT other FROM public.orders",
        'SELECT "old_status" FROM "orders"',
        "COPY ORDERS TO STDOUT",
        "SELECT old_status FROM Orders o JOIN lines l ON l.order_id = o.id",
    ],
)
def test_a_statement_that_compat_never_saw_is_a_use(watched: Watched, query: str) -> None:
    """Another compat may find it harmless: then it never was one."""
    watched.run(query)
    watched.observe(after_hours=24)
    assert watched.answer() == (0.0, f"it ran: {query}")
    watched.harmless.add(query)
    watched.compat()
    assert watched.answer() == (3.0, "the first observation of this contract")


def test_what_is_not_known_is_not_unused(watched: Watched) -> None:
    """Each of these is NULL, which no check passes."""
    assert watched.answer('{"c3": "edited"}') == (None, None)
    assert watched.answer("{}") == (None, None)
    watched.pass_hours(49)
    assert watched.answer() == (None, "no observation for more than 48 hours")
    watched.pass_hours(-50)
    assert watched.answer() == (None, "an observation lies in the future")
    watched.compat(words=())
    assert watched.answer() == (None, "compat found no table to watch, or a revision failed on the clone")
    watched.compat(words=("lines",))
    assert watched.answer() == (None, "no observation of this contract yet: pipestate observe")


@pytest.mark.parametrize(
    ("fault", "source", "why"),
    [
        ("UPDATE stats.info SET stats_reset = NULL", FAKE, "evictions are not counted"),
        ("SELECT 1", StatementSource("stats.statements", None), "evictions are not counted"),
        ("INSERT INTO stats.statements SELECT 11, oid, true, 1, '<insufficient privilege>', 1, 1 FROM pg_database "
         "WHERE datname = current_database()", FAKE, "statements of other roles are hidden"),
        ("CREATE FUNCTION old() RETURNS text LANGUAGE sql AS 'SELECT ''x'' /* Orders */'", FAKE, "statements inside functions"),
        ("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET pg_stat_statements.track = none', current_database()); END $$",
         FAKE, "a role or database has its own setting"),
    ],
)  # fmt: skip
def test_statements_that_may_go_uncounted(
    watched: Watched, fault: str, source: StatementSource, why: str
) -> None:
    watched.database.run(fault)
    watched.source = source
    watched.observe(after_hours=1)
    days, said = watched.answer()
    assert (days, (said or "").startswith(why)) == (None, True), said


def test_statements_of_roles_that_are_left_out(watched: Watched) -> None:
    """Backups and checks read the old column, too."""
    watched.database.run(
        "INSERT INTO stats.statements SELECT r.oid, d.oid, true, 5, 'COPY public.orders TO stdout', 1, 1 "
        "FROM pg_database d, pg_roles r WHERE datname = current_database() AND rolname = 'pg_monitor'"
    )
    watched.observe(after_hours=24, except_=("pg_monitor",))
    assert watched.answer()[0] == 3.0
    watched.observe(after_hours=24)
    assert watched.answer() == (0.0, "it ran: COPY public.orders TO stdout")


def test_a_copy_of_the_database_has_no_proof(watched: Watched) -> None:
    watched.database.run("UPDATE pipestate.statement_calls SET database = 'another'")
    assert watched.answer() == (None, "no observation of this contract yet: pipestate observe")


@pytest.mark.parametrize("seed", range(40 if LONG else 4))
def test_no_use_is_missed(pg_ledger: Database, seed: int) -> None:
    """60 statements, rare ones among them, evictions, resets and crashes at random: none is missed."""
    chance = random.Random(seed)
    pg_ledger.run(*SHAPE)
    watched = Watched(pg_ledger, FAKE)
    every = [f"SELECT c{number} {STATEMENT}" for number in range(40)] + [
        f"SELECT {n} FROM lines" for n in range(20)
    ]
    watched.harmless = set(every[:15])  # 25 break or were never seen; 20 name another table
    uses = set(every[15:40])
    for query in chance.sample(every, 30):
        watched.run(query)
    watched.compat()
    hours_ago: float | None = None  # when the last of the uses ran
    proven = 0
    for _ in range(60):
        for _ in range(chance.randrange(3)):
            passed = chance.choice((0.1, 5, 12, 30))
            watched.pass_hours(passed)
            hours_ago = None if hours_ago is None else hours_ago + passed
            happens = chance.choices(
                ("harmless", "use", "evict", "reset", "reset one", "crash"), (60, 6, 3, 2, 2, 2)
            )[0]
            if happens == "harmless":
                watched.run(chance.choice([query for query in every if query not in uses]), 3)
            elif happens in ("use", "evict", "reset", "crash"):
                watched.run(chance.choice(sorted(uses)))
                hours_ago = 0.0
            if happens == "evict":
                pg_ledger.run(
                    "DELETE FROM stats.statements WHERE calls < 3",
                    "UPDATE stats.info SET dealloc = dealloc + 1",
                )
            if happens in ("reset", "crash"):
                pg_ledger.run(
                    "DELETE FROM stats.statements",
                    "UPDATE stats.info SET dealloc = 0, stats_reset = clock_timestamp()",
                )
            if happens == "reset one":
                pg_ledger.run(
                    "DELETE FROM stats.statements WHERE queryid = (SELECT max(queryid) FROM stats.statements)"
                )
        watched.observe()
        days, why = watched.answer()
        assert days is not None, why
        if hours_ago is not None:
            assert days * 24 <= hours_ago + 0.001, (days * 24, hours_ago, why)
        proven += days > 0.5
    assert proven > 5, "the count never got anywhere, so this proves nothing"


def test_the_names_that_a_contract_changes(pg: Database) -> None:
    """Tables that are dropped or have other columns, views and functions; not what is new."""
    pg.run(
        "CREATE SCHEMA sales",
        "CREATE TABLE orders (id int PRIMARY KEY, old text)",
        'CREATE TABLE sales."Lines" (id int)',
        "CREATE TABLE log (id int)",
        "CREATE TABLE kept (id int)",
        "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS 'SELECT a'",
        "CREATE VIEW recent AS SELECT old FROM orders",
    )
    with pg.begin() as connection:
        before = read_objects(connection)
    pg.run(
        "DROP VIEW recent",
        "ALTER TABLE orders DROP old",
        'ALTER TABLE sales."Lines" ADD kind text NOT NULL',
        "DROP TABLE log",
        "DROP FUNCTION f",
        "CREATE TABLE fresh (id int)",
    )
    with pg.begin() as connection:
        assert changed_names(before, read_objects(connection)) == ["f", "lines", "log", "orders", "recent"]


def test_without_the_extension(pg_ledger: Database) -> None:
    with pg_ledger.begin() as connection, pytest.raises(ConfigError, match="has no pg_stat_statements"):
        observe_statements(connection, FILES)


@pytest.fixture(scope="module")
def counting() -> Iterator[Postgres]:
    with counting_server() as server:
        yield server


@pytest.fixture
def real(counting: Postgres) -> Iterator[Watched]:
    """A database of a server that counts its statements, with the contract on record and two observations."""
    database = counting.create()
    database.run(
        "CREATE EXTENSION pg_stat_statements", "CREATE TABLE orders (id int, old_status text, status text)"
    )
    with database.begin() as connection:
        install(connection)
    made = Watched(database)
    # The test before may have filled the server's table: one more statement would evict another.
    database.run("SELECT pg_stat_statements_reset()", OLD.replace("$1", "1"), NEW.replace("$1", "1"))
    made.compat()
    made.observe()
    made.observe(after_hours=24)
    assert made.answer() == (1.0, "the first observation of this contract")
    yield made
    counting.drop(database)


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (OLD.replace("$1", "2"), f"it ran: {OLD}"),
        ("UPDATE orders SET old_status = 'x'", "it ran: UPDATE orders SET old_status = $1"),
        ("SELECT pg_stat_statements_reset()", "the statistics were reset, or lost in a crash"),
        ("SELECT pg_stat_statements_reset(0, 0, queryid) FROM pg_stat_statements WHERE query LIKE 'SELECT old\\_status%'",
         "the statistics of a statement were removed"),
        ("DO $$ BEGIN FOR n IN 1..8191 LOOP EXECUTE 'SELECT 1' || replace(replace(n::bit(13)::text, '0', '+1'), '1', '-1');"
         " END LOOP; END $$", "the server evicted statements"),
    ],
)  # fmt: skip
def test_on_the_real_extension(real: Watched, happens: str, why: str) -> None:
    real.database.run(NEW.replace("$1", "3"))
    real.observe(after_hours=24)
    assert real.answer()[0] == 2.0
    real.database.run(happens)
    real.observe(after_hours=24)
    days, said = real.answer()
    assert (days, (said or "").startswith(why)) == (0.0, True), said


def test_a_restart_that_keeps_the_statistics(real: Watched, counting: Postgres) -> None:
    real.database.leave()
    restart(counting)
    real.observe(after_hours=24)
    assert real.answer()[0] == 2.0


def test_a_crash_that_loses_them(real: Watched, counting: Postgres) -> None:
    """The statement ran for the first time, and its entry is lost with all others."""
    crash(counting, real.database)
    real.observe(after_hours=1)
    real.observe(after_hours=24)
    assert real.answer()[0] == 1.0
    real.database.run(OLD.replace("$1", "1"))
    crash(counting, real.database)
    real.observe(after_hours=24)
    assert real.answer() == (0.0, "the statistics were reset, or lost in a crash")
