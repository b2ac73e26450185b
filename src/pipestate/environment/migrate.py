"""What an `env.py` runs: the connection, the lock, one transaction a revision, plain errors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from sqlalchemy import URL, Connection, Engine, MetaData, NullPool, create_engine

from pipestate.ddl import objects
from pipestate.ddl.failure import MigrationError, told_plainly
from pipestate.environment.engine import engine_of
from pipestate.environment.guard import changes_something, watch
from pipestate.environment.migration_lock import assert_lock
from pipestate.environment.options import offline_url, online_url, read_options
from pipestate.environment.own_tables import include_name
from pipestate.environment.script import write_script
from pipestate.environment.steps import wrap_steps
from pipestate.interrupt import listen

Compare = bool | Callable[..., bool | None]
Settings = Mapping[str, Mapping[str, Any]]  # what `configure` gets, for each engine


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

    `metadata`, `include_object`, the comparisons and `plugins` are for autogenerate, as Alembic knows
    them; `on_sqlite` is what `configure` gets there instead. With `registry` the chain remembers what it
    created, and its downgrades drop nothing else.
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
        "pipestate_naive_timezone": options.get("naive-timezone", "UTC"),
        objects.REGISTRY: registry,
    }
    if version_table is not None:
        settings["version_table"] = version_table
    if plugins is not None:
        settings |= _known(plugins)
    if context.is_offline_mode():
        write_script(context, offline_url(context, options), settings)
    else:
        _run_online(context, options, {"postgresql": settings, "sqlite": settings | dict(on_sqlite or {})})


def _known(plugins: Sequence[str]) -> dict[str, list[str]]:
    """Leave out what this Alembic does not have: plugins came with 1.18, those of its own in `alembic.ext` with 1.20."""
    try:
        from alembic.runtime.plugins import _all_plugins
    except ImportError:
        return {}
    there = [name for name in plugins if name in _all_plugins or not name.startswith("alembic.ext.")]
    return {"autogenerate_plugins": there}


def _run_online(context: EnvironmentContext, options: dict[str, str], settings: Settings) -> None:
    given = context.config.attributes.get("connection")
    if isinstance(given, Connection):
        if given.in_transaction():
            raise MigrationError(
                "the connection given in config.attributes['connection'] is inside a transaction; "
                "the chain commits as it goes: commit or roll back first"
            )
        with told_plainly(given.engine.url):
            _migrate(context, given, settings)
        return
    engine = given if isinstance(given, Engine) else _engine(online_url(context, options))
    if engine.driver == "psycopg2" and context.config.cmd_opts is not None:
        listen()
    with told_plainly(engine.url), engine.connect() as connection:
        _migrate(context, connection, settings)


def _migrate(context: EnvironmentContext, connection: Connection, settings: Settings) -> None:
    locked = changes_something(context)
    with engine_of(connection).session(connection, locked=locked):
        context.configure(connection=connection, **settings[connection.dialect.name])
        if locked:
            wrap_steps(context.get_context(), before=assert_lock)
        watch(context, context.get_context())
        with context.begin_transaction():
            context.run_migrations()


def _engine(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool, connect_args=engine_of(url).CONNECT_ARGUMENTS)
