"""Many tenants upgraded: each at its revision or untouched, gates evaluated in each, and nobody in another's schema."""

from pathlib import Path

import pytest

from pipestate.fleet.evaluate import UpgradeOutcome
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql.session import one_migration_at_a_time
from pipestate.project.find import Project
from support.fleets import APPROVAL, UNREACHABLE, Tenants, project_in, upgraded
from support.servers import Database

HOSTILE = 'x", public; DROP SCHEMA t_one --'
ROW = "INSERT INTO {s}.order_log VALUES (1, 'x')"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def line(database: Database, more: str = "") -> str:
    query = f"SELECT nspname{more} FROM pg_namespace WHERE nspname ~ '^(t_|x|T|a\\.)' ORDER BY 1"
    return f"{database.text} schemas: {query}"


def at(database: Database, schema: str) -> str | None:
    """The revision in the schema's own version table; None where there is none."""
    query = "SELECT 1 FROM pg_tables WHERE tablename = 'alembic_version' AND schemaname = "
    there = database.rows(query + literal(schema))
    rows = database.rows(f"SELECT version_num FROM {quoted(schema)}.alembic_version") if there else []
    return str(rows[0][0]) if rows else None


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.fixture
def crm(tenants: Tenants) -> Database:
    """A database of many schemas, whose own is at b2, and would answer for any that lacks something."""
    return tenants.create("b2", APPROVAL)


def add(database: Database, *names: str) -> None:
    database.run(*(f"CREATE SCHEMA {quoted(name)}" for name in names))


def break_in(project: Project, schema: str) -> None:
    """Let the last revision fail in one schema, behind its change."""
    file = project.scripts / "versions" / "d4_receipts.py"
    text = file.read_text()
    wrong = f"op.execute(\"SELECT 1 / (current_schema() <> '{schema}')::int\")"
    change = 'op.execute("CREATE TABLE receipts (id integer PRIMARY KEY)")'
    file.write_text(text.replace(change, f"{change}\n    {wrong}"))


def test_each_schema_gets_its_own_tables_and_version_table(shop: Project, crm: Database) -> None:
    names = ("t_one", "t_two", "Two", "a.b", HOSTILE)
    add(crm, *names)
    fleet, answers = upgraded(shop, [line(crm)])
    assert {name: (each.error, each.exit_code) for name, each in answers.items()} == dict.fromkeys(
        names, (None, 0)
    )
    assert fleet.exit_code == 0
    assert [(wave.databases, dict(wave.outcomes)) for wave in fleet.waves] == [
        (1, {"upgraded": 1}),
        (4, {"upgraded": 4}),
    ]
    for name in names:
        assert at(crm, name) == "d4"
        assert crm.rows(f"SELECT count(*) FROM {quoted(name)}.receipts") == [(0,)]
    assert at(crm, "public") == "b2", "the database's own schema is no tenant here"
    assert crm.rows("SELECT to_regclass('public.receipts')") == [(None,)]


def test_a_rerun_leaves_those_alone_that_are_done(shop: Project, crm: Database) -> None:
    add(crm, "t_one", "t_two")
    upgraded(shop, [line(crm)], "a1")
    fleet, answers = upgraded(shop, [line(crm)], "a1")
    assert {each.upgrade.outcome for each in answers.values() if each.upgrade} == {UpgradeOutcome.CURRENT}
    assert fleet.exit_code == 0


def test_a_closed_gate_holds_back_one_tenant_and_nobody_else(shop: Project, crm: Database) -> None:
    add(crm, "t_one", "t_two")
    upgraded(shop, [line(crm)], "b2")
    crm.run(
        *(ROW.format(s=name) for name in ("t_one", "t_two")),
        "INSERT INTO t_two.approvals VALUES ('drop log')",
    )
    fleet, answers = upgraded(shop, [line(crm)])
    left = answers["t_one"].upgrade
    assert left is not None
    assert (left.outcome, left.waiting, left.left_pending) == (
        UpgradeOutcome.LEFT_PENDING,
        (("c3", "shop/ready"),),
        ("c3", "d4"),
    )
    assert left.pending_ungated == ("d4",)
    assert (fleet.exit_code, at(crm, "t_one"), at(crm, "t_two")) == (1, "b2", "d4")
    assert crm.rows("SELECT line FROM t_one.order_log") == [("x",)]
    crm.run("INSERT INTO t_one.approvals VALUES ('drop log')")
    assert upgraded(shop, [line(crm)])[0].exit_code == 0
    assert at(crm, "t_one") == "d4"


