"""Upgrade and downgrade from inside pipestate, through the project's own env.py, up to the closed gates.

Each batch of revisions is a separate run. A closed gate therefore rolls back its own revision alone, under
any transaction setting of the project. Revisions that do not depend on it are applied. env.py must migrate
the database that was named.
"""

import sys
from argparse import Namespace
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.util import CommandError
from sqlalchemy import URL, Connection

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.text import plain
from pipestate.database import connections as db
from pipestate.database.interrupt import hand_back
from pipestate.database.urls import as_env_py_wants, shown
from pipestate.migration.engine import migration_engine_of
from pipestate.migration.environment import assert_schema, enter_schema
from pipestate.migration.failure import MigrationError
from pipestate.migration.gate import GateClosed
from pipestate.migration.guard import run_before_steps
from pipestate.migration.request import SEVERAL, read_reasons
from pipestate.migration.run import SCHEMAS
from pipestate.project.find import Calls, Project
from pipestate.project.graph import Migrations, ends, next_batch
from pipestate.project.version_table import Locator
from pipestate.runbook.files import readable_runbooks

OTHER = (
    "env.py would migrate {other}, not {named}, so nothing was done: it takes its URL from settings of its "
    "own. Set those to the same database, or let it read sqlalchemy.url"
)


class OtherDatabase(ConfigError):
    """env.py has connected to another database than the named one."""


@contextmanager
def only_on(url: URL, path: Sequence[str] = ()) -> Iterator[None]:
    """Refuse, before its first statement, an env.py that configures a connection to another database.

    With `path`, all of its configurations work in these schemas.
    """
    configure = EnvironmentContext.configure

    @wraps(configure)
    def configure_here(
        self: EnvironmentContext, connection: Connection | None = None, *more: Any, **options: Any
    ) -> None:
        if connection is not None:
            _require_same(connection, url)
            if path:
                options |= enter_schema(connection, path, options)
        configure(self, connection, *more, **options)
        if path:
            run_before_steps(self.get_context(), assert_schema)

    EnvironmentContext.configure = configure_here  # type: ignore[method-assign]
    try:
        yield
    finally:
        EnvironmentContext.configure = configure  # type: ignore[method-assign]


def _require_same(connection: Connection, url: URL) -> None:
    inside = connection.in_transaction()
    try:
        same = db.is_same(connection, url)
    finally:
        if not inside:
            connection.rollback()  # Alembic would mistake the transaction of our query for a caller's
    if not same:
        raise OtherDatabase(OTHER.format(other=shown(connection.engine.url), named=shown(url)))


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A project's migrations, a database, and the revisions that have a gate.

    With `path`, the first of these schemas is upgraded, and all are the search path; `arguments` are those of
    `-x`.
    """

    url: URL
    project: Project
    migrations: Migrations
    locate: Locator
    gated: frozenset[str]
    path: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    def config(self) -> Config:
        """Make Alembic's configuration."""
        config = alembic_config(self.project, self.url)
        if self.path:
            config.attributes[SCHEMAS] = self.path
        if self.arguments:
            config.cmd_opts = Namespace(x=list(self.arguments))
        return config


def make_upgrade(
    project: Project, migrations: Migrations, locate: Locator, url: URL, arguments: Sequence[str] = ()
) -> Upgrade:
    """Collect the parts of an upgrade; the guard refuses what a faulty runbook may open."""
    books, _ = readable_runbooks(project.runbooks)
    opened = {revision for book in books for phase in book.phases for revision in phase.opens}
    gated = {revision.id for revision in migrations if revision.gates}
    return Upgrade(url, project, migrations, locate, frozenset(opened | gated), arguments=tuple(arguments))


@dataclass(slots=True)
class UpgradeResult:
    """The applied revisions, and those left pending: a closed gate's own, and all that need it."""

    before: str | None
    after: str | None = None
    applied: list[str] = field(default_factory=list)
    closed: dict[str, GateClosed] = field(default_factory=dict)
    left_pending: list[str] = field(default_factory=list)
    pending_ungated: list[str] = field(default_factory=list)


