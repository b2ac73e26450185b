"""`rehearse --record`: a gate that demands a rehearsal of exactly these files."""

import re
from pathlib import Path

import pytest

from attacks.project import lay_out
from support.alembic_runs import psql
from support.servers import Database, Postgres

pytestmark = pytest.mark.scene

DEMAND = """
```sql
-- check: rehearsed
-- dialect: postgresql
-- require: longest_wait_ms <= 10000 and age_seconds <= 3600 and bounded = true
SELECT longest_wait_ms, age_seconds, bounded FROM pipestate.rehearsed WHERE revision = 'c3';
```
"""
CONTRACT = "migrations/versions/c3_no_log.py"


def test_an_edited_revision_closes_the_gate_that_its_rehearsal_had_opened(
    pg: Database, postgres: Postgres, tmp_path: Path
) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    assert project.alembic("upgrade", "b2").returncode == 0
    pg.run("INSERT INTO order_log VALUES (1, 'x')", "INSERT INTO approvals VALUES ('the log')")
    project.write("runbooks/shop.md", project.read("runbooks/shop.md") + DEMAND)
    project.write("helpers.py", "limit = 1\n")
    project.write(CONTRACT, f"import helpers\n\n{project.read(CONTRACT)}\nassert helpers.limit\n")
    project.write(
        "alembic.ini", project.read("alembic.ini").replace("[alembic]", "[alembic]\nprepend_sys_path = .")
    )
    clone = postgres.create(pg.url.database)

    closed = project.pipestate("gate", "shop/ready")
    assert (closed.returncode, "rehearsed" in closed.stdout) == (1, True), closed.stdout + closed.stderr
    in_markdown = ("--format", "markdown", "--output", "comment.md")
    done = project.pipestate("rehearse", "--on", clone.text, "--record", *in_markdown)
    postgres.drop(clone)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    comment = project.read("comment.md")
    assert comment.startswith("### ✅ pipestate rehearse: The longest wait is ")
    assert re.search(
        r"\n  order_log  1 row, [^`]* the request gives up \(tried: it gave up after\s+\d+ ms\)", comment
    )
    assert project.pipestate("gate", "shop/ready", "--json").returncode == 0
    assert "c3, d4: longest wait " in project.pipestate("history", "--event", "rehearsal").stdout
    kept = pg.rows("SELECT kind, bounded, scale, tables ->> 'order_log' FROM pipestate.rehearsal")
    assert kept == [("rehearse", True, 1.0, "1")]
    as_rehearsed, written = project.read(CONTRACT), project.script("b2:c3")

    project.write(CONTRACT, as_rehearsed + "\n# one more thought\n")
    assert project.pipestate("gate", "shop/ready").returncode == 1
    project.write(CONTRACT, as_rehearsed)
    assert project.pipestate("gate", "shop/ready").returncode == 0
    env = project.read("migrations/env.py")
    for name, text in (("migrations/env.py", f"{env}\n# another\n"), ("helpers.py", "limit = 2\n")):
        unedited = project.read(name)
        project.write(name, text)
        assert project.pipestate("gate", "shop/ready").returncode == 1, name
        project.write(name, unedited)
    assert project.pipestate("gate", "shop/ready").returncode == 0
    project.write(CONTRACT, as_rehearsed + "\n# one more thought\n")
    refused = project.alembic("upgrade", "head")
    assert refused.returncode == 255
    assert "rehearsed: " in refused.stdout + refused.stderr
    edited = psql(pg, project.script("b2:c3"))
    assert "the gate shop/ready is closed" in edited.stderr
    assert pg.value("SELECT version_num FROM alembic_version") == "b2"

    assert (
        psql(pg, "SELECT * FROM pipestate.rehearsed").stdout.strip().endswith("(0 rows)")
    )  # nobody said which
    script = psql(pg, written)
    assert (script.returncode, "ERROR" in script.stderr) == (0, False), script.stderr
    assert pg.value("SELECT version_num FROM alembic_version") == "c3"


def test_without_a_ledger_or_a_known_production_nothing_is_recorded_and_nothing_runs(
    pg: Database, postgres: Postgres, tmp_path: Path
) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    assert project.alembic("upgrade", "a1").returncode == 0
    clone = postgres.create(pg.url.database)
    bare = project.pipestate("rehearse", "--on", clone.text, "--record")
    assert (bare.returncode, "ledger" in bare.stderr) == (2, True)
    project.edit("alembic.ini", ("sqlalchemy.url", "other.url"))
    unknown = project.pipestate("rehearse", "--on", clone.text, "--record", DATABASE_URL="")
    assert unknown.returncode == 2
    assert "no production is known: name it with --database-url" in unknown.stderr
    assert clone.value("SELECT version_num FROM alembic_version") == "a1"
    postgres.drop(clone)


COMPUTED = "import importlib\n\nNAME = 'js' + 'on'\nimportlib.import_module(NAME)\n"


def test_code_that_is_loaded_by_a_computed_name_is_not_recorded(
    pg: Database, postgres: Postgres, tmp_path: Path
) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    assert project.alembic("upgrade", "b2").returncode == 0
    project.write(CONTRACT, f"{project.read(CONTRACT)}\n{COMPUTED}")
    clone = postgres.create(pg.url.database)
    done = project.pipestate("rehearse", "--on", clone.text, "--record")
    assert (done.returncode, done.stdout) == (2, "")
    assert "c3 cannot be recorded: " in done.stderr
    assert "loads code by a computed name, so a record could not say which code ran" in done.stderr
    assert clone.value("SELECT version_num FROM alembic_version") == "b2"
    postgres.drop(clone)


@pytest.mark.parametrize("rows", [0, 5000])
def test_an_empty_clone_is_no_rehearsal_where_production_was_never_analysed(
    pg: Database, postgres: Postgres, tmp_path: Path, rows: int
) -> None:
    project = lay_out("shop", tmp_path / "project", pg)
    assert project.alembic("upgrade", "b2").returncode == 0
    clone = postgres.create(pg.url.database)
    pg.run(
        "ALTER TABLE order_log SET (autovacuum_enabled = off)",
        f"INSERT INTO order_log SELECT g, 'x' FROM generate_series(1, {rows}) g",
    )
    done = project.pipestate("rehearse", "--on", clone.text, "--record")
    assert done.returncode == 0, done.stderr
    postgres.drop(clone)
    (known,) = pg.rows("SELECT longest_wait_ms IS NOT NULL, scale FROM pipestate.rehearsal")
    assert known == ((True, 1.0) if rows == 0 else (False, None))
