"""The ledger comes alone, twice is as good as once, and another role's is refused."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.ledger.install import install, statements
from pipestate.ledger.record import record_event
from pipestate.ledger.state import read_ledger_state, require_ledger
from support.alembic_runs import psql
from support.servers import Database, Postgres

RENDERED = Path(__file__).parents[2] / "rendered"
RELATIONS = (
    "SELECT nspname || '.' || relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
    "WHERE relkind IN ('r', 'v') AND nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
)
ALL = [
    f"pipestate.{name}"
    for name in (
        *(
            "attestation",
            "backfill",
            "backfill_progress",
            "compat",
            "disuse",
            "drift",
            "latest_observation",
            "object",
            "observation",
            "observed",
        ),
        *(
            "rehearsal",
            "rehearsed",
            "result",
            "run",
            "running_release",
            "schema_record",
            "sign_off",
            "soak",
            "soak_since",
            "soft_drop",
            "statement_calls",
        ),
    )
]


def install_in(database: Database) -> None:
    with database.begin() as connection:
        install(connection)


@pytest.fixture
def role(postgres: Postgres) -> Iterator[str]:
    """A plain role; roles belong to the whole server, so under a name of its own."""
    name = f"stranger_{os.getpid()}"
    admin = Database(postgres.admin)
    admin.run(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    yield name
    admin.run(f"DROP ROLE {name}")


@pytest.fixture
def of_role(pg: Database, role: str) -> Iterator[Database]:
    """The database as that role sees it; it may create schemas there."""
    pg.run(f"GRANT CREATE ON DATABASE {pg.url.database} TO {role}")
    yield Database(pg.url.set(username=role, password="x"))
    pg.run(f"DROP OWNED BY {role} CASCADE")


def test_only_its_own_schema_appears(pg: Database) -> None:
    install_in(pg)
    assert [row[0] for row in pg.rows(RELATIONS)] == ALL


def test_on_sqlite_only_names_with_its_prefix_appear(sqlite_database: Database) -> None:
    install_in(sqlite_database)
    rows = sqlite_database.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY 1")
    helpers = ["pipestate_schema_method", "pipestate_schema_objects"]  # functions, where there are any
    names = [name.replace(".", "_") for name in ALL if name != "pipestate.soft_drop"]
    assert [row[0] for row in rows] == sorted([*names, *helpers])


def test_twice_is_as_good_as_once(ledger: Database) -> None:
    ledger.run("INSERT INTO pipestate.run (event, actor) VALUES ('purge', 'me')")
    install_in(ledger)
    assert ledger.value("SELECT count(*) FROM pipestate.run") == 1


def test_an_older_ledger_is_brought_up_to_date_and_keeps_its_rows(ledger: Database) -> None:
    ledger.run(
        "INSERT INTO pipestate.run (event, actor, reason) VALUES ('purge', 'me', 'x')",
        *(f"DROP VIEW pipestate.{view}" for view in ("soak", "sign_off")),
        "DROP TABLE pipestate.result",
        "ALTER TABLE pipestate.run DROP COLUMN reason",
        "ALTER TABLE pipestate.run DROP COLUMN warned",
        *_without_index(ledger),
        "ALTER TABLE pipestate.attestation DROP COLUMN phase",
    )
    with ledger.engine.connect() as connection:
        missing = read_ledger_state(connection).missing
        prefix = "pipestate_" if ledger.is_sqlite else ""
        assert {f"{prefix}run.reason", f"{prefix}run.warned", f"{prefix}soak"} <= set(missing)
        with pytest.raises(ConfigError, match=r"older than this pipestate: it lacks .* ledger install"):
            require_ledger(connection)
    install_in(ledger)
    with ledger.begin() as connection:
        require_ledger(connection)
        record_event(connection, "purge", revision=None, reason="y")
    assert ledger.rows("SELECT reason, warned FROM pipestate.run ORDER BY id") == [(None, 0), ("y", 0)]


def _without_index(database: Database) -> tuple[str, ...]:
    """SQLite drops no column that an index names."""
    return ("DROP INDEX idx_pipestate_attestation_name",) if database.is_sqlite else ()


def test_a_privilege_survives_bringing_it_up_to_date(pg_ledger: Database, role: str) -> None:
    pg_ledger.run(f"GRANT USAGE ON SCHEMA pipestate TO {role}", f"GRANT SELECT ON pipestate.soak TO {role}")
    install_in(pg_ledger)
    assert Database(pg_ledger.url.set(username=role, password="x")).rows("SELECT * FROM pipestate.soak") == []
    pg_ledger.run(f"DROP OWNED BY {role}")


def test_the_right_to_create_a_schema_is_needed_only_where_there_is_none(pg: Database, role: str) -> None:
    mine = Database(pg.url.set(username=role, password="x"))
    with pytest.raises(Exception, match="permission denied for database"):
        install_in(mine)
    pg.run(*(f"CREATE SCHEMA {name} AUTHORIZATION {role}" for name in ("pipestate", "pipestate_archive")))
    install_in(mine)
    install_in(mine)
    assert [row[0] for row in pg.rows(RELATIONS)] == ALL
    pg.run(f"DROP OWNED BY {role} CASCADE")


def test_a_strangers_schema_is_refused_also_by_a_superuser(pg: Database, of_role: Database) -> None:
    """He would be a member of every role; but what another role prepared, he must not write to."""
    of_role.run("CREATE SCHEMA pipestate")
    with pytest.raises(ConfigError, match=r"the schema pipestate belongs to stranger_\d+, of which"):
        install_in(pg)
    assert pg.rows(RELATIONS) == []


def test_a_strangers_table_in_the_schema_is_refused(pg_ledger: Database, of_role: Database) -> None:
    pg_ledger.run(
        f"GRANT CREATE, USAGE ON SCHEMA pipestate TO {of_role.url.username}", "DROP VIEW pipestate.soak"
    )
    of_role.run("CREATE TABLE pipestate.soak (runbook text, phase text)")
    with pytest.raises(ConfigError, match=r"pipestate\.soak belongs to stranger_\d+"):
        install_in(pg_ledger)


def test_no_member_of_the_owner_can_install_and_a_member_can(
    pg_ledger: Database, of_role: Database, postgres: Postgres
) -> None:
    with pytest.raises(ConfigError, match="is no member"):
        install_in(of_role)
    owner = f"{of_role.url.username}_owner"
    pg_ledger.run(
        f"CREATE ROLE {owner}",
        f"GRANT {owner} TO {of_role.url.username}",
        f"ALTER SCHEMA pipestate OWNER TO {owner}",
        f"ALTER SCHEMA pipestate_archive OWNER TO {owner}",
        *(f"ALTER TABLE {name} OWNER TO {owner}" for name in ALL),
        "DO $$ DECLARE r regprocedure; BEGIN FOR r IN SELECT oid FROM pg_proc "
        "WHERE pronamespace = 'pipestate'::regnamespace LOOP "
        f"EXECUTE format('ALTER ROUTINE %s OWNER TO {owner}', r); END LOOP; END $$",
    )
    install_in(of_role)
    pg_ledger.run(f"DROP OWNED BY {owner} CASCADE", f"DROP ROLE {owner}")


def test_a_migration_does_not_write_into_a_ledger_that_a_stranger_made(
    pg: Database, of_role: Database
) -> None:
    """A trigger in it would run with the rights of whoever migrates."""
    install_in(of_role)
    with pg.begin() as connection, pytest.raises(ConfigError, match="belongs to stranger_"):
        record_event(connection, "upgrade", revision="a1")
    assert pg.value("SELECT count(*) FROM pipestate.run") == 0


def test_the_database_owners_ledger_is_trusted(pg: Database, of_role: Database) -> None:
    pg.run(f"ALTER DATABASE {pg.url.database} OWNER TO {of_role.url.username}")
    install_in(of_role)
    with pg.begin() as connection:
        record_event(connection, "upgrade", revision="a1")
    pg.run(f"ALTER DATABASE {pg.url.database} OWNER TO CURRENT_USER")
    assert pg.value("SELECT count(*) FROM pipestate.run") == 1


def test_a_role_of_the_schemas_name_is_refused_unless_its_path_is_plain(pg: Database) -> None:
    pg.run(
        "CREATE ROLE pipestate LOGIN PASSWORD 'x'", f"GRANT CREATE ON DATABASE {pg.url.database} TO pipestate"
    )
    try:
        namesake = Database(pg.url.set(username="pipestate", password="x"), keeps_session=False)
        with pytest.raises(ConfigError, match=r'the role pipestate has "\$user" on its search_path'):
            install_in(namesake)
        assert pg.rows(RELATIONS) == []
        pg.run("ALTER ROLE pipestate SET search_path = public")
        install_in(namesake)
        assert [row[0] for row in pg.rows(RELATIONS)] == ALL
    finally:
        pg.run("DROP OWNED BY pipestate CASCADE", "DROP ROLE pipestate")


def test_nothing_on_the_path_can_stand_in_for_the_ledger(pg: Database) -> None:
    """Tables and functions of the same names in a schema that comes first."""
    pg.run(
        "CREATE SCHEMA decoy",
        "CREATE TABLE decoy.run (id int)",
        "CREATE TABLE decoy.observation (id int)",
        "CREATE FUNCTION decoy.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$",
        "CREATE FUNCTION decoy.lead(timestamptz, int, timestamptz) RETURNS timestamptz LANGUAGE sql "
        "AS $$ SELECT 'infinity'::timestamptz $$",
    )
    with pg.begin() as connection:
        connection.exec_driver_sql("SET LOCAL search_path = decoy, public")
        install(connection)
        path = connection.exec_driver_sql("SHOW search_path").scalar_one()
        record_event(connection, "purge", revision=None)
    assert path == "decoy, public", "the path is given back"
    assert pg.value("SELECT count(*) FROM pipestate.run WHERE isfinite(recorded_at)") == 1
    functions = pg.rows(
        "SELECT refobjid::regproc::text FROM pg_depend WHERE refclassid = 'pg_proc'::regclass "
        "AND refobjid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'decoy'::regnamespace) AND classid <> 'pg_proc'::regclass"
    )
    assert functions == [], "a view was bound to a function of the decoy"


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
def test_what_is_installed_is_kept_as_a_file_for_review(dialect: str) -> None:
    text = "".join(f"{statement};\n" for statement in statements(dialect))
    path = RENDERED / f"ledger-{dialect}.sql"
    if "PIPESTATE_WRITE_RENDERED" in os.environ:
        path.write_text(text)
    assert path.read_text() == text, "look at the difference: make rendered writes it anew"


def test_the_file_installs_it_with_psql(pg: Database) -> None:
    script = (RENDERED / "ledger-postgresql.sql").read_text()
    for _ in range(2):
        done = psql(pg, script, "-v", "ON_ERROR_STOP=1")
        assert (done.returncode, done.stderr) == (0, "")
    with pg.engine.connect() as connection:
        require_ledger(connection)
