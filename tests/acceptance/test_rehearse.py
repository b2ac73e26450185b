"""`pipestate rehearse` in a project whose revisions make others wait: on a clone, and nowhere else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attacks.attacked import Done
from attacks.project import Project, lay_out
from support import terminal
from support.documentation import find_schema
from support.servers import Database, Postgres
from support.terminal import Typed, in_terminals

pytestmark = pytest.mark.scene

LIMIT = "150ms"


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Project:
    made = lay_out("waiting", tmp_path / "project", pg)
    done = made.alembic("upgrade", "a1")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def clone(postgres: Postgres, project: Project) -> Iterator[Database]:
    made = postgres.create(project.database.url.database)
    yield made
    postgres.drop(made)


def rehearse(project: Project, on: Database, *options: str) -> Done:
    return project.pipestate("rehearse", "--on", on.text, *options)


def reported(done: Done) -> dict[str, Any]:
    assert "Traceback" not in done.stderr, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, json.loads(find_schema("rehearse").read_text()))
    return data


def version(database: Database) -> object:
    return database.value("SELECT version_num FROM alembic_version")


def test_each_wait_with_its_line_and_what_avoids_it(project: Project, clone: Database) -> None:
    done = rehearse(project, clone, "--max-wait", LIMIT, "--there-and-back", "--json")
    data = reported(done)
    assert (done.returncode, data["ok"], data["before"], data["after"]) == (1, False, "a1", "f6"), done.stderr
    assert (version(clone), version(project.database)) == ("f6", "a1")
    by_id = {each["revision"]: each["tables"][0] for each in data["revisions"]}
    assert {name: each["modes"][0] for name, each in by_id.items()} == {
        "b2": "SHARE",
        "c3": "ACCESS EXCLUSIVE",
        "d4": "ROW EXCLUSIVE",
        "e5": "ACCESS EXCLUSIVE",
        "f6": "ACCESS EXCLUSIVE",
    }
    assert [name for name, each in by_id.items() if each["rewritten"]] == ["c3"]
    assert {name: each["bounded"] for name, each in by_id.items() if each["bounded"] is not None} == {
        "c3": True,
        "e5": False,
        "f6": False,
    }
    assert {each["bounded_by"] for each in by_id.values()} == {"tried", None}
    assert [by_id[name]["waited_for_reader_ms"] >= 2000 for name in ("c3", "e5", "f6")] == [False, True, True]
    assert by_id["b2"]["writer_ms"] > 300 > by_id["b2"]["reader_ms"]
    assert by_id["c3"]["reader_ms"] > 300
    assert by_id["d4"]["rows_ms"] > 300 > by_id["d4"]["writer_ms"]
    findings = [
        (
            Path(each["source"]).name,
            each["what"].split()[0],
            re.findall(r"\w+\.\w+\.\w+|Contract", each["instead"]),
        )
        for each in data["findings"]
    ]
    assert findings == [
        ("b2_index.py:10", "builds", ["pipestate.ddl.create_index"]),
        ("c3_rewrite.py:11", "rewrites", ["pipestate.ddl.add_columns", "Contract"]),
        ("d4_update.py:10", "writes", ["pipestate.ddl.update_in_batches"]),
        ("e5_check.py:10", "requests", ["pipestate.ddl.lock_tables"]),
        ("e5_check.py:10", "validates", ["pipestate.ddl.add_checks"]),
        ("f6_column.py:10", "requests", ["pipestate.ddl.lock_tables"]),
    ]
    assert {each["revision"] for each in data["findings"]} == {"b2", "c3", "d4", "e5", "f6"}
    returned = data["there_and_back"]
    assert returned == {"ok": True, "back": [], "again": [], "failure": None}, returned


def test_what_is_refused_before_anything_runs(project: Project, clone: Database, postgres: Postgres) -> None:
    """Production under another name, a clone that others use or that stands elsewhere, a role that sees nobody."""
    other_name = Database(project.database.url.update_query_dict({"application_name": "a-clone"}))
    same = rehearse(project, other_name)
    assert (same.returncode, same.stdout) == (2, "")
    assert "is production itself" in same.stderr
    with clone.connect() as busy:
        busy.exec_driver_sql("SELECT 1")
        used = rehearse(project, clone)
    assert used.returncode == 2
    assert "1 other session is on " in used.stderr
    role = f"blind_{clone.url.database}"
    clone.run(f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON alembic_version TO {role}")
    blind = rehearse(project, Database(clone.url.set(username=role)))
    clone.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
    assert blind.returncode == 2
    assert f"GRANT pg_monitor TO {role} is enough" in blind.stderr
    clone.run("DELETE FROM alembic_version")
    elsewhere = rehearse(project, clone)
    assert elsewhere.returncode == 2
    assert "is at base, production" in elsewhere.stderr
    assert rehearse(project, clone, "--max-wait", "soon").returncode == 2
    nowhere = rehearse(project, clone, "--format", "markdown", "--output", "nowhere/comment.md")
    assert (nowhere.returncode, "cannot write nowhere/comment.md" in nowhere.stderr) == (2, True)
    assert version(project.database) == "a1"


def test_an_env_py_with_settings_of_its_own_does_not_reach_production(
    project: Project, clone: Database
) -> None:
    project.write("settings.txt", project.database.url.render_as_string(hide_password=False))
    project.use_environment("settings_of_its_own")
    done = rehearse(project, clone)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing was rehearsed: env.py would migrate" in done.stderr
    assert (version(clone), version(project.database)) == ("a1", "a1")


def test_gates_are_evaluated_and_passed_and_a_failure_says_where_the_clone_is(
    pg: Database, postgres: Postgres, tmp_path: Path
) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    assert project.alembic("upgrade", "b2").returncode == 0
    pg.run("INSERT INTO order_log VALUES (1, 'x')")
    project.edit("migrations/versions/d4_receipts.py", ("id integer", "id nonsense"))
    clone = postgres.create(pg.url.database)
    done = rehearse(project, clone)
    screen = " ".join(done.stdout.split())
    assert (done.returncode, version(clone), version(pg)) == (1, "b2", "b2"), done.stderr
    postgres.drop(clone)
    assert "gate shop/ready is closed: approved; the rehearsal ignored it" in screen
    assert "the request gives up (read from lock_timeout: 200 ms)" in screen
    assert "plus the time until production's oldest transaction on order_log ends" in screen
    assert 'Failed (migrations/versions/d4_receipts.py:10): type "nonsense" does not exist' in screen
    assert "The clone is at b2 now, production was not touched." in screen


def test_on_sqlite_revisions_are_timed_and_the_lock_is_the_file(tmp_path: Path, pg: Database) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    production, clone = (
        Database(pg.url.__class__.create("sqlite", database=str(tmp_path / name))) for name in "pc"
    )
    for each in (production, clone):
        each.run("CREATE TABLE other (id integer)")
    named = ("--database-url", production.text, "--to", "a1")
    project.edit("migrations/versions/a1_orders.py", ('op.execute("DROP TABLE approvals")', "pass"))
    done = rehearse(project, clone, "--there-and-back", *named)
    assert done.returncode == 1, done.stderr
    assert "SQLite locks the whole file" in done.stdout
    assert "After the downgrade: table approvals is new." in done.stdout
    assert "The way there and back failed (migrations/versions/a1_orders.py:12): " in done.stdout
    assert "is production itself" in rehearse(project, production, *named).stderr


def test_on_a_terminal_a_line_says_which_revision_runs(tmp_path: Path, pg: Database) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    clone = Database(pg.url.__class__.create("sqlite", database=str(tmp_path / "clone")))
    clone.run("CREATE TABLE other (id integer)")
    project.edit("alembic.ini", ("sqlalchemy.url", "other.url"))
    slow = "def upgrade() -> None:\n    __import__('time').sleep(1.5)  # the line is drawn twice a second\n"
    project.edit("migrations/versions/a1_orders.py", ("def upgrade() -> None:\n", slow))
    typed = Typed(("rehearse", "--on", clone.text, "--to", "a1"), columns=80)
    (written,) = in_terminals([typed], cwd=project.root)
    screen = terminal.plain(written)
    assert " s, a1 runs on the clone" in screen
    assert " s, upgrading the clone from base to a1" in screen
    settled = screen.rpartition("upgrading the clone")[2].splitlines()
    assert [line for line in settled if len(line) > 80] == []


ASYNCHRONOUS = """
import asyncio
import os

