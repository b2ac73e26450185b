"""A gate in a script of `alembic upgrade --sql`, and the calls that guard every statement after it."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.core.text import plain
from pipestate.ledger.record import script_record
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql import gate as server
from pipestate.migration.postgresql.session import lock_tables
from pipestate.migration.request import GateRequest, Tables, down_revisions, note_token, reason_for, undo
from pipestate.migration.run import current_run, run_of, timeout_of
from pipestate.verify.session_safety import foreign_owner_query


def version_table(context: MigrationContext) -> str:
    """Name the version table as this project has configured it."""
    schema, table = context.version_table_schema, sql.name(context.version_table)
    return f"{sql.identifier(schema)}.{table}" if schema else table


# Statements of a script after a gate: they do nothing without the token. From the gate to the end of the
# script every statement, including Alembic's version row, is an argument of `pipestate.gated`, which demands
# the token. A later revision cannot see the token of an earlier transaction: `pipestate.go_on` demands that
# everything before it was committed, and sets a new token. So a psql that continues after errors, or a script
# that is pasted from its middle, drops and stamps nothing. Each statement also demands its predecessor, which
# left its number. A client may roll back a failed statement and continue in the same transaction: a failed
# copy then prevents the drop, and a failed drop prevents the version.


_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z\\]+)", re.DOTALL)
_NOT_IN_A_BLOCK = re.compile(
    r"(?i)copy|begin|start|commit|end|rollback|abort|savepoint|release|vacuum|listen|notify|discard|\\\w*"
)
_INTO = re.compile(r"(?is)^\s*(with\b.*\)\s*)?select\b(?:(?!\bfrom\b|').)*?\binto\b")
_RUNNING = re.compile(r"-- Running \w+ .*->\s*(?P<to>\S*)")


@dataclass
class GuardedOutput:
    """Alembic's output of a script, from a gate on."""

    context: MigrationContext
    token: str
    write: Any
    heads: Collection[str] = ()
    in_transaction: bool = True
    between_revisions: bool = False
    is_suspended: bool = False
    done: int = 0

    def output(self, text: str) -> None:
        """Write one of Alembic's statements, guarded by its preconditions; a comment is written as it is."""
        if self.is_suspended:
            self.write(text)
        elif _is_comment(text):
            self.write(text)
            if self.between_revisions and (found := _RUNNING.match(text.strip())):
                self.between_revisions = False
                self.token = f"after {' '.join(sorted(self.heads))} {found['to']}".rstrip()
                self._assert_version()
        elif self.in_transaction:
            statement = text.strip().removesuffix(";")
            self._refuse_what_cannot_wait(statement)
            self.done += 1
            if self._writes_version(statement):
                # The end of a revision: its deferred triggers run, and are judged.
                statement += f";\nCALL pipestate.require_others({server.text(self.token)})"
            self.write(
                f"CALL pipestate.gated({server.text(self.token)}, {self.done},{server.lines(statement)});"
            )
        else:  # a token needs a transaction: outside one, the previous version row is the precondition
            statement = text.strip().removesuffix(";")
            heads = f"ARRAY[{sql.literals(sorted(self.heads))}]::text[]"
            table = version_table(self.context)
            condition = f"ARRAY(SELECT version_num::text FROM {table} ORDER BY 1) = {heads}"
            self.write(f"SELECT {server.joined(statement)} WHERE {condition} \\gexec")

    def begin(self) -> None:
        """Write Alembic's own BEGIN; a transaction after the gate's first asserts its preconditions."""
        self.in_transaction = True
        self.write("BEGIN;")
        self._assert_version()

    def commit(self) -> None:
        """Write Alembic's own COMMIT."""
        self.in_transaction = False
        self.write("COMMIT;")

    def version_applied(self, *, heads: Collection[str], **_: Any) -> None:
        """Note the database's position after a revision (Alembic's `on_version_apply`)."""
        self.heads = frozenset(heads)
        self.between_revisions = True

    def _assert_version(self) -> None:
        """Set the token in this transaction if everything before it was committed."""
        self.done = 0
        token, table = server.text(self.token), server.text(version_table(self.context))
        self.write(
            f"CALL pipestate.go_on({token}, {table}, {server.texts(sorted(self.heads))}, {server.PATH});"
        )

    def _writes_version(self, statement: str) -> bool:
        table = re.escape(version_table(self.context))
        return bool(re.match(rf"(UPDATE|INSERT INTO|DELETE FROM) {table} ", statement))

    def _refuse_what_cannot_wait(self, statement: str) -> None:
        word = _FIRST_WORD.match(statement)
        if (word is not None and _NOT_IN_A_BLOCK.fullmatch(word[1])) or _INTO.match(statement):
            raise MigrationError(
                f"after a gate a script cannot hold `{' '.join(statement.split())[:60]}`: a block that wants "
                "the gate's token cannot run it. Put it before the gate, or into a revision without --sql"
            )


