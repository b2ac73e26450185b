"""How a revision's SQL reaches the database, or the script that `alembic upgrade --sql` writes.

On PostgreSQL a helper says *when* something must be done and *what*, both in SQL, so that the same
text runs online, in the revision's transaction, and offline, in the DBA's psql. Conditions are looked
at on the server at the moment of the change: there is no second, weaker path for scripts.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from alembic import op
from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from pipestate.ddl.failure import MigrationError, first_sentence
from pipestate.ddl.notice import warn
from pipestate.drivers import message, sqlstate
from pipestate.errors import OWN_SQLSTATE

# `named`: what is written here is run as it is, and with another style `%` would be doubled in names and defaults.
POSTGRESQL: Dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]
SQLITE: Dialect = sqlite.dialect()
# Where a block leaves what it has to say to whoever migrates.
SAID = "pipestate.said"
_quote = POSTGRESQL.identifier_preparer.quote


def name(dotted: str) -> str:
    """Write an identifier, quoted where it must be; `schema.table` is two.

    >>> name("archive.Order")
    'archive."Order"'
    """
    return ".".join(_quote(part) for part in dotted.split("."))


def identifier(bare: str) -> str:
    """Write one identifier, quoted where it must be.

    >>> identifier("a.b"), identifier("orders")
    ('"a.b"', 'orders')
    """
    return str(_quote(bare))


def quoted(identifier: str) -> str:
    """Write one identifier, in quotes whatever it is.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + identifier.replace('"', '""') + '"'


def literal(value: str) -> str:
    """
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def literals(values: Iterable[str]) -> str:
    return ", ".join(literal(value) for value in values)


def regclass(table: str) -> str:
    """Write the table as an expression: NULL where it does not exist."""
    return f"to_regclass({literal(name(table))})"


def as_type_of(attribute: str, expression: str) -> str:
    """Write the SQL that casts `expression`, which holds SQL, to the type of that row of pg_attribute.

    A text that an enum does not have becomes NULL.
    """
    enum = "(SELECT e.enumlabel::text::%1$s FROM pg_enum e WHERE e.enumtypid = %2$s AND e.enumlabel = (%3$s)::text)"
    return (
        f"format(CASE WHEN (SELECT typtype = 'e' FROM pg_type WHERE oid = {attribute}.atttypid) "
        f"THEN {literal(enum)} ELSE '(%3$s)::%1$s' END, "
        f"format_type({attribute}.atttypid, NULL), {attribute}.atttypid::oid, {expression})"
    )


def dollar(body: str, tag: str) -> str:
    """Put `body` between dollar quotes that it does not contain, nor make together with the one behind it.

    >>> dollar("-- of $x", "x")
    '$x_$-- of $x$x_$'
    """
    while f"${tag}$" in f"{body}$":
        tag += "_"
    return f"${tag}${body}${tag}$"


def is_offline() -> bool:
    return op.get_context().as_sql


def emit(statement: str) -> None:
    """Run one statement as it is written; offline, write it. What our own blocks refuse is a MigrationError.

    Not through `op.execute`: that one reads `:name` as a parameter, and offline doubles every `%`.
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
        raise MigrationError(first_sentence(message(error))) from error


def write_plain(text: str) -> None:
    """Write a line of a script that is no statement, or that has a condition of its own.

    Statements go through Alembic's `static_output`, which a gate replaces so that each asks for its mark.
    """
    impl = op.get_context().impl
    getattr(impl, "pipestate_plain_output", impl.static_output)(text)


def do(body: str, declare: str = "", *, why: str = "") -> None:
    """Run a PL/pgSQL block; `why` is for the reader of a script."""
    if why and is_offline():
        op.get_context().impl.output_buffer.write(f"-- {why}\n")  # type: ignore[union-attr]
    declare = f"DECLARE\n{declare}\n" if declare else ""
    guard = _part_assertion() if is_offline() and in_autocommit() else ""
    emit(f"DO {dollar(f'{chr(10)}{declare}BEGIN{chr(10)}{guard}{body}{chr(10)}END ', 'pipestate')}")


def say_warnings() -> None:
    """Log what blocks have left in their setting: a driver keeps a WARNING of the server to itself."""
    if is_offline():
        return
    setting = f"current_setting('{SAID}', true)"
    said = op.get_bind().exec_driver_sql(f"SELECT {setting} WHERE {setting} <> ''").scalar()
    if said:
        emit(f"SELECT set_config('{SAID}', '', false)")
        for line in str(said).splitlines():
            warn("%s", line)


def do_when(condition: str, *statements: str, why: str = "") -> None:
    """Run the statements where the condition holds. They are looked at only then."""
    body = "\n".join(f"  EXECUTE {dollar(statement, 'ddl')};" for statement in statements)
    do(f"IF {condition} THEN\n{body}\nEND IF;", why=why)


