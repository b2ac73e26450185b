"""The sources of history lines that installed packages offer, so that a broken one stops nothing but itself."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection

from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.ledger.history import Entry, Source, Wanted
from pipestate.plugins import Plugin, histories


def installed_sources() -> tuple[list[Source], list[PipestateError]]:
    """Load the entry points `pipestate.history`; of those that do not work, return why."""
    sources: list[Source] = []
    errors: list[PipestateError] = []
    for plugin in histories().values():
        try:
            sources.append(_load(plugin))
        except PipestateError as error:
            errors.append(error)
    return sources, errors


def _load(plugin: Plugin) -> Source:
    source = plugin.load()
    if not isinstance(source, Source):
        raise ConfigError(
            f"{plugin.title} is no pipestate.ledger.history.Source: update or uninstall that package"
        )

    def read(connection: Connection, wanted: Wanted) -> Sequence[Entry]:
        try:
            with connection.begin_nested():
                return list(source.read(connection, wanted))
        except PipestateError:
            raise
        except Exception as error:  # whatever the code of somebody else's package raises
            reason = " ".join(str(error).split()) or type(error).__name__
            raise Unreachable(f"{plugin.title} failed: {reason}") from error

    return replace(source, read=read)