def test_a_wave_that_fails_is_the_last(shop: Project, crm: Database) -> None:
    add(crm, *(f"t_{number}" for number in range(6)))
    break_in(shop, "t_1")
    fleet, answers = upgraded(shop, [line(crm)], waves="1,2,100%", jobs=1)
    assert set(answers) == {"t_0", "t_1"}
    assert "division by zero" in str(answers["t_1"].error)
    assert (fleet.exit_code, fleet.left, at(crm, "t_1")) == (3, 4, "c3")
    assert fleet.stopped == "1 database failed, and --max-failures is 0"
    assert {at(crm, f"t_{number}") for number in range(2, 6)} == {None}
    fleet, answers = upgraded(shop, [line(crm)], waves="1,2,100%", max_failures=1)
    assert (fleet.exit_code, fleet.left, fleet.stopped) == (3, 0, None)
    assert {at(crm, f"t_{number}") for number in (0, 2, 3, 4, 5)} == {"d4"}
    assert (at(crm, "t_1"), crm.rows("SELECT to_regclass('t_1.receipts')")) == ("c3", [(None,)])


def test_a_dry_run_changes_nothing(shop: Project, crm: Database) -> None:
    add(crm, "t_one")
    fleet, answers = upgraded(shop, [line(crm)], dry_run=True)
    planned = answers["t_one"].upgrade
    assert planned is not None
    assert (planned.outcome, planned.pending) == (UpgradeOutcome.PENDING, ("a1", "b2", "c3", "d4"))
    assert (fleet.exit_code, at(crm, "t_one")) == (0, None)


def test_a_check_that_turns_by_the_upgrade_stops_the_fleet(shop: Project, crm: Database) -> None:
    """A revision that changes what a phase needs is well for Alembic, and not for the wave."""
    add(crm, "t_one", "t_two")
    upgraded(shop, [line(crm)], "b2")
    crm.run(*(f"INSERT INTO {name}.approvals VALUES ('drop log'), ('other')" for name in ("t_one", "t_two")))
    (shop.scripts / "versions" / "x9_fresh.py").write_text(
        'from alembic import op\n\nrevision = "x9"\ndown_revision = "b2"\n\n\n'
        'def upgrade() -> None:\n    op.execute("UPDATE approvals SET what = NULL")\n'
    )
    fleet, answers = upgraded(shop, [line(crm)], "x9", jobs=1)
    assert set(answers) == {"t_one"}
    assert "not well at x9: shop/ready/approved" in str(answers["t_one"].error)
    assert (fleet.exit_code, at(crm, "t_two")) == (1, "b2")


def test_phases_that_are_named_must_be_open(shop: Project, crm: Database) -> None:
    add(crm, "t_one")
    fleet, answers = upgraded(shop, [line(crm)], "b2", phase="shop/ready")
    assert "shop/ready/approved" in str(answers["t_one"].error)
    crm.run("INSERT INTO t_one.approvals VALUES ('drop log')")
    assert upgraded(shop, [line(crm)], "b2", phase="shop/ready")[0].exit_code == 0
    assert fleet.exit_code == 1


def test_databases_are_tenants_too_and_one_that_is_down_fails_alone(shop: Project, tenants: Tenants) -> None:
    lines = [tenants.named(name, "a1") for name in ("north", "south")]
    fleet, answers = upgraded(shop, [*lines, f"gone = {UNREACHABLE}"], max_failures=1)
    assert {name: each.revision for name, each in answers.items()} == {
        "north": "d4",
        "south": "d4",
        "gone": None,
    }
    assert fleet.codes == {0: 2, 1: 0, 2: 0, 3: 1}


def test_a_schema_that_is_not_there_is_refused(shop: Project, crm: Database) -> None:
    _, answers = upgraded(shop, [f"{crm.text} schemas: SELECT 'nowhere'"])
    assert "there is no schema nowhere" in str(answers["nowhere"].error)
    assert crm.rows("SELECT to_regclass('public.receipts')") == [(None,)]


def test_tenants_do_not_wait_for_each_other_but_for_the_whole_database(shop: Project, crm: Database) -> None:
    add(crm, "t_one", "t_two")
    with crm.connect() as other:
        other.exec_driver_sql("SELECT set_config('pipestate.tenant', 't_two', false)")
        with one_migration_at_a_time(other):
            assert upgraded(shop, [f"{crm.text} schemas: SELECT 't_one'"], "a1")[0].exit_code == 0
            with (
                crm.connect() as whole,
                pytest.raises(MigrationError, match="another migration is still running"),
                one_migration_at_a_time(whole, patience_s=0),
            ):
                pass


