"""Further lines of the history, from other packages: one that fails does not take the others with it."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from pipestate.errors import PipestateError, Unreachable
from pipestate.ledger.history import Entry, Source, Wanted
from pipestate.plugins import Plugin, histories

OnError = Callable[[PipestateError], None]


def find_sources(on_error: OnError) -> list[Source]:
    """Load the sources that installed packages offer; tell of each that does not work, now or when it is read."""
    found = []
    for plugin in histories().values():
        try:
            source = plugin.load()
            found.append(Source(tuple(source.kinds), _guarded(plugin, source, on_error)))
        except PipestateError as error:
            on_error(error)
        except Exception as error:  # it is no Source
            on_error(plugin.broken(error))
    return found


def _guarded(
    plugin: Plugin, source: Source, on_error: OnError
) -> Callable[[Connection, Wanted], Sequence[Entry]]:
    def read(connection: Connection, wanted: Wanted) -> Sequence[Entry]:
        try:
            with connection.begin_nested():  # a statement that fails would end the transaction for all
                return list(source.read(connection, wanted))
        except Exception as error:  # whatever the code of somebody else's package raises
            reason = " ".join(str(error).split())
            on_error(Unreachable(f"{plugin.title} failed: {type(error).__name__}: {reason}"))
            return ()

    return read
