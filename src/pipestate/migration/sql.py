"""Execution of a revision's SQL on the database, or its output into the script of `alembic upgrade --sql`.

On PostgreSQL a helper writes its condition and its action in SQL. The same text runs online, in the
revision's transaction, and offline, in the DBA's psql. The server evaluates conditions at the moment of the
change: scripts have the same path.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from alembic import op
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import OWN_SQLSTATE
from pipestate.database.drivers import message, sqlstate
from pipestate.ledger.tables import qualified
from pipestate.migration.alembic import is_lent
from pipestate.migration.failure import MigrationError, first_sentence, tell, warn
from pipestate.migration.run import current_run, run_of

# `named`: the text is run as it is; another style would double `%` in names and defaults.
POSTGRESQL: Dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
SQLITE: Dialect = sqlite.dialect()
# The setting in which a block leaves its messages to the user.
SAID = "pipestate.said"
TOLD = "pipestate.told"
_quote = POSTGRESQL.identifier_preparer.quote


def name(dotted: str) -> str:
    """Write an identifier, quoted if necessary; `schema.table` is two.

    >>> name("archive.Order")
    'archive."Order"'
    """
    return ".".join(_quote(part) for part in dotted.split("."))


def identifier(bare: str) -> str:
    """Write one identifier, quoted if necessary.

    >>> identifier("a.b"), identifier("orders")
    ('"a.b"', 'orders')
    """
    return str(_quote(bare))


def quoted(identifier: str) -> str:
    """Write one identifier, always in quotes.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + identifier.replace('"', '""') + '"'


def always_quoted(dotted: str) -> str:
    """Write an identifier in quotes; `schema.table` is two.

    >>> always_quoted("sales.index")
    '"sales"."index"'
    """
    return ".".join(quoted(part) for part in dotted.split("."))


def literal(value: str) -> str:
    """
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def literals(values: Iterable[str]) -> str:
    return ", ".join(literal(value) for value in values)


def regclass(table: str) -> str:
    """Write the table as an expression: NULL if it does not exist."""
    return f"to_regclass({literal(name(table))})"


def dollar(body: str, tag: str) -> str:
    """Put `body` between dollar quotes that do not occur in it, even joined with the closing quote.

    >>> dollar("-- of $x", "x")
    '$x_$-- of $x$x_$'
    """
    while f"${tag}$" in f"{body}$":
        tag += "_"
    return f"${tag}${body}${tag}$"


def is_offline() -> bool:
    return op.get_context().as_sql


def emit(statement: str) -> None:
    """Run one statement as it is written.

    Offline, write it. Refusals of our own blocks become a MigrationError. `op.execute` is unsuitable: it
    reads `:name` as a parameter, and offline doubles every `%`.
    """
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(f"{statement.strip()};")
        return
    try:
        op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
    except DBAPIError as error:
        if sqlstate(error) != OWN_SQLSTATE:
            raise
        raise MigrationError(first_sentence(message(error))) from None


def write_plain(text: str) -> None:
    """Write a line of a script that is a comment or command, or a statement with its own condition.

    Other statements use Alembic's `static_output`, which a gate replaces so that each requires its token.
    """
    context = op.get_context()
    output = run_of(context).output
    (context.impl.static_output if output is None else output.write)(text)


def do(body: str, declare: str = "", *, why: str = "") -> None:
    """Run a PL/pgSQL block; `why` is for the reader of a script."""
    if why and is_offline():
        comment(why)
    declare = f"DECLARE\n{declare}\n" if declare else ""
    guard = _part_assertion() if is_offline() and in_autocommit() else ""
    emit(f"DO {dollar(f'{chr(10)}{declare}BEGIN{chr(10)}{guard}{body}{chr(10)}END ', 'pipestate')}")


def comment(text: str) -> None:
    """Explain the next statement to the reader of a script."""
    op.get_context().impl.output_buffer.write(f"-- {text}\n")  # type: ignore[union-attr]


def say_warnings() -> None:
    """Log the messages that blocks have left in their settings: drivers hide a WARNING or NOTICE of the
    server."""
    if is_offline():
        return
    for name, log in ((SAID, warn), (TOLD, tell)):
        setting = f"current_setting('{name}', true)"
        said = op.get_bind().exec_driver_sql(f"SELECT {setting} WHERE {setting} <> ''").scalar()
        if said:
            emit(f"SELECT set_config('{name}', '', false)")
            for line in str(said).splitlines():
                log("%s", line)


def is_true(condition: str) -> bool:
    """Evaluate a condition on the server, online."""
    query = f"SELECT {condition}"
    return bool(op.get_bind().exec_driver_sql(query, execution_options={"no_parameters": True}).scalar())


def refuse_when(condition: str, message: str, **values: str) -> None:
    """Stop with the message if the condition holds; `{name}` in it is an SQL expression's value."""
    do(refusing(condition, message, **values), why="a condition that must not hold")


def refusing(condition: str, message: str, **values: str) -> str:
    """Write the PL/pgSQL that stops with the message if the condition holds."""
    return f"IF {condition} THEN\n  {refusal(message, values)}\nEND IF;"


