"""Patience of the guard: DDL lets others pass, names who blocks, tries again, and repeats no Python."""

import io
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection

from attacks.destructive import sql
from attacks.guarded import Guarded, open_guarded
from pipestate.migration.patience import only_operations
from support.long_form import LONG
from support.programs import watched
from support.servers import Database

SESSION_SETTINGS = (
    "CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('a0')",
    "CREATE TABLE orders (id integer PRIMARY KEY, note text)",
    "INSERT INTO orders VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE items (id integer PRIMARY KEY)",
    "INSERT INTO items VALUES (1)",
)
ADD = "op.add_column('orders', sa.Column('fresh', sa.Text))"
ADD_BOTH = f"op.add_column('items', sa.Column('fresh', sa.Text))\n{ADD}"
DRIVERS = [
    ("generic", "psycopg2"),
    ("per_migration", "psycopg"),
    ("asynchronous", "asyncpg"),
    ("autocommit", "psycopg2"),
]


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Guarded:
    pg.run(*SESSION_SETTINGS)
    project = open_guarded(tmp_path, pg)
    project.write("a0", "pass")
    settle(project, lock_timeout="100ms")
    return project


def settle(project: Guarded, **settings: str) -> None:
    """Write the settings into the ini."""
    ini = project.root / "alembic.ini"
    lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
    ini.write_text(ini.read_text().partition("[pipestate]")[0] + "[pipestate]\n" + lines)


def count_run(path: Path) -> str:
    """Write the Python of a revision that leaves a mark whenever it runs."""
    return f"import pathlib\nruns = pathlib.Path({str(path)!r})\nruns.write_text((runs.read_text() if runs.exists() else '') + 'x')"


@contextmanager
def reader(database: Database, statement: str = "SELECT count(*) FROM orders") -> Iterator[Connection]:
    """Hold a table, as a report does, until the end of the block."""
    with database.connect() as connection:
        connection.exec_driver_sql("SET application_name = 'the report'")
        connection.exec_driver_sql(statement)
        yield connection
        connection.rollback()


@contextmanager
def reader_for(
    database: Database, seconds: float, statement: str = "SELECT count(*) FROM orders"
) -> Iterator[None]:
    """Hold a table for some seconds, beside what the block does."""
    held = threading.Event()

    def hold() -> None:
        with reader(database, statement):
            held.set()
            time.sleep(seconds)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield
    thread.join()


def columns(database: Database, table: str) -> list[object]:
    query = "SELECT attname::text FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = '{}'::regclass"
    return [row[0] for row in database.rows(f"{query.format(table)} ORDER BY attnum")]


@pytest.mark.parametrize(("environment", "driver"), DRIVERS)
def test_it_waits_for_a_reader_and_says_for_whom(
    environment: str, driver: str, project: Guarded, capfd: pytest.CaptureFixture[str]
) -> None:
    project.write("b1", ADD)
    project.use(environment, driver)
    with reader_for(project.database, 4):
        assert project.attempt() is None
    assert columns(project.database, "orders") == ["id", "note", "fresh"]
    said = capfd.readouterr().err
    assert re.search(
        r"waiting for a lock for `ALTER TABLE orders ADD COLUMN fresh TEXT`: pid \d+ \(user \w+, application the report\) "
        r"since 00:00:0\d: SELECT count\(\*\) FROM orders; trying for up to 300 s",
        said,
    )


def test_writers_pass_while_it_waits(project: Guarded) -> None:
    """A writer that comes behind the ALTER is let through before the reader ends."""
    project.write("b1", ADD)
    passed: list[int] = []

    def write() -> None:
        for number in range(10, 20):
            project.database.run(f"INSERT INTO orders VALUES ({number})")
            passed.append(number)
            time.sleep(0.05)

    with reader(project.database) as connection:
        migration = threading.Thread(target=project.attempt)
        migration.start()
        time.sleep(0.3)
        write()
        assert columns(project.database, "orders") == ["id", "note"]
        connection.rollback()
        migration.join()
    assert len(passed) == 10
    assert columns(project.database, "orders") == ["id", "note", "fresh"]


HELD_S = [0.0, 5.0, *([30.0] if LONG else [])]
WRITERS = 4
TIMEOUT_S = 1.0


def longest_wait(database: Database, number: int, ended: threading.Event) -> float:
    """Write until the migration has ended; return how long the slowest write took."""
    waits = []
    with database.connect() as connection:
        while not ended.is_set():
            start = time.monotonic()
            connection.exec_driver_sql(f"UPDATE orders SET note = note WHERE id = {number}")
            connection.commit()
            waits.append(time.monotonic() - start)
            time.sleep(0.005)
    return max(waits)


