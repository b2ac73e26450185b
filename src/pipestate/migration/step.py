"""One step of a migration under the guard: a savepoint around it, patience inside it, the comparison at its
end."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import Connection, event

from pipestate.database.drivers import is_autocommit, query_driver
from pipestate.migration.engine import MigrationEngine, migration_engine_of
from pipestate.migration.failure import MigrationError
from pipestate.migration.losses import GuardedRun, decide
from pipestate.migration.patience import (
    LONGEST_STEP_S,
    LockTimeout,
    Patience,
    called_code,
    driver_state,
    only_operations,
    short,
)
from pipestate.migration.request import force_reason
from pipestate.migration.run import run_of
from pipestate.migration.statements import (
    COMMITS,
    StatementKind,
    ends_in_the_middle,
    first_word,
    kind_of,
    may_lose,
    only_reads,
    say_when_long,
)

NO_BLOCK, ENDS_ITSELF = "25001", "2D000"
# Texts that describe a loss; inserted rows do not.
_LOSING = re.compile(r"(?i)\b(alter|truncate|rename|using|delete|select)\b")
_LONGEST_TEXT = 20_000


def run_guarded(
    run: GuardedRun, migration: MigrationContext, step: RevisionStep, body: Callable[[], None]
) -> None:
    """Run one step on the database."""
    assert migration.connection is not None
    GuardedStep(run, migration, step, migration.connection, migration_engine_of(migration)).run_step(body)


@dataclass
class GuardedStep:
    """A running step. `bound` means that the savepoint can undo its work."""

    run: GuardedRun
    migration: MigrationContext
    step: RevisionStep
    connection: Connection
    engine: MigrationEngine
    bound: bool = False
    is_fresh: bool = False  # no statement has run since the savepoint
    began: bool = False  # the guard has sent BEGIN, on a connection that commits each statement by itself
    refused: MigrationError | None = None  # a refusal that the revision itself may have caught
    is_ours: bool = False  # statements of the guard are not compared
    before: Any = None
    statements: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)  # statements that no commit has followed yet
    patience: Patience = field(init=False)
    is_plain: bool = field(init=False)  # the step contains only operations

    def __post_init__(self) -> None:
        # Operations reach the database through SQLAlchemy: the first one triggers reading the catalogue.
        name = "upgrade" if self.step.is_upgrade else "downgrade"
        self.is_plain = only_operations(Path(self.step.revision.path), name)
        if not self.is_plain:
            self.before = self.run.current(self.connection, self.engine.read_catalogue)
        self.patience = Patience(self.connection, self.run.settings, self._existing)

    def run_step(self, body: Callable[[], None]) -> None:
        """Run the step, compare, and keep it; on any error undo this step alone."""
        with self._listening():
            try:
                self._begin()
                self._run_patiently(body)
                self._close()
            except BaseException:
                self._undo()
                raise

    def _run_patiently(self, body: Callable[[], None]) -> None:
        """Run the body.

        After a lock timeout under strong locks, run it again if it contains only operations.
        """
        began = time.monotonic()
        while True:
            try:
                body()
            except LockTimeout:
                quick = time.monotonic() - began < LONGEST_STEP_S
                again = quick and self.bound and self.patience.is_left()
                if not again or not self.is_plain:
                    raise
                self.engine.roll_back(self.connection)
                self.is_fresh = True
                self.statements.clear()
                self.pending.clear()
                if self.patience.holds_strong_lock():
                    raise
                self.patience.wait()
                began = time.monotonic()
            else:
                if self.refused is not None:
                    raise self.refused  # the revision itself has caught the refusal
                return

    def _begin(self) -> None:
        """Set the savepoint; if the connection commits each statement, begin a transaction for it."""
        self._bind()
        if not self.bound:
            query_driver(self.connection, "BEGIN")
            self.began = True
            self._bind()

    def _bind(self) -> None:
        """Set the savepoint, if there is a transaction."""
        self.bound = self.is_fresh = self.engine.set_savepoint(self.connection, self.run.memory)

    def _close(self) -> None:
        """Compare, and release the savepoint: later statements belong to other code."""
        if self.bound:
            self.patience.lift_timeout()
            self._judge()
            self.engine.release_savepoint(self.connection, self.run.memory)
            if self.began:
                query_driver(self.connection, "COMMIT")
        self.bound = self.began = False
        self.statements.clear()

    def _undo(self) -> bool:
        """Undo the uncommitted work of the step; return False if that is impossible."""
        if not self.bound or self.connection.closed or self.connection.invalidated:
            return False
        self.bound = False
        try:
            undone = self.engine.roll_back(self.connection)
            if undone:
                self.engine.release_savepoint(self.connection, self.run.memory)
            if self.began or is_autocommit(self.connection):
                query_driver(self.connection, "ROLLBACK")
        except Exception:
            with suppress(Exception):
                self.connection.rollback()
            return True
        self.run.catalogue = None
        return undone

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Listen to every statement, commit and rollback of this connection."""
        dialect = self.connection.dialect

        def execute(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
            call = partial(dialect.do_execute, cursor, statement, parameters, context)
            return self._hears(context, statement, call)

        def execute_plain(cursor: Any, statement: str, context: Any) -> bool:
            call = partial(dialect.do_execute_no_params, cursor, statement, context)
            return self._hears(context, statement, call)

        listeners: list[tuple[Any, str, Callable[..., Any]]] = [
            (dialect, "do_execute", execute),
            (dialect, "do_execute_no_params", execute_plain),
            (self.connection, "commit", lambda _: self._commits()),
            (self.connection, "rollback", lambda _: setattr(self, "bound", False)),
        ]
        try:
            for listener in listeners:
                event.listen(*listener)
            yield
        finally:
            for listener in listeners:
                event.remove(*listener)

    def _hears(self, context: Any, statement: str, call: Callable[[], None]) -> bool:
        """Run a statement of this step under its rules; leave other statements to SQLAlchemy."""
        if self.is_ours or context is None or context.root_connection is not self.connection:
            return False
        with say_when_long(statement):
            self._execute(statement, call)
        return True

    def _commits(self) -> None:
        """Compare before SQLAlchemy commits; after a refusal end the transaction, as SQLAlchemy assumes."""
        if not self.bound or self.is_ours:
            return
        try:
            self._close()
        except BaseException:
            self.bound = self.began = False
            self.connection.connection.rollback()
            raise
        self._note_commit()

    def _note_commit(self) -> None:
        """Remember for messages what no rollback can undo any more."""
        run = run_of(self.migration)
        run.last_commit = self.step.revision.revision
        run.committed += self.pending
        self.pending.clear()

    def _execute(self, statement: str, call: Callable[[], None]) -> None:
        dialect = self.connection.dialect.name
        kind = kind_of(statement, dialect)
        if ends_in_the_middle(statement, dialect):
            raise MigrationError(
                f"revision {self.step.revision.revision} has COMMIT or ROLLBACK in the middle of one op.execute(): "
                "give it a separate op.execute(), or use autocommit_block()"
            )
        if kind is StatementKind.COMMIT:
            self._close()
            self._note_commit()
        elif kind is StatementKind.ROLLBACK:
            self.bound = False
            self.pending.clear()
        if kind in (StatementKind.COMMIT, StatementKind.ROLLBACK, StatementKind.BEGIN):
            call()
            return
        self._prepare(statement, kind)
        if self.began and kind is StatementKind.FREE:
            self._close()
            call()
            self._note_commit()
            self._begin()
        elif self.bound:
            self._run_bound(statement, kind, call)
        elif kind in (StatementKind.FREE, StatementKind.SETTING):
            call()
            self._note_commit()
        else:
            self._run_alone(statement, kind, call)

    def _prepare(self, statement: str, kind: StatementKind) -> None:
        if self.before is None:
            self.before = self.run.current(self.connection, self.engine.read_catalogue)
        if not self.bound:
            self._bind()
        if kind is StatementKind.SETTING and "lock_timeout" in statement.lower():
            self.patience.timeout_is_own = True
        if fault := self.engine.prepare_statement(self.connection, statement, self.before, self.run.memory):
            raise MigrationError(f"revision {self.step.revision.revision} {fault}")
        if not only_reads(statement[:_LONGEST_TEXT]):
            self.pending.append(f"`{short(statement)}`")
        if _LOSING.search(statement, 0, _LONGEST_TEXT):
            self.statements.append(statement[:_LONGEST_TEXT])

    def _run_bound(self, statement: str, kind: StatementKind, call: Callable[[], None]) -> None:
        is_first, self.is_fresh = self.is_fresh, False
        if kind is StatementKind.STRONG and self._existing():
            # Other code may have run statements unseen, which must stay.
            undo = partial(self.engine.roll_back, self.connection) if is_first and self.is_plain else None
            self.patience.run(statement, call, undo)
            return
        self.patience.lift_timeout()
        try:
            call()
        except Exception as error:
            if self.began and driver_state(error) == ENDS_ITSELF:
                raise MigrationError(f"revision {self.step.revision.revision} {COMMITS}") from None
            raise

    def _run_alone(self, statement: str, kind: StatementKind, call: Callable[[], None]) -> None:
        """Give a self-committing statement a separate transaction and comparison."""
        try:
            self.patience.run_alone(statement, call, strong=kind is StatementKind.STRONG)
        except Exception as error:
            if not self._may_run_bare(statement, driver_state(error)):
                raise
            call()
            self._note_commit()
            self.run.catalogue = None  # it has committed, and released its locks
            self.before = self.run.current(self.connection, self.engine.read_catalogue)
            return
        try:
            self._judge(undo=lambda: None)
        except BaseException:
            query_driver(self.connection, "ROLLBACK")
            raise
        query_driver(self.connection, "COMMIT")
        self.statements.clear()
        self._note_commit()

    def _may_run_bare(self, statement: str, state: str | None) -> bool:
        """Say whether a statement that refuses a transaction may run without one."""
        if state == NO_BLOCK:
            return first_word(statement) != "DROP"
        if state != ENDS_ITSELF:
            return False
        if (
            may_lose(called_code(self.connection, statement))
            and force_reason() is None
            and self.run.settings.enforce
        ):
            raise MigrationError(f"revision {self.step.revision.revision} {COMMITS}")
        return True

    def _existing(self) -> set[int]:
        """Return the tables that existed before the run."""
        return {oid for oid in getattr(self.before, "tables", ()) if oid not in self.run.memory.created}

    def _judge(self, undo: Callable[[], Any] | None = None) -> None:
        """Compare with the catalogue before.

        Refuse a loss, unless a gate, a reason or a setting allows it.
        """
        if self.before is None:
            return
        after, losses = self.engine.compare(self.connection, self.before, self.run.memory, self.statements)
        judged = not self.step.is_upgrade or self.step.revision.revision not in self.run.not_judged
        if losses and judged:
            self.is_ours = True
            try:
                decide(
                    self.migration, self.step, losses, undo or self._undo, enforce=self.run.settings.enforce
                )
            except MigrationError as error:
                self.refused = error
                raise
            finally:
                self.is_ours = False
        self.before = self.run.catalogue = after
