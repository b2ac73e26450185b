"""A gate calls procedures of the ledger: only those that this pipestate ships, and only those of a trusted owner."""

import pytest

from attacks import attacked
from attacks.conftest import MakeRole
from attacks.orders import AT_B2, AT_D4, approve, assert_refused, state_of
from attacks.project import Project
from attacks.psql import feed, without_psql_commands
from attacks.test_looks import Way, both_ways
from pipestate.ledger.functions import fault_of

REPLACED = """CREATE OR REPLACE PROCEDURE pipestate.{name}(revision text, checks integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$ BEGIN
  PERFORM set_config('pipestate.gate', revision, true); END $$"""
ALTERED = {
    "a body": (REPLACED.format(name="judge_gate"),),
    "the rights of its owner": ("ALTER PROCEDURE pipestate.judge_gate(text, integer) SECURITY DEFINER",),
    "its search_path": ("ALTER PROCEDURE pipestate.judge_gate(text, integer) SET search_path = public",),
    "another one of the same name": (
        "CREATE FUNCTION pipestate.gate_state(text, varchar) RETURNS jsonb LANGUAGE sql AS $$ SELECT '{}'::jsonb $$",
    ),
    "one that is gone": ("DROP PROCEDURE pipestate.require_step(text, integer)",),
    "the default of an argument": (
        "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('pipestate.evaluate_check'::regproc), '''block''', '''warn'''); END $do$",
    ),
    "a default that calls a function": (
        "CREATE FUNCTION public.reason() RETURNS text LANGUAGE sql AS $$ SELECT 'because' $$",
        "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('pipestate.begin_gate'::regproc), 'force text DEFAULT NULL::text', "
        "'force text DEFAULT public.reason()'); END $do$",
    ),
    "a default through another type of the same name": (
        "CREATE DOMAIN public.text AS pg_catalog.text",
        "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('pipestate.evaluate_check'::regproc), '''block''::text', '''block''::public.text'); "
        "EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $do$",
    ),
    "a default that only looks like the shipped one": (
        "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('pipestate.evaluate_check'::regproc), '''block''', '''pg_catalog.block'''); END $do$",
    ),
    "two arguments in the other order": (
        "DO $do$ DECLARE found text := pg_get_functiondef('pipestate.versions'::regproc); BEGIN "
        "DROP FUNCTION pipestate.versions(text, text); EXECUTE replace(found, 'version_table text, path text', "
        "'path text, version_table text'); END $do$",
    ),
    "the names of two arguments": (
        "DO $do$ DECLARE found text := pg_get_functiondef('pipestate.first_row'::regproc); BEGIN "
        "DROP FUNCTION pipestate.first_row(text, text, text); EXECUTE replace(found, 'query text, path text', "
        "'path text, query text'); END $do$",
    ),
    "a result": (
        "DO $do$ DECLARE found text := pg_get_functiondef('pipestate.safe_path'::regproc); BEGIN "
        "DROP FUNCTION pipestate.safe_path(name[]); EXECUTE replace(found, 'RETURNS text', 'RETURNS SETOF text'); END $do$",
    ),
    "a snapshot from before the lock": ("ALTER FUNCTION pipestate.has_rows(regclass, text) STABLE",),
    "no answer for NULL": ("ALTER FUNCTION pipestate.require_gate(text, regclass[]) STRICT",),
    "a language": (
        "SET check_function_bodies = off",
        "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('pipestate.explain_error(text)'::regprocedure), "
        "'LANGUAGE sql', 'LANGUAGE plpgsql'); END $do$",
    ),
    "an older version": (
        "CREATE OR REPLACE FUNCTION pipestate.version() RETURNS text LANGUAGE sql "
        "SET search_path = pg_catalog, pg_temp AS $$ SELECT '0.5f' $$",
    ),
    "a newer version": (
        "CREATE OR REPLACE FUNCTION pipestate.version() RETURNS text LANGUAGE sql "
        "SET search_path = pg_catalog, pg_temp AS $$ SELECT '99.5f' $$",
    ),
}
SAID = {
    "an older version": "are older (version 0.5f)",
    "a newer version": "are newer (version 99.5f) than this pipestate",
}


@both_ways
def test_without_a_ledger_a_gate_says_how_to_install_one(gated: Project, way: Way) -> None:
    approve(gated)
    gated.database.run("DROP SCHEMA pipestate CASCADE")
    said = way(gated)
    assert "this database has no ledger: run `pipestate ledger install`" in said
    assert "Traceback" not in said
    assert state_of(gated.database) == AT_B2
    attacked.install_ledger(gated.database, gated.root)
    said = way(gated)
    assert state_of(gated.database) == AT_D4, said


