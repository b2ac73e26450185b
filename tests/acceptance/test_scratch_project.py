"""The ledger alone in somebody else's project: stock env.py, own migrations, own page; on both engines."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from attacks.project import Project, lay_out
from pipestate.ledger.install import install
from support.servers import Database, Postgres, Sqlite
from support.sql_times import run_timed

FILTER = (
    "from pipestate.environment import include_name\n",
    "context.configure(connection=connection, target_metadata=target_metadata, include_name=include_name)",
)


@pytest.fixture
def project(bed: Postgres | Sqlite, tmp_path: Path) -> Iterator[Project]:
    database = bed.create()
    yield lay_out("scratch", tmp_path / "project", database)
    bed.drop(database)


@pytest.fixture
def installed(project: Project) -> Project:
    must(project.alembic("upgrade", "head"))
    return project


def must(done: "object", code: int = 0) -> str:
    said = f"{done.stdout}\n{done.stderr}"  # type: ignore[attr-defined]
    assert done.returncode == code, said  # type: ignore[attr-defined]
    assert "Traceback" not in said
    return said


def relations(database: Database) -> set[str]:
    with database.engine.connect() as connection:
        inspector = sa.inspect(connection)
        names = {*inspector.get_table_names(), *inspector.get_view_names()}
        schemas = set(inspector.get_schema_names()) - {"information_schema", "main", "public"}
        return names | {f"{name}." for name in schemas}


def use_filter(project: Project) -> None:
    """The one line that a SQLite project needs in its env.py."""
    project.edit(
        "migrations/env.py",
        ("from models import metadata\n", f"from models import metadata\n{FILTER[0]}"),
        ("context.configure(connection=connection, target_metadata=target_metadata)", FILTER[1]),
    )


def generated(project: Project) -> str:
    """What `revision --autogenerate` writes after everything is in the database."""
    before = set((project.root / "migrations/versions").iterdir())
    must(project.alembic("revision", "--autogenerate", "-m", "nothing", "--rev-id", "z9"))
    (path,) = set((project.root / "migrations/versions").iterdir()) - before
    return path.read_text()


def test_only_the_ledger_appears_and_autogenerate_finds_no_difference(installed: Project) -> None:
    if installed.database.is_sqlite:
        assert "drop_table('pipestate_run')" in generated(installed), "without the filter"
        (installed.root / "migrations/versions/z9_nothing.py").unlink()
        use_filter(installed)
        ledger = {name for name in relations(installed.database) if name.startswith("pipestate_")}
        assert relations(installed.database) - ledger == {"orders", "alembic_version"}
    else:
        assert relations(installed.database) == {
            "orders",
            "alembic_version",
            "pipestate.",
            "pipestate_archive.",
        }
    text = generated(installed)
    assert "drop_table" not in text
    assert text.count("    pass\n") == 2


def test_with_every_schema_included_the_filter_hides_it_on_postgresql_too(
    postgres: Postgres, tmp_path: Path
) -> None:
    database = postgres.create()
    project = lay_out("scratch", tmp_path / "project", database)
    must(project.alembic("upgrade", "head"))
    everything = (
        "context.configure(connection=connection, target_metadata=target_metadata, include_schemas=True)"
    )
    stock = "context.configure(connection=connection, target_metadata=target_metadata)"
    project.edit("migrations/env.py", (stock, everything))
    must(project.alembic("check"), 255)
    project.edit("migrations/env.py", (everything, stock))
    use_filter(project)
    project.edit(
        "migrations/env.py", ("include_name=include_name", "include_name=include_name, include_schemas=True")
    )
    must(project.alembic("check"))
    postgres.drop(database)


def test_the_way_back_leaves_nothing_of_an_empty_ledger(installed: Project) -> None:
    must(installed.alembic("downgrade", "a1"))
    assert relations(installed.database) == {"orders", "alembic_version"}
    must(installed.alembic("upgrade", "head"))


def test_the_way_back_leaves_a_ledger_with_rows_and_says_so(installed: Project) -> None:
    must(installed.pipestate("observe", "--set", "queue_depth=3"))
    said = must(installed.alembic("downgrade", "a1"))
    assert "the ledger has rows, so this downgrade keeps it" in said
    assert installed.database.value("SELECT value FROM pipestate.observation") == 3
    must(installed.alembic("upgrade", "head"))
    assert installed.database.value("SELECT value FROM pipestate.observation") == 3


def test_the_command_installs_the_same_without_a_revision(project: Project) -> None:
    must(project.alembic("upgrade", "a1"))
    for _ in range(2):
        assert "the ledger is installed" in must(project.pipestate("ledger", "install"))
    must(project.pipestate("observe", "--set", "queue_depth=3"))
    must(project.alembic("upgrade", "head"))
    assert project.database.value("SELECT count(*) FROM pipestate.observation") == 1


def test_a_script_installs_it(postgres: Postgres, tmp_path: Path) -> None:
    from support.alembic_runs import psql

    database = postgres.create()
    project = lay_out("scratch", tmp_path / "project", database)
    script = project.alembic("upgrade", "head", "--sql").stdout
    done = psql(database, script, "-v", "ON_ERROR_STOP=1")
    assert (done.returncode, done.stderr) == (0, "")
    must(project.pipestate("observe", "--set", "queue_depth=3"))
    back = psql(database, project.alembic("downgrade", "b2:a1", "--sql").stdout, "-v", "ON_ERROR_STOP=1")
    assert back.returncode == 0
    assert "WARNING:  the ledger has rows" in back.stderr
    postgres.drop(database)


@pytest.mark.scene
def test_sign_offs_observations_soak_and_history_work_there(installed: Project) -> None:
    database = installed.database
    must(installed.pipestate("gate", "orders/quiet"), 1)
    must(installed.pipestate("observe", "--set", "queue_depth=12"))
    must(installed.pipestate("attest", "quiet/told-support", "--by", "ops@example.com"))
    must(installed.pipestate("gate", "orders/quiet"))
    must(installed.pipestate("verify", "--record"), 1)
    run_timed(database, "UPDATE pipestate.run SET recorded_at = <8 days ago> WHERE phase = 'quiet'")
    gap = must(installed.pipestate("gate", "orders/ready"), 1)
    assert "longest_gap_hours is 192" in gap, gap
    for days in range(7, 0, -1):
        must(installed.pipestate("verify", "--phase", "quiet", "--record"))
        run_timed(
            database,
            f"UPDATE pipestate.run SET recorded_at = <{days} days ago> WHERE id = (SELECT max(id) FROM pipestate.run)",
        )
    must(installed.pipestate("attest", "ready/told-support", "--by", "ops@example.com"))
    must(installed.pipestate("attest", "backup-taken", "--by", "ann@example.com", "--note", "s3://x"))
    must(installed.pipestate("attest", "backup-taken", "--by", " Ann@Example.com "))
    one = must(installed.pipestate("gate", "ready"), 1)
    assert "backup-taken: signed off by 1 of 2 people within 24h\n" in one
    assert "    pipestate attest orders/ready/backup-taken --by YOU\n" in one
    must(installed.pipestate("attest", "orders/ready/backup-taken", "--by", "ben@example.com"))
    must(installed.pipestate("gate", "ready"))
    entries = json.loads(installed.pipestate("history", "--json", "--limit", "50").stdout)
    assert {entry["kind"] for entry in entries} == {"sign-off", "observation", "verify"}
    assert entries[0]["what"] == "orders/ready/backup-taken"
    assert {entry["revision"] for entry in entries} == {"b2"}
    only = json.loads(installed.pipestate("history", "--json", "--event", "sign-off", "--since", "1h").stdout)
    assert len(only) == 5


def test_a_sign_off_of_another_phase_opens_nothing(installed: Project) -> None:
    """`backup-taken` for one runbook opened another's gate."""
    must(installed.pipestate("attest", "ready/told-support", "--by", "ops"))
    said = must(installed.pipestate("gate", "quiet"), 1)
    assert "told-support: not signed off within 24h\n" in said
    assert "    pipestate attest orders/quiet/told-support --by YOU\n" in said


