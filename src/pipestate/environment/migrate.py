"""What `alembic/env.py` runs: the connection, the lock, one transaction a revision, plain errors."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.util import CommandError
from sqlalchemy import URL, Connection, DateTime, Engine, Identity, NullPool, create_engine, make_url
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable

from pipestate import schema
from pipestate.config import resolve_url
from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError, told_plainly
from pipestate.ddl.objects import VERSION_TABLE
from pipestate.ddl.postgresql import locks
from pipestate.environment.session import SESSION, postgresql_session, sqlite_session
from pipestate.errors import ConfigError

X_OPTIONS = {
    "url": "the database",
    "force": "a reason to go through a closed gate",
    "naive-timezone": "how to read timestamps without a zone (UTC)",
}
SCRIPT_HEAD = r"""-- Written by `alembic --sql`. Review it, then run it with psql: psql -f this-file DATABASE
\set ON_ERROR_STOP on"""


def run(context: EnvironmentContext) -> None:
    """The whole of an `env.py`. `context` is `alembic.context`."""
    options = _options(context)
    if context.is_offline_mode():
        _run_offline(context, options)
    else:
        _run_online(context, options)


def _options(context: EnvironmentContext) -> dict[str, str]:
    options = context.get_x_argument(as_dictionary=True)
    for name, value in options.items():
        if name not in X_OPTIONS:
            known = ", ".join(f"-x {key}=... ({what})" for key, what in X_OPTIONS.items())
            # A URL without `url=` in front must not be repeated: it may hold a password.
            what = f"unknown option -x {name}" if name.replace("-", "").isalnum() else "-x takes name=value"
            raise MigrationError(f"{what}; there are {known}")
        if not value.strip():
            raise MigrationError(f"-x {name}= is empty: it takes {X_OPTIONS[name]}")
    return options


def _settings(options: dict[str, str], *, alone: bool = False, sqlite: bool = False) -> dict[str, Any]:
    """What both ways give to `context.configure`."""
    return {
        "target_metadata": schema.metadata,
        "version_table": VERSION_TABLE,
        "transaction_per_migration": True,
        "transactional_ddl": True,
        "compare_server_default": _differs_in_default if sqlite else True,
        "compare_type": _differs_in_type if sqlite else True,
        "include_object": _is_ours,
        "autogenerate_plugins": ["alembic.autogenerate.*", "alembic.ext.checkconstraint_byname"],
        "pipestate_naive_timezone": options.get("naive-timezone", "UTC"),
        "pipestate_alone": alone,
    }


def _is_ours(item: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
    """For `alembic check`: the application's own tables, columns and types of keys are its own business.

    Of what is in the database but not in the metadata, only a legacy table or column is a finding.
    """
    if not reflected:
        return kind != "column" or "adopted" not in item.info
    if compare_to is not None:
        return True
    if kind == "table":
        return name == schema.site_progress.name
    return kind == "column" and f"{item.table.name}.{name}" in schema.LEGACY_COLUMNS


def _differs_in_default(
    migration: MigrationContext, _inspected: Any, _column: Any, _is: Any, wanted: Any, _rendered: Any
) -> bool | None:
    """SQLite has no identity columns: an INTEGER primary key counts by itself. The rest is Alembic's."""
    del migration
    return False if isinstance(wanted, Identity) else None


def _differs_in_type(
    migration: MigrationContext, _inspected: Any, _column: Any, found: Any, wanted: Any
) -> bool | None:
    """SQLite has no types for times: TIMESTAMP and DATETIME are two spellings. The rest is Alembic's."""
    del migration
    return False if isinstance(found, DateTime) and isinstance(wanted, DateTime) else None


# --- Offline ---------------------------------------------------------------------------------------


@compiles(CreateTable, "postgresql")
def _version_table_if_not_exists(create: CreateTable, compiler: Any, **options: Any) -> str:
    """Online, Alembic keeps the version table at base; then a script that starts there must not fail."""
    if create.element.name == VERSION_TABLE:
        create.if_not_exists = True
    return str(compiler.visit_create_table(create, **options))


def _run_offline(context: EnvironmentContext, options: dict[str, str]) -> None:
    url = _offline_url(context, options)
    context.configure(url=url, literal_binds=True, dialect_opts={"paramstyle": "named"}, **_settings(options))
    migration = context.get_context()
    if migration.dialect.name == "postgresql":
        _write_head(migration)
    _wrap_steps(migration, _offline_step)
    with context.begin_transaction():
        context.run_migrations()


def _offline_url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    """A script needs only the dialect: without a database it is for PostgreSQL."""
    try:
        return _url(context, options)
    except ConfigError:
        if "url" in options:
            raise
        return make_url("postgresql+psycopg2://")


def _write_head(migration: MigrationContext) -> None:
    settings = "\n".join(f"SET {name} = '{value}';" for name, value in SESSION.items())
    migration.impl.static_output(f"{SCRIPT_HEAD}\n{settings}")
    migration.impl.static_output(locks.offline_wait())


