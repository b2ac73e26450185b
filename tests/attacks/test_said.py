"""What a message says of a failed run is what the database holds: a dump before, and one after."""

import os
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

from attacks.attacked import install_ledger
from attacks.guarded import Guarded, open_guarded
from attacks.psql import feed
from support.programs import run_program
from support.runbook_samples import block, page
from support.servers import Database, postgres_binary
from support.shop_project import open_shop

LEDGER = r"pipestate|alembic_version"


def dump(database: Database) -> str:
    """Schema and data of the project, without the version table and the ledger."""
    if database.is_sqlite:
        with sqlite3.connect(str(database.url.database)) as driver:
            return "\n".join(line for line in driver.iterdump() if not re.search(LEDGER, line))
    database.leave()
    done = subprocess.run(
        [str(postgres_binary("pg_dump")), "--no-owner", "--exclude-schema=pipestate*", "-T", "alembic_version", database.text],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return re.sub(r"(?m)^(--|\\(un)?restrict|SELECT pg_catalog.setval).*$", "", done.stdout)


PART = "with op.get_context().autocommit_block():\n    op.execute('CREATE TABLE early (id integer)')\n"
LOSS = "op.execute('INSERT INTO orders (id) VALUES (77)')\nop.execute('DROP TABLE items')"
ALONE = (
    "with op.get_context().autocommit_block():\n    op.execute('CREATE TABLE early (id integer)')\n"
    "    op.execute('DROP TABLE items')"
)
BLOCK = "with op.get_context().autocommit_block():\n    op.execute({!r})\n"
BODIES = {
    "whole": LOSS,
    "a part before": PART + LOSS,
    "a part": ALONE,
    "after a bare commit": "op.execute('COMMIT')\n" + LOSS,
    "after a block that reads": BLOCK.format("SELECT count(*) FROM orders WHERE id IN (1)") + LOSS,
    "a bare commit behind a part": "op.execute('CREATE TABLE early (id integer)')\nop.execute('COMMIT')\n"
    + LOSS,
}


@pytest.mark.parametrize(
    ("body", "environment"),
    [
        pytest.param(body, environment, id=f"{name}, {environment}")
        for name, body in BODIES.items()
        for environment in ("generic", "per_migration", "autocommit")
        if "COMMIT" not in body
        or environment != "autocommit"  # SQLite refuses a COMMIT without a transaction
    ],
)
def test_a_loss_says_what_stays(filled: Guarded, environment: str, body: str) -> None:
    filled.use(environment)
    before = dump(filled.database)
    filled.write("b1", body)
    failed = filled.attempt()
    after = dump(filled.database)
    assert failed is not None
    assert "CREATE TABLE items" in after or "CREATE TABLE public.items" in after
    assert ("so it was rolled back" in failed) == (before == after), failed
    if before != after:
        told = failed.partition("only the rest was rolled back: it had committed ")[2].partition(
            ". To go on"
        )[0]
        assert ("CREATE TABLE early" in told) == ("early" in after), failed
        assert ("INSERT INTO orders" in told) == ("77" in after), failed


QUERIES = {
    "into": "SELECT 1 AS id INTO early",
    "a function": "SELECT tidy_up()",
    "a quoted function": 'SELECT public."tidy_up"() AS x',
    "explain": "EXPLAIN ANALYZE INSERT INTO orders VALUES (7)",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_query_that_writes_stays_too(pg: Database, tmp_path: Path, query: str) -> None:
    project = make_filled(pg, tmp_path)
    pg.run(
        "CREATE FUNCTION tidy_up() RETURNS integer LANGUAGE sql AS 'INSERT INTO orders VALUES (7) RETURNING id'"
    )
    before = dump(pg)
    project.write("b1", BLOCK.format(query) + "op.drop_table('items')")
    failed = str(project.attempt())
    assert dump(pg) != before
    assert f"only the rest was rolled back: it had committed `{query}`" in failed


@pytest.mark.parametrize("environment", ["generic", "per_migration"])
def test_a_gate_that_is_closed_says_what_the_run_had_committed(filled: Guarded, environment: str) -> None:
    """An autocommit_block() of an earlier revision, or before the gate itself, has ended the transaction."""
    (filled.root / "runbooks").mkdir(exist_ok=True)
    (filled.root / "runbooks" / "book.md").write_text(
        page(block("SELECT 0 AS x"), name="book", front="  one: {}\n")
    )
    if not filled.database.is_sqlite:
        install_ledger(filled.database, filled.root)
    filled.use(environment)
    gate = "with gate('book/one', lock=['items'], revision=revision):\n    op.drop_table('items')"
    top = "from pipestate.gate import gate"
    before = dump(filled.database)
    filled.write("b1", gate, top=top)
    failed = str(filled.attempt())
    assert "nothing of this revision was done" in failed or "is rolled back" in failed
    assert dump(filled.database) == before
    filled.head = "a0"
    filled.write("b1", PART + gate, top=top)
    failed = str(filled.attempt())
    assert "it had committed `CREATE TABLE early (id integer)`" in failed, failed
    assert "early" in dump(filled.database)


@pytest.mark.parametrize("end", ["loss", "gate"])
@pytest.mark.parametrize(
    "part", ["", PART, BLOCK.format("SELECT 1 AS id INTO early")], ids=["whole", "part", "query"]
)
def test_a_script_says_that_its_transaction_is_rolled_back(
    pg: Database, tmp_path: Path, part: str, end: str
) -> None:
    """A part of the same revision is committed by then."""
    project = make_filled(pg, tmp_path)
    (project.root / "runbooks").mkdir(exist_ok=True)
    (project.root / "runbooks" / "book.md").write_text(
        page(block("SELECT 0 AS x"), name="book", front="  one: {}\n")
    )
    install_ledger(pg, project.root)
    gate = "with gate('book/one', lock=['items'], revision=revision):\n    op.drop_table('items')"
    before = dump(pg)
    project.write("b1", part + (gate if end == "gate" else LOSS), top="from pipestate.gate import gate")
    said = feed(pg, project.script())
    assert (dump(pg) == before) == (part == "")
    assert project.version() == "a0"
    assert "so this transaction is rolled back; earlier COMMITs stay" in said
    assert "so it was rolled back" not in said
    assert "nothing of this revision" not in said


def test_a_closed_gate_behind_a_commit_of_an_earlier_revision_does_not_promise_the_whole_run(
    filled: Guarded,
) -> None:
    (filled.root / "runbooks").mkdir(exist_ok=True)
    (filled.root / "runbooks" / "book.md").write_text(page(block("SELECT 0 AS x"), name="book"))
    if not filled.database.is_sqlite:
        install_ledger(filled.database, filled.root)
    filled.write("b1", PART)
    gate = "with gate('book/one', lock=['items'], revision=revision):\n    op.drop_table('items')"
    filled.write("c1", gate, top="from pipestate.gate import gate")
    before = dump(filled.database)
    failed = str(filled.attempt())
    assert ("all of this run, which is one transaction, is rolled back" in failed) == (
        dump(filled.database) == before
    )
    stays = "everything after the last commit, which an earlier revision made, is rolled back"
    assert ("the revisions before it stay" if filled.database.is_sqlite else stays) in failed, failed


READING = "with op.get_context().autocommit_block():\n    op.execute('SELECT 1')\n"


def test_a_closed_gate_behind_a_commit_of_its_own_revision_says_so(filled: Guarded) -> None:
    (filled.root / "runbooks").mkdir(exist_ok=True)
    (filled.root / "runbooks" / "book.md").write_text(page(block("SELECT 0 AS x"), name="book"))
    if not filled.database.is_sqlite:
        install_ledger(filled.database, filled.root)
    gate = "with gate('book/one', lock=['items'], revision=revision):\n    op.drop_table('items')"
    filled.write("b1", READING + gate, top="from pipestate.gate import gate")
    failed = str(filled.attempt())
    stays = "everything after the last commit, which this revision made, is rolled back"
    assert ("the revisions before it stay" if filled.database.is_sqlite else stays) in failed, failed
    assert "an earlier revision" not in failed


PART_OF_CONTRACT = """

def upgrade():
    from alembic import op

    with op.get_context().autocommit_block():
        op.execute("CREATE TABLE early (id integer)")
    contract.upgrade()
"""


def test_a_contract_that_is_refused_says_what_it_changed_itself(database: Database, tmp_path: Path) -> None:
    """The same revision has committed a part before it."""
    shop = open_shop(tmp_path, database)
    revision = shop.root / "migrations" / "versions" / "c3_no_log.py"
    revision.write_text(revision.read_text() + PART_OF_CONTRACT)
    shop.upgrade("b2")
    shop.fill()
    shop.approve()
    database.run("CREATE VIEW v AS SELECT old_status FROM orders")
    with pytest.raises(Exception, match="cannot be dropped while others depend on it") as refused:
        shop.upgrade("head")
    assert "early" in shop.tables()
    assert "nothing was changed" not in str(refused.value)


END = "\nfrom pipestate.environment import guard\n\nguard(context)\n"


def test_a_guard_at_the_end_names_what_ran_without_it(filled: Guarded) -> None:
    """It cannot undo what Alembic has committed; the exit code is 255."""
    env_py = filled.root / "migrations" / "env.py"
    assert "guard(context)\n" in env_py.read_text()
    text = env_py.read_text().replace("guard(context)\n", "")
    env_py.write_text(text + END)
    filled.write("b1", "op.execute('DROP TABLE items')")
    filled.write("c1", "op.execute('CREATE TABLE early (id integer)')")
    done = run_alembic(filled, "upgrade", "head")
    assert done.returncode == 255
    said = " ".join((done.stdout + done.stderr).split())
    assert "so this run was not guarded: it ran upgrade a0 -> b1 and upgrade b1 -> c1, which stays" in said
    assert "Put it at the top of env.py, at module level" in said
    assert "nothing was done" not in said
    assert "items" not in dump(filled.database)
    done = run_alembic(filled, "upgrade", "head")
    assert "so this run was not guarded: no revision has run" in " ".join((done.stdout + done.stderr).split())
    done = run_alembic(filled, "upgrade", "a0:head", "--sql")
    if not filled.database.is_sqlite:
        assert "it wrote the script of upgrade a0 -> b1" in " ".join((done.stdout + done.stderr).split())


def run_alembic(project: Guarded, *arguments: str) -> subprocess.CompletedProcess[str]:
    ini, url = project.root / "alembic.ini", project.database.text.replace("%", "%%")
    ini.write_text(ini.read_text().replace("driver://user:pass@localhost/dbname", url))
    return run_program(["alembic", *arguments], cwd=project.root, environment=os.environ)


@pytest.fixture
def filled(database: Database, tmp_path: Path) -> Guarded:
    return make_filled(database, tmp_path)


def make_filled(database: Database, tmp_path: Path) -> Guarded:
    project = open_guarded(tmp_path, database)
    project.write(
        "a0",
        "op.execute('CREATE TABLE orders (id integer PRIMARY KEY)')\n"
        "op.execute('CREATE TABLE items (id integer PRIMARY KEY, order_id integer)')",
    )
    assert project.attempt() is None
    database.run("INSERT INTO orders VALUES (1), (2)", "INSERT INTO items VALUES (1, 1), (2, 2)")
    return project