def test_a_bare_name_means_the_one_phase_that_applies(project: Project) -> None:
    must(project.alembic("upgrade", "a1"))
    must(project.pipestate("ledger", "install"))
    assert "orders/quiet/told-support signed off by ops" in must(
        project.pipestate("attest", "told-support", "--by", "ops")
    )
    said = must(project.pipestate("attest", "backup-taken", "--by", "ops"), 2)
    assert "no phase that applies at revision a1: say which of orders/ready/backup-taken" in said
    must(project.alembic("upgrade", "head"))
    said = must(project.pipestate("attest", "told-support", "--by", "ops"), 2)
    assert (
        "is a sign-off of 2 phases: say which of orders/quiet/told-support, orders/ready/told-support" in said
    )


@pytest.mark.parametrize("signed_at", ["<25 hours ago>", "future", "infinity"])
def test_a_word_that_is_too_old_or_of_the_future_opens_nothing(installed: Project, signed_at: str) -> None:
    database = installed.database
    when = {
        "future": "datetime('now', '+1 day')" if database.is_sqlite else "now() + interval '1 day'",
        "infinity": "'infinity'",
    }.get(signed_at, signed_at)
    must(installed.pipestate("observe", "--set", "queue_depth=12"))
    run_timed(
        database,
        "INSERT INTO pipestate.attestation (signed_at, runbook, phase, name, person) "
        f"VALUES ({when}, 'orders', 'quiet', 'told-support', 'ops')",
    )
    said = must(installed.pipestate("gate", "quiet"), 1)
    assert "not signed off within 24h" in said


