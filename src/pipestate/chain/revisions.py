"""Where a database stands in its chain, read from an Alembic project and the version table."""

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect

from pipestate.chain.position import Position
from pipestate.errors import ConfigError


def revisions_at(connection: Connection, ini: Path) -> Position:
    """All revisions of the project, and those that this database has."""
    config = project_config(ini)
    script = script_directory(config)
    table = config.get_main_option("version_table") or "alembic_version"
    return resolve(script, stored_heads(connection, table))


def chain(ini: Path) -> list[tuple[str, str]]:
    """Every revision with its title, from the base on."""
    script = script_directory(project_config(ini))
    return [(revision.revision, revision.doc or "") for revision in reversed(list(script.walk_revisions()))]


def project_config(ini: Path) -> Config:
    if not ini.is_file():
        raise ConfigError(f"there is no {ini}: name the project's alembic.ini with --config")
    return Config(str(ini))


def script_directory(config: Config) -> ScriptDirectory:
    try:
        return ScriptDirectory.from_config(config)
    except CommandError as error:
        raise ConfigError(f"{config.config_file_name}: {error}") from error


def stored_heads(connection: Connection, table: str) -> tuple[str, ...]:
    """What the version table says; none where it does not exist."""
    if not inspect(connection).has_table(table):
        return ()
    quoted = connection.dialect.identifier_preparer.quote(table)
    rows = connection.exec_driver_sql(f"SELECT version_num FROM {quoted}")
    return tuple(sorted(str(row[0]) for row in rows))


def resolve(script: ScriptDirectory, heads: tuple[str, ...]) -> Position:
    try:
        known = frozenset(revision.revision for revision in script.walk_revisions())
        applied = frozenset(
            revision.revision for revision in script.iterate_revisions(heads, "base") if heads
        )
    except CommandError as error:
        raise ConfigError(
            f"the database is at revision {' '.join(heads)}, which this project does not have: "
            "name the right alembic.ini with --config"
        ) from error
    return Position(known, applied, " ".join(heads) or None, " ".join(sorted(script.get_heads())) or None)
