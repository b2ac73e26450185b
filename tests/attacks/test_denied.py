"""Nothing is lost under the guard, however a revision destroys it, in every transaction mode and with each driver.

A revision that loses nothing is not refused. PIPESTATE_TEST_LONG=1 tries every form in every mode with every driver.
"""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect

from attacks import destructive, destructive_sqlite, harmless
from attacks.destructive import sql
from attacks.guarded import ENVIRONMENTS, Guarded, open_guarded
from attacks.psql import feed
from attacks.sessions import wait_until
from support.long_form import LONG, times
from support.servers import Database, Postgres, Sqlite

EVERY = [(name, driver) for name, drivers in ENVIRONMENTS.items() for driver in drivers]
# Where the transaction is somebody else's, Alembic itself refuses an autocommit_block(), and a COMMIT ends the lock.
LENT = ("own_transaction", "multidb", "handed_over", "swallowing")
NOT_IN_LENT = ("autocommit_block", "'COMMIT'")


def in_turn(forms: dict[str, str], *, short: int) -> dict[str, list[tuple[str, str]]]:
    """Give each form some of the modes, so that all of them together meet all modes."""
    turn = cycle(EVERY)
    return {form: EVERY if LONG else [next(turn) for _ in range(short)] for form in forms}


TURNS = in_turn(destructive.FORMS, short=2)
HARMLESS_TURNS = in_turn(harmless.HARMLESS, short=2)


@pytest.fixture(scope="module")
def world(postgres: Postgres) -> Iterator[Database]:
    """One database for all forms: none of them may change it."""
    database = postgres.copy_of("destroyed", lambda fresh: fresh.run(*destructive.SETUP))
    yield database
    postgres.drop(database)


def fill(fresh: Database) -> None:
    fresh.run(*destructive.SETUP, *harmless.SETUP)


@pytest.fixture
def own_world(postgres: Postgres) -> Iterator[Database]:
    """A database of one test."""
    database = postgres.copy_of("harmless", fill)
    yield database
    postgres.drop(database)


@pytest.fixture
def project(own_world: Database, tmp_path: Path) -> Guarded:
    return started(own_world, tmp_path)


def started(database: Database, to: Path) -> Guarded:
    """Open the project, at its first revision."""
    project = open_guarded(to, database)
    project.write("a0", "pass")
    return project


def said_by(project: Guarded) -> str | None:
    """Run all revisions; return what stopped them, be it an error of somebody else's."""
    try:
        return project.attempt()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def is_stopped_otherwise(form: str, environment: str) -> bool:
    """Say whether something else than the comparison stops a form."""
    if any(words in form for words in ("in one text", "after it raises", "commits by itself")):
        return True
    return environment in LENT and any(word in destructive.FORMS[form] for word in (*NOT_IN_LENT, "commit()"))


@pytest.mark.parametrize("form", destructive.FORMS)
def test_it_is_refused_and_undone(form: str, world: Database, tmp_path: Path) -> None:
    project = started(world, tmp_path)
    project.write("b1", destructive.FORMS[form])
    before = destructive.everything(world)
    for environment, driver in TURNS[form]:
        project.use(environment, driver)
        said = said_by(project)
        assert said is not None, (environment, driver)
        assert " loses " in said or is_stopped_otherwise(form, environment), (environment, driver, said)
        assert destructive.everything(world) == before, (environment, driver, said)
        assert project.version() == "a0", (environment, driver, said)


@pytest.mark.parametrize("kind", ["server", "file"])
@pytest.mark.parametrize(("environment", "drivers"), ENVIRONMENTS.items())
def test_a_refusal_is_undone_whatever_env_py_does_with_it(
    environment: str,
    drivers: tuple[str, ...],
    kind: str,
    postgres: Postgres,
    sqlite: Sqlite,
    tmp_path: Path,
) -> None:
    """It logs the error and commits, lends its connection and goes on, or commits each statement."""
    forms = destructive if kind == "server" else destructive_sqlite
    database = (
        postgres.copy_of("destroyed", lambda fresh: fresh.run(*forms.SETUP))
        if kind == "server"
        else sqlite.create()
    )
    if kind == "file":
        database.run(*forms.SETUP)
    before = forms.everything(database)
    project = started(database, tmp_path)
    project.write("b1", "op.add_column('orders', sa.Column('more', sa.Integer()))\nop.drop_table('items')")
    for driver in drivers if kind == "server" else ["aiosqlite" if environment == "asynchronous" else None]:
        project.use(environment, driver)
        said = said_by(project)
        assert "revision b1 loses the table items" in str(said), driver
        assert (forms.everything(database), project.version()) == (before, "a0"), driver
    (postgres if kind == "server" else sqlite).drop(database)


