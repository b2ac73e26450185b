"""`rehearse --record`: a gate that demands a rehearsal of exactly these files."""

import re
from pathlib import Path

import pytest

from alembics import psql
from attacks.project import lay_out
from bed import Database, Postgres

pytestmark = pytest.mark.scene

DEMAND = """
```sql
-- check: rehearsed
-- dialect: postgresql
-- require: longest_stall_ms <= 10000 and age_seconds <= 3600 and bounded = true
SELECT longest_stall_ms, age_seconds, bounded FROM pipestate.rehearsed WHERE revision = 'c3';
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
    clone = postgres.create(pg.url.database)

    closed = project.pipestate("gate", "shop/ready")
    assert (closed.returncode, "rehearsed" in closed.stdout) == (1, True), closed.stdout + closed.stderr
    in_markdown = ("--format", "markdown", "--output", "comment.md")
    done = project.pipestate("rehearse", "--on", clone.text, "--record", *in_markdown)
    postgres.drop(clone)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    comment = project.read("comment.md")
    assert comment.startswith("### ✅ pipestate rehearse: The longest wait is ")
    assert re.search(r"\| order\\_log<br>1 row, .* \| bounded \(tried: it gave up after \d+ ms\) \|", comment)
    assert "| shop/ready | closed (rehearsed) | past |" in comment
    assert project.pipestate("gate", "shop/ready", "--json").returncode == 0
    assert "c3, d4: longest wait " in project.pipestate("history", "--event", "rehearsal").stdout
    kept = pg.rows("SELECT kind, bounded, scale, tables ->> 'order_log' FROM pipestate.rehearsal")
    assert kept == [("rehearse", True, 1.0, "1")]
    as_rehearsed, written = project.read(CONTRACT), project.script("b2:c3")

    project.write(CONTRACT, as_rehearsed + "\n# one more thought\n")
    assert project.pipestate("gate", "shop/ready").returncode == 1
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