@pytest.mark.scene
@pytest.mark.parametrize("seconds", HELD_S)
@pytest.mark.parametrize("form", ["a statement", "a step", "Python"])
def test_beside_readers_writers_wait_for_about_one_timeout_and_the_migration_ends(
    form: str, seconds: float, project: Guarded, tmp_path: Path
) -> None:
    """Two readers, the second before the first has ended; four writers, each on its own row."""
    runs = tmp_path / "runs"
    bodies = {"a statement": ADD, "a step": ADD_BOTH, "Python": f"{count_run(runs)}\n{ADD}"}
    project.write("b1", bodies[form])
    settle(project, lock_timeout=f"{TIMEOUT_S:g}s")
    database = project.database
    database.run(f"INSERT INTO orders SELECT n FROM generate_series(10, {9 + WRITERS}) AS n")
    ended = threading.Event()
    with ThreadPoolExecutor(WRITERS + 1) as pool:
        writing = [pool.submit(longest_wait, database, 10 + n, ended) for n in range(WRITERS)]
        with reader_for(database, seconds):
            migrating = pool.submit(project.attempt)
            time.sleep(seconds / 2)
            with reader_for(database, seconds):
                pass
        said = migrating.result()
        ended.set()
        waits = [each.result() for each in writing]
    assert said is None
    assert columns(database, "orders") == ["id", "note", "fresh"]
    assert max(waits) < 2.5 * TIMEOUT_S, waits
    if form == "Python":
        assert runs.read_text() == "x"