def test_an_env_py_of_several_tenants_gets_what_it_reads(shop: Project, crm: Database) -> None:
    """As Alembic's cookbook has it: `-x tenant=NAME`, and env.py sets the search path itself."""
    add(crm, "t_one", "t_two")
    env = shop.scripts / "env.py"
    text = env.read_text()
    tenant = 'context.get_x_argument(as_dictionary=True)["tenant"]'
    here = "    context.configure(connection=connection)"
    path = f"    connection.exec_driver_sql('SET search_path TO ' + {tenant})\n    connection.commit()\n"
    env.write_text(text.replace(here, path + here))
    assert upgraded(shop, [line(crm)], "b2", x=["tenant={schema}"])[0].exit_code == 0
    assert {at(crm, "t_one"), at(crm, "t_two")} == {"b2"}


def test_an_env_py_that_leaves_the_schema_is_refused(shop: Project, crm: Database) -> None:
    add(crm, "t_one")
    env = shop.scripts / "env.py"
    text = env.read_text()
    here = "    with context.begin_transaction():"
    leave = "    connection.exec_driver_sql('SET search_path TO public')\n    connection.commit()\n"
    env.write_text(text.replace(here, leave + here))
    _, answers = upgraded(shop, [line(crm)], "b2")
    assert "works in the schema public, not in t_one" in str(answers["t_one"].error)
    assert at(crm, "t_one") is None


@pytest.mark.parametrize("name", ["asynchronous", "per_migration", "own_transaction"])
def test_every_kind_of_env_py(shop: Project, crm: Database, name: str) -> None:
    environment = Path(__file__).parents[2] / "projects" / "shop_environments" / f"{name}.py"
    (shop.scripts / "env.py").write_text(environment.read_text())
    if name == "asynchronous":
        ini = shop.scripts.parent / "alembic.ini"
        ini.write_text(ini.read_text().replace("driver://user", "postgresql+asyncpg://user"))
        shop = project_in(ini.parent)
    add(crm, "t_one", "t_two")
    _, answers = upgraded(shop, [line(crm)])
    assert {each.error for each in answers.values()} == {None}
    assert {at(crm, "t_one"), at(crm, "t_two")} == {"d4"}


def test_an_env_py_of_ours(shop: Project, crm: Database) -> None:
    (shop.scripts / "env.py").write_text(
        "from alembic import context\nfrom pipestate.environment import run\n\nrun(context)\n"
    )
    add(crm, "t_one", "t_two")
    _, answers = upgraded(shop, [line(crm)])
    assert {each.error for each in answers.values()} == {None}
    assert {at(crm, "t_one"), at(crm, "t_two")} == {"d4"}


def test_an_env_py_that_remembers_its_database_gets_a_fresh_process(shop: Project, tenants: Tenants) -> None:
    """An application reads DATABASE_URL once, when it is imported."""
    (shop.scripts.parent / "shop_settings.py").write_text("import os\n\nURL = os.environ['DATABASE_URL']\n")
    env = shop.scripts / "env.py"
    path = f"import sys\n\nsys.path.insert(0, {str(shop.scripts.parent)!r})\nimport shop_settings\n"
    section = "section = context.config.get_section(context.config.config_ini_section, {})"
    env.write_text(
        path + env.read_text().replace(section, f"{section}\nsection['sqlalchemy.url'] = shop_settings.URL")
    )
    lines = [tenants.named(name, "a1") for name in ("north", "south", "west")]
    _, answers = upgraded(shop, lines, "b2", jobs=1)
    assert {name: (each.error, each.revision) for name, each in answers.items()} == dict.fromkeys(
        ("north", "south", "west"), (None, "b2")
    )


def test_a_worker_that_dies_is_an_answer(shop: Project, crm: Database) -> None:
    add(crm, "t_one", "t_two")
    file = shop.scripts / "versions" / "d4_receipts.py"
    dies = "import os\n    if op.get_bind().exec_driver_sql('SELECT current_schema()').scalar() == 't_one':\n        os._exit(7)\n    "
    file.write_text(file.read_text().replace('op.execute("CREATE', dies + 'op.execute("CREATE', 1))
    fleet, answers = upgraded(shop, [line(crm)], jobs=1, max_failures=1)
    assert "ended with exit code 7" in str(answers["t_one"].error)
    assert (fleet.exit_code, at(crm, "t_one"), at(crm, "t_two")) == (3, "c3", "d4")


