"""Gates in another project's revisions, under the env.py that `alembic init` writes."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.alembic_runs import psql
from support.programs import run_program
from support.runbook_samples import block, page
from support.servers import Database

ENV = """
from alembic import context
from sqlalchemy import create_engine
import os

url = os.environ["APP_URL"]
if context.is_offline_mode():
    context.configure(url=url, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(url)
    with engine.connect() as connection:
        context.configure(connection=connection, transaction_per_migration=True)
        with context.begin_transaction():
            context.run_migrations()
"""
FIRST = """
from alembic import op
revision, down_revision = "a1", None
def upgrade():
    op.execute("CREATE TABLE old_orders (id int PRIMARY KEY, written_at timestamp)")
def downgrade():
    op.execute("DROP TABLE old_orders")
"""
SECOND = """
from alembic import op
from pipestate.gate import gate
revision, down_revision = "b2", "a1"
def upgrade():
    with gate("orders/ready", lock=["old_orders"], recheck=["quiet"], must_pass=["quiet", "signed"], revision=revision):
        op.execute("DROP TABLE old_orders")
def downgrade():
    op.execute("CREATE TABLE old_orders (id int PRIMARY KEY, written_at timestamp)")
"""
FRONT = '  ready: {from: "a1", until: "b2", opens: ["b2"]}\n'
QUIET = "SELECT count(*) AS recent FROM old_orders WHERE written_at > '2026-01-01'"
SIGNED = "SELECT count(*) AS words FROM app_words WHERE word LIKE '%go%'"


@pytest.fixture
def app(pg: Database, tmp_path: Path) -> "App":
    (tmp_path / "alembic" / "versions").mkdir(parents=True)
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s/alembic\n")
    (tmp_path / "alembic" / "env.py").write_text(ENV)
    (tmp_path / "alembic" / "versions" / "a1.py").write_text(FIRST)
    (tmp_path / "alembic" / "versions" / "b2.py").write_text(SECOND)
    made = App(tmp_path, pg)
    made.write_runbook()
    pg.run("CREATE TABLE app_words (word text)")
    assert made.pipestate("ledger", "install").returncode == 0
    return made


class App:
    """An application that has never heard of our migrations."""

    def __init__(self, root: Path, database: Database) -> None:
        self.root = root
        self.database = database

    def write_runbook(self, *blocks: str, front: str = FRONT) -> None:
        parts = blocks or (
            block(QUIET, check="quiet", require="recent = 0"),
            block(SIGNED, check="signed", require="words >= 1"),
        )
        text = page(*parts, name="orders", front=front, phase="ready")
        (self.root / "runbooks" / "orders.md").write_text(text)

    def alembic(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self._run("alembic", *arguments)

    def pipestate(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return self._run("pipestate", *arguments)

    def _run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        url = self.database.url.render_as_string(hide_password=False)
        environment = {**os.environ, "APP_URL": url, "DATABASE_URL": url}
        return run_program(command, cwd=self.root, environment=environment)

    def has_table(self) -> bool:
        return bool(self.database.value("SELECT to_regclass('old_orders') IS NOT NULL"))


def at_a1_with_rows(app: App) -> None:
    assert app.alembic("upgrade", "a1").returncode == 0
    app.database.run("INSERT INTO old_orders VALUES (1, '2025-01-01')")


def test_a_closed_gate_stops_the_revision_and_says_why(app: App) -> None:
    at_a1_with_rows(app)
    done = app.alembic("upgrade", "head")
    assert done.returncode == 255
    assert "Traceback" not in done.stdout + done.stderr
    assert "the gate orders/ready is closed: 1 of 2 checks failed, so nothing of this revision" in done.stderr
    assert "signed: words is 0, required >= 1 (runbooks/orders.md:" in done.stderr
    assert done.stderr.endswith("1 check passed\nNext: pipestate verify orders --phase ready\n")
    assert app.has_table()
    assert app.database.value("SELECT version_num FROM alembic_version") == "a1"


def test_a_closed_gate_gives_the_advice_of_what_failed(app: App) -> None:
    signed = block(SIGNED, check="signed", require="words >= 1")
    app.write_runbook(
        block(QUIET, check="quiet", require="recent = 0"), f"{signed}\nAsk the owner \x1b[2J for a word.\n"
    )
    at_a1_with_rows(app)
    done = app.alembic("upgrade", "head")
    assert re.search(
        r"\n    Advice: Ask the owner \\x1b\[2J for a word\. \(runbooks/orders\.md:\d+\)\n", done.stderr
    )


HOSTILE_REASON = "incident \x1b[2J\n::error::owned"
SHOWN_REASON = r"incident \x1b[2J\n\::error::owned"


def test_the_reason_of_a_force_is_escaped_and_said_once(app: App) -> None:
    """`quiet` and `signed` fail in the pass without the lock, `quiet` again under it."""
    at_a1_with_rows(app)
    app.database.run("UPDATE old_orders SET written_at = '2026-06-01'")
    done = app.alembic("-x", f"force={HOSTILE_REASON}", "upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is closed, and forced: ") == 1
    assert (
        f"the gate orders/ready is closed, and forced: {SHOWN_REASON}; to undo it: alembic downgrade a1\n"
        in done.stderr
    )


def test_a_script_escapes_the_reason_and_warns_once(app: App) -> None:
    at_a1_with_rows(app)
    app.database.run("UPDATE old_orders SET written_at = '2026-06-01'")
    script = app.alembic("-x", f"force={HOSTILE_REASON}", "upgrade", "a1:head", "--sql").stdout
    done = psql(app.database, script)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is closed, and forced: ") == 1
    assert f"is closed, and forced: {SHOWN_REASON}; to undo it: alembic downgrade a1\n" in done.stderr
    assert not app.has_table()


def test_an_open_gate_lets_it_through(app: App) -> None:
    at_a1_with_rows(app)
    app.database.run("INSERT INTO app_words VALUES ('go ahead')")
    done = app.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert not app.has_table()


def test_an_empty_table_is_nothing_to_lose(app: App) -> None:
    done = app.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert not app.has_table()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            '["old_ordres"]',
            "revision b2 locks old_ordres, which does not exist: correct the name in that revision",
        ),
        ('["app.old_orders"]', "revision b2 locks app.old_orders, which does not exist"),
        ('"old_orders"', "lock='old_orders': give a list of the tables"),
        ("[]", "lock=[]: give a list of the tables"),
    ],
)
def test_a_wrong_name_in_lock_is_not_an_empty_table(app: App, wrong: str, said: str) -> None:
    at_a1_with_rows(app)
    write_lock(app, wrong)
    done = app.alembic("upgrade", "head")
    assert (done.returncode, app.has_table()) == (255, True)
    assert said in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    script = app.alembic("upgrade", "a1:b2", "--sql")
    done = psql(app.database, script.stdout, "-v", "ON_ERROR_STOP=0")
    assert said in script.stderr + done.stderr
    assert app.has_table()


def test_a_table_of_another_schema_is_looked_into(app: App) -> None:
    at_a1_with_rows(app)
    app.database.run("CREATE SCHEMA app", "CREATE TABLE app.other AS SELECT 1 AS id")
    write_lock(app, '["app.other"]')
    done = app.alembic("upgrade", "head")
    assert "the gate orders/ready is closed" in done.stderr
    assert app.has_table()


def test_a_table_may_be_gone_where_the_revision_says_so(app: App) -> None:
    at_a1_with_rows(app)
    write_lock(app, '["older_orders"], may_be_gone=True')
    done = app.alembic("upgrade", "head")
    assert "destroys something of old_orders, which its gate has not locked" in done.stderr
    assert app.has_table()
    app.database.run("TRUNCATE old_orders")
    done = app.alembic("upgrade", "head")
    assert done.returncode == 0, done.stderr


def write_lock(app: App, lock: str) -> None:
    (app.root / "alembic" / "versions" / "b2.py").write_text(SECOND.replace('["old_orders"]', lock))


def test_a_gate_without_its_revision_says_how_to_name_it(app: App) -> None:
    at_a1_with_rows(app)
    revision = app.root / "alembic" / "versions" / "b2.py"
    revision.write_text(SECOND.replace(", revision=revision", ""))
    done = app.alembic("upgrade", "head")
    assert (done.returncode, app.has_table()) == (255, True)
    assert "write gate(..., revision=revision)" in done.stderr
    assert "Traceback" not in done.stderr


def test_force_goes_through_with_a_reason(app: App) -> None:
    at_a1_with_rows(app)
    assert app.alembic("-x", "force= ", "upgrade", "head").returncode != 0
    assert app.has_table()
    done = app.alembic("-x", "force=incident 7", "upgrade", "head")
    assert done.returncode == 0
    said = "the gate orders/ready is closed, and forced: incident 7; to undo it: alembic downgrade a1"
    assert done.stderr.count(said) == 1
    assert not app.has_table()


@pytest.mark.parametrize(
    ("blocks", "front", "said"),
    [
        ([block(QUIET, check="quiet", require="recent = 0")], FRONT, "requires signed"),
        ([], '  ready: {from: "a1", until: "b2", opens: ["zz"]}\n', "opens zz, not b2"),
    ],
)
def test_a_runbook_edited_down_does_not_open_the_gate(
    app: App, blocks: list[str], front: str, said: str
) -> None:
    at_a1_with_rows(app)
    app.write_runbook(*blocks, front=front)
    app.database.run("INSERT INTO app_words VALUES ('go ahead')")
    done = app.alembic("upgrade", "head")
    assert done.returncode != 0
    assert said in done.stderr
    assert app.has_table()


def test_a_check_that_errs_keeps_the_gate_closed(app: App) -> None:
    at_a1_with_rows(app)
    app.database.run("DROP TABLE app_words")
    done = app.alembic("upgrade", "head")
    assert done.returncode != 0
    assert 'signed: relation "app_words" does not exist' in done.stderr
    assert app.has_table()


@pytest.mark.parametrize("stop", ["1", "0"])
def test_a_script_carries_the_gate(app: App, stop: str) -> None:
    at_a1_with_rows(app)
    script = app.alembic("upgrade", "a1:b2", "--sql")
    assert script.returncode == 0, script.stderr
    done = psql(app.database, script.stdout, "-v", f"ON_ERROR_STOP={stop}")
    assert "the gate orders/ready is closed" in done.stderr
    assert "signed" in done.stderr
    assert app.has_table()
    assert app.database.value("SELECT version_num FROM alembic_version") == "a1"
    app.database.run("INSERT INTO app_words VALUES ('go ahead')")
    done = psql(app.database, script.stdout, "-v", f"ON_ERROR_STOP={stop}")
    assert done.returncode == 0, done.stderr
    assert not app.has_table()


def test_a_script_cannot_write_through_its_checks(app: App) -> None:
    """A function with effects that the lint cannot know: refused, and the transaction is lost."""
    at_a1_with_rows(app)
    app.database.run(
        "CREATE FUNCTION sneaky() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO app_words VALUES ('go'); RETURN 1; END $$"
    )
    app.write_runbook(
        block("SELECT sneaky() AS recent", check="quiet", require="recent = 1"),
        block(SIGNED, check="signed", require="words >= 1"),
    )
    script = app.alembic("upgrade", "a1:b2", "--sql").stdout
    done = psql(app.database, script)
    assert "read-only transaction" in done.stderr
    assert app.has_table()
    assert app.database.value("SELECT count(*) FROM app_words") == 0
    assert "read-only transaction" in app.alembic("upgrade", "head").stderr


def test_verify_gate_and_plan_serve_that_project(app: App) -> None:
    at_a1_with_rows(app)
    verified = app.pipestate("verify")
    assert verified.returncode == 1, verified.stderr
    assert "orders/ready closed" in verified.stdout
    assert app.pipestate("gate", "ready").returncode == 1
    planned = app.pipestate("plan")
    assert "b2 waits for orders/ready" in planned.stdout
    app.database.run("INSERT INTO app_words VALUES ('go ahead')")
    assert app.pipestate("gate", "orders/ready").returncode == 0
    assert "the gate is open: alembic upgrade head" in app.pipestate("plan").stdout


def test_require_evaluates_checks_at_once_and_locks_nothing(app: App) -> None:
    at_a1_with_rows(app)
    text = SECOND.replace("import gate", "import gate, require").replace(
        "    with gate(", '    require("orders/ready", ["quiet"], revision=revision)\n    with gate('
    )
    (app.root / "alembic" / "versions" / "b2.py").write_text(text)
    app.database.run("INSERT INTO app_words VALUES ('go')", "UPDATE old_orders SET written_at = '2026-02-02'")
    done = app.alembic("upgrade", "head")
    assert done.returncode == 255
    assert "quiet: recent is 1, required = 0" in done.stderr
    script = app.alembic("upgrade", "a1:b2", "--sql")
    assert "require() evaluates checks in a running migration, which a script cannot" in script.stderr
    app.database.run("UPDATE old_orders SET written_at = '2025-01-01'")
    assert app.alembic("upgrade", "head").returncode == 0
    assert not app.has_table()
