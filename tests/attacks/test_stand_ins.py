"""Nothing stands in for what a gate reads: no temporary table, no schema or function of somebody else, no encoding."""

import os
import subprocess

import pytest

from attacks.conftest import MakeRole
from attacks.contracts import takes_old
from attacks.ledger import let_use_ledger
from attacks.orders import AT_B2, AT_D4, State, approve, state_of
from attacks.project import Project
from attacks.psql import feed
from attacks.test_looks import Way, both_ways
from support.servers import Database, postgres_binary

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
    let_use_ledger(owner, role)


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
    assert f"{name}.approvals of {planter.url.username}" in said


LOOK = "text, text, text, boolean, text, boolean, text, jsonb"
IMPOSTORS = {
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
@pytest.mark.parametrize("impostor", IMPOSTORS)
def test_our_own_queries_call_no_impostor(
    gated: Project, make_role: MakeRole, way: Way, impostor: str
) -> None:
    """No check uses these names: the gate stays closed before the approval, and opens after it."""
    stranger = make_role(gated.database)
    gated.database.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {stranger.url.username}")
    stranger.run(*IMPOSTORS[impostor])
    said = way(gated)
    assert state_of(gated.database) == AT_B2
    assert "the gate orders/ready is closed" in said
    approve(gated)
    said = way(gated)
    assert state_of(gated.database) == AT_D4, said


USED = {
    "a function": (
        "CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT 'impostor' $$",
        "SELECT id FROM old_orders WHERE lower(note::varchar) = 'impostor'",
        "public.lower(character varying)",
    ),
    "an operator": (
        "CREATE FUNCTION public.alike(varchar, varchar) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$;"
        "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.alike)",
        "SELECT id FROM old_orders WHERE note::varchar IN ('x'::varchar)",
        "operator public.=(character varying,character varying)",
    ),
}


@both_ways
@pytest.mark.parametrize("used", USED)
def test_a_check_that_would_call_an_impostor_is_errored_and_named(
    gated: Project, make_role: MakeRole, way: Way, used: str
) -> None:
    made, check, name = USED[used]
    approve(gated)
    stranger = make_role(gated.database)
    gated.database.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {stranger.url.username}")
    stranger.run(*made.split(";"))
    gated.add_check(check, "rows = 0")
    said = " ".join(way(gated).split())
    assert state_of(gated.database) == AT_B2
    assert f"{name} of {stranger.url.username}" in said
    assert "Traceback" not in said
    for command in (("verify", "orders"), ("gate", "orders/ready")):
        done = gated.pipestate(*command)
        assert (done.returncode, name in " ".join(done.stdout.split())) == (3, True), done.stdout


@pytest.mark.parametrize("query", ["SELECT 1 /* round(x, 2) */", "SELECT 'round' AS \"what\""])
def test_a_name_in_a_comment_or_a_text_is_not_used(gated: Project, make_role: MakeRole, query: str) -> None:
    approve(gated)
    stranger = make_role(gated.database)
    gated.database.run(f"GRANT CREATE, USAGE ON SCHEMA public TO {stranger.url.username}")
    stranger.run(
        "CREATE FUNCTION public.round(float8, int) RETURNS numeric LANGUAGE sql AS $$ SELECT 0::numeric $$"
    )
    gated.add_check(query, "rows = 1")
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


@both_ways
def test_a_table_of_somebody_else_in_front_of_its_namesake_approves_nothing(
    gated: Project, make_role: MakeRole, way: Way
) -> None:
    """The approvals lie in the second schema of the path; somebody may create tables in the first."""
    planter, database = make_role(gated.database), gated.database
    database.run(
        "CREATE SCHEMA app",
        "ALTER TABLE approvals SET SCHEMA app",
        f"ALTER DATABASE {database.url.database} SET search_path = public, app",
        f"GRANT CREATE, USAGE ON SCHEMA public TO {planter.url.username}",
    )
    planter.run(f"CREATE TABLE public.approvals AS {FORGED}")
    said = way(gated)
    assert state_of(database) == AT_B2
    assert f"public.approvals of {planter.url.username}" in " ".join(said.split())
    done = gated.pipestate("gate", "orders/ready")
    assert (done.returncode, "public.approvals" in done.stdout) == (3, True)
    database.run(
        "DROP TABLE public.approvals", "CREATE TABLE public.approvals (what text, revoked_at timestamp)"
    )
    assert "another role" not in way(gated)  # the owner's own table is no impostor


SPYING = "BEGIN INSERT INTO public.spied VALUES (current_user); RETURN {}; END"
BETTER = {
    "array_remove(regclass[], regclass) RETURNS regclass[]": "$1",
    "jsonb_build_object(text, text) RETURNS jsonb": "'{}'::jsonb",
    "format(text, text, text) RETURNS text": "'SELECT 1'",
    "lower(varchar) RETURNS text": "'planted'",
}


@pytest.mark.parametrize("how", ["online", "script"])
@pytest.mark.parametrize("direction", ["upgrade", "downgrade"])
def test_a_contract_runs_no_function_of_somebody_else(
    contract: Project, make_role: MakeRole, direction: str, how: str
) -> None:
    """A function with nearer argument types than the server's is called in its place, wherever it is on the path.

    Only a restore runs `derived`.
    """
    database, planter = contract.database, make_role(contract.database)
    takes_old(contract, "text", "'a'", "'b'")
    derived = 'columns=COLUMNS, derived={"orders": {"old": "lower(s.name::varchar)"}}'
    contract.edit("migrations/versions/b2_contract.py", ("columns=COLUMNS", derived))
    if direction == "downgrade":
        up = contract.alembic("upgrade", "head")
        assert up.returncode == 0, up.stderr
        database.run("INSERT INTO orders (id, name) VALUES (3, 'order 3')")
    database.run(
        "CREATE TABLE spied (who text)",
        "GRANT INSERT ON spied TO PUBLIC",
        f"GRANT CREATE, USAGE ON SCHEMA public TO {planter.url.username}",
    )
    planter.run(
        *(
            f"CREATE FUNCTION public.{head} LANGUAGE plpgsql AS $${SPYING.format(value)}$$"
            for head, value in BETTER.items()
        )
    )
    revisions = {"upgrade": ("head", "a1:head"), "downgrade": ("a1", "b2:a1")}[direction]
    if how == "online":
        done = contract.alembic(direction, revisions[0])
        said = done.stdout + done.stderr
        assert (done.returncode == 0) == (direction == "upgrade"), said
    else:
        said = feed(database, contract.alembic(direction, revisions[1], "--sql").stdout)
    if direction == "downgrade":
        assert (
            "uses what another role has put on the search path in the place of others: public.lower(" in said
        )
    assert "public.format" not in said  # no expression of the contract uses it
    assert "Traceback" not in said
    assert database.rows("SELECT * FROM spied") == []
    assert database.value("SELECT version_num FROM alembic_version") == "b2", said


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


CATALOGUES = ("pg_locks", "pg_class", "pg_constraint", "pg_index", "pg_stat_activity", "pg_type")


@pytest.mark.parametrize("how", ["online", "script"])
def test_a_view_named_like_a_catalogue_runs_nothing_where_the_path_ends_in_it(
    contract: Project, how: str
) -> None:
    """The catalogues stand last on the path, so an unqualified name would be that view."""
    database = contract.database
    takes_old(contract, "text", "'a'", "'b'")
    database.run(
        "CREATE SEQUENCE public.spied",
        *(
            f"CREATE VIEW public.{name} AS SELECT c.* FROM pg_catalog.{name} c WHERE nextval('public.spied') > 0"
            for name in CATALOGUES
        ),
        f"ALTER DATABASE {database.url.database} SET search_path = public, pg_catalog",
    )
    if how == "online":
        done = contract.alembic("upgrade", "head")
        assert done.returncode == 0, done.stderr
        back = contract.alembic("downgrade", "a1")
        assert back.returncode == 0, back.stderr
    else:
        said = feed(database, contract.script("a1:head"))
        assert database.value("SELECT version_num FROM alembic_version") == "b2", said
    assert database.value("SELECT is_called FROM public.spied") is False
