"""Two kinds of lock: one migration at a time, and tables locked without stopping the traffic.

A lock request that waits stops everybody who comes after it. So `lock_tables` waits briefly, lets
the queue behind it pass, and asks again, with a growing and jittered pause, until its patience ends;
then it says who is in the way.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from alembic import op
from sqlalchemy import Connection, text

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.postgresql import waiting

# "pipe", "stat" as two integers: the advisory lock that every migration of the chain takes.
LOCK_KEY = (0x70697065, 0x73746174)
LOCK_TIMEOUT_MS = 200
LOCK_PATIENCE_S = 60.0
# For statements whose waiting stops nobody (VALIDATE); `lock_tables` and index builds have their own.
SESSION_LOCK_TIMEOUT = "60s"
MIGRATION_PATIENCE_S = 600.0

HOLDER = text(
    "SELECT l.pid, to_char(a.backend_start, 'HH24:MI:SS') AS since FROM pg_locks l "
    "LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.classid = :a AND l.objid = :b AND l.objsubid = 2 AND l.granted "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = LOCK_TIMEOUT_MS,
    patience_s: float = LOCK_PATIENCE_S,
) -> None:
    """Lock the tables that exist, until the end of the transaction; call it first in one.

    `when` is an SQL condition: without need there is no lock. `also` is a query for more tables.

    1. With a short lock_timeout, ask for all of them in one subtransaction: all or none.
    2. Where one is not available, note who holds it, give everything back, pause, ask again.
    3. After some seconds, warn once of who holds it; when patience ends, fail with the holder's pid and query.

    A lower deadlock_timeout, where the role may set it, makes PostgreSQL cancel an autovacuum that is
    in the way; it does so only for those who wait longer than that.
    """
    named = "VALUES " + ", ".join(f"({sql.literal(sql.name(table))})" for table in tables)
    wanted = " UNION ".join(query for query in (named if tables else None, also) if query)
    gave_up = sql.refusal(
        "could not lock {t} within {s} s: {b}; end that transaction or wait for it, then run the same again",
        {"t": "targets", "s": f"'{patience_s:g}'", "b": "coalesce(holders, 'the holder is gone')"},
    )
    declare = f"""  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '{waiting.SERVER_TELLS_AFTER_S:g} seconds';
  give_up_at timestamptz := clock_timestamp() + interval '{patience_s:g} seconds';"""
    with _told(tables, patience_s):
        sql.do(
            f"""  IF NOT ({when}) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM ({wanted}) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', '{timeout_ms}ms', true);
  BEGIN
    PERFORM set_config('deadlock_timeout', '{max(timeout_ms // 4, 1)}ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE 'LOCK TABLE ' || targets || ' IN {mode} MODE';
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM ({wanted}) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      {gave_up}
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;""",
            declare,
            why=f"lock {', '.join(tables) or 'them'} where needed: {timeout_ms} ms at a time, for up to {patience_s:g} s",
        )


def _told(tables: Sequence[str], patience_s: float) -> AbstractContextManager[None]:
    """Say on stderr when the lock does not come at once; a script says it by itself."""
    if sql.is_offline():
        return nullcontext()
    named = ", ".join(tables) or "what goes with the table"
    return waiting.telling_of_wait(
        op.get_bind(),
        f"still waiting for a lock on {named}: for up to {patience_s:g} s, {LOCK_TIMEOUT_MS} ms at a time",
    )


@contextmanager
def one_migration_at_a_time(
    connection: Connection, *, patience_s: float = MIGRATION_PATIENCE_S, of_transaction: bool = False
) -> Iterator[None]:
    """Hold the advisory lock for the whole run, on the migration's own connection.

    Polled in autocommit: a session that waits inside `pg_advisory_lock` keeps a snapshot, and the
    CREATE INDEX CONCURRENTLY of the one that it waits for would wait for that for ever. With `of_transaction`
    it is a lock of the transaction that somebody else has begun, and ends with it.
    """
    take = "pg_try_advisory_xact_lock" if of_transaction else "pg_try_advisory_lock"
    key = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
    give_up_at = time.monotonic() + patience_s
    said = False
    while not connection.scalar(text(f"SELECT {take}(:a, :b)"), key):
        holder = connection.execute(HOLDER, key).first()
        who = f"pid {holder.pid}, since {holder.since or 'just now'}" if holder else "just ending"
        if time.monotonic() >= give_up_at:
            raise MigrationError(
                f"another migration is still running after {patience_s:g} s ({who}); "
                "wait for it or end it, then run the same again"
            )
        if not said:
            print(f"another migration is running ({who}); waiting for it to end", file=sys.stderr)
            said = True
        time.sleep(0.2)
    try:
        yield
    finally:
        if not of_transaction and not connection.closed and not connection.invalidated:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:a, :b)"), key)
            connection.rollback()


def assert_lock_held(connection: Connection) -> None:
    """Fail where the session that took the lock is not the one we talk to now.

    PgBouncer in transaction mode hands every transaction to another server session: locks and
    settings stay behind, and CONCURRENTLY cannot work.
    """
    key = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
    holder = connection.execute(HOLDER, key).first()
    if holder is None or holder.pid != connection.scalar(text("SELECT pg_backend_pid()")):
        raise MigrationError(
            "the migration lock was lost: the server session changed under the connection. "
            "Connect to PostgreSQL itself, or to a pooler in session mode, and run the same again"
        )


def take_or_refuse() -> None:
    """Write the block by which a revision that was cut out of its script refuses to run beside another migration."""
    a, b = LOCK_KEY
    sql.refuse_when(
        f"NOT pg_try_advisory_lock({a}, {b})",
        "another migration is running on this database: wait for it to end, then run this script again",
    )


def offline_wait() -> str:
    """Write the head of a script, outside any transaction: it waits for the lock, a second at a time."""
    a, b = LOCK_KEY
    return f"""DO $pipestate$
BEGIN
  FOR attempt IN 1..{int(MIGRATION_PATIENCE_S)} LOOP
    IF pg_try_advisory_lock({a}, {b}) THEN RETURN; END IF;
    COMMIT;
    PERFORM pg_sleep(1);
  END LOOP;
  {sql.refusal("another migration is still running on this database: run this script again later")}
END $pipestate$;"""