@pytest.mark.parametrize(
    "setting",
    [
        "search_path = ''",
        "search_path = pipestate, public",
        "search_path = public, pg_catalog",
        "quote_all_identifiers = on",
        "standard_conforming_strings = off",
    ],
)
def test_the_shipped_functions_are_known_in_every_session(gated: Project, setting: str) -> None:
    """Their definitions are compared as text: neither the path nor a setting of the database changes it."""
    if "pg_catalog" in setting:
        gated.database.run(
            "CREATE DOMAIN public.text AS pg_catalog.text", "CREATE DOMAIN public.jsonb AS pg_catalog.jsonb"
        )
    with gated.database.connect() as connection:
        connection.exec_driver_sql(f"SET {setting}")
        assert fault_of(connection) is None


@pytest.mark.parametrize("altered", ALTERED)
def test_functions_that_are_not_the_shipped_ones_open_nothing(gated: Project, altered: str) -> None:
    gated.database.run(*ALTERED[altered])
    done = gated.alembic("upgrade", "head")
    assert_refused(done, gated.database, SAID.get(altered, "functions of the ledger were altered"))
    if altered != "a newer version":
        assert "pipestate ledger install" in done.stderr
    assert state_of(gated.database) == AT_B2


@pytest.mark.parametrize("altered", SAID)
def test_a_script_for_another_version_does_nothing(gated: Project, altered: str) -> None:
    """Who may alter a function of the ledger owns it, and is trusted: a script compares the version alone."""
    gated.database.run(*ALTERED[altered])
    said = feed(gated.database, gated.script("b2:head"))
    assert (
        f"the functions of the ledger have version {'99' if altered == 'a newer version' else '0'}.5f" in said
    )
    assert "pipestate ledger install" in said
    assert state_of(gated.database) == AT_B2


@pytest.mark.parametrize("altered", [name for name in ALTERED if name != "a newer version"])
def test_installing_the_ledger_again_puts_them_right(gated: Project, altered: str) -> None:
    gated.database.run(*ALTERED[altered])
    if altered == "another one of the same name":
        gated.database.run("DROP FUNCTION pipestate.gate_state(text, varchar)")
    attacked.install_ledger(gated.database, gated.root)
    approve(gated)
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


@both_ways
def test_a_procedure_of_somebody_else_is_not_called(gated: Project, make_role: MakeRole, way: Way) -> None:
    """Its body is the shipped one; its owner may replace it at any moment."""
    approve(gated)
    stranger = make_role(gated.database).url.username
    gated.database.run(f"ALTER PROCEDURE pipestate.judge_gate(text, integer) OWNER TO {stranger}")
    said = way(gated)
    assert f"pipestate.judge_gate() belongs to {stranger}" in said
    assert state_of(gated.database) == AT_B2


def test_nobody_else_may_call_them(gated: Project, make_role: MakeRole) -> None:
    role = make_role(gated.database).url.username
    callable_by_all = gated.database.rows(
        f"SELECT proname FROM pg_proc WHERE pronamespace = 'pipestate'::regnamespace AND has_function_privilege('{role}', oid, 'EXECUTE')"
    )
    # Views of the ledger call these three: they read the catalogue alone.
    assert {str(row[0]) for row in callable_by_all} <= {
        "schema_definitions",
        "schema_method",
        "this_database",
    }


def test_every_procedure_runs_with_the_rights_of_who_calls_it(gated: Project) -> None:
    found = gated.database.rows(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'pipestate'::regnamespace AND (prosecdef OR provolatile <> 'v') "
        "AND proname NOT IN ('schema_definitions', 'schema_method', 'this_database', 'resolve')"
    )
    assert found == []


@pytest.mark.parametrize("call", ["judge_gate('c3', 2)", "evaluate_again('c3')", "pass_gate('c3')"])
def test_a_call_by_itself_leaves_no_mark(gated: Project, call: str) -> None:
    said = feed(gated.database, f"BEGIN;\nCALL pipestate.{call};\nCOMMIT;\n")
    assert "an earlier part of this gate failed or was left out" in said


def test_a_check_that_is_left_out_closes_the_gate(gated: Project) -> None:
    """Of two checks the one that fails is cut out of the script, or its number is given to the other."""
    script = without_psql_commands(gated.script("b2:head"))
    begin = script.index("CALL pipestate.evaluate_check('c3', 2")
    end = script.index("CALL pipestate.judge_gate")
    for cut in (script[:begin] + script[end:], script.replace("judge_gate('c3', 2)", "judge_gate('c3', 1)")):
        feed(gated.database, cut, "-v", "ON_ERROR_ROLLBACK=on")
        assert state_of(gated.database) == AT_B2
