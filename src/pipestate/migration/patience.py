"""Patience with locks: DDL waits briefly, names the session that blocks it, lets the queue pass, and tries
again."""

import ast
import asyncio
import random
import re
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.util import await_only

from pipestate.core.text import listed, plain
from pipestate.database.drivers import query_driver
from pipestate.database.postgresql import own_path
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from pipestate.migration.run import GuardSettings, current_run
from pipestate.runbook.statement import tokens


def driver_state(error: BaseException) -> str | None:
    """Read the server's code for an error that the driver itself has raised."""
    state = getattr(error, "pgcode", None) or getattr(error, "sqlstate", None)
    return state if isinstance(state, str) else None


def _query_own(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """Run a query of ours, where no object of the project can answer it."""
    with own_path(connection, query_driver):
        return query_driver(connection, query)


def called_code(connection: Connection, statement: str) -> str:
    """Return a statement with the code of all functions that it names, directly or indirectly."""
    read, code, new = set[str](), statement, statement
    while names := {name for name in re.findall(r"\w+", new.lower()) if len(name) < 64} - read:
        read |= names
        query = (  # functions of the ledger are compared by their digest
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE oid >= 16384 AND "
            "prokind IN ('f', 'p') "
            "AND pronamespace IS DISTINCT FROM to_regnamespace('pipestate') "
            f"AND lower(proname::text) IN ({', '.join(map(sql.literal, sorted(names)))})"
        )
        new = "\n".join(str(found) for (found,) in _query_own(connection, query))
        code += new
    return code


def pause(connection: Connection, seconds: float) -> None:
    """Sleep; under an asynchronous driver other tasks run meanwhile."""
    if connection.dialect.is_async:
        await_only(asyncio.sleep(seconds))
    else:
        time.sleep(seconds)


# Patience: DDL waits briefly for its lock, names the blocking session, lets the queue pass, and tries again.


LOCK_NOT_AVAILABLE, DEADLOCK = "55P03", "40P01"
SAY_AFTER_S, SAY_AGAIN_AFTER_S = 1.0, 60.0
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
LONGEST_STEP_S = 10.0  # a step that took longer is not run again
_SAVEPOINT = "pipestate_lock"
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "us": 1e-6}
# Modes that make writers wait.
_STRONG = "'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'"
_HELD = (
    "SELECT relation::bigint FROM pg_locks WHERE pid = pg_backend_pid() AND granted "
    f"AND locktype = 'relation' AND mode IN ({_STRONG})"
)
# Sessions with a lock on a table that the statement names, or on one that shares a key or rows with it.
_BLOCKERS = """WITH named AS (
  SELECT c.oid FROM pg_class c WHERE c.relname IN ({names}) AND c.relkind IN ('r', 'p', 'm', 'v')
  UNION SELECT i.indrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relname IN ({names})
), wanted AS (
  SELECT oid FROM named
  UNION SELECT k.confrelid FROM pg_constraint k JOIN named ON k.conrelid = named.oid
    WHERE k.contype = 'f'
  UNION SELECT k.conrelid FROM pg_constraint k JOIN named ON k.confrelid = named.oid
    WHERE k.contype = 'f'
  UNION SELECT i.inhrelid FROM pg_inherits i JOIN named ON i.inhparent = named.oid
  UNION SELECT i.inhparent FROM pg_inherits i JOIN named ON i.inhrelid = named.oid
)
SELECT DISTINCT CASE
    WHEN l.pid IS NULL THEN 'a prepared transaction (see pg_prepared_xacts)'
    ELSE format('pid %s (user %s, application %s) since %s: %s', l.pid, coalesce(a.usename, '?'),
      coalesce(nullif(a.application_name, ''), a.backend_type, '?'),
      coalesce(date_trunc('second', clock_timestamp() - a.xact_start)::text, '?'),
      coalesce(nullif(left(a.query, 200), ''), '?')) END,
  coalesce(a.backend_type = 'autovacuum worker', false)
FROM pg_locks l JOIN wanted ON wanted.oid = l.relation
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND l.mode NOT IN ({weak})"""


class LockTimeout(MigrationError):
    """A lock request that timed out. `waiting` is the sentence that names the blocking session."""


