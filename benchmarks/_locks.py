"""For how long a table is locked against writers, seen from another session every few milliseconds."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

import psycopg2

EVERY_S = 0.01
# Every mode that an UPDATE has to wait for.
HELD = """PREPARE held AS SELECT DISTINCT relation::bigint FROM pg_locks
WHERE granted AND locktype = 'relation' AND relation = ANY ($1)
  AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"""
THERE = "SELECT to_regclass(name)::oid::bigint FROM unnest(%s) AS name WHERE to_regclass(name) IS NOT NULL"


class Watched:
    """What the watcher found, when it has ended: the longest that one of the tables was held, in seconds."""

    longest = 0.0


@contextmanager
def watching(url: str, *tables: str) -> Iterator[Watched]:
    """Look at the locks of these tables for as long as the block runs, from a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    stop, (ours, theirs) = spawn.Event(), spawn.Pipe()
    process = spawn.Process(target=_watch, args=(url, tables, stop, theirs), daemon=True)
    process.start()
    ours.recv()
    watched = Watched()
    try:
        yield watched
    finally:
        stop.set()
        watched.longest = float(ours.recv())
        process.join()


def _watch(url: str, tables: tuple[str, ...], stop: Event, parent: Connection) -> None:
    """Note when each table was last seen free; while it is held, that grows older."""
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(THERE, (list(tables),))
        there = [oid for (oid,) in cursor.fetchall()]
        cursor.execute(HELD)
        parent.send(None)
        longest, free = 0.0, dict.fromkeys(there, time.monotonic())
        while not stop.is_set():
            cursor.execute("EXECUTE held (%s::oid[])", (there,))
            held, now = {oid for (oid,) in cursor.fetchall()}, time.monotonic()
            free |= {oid: now for oid in there if oid not in held}
            longest = max(longest, *(now - free[oid] for oid in there))
            time.sleep(EVERY_S)
    parent.send(longest)