def refusal(message: str, values: dict[str, str] | None = None) -> str:
    """Write the PL/pgSQL that stops with the message; `{name}` in it is an SQL expression's value.

    >>> refusal("x is {n}", {"n": "1 + 1"})
    "RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('x is %s', 1 + 1);"
    """
    return f"RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE = {filled(message, values or {})};"


def filled(message: str, values: dict[str, str]) -> str:
    """Write a message as an SQL expression; `{name}` in it is the value of one.

    >>> filled("x is {n}", {"n": "1 + 1"})
    "pg_catalog.format('x is %s', 1 + 1)"
    """
    template = message.replace("%", "%%")
    for key in values:
        template = template.replace("{" + key + "}", "%s")
    return f"pg_catalog.format({', '.join((literal(template), *values.values()))})"


# Parts: the statements between two autocommit blocks. A psql that continues after errors may run a script. So
# each transaction of a revision sets a token that a rollback removes, and all later statements require it.


@contextmanager
def running(revision: str) -> Iterator[None]:
    """Set the running revision, for an env.py that does not: the body can then read it."""
    run = current_run()
    before = run.revision, run.part, run.is_autocommit
    if run.revision != revision:
        run.revision, run.part, run.is_autocommit = revision, 0, False
    try:
        yield
    finally:
        run.revision, run.part, run.is_autocommit = before


def in_own_block() -> bool:
    """Say whether statements are written into a block that a helper opened by `autocommit`."""
    return current_run().is_autocommit


def in_autocommit() -> bool:
    """Say whether each statement is committed by itself now."""
    context = op.get_context()
    if in_own_block():
        return True
    return not context.as_sql and op.get_bind().get_execution_options().get("isolation_level") == "AUTOCOMMIT"


@contextmanager
def autocommit() -> Iterator[None]:
    """Run statements outside a transaction; commit the earlier statements of the revision (PostgreSQL)."""
    context = op.get_context()
    if in_autocommit():
        yield
        return
    if is_lent(context):
        raise MigrationError(
            "this revision commits several times (for a concurrent index or batches of rows), but its transaction "
            "was begun outside Alembic: let Alembic begin it, with "
            "transaction_per_migration=True"
        )
    from pipestate.migration.postgresql import calls

    run = run_of(context)
    run.part += 1
    if context.as_sql:
        calls.at_home("CALL pipestate.require_part(NULL)")
        emit(f"SELECT set_config('pipestate.part', {literal(part())}, false)")
    with context.autocommit_block():
        run.is_autocommit = True
        try:
            yield
        finally:
            run.is_autocommit = False
    if context.as_sql:
        calls.call("require_part", part())


def execute_each(query: str, *, has_where: bool = True) -> None:
    """Run each statement that the query returns: those that a block refuses (CONCURRENTLY).

    Offline that is psql's `\\gexec`. The query ends in a WHERE clause, unless `has_where` is false.
    """
    if is_offline():
        ready = (
            f"\n  {'AND' if has_where else 'WHERE'} current_setting('pipestate.part', true) = "
            f"{literal(part())}"
            if in_autocommit()
            else ""
        )
        write_plain(f"{query}{ready} \\gexec")
        return
    rows = op.get_bind().exec_driver_sql(query, execution_options={"no_parameters": True})
    for (statement,) in rows.all():
        emit(statement)


def break_off_unless(condition: str) -> None:
    """Disable the part of a script after this autocommit block unless the condition holds."""
    if is_offline() and in_autocommit():
        emit(f"SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT ({condition})")


def part() -> str:
    """Name the current part of the revision in a script."""
    run = current_run()
    return f"{run.revision}/{run.part}"


def _part_assertion() -> str:
    run = current_run()
    if run.revision in (run.required_ledger, run.compared_functions):
        return f"CALL pipestate.require_part({literal(part())});\n"
    return (
        f"IF current_setting('pipestate.part', true) IS DISTINCT FROM {literal(part())} THEN\n"
        f"  {refusal('an earlier step of this revision failed, so this step does nothing: see the error above')}\n"
        "END IF;\n"
    )


# The registry of objects that the migrations created: their downgrades drop those alone. The ledger keeps it in its
# table `object`, for projects with `run(context, registry=True)` in env.py. Any other project owns what it
# creates, and its downgrades drop that unconditionally.


# The statement of a project without a registry.
NOTHING = "SELECT 1"


def keeps_registry() -> bool:
    """Say whether this project keeps a registry."""
    return bool(current_run().has_registry)


def registry() -> str:
    """Name the registry on this engine."""
    return qualified("object", op.get_context().dialect.name)


def remember(kind: str, name: str) -> str:
    """Render the statement that records an object; repeating it is harmless."""
    if not keeps_registry():
        return NOTHING
    values = literals((kind, name, current_run().revision))
    return f"INSERT INTO {registry()} (kind, name, revision) VALUES ({values}) ON CONFLICT DO NOTHING"


def forget(kind: str, name: str) -> str:
    """Render the statement that removes an object from the registry."""
    if not keeps_registry():
        return NOTHING
    return f"DELETE FROM {registry()} WHERE kind = {literal(kind)} AND name = {literal(name)}"