@dataclass
class Patience:
    """One step's patience with locks on PostgreSQL. `existing` returns the tables from before the run."""

    connection: Connection
    settings: GuardSettings
    existing: Callable[[], Collection[int]]
    began: float = field(default_factory=time.monotonic)
    tries: int = 0
    tried_from: float = 0.0
    waits_since: float = 0.0  # time of the first lock request that timed out
    said_at: float = 0.0
    restore: str | None = None  # the lock_timeout to restore
    timeout_is_own: bool = False  # the revision has set one itself
    behind_autovacuum: bool = False

    def run(self, statement: str, call: Callable[[], None], undo: Callable[[], Any] | None = None) -> None:
        """Run DDL at a savepoint; try again while this keeps no other session waiting.

        `undo` returns to a savepoint that stands directly before the statement; else one is set.
        """
        self.tried_from = time.monotonic()
        while True:
            if undo is None:
                query_driver(self.connection, f"SAVEPOINT {_SAVEPOINT}")
            self._set_timeout()
            try:
                call()
            except Exception as error:
                if driver_state(error) not in (LOCK_NOT_AVAILABLE, DEADLOCK):
                    raise
                if undo is None:
                    query_driver(self.connection, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                else:
                    undo()
                self.restore = None
                blockers, self.behind_autovacuum = find_blockers(self.connection, statement)
                self.say(statement, blockers)
                if self.holds_strong_lock() or not self.is_left():
                    raise LockTimeout(_gave_up(statement, blockers)) from None
                self.wait()
            else:
                if undo is None:
                    query_driver(self.connection, f"RELEASE SAVEPOINT {_SAVEPOINT}")
                return

    def run_alone(self, statement: str, call: Callable[[], None], *, strong: bool) -> None:
        """Run a statement in a separate transaction, and leave that open; try again after a lock timeout."""
        self.tried_from = time.monotonic()
        while True:
            query_driver(self.connection, "BEGIN")
            try:
                if strong:
                    self._set_timeout()
                call()
            except Exception as error:
                query_driver(self.connection, "ROLLBACK")
                self.restore = None
                if not strong or driver_state(error) not in (LOCK_NOT_AVAILABLE, DEADLOCK):
                    raise
                blockers, self.behind_autovacuum = find_blockers(self.connection, statement)
                self.say(statement, blockers)
                if not self.is_left():
                    raise LockTimeout(_gave_up(statement, blockers)) from None
                self.wait()
            else:
                self.restore = None  # the setting ends with the transaction
                return

    def lift_timeout(self) -> None:
        """Reset the timeout before a statement that must run to its end: rows, indexes built concurrently."""
        if self.restore is not None:
            query_driver(
                self.connection,
                f"SELECT pg_catalog.set_config('lock_timeout', {sql.literal(self.restore)}, true)",
            )
            self.restore = None

    def is_left(self) -> bool:
        return time.monotonic() - self.began < self.settings.lock_patience_s

    def holds_strong_lock(self) -> bool:
        """Say whether this transaction blocks writers of a table that others may use."""
        existing = self.existing()
        return any(oid in existing for (oid,) in _query_own(self.connection, _HELD))

    def wait(self) -> None:
        """Let the queue behind this session pass; each pause is longer, with a random part."""
        self.tries += 1
        longest = min(SHORTEST_PAUSE_S * 2**self.tries, LONGEST_PAUSE_S)
        pause(self.connection, longest * (0.5 + random.random() / 2))

    def say(self, statement: str, blockers: str) -> None:
        """Name the blocking sessions on stderr after a wait of one second, and then every minute."""
        now = time.monotonic()
        self.waits_since = self.waits_since or self.tried_from
        long = now - self.waits_since >= SAY_AFTER_S * 0.9
        if long and (not self.said_at or now - self.said_at >= SAY_AGAIN_AFTER_S):
            self.said_at = now
            patience = f"trying for up to {self.settings.lock_patience_s:g} s"
            print(
                f"waiting for a lock for `{short(statement)}`: {plain(blockers)}; {patience}",
                file=sys.stderr,
                flush=True,
            )

    def _set_timeout(self) -> None:
        """Set the timeout for one statement.

        Limit the first try to a second, so that the wait is reported soon. An autovacuum yields only to
        sessions that wait longer than deadlock_timeout.
        """
        if self.timeout_is_own or self.restore is not None:
            return
        limit = self.settings.lock_timeout_s if self.tries else min(self.settings.lock_timeout_s, SAY_AFTER_S)
        ((before, deadlock, _),) = query_driver(
            self.connection,
            "SELECT pg_catalog.current_setting('lock_timeout'), "
            "pg_catalog.current_setting('deadlock_timeout'), pg_catalog.set_config('lock_timeout', "
            f"'{round(limit * 1000)}ms', true)",
        )
        self.restore, wanted = before, limit
        if self.behind_autovacuum:
            wanted = max(limit, _in_seconds(deadlock) + 0.2)
        if 0 < _in_seconds(before) < wanted:
            wanted = _in_seconds(before)
        if wanted != limit:
            setting = f"'{round(wanted * 1000)}ms'"
            query_driver(self.connection, f"SELECT pg_catalog.set_config('lock_timeout', {setting}, true)")


def find_blockers(connection: Connection, statement: str) -> tuple[str, bool]:
    """Name the sessions that block a statement, and say whether all of them are autovacuum's."""
    words = {token.identifier for token in tokens(statement, "postgresql")} - {""}
    names = ", ".join(sql.literal(word) for word in sorted(words)) or "''"
    weak = "'AccessShareLock', 'RowShareLock'" if statement.lstrip()[:6].upper() == "CREATE" else "''"
    rows = _query_own(connection, _BLOCKERS.format(names=names, weak=weak))
    if not rows:
        return "the blocking session has ended", False
    return "; ".join(str(row[0]) for row in rows[:3]), all(row[1] for row in rows)


def only_operations(path: Path, function: str) -> bool:
    """Say whether a revision's function consists of calls of `op`, so that a second run repeats no Python."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    libraries = {
        (alias.asname or alias.name).partition(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in ("alembic", "sqlalchemy")
    }
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    return len(found) == 1 and not found[0].decorator_list and _is_plain(found[0].body, {"op"}, libraries)


def _is_plain(body: list[ast.stmt], callers: set[str], libraries: set[str]) -> bool:
    for statement in body:
        if isinstance(statement, ast.Pass):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.With) and len(statement.items) == 1:
            item = statement.items[0]
            name = item.optional_vars
            inner = {name.id} if isinstance(name, ast.Name) else set()
            if not _is_operation(item.context_expr, callers, libraries):
                return False
            if not _is_plain(statement.body, callers | inner, libraries):
                return False
        elif not (isinstance(statement, ast.Expr) and _is_operation(statement.value, callers, libraries)):
            return False
    return True


_WITH_RESULT = ("get_bind", "get_context", "run_async", "invoke", "autocommit_block")


def _is_operation(node: ast.expr, callers: set[str], libraries: set[str]) -> bool:
    """Say whether it is `op.something(...)` with arguments that call only SQLAlchemy and Alembic."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    called = node.func
    if (
        not isinstance(called.value, ast.Name)
        or called.value.id not in callers
        or called.attr in _WITH_RESULT
    ):
        return False
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    return all(
        not isinstance(each, ast.Lambda | ast.Await | ast.Yield | ast.NamedExpr | ast.comprehension)
        and not (isinstance(each, ast.Call) and _root(each.func) not in libraries | callers)
        for argument in arguments
        for each in ast.walk(argument)
    )


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _gave_up(statement: str, blockers: str) -> str:
    committed = current_run().committed
    kept = f"it had committed {listed(committed)}" if committed else "nothing of this revision was kept"
    return (
        f"no lock for `{short(statement)}` in time: {plain(blockers)}. End that transaction or wait "
        f"for it, then run the same again: {kept}"
    )


def short(statement: str) -> str:
    text = plain(" ".join(statement.split()))
    return text if len(text) <= 80 else f"{text[:79]}…"


def _in_seconds(setting: str) -> float:
    """
    >>> _in_seconds("200ms"), _in_seconds("1min"), _in_seconds("0")
    (0.2, 60.0, 0.0)
    """
    number = setting.rstrip("abcdefghijklmnopqrstuvwxyz")
    return float(number) * _UNITS.get(setting[len(number) :], 0.001)