def _offline_step(migration: MigrationContext, step: MigrationStep) -> None:
    """Each revision asserts where it starts from: a script for another state must do nothing."""
    if migration.dialect.name != "postgresql":
        return
    expected = step.from_revisions_no_deps
    wanted = expected[0] if expected else ""
    sql.refuse_when(
        f"(SELECT coalesce(string_agg(version_num, ' '), '') FROM {VERSION_TABLE}) <> {sql.literal(wanted)}",
        f"this part of the script starts at revision {wanted or 'base'}, but the database is at {{actual}}: "
        "nothing was changed",
        actual=f"(SELECT coalesce(string_agg(version_num, ' '), 'base') FROM {VERSION_TABLE})",
    )
    locks.take_or_refuse()


# --- Online ----------------------------------------------------------------------------------------


def _run_online(context: EnvironmentContext, options: dict[str, str]) -> None:
    given = context.config.attributes.get("connection")
    if isinstance(given, Connection):
        if given.in_transaction():
            raise MigrationError(
                "the connection given in config.attributes['connection'] is inside a transaction; "
                "the chain commits as it goes: commit or roll back first"
            )
        with told_plainly(given.engine.url):
            _migrate(context, given, options)
        return
    engine = given if isinstance(given, Engine) else _engine(_checked_url(context, options))
    if engine.driver == "psycopg2" and context.config.cmd_opts is not None:
        _let_ctrl_c_through()
    with told_plainly(engine.url), engine.connect() as connection:
        _migrate(context, connection, options)


def _migrate(context: EnvironmentContext, connection: Connection, options: dict[str, str]) -> None:
    sqlite = connection.dialect.name == "sqlite"
    prepare = sqlite_session if sqlite else postgresql_session
    alone = _changes_something(context)
    with prepare(connection, alone=alone):
        context.configure(connection=connection, **_settings(options, alone=alone, sqlite=sqlite))
        _wrap_steps(context.get_context(), _online_step)
        with context.begin_transaction():
            context.run_migrations()


def _online_step(migration: MigrationContext, step: MigrationStep) -> None:
    del step
    if migration.dialect.name == "postgresql" and migration.opts.get("pipestate_alone"):
        assert migration.connection is not None
        locks.assert_still_alone(migration.connection)


def _changes_something(context: EnvironmentContext) -> bool:
    """`upgrade`, `downgrade` and `stamp` have a destination; `current`, `history` and `check` do not queue."""
    try:
        context.get_revision_argument()
    except KeyError:
        return False
    except CommandError:
        return True
    return True


def _checked_url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    try:
        return _url(context, options)
    except ConfigError as error:
        raise MigrationError(str(error)) from error


def _url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    return resolve_url(options.get("url"), ini_url=context.config.get_main_option("sqlalchemy.url"))


def _engine(url: URL) -> Engine:
    arguments: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql":
        arguments = {"connect_timeout": 10, "application_name": "pipestate alembic"}
    return create_engine(url, poolclass=NullPool, connect_args=arguments)


def _let_ctrl_c_through() -> None:
    """Without it, psycopg2 hears Ctrl-C only when the statement at hand is over."""
    import psycopg2.extensions
    import psycopg2.extras

    psycopg2.extensions.set_wait_callback(psycopg2.extras.wait_select)


# --- Steps -----------------------------------------------------------------------------------------


def _wrap_steps(
    migration: MigrationContext, before: Callable[[MigrationContext, MigrationStep], None]
) -> None:
    """Have `before` run at the start of each revision's transaction, whoever wrote the revision."""
    steps = migration._migrations_fn
    if steps is None:
        return

    def wrapped(heads: Any, context: Any) -> Iterator[Any]:
        for step in steps(heads, context):
            step.migration_fn = _wrapped(migration, step, before)
            yield step

    migration._migrations_fn = wrapped


def _wrapped(
    migration: MigrationContext,
    step: MigrationStep,
    before: Callable[[MigrationContext, MigrationStep], None],
) -> Callable[..., None]:
    change = step.migration_fn

    @wraps(change)
    def run_step(**arguments: Any) -> None:
        revision = getattr(step, "revision", None)
        sql.begin_parts(revision.revision if revision is not None else "")
        before(migration, step)
        broken = _broken_references(migration)
        change(**arguments)
        if fresh := _broken_references(migration) - broken:
            table, rowid, parent, _ = next(iter(fresh))
            raise MigrationError(
                f"row {rowid} of {table} would point at no row of {parent}: nothing was changed"
            )

    return run_step


def _broken_references(migration: MigrationContext) -> set[tuple[Any, ...]]:
    """SQLite, with foreign keys off for the rebuilds: what they would have refused."""
    if migration.dialect.name != "sqlite" or migration.as_sql or migration.connection is None:
        return set()
    rows = migration.connection.exec_driver_sql("PRAGMA foreign_key_check")
    return {tuple(row) for row in rows}