def test_python_runs_once_however_often_a_statement_is_tried(project: Guarded, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    project.write("b1", f"{count_run(runs)}\n{ADD}")
    with reader_for(project.database, 1.5):
        assert project.attempt() is None
    assert runs.read_text() == "x"


def test_it_does_not_wait_under_a_strong_lock_and_repeats_no_python(project: Guarded, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    project.write("b1", f"{count_run(runs)}\n{ADD_BOTH}")
    with reader(project.database):
        said = project.attempt()
    assert said is not None
    assert re.match(
        r"no lock for `ALTER TABLE orders ADD COLUMN fresh TEXT` in time: pid \d+ \(user \w+, application the report\)",
        said,
    )
    assert runs.read_text() == "x"
    assert columns(project.database, "items") == ["id"]
    assert project.version() == "a0"


@pytest.mark.parametrize(("environment", "driver"), DRIVERS)
def test_a_step_of_operations_runs_again_under_a_strong_lock(
    environment: str, driver: str, project: Guarded
) -> None:
    project.write("b1", ADD_BOTH)
    project.use(environment, driver)
    with reader_for(project.database, 1):
        assert project.attempt() is None
    assert columns(project.database, "items") == ["id", "fresh"]
    assert columns(project.database, "orders") == ["id", "note", "fresh"]


def test_nobody_waits_behind_the_pause_of_a_step(project: Guarded) -> None:
    """The lock on `items` is given back while the step waits for `orders`."""
    project.write("b1", ADD_BOTH)
    with reader(project.database) as connection:
        migration = threading.Thread(target=project.attempt)
        migration.start()
        time.sleep(0.5)
        project.database.run("SET LOCAL statement_timeout = '15s'", "INSERT INTO items VALUES (2)")
        connection.rollback()
        migration.join()
    assert project.version() == "b1"


def test_earlier_revisions_of_the_transaction_count(project: Guarded) -> None:
    """In one transaction for the run, the lock of an earlier revision stays: it fails, and all is rolled back."""
    project.write("b1", "op.add_column('items', sa.Column('fresh', sa.Text))")
    project.write("c2", ADD)
    with reader(project.database):
        said = project.attempt()
    assert said is not None
    assert "no lock for" in said
    assert project.version() == "a0"
    project.use("per_migration")
    with reader_for(project.database, 1):
        assert project.attempt() is None


def test_patience_ends_with_the_name_of_the_blocker(project: Guarded) -> None:
    settle(project, lock_timeout="50ms", lock_patience="500ms")
    project.write("b1", ADD)
    with reader(project.database):
        said = project.attempt()
    assert said is not None
    assert "application the report" in said
    assert "run the same again" in said


def test_a_deadlock_is_tried_again(project: Guarded) -> None:
    settle(project, lock_timeout="5s")
    project.database.run(f"ALTER DATABASE {project.database.url.database} SET deadlock_timeout = '50ms'")
    project.write("b1", ADD_BOTH)
    with project.database.connect() as other:
        other.exec_driver_sql("SET deadlock_timeout = '30s'")
        other.exec_driver_sql("SELECT count(*) FROM orders")
        migration = threading.Thread(target=project.attempt)
        migration.start()
        time.sleep(0.3)
        assert other.exec_driver_sql("SELECT count(*) FROM items").scalar() == 1
        other.rollback()
        migration.join()
    assert columns(project.database, "orders") == ["id", "note", "fresh"]


def test_rows_and_indexes_built_concurrently_are_not_cancelled(project: Guarded) -> None:
    project.write(
        "b1",
        "with op.get_context().autocommit_block():\n"
        "    op.execute('CREATE INDEX CONCURRENTLY ix ON orders (note)')\n"
        "op.execute(\"UPDATE orders SET note = 'c' WHERE id = 1\")",
    )
    project.use("per_migration")
    with reader_for(project.database, 1, "UPDATE orders SET note = 'held' WHERE id = 1"):
        assert project.attempt() is None
    assert project.database.value("SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix'::regclass") is True


def test_the_timeout_is_gone_after_the_ddl(project: Guarded) -> None:
    project.write(
        "b1",
        f"{ADD}\nop.execute(\"CREATE TABLE kept AS SELECT current_setting('lock_timeout') AS was\")",
    )
    assert project.attempt() is None
    assert project.database.value("SELECT was FROM kept") == "0"


def test_a_timeout_of_the_revision_itself_is_left_alone(project: Guarded) -> None:
    project.write(
        "b1",
        f"op.execute(\"SET LOCAL lock_timeout = '123ms'\")\n{ADD}\n"
        "op.execute(\"CREATE TABLE kept AS SELECT current_setting('lock_timeout') AS was\")",
    )
    assert project.attempt() is None
    assert project.database.value("SELECT was FROM kept") == "123ms"


def test_killed_in_a_pause_it_leaves_nothing(project: Guarded) -> None:
    project.write("b1", ADD_BOTH)
    url = project.database.text.replace("%", "%%")
    ini = project.root / "alembic.ini"
    ini.write_text(re.sub(r"(?m)^sqlalchemy\.url.*$", lambda _: f"sqlalchemy.url = {url}", ini.read_text()))
    with (
        reader(project.database),
        watched(["alembic", "upgrade", "head"], cwd=project.root, environment={}) as process,
    ):
        assert "waiting for a lock" in process.stderr.readline()
        process.kill()
        process.process.join()
    for _ in range(100):
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        if project.database.value(f"{others} AND state <> 'idle'") == 0:
            break
        time.sleep(0.05)
    assert columns(project.database, "items") == ["id"]
    assert project.version() == "a0"
    assert project.attempt() is None


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        (ADD, True),
        ("'''A text'''\npass", True),
        (sql("DROP TABLE x"), True),
        ("with op.batch_alter_table('t') as batch_op:\n    batch_op.drop_column('x')", True),
        (
            "op.create_table('t', sa.Column('id', sa.Integer(), sa.ForeignKey('x.id')), sa.PrimaryKeyConstraint('id'))",
            True,
        ),
        ("op.create_index(op.f('ix'), 't', ['a'])", True),
        ("op.execute(text())", False),
        ("op.get_bind().execute('x')", False),
        ("connection = op.get_bind()", False),
        ("print('x')", False),
        ("for table in TABLES:\n    op.drop_table(table)", False),
        ("if op.get_context():\n    op.drop_table('x')", False),
        ("with op.get_context().autocommit_block():\n    op.execute('x')", False),
        ("op.execute([send() for _ in range(3)])", False),
        ("op.execute((lambda: 'x')())", False),
    ],
)
def test_only_operations_may_run_again(body: str, plain: bool, project: Guarded) -> None:
    project.write("b1", body)
    path = project.root / "migrations" / "versions" / "b1.py"
    assert only_operations(path, "upgrade") is plain


@pytest.mark.parametrize(("setting", "wait"), [("", "200ms"), ("lock_timeout = 700ms", "700ms")])
def test_helpers_take_the_same_setting(setting: str, wait: str, project: Guarded) -> None:
    settle(project)
    ini = project.root / "alembic.ini"
    ini.write_text(ini.read_text() + setting + "\n")
    project.write("b1", "lock_tables('orders')", top="from pipestate.ddl import lock_tables")
    env = project.root / "migrations" / "env.py"
    env.write_text(
        "from alembic import context\n\ncontext.configure(dialect_name='postgresql')\ncontext.run_migrations()\n"
    )
    config = project.config()
    config.output_buffer = written = io.StringIO()
    command.upgrade(config, "a0:b1", sql=True)
    assert f"{wait.removesuffix('ms')} ms at a time" in written.getvalue()
