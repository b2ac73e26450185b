"""Proof of disuse as people type it: compat, observe and the gate, on a server that counts its statements."""

import asyncio
import json
import re
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attacks.project import Project, lay_out
from pipestate.ledger.install import install
from support.counting_server import counting_server
from support.documentation import commands, examples, find_page
from support.servers import Database, Postgres

pytestmark = pytest.mark.scene

OLD, NEW = "SELECT old_status FROM orders WHERE id = 1", "SELECT status FROM orders WHERE id = 1"
CONNECT = "import {driver}\ndef connect(url, release): return {driver}.connect(url, {words})"
PAGE, CLONE = "prove-disuse.md", "postgresql://app@localhost/clone"
CHECK = """
```sql
-- check: disused
-- dialect: postgresql
-- require: days_unused >= 7
SELECT days_unused, unused_since, why, standbys FROM pipestate.disuse WHERE revision = 'c3';
```
"""


def of_page(language: str) -> list[str]:
    return [each.text for each in examples(find_page(PAGE)) if each.language == language]


@pytest.fixture(scope="module")
def counting() -> Iterator[Postgres]:
    with counting_server() as server:
        yield server


@pytest.fixture
def project(counting: Postgres, tmp_path: Path) -> Iterator[Project]:
    database = counting.create()
    made = lay_out("shop", tmp_path / "project", database)
    assert made.alembic("upgrade", "b2").returncode == 0
    database.run("CREATE EXTENSION pg_stat_statements")
    made.write(
        "alembic.ini",
        made.read("alembic.ini") + "\n[pipestate:observe]\nstatements = statements except=postgres\n",
    )
    made.write("runbooks/shop.md", made.read("runbooks/shop.md") + CHECK)
    yield made
    counting.drop(database)


@pytest.fixture
def app(project: Project) -> Iterator[Database]:
    """The application, with a role of its own: backups and checks read the old column as postgres."""
    role = f"app_{uuid.uuid4().hex[:8]}"
    project.database.run(f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON orders TO {role}")
    made = Database(project.database.url.set(username=role), keeps_session=False)
    yield made
    project.database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def disused(project: Project) -> tuple[str, dict[str, object]]:
    gate = json.loads(project.pipestate("gate", "shop/ready", "--json").stdout)
    (found,) = (each for each in gate["runbooks"][0]["phases"][0]["checks"] if each["id"] == "disused")
    return found["outcome"], found["observed"]


def observe_often(project: Project, times: int) -> None:
    """Observe every 42 hours."""
    for _ in range(times):
        project.database.run(
            "UPDATE pipestate.statement_calls SET observed_at = observed_at - interval '42 hours'"
        )
        assert project.pipestate("observe").returncode == 0


def test_from_compat_to_an_open_gate(counting: Postgres, project: Project, app: Database) -> None:
    app.run(OLD, NEW)
    assert disused(project)[0] == "failed"
    clone = counting.create(project.database.url.database)
    compat, observe = (command for example in of_page("console") for command in commands(example))
    done = project.pipestate(*shlex.split(compat.text.replace(CLONE, clone.text))[1:])
    counting.drop(clone)
    assert (done.returncode, "old_status" in done.stdout) == (compat.code, True), done.stderr
    assert disused(project)[1]["why"] == "no observation of this contract yet: pipestate observe"
    said = project.pipestate(*shlex.split(observe.text)[1:])
    assert (said.returncode, "statements_watched" in said.stdout) == (0, True), said.stderr
    observe_often(project, 3)
    outcome, observed = disused(project)
    assert (outcome, observed["days_unused"]) == ("failed", 5.25)
    app.run(NEW)
    observe_often(project, 1)
    assert disused(project)[0] == "passed"
    app.run(OLD)
    observe_often(project, 1)
    outcome, observed = disused(project)
    assert (outcome, observed["days_unused"]) == ("failed", 0)
    assert observed["why"] == "it ran: SELECT old_status FROM orders WHERE id = $1"


def test_a_new_contract_needs_it_where_statements_are_counted(project: Project, pg: Database) -> None:
    """On a server without the extension the same check only warns; without a server there is none."""
    contract = (
        "revision",
        "--contract",
        "shop/ready",
        "--drop-column",
        "orders.note",
        "--head",
        "d4",
        "--dry-run",
    )
    blocks = project.pipestate(*contract, "--rev-id", "E5")
    assert "+-- check: disused-e5" in blocks.stdout, blocks.stderr
    assert "WHERE revision = 'E5';" in blocks.stdout
    assert "level: warn" not in blocks.stdout
    warns = project.pipestate(*contract, "--rev-id", "e5", PIPESTATE_DATABASE_URL=pg.text)
    assert "+-- level: warn" in warns.stdout, warns.stderr
    nowhere = project.pipestate(*contract, "--rev-id", "e5", PIPESTATE_DATABASE_URL=f"{pg.text}_nowhere")
    assert (nowhere.returncode, "disused" in nowhere.stdout) == (0, False)


def test_a_probe_that_cannot_read(project: Project) -> None:
    project.database.run("DROP EXTENSION pg_stat_statements")
    done = project.pipestate("observe")
    assert done.returncode == 2
    assert "statements in [pipestate:observe]: this database has no pg_stat_statements: create" in done.stderr


def test_the_recipes_state_the_release(pg: Database) -> None:
    """Each recipe of the page connects, and the page's check finds what is older or states nothing."""
    with pg.begin() as connection:
        install(connection)
    check = of_page("sql")[-1].replace("'shop'", "current_user::text")
    others = re.findall(
        r"(psycopg|asyncpg)(?: takes)? `(\w+=.+?)`", find_page(PAGE).read_text(encoding="utf-8")
    )
    recipes = [*of_page("python"), *(CONNECT.format(driver=name, words=words) for name, words in others)]
    assert len(recipes) == 3
    opened, loop = [], asyncio.new_event_loop()
    try:
        for number, recipe in enumerate(recipes):
            found: dict[str, Any] = {}
            exec(recipe, found)
            for release in ("shop/2026.11.3", "shop/2026.9.12", "shop/2026.11", "shop"):
                made = found["connect"](pg.url if number == 0 else pg.text, f"{release}")
                if asyncio.iscoroutine(made):
                    made = loop.run_until_complete(made)
                opened.append(made.connect() if number == 0 else made)
        names = [str(row[1]) for row in pg.rows(check)]
        assert sorted(names) == sorted(["shop/2026.9.12", "shop/2026.11", "shop"] * 3)
        rows = pg.rows(
            "SELECT DISTINCT application, release FROM pipestate.running_release WHERE release[2] = 11 ORDER BY 2"
        )
        assert rows == [("shop", [2026, 11]), ("shop", [2026, 11, 3])]
    finally:
        for each in opened:
            closed = each.close()
            if asyncio.iscoroutine(closed):
                loop.run_until_complete(closed)
        loop.close()
