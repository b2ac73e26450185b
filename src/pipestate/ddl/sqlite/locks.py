"""Locks on SQLite: the file's own. Tables cannot be locked one by one."""

import sqlite3
import time

MIGRATION_PATIENCE_S = 600.0


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = 0,
    patience_s: float = 0,
) -> None:
    """Do nothing: the migration holds the whole file."""


def hold_file(driver: sqlite3.Connection, *, patience_s: float = MIGRATION_PATIENCE_S) -> None:
    """Hold the file's lock from transaction to transaction: one migration at a time.

    All or nothing: one who waits must hold no shared lock, because in this mode it would keep that, and
    the one that works could never write.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    give_up_at = time.monotonic() + patience_s
    while True:
        driver.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            driver.execute("BEGIN EXCLUSIVE")
            driver.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= give_up_at:
                raise
            driver.execute("PRAGMA locking_mode = NORMAL")
            time.sleep(0.2)
        else:
            return
