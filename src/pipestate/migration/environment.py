"""A whole env.py: the connection, the lock, one transaction a revision, and the script of `--sql`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import URL, Connection, Engine, MetaData, NullPool, create_engine, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable

from pipestate.core.errors import ConfigError
from pipestate.database.interrupt import listen
from pipestate.migration.alembic import known_plugins
from pipestate.migration.alembic import version_table as table_of
from pipestate.migration.engine import migration_engine_of
from pipestate.migration.failure import MigrationError, translate_errors
from pipestate.migration.guard import assert_lock, changes_something, include_name, run_before_steps, watch
from pipestate.migration.recording import record_run
from pipestate.migration.run import SCHEMAS, find_url, read_options, run_of

# A tenant: the search path of its session, and its own version table.
_SET = text(
    "SELECT pg_catalog.set_config('search_path', :path, false), pg_catalog.set_config('pipestate.tenant', "
    ":tenant, false)"
)
_WHERE = text(
    "SELECT pg_catalog.current_schema() AS schema, pg_catalog.current_setting('pipestate.tenant', true) AS "
    "tenant"
)


def enter_schema(connection: Connection, path: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Set the search path for the session.

    Return more arguments of `configure`: the version table's schema.
    """
    schema = path[0]
    given = options.get("version_table_schema")
    if given not in (None, schema):
        raise ConfigError(
            f"env.py keeps its version table in the schema {given}, and the tenant {schema} needs one of its "
            "own: leave version_table_schema out"
        )
    inside = connection.in_transaction()  # the path remains in env.py's transaction
    quote = connection.dialect.identifier_preparer.quote_identifier
    connection.execute(_SET, {"path": ", ".join(map(quote, path)), "tenant": schema})
    found = connection.execute(_WHERE).one()
    if not inside:
        connection.commit()
    if found.schema != schema:
        raise ConfigError(
            f"there is no schema {schema}, or this role may not use it: create it, or grant USAGE on it"
        )
    connection.dialect.default_schema_name = schema
    return {"version_table_schema": schema}


def assert_schema(migration: MigrationContext, step: RevisionStep) -> None:
    """Refuse a step if its session has left the tenant: env.py or a pooler has changed its search path."""
    assert migration.connection is not None
    found = migration.connection.execute(_WHERE).one()
    wanted = migration.version_table_schema
    if (found.schema, found.tenant) != (wanted, wanted):
        raise MigrationError(
            f"the session works in the schema {found.schema}, not in {wanted}, so {step.revision.revision} "
            "was not run: let env.py leave the search path alone, and connect to PostgreSQL itself, or to a "
            "pooler in session mode"
        )


VERSION_TABLE = "pipestate_version_table"


def write_script(
    context: EnvironmentContext, url: URL, settings: dict[str, Any], begin: Callable[[], None]
) -> None:
    """Write the script: its head, then each revision behind the assertion of its starting version."""
    context.configure(url=url, literal_binds=True, dialect_opts={"paramstyle": "named"}, **settings)
    begin()
    migration = context.get_context()
    table_of(migration).info[VERSION_TABLE] = True
    engine = migration_engine_of(migration)
    engine.write_head(migration)
    run_before_steps(migration, engine.assert_start)
    watch(context, migration)
    with context.begin_transaction():
        context.run_migrations()


@compiles(CreateTable, "postgresql")
def _version_table_if_not_exists(create: CreateTable, compiler: Any, **options: Any) -> str:
    """Write IF NOT EXISTS: online, Alembic keeps the version table at base; a script must accept that."""
    if create.element.info.get(VERSION_TABLE):
        create.if_not_exists = True
    return str(compiler.visit_create_table(create, **options))


# The work of an `env.py`: connection, lock, one transaction a revision, plain errors.


Compare = bool | Callable[..., bool | None]
Settings = Mapping[str, Mapping[str, Any]]  # arguments of `configure`, for each engine


def run(
    context: EnvironmentContext,
    *,
    metadata: MetaData | Sequence[MetaData] | None = None,
    version_table: str | None = None,
    registry: bool = False,
    include_object: Callable[..., bool] | None = None,
    compare_type: Compare = True,
    compare_server_default: Compare = True,
    plugins: Sequence[str] | None = None,
    on_sqlite: Mapping[str, Any] | None = None,
) -> None:
    """Do the whole work of an `env.py`; `context` is `alembic.context`.

    `metadata`, `include_object`, the comparisons and `plugins` are Alembic's arguments for autogenerate.
    `on_sqlite` replaces arguments of `configure` on SQLite. With `registry` the migrations record the objects
    that it creates, and its downgrades drop only those.
    """
    options = read_options(context)
    settings: dict[str, Any] = {
        "target_metadata": metadata,
        "transaction_per_migration": True,
        "transactional_ddl": True,
        "compare_type": compare_type,
        "compare_server_default": compare_server_default,
        "include_object": include_object,
        "include_name": include_name,
    }

    def begin() -> None:
        state = run_of(context.get_context())
        state.has_registry, state.naive_timezone = registry, options.get("naive-timezone", "UTC")

    if version_table is not None:
        settings["version_table"] = version_table
    if plugins is not None:
        settings |= known_plugins(plugins)
    if context.is_offline_mode():
        write_script(context, find_url(context, options), settings, begin)
    else:
        engines = {"postgresql": settings, "sqlite": settings | dict(on_sqlite or {})}
        _run_online(context, options, engines, begin)


def _run_online(
    context: EnvironmentContext, options: dict[str, str], settings: Settings, begin: Callable[[], None]
) -> None:
    given = context.config.attributes.get("connection")
    if isinstance(given, Connection):
        if given.in_transaction():
            raise MigrationError(
                "the connection given in config.attributes['connection'] is inside a transaction; "
                "the migrations commit as they go: commit or roll back first"
            )
        with translate_errors(given.engine.url):
            _migrate(context, given, settings, begin)
        return
    engine = given if isinstance(given, Engine) else _engine(find_url(context, options))
    if engine.driver == "psycopg2" and context.config.cmd_opts is not None:
        listen()
    with translate_errors(engine.url), engine.connect() as connection:
        _migrate(context, connection, settings, begin)


def _migrate(
    context: EnvironmentContext, connection: Connection, settings: Settings, begin: Callable[[], None]
) -> None:
    locked = changes_something(context)
    if path := context.config.attributes.get(SCHEMAS):
        enter_schema(connection, path, {})  # before the lock, because each tenant has a separate lock
    with migration_engine_of(connection).open_session(connection, locked=locked):
        context.configure(connection=connection, **settings[connection.dialect.name])
        begin()
        if locked:
            run_before_steps(context.get_context(), assert_lock)
        watch(context, context.get_context())
        with context.begin_transaction():
            context.run_migrations()
        record_run(context.get_context())


def _engine(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool, connect_args=migration_engine_of(url).CONNECT_ARGUMENTS)
