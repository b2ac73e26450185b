"""Calls of the helpers that live in the server (`migration/server/*.sql`), online and in scripts.

Migrations that keep a registry have the ledger, and so its procedures. For others the same text creates
functions of the session, in pg_temp, which end with it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache

from alembic import op
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import OWN_SQLSTATE
from pipestate.database.connections import run_own
from pipestate.database.drivers import sqlstate
from pipestate.ledger.functions import Routine, require_functions, require_version, routines
from pipestate.ledger.state import require_trusted
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import current_run
from pipestate.verify.read import NO_LEDGER
from pipestate.verify.session_safety import MESSAGE, TRUSTED

Argument = str | bool | int | float | Sequence[str] | Mapping[str, str] | None
HOME, SESSION_HOME = "pipestate", "pg_temp"
HELPERS = ("batches", "columns", "constraints", "indexes", "lock_tables", "steps", "tables")
WIDTH = 120


def call(routine: str, *arguments: Argument, **options: Argument) -> None:
    """Call a procedure. Outside a transaction a script also names the part that must be committed."""
    if sql.is_offline() and sql.in_autocommit() and routine != "require_part":
        options["the_part"] = sql.part()
    statement = at_home(f"CALL {HOME}.{written_call(routine, arguments, options)}")
    sql.emit(statement)


def function(routine: str, *arguments: Argument) -> str:
    """Write a condition that one of our functions evaluates; `call` adds the function's schema."""
    return f"{HOME}.{routine}({', '.join(written(each) for each in arguments)})"


def execute_steps(
    routine: str, arguments: Sequence[Argument], options: Mapping[str, Argument], *, only: str = ""
) -> None:
    """Run each statement that a function returns, outside a transaction.

    `only` selects by their first words.
    """
    steps = at_home(f"SELECT step FROM {HOME}.{written_call(routine, arguments, options)} AS step")
    sql.execute_each(f"{steps} WHERE step LIKE '{only}%'" if only else steps, has_where=bool(only))


def refuse_when(condition: str, message: str) -> None:
    """Stop with the message if the condition holds."""
    call("refuse_if", condition, message)


def refuse_found(query: str, message: str) -> None:
    """Stop with the message if the query finds a text, which replaces `{found}` in it."""
    call("refuse_found", query, message.replace("%", "%%").replace("{found}", "%s"))


def run_when(condition: str, *statements: str) -> None:
    """Run the statements if the condition holds. They are parsed only then."""
    call("run_if", condition, [each for each in statements if each != sql.NOTHING])


def registered() -> dict[str, Argument]:
    """Name the revision that records created objects, if the migrations keep a registry."""
    return {"the_revision": current_run().revision} if sql.keeps_registry() else {}


def unregistered() -> dict[str, Argument]:
    """Tell a dropping procedure that the migrations keep no registry."""
    return {} if sql.keeps_registry() else {"is_registered": False}


def is_ours(kind: str, name: str) -> str:
    """Write the condition that a downgrade may drop the object."""
    return function("is_ours", kind, name) if sql.keeps_registry() else "true"


# A setting of the session: its ledger was compared. A rollback takes it back.
COMPARED = "pipestate.compared"
SETTINGS = r"""\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off"""
NO_RIGHTS = (
    "the role {role} may not use the ledger, which gates and scripts need. "
    "As its owner: CALL pipestate.grant_migrating({literal})"
)
# The path of our own statements, and the caller's, in a block of a script.
OWN_PATH_BEGINS = "PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);"
OWN_PATH_ENDS = "PERFORM set_config('search_path', path, true);"
PATH_BEFORE = "path CONSTANT text := pg_catalog.current_setting('search_path');"


def write_requirement(*, with_tables: bool = True) -> None:
    """Write, once in each revision, the block that refuses a ledger that is missing, of another version or another role's.

    The first revision of a registry has the functions, and no other tables. The owner of the schema is read here: a
    function of another role is not called.
    """
    run = current_run()
    if run.required_ledger == run.revision:
        return
    raising = f"RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE ="
    foreign = MESSAGE.replace("%s", "the schema pipestate", 1)
    sql.write_plain(SETTINGS)
    sql.write_plain(f"""-- The ledger has functions of this version, and belongs to a role that this one trusts
DO $pipestate$
DECLARE
  {PATH_BEFORE}
  other_owner name;
BEGIN
  {OWN_PATH_BEGINS}
  SELECT pg_get_userbyid(o.owner) INTO other_owner FROM (SELECT nspowner AS owner FROM pg_namespace WHERE nspname = '{HOME}') AS o
   WHERE NOT ({TRUSTED});
  IF other_owner IS NOT NULL THEN
    {raising} format({sql.literal(foreign)}, other_owner, current_user);
  END IF;
  {require_version(with_tables=with_tables)}
  {OWN_PATH_ENDS}
EXCEPTION
  WHEN undefined_function OR invalid_schema_name THEN
    {raising} {sql.literal(NO_LEDGER)};
  WHEN insufficient_privilege THEN
    {raising} format({sql.literal(NO_RIGHTS.format(role="%1$s", literal="%1$L"))}, current_user);
END $pipestate$;""")
    run.compared_functions = run.revision
    if with_tables:
        run.required_ledger = run.revision


