"""Say that a lock is waited for, while it is waited for: a migration that says nothing looks like one that hangs."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from pipestate.drivers import warnings_of
from pipestate.safe import plain

# The server says it, with who is in the way, before we do: its word is the better one.
SERVER_TELLS_AFTER_S = 2.0
TELL_AFTER_S = 5.0


@contextmanager
def telling_of_wait(connection: Connection, otherwise: str) -> Iterator[None]:
    """Print one line on stderr when this takes long: the server's last warning, else the sentence given.

    A driver that passes warnings on only at the end of a statement tells nothing in time.
    """
    with warnings_of(connection) as said:

        def tell() -> None:
            newest = said()
            print(plain(newest[-1] if newest else otherwise), file=sys.stderr, flush=True)

        timer = threading.Timer(TELL_AFTER_S, tell)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
