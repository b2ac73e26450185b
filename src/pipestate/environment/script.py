"""Offline: the script that `alembic upgrade --sql` writes, for a psql that may be anybody's."""

from typing import Any

from alembic.runtime.environment import EnvironmentContext
from sqlalchemy import URL
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable

from pipestate.environment.engine import engine_of
from pipestate.environment.guard import watch
from pipestate.environment.steps import wrap_steps

VERSION_TABLE = "pipestate_version_table"


def write_script(context: EnvironmentContext, url: URL, settings: dict[str, Any]) -> None:
    """Write the script: its head, then each revision behind the assertion of where it starts."""
    context.configure(url=url, literal_binds=True, dialect_opts={"paramstyle": "named"}, **settings)
    migration = context.get_context()
    migration._version.info[VERSION_TABLE] = True
    engine = engine_of(migration)
    engine.write_head(migration)
    wrap_steps(migration, engine.assert_start)
    watch(context, migration)
    with context.begin_transaction():
        context.run_migrations()


@compiles(CreateTable, "postgresql")
def _version_table_if_not_exists(create: CreateTable, compiler: Any, **options: Any) -> str:
    """Write IF NOT EXISTS: online, Alembic keeps the version table at base, where a script must not fail."""
    if create.element.info.get(VERSION_TABLE):
        create.if_not_exists = True
    return str(compiler.visit_create_table(create, **options))