def test_the_checks_of_finished_schemas_are_skipped(shop: Project, crm: Database) -> None:
    names = ("t_one", "t_two", "t_three", HOSTILE)
    add(crm, *names)
    upgraded(shop, [line(crm)])
    crm.run("UPDATE t_two.alembic_version SET version_num = 'c3'", "DROP TABLE t_two.receipts")
    crm.run("DELETE FROM t_three.alembic_version")
    fleet, answers = upgraded(shop, [line(crm)], max_failures=1)
    assert {answer.schema for answer in answers.values() if answer.phases} == {"t_two", "t_three"}
    done = {answer.schema: answer.upgrade.outcome for answer in answers.values() if answer.upgrade}
    assert (done["t_one"], done[HOSTILE], done["t_two"]) == ("current", "current", "upgraded")
    assert done["t_three"] == "failed", "its tables are there and its version table is empty"
    current = next(answer for answer in answers.values() if answer.schema == "t_one")
    assert (current.revision, current.head, current.dialect) == ("d4", "d4", "postgresql")
    assert fleet.codes[3] == 1


def test_a_required_gate_is_evaluated_in_finished_schemas_too(shop: Project, crm: Database) -> None:
    add(crm, "t_one")
    for _ in range(2):
        fleet, answers = upgraded(shop, [line(crm)], "b2", phase="shop/ready")
        assert (fleet.exit_code, answers["t_one"].revision) == (1, "b2")
        assert "shop/ready/approved" in str(answers["t_one"].error)


ELSEWHERE = (
    "DROP TABLE t_two.order_log",
    "TRUNCATE t_two.order_log",
    "ALTER TABLE t_two.order_log DROP COLUMN line",
    "ALTER TABLE t_two.order_log ALTER COLUMN id TYPE real",
)


@pytest.mark.parametrize("statement", ELSEWHERE)
@pytest.mark.parametrize("behind_gate", [False, True])
def test_a_revision_that_changes_another_tenants_table_is_refused(
    shop: Project, crm: Database, statement: str, behind_gate: bool
) -> None:
    """A tenant reads the catalogue of its own schemas; of other tables it knows the names."""
    add(crm, "t_one", "t_two")
    upgraded(shop, [line(crm)], "b2")
    crm.run(ROW.format(s="t_two"), "INSERT INTO t_one.approvals VALUES ('drop log')")
    call = f"op.execute({statement!r})"
    if behind_gate:
        file = shop.scripts / "versions" / "c3_no_log.py"
        both = f"def upgrade():\n    contract.upgrade()\n    {call}\ndowngrade = contract.downgrade"
        text = file.read_text().replace("upgrade, downgrade = contract.upgrade, contract.downgrade", both)
        file.write_text(f"from alembic import op\n{text}")
    else:
        file = shop.scripts / "versions" / "d4_receipts.py"
        file.write_text(file.read_text().replace('op.execute("CREATE', f'{call}\n    op.execute("CREATE', 1))
    _, answers = upgraded(shop, [line(crm)], max_failures=2)
    assert "t_two.order_log" in str(answers["t_one"].error)
    assert at(crm, "t_one") == ("b2" if behind_gate else "c3")
    assert crm.rows("SELECT id, line FROM t_two.order_log") == [(1, "x")]


def test_partitions_in_another_schema_belong_to_the_tenant(shop: Project, crm: Database) -> None:
    add(crm, "t_one", "parts")
    upgraded(shop, [line(crm)], "c3")
    crm.run(
        "CREATE TABLE t_one.events (id integer, note text) PARTITION BY LIST (id)",
        "CREATE TABLE parts.events_1 PARTITION OF t_one.events FOR VALUES IN (1)",
        "INSERT INTO t_one.events VALUES (1, 'kept')",
    )
    file = shop.scripts / "versions" / "d4_receipts.py"
    add_column = 'op.execute("ALTER TABLE events ADD COLUMN more text")\n    op.execute("CREATE'
    drop_column = 'op.execute("ALTER TABLE events DROP COLUMN note")\n    op.execute("CREATE'
    text = file.read_text()
    file.write_text(text.replace('op.execute("CREATE', drop_column, 1))
    _, answers = upgraded(shop, [line(crm)])
    assert "loses the column t_one.events.note" in str(answers["t_one"].error)
    file.write_text(text.replace('op.execute("CREATE', add_column, 1))
    _, answers = upgraded(shop, [line(crm)])
    assert (answers["t_one"].error, at(crm, "t_one")) == (None, "d4")
    assert crm.rows("SELECT id, note, more FROM parts.events_1") == [(1, "kept", None)]