@pytest.mark.parametrize("form", harmless.HARMLESS)
def test_what_loses_nothing_is_not_refused(form: str, postgres: Postgres, tmp_path: Path) -> None:
    body = harmless.HARMLESS[form]
    for number, (environment, driver) in enumerate(HARMLESS_TURNS[form]):
        if environment in LENT and any(word in body for word in NOT_IN_LENT):
            continue
        database = postgres.copy_of("harmless", fill)
        harmless.require_form(form, database)
        project = started(database, tmp_path / str(number))
        project.write("b1", body)
        project.use(environment, driver)
        assert (said_by(project), project.version()) == (None, "b1"), (environment, driver)
        postgres.drop(database)


@pytest.mark.parametrize("form", destructive_sqlite.FORMS)
def test_a_file_loses_nothing(form: str, sqlite: Sqlite, tmp_path: Path) -> None:
    modes = destructive_sqlite.ENVIRONMENTS
    for environment, driver in modes[: times(len(modes), long=len(modes))]:
        database = sqlite.create()
        database.run(*destructive_sqlite.SETUP)
        before = destructive_sqlite.everything(database)
        project = started(database, tmp_path / environment)
        project.write("b1", destructive_sqlite.FORMS[form])
        project.use(environment, driver)
        said = said_by(project)
        assert said is not None, environment
        assert destructive_sqlite.everything(database) == before, (environment, said)
        assert project.version() == "a0", (environment, said)
        sqlite.drop(database)


@pytest.mark.parametrize("form", destructive_sqlite.HARMLESS)
def test_what_loses_nothing_is_not_refused_in_a_file(form: str, sqlite: Sqlite, tmp_path: Path) -> None:
    for environment, driver in destructive_sqlite.ENVIRONMENTS:
        database = sqlite.create()
        database.run(*destructive_sqlite.SETUP)
        project = started(database, tmp_path / environment)
        project.write("b1", destructive_sqlite.HARMLESS[form])
        project.use(environment, driver)
        assert (said_by(project), project.version()) == (None, "b1"), environment
        sqlite.drop(database)


@pytest.mark.parametrize("first", [*destructive_sqlite.LOSING, *destructive_sqlite.KEEPING])
def test_two_batch_blocks_lose_nothing(first: str, sqlite: Sqlite, tmp_path: Path) -> None:
    """Every pair of two operations, in both orders: a full copy of the first block does not vouch for the second."""
    for number, second in enumerate([*destructive_sqlite.LOSING, *destructive_sqlite.KEEPING]):
        database = sqlite.create()
        database.run(*destructive_sqlite.SETUP)
        before = destructive_sqlite.everything(database)
        project = started(database, tmp_path / str(number))
        project.write("b1", destructive_sqlite.pair(first, second))
        said = said_by(project)
        if {first, second} & destructive_sqlite.LOSING.keys():
            assert " loses " in str(said) or "sqlite3." in str(said), (second, said)
            assert (destructive_sqlite.everything(database), project.version()) == (before, "a0"), second
        else:
            assert (said, project.version()) == (None, "b1"), second
            assert database.rows("SELECT id, note FROM orders") == [(1, "a"), (2, "b")]
        sqlite.drop(database)


