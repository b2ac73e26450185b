"""`pipestate rehearse` in a project whose revisions stall: on a clone, and nowhere else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import terminal
from attacks.attacked import Done
from attacks.project import Project, lay_out
from bed import Database, Postgres
from pipestate.render.rehearse_data import SCHEMA
from terminal import Typed, in_terminals

pytestmark = pytest.mark.scene

LIMIT = "150ms"


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Project:
    made = lay_out("stalling", tmp_path / "project", pg)
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


def told(done: Done) -> dict[str, Any]:
    assert "Traceback" not in done.stderr, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    return data


def version(database: Database) -> object:
    return database.value("SELECT version_num FROM alembic_version")


def test_each_stall_with_its_line_and_what_avoids_it(project: Project, clone: Database) -> None:
    done = rehearse(project, clone, "--max-stall", LIMIT, "--there-and-back", "--json")
    data = told(done)
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
        ("e5_check.py:10", "asks", ["pipestate.ddl.lock_tables"]),
        ("e5_check.py:10", "validates", ["pipestate.ddl.add_checks"]),
        ("f6_column.py:10", "asks", ["pipestate.ddl.lock_tables"]),
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
    assert rehearse(project, clone, "--max-stall", "soon").returncode == 2
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


def test_gates_are_asked_and_passed_and_a_failure_says_where_the_clone_is(
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
    assert "gate shop/ready is closed: approved, passed for the rehearsal" in screen
    assert "waiting for it is bounded (read from lock_timeout: 200 ms)" in screen
    assert "Gate shop/ready: closed (approved), as before" in screen
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
    assert "SQLite: locks are the file's." in done.stdout
    assert "After the way back: table approvals is new." in done.stdout
    assert "The way there and back failed (migrations/versions/a1_orders.py:12): " in done.stdout
    assert "is production itself" in rehearse(project, production, *named).stderr


def test_on_a_terminal_a_line_says_which_revision_runs(tmp_path: Path, pg: Database) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    clone = Database(pg.url.__class__.create("sqlite", database=str(tmp_path / "clone")))
    clone.run("CREATE TABLE other (id integer)")
    project.edit("alembic.ini", ("sqlalchemy.url", "other.url"))
    typed = Typed(("rehearse", "--on", clone.text, "--to", "a1"), columns=80)
    (written,) = in_terminals([typed], cwd=project.root)
    screen = terminal.plain(written)
    assert "a1 runs on the clone 0:00:00" in screen
    assert "upgrading the clone from base to a1 0:00:00" in screen
    settled = screen.rpartition("upgrading the clone")[2].splitlines()
    assert [line for line in settled if len(line) > 80] == []