def test_without_a_ledger_everything_says_so_in_one_sentence(project: Project) -> None:
    must(project.alembic("upgrade", "a1"))
    sentence = "this database has no ledger: run `pipestate ledger install`, or a revision that calls install_ledger()"
    checked = json.loads(project.pipestate("verify", "--phase", "quiet", "--json").stdout)
    checks = checked["runbooks"][0]["phases"][0]["checks"]
    assert {(check["outcome"], check["message"]) for check in checks} == {("errored", sentence)}
    must(project.pipestate("verify", "--phase", "quiet"), 3)
    for command in (
        ("attest", "told-support", "--by", "ops"),
        ("observe", "--set", "queue_depth=1"),
        ("history",),
        ("verify", "--phase", "quiet", "--record"),
        ("ledger", "prune", "--older-than", "1y"),
    ):
        done = project.pipestate(*command)
        assert (done.returncode, done.stderr) == (2, f"pipestate: {sentence}\n"), command


def test_an_older_ledger_says_so_in_one_sentence(installed: Project) -> None:
    installed.database.run("DROP VIEW pipestate.soak", "ALTER TABLE pipestate.run DROP COLUMN reason")
    done = installed.pipestate("observe", "--set", "queue_depth=1")
    assert done.returncode == 2
    assert "the ledger of this database is older than this pipestate: it lacks" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    must(installed.pipestate("ledger", "install"))
    must(installed.pipestate("observe", "--set", "queue_depth=1"))


def test_another_roles_ledger_is_refused_in_one_sentence(postgres: Postgres, tmp_path: Path) -> None:
    database = postgres.create()
    project = lay_out("scratch", tmp_path / "project", database)
    role = f"other_{database.url.database}"
    database.run(f"CREATE ROLE {role}", f"CREATE SCHEMA pipestate AUTHORIZATION {role}")
    done = project.pipestate("ledger", "install")
    assert done.returncode == 2
    assert f"pipestate: the schema pipestate belongs to {role}, of which" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    said = must(project.alembic("upgrade", "head"), 255)
    assert f"the schema pipestate belongs to {role}" in said
    postgres.drop(database)
    Database(postgres.admin).run(f"DROP ROLE {role}")