def _is_comment(text: str) -> bool:
    """Say whether every line of a text is empty or a comment; split lines at every known line ending."""
    return all(not line.strip() or line.lstrip().startswith("--") for line in text.splitlines())


@contextmanager
def suspended(context: MigrationContext) -> Iterator[None]:
    """Write a further gate as it is: its calls demand their own predecessors."""
    guarded = run_of(context).output
    if guarded is None:
        yield
        return
    before, guarded.is_suspended = guarded.is_suspended, True
    try:
        yield
    finally:
        guarded.is_suspended = before


def guard_output(context: MigrationContext, revision: str) -> None:
    """Guard everything that this script writes from here on; a second gate only changes the token."""
    run = run_of(context)
    guarded = run.output
    if guarded is None:
        run.output = guarded = GuardedOutput(context, revision, context.impl.static_output)
        context.impl.static_output = guarded.output  # type: ignore[method-assign]
        context.impl.emit_begin = guarded.begin  # type: ignore[method-assign]
        context.impl.emit_commit = guarded.commit  # type: ignore[method-assign]
        context.on_version_apply_callbacks = (*context.on_version_apply_callbacks, guarded.version_applied)
    guarded.token = revision
    guarded.between_revisions = False
    guarded.done = 0


def write_schema_record(heads: str | None) -> None:
    """Write the end of a script: record the schema, if the script has compared the ledger or the server can
    do so."""
    record = script_record(heads)
    if current_run().required_ledger is not None:
        trusted = f"pg_catalog.current_setting('{calls.COMPARED}', true) = 'yes'"
        record = record.replace(f"NOT EXISTS (\n    {foreign_owner_query()})", trusted)
    op.get_context().impl.static_output(record)


# A gate in the script of `alembic upgrade --sql`, for a psql with unknown settings. The script sends each
# check once to the server, which remembers it for the pass under the lock. The last call sets the token; from
# there on `guarded` makes every statement of the script require it.


def write_gate(request: GateRequest, tables: Tables) -> None:
    """Write both passes, the lock between them and the token; guard all later statements."""
    reason = reason_for(request)
    if not request.blocking and reason is None:
        raise MigrationError(
            f"the gate {request.name} has no blocking check at revision {request.revision}, so it stays closed: "
            "add one to its phase"
        )
    context = op.get_context()
    with suspended(context):
        _first_pass(request, tables, reason)
        lock_tables(*tables.names, also=tables.also, in_server=True)
        sql.write_plain(
            "-- Under the lock: checks with `again`, and all of them where the tables were empty before. "
            "Then the token,\n-- which every statement below demands."
        )
        sql.emit(server.call_limit(request, timeout_of(context.config)))
        sql.emit(server.call_evaluate_again(request))
        sql.emit(server.call_pass_gate(request))
    note_token(request.revision)
    guard_output(context, request.revision)


def _first_pass(request: GateRequest, tables: Tables, reason: str | None) -> None:
    """Write the pass without a lock: assert that the server matches this script, and evaluate the whole
    phase."""
    context = op.get_context()
    more = {
        "version_table": server.text(version_table(context)),
        "starts_at": server.texts(down_revisions(context, request.revision)),
    }
    if (guarded := run_of(context).output) is not None:  # a further gate follows the token and step before it
        more |= {"token": server.text(guarded.token), "step": str(guarded.done + 1)}
    if reason is not None:
        more |= {"force": server.text(plain(reason)), "undo": server.text(undo(request))}
    place = f"{request.runbook.path}:{request.phase.line}"
    sql.write_plain(
        f"-- The gate {request.name} of revision {request.revision}: {place}\n"
        "-- Each check below is evaluated now, read-only. Where one does not hold, the script ends at "
        "judge_gate,\n-- and nothing of this revision is done."
    )
    sql.emit("SET LOCAL standard_conforming_strings = on")
    sql.emit("SET LOCAL client_encoding = 'UTF8'")
    calls.write_requirement()
    sql.emit(server.call_begin(request, tables, timeout_of(context.config), more))
    for call in server.calls_to_evaluate(request, request.blocking):
        sql.emit(call)
    sql.emit(server.call_judge(request, len(request.blocking)))