def upgrade(on: Upgrade, wanted: Collection[str]) -> UpgradeResult:
    """Upgrade to the wanted revisions; at a closed gate continue with those that do not need it."""
    current, applied = _where(on)
    result = UpgradeResult(current)
    config = on.config()
    _refuse_ambiguous_force(on, on.migrations.ancestors(wanted) - applied)
    while batch := next_batch(on.migrations, applied, wanted, on.gated, result.closed):
        with only_on(on.url, on.path), _translate_errors(on.project):
            try:
                for target in ends(on.migrations, batch):
                    command.upgrade(config, target)
            except GateClosed as error:
                result.closed[error.revision] = error
        before = applied
        current, applied = _where(on)
        result.applied += [revision.id for revision in on.migrations if revision.id in applied - before]
        if applied == before and not any(each.id in result.closed for each in batch):
            names = ", ".join(revision.id for revision in batch)
            raise PipestateError(
                f"env.py ran without applying {names} to the named database: let it call context.run_migrations()"
            )
    result.after = current
    pending = on.migrations.ancestors(wanted) - applied
    result.left_pending = [revision.id for revision in on.migrations if revision.id in pending]
    result.pending_ungated = [revision for revision in result.left_pending if revision not in on.gated]
    return result


def _refuse_ambiguous_force(on: Upgrade, pending: Collection[str]) -> None:
    """Refuse a force without a gate's name if several gates are pending: each batch alone would meet only one."""
    reason = read_reasons(on.arguments)[1]
    gates = sorted({gate for each in on.migrations if each.id in pending for gate in each.gates})
    if reason is not None and len(gates) > 1:
        raise ConfigError(SEVERAL.format(gates=" and ".join(gates), first=gates[0], reason=reason))


def upgrade_to_gates(on: Upgrade) -> None:
    """Upgrade to the last revisions before any gate, without evaluating one."""
    _, applied = _where(on)
    config = on.config()
    batch = next_batch(on.migrations, applied, on.migrations.heads, on.gated, on.gated)
    with only_on(on.url, on.path), _translate_errors(on.project):
        for target in ends(on.migrations, batch):
            command.upgrade(config, target)


def _where(on: Upgrade) -> tuple[str | None, frozenset[str]]:
    """Read the database's position; a missing file is at its base."""
    if migration_engine_of(on.url).is_new(on.url):
        return None, frozenset()
    with db.reader(on.url, path=on.path) as connection:
        position = on.locate(connection)
    return position.current, position.applied


@contextmanager
def _translate_errors(project: Project) -> Iterator[None]:
    """Pass Ctrl-C to env.py unchanged; turn failures of a run, except a closed gate, into our errors."""
    hand_back()
    try:
        yield
    except MigrationError as error:
        error.exit_code = Unreachable.exit_code  # nothing could be evaluated
        raise
    except CommandError as error:
        raise ConfigError(str(error)) from error
    except RuntimeError as error:
        if project.named.flask is None:
            raise
        outside = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"{project.scripts / 'env.py'} runs inside its Flask application ({plain(outside)}): "
            f"{Calls(project.named).alembic('upgrade')}"
        ) from error


def alembic_config(project: Project, url: URL) -> Config:
    """Make the configuration of `alembic -c ... -n ...`; Alembic's output is written to stderr."""
    configuration = project.configuration
    config = Config(str(configuration.ini.path) if configuration and configuration.ini else None)
    if configuration is not None:
        config.config_ini_section = configuration.section
        if configuration.toml is not None:
            config.toml_file_name = str(configuration.toml)
    config.set_main_option("script_location", str(project.scripts).replace("%", "%%"))
    config.print_stdout = _to_stderr  # type: ignore[method-assign]
    spelt = url_for_env_py(project, url)
    config.set_main_option("sqlalchemy.url", spelt.render_as_string(hide_password=False).replace("%", "%%"))
    return config


def url_for_env_py(project: Project, url: URL) -> URL:
    """Spell the URL with the project's own driver; if the ini's URL is unreadable, keep ours."""
    with suppress(ConfigError):
        return as_env_py_wants(url, project.option("sqlalchemy.url"))
    return url


def _to_stderr(text: str, *arguments: object) -> None:
    print(text % arguments if arguments else text, file=sys.stderr)


@dataclass(frozen=True, slots=True)
class DowngradeResult:
    """The revisions that were reverted, the last one first."""

    before: str | None
    after: str | None
    reverted: list[str]


def downgrade(on: Upgrade, target: str) -> DowngradeResult:
    """Downgrade to a target as Alembic names it: a revision, `-1`, `base`, `branch@base`."""
    before, applied = _where(on)
    with only_on(on.url), _translate_errors(on.project):
        command.downgrade(on.config(), target)
    after, left = _where(on)
    return DowngradeResult(
        before, after, [each.id for each in on.migrations if each.id in applied - left][::-1]
    )
