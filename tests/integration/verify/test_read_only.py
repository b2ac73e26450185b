"""Read-only for certain: what the lint lets through by mistake, the connection still refuses."""

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import PipestateError
from pipestate.database.connections import reader
from pipestate.runbook.statement import objections
from support.servers import Database

WRITES = {
    "postgresql": [
        "INSERT INTO t VALUES (2)",
        "WITH d AS (DELETE FROM t RETURNING n) SELECT count(*) FROM d",
        "SELECT n INTO u FROM t",
        "CREATE TABLE u (n int)",
        "DO $$ BEGIN DELETE FROM t; END $$",
        "CALL wipe()",
        "SELECT wiped()",
        "EXPLAIN ANALYZE DELETE FROM t",
        "SELECT nextval('s')",
        "TRUNCATE t",
        "SELECT * FROM t FOR UPDATE",
        "SET TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
    ],
    "sqlite": [
        "INSERT INTO t VALUES (2)",
        "DELETE FROM t",
        "CREATE TABLE u (n int)",
        "CREATE TEMP TABLE u (n int)",
        "PRAGMA query_only = OFF",
        "PRAGMA user_version = 7",
        "PRAGMA writable_schema = ON",
        "ATTACH 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "REINDEX",
    ],
}
# Refused by the lint: READ ONLY does not stop these.
EFFECTS = [
    "SELECT set_config('work_mem', '1GB', false)",
    "SELECT lo_create(0)",  # refused by the server itself only from PostgreSQL 16 on
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_catalog.pg_notify('a', 'b')",
    'SELECT "pg_reload_conf"()',
    "SELECT pg_switch_wal()",
    "LOCK TABLE t",
    "COPY t TO PROGRAM 'cat'",
    "SELECT 1; COMMIT; DROP TABLE t",
    "COMMIT",
    "SELECT dblink('x', 'DELETE FROM t')",
    "SELECT query_to_xml('DELETE FROM t', true, true, '')",
    "SELECT load_extension('x')",
]


def prepare(database: Database) -> None:
    database.run("CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)", "CREATE INDEX t_n ON t (n)")
    if not database.is_sqlite:
        database.run(
            "CREATE SEQUENCE s",
            "CREATE PROCEDURE wipe() LANGUAGE sql AS 'DELETE FROM t'",
            "CREATE FUNCTION wiped() RETURNS int LANGUAGE plpgsql AS $$ BEGIN DELETE FROM t; RETURN 1; END $$",
        )


def test_no_statement_writes(database: Database) -> None:
    prepare(database)
    for statement in WRITES[database.url.get_backend_name()]:
        with pytest.raises((DBAPIError, PipestateError)), reader(database.url) as connection:  # noqa: PT012
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
            connection.exec_driver_sql("COMMIT")
            pytest.fail(f"ran: {statement}")
    assert database.rows("SELECT n FROM t") == [(1,)]


def test_what_was_said_to_be_read_only_stays_so_for_the_next_statement(pg: Database) -> None:
    prepare(pg)
    with pytest.raises((DBAPIError, PipestateError)), reader(pg.url) as connection:  # noqa: PT012
        connection.exec_driver_sql("SET default_transaction_read_only = off")
        connection.exec_driver_sql("DELETE FROM t")
    assert pg.rows("SELECT n FROM t") == [(1,)]


def test_table_valued_pragmas_can_be_read(sqlite_database: Database) -> None:
    prepare(sqlite_database)
    with reader(sqlite_database.url) as connection:
        assert connection.exec_driver_sql("SELECT name FROM pragma_table_info('t')").all() == [("n",)]


@pytest.mark.parametrize("statement", EFFECTS)
def test_the_lint_refuses_what_read_only_would_let_through(statement: str) -> None:
    assert objections(statement, "postgresql")


@pytest.mark.parametrize("statement", [s for group in WRITES.values() for s in group if "wiped" not in s])
def test_the_lint_refuses_plain_writes_too(statement: str) -> None:
    assert objections(statement, "sqlite" if statement in WRITES["sqlite"] else "postgresql")


def test_the_documented_role_can_verify_and_nothing_else(pg: Database) -> None:
    """The SQL of docs/how-to/roles.md, as far as it matters here."""
    prepare(pg)
    role = f"reader_{pg.url.database}"
    pg.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x' NOSUPERUSER",
        f"GRANT CONNECT ON DATABASE {pg.url.database} TO {role}",
        f"GRANT USAGE ON SCHEMA public TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
        f"ALTER ROLE {role} SET default_transaction_read_only = on",
    )
    limited = Database(pg.url.set(username=role, password="x"))
    assert limited.rows("SELECT n FROM t") == [(1,)]
    with pytest.raises(DBAPIError):
        limited.run("SET transaction_read_only = off", "DELETE FROM t")
    pg.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")
