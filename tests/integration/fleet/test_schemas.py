"""Tenants that are schemas of one database: each is evaluated in its own world, and sees nothing of the others."""

import pytest

from pipestate.database import connections as db
from pipestate.ledger.record import record_schema
from pipestate.project.find import Project
from support.fleets import Tenants, evaluate_list
from support.servers import Database

# What names other objects, in every way in which a definition can.
OBJECTS = (
    "CREATE TYPE {s}.state AS ENUM ('new', 'paid')",
    "CREATE TABLE {s}.orders (id integer PRIMARY KEY, old_status text, status text, state {s}.state DEFAULT 'new')",
    "CREATE TABLE {s}.order_log (id serial PRIMARY KEY, line text NOT NULL, of integer REFERENCES {s}.orders)",
    "CREATE TABLE {s}.approvals (what text)",
    "CREATE INDEX by_status ON {s}.orders (status)",
    "CREATE VIEW {s}.fresh AS SELECT id FROM {s}.orders WHERE state = 'new'",
    "CREATE FUNCTION {s}.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER keeps BEFORE UPDATE ON {s}.orders FOR EACH ROW EXECUTE FUNCTION {s}.keep()",
    "CREATE TABLE {s}.alembic_version (version_num varchar(32) PRIMARY KEY)",
)
HOSTILE = 'x", public; DROP SCHEMA one --'


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def add_tenant(
    database: Database, name: str, revision: str | None = "b2", *more: str, approved: bool = True
) -> None:
    schema = quoted(name)
    statements = [f"CREATE SCHEMA {schema}", *OBJECTS, *more]
    if approved:
        statements.append("INSERT INTO {s}.approvals VALUES ('drop log')")
    if revision:
        statements.append(f"INSERT INTO {{s}}.alembic_version VALUES ('{revision}')")
    database.run(*(statement.format(s=schema) for statement in statements))


@pytest.fixture
def crm(tenants: Tenants) -> Database:
    """A database whose own schema is a tenant's as well, and would answer for any that lacks something."""
    return tenants.create("b2", "INSERT INTO approvals VALUES ('drop log')")


def record(database: Database) -> None:
    with db.writer(database.url) as connection:
        record_schema(connection, "b2")


def line(database: Database, more: str = "") -> str:
    query = f"SELECT nspname{more} FROM pg_namespace WHERE nspname !~ '^(pg_|information|public|pipestate)' ORDER BY 1"
    return f"{database.text} schemas: {query}"


def test_each_schema_answers_for_itself(shop: Project, crm: Database) -> None:
    add_tenant(crm, "one")
    add_tenant(crm, "two", approved=False)
    add_tenant(crm, "three", "a1")
    add_tenant(crm, "empty", None)
    add_tenant(crm, "lost", "b2", "DROP TABLE {s}.approvals", approved=False)
    crm.run("CREATE SCHEMA bare")
    record(crm)
    crm.run("DROP TABLE two.order_log", "CREATE TABLE public.extra (id integer)")
    fleet, answers = evaluate_list(shop, [line(crm)])
    assert {name: (each.revision, each.exit_code) for name, each in answers.items()} == {
        "one": ("b2", 0),
        "two": ("b2", 1),
        "three": ("a1", 2),
        "empty": (None, 2),
        "bare": (None, 2),
        "lost": ("b2", 3),
    }
    (lost,) = answers["lost"].closed
    assert 'relation "approvals" does not exist' in lost.wrong[0].message
    assert fleet.drifted == ("two",), "each is compared with what the record says of its own schema"
    assert answers["two"].drift is not None
    found = [str(each) for each in answers["two"].drift.differences]
    assert "table order_log removed" in found
    assert not [each for each in found if "extra" in each or "two." in each]


def test_hostile_names_are_names(shop: Project, crm: Database) -> None:
    for name in ("one", HOSTILE, "T\u202ewo\x1b[31m"):
        add_tenant(crm, name)
    record(crm)
    fleet, answers = evaluate_list(shop, [line(crm)])
    assert {each.exit_code for each in answers.values()} == {0}
    assert set(answers) == {"one", HOSTILE, "T\u202ewo\x1b[31m"}
    assert fleet.drifted == ()


def test_further_columns_are_further_schemas_of_the_path(shop: Project, crm: Database) -> None:
    add_tenant(crm, "one", "b2", "DROP TABLE {s}.approvals", approved=False)
    assert evaluate_list(shop, [line(crm)])[0].exit_code == 3
    fleet, answers = evaluate_list(shop, [line(crm, ", 'public'")])
    assert (fleet.exit_code, answers["one"].schema, answers["one"].revision) == (0, "one", "b2")


def test_the_database_and_a_schema_of_it_are_two(shop: Project, crm: Database) -> None:
    add_tenant(crm, "one")
    fleet, answers = evaluate_list(shop, [f"whole = {crm.text}", line(crm), line(crm)])
    assert set(answers) == {"whole", "one"}
    assert len(fleet.repeated) == 1
    assert fleet.drifted == ("one", "whole"), "the schema is not in the record"