def holds(condition: str) -> bool:
    """Ask the server, online, whether a condition holds."""
    query = f"SELECT {condition}"
    return bool(op.get_bind().exec_driver_sql(query, execution_options={"no_parameters": True}).scalar())


def refuse_when(condition: str, message: str, **values: str) -> None:
    """Stop with the message where the condition holds; `{name}` in it is an SQL expression's value.

    >>> refusal("x is {n}", {"n": "1 + 1"})
    "RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('x is %s', 1 + 1);"
    """
    do(_refusing(condition, message, values), why="a condition that must not hold")


def refuse_any(messages: Mapping[str, str]) -> None:
    """Stop with the message of the first condition that holds, in one round trip: a lock may be held meanwhile."""
    body = "\n".join(_refusing(condition, message, {}) for condition, message in messages.items())
    do(body, why="conditions that must not hold")


def _refusing(condition: str, message: str, values: dict[str, str]) -> str:
    return f"IF {condition} THEN\n  {refusal(message, values)}\nEND IF;"


def refusal(message: str, values: dict[str, str] | None = None) -> str:
    """Write the PL/pgSQL that stops with the message."""
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


# --- Parts: what lies between two autocommit blocks -------------------------------------------------
#
# A script may be run by a psql that goes on after errors. So each transaction of a revision leaves a
# mark that dies with it when it is rolled back, and nothing that follows does anything without it.


def begin_parts(revision: str) -> None:
    op.get_context().opts["pipestate_part"] = [revision, 0, False]


def current_revision() -> str:
    """Name the revision that runs, as the environment or the gate has said it; "" where nobody has."""
    part = op.get_context().opts.get("pipestate_part")
    return str(part[0]) if part else ""


@contextmanager
def running(revision: str) -> Iterator[None]:
    """Say which revision runs, for an env.py that does not: what stands inside then knows it."""
    options = op.get_context().opts
    before = options.get("pipestate_part")
    if not before or before[0] != revision:
        begin_parts(revision)
    try:
        yield
    finally:
        options["pipestate_part"] = before


def in_autocommit() -> bool:
    """Say whether each statement is committed by itself now."""
    context = op.get_context()
    part = context.opts.get("pipestate_part")
    if part and part[2]:
        return True
    return not context.as_sql and op.get_bind().get_execution_options().get("isolation_level") == "AUTOCOMMIT"


@contextmanager
def autocommit() -> Iterator[None]:
    """Run statements outside a transaction; what precedes them in the revision is committed (PostgreSQL)."""
    context = op.get_context()
    if in_autocommit():
        yield
        return
    if context._in_external_transaction:
        raise MigrationError(
            "this revision has work that commits as it goes (an index built concurrently, rows in batches), and the "
            "transaction here was begun outside Alembic: let Alembic begin it, with transaction_per_migration=True"
        )
    part = context.opts.setdefault("pipestate_part", None) or ["", 0, False]
    context.opts["pipestate_part"] = part
    part[1] += 1
    if context.as_sql:
        emit(f"SELECT set_config('pipestate.part', {literal(_mark())}, false)")
    with context.autocommit_block():
        part[2] = True
        try:
            yield
        finally:
            part[2] = False
    if context.as_sql:
        do(_part_assertion())


def execute_each(query: str) -> None:
    """Run each statement that the query returns: those that may not stand in a block (CONCURRENTLY).

    Offline that is psql's `\\gexec`. The query ends in a WHERE clause.
    """
    if is_offline():
        ready = (
            f"\n  AND current_setting('pipestate.part', true) = {literal(_mark())}" if in_autocommit() else ""
        )
        write_plain(f"{query}{ready} \\gexec")
        return
    rows = op.get_bind().exec_driver_sql(query, execution_options={"no_parameters": True})
    for (statement,) in rows.all():
        emit(statement)


def execute_when(statement: str, condition: str) -> None:
    """Run one such statement, where the condition holds."""
    execute_each(f"SELECT {literal(statement)} WHERE {condition}")


def break_off_unless(condition: str) -> None:
    """Have what follows this autocommit block in a script do nothing unless the condition holds."""
    if is_offline() and in_autocommit():
        emit(f"SELECT set_config('pipestate.part', 'broken off', false) WHERE NOT ({condition})")


def _mark() -> str:
    revision, number, _ = op.get_context().opts["pipestate_part"]
    return f"{revision}/{number}"


def _part_assertion() -> str:
    return (
        f"IF current_setting('pipestate.part', true) IS DISTINCT FROM {literal(_mark())} THEN\n"
        f"  {refusal('an earlier step of this revision failed, so this one does nothing: see above')}\n"
        "END IF;\n"
    )