SHAPE = """
from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine, text

guard(context)
engine = create_engine(context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool{level})
with engine.{open}() as connection:
    {first}
    context.configure(connection=connection, transaction_per_migration={each})
    {run}
    {last}
"""
RUNS = {
    "run_migrations() alone": "context.run_migrations()",
    "begin_transaction()": "with context.begin_transaction():\n        context.run_migrations()",
}
OPENS = [("connect", ""), ("begin", ""), ("connect", ", isolation_level='AUTOCOMMIT'")]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("each", [True, False], ids=["per migration", "one transaction"])
@pytest.mark.parametrize(("open_", "level"), OPENS, ids=["connect", "begin", "autocommit"])
def test_what_env_py_says_has_happened(
    open_: str, level: str, each: bool, run: str, bed: Postgres | Sqlite, tmp_path: Path
) -> None:
    """Applied and stamped, or a sentence: with a commit of its own or none, with a statement before or none."""
    ends = ["pass"] if open_ == "begin" else ["pass", "connection.commit()"]
    for number, (first, last) in enumerate(
        (a, b) for a in ("pass", "connection.execute(text('SELECT 1'))") for b in ends
    ):
        database = bed.create()
        project = started(database, tmp_path / str(number))
        project.write("b1", "op.create_table('fresh', sa.Column('id', sa.Integer))")
        text = SHAPE.format(open=open_, level=level, first=first, each=each, run=RUNS[run], last=last)
        (project.root / "migrations" / "env.py").write_text(text)
        said = said_by(project)
        with database.engine.connect() as connection:
            tables = set(inspect(connection).get_table_names())
        if said is None:
            assert (project.version(), "fresh" in tables) == ("b1", True), (first, last)
        else:
            assert "ended its transaction without a commit, so no revision of this run was applied" in said
            assert (last, "fresh" in tables) == ("pass", False), (first, last)
            assert "alembic_version" not in tables or not database.rows("SELECT * FROM alembic_version")
        bed.drop(database)


KEYS_ON = "PRAGMA foreign_keys = ON"
KEYS_ENV = """
from alembic import context
from pipestate.environment import guard
from sqlalchemy import NullPool, create_engine, event

guard(context)
engine = create_engine(context.config.get_main_option("sqlalchemy.url"), poolclass=NullPool)
{first}
with engine.connect() as connection:
    {before}
    context.configure(connection=connection, transaction_per_migration={each})
    {between}
    with context.begin_transaction():
        {inside}
        context.run_migrations()
    {after}
    assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
"""
RUN = f"connection.exec_driver_sql('{KEYS_ON}')"
LISTEN = "event.listen(engine, 'connect', lambda driver, _: driver.execute('PRAGMA foreign_keys = ON'))"
BEGIN = (
    "event.listen(engine, 'connect', lambda driver, _: setattr(driver, 'isolation_level', None))\n"
    f"event.listen(engine, 'begin', lambda begun: (begun.exec_driver_sql('{KEYS_ON}'), begun.exec_driver_sql('BEGIN')))"
)
SETTERS = {
    "a connect event": {"first": LISTEN},
    "env.py": {"before": RUN, "after": "connection.commit()"},
    "env.py, and commits": {"before": f"{RUN}; connection.commit()"},
    "env.py after configure": {"between": RUN},
    "env.py in the transaction": {"inside": RUN},
    "a begin event, which also begins": {"first": BEGIN},
    "the revision": {"after": RUN},
}
ACTIONS = ["ON DELETE CASCADE", "ON DELETE SET NULL", "ON DELETE SET DEFAULT", ""]