from alembic import context
from sqlalchemy import pool
from sqlalchemy.ext.asyncio import create_async_engine


def run(connection):
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()


async def main():
    engine = create_async_engine(os.environ["DATABASE_URL"], poolclass=pool.NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()


asyncio.run(main())
"""


@pytest.mark.parametrize("place", ["environment", "ini"])
def test_the_projects_own_driver_is_kept(project: Project, clone: Database, place: str) -> None:
    """An asynchronous env.py cannot use psycopg2, so DATABASE_URL keeps +asyncpg."""
    project.write("migrations/env.py", ASYNCHRONOUS)
    production = project.database.url.set(drivername="postgresql+asyncpg").render_as_string(
        hide_password=False
    )
    if place == "ini":
        written = project.read("alembic.ini").splitlines()
        project.write(
            "alembic.ini",
            "\n".join(
                f"sqlalchemy.url = {production.replace('%', '%%')}" if "sqlalchemy.url" in line else line
                for line in written
            ),
        )
        production = ""
    else:
        project.edit("alembic.ini", ("sqlalchemy.url", "other.url"))
    done = project.pipestate("rehearse", "--on", clone.text, "--to", "b2", "--json", DATABASE_URL=production)
    assert (done.returncode, reported(done)["after"]) == (0, "b2"), done.stderr


TWICE = """
from alembic import op

revision, down_revision = "b2", "a1"


def upgrade():
    op.execute("SET LOCAL lock_timeout = '100ms'")
    op.execute("ALTER TABLE orders ADD COLUMN token float DEFAULT random() + length(pg_sleep(0.005)::text)")
    op.execute("CREATE INDEX ix_orders_note ON orders (slow(note))")
"""


def test_a_new_column_and_an_index_of_one_revision_are_both_found(project: Project, clone: Database) -> None:
    project.write("migrations/versions/b2_index.py", TWICE)
    data = reported(rehearse(project, clone, "--to", "b2", "--max-wait", LIMIT, "--json"))
    found = {Path(each["source"]).name: each["instead"] for each in data["findings"]}
    assert found["b2_index.py:9"].startswith("the column without its default")
    assert "create_index" in found["b2_index.py:10"]
    assert not any("Contract" in each for each in found.values())


TRIGGER = """
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF new.note = '' THEN RAISE 'empty'; END IF; RETURN new; END $$;
CREATE TRIGGER noted BEFORE INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION noted()
"""
DROPS = """
from alembic import op

revision, down_revision = "b2", "a1"


def upgrade():
    op.execute("{}")
"""


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE orders DROP COLUMN note", "ALTER TABLE orders RENAME COLUMN note TO _pipestate_4_0"],
)
def test_a_dropped_column_that_a_trigger_names_is_broken(
    project: Project, clone: Database, statement: str
) -> None:
    for database in (project.database, clone):
        database.run(TRIGGER)
    project.write("migrations/versions/b2_index.py", DROPS.format(statement))
    done = rehearse(project, clone, "--to", "b2", "--json")
    data = reported(done)
    assert (done.returncode, data["ok"], data["writes"]["tried"], data["writes"]["empty"]) == (
        1,
        False,
        1,
        ["order_log"],
    )
    broken = [(each["table"], each["act"], each["error"][:36]) for each in data["writes"]["broken"]]
    error = 'record "new" has no field "note" (PL'
    assert broken == [("orders", "UPDATE", error), ("orders", "INSERT", error)]
    assert clone.value("SELECT count(*) FROM orders") == 80


def test_revisions_up_to_from_are_applied_and_not_judged(project: Project, clone: Database) -> None:
    nothing = rehearse(project, clone, "--from", "f6", "--to", "f6")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "nothing is pending behind f6" in nothing.stderr
    done = rehearse(project, clone, "--from", "c3", "--to", "d4", "--max-wait", LIMIT, "--json")
    data = reported(done)
    assert (data["before"], data["after"]) == ("c3", "d4")
    assert [each["revision"] for each in data["revisions"]] == ["d4"]
    assert {each["revision"] for each in data["findings"]} == {"d4"}