def test_prune_asks_first(installed: Project) -> None:
    run_timed(
        installed.database,
        *(
            "INSERT INTO pipestate.observation (observed_at, name, value, source, actor) "
            f"VALUES (<{days} days ago>, 'queue_depth', 1, 'probe', 'cron')"
            for days in (500, 400, 1)
        ),
    )
    count = "SELECT count(*) FROM pipestate.observation"
    for wrong in ("1m", "12h", "soon"):
        assert "write 1y, 6w or 30d" in must(installed.pipestate("ledger", "prune", "--older-than", wrong), 2)
    answered = installed.pipestate("ledger", "prune", "--older-than", "1y")
    assert answered.returncode == 1
    assert "observation: 2 rows" in answered.stdout
    assert "checks on pipestate.observed now see only the last 1y" in answered.stderr
    assert installed.database.value(count) == 3
    assert "deleted 2 rows" in must(installed.pipestate("ledger", "prune", "--older-than", "1y", "--yes"))
    assert installed.database.value(count) == 1
    assert "the ledger has no record to delete" in must(
        installed.pipestate("ledger", "prune", "--older-than", "1y", "--yes")
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("attest", "backup-taken", "--by", " "), "--by is empty: name the person who signs off"),
        (
            ("attest", "no-such", "--by", "me"),
            "no runbook has a sign-off no-such; there are orders/quiet/told-support",
        ),
        (
            ("attest", "elsewhere/told-support", "--by", "me"),
            "no runbook has a sign-off elsewhere/told-support",
        ),
        (("history", "--event", "verfiy"), "there is no event verfiy; there are"),
        (
            ("history", "--since", "soon"),
            "--since soon: write an age such as 7d, or a date such as 2026-01-20",
        ),
    ],
)
def test_wrong_input_is_one_sentence(installed: Project, arguments: tuple[str, ...], said: str) -> None:
    done = installed.pipestate(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_people_write_is_shown_and_not_obeyed(installed: Project) -> None:
    must(installed.pipestate("attest", "backup-taken", "--by", "x[/y]", "--note", "[bold]\x1b[2J::error"))
    shown = must(installed.pipestate("history"))
    assert "\x1b" not in shown
    assert "x[/y]" in shown
    assert "[bold]" in shown


# --- A gate in it ----------------------------------------------------------------------------------

GATED = """from alembic import op
from pipestate.gate import gate

revision, down_revision = "c3", "b2"


def upgrade():
    with gate("orders/quiet", lock=["orders"], revision=revision):
        op.drop_table("orders")
"""


def add_gate(project: Project) -> None:
    """A revision that waits for the phase `quiet`, and an order that it would drop."""
    project.write("migrations/versions/c3_drop.py", GATED)
    project.edit("runbooks/orders.md", ('quiet: {from: "a1"}', 'quiet: {from: "a1", opens: ["c3"]}'))
    project.database.run("INSERT INTO orders (id) VALUES (1)")


def open_gate(project: Project) -> None:
    must(project.pipestate("observe", "--set", "queue_depth=12"))
    must(project.pipestate("attest", "quiet/told-support", "--by", "ops@example.com"))


def test_a_gate_that_is_passed_is_in_the_ledger_with_its_checks(installed: Project) -> None:
    add_gate(installed)
    must(installed.alembic("upgrade", "head"), 255)
    assert installed.database.rows("SELECT * FROM pipestate.run") == [], "a closed gate leaves no row"
    open_gate(installed)
    must(installed.alembic("upgrade", "head"))
    assert installed.database.rows("SELECT event, phase, gate, revision, passed FROM pipestate.run") == [
        ("gate", "quiet", "open", "c3", 2)
    ]
    assert installed.database.value("SELECT count(*) FROM pipestate.result WHERE outcome = 'passed'") == 2


def test_a_forced_gate_keeps_the_reason_and_what_failed(installed: Project) -> None:
    add_gate(installed)
    said = must(installed.alembic("-x", "force=incident 42", "upgrade", "head"))
    assert "the gate orders/quiet is closed, and forced: incident 42" in said
    assert installed.database.rows(
        "SELECT r.event, r.reason, x.check_id FROM pipestate.run r JOIN pipestate.result x ON x.run_id = r.id "
        "ORDER BY x.id"
    )[:2] == [("force", "incident 42", "told-support"), ("force", "incident 42", "queue-is-short")]


def test_a_gate_does_not_write_into_an_older_ledger(installed: Project) -> None:
    add_gate(installed)
    open_gate(installed)
    installed.database.run("ALTER TABLE pipestate.run DROP COLUMN reason")
    said = must(installed.alembic("upgrade", "head"), 255)
    assert "older than this pipestate: it lacks" in said
    assert installed.database.value("SELECT count(*) FROM orders") == 1


def test_a_gate_does_not_believe_a_ledger_that_a_other_role_made(postgres: Postgres, tmp_path: Path) -> None:
    """Whoever may create a schema could sign everything off in tables of his own; online and in a script."""
    from support.alembic_runs import psql

    database = postgres.create()
    project = lay_out("scratch", tmp_path / "project", database)
    role = f"other_role_{database.url.database}"
    must(project.alembic("upgrade", "a1"))
    must(project.alembic("stamp", "b2"))
    add_gate(project)
    database.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT CREATE ON DATABASE {database.url.database} TO {role}",
    )
    other_role = Database(database.url.set(username=role, password="x"))
    with other_role.begin() as connection:
        install(connection)
    other_role.run(
        "INSERT INTO pipestate.attestation (runbook, phase, name, person) "
        "VALUES ('orders', 'quiet', 'told-support', 'x')",
        "INSERT INTO pipestate.observation (name, value, source, actor) VALUES ('queue_depth', 0, 'x', 'x')",
    )
    said = must(project.alembic("upgrade", "head"), 255)
    assert f"belongs to {role}, of which" in said
    done = psql(database, project.alembic("upgrade", "b2:c3", "--sql").stdout)
    assert f"belongs to {role}, of which" in done.stderr
    assert database.value("SELECT count(*) FROM orders") == 1
    postgres.drop(database)
    Database(postgres.admin).run(f"DROP ROLE {role}")


