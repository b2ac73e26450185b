"""The roles that the documentation describes can do what it says, and nothing more."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.migration.failure import MigrationError
from support.alembic_runs import Migrations
from support.documentation import Command, Shell, examples, find_page, lay_out
from support.legacy_database import everything_legacy, fill_legacy, without_derived
from support.new_user import Walk, sections
from support.servers import Database, Postgres

MakeRole = Callable[..., Database]
OWNERSHIP = "Who must not drop tables with psql"
OF_THAT_SECTION = ("manager", "shop_owner", "shop_migrator", "shop_people", "shop_app", "maria")
ORDERS = "SELECT id, old_status, status FROM orders ORDER BY id"
NOTES = """from alembic import op

revision, down_revision = "z9", "a1"


def upgrade():
    op.execute("CREATE TABLE notes (id serial PRIMARY KEY, said text)")


def downgrade():
    op.execute("DROP TABLE notes")
"""


@pytest.fixture
def make_role(pg_legacy: Migrations) -> Iterator[MakeRole]:
    """Run the SQL of a page that makes the role; roles belong to the whole server, so under another name."""
    database, made = pg_legacy.database, []

    def make(page: str, role: str, owner: str = str(database.url.username)) -> Database:
        name = f"{role}_{database.url.database}"
        made.append(name)
        for example in examples(find_page(page)):
            if example.language == "sql" and role in example.text:
                script = example.text.replace("shop_owner", owner)
                database.run(re.sub(rf"\b{role}\b", name, script))
        return Database(database.url.set(username=name, password="change me"))

    yield make
    for name in made:
        database.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def shell_of(database: Database, directory: Path) -> Shell:
    checkout = directory / "checkout"
    checkout.mkdir()
    lay_out(checkout, [])
    return Shell(checkout, {"DATABASE_URL": database.text})


def test_the_read_only_role_can_verify_and_cannot_write(
    pg_legacy: Migrations, make_role: MakeRole, tmp_path: Path
) -> None:
    pg_legacy.contract()
    reader = make_role("roles.md", "pipestate_reader")
    shell = shell_of(reader, tmp_path)
    done = shell.run("pipestate verify sites-consolidation content-item-pipeline-state")
    assert done.returncode == 1, done.stdout + done.stderr  # only watched-24h is missing
    assert "errored" not in done.stdout
    assert "0007" in shell.run("alembic current").stdout
    done = shell.run("pipestate attest watched-24h --by me")
    assert done.returncode == 3
    assert "read-only transaction" in done.stderr
    with pytest.raises(DBAPIError, match=r"permission denied|read-only"):
        reader.run("SET transaction_read_only = off", "DELETE FROM sites")


def test_the_read_only_role_can_read_what_the_owner_creates_later(
    pg_legacy: Migrations, make_role: MakeRole
) -> None:
    """The script runs as an administrator; the tables of the next revision are the owner's."""
    pg_legacy.upgrade("0002")
    database = pg_legacy.database
    owner = f"shop_{database.url.database}"
    database.run(f"CREATE ROLE {owner}", f"GRANT CREATE ON SCHEMA public TO {owner}")
    reader = make_role("roles.md", "pipestate_reader", owner)
    database.run(f"SET ROLE {owner}", "CREATE TABLE later (id int)", "RESET ROLE")
    assert reader.rows("SELECT * FROM later") == []
    reader.engine.dispose()
    database.run(f"DROP OWNED BY {owner}", f"DROP ROLE {owner}")


def test_the_recorder_can_write_into_the_ledger_and_nowhere_else(
    pg_legacy: Migrations, make_role: MakeRole, tmp_path: Path
) -> None:
    pg_legacy.upgrade("0005")
    recorder = make_role("roles.md", "pipestate_recorder")
    shell = shell_of(recorder, tmp_path)
    for command in (
        "pipestate verify content-item-pipeline-state --record",
        "pipestate attest backup-taken --by dba@example.com",
        "pipestate observe --set failed_ocr_jobs=0",
        "pipestate history",
    ):
        done = shell.run(command)
        assert done.returncode == 0, command + done.stderr
    for statement in (
        "DELETE FROM pipestate.run",
        "UPDATE pipestate.result SET outcome = 'passed'",
        "UPDATE sites SET status = 'x'",
    ):
        with pytest.raises(DBAPIError, match="permission denied"):
            recorder.run(statement)


@pytest.mark.parametrize(
    "backdating",
    [
        "INSERT INTO pipestate.run (event, actor, recorded_at) VALUES ('verify', 'me', '2020-01-01')",
        "INSERT INTO pipestate.run (event, actor, role) VALUES ('verify', 'me', 'somebody')",
        "INSERT INTO pipestate.run (id, event, actor) VALUES (1, 'verify', 'me')",
        "INSERT INTO pipestate.attestation (runbook, phase, name, person, signed_at) VALUES ('r', 'p', 'n', 'me', '2020-01-01')",
        "INSERT INTO pipestate.observation (name, value, source, actor, observed_at) VALUES ('n', 1, 's', 'me', '2020-01-01')",
    ],
)
def test_the_recorder_cannot_backdate_a_record(
    pg_legacy: Migrations, make_role: MakeRole, backdating: str
) -> None:
    pg_legacy.upgrade("0002")
    recorder = make_role("roles.md", "pipestate_recorder")
    with pytest.raises(DBAPIError, match="permission denied"):
        recorder.run(backdating)


