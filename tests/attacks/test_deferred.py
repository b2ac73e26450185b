"""Deferred triggers of the project run before the comparison: what else they do stays as it was."""

import pytest

from attacks.orders import AT_B2, BODY, CONTRACT, State, approve, state_of
from attacks.project import Project
from attacks.psql import feed
from pipestate.migration.losses import RunMemory
from pipestate.migration.postgresql.losses import compare, read_catalogue
from support.servers import Database

# Entries whose sum must be zero at the end, as in any double-entry ledger.
BOOKS = (
    "CREATE TABLE entries (id int PRIMARY KEY, amount int)",
    "CREATE FUNCTION balanced() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF (SELECT sum(amount) FROM entries) <> 0 THEN RAISE 'not balanced'; END IF; RETURN NULL; END $$",
    'CREATE CONSTRAINT TRIGGER "it\'s ""balanced""" AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED '
    "FOR EACH ROW EXECUTE FUNCTION balanced()",
)
BALANCED = ("INSERT INTO entries VALUES (1, 5)", "INSERT INTO entries VALUES (2, -5)")
WORLDS = {
    "entries that are balanced at the end": (BOOKS, BALANCED),
    "a rule of the same name, which cannot be deferred": (
        (*BOOKS, 'CREATE TABLE other (id int CONSTRAINT "it\'s ""balanced""" CHECK (id > 0))'),
        BALANCED,
    ),
    "a key of the same name, which is deferred": (
        (
            *BOOKS,
            "CREATE TABLE pages (id int PRIMARY KEY)",
            'CREATE TABLE lines (page int CONSTRAINT "it\'s ""balanced""" REFERENCES pages DEFERRABLE INITIALLY DEFERRED)',
        ),
        (*BALANCED, "INSERT INTO lines VALUES (1)", "INSERT INTO pages VALUES (1)"),
    ),
}


@pytest.mark.parametrize("how", ["alembic", "psql", "guarded", "guarded psql"])
@pytest.mark.parametrize("world", WORLDS)
def test_a_deferred_trigger_waits_for_the_end_of_the_revision(gated: Project, world: str, how: str) -> None:
    before, body = WORLDS[world]
    gated.database.run(*before)
    approve(gated)
    if "guarded" in how:
        gated.use_environment("guarded")
    body = (body[0], "DROP TABLE old_orders", *body[1:])
    gated.edit(CONTRACT, (BODY, "\n        ".join(f"op.execute({each!r})" for each in body)))
    if "psql" in how:
        said = feed(gated.database, gated.script("b2:c3"))
    else:
        said = gated.alembic("upgrade", "c3").stderr
    assert state_of(gated.database) == State("c3", None), said


HIDDEN_DROP = (
    "CREATE TABLE customers (id int PRIMARY KEY)",
    "INSERT INTO customers VALUES (1)",
    "CREATE TABLE entries (id int PRIMARY KEY)",
    "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF EXISTS (SELECT FROM alembic_version WHERE version_num = 'c3') THEN DROP TABLE customers; "
    "ELSE RAISE 'not yet'; END IF; RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON entries DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION late()",
)


@pytest.mark.parametrize("how", ["psql", "guarded psql"])
def test_a_trigger_that_waits_for_the_version_is_seen_with_it(gated: Project, how: str) -> None:
    """It complains until the version row is written, and drops another table then."""
    gated.database.run(*HIDDEN_DROP)
    approve(gated)
    if "guarded" in how:
        gated.use_environment("guarded")
    gated.edit(CONTRACT, ('"DROP TABLE old_orders"', '"INSERT INTO entries VALUES (1)"'))
    said = feed(gated.database, gated.script("b2:c3"), "-v", "ON_ERROR_ROLLBACK=on")
    assert gated.database.value("SELECT count(*) FROM customers") == 1, said
    assert state_of(gated.database) == AT_B2


def test_a_trigger_in_a_schema_that_the_role_may_not_use_stops_no_revision(pg: Database) -> None:
    role = f"narrow_{pg.url.database}"
    pg.run(
        "CREATE SCHEMA secret",
        "CREATE TABLE secret.entries (id int)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON secret.entries DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION f()",
        f"CREATE ROLE {role}",
    )
    try:
        with pg.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL ROLE {role}")
            before = read_catalogue(connection)
            assert compare(connection, before, RunMemory(), []) == (before, [])
    finally:
        pg.run(f"DROP ROLE {role}")
