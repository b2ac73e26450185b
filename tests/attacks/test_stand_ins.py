"""Nothing stands in for what a gate reads: no temporary table, no schema or function of somebody else, no encoding."""

import os
import subprocess

import pytest

from attacks.conftest import MakeRole
from attacks.orders import AT_B2, AT_D4, State, approve, state_of
from attacks.project import Project
from attacks.psql import feed
from attacks.test_looks import Way, both_ways
from bed import Database, postgres_binary

AT_C3 = State("c3", None)
FORGED = "SELECT 'drop old_orders'::text AS what, NULL::timestamp AS revoked_at"


def give_to(role: Database, owner: Database) -> None:
    """Make a role the owner of everything, as a plain deploying role is."""
    name = role.url.username
    owner.run(
        f"ALTER TABLE old_orders OWNER TO {name}",
        f"ALTER TABLE new_orders OWNER TO {name}",
        f"ALTER TABLE approvals OWNER TO {name}",
        f"ALTER TABLE alembic_version OWNER TO {name}",
        f"GRANT CREATE, USAGE ON SCHEMA public TO {name}",
    )


@pytest.mark.parametrize("path", ["public", "pg_temp, public", "public, pg_temp", '"$user", public'])
def test_a_temporary_table_of_the_session_approves_nothing(gated: Project, path: str) -> None:
    prelude = f"CREATE TEMP TABLE approvals AS {FORGED};\nSET search_path = {path};\n"
    said = feed(gated.database, prelude + gated.script("b2:head"))
    assert state_of(gated.database) == AT_B2
    assert "is closed" in said


@pytest.mark.parametrize("path", ["public", "pg_temp, public", '"$user", public'])
def test_a_path_with_temporary_tables_does_not_close_an_open_gate(gated: Project, path: str) -> None:
    approve(gated)
    prelude = f"CREATE TEMP TABLE unrelated (id int);\nSET search_path = {path};\n"
    said = feed(gated.database, prelude + gated.script("b2:c3"))
    assert state_of(gated.database) == AT_C3, said


def test_a_schema_with_the_name_of_the_migrating_role_approves_nothing(
    gated: Project, make_role: MakeRole
) -> None:
    owner, deploying, planter = gated.database, make_role(gated.database), make_role(gated.database)
    give_to(deploying, owner)
    name = str(deploying.url.username)
    owner.run(f"GRANT CREATE ON DATABASE {owner.url.database} TO {planter.url.username}")
    planter.run(
        f"CREATE SCHEMA {name}",
        f"CREATE TABLE {name}.approvals AS {FORGED}",
        f"GRANT USAGE ON SCHEMA {name} TO PUBLIC",
        f"GRANT SELECT ON {name}.approvals TO PUBLIC",
    )
    said = feed(deploying, gated.script("b2:c3"))
    assert state_of(owner) == AT_B2
    assert f"schema {name}" in said


LOOK = "text, text, text, boolean, text, boolean, text, jsonb"
PLANTED = {
    "what the script keeps its results in": (
        f"CREATE FUNCTION public.jsonb_build_object({LOOK}) RETURNS jsonb LANGUAGE sql AS $$ SELECT "
        "pg_catalog.jsonb_build_object('of', $2, 'filled', false, 'before', false, 'results', '[]'::jsonb) $$",
    ),
    "how it compares versions": (
        "CREATE FUNCTION public.fine(text[], text[]) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$",
        "CREATE OPERATOR public.@> (LEFTARG = text[], RIGHTARG = text[], FUNCTION = public.fine)",
    ),
    "how it reads a result": (
        "CREATE FUNCTION public.passed(jsonb, jsonb) RETURNS text LANGUAGE sql AS $$ SELECT 'passed'::text $$",
        "CREATE OPERATOR public.->> (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = public.passed)",
    ),
    "the question itself": (
        "CREATE FUNCTION public.never(oid, int) RETURNS boolean LANGUAGE sql AS $$ SELECT false $$",
        "CREATE OPERATOR public.>= (LEFTARG = oid, RIGHTARG = int, FUNCTION = public.never)",
        "CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT 'planted' $$",
    ),
}


@both_ways
@pytest.mark.parametrize("planted", PLANTED)
def test_a_function_of_somebody_else_opens_no_gate(
    gated: Project, make_role: MakeRole, way: Way, planted: str
) -> None:
    planter = make_role(gated.database)
    gated.database.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {planter.url.username}")
    planter.run(*PLANTED[planted])
    said = way(gated)
    assert state_of(gated.database) == AT_B2
    assert "somebody else has put names of the server's" in said
    assert "Traceback" not in said
    done = gated.pipestate("gate", "orders/ready")
    assert (done.returncode, "somebody else has put" in done.stderr) == (3, True)


@both_ways
def test_a_function_of_the_owners_own_closes_no_gate(gated: Project, way: Way) -> None:
    approve(gated)
    gated.database.run("CREATE FUNCTION public.lower(int) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$")
    said = way(gated)
    assert state_of(gated.database) == AT_D4, said


@pytest.mark.parametrize("encoding", ["WIN1252", "LATIN1", "UTF8"])
def test_the_encoding_of_a_session_hides_no_row(gated: Project, encoding: str) -> None:
    approve(gated)
    gated.database.run("UPDATE old_orders SET note = 'gelöscht – nicht'")
    gated.add_check("SELECT id FROM old_orders WHERE note = 'gelöscht – nicht'", "rows = 0")
    script = gated.script("b2:head")
    said = subprocess.run(
        [postgres_binary("psql"), "-X", "-q", gated.database.text],
        input=script.encode(),
        env={**os.environ, "PGCLIENTENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert state_of(gated.database) == AT_B2
    assert b"is closed" in said.stderr, said.stderr


def test_a_part_that_is_pasted_without_its_encoding_is_refused(gated: Project) -> None:
    approve(gated)
    script = gated.script("b2:head").replace(
        "SET LOCAL client_encoding = 'UTF8';", "SET client_encoding = 'LATIN1';"
    )
    said = feed(gated.database, script)
    assert state_of(gated.database) == AT_B2
    assert "written in UTF-8" in said


def test_a_script_and_a_migration_see_the_same_path(gated: Project) -> None:
    """A table of another schema on the path is found as before."""
    gated.database.run(
        "CREATE SCHEMA shop", "ALTER TABLE approvals SET SCHEMA shop", f"INSERT INTO shop.approvals {FORGED}"
    )
    gated.database.run(f"ALTER DATABASE {gated.database.url.database} SET search_path = shop, public")
    said = feed(gated.database, gated.script("b2:c3"))
    assert state_of(gated.database) == AT_C3, said