def test_the_operator_can_reconcile_and_cannot_touch_the_rest(
    pg_legacy: Migrations, make_role: MakeRole, tmp_path: Path, redis_url: str
) -> None:
    pg_legacy.upgrade("0005")
    pg_legacy.database.run(
        "INSERT INTO sites (subdomain, current_stage, ocr_total, ocr_completed) VALUES ('a.gov', 'ocr', 1, 1)"
    )
    operator = make_role("operations.md", "pipestate_operator")
    shell = shell_of(operator, tmp_path)
    shell.environment["REDIS_URL"] = redis_url
    for command in ("observe", "reconcile", "verify content-item-pipeline-state --record", "status"):
        done = shell.run(f"pipestate {command}")
        assert done.returncode == 0, command + done.stderr
    assert operator.rows("SELECT found, recovered, failed FROM pipeline_reconciliation") == [(1, 1, 0)]
    for statement in ("DELETE FROM sites", "DELETE FROM pipestate.run", "DROP TABLE site_progress"):
        with pytest.raises(DBAPIError, match=r"permission denied|must be owner"):
            operator.run(statement)


def test_the_query_for_session_replication_role_tells_who_may(
    pg_legacy: Migrations, make_role: MakeRole
) -> None:
    pg_legacy.upgrade("0002")
    database = pg_legacy.database
    recorder = make_role("roles.md", "pipestate_recorder")
    (query,) = [
        example.text
        for example in examples(find_page("postgresql.md"))
        if "set_config('session_replication_role'" in example.text
    ]
    database.run(query)
    with pytest.raises(DBAPIError, match="permission denied to set parameter"):
        recorder.run(query)
    if int(str(database.value("SHOW server_version_num"))) >= 150000:
        database.run(f"GRANT SET ON PARAMETER session_replication_role TO {recorder.url.username}")
        recorder.run(query)


def test_an_owner_who_may_not_create_a_schema_can_expand_and_loses_nothing(postgres: Postgres) -> None:
    """The right to create one is needed only where they are missing; as on a managed service."""
    database = postgres.create()
    role = f"owner_{database.url.database}"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'", f"GRANT CREATE, USAGE ON SCHEMA public TO {role}")
    owner = Database(database.url.set(username=role, password="x"))
    fill_legacy(owner, sites=20)
    with pytest.raises(MigrationError, match="permission denied for database"):
        Migrations(owner).upgrade("0005")
    assert Migrations(owner).revision() is None
    database.run(
        *(f"CREATE SCHEMA {name} AUTHORIZATION {role}" for name in ("pipestate", "pipestate_archive"))
    )
    before = everything_legacy(owner)
    Migrations(owner).contract()
    assert Migrations(owner).revision() == "0007"
    Migrations(owner).downgrade("0005")
    assert without_derived(everything_legacy(owner), before) == before
    owner.engine.dispose()
    postgres.drop(database)
    Database(postgres.admin).run(f"DROP ROLE {role}")


@dataclass(frozen=True)
class OwnedShop:
    """The shop of the documentation, whose tables the section on ownership has moved to an owner role."""

    walk: Walk
    admin: Database

    def spelt(self, text: str) -> str:
        """Roles belong to the whole server: the test makes its own."""
        name = self.admin.url.database
        text = re.sub(rf"\b({'|'.join(OF_THAT_SECTION)})\b", rf"\1_{name}", text)
        return text.replace("DATABASE shop", f"DATABASE {name}")

    def login(self, role: str, **query: str) -> Database:
        """A role of the section, in a new session each time."""
        url = self.admin.url.set(username=self.spelt(role), password="change me")
        return Database(url.update_query_dict(query), keeps_session=False)

    def use(self, database: Database) -> None:
        """Let the project connect as another role."""
        ini = self.walk.directory / "alembic.ini"
        url = database.url.render_as_string(hide_password=False).replace("%", "%%")
        ini.write_text(
            re.sub("(?m)^sqlalchemy.url = .*", lambda _: f"sqlalchemy.url = {url}", ini.read_text())
        )

    def owners(self) -> set[object]:
        """The owners of all tables, views, indexes and sequences of the project and the ledger."""
        query = """SELECT pg_get_userbyid(relowner) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
            WHERE n.nspname IN ('public', 'pipestate', 'pipestate_archive')"""
        return {owner for (owner,) in self.admin.rows(query)}