@pytest.mark.parametrize("each", [True, False], ids=["per migration", "one transaction"])
@pytest.mark.parametrize("setter", SETTERS)
def test_a_rebuilt_parent_leaves_its_children_alone(
    setter: str, each: bool, sqlite: Sqlite, tmp_path: Path
) -> None:
    for number, action in enumerate(ACTIONS):
        database = sqlite.create()
        database.run(
            "CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)",
            "INSERT INTO alembic_version VALUES ('a0')",
            f"CREATE TABLE orders (id INTEGER PRIMARY KEY, code TEXT, of INTEGER REFERENCES orders {action})",
            f"CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES ORDERS {action})",
            "INSERT INTO orders VALUES (1, 'a', NULL), (2, 'b', 1)",
            "INSERT INTO items VALUES (1, 1), (2, NULL), (3, 2)",
        )
        before = [database.rows(f"SELECT * FROM {table}") for table in ("orders", "items")]
        project = started(database, tmp_path / str(number))
        parts = dict.fromkeys(("first", "before", "between", "inside", "after"), "pass") | SETTERS[setter]
        (project.root / "migrations" / "env.py").write_text(KEYS_ENV.format(each=each, **parts))
        top = sql(KEYS_ON) + "\n" if setter == "the revision" else ""
        for revision in ("b1", "b2"):
            options = ", recreate='always'"
            body = destructive_sqlite.batch("orders", "alter_column('code', nullable=False)", options=options)
            project.write(revision, top + body)
        said = said_by(project)
        assert [database.rows(f"SELECT * FROM {table}") for table in ("orders", "items")] == before, said
        if "also begins" in setter and action:
            assert "set PRAGMA foreign_keys = OFF on the connection before" in str(said)
            assert project.version() == "a0"
        elif "also begins" not in setter:
            assert (said, project.version()) == (None, "b2")
        sqlite.drop(database)


def test_rows_without_their_parent_are_refused(sqlite: Sqlite, tmp_path: Path) -> None:
    database = sqlite.create()
    database.run(*destructive_sqlite.SETUP)
    before = destructive_sqlite.everything(database)
    project = started(database, tmp_path)
    parts = dict.fromkeys(("first", "before", "between", "inside", "after"), "pass")
    (project.root / "migrations" / "env.py").write_text(
        KEYS_ENV.format(each=True, **parts | {"first": LISTEN})
    )
    project.write("b1", sql("DELETE FROM orders WHERE id = 1"))
    assert "row 1 of items would point at no row of orders" in str(said_by(project))
    assert (destructive_sqlite.everything(database), project.version()) == (before, "a0")
    sqlite.drop(database)