# --- An env.py that is one call --------------------------------------------------------------------

ONE_CALL = """from alembic import context
from models import metadata
from pipestate.environment import run

run(context, metadata=metadata)
"""


def test_environment_run_serves_any_project(project: Project) -> None:
    project.write("migrations/env.py", ONE_CALL)
    url = project.database.url.render_as_string(hide_password=False)
    must(project.alembic("upgrade", "head"))
    must(project.alembic("check"))
    assert "b2 (head)" in must(project.alembic("current"))
    assert project.database.rows("SELECT * FROM pipestate.object") == [], (
        "it keeps no registry unless configured"
    )
    project.database.run("ALTER TABLE orders ADD COLUMN more int")
    must(project.alembic("check"), 255)
    must(project.alembic("-x", f"url={url}", "downgrade", "base"))
    assert relations(project.database) == {"alembic_version"}
    said = must(project.alembic("-x", "ulr=x", "current"), 255)
    assert "unknown option -x ulr; there are" in said


def test_environment_run_writes_scripts_for_its_own_version_table(postgres: Postgres, tmp_path: Path) -> None:
    from support.alembic_runs import psql

    database = postgres.create()
    project = lay_out("scratch", tmp_path / "project", database)
    project.write("migrations/env.py", ONE_CALL.replace("metadata=metadata", "version_table='app_version'"))
    script = project.alembic("upgrade", "head", "--sql").stdout
    done = psql(database, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert database.value("SELECT version_num FROM app_version") == "b2"
    again = psql(database, script)
    assert "starts at revision base, but the database is at b2: nothing was changed" in again.stderr
    postgres.drop(database)
