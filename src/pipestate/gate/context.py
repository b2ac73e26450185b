"""The gate of a revision: its phase of the runbook, asked inside the migration itself.

    with gate("orders/readiness", lock=["order_log"], recheck=["quiet"], insist=["soak"],
              sign_offs=["restore-tested"], revision=revision):
        archive_table("order_log")

Where the tables to be locked hold no rows there is nothing to lose: the gate is open. A closed gate raises
GateClosed; `-x force="reason"` goes through, and the ledger keeps the reason. How it is asked is in `online`
and, for `alembic upgrade --sql`, in `script`.
"""

from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn, Protocol

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError, heard_on_stderr, on_command_line, told_plainly
from pipestate.ddl.mark import inside
from pipestate.errors import PipestateError
from pipestate.gate import online, script
from pipestate.gate.closed import what_was_done
from pipestate.gate.engine import engine_of
from pipestate.gate.passed import note_passed
from pipestate.gate.question import Question, read_question, running_revision
from pipestate.gate.tables import Tables
from pipestate.interrupt import listen


@contextmanager
def gate(
    phase: str,
    *,
    lock: Sequence[str],
    recheck: Sequence[str] = (),
    insist: Sequence[str] = (),
    sign_offs: Sequence[str] = (),
    prepare: Callable[[], None] | None = None,
    may_be_gone: bool = False,
    revision: str | None = None,
) -> Iterator[None]:
    """Run the body only while the phase's gate is open.

    `recheck` names the checks that a late write could turn; they are asked again under the lock. `insist`
    names checks, and `sign_offs` sign-offs, that must be on the page, blocking, and asked now. `prepare` is
    long work that needs no lock. `may_be_gone` allows tables that do not exist.
    """
    context = op.get_context()
    if context.dialect.driver == "psycopg2" and on_command_line(context):
        listen()
    with heard_on_stderr(context), _lost_plainly(context), _as_alembic_hears_it(context):
        if isinstance(lock, str) or not lock:
            raise MigrationError(
                f"lock={lock!r}: give a list of the tables that the change needs, at least one"
            )
        running = running_revision(revision)
        question = read_question(phase, running, recheck=recheck, insist=insist, sign_offs=sign_offs)
        with sql.running(running):
            _refuse_translated(context, lock)
            _asker(context).pass_gate(question, Tables(tuple(lock), may_be_gone), prepare)
            note_passed(question.name)
    _refuse_autocommit(context, running)
    with sql.running(running), inside(running, lock), _interrupted_plainly(context):
        yield


def require(phase: str, checks: Sequence[str], *, revision: str | None = None) -> None:
    """Ask these checks of a phase now, without a lock: what a `prepare` must be sure of."""
    context = op.get_context()
    with _lost_plainly(context), _as_alembic_hears_it(context):
        question = read_question(phase, running_revision(revision), insist=checks)
        _asker(context).require(question, checks)


class _Asker(Protocol):
    """What `online` and `script` both have."""

    def pass_gate(self, question: Question, tables: Tables, prepare: Callable[[], None] | None) -> None: ...

    def require(self, question: Question, checks: Sequence[str]) -> None: ...


def _asker(context: MigrationContext) -> _Asker:
    """Choose how to ask: on the connection, or in the script that is being written."""
    if context.as_sql:
        engine_of(context).require_script()
    return script if context.as_sql else online


def _refuse_translated(context: MigrationContext, tables: Sequence[str]) -> None:
    """Refuse tables that SQLAlchemy would put into another schema: Alembic would drop one, and the gate look at another."""
    if context.as_sql or context.connection is None:
        return
    places = context.connection.get_execution_options().get("schema_translate_map") or {}
    for table in tables:
        schema = table.rpartition(".")[0] or None
        if places.get(schema, schema) != schema:
            raise MigrationError(
                f"lock={table!r}: this connection has a schema_translate_map that puts it into {places[schema]}, which the "
                "SQL of a gate and its checks does not follow: set search_path instead, or name the schema"
            )


def _refuse_autocommit(context: MigrationContext, revision: str) -> None:
    """Refuse `autocommit_block()` from the gate to the end of its revision.

    It would commit the change before the version is stamped, and what fails after it could not be taken back.
    """

    def refuse() -> NoReturn:
        raise MigrationError(
            f"revision {revision} has an autocommit_block() behind its gate, which would commit half of the change: "
            "move it before the gate, or into a revision of its own"
        )

    def allow_again(**_: Any) -> None:
        context.__dict__.pop("autocommit_block", None)

    context.autocommit_block = refuse  # type: ignore[method-assign]
    context.on_version_apply_callbacks = (*context.on_version_apply_callbacks, allow_again)


def _lost_plainly(context: MigrationContext) -> AbstractContextManager[None]:
    """Say in a sentence that the gate's own statements failed: a session that was ended, a transaction that is aborted."""
    if context.as_sql or context.connection is None:
        return nullcontext()
    return told_plainly(context.connection.engine.url)


@contextmanager
def _interrupted_plainly(context: MigrationContext) -> Iterator[None]:
    """Turn Ctrl-C in the body into an error that Alembic shows without a traceback; leave what else it raises."""
    try:
        yield
    except (KeyboardInterrupt, CancelledError) as error:
        if isinstance(error, CancelledError) and not on_command_line(context):
            raise
        raise MigrationError(
            "interrupted: what ran was cancelled, and what this revision has not committed itself is rolled back"
        ) from error


@contextmanager
def _as_alembic_hears_it(context: MigrationContext) -> Iterator[None]:
    """Turn what is wrong with a page or its place, and Ctrl-C, into an error that Alembic shows without a traceback.

    Under an asynchronous driver Ctrl-C cancels the task. In an application a task is cancelled for its own reasons.
    """
    try:
        yield
    except MigrationError:
        raise
    except (KeyboardInterrupt, CancelledError) as error:
        if isinstance(error, CancelledError) and not on_command_line(context):
            raise
        raise MigrationError(f"interrupted: what ran was cancelled, {what_was_done()}") from error
    except PipestateError as error:
        raise MigrationError(f"{error}: {what_was_done()}") from error