def test_a_database_is_not_dropped_behind_a_comment(project: Guarded) -> None:
    """DROP DATABASE refuses a transaction, and so a comparison: it does not run without one."""
    victim = f"{project.database.url.database}_victim"
    admin = create_engine(project.database.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {victim}")
        statement = sql(f"-- old\nDROP DATABASE {victim}")
        project.write("b1", f"with op.get_context().autocommit_block():\n    {statement}")
        said = said_by(project)
        connection.exec_driver_sql(f"DROP DATABASE {victim}")  # it must be there
    assert said is not None
    assert project.version() == "a0"


def test_a_table_without_statistics_is_not_emptied_by_a_function(project: Guarded) -> None:
    """The planner knows no number of rows before ANALYZE; the server has counted them."""
    database = project.database
    database.run(
        "CREATE TABLE fresh (id int) WITH (autovacuum_enabled = off)",
        "CREATE FUNCTION refill() RETURNS void LANGUAGE plpgsql AS 'BEGIN TRUNCATE fresh; INSERT INTO fresh VALUES (9); END'",
    )
    feed(
        database, "INSERT INTO fresh SELECT generate_series(1, 5000)"
    )  # a session that ends has its rows counted
    counted = "SELECT pg_stat_get_live_tuples('fresh'::regclass)"
    wait_until(lambda: database.value(counted) == 5000, "the rows are counted")
    project.write("b1", sql("SELECT refill()"))
    said = said_by(project)
    assert "loses the rows of fresh (about 5,000 rows)" in str(said)
    assert database.value("SELECT count(*) FROM fresh") == 5000


# --- Over several revisions -------------------------------------------------------------------------

COPIED = harmless.HARMLESS["create, copy, drop, rename"]
LATER = {
    "a copy in the place of the table": (COPIED, "op.drop_table('items')"),
    "a copy of a column in its place": (
        harmless.HARMLESS["a column by copy"],
        "op.drop_column('orders', 'big')",
    ),
    "rows deleted before": (sql("DELETE FROM items WHERE id > 10"), "op.drop_table('items')"),
    "detached before": (harmless.HARMLESS["detached partition"], "op.drop_table('events_1')"),
    "renamed before": ("op.rename_table('items', 'things')", "op.drop_table('things')"),
}


@pytest.mark.parametrize("environment", ["generic", "per_migration", "asynchronous"])
@pytest.mark.parametrize("form", LATER)
def test_an_earlier_revision_makes_no_drop_free(form: str, environment: str, project: Guarded) -> None:
    first, second = LATER[form]
    project.write("b1", first)
    project.write("c2", second)
    project.use(environment, "asyncpg" if environment == "asynchronous" else "psycopg2")
    said = said_by(project)
    assert said is not None
    assert "revision c2 loses" in said
    assert project.version() == ("a0" if environment == "generic" else "b1")


def test_what_the_run_has_created_is_free(project: Guarded) -> None:
    project.write(
        "b1",
        sql("CREATE TABLE t AS SELECT * FROM orders", "ALTER TABLE orders ADD COLUMN tmp text DEFAULT 'x'"),
    )
    project.write("c2", sql("DROP TABLE t", "ALTER TABLE orders DROP COLUMN tmp"))
    assert project.attempt() is None


def test_a_fresh_database_upgrades_from_base_in_silence(pg: Database, tmp_path: Path) -> None:
    project = open_guarded(tmp_path, pg)
    project.write(
        "a1", sql("CREATE TABLE orders (id integer, note text)", "INSERT INTO orders VALUES (1, 'a')")
    )
    project.write("b2", sql("ALTER TABLE orders DROP COLUMN note"))
    project.write("c3", sql("DROP TABLE orders"))
    assert project.attempt() is None


# --- The sentence, and the next steps --------------------------------------------------------------------


def test_the_sentence_names_what_would_be_lost_and_the_next_steps(project: Guarded) -> None:
    project.write("b1", sql("DROP TABLE items", "ALTER TABLE orders DROP COLUMN code, DROP COLUMN big"))
    assert project.attempt() == (
        "the upgrade of revision b1 loses the table items (about 1,993 rows) and the columns big, code of orders (about 3 "
        "rows), so it was rolled back. To go on, put it behind a gate: pipestate revision --contract RUNBOOK/PHASE "
        "--drop-column orders.big --drop-column orders.code --drop-table items; or give a reason: alembic -x "
        'force="reason" upgrade …'
    )


def test_the_way_down_is_denied_likewise(project: Guarded) -> None:
    project.write("b1", "pass", down="op.drop_table('items')")
    assert project.attempt() is None
    said = project.attempt("downgrade", "a0")
    assert said is not None
    assert said.startswith(
        "the downgrade of revision b1 loses the table items (about 1,993 rows), so it was rolled back"
    )
    assert "--contract" not in said
    assert project.version() == "b1"


@pytest.mark.parametrize("environment", ["generic", "asynchronous", "autocommit", "per_migration"])
def test_a_reason_goes_through_and_is_kept(
    environment: str, project: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    project.write("b1", "install_ledger()", top="from pipestate.ddl import install_ledger")
    project.write("c2", "op.drop_table('items')")
    project.use(environment, "asyncpg" if environment == "asynchronous" else "psycopg2")
    assert project.attempt(x=("force=nobody\x1b[31m reads it",)) is None
    rows = project.database.rows("SELECT event, revision, reason FROM pipestate.run WHERE event = 'force'")
    assert rows == [
        ("force", "c2", "loses the table items (about 1,993 rows): nobody\x1b[31m reads it"),
    ]
    applied = project.database.rows(
        "SELECT revision, dropped, reason FROM pipestate.run WHERE event = 'upgrade' ORDER BY id"
    )
    assert applied == [
        ("b1", None, None),
        ("c2", [{"kind": "table", "name": "items", "rows": 1993}], "nobody\x1b[31m reads it"),
    ]
    (line,) = [each.getMessage() for each in caplog.records if each.name == "pipestate"]
    assert line.endswith("and is forced: nobody\\x1b[31m reads it")


def test_an_empty_reason_is_none(project: Guarded) -> None:
    project.write("b1", "op.drop_table('items')")
    said = project.attempt(x=("force= ",))
    assert said == "-x force= is empty: write the reason that passes the closed gate"
    assert project.database.value("SELECT count(*) FROM items") == 1993


@pytest.mark.parametrize("where", ["environment", "ini", "pyproject"])
def test_a_laptop_is_warned(
    where: str, project: Guarded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if where == "environment":
        monkeypatch.setenv("PIPESTATE_ENFORCE", "warn")
    elif where == "ini":
        ini = project.root / "alembic.ini"
        ini.write_text(ini.read_text() + "enforce = warn\n")
    else:
        (project.root / "pyproject.toml").write_text('[tool.pipestate]\nenforce = "warn"\n')
    project.write("b1", "op.drop_table('items')")
    assert project.attempt() is None
    assert "revision b1 loses the table items (about 1,993 rows); losses are not enforced here" in caplog.text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("enforce = never", "enforce = never in [pipestate], or PIPESTATE_ENFORCE: write on or warn"),
        ("lock_timeout = 5", "lock_timeout = 5 in [pipestate]: write a duration as 500ms, 1s or 5m"),
        ("lock_timeout = 0s", "lock_timeout = 0s in [pipestate]: write a duration as 500ms, 1s or 5m"),
    ],
)
def test_a_setting_that_cannot_be_read_is_a_sentence(line: str, said: str, project: Guarded) -> None:
    ini = project.root / "alembic.ini"
    ini.write_text(ini.read_text() + line + "\n")
    project.write("b1", "op.drop_table('items')")
    assert project.attempt() == said
    assert project.version() == "a0"


def test_revisions_up_to_since_are_not_judged(project: Guarded) -> None:
    env = project.root / "migrations" / "env.py"
    env.write_text(env.read_text().replace("guard(context)", "guard(context, since='b1')"))
    project.write("b1", "op.drop_table('cache')")
    project.write("c2", "op.drop_table('items')")
    said = project.attempt()
    assert said is not None
    assert "revision c2 loses the table items" in said
    assert project.attempt(to="b1") is None


def test_since_must_be_a_revision(project: Guarded) -> None:
    env = project.root / "migrations" / "env.py"
    env.write_text(env.read_text().replace("guard(context)", "guard(context, since='nowhere')"))
    project.write("b1", "pass")
    assert project.attempt() == (
        "guard(context, since='nowhere'): this project has no such revision; name one of its own"
    )


def test_fewer_rows_than_before_are_a_warning(project: Guarded, caplog: pytest.LogCaptureFixture) -> None:
    project.write("b1", COPIED.replace("FROM items", "FROM items LIMIT 1000"))
    assert project.attempt() is None
    assert "the new table items has 1,000 rows, and the old one had 1,993" in caplog.text


def test_a_table_that_an_earlier_revision_filled_is_not_emptied(project: Guarded) -> None:
    project.write("b1", sql("INSERT INTO hollow VALUES (1)"))
    project.write("c2", sql("DELETE FROM hollow"))
    said = project.attempt()
    assert said is not None
    assert "revision c2 loses the rows of hollow" in said


def test_a_table_that_was_emptied_with_a_reason_is_empty(project: Guarded) -> None:
    """Its lock and the counters of the transaction remain in the next revision."""
    env = project.root / "migrations" / "env.py"
    env.write_text(env.read_text().replace("guard(context)", "guard(context, since='b1')"))
    project.write("b1", sql("DELETE FROM items"))
    project.write("c2", sql("UPDATE items SET id = 1"))
    assert project.attempt() is None
    project.write("d3", sql("DELETE FROM cache"))
    assert "revision d3 loses the rows of cache (about 1 row)" in str(project.attempt())
    assert project.attempt(x=("force=done",)) is None


def test_the_way_down_does_not_empty_a_table_either(project: Guarded) -> None:
    project.write("b1", "pass", down=sql("DELETE FROM items"))
    assert project.attempt() is None
    assert "the downgrade of revision b1 loses the rows of items" in str(project.attempt("downgrade", "a0"))


def test_without_counters_nothing_is_emptied(project: Guarded) -> None:
    project.database.run(f"ALTER DATABASE {project.database.url.database} SET track_counts = off")
    project.write("b1", sql("INSERT INTO items VALUES (5000, 1)"))
    assert project.attempt() is None
    project.write("c2", sql("DELETE FROM items"))
    assert "revision c2 loses the rows of items" in str(project.attempt())
