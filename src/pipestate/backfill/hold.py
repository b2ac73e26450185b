"""What holds a backfill back: rows that others keep locked, and replicas that are behind."""

import time
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.backfill.engine import BackfillEngine
from pipestate.backfill.failure import reason
from pipestate.backfill.source import Key
from pipestate.errors import Unreachable

LOCK_PATIENCE_S = 30.0
LAG_PATIENCE_S = 600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
QUIET_S = 60.0  # so long nothing is said of replicas again
GOES_ON = "what is done stays done, and the same command goes on"


class Hold:
    """Waits with patience that ends, and says for what."""

    def __init__(
        self,
        connection: Connection,
        engine: BackfillEngine,
        key: Key,
        max_lag_s: float | None,
        on_wait: Callable[[str], None],
    ) -> None:
        self.connection, self.engine, self.key = connection, engine, key
        self.max_lag_s, self.on_wait = max_lag_s, on_wait
        self.locked_since: float | None = None
        self.pause_s = FIRST_PAUSE_S
        self.quiet_until = 0.0

    def for_locks(self, error: DBAPIError) -> None:
        """Pause before a batch is tried again, longer each time; give up when patience ends."""
        now = time.monotonic()
        if self.locked_since is None:
            self.locked_since = now
            self.on_wait(
                f"somebody keeps rows of {self.key.table} locked: trying again for {LOCK_PATIENCE_S:.0f} s"
            )
        if now - self.locked_since > LOCK_PATIENCE_S:
            who = self.engine.blockers(self.connection, self.key)
            raise Unreachable(
                f"rows of {self.key.table} stayed locked for {LOCK_PATIENCE_S:.0f} s ({reason(error)}); at work on it: "
                f"{who}; {GOES_ON}"
            ) from error
        time.sleep(self.pause_s)
        self.pause_s = min(self.pause_s * 2, LONGEST_PAUSE_S)

    def forget_locks(self) -> None:
        """Have full patience again, once a batch went through."""
        self.locked_since, self.pause_s = None, FIRST_PAUSE_S

    def while_replicas_are_behind(self) -> None:
        """Wait until no replica is further behind than it may be."""
        if self.max_lag_s is None:
            return
        since = time.monotonic()
        while (behind := self.engine.lag(self.connection)) > self.max_lag_s:
            if time.monotonic() > self.quiet_until:
                self.quiet_until = time.monotonic() + QUIET_S
                self.on_wait(
                    f"a replica is {behind:.1f} s behind: waiting until it is at most {self.max_lag_s:g} s"
                )
            if time.monotonic() - since > LAG_PATIENCE_S:
                raise Unreachable(
                    f"a replica has been more than {self.max_lag_s:g} s behind for {LAG_PATIENCE_S / 60:.0f} minutes: "
                    f"{GOES_ON}"
                )
            time.sleep(FIRST_PAUSE_S)