def compare_functions() -> None:
    """Refuse, once in each revision, a ledger of another role, and functions other than this pipestate's."""
    run = current_run()
    if run.compared_functions == run.revision:
        return
    if sql.is_offline():
        write_requirement(with_tables=False)
    else:
        require_trusted(op.get_bind())
        require_functions(op.get_bind(), has_compared=run.has_compared)
        run.has_compared = True
    functions_installed()


def functions_installed() -> None:
    """Note that this revision has compared the functions, or installed them."""
    run = current_run()
    run.compared_functions = run.revision
    run.has_compared = True


def at_home(statement: str) -> str:
    """Ensure that the functions of a statement exist, and add their schema to the calls."""
    if sql.keeps_registry():
        compare_functions()
        return statement
    needed = _needed(statement)
    present = _present(needed)
    try:
        for routine in needed:
            if routine.name not in present:
                sql.emit(_in_session(routine.statement).rstrip(";"))
    except DBAPIError as error:
        if sqlstate(error) != "42501":
            raise
        url = op.get_bind().engine.url
        raise MigrationError(
            "without a ledger the helpers are functions of the session, and this role may not make any: "
            f'GRANT TEMPORARY ON DATABASE "{url.database}" TO "{url.username}"'
        ) from None
    return _in_session(statement)


def _present(needed: Sequence[Routine]) -> set[str]:
    if sql.is_offline():
        run = current_run()
        revision, names = run.written_functions
        if revision != run.revision:
            names = frozenset()
        run.written_functions = (run.revision, names | {routine.name for routine in needed})
        return set(names)
    query = "SELECT proname FROM pg_proc WHERE pronamespace = pg_my_temp_schema()"
    return {name for (name,) in run_own(op.get_bind(), query)}


def _needed(statement: str) -> list[Routine]:
    """List the helpers that a statement calls, directly or indirectly: each after those that it calls."""
    every = _helpers()
    seen: set[str] = set()
    found: list[Routine] = []

    def add(text: str) -> None:
        for name in re.findall(rf"\b{HOME}\.(\w+)\(", text):
            if name in every and name not in seen:
                seen.add(name)
                add(every[name].statement)
                found.append(every[name])

    add(statement)
    return found


def _in_session(text: str) -> str:
    """Write the same text for functions of the session, whose defaults are read on the project's path."""
    text = text.replace("DEFAULT current_setting(", "DEFAULT pg_catalog.current_setting(")
    return re.sub(rf"\b{HOME}\.({'|'.join(_helpers())})\(", rf"{SESSION_HOME}.\1(", text)


@cache
def _helpers() -> dict[str, Routine]:
    return {routine.name: routine for routine in routines() if routine.file.removesuffix(".sql") in HELPERS}


def written_call(routine: str, arguments: Sequence[Argument], options: Mapping[str, Argument]) -> str:
    """Write a call of that routine, without its schema."""
    every = [written(each) for each in arguments]
    every += [f"{name} => {written(value)}" for name, value in options.items()]
    line = f"{routine}({', '.join(every)})"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    return f"{routine}({_filled(every, '  ')})"


def written(value: Argument) -> str:
    """
    >>> written("orders"), written("it's"), written(["a", "b"]), written(None), written(True), written(60.0)
    ("'orders'", "$$it's$$", "ARRAY['a', 'b']", 'NULL', 'true', '60')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return f"'{value}'" if re.fullmatch(r"[^'\\\n]*", value) else sql.dollar(value, "")
    if isinstance(value, Mapping):
        pairs = ",\n  ".join(
            f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(text, ensure_ascii=False)}"
            for key, text in value.items()
        )
        return sql.dollar(f"{{\n  {pairs}}}", "")
    return f"ARRAY[{_filled([written(each) for each in value], '    ')}]" if value else "'{}'"


def _filled(items: Sequence[str], indent: str) -> str:
    """Put as many items on a line as fit.

    >>> _filled(["a", "b"], "  ")
    'a, b'
    """
    lines, line = [], ""
    for item in items:
        first, _, _ = item.partition("\n")
        if line and len(line.rpartition("\n")[2]) + len(first) > WIDTH - 10:
            lines.append(f"{line},")
            line = item
        else:
            line = f"{line}, {item}" if line else item
    return f"\n{indent}".join([*lines, line])