@pytest.fixture(params=["superuser"])
def owned(postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OwnedShop]:
    """The application's login makes the shop; an administrator makes one more table, and runs the section."""
    admin = postgres.create()
    shop = OwnedShop(Walk(tmp_path / "shop", admin), admin)
    manager = admin
    if request.param != "superuser":
        create = "CREATE ROLE manager LOGIN CREATEROLE PASSWORD 'change me'"
        admin.run(shop.spelt(create), shop.spelt("ALTER DATABASE shop OWNER TO manager"))
        # From 15 on the schema belongs to the owner of the database; before, the page wants this once.
        admin.run(shop.spelt("ALTER SCHEMA public OWNER TO manager"))
        manager = shop.login("manager")
    for statement in (
        "CREATE ROLE shop_app LOGIN PASSWORD 'change me'",
        "GRANT CREATE ON DATABASE shop TO shop_app",
        "GRANT CREATE ON SCHEMA public TO shop_app",
        "CREATE TABLE of_the_administrator (id int)",
    ):
        manager.run(shop.spelt(statement))
    shop.walk.database = shop.login("shop_app")
    shop.walk.make_shop()
    for example in sections(find_page("roles.md"))[OWNERSHIP]:
        if "REASSIGN" in example.text and manager is not admin:
            manager.run(shop.spelt("GRANT shop_owner, shop_app TO CURRENT_USER"))
        manager.run(shop.spelt(example.text))
    shop.use(shop.login("shop_migrator"))
    yield shop
    postgres.drop(admin)
    gone = (f"DROP ROLE IF EXISTS {shop.spelt(role)}" for role in reversed(OF_THAT_SECTION))
    Database(postgres.admin).run(*gone)


def refused_statements() -> list[tuple[str, str, str]]:
    """The statements of the section's table for each role, with PostgreSQL's answers."""
    section = find_page("roles.md").read_text(encoding="utf-8").partition(f"## {OWNERSHIP}")[2]
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", section, re.MULTILINE)
    return [(role, *row) for row in rows for role in ("maria", "shop_app")]


@pytest.mark.parametrize("owned", ["superuser", "manager"], indirect=True)
def test_who_does_not_own_tables_works_with_rows_and_changes_no_table(owned: OwnedShop) -> None:
    before = owned.admin.rows(ORDERS)
    faults = []
    for role, statement, answer in refused_statements():
        try:
            owned.login(role).run(owned.spelt(statement))
            faults.append(f"{role}: {statement} was allowed")
        except DBAPIError as error:
            if owned.spelt(answer) not in str(error.orig):
                faults.append(f"{role}: {statement}: {error.orig}")
    assert not faults
    assert owned.admin.rows(ORDERS) == before
    for role in ("maria", "shop_app"):
        owned.login(role).run(
            "INSERT INTO orders (id) VALUES (9)",
            "UPDATE orders SET status = 'new' WHERE id = 9",
            "DELETE FROM orders WHERE id = 9",
        )


def test_the_owner_role_migrates_and_restores_behind_its_gate(owned: OwnedShop) -> None:
    walk, app = owned.walk, owned.login("shop_app")
    owner = owned.spelt("shop_owner")
    assert owned.owners() == {owner}
    for example in examples(find_page("drop-a-table.md")):
        walk.take(example)
    with pytest.raises(DBAPIError, match="must be owner of schema pipestate_archive"):
        app.run("DROP SCHEMA pipestate_archive CASCADE")
    assert app.value("SELECT to_regclass('order_log') IS NULL")
    assert "errored" not in walk.shell.must(Command("pipestate verify --record", 1))
    walk.shell.must(Command("alembic downgrade -1", 0))
    assert app.rows("SELECT id, said FROM order_log") == [(1, "order 1 was placed")]
    app.run("INSERT INTO order_log VALUES (2, 'by the application')")
    walk.shell.must(Command("alembic upgrade head", 0))
    walk.shell.must(Command("pipestate purge --older-than 0d --yes", 0))
    assert owned.owners() == {owner}


@pytest.mark.parametrize("page", ["rename-a-column.md", "split-a-table.md"])
def test_the_owner_role_follows_other_pages(owned: OwnedShop, page: str) -> None:
    """Their backfills, triggers, gates and contracts of columns."""
    for example in examples(find_page(page)):
        owned.walk.take(example)
    assert owned.owners() == {owned.spelt("shop_owner")}


@pytest.mark.parametrize("login", ["migrator", "administrator"])
def test_what_the_owner_role_creates_is_its_own_and_open_to_the_application(
    owned: OwnedShop, login: str
) -> None:
    """As the migrating login, or as a member of the owner's role that names it in the URL."""
    if login == "administrator":
        owned.admin.run(owned.spelt("GRANT shop_owner TO maria"))
        owned.use(owned.login("maria", options=owned.spelt("-crole=shop_owner")))
    revision = owned.walk.directory / "alembic" / "versions" / "z9_notes.py"
    revision.write_text(NOTES)
    owned.walk.shell.must(Command("alembic upgrade z9", 0))
    owned.login("shop_app").run("INSERT INTO notes (said) VALUES ('a')", "DELETE FROM notes")
    assert owned.owners() == {owned.spelt("shop_owner")}
    with pytest.raises(DBAPIError, match="must be owner of table notes"):
        owned.login("shop_app").run("DROP TABLE notes")
