"""Offline: the script that `alembic upgrade --sql` writes, for a psql that may be anybody's."""

from typing import Any

from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import URL
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable

from pipestate.ddl import sql
from pipestate.ddl.postgresql import locks
from pipestate.environment.guard import watch
from pipestate.environment.session import SESSION
from pipestate.environment.steps import wrap_steps

HEAD = r"""-- Written by `alembic --sql`. Review it, then run it with psql: psql -f this-file DATABASE
\set ON_ERROR_STOP on"""
VERSION_TABLE = "pipestate_version_table"


def write_script(context: EnvironmentContext, url: URL, settings: dict[str, Any]) -> None:
    """Write the script: its head, then each revision behind the assertion of where it starts."""
    context.configure(url=url, literal_binds=True, dialect_opts={"paramstyle": "named"}, **settings)
    migration = context.get_context()
    migration._version.info[VERSION_TABLE] = True
    if migration.dialect.name == "postgresql":
        _write_head(migration)
    wrap_steps(migration, _assert_start)
    watch(context, migration)
    with context.begin_transaction():
        context.run_migrations()


@compiles(CreateTable, "postgresql")
def _version_table_if_not_exists(create: CreateTable, compiler: Any, **options: Any) -> str:
    """Write IF NOT EXISTS: online, Alembic keeps the version table at base, where a script must not fail."""
    if create.element.info.get(VERSION_TABLE):
        create.if_not_exists = True
    return str(compiler.visit_create_table(create, **options))


def _write_head(migration: MigrationContext) -> None:
    settings = "\n".join(f"SET {name} = '{value}';" for name, value in SESSION.items())
    migration.impl.static_output(f"{HEAD}\n{settings}")
    migration.impl.static_output(locks.offline_wait())


def _assert_start(migration: MigrationContext, step: RevisionStep) -> None:
    """Assert, in each revision, the version that it starts from: a script for another state does nothing."""
    if migration.dialect.name != "postgresql":
        return
    expected = step.from_revisions_no_deps
    wanted = expected[0] if expected else ""
    table = sql.name(migration._version.fullname)
    sql.refuse_when(
        f"(SELECT coalesce(string_agg(version_num, ' '), '') FROM {table}) <> {sql.literal(wanted)}",
        f"this part of the script starts at revision {wanted or 'base'}, but the database is at {{actual}}: "
        "nothing was changed",
        actual=f"(SELECT coalesce(string_agg(version_num, ' '), 'base') FROM {table})",
    )
    locks.take_or_refuse()
