"""What a script writes after a gate: statements that do nothing without the mark.

From the gate to the end of the script every statement, Alembic's own version row included, stands in a block
that asks for the mark first. A later revision cannot see the mark of an earlier transaction: it asserts what
the version table must say when everything before it was committed, and leaves a mark of its own. So a psql
that goes on after errors, or a script that is pasted from its middle, drops and stamps nothing.

Each statement also asks for the one before it, which left its number: where a client takes back a statement that failed,
and goes on in the same transaction, a copy that was not made is not followed by the drop, nor a drop by the version.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from alembic.runtime.migration import MigrationContext

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.mark import is_missing, setting
from pipestate.gate.versions import stands_at

_OPTION = "pipestate_guarded"
_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z\\]+)", re.DOTALL)
_NOT_IN_A_BLOCK = re.compile(
    r"(?i)copy|begin|start|commit|end|rollback|abort|savepoint|release|vacuum|listen|notify|discard|\\\w*"
)
_INTO = re.compile(r"(?is)^\s*(with\b.*\)\s*)?select\b(?:(?!\bfrom\b|').)*?\binto\b")
_RUNNING = re.compile(r"-- Running \w+ .*->\s*(?P<to>\S*)")
WITHOUT_MARK = (
    "the gate before this statement was not passed in this transaction, or a statement between them has failed, so it "
    "does nothing"
)
STEP = "pipestate.step"


@dataclass
class GuardedOutput:
    """Alembic's output of a script, from a gate on."""

    context: MigrationContext
    mark: str
    write: Any
    heads: Collection[str] = ()
    in_transaction: bool = True
    between_revisions: bool = False
    done: int = 0

    def output(self, text: str) -> None:
        """Write one statement of Alembic's, guarded by what it needs there; a comment needs nothing."""
        if _is_comment(text):
            self.write(text)
            if self.between_revisions and (found := _RUNNING.match(text.strip())):
                self._next_revision(found["to"])
        elif self.in_transaction:
            self.write(self._asking_for_the_mark(text))
        else:
            self.write(self._asking_for_the_version(text))

    def begin(self) -> None:
        """Write Alembic's own BEGIN; a transaction after the gate's begins with what must be there."""
        self.in_transaction = True
        self.write("BEGIN;")
        self._assert_version()

    def commit(self) -> None:
        """Write Alembic's own COMMIT."""
        self.in_transaction = False
        self.write("COMMIT;")

    def version_applied(self, *, heads: Collection[str], **_: Any) -> None:
        """Take note of where the database stands after a revision (Alembic's `on_version_apply`)."""
        self.heads = frozenset(heads)
        self.between_revisions = True

    def _next_revision(self, revision: str) -> None:
        self.between_revisions = False
        self.mark = f"after {' '.join(sorted(self.heads))} {revision}".rstrip()
        self._assert_version()

    def _assert_version(self) -> None:
        """Leave the mark in this transaction where everything before it was committed."""
        body = f"""
BEGIN
  IF NOT ({stands_at(self.context, self.heads)}) THEN
    {sql.refusal("what comes before this revision was not done, so it does nothing")}
  END IF;
  PERFORM {setting(self.mark)};
END """
        self.done = 0
        self.write(f"DO {sql.dollar(body, 'pipestate')};")

    def _asking_for_the_mark(self, text: str) -> str:
        statement = text.strip().removesuffix(";")
        self._refuse_what_cannot_wait(statement)
        before, self.done = self.done, self.done + 1
        left_out = f" OR {_is_not(self._step(before))}" if before else ""
        body = f"""
BEGIN
  IF {is_missing(self.mark)}{left_out} THEN
    {sql.refusal(WITHOUT_MARK)}
  END IF;
  EXECUTE {sql.dollar(statement, "stmt")};
  PERFORM set_config('{STEP}', {sql.literal(self._step(self.done))}, true);
END """
        return f"DO {sql.dollar(body, 'pipestate')};"

    def _step(self, number: int) -> str:
        return f"{self.mark}/{number}"

    def _asking_for_the_version(self, text: str) -> str:
        """Guard a statement outside a transaction, where no mark lives, by the version row of what came before."""
        statement = text.strip().removesuffix(";")
        condition = stands_at(self.context, self.heads)
        return f"SELECT {sql.dollar(statement, 'stmt')} WHERE {condition} \\gexec"

    def _refuse_what_cannot_wait(self, statement: str) -> None:
        word = _FIRST_WORD.match(statement)
        if (word is not None and _NOT_IN_A_BLOCK.fullmatch(word[1])) or _INTO.match(statement):
            raise MigrationError(
                f"after a gate a script cannot hold `{' '.join(statement.split())[:60]}`: a block that asks for the "
                "gate's mark cannot run it. Put it before the gate, or into a revision without --sql"
            )


def _is_not(step: str) -> str:
    """Write the condition that another statement than this one was the last."""
    return f"current_setting('{STEP}', true) IS DISTINCT FROM {sql.literal(step)}"


def _is_comment(text: str) -> bool:
    """Say whether every line of a text is empty or a comment: whatever ends a line for somebody ends one here."""
    return all(not line.strip() or line.lstrip().startswith("--") for line in text.splitlines())


def guard_output(context: MigrationContext, revision: str) -> None:
    """Guard everything that this script writes from here on; a second gate only changes the mark."""
    guarded = context.opts.get(_OPTION)
    if guarded is None or guarded.context is not context:  # of another database: the options are shared
        guarded = GuardedOutput(context, revision, context.impl.static_output)
        context.opts[_OPTION] = guarded
        context.impl.pipestate_plain_output = guarded.write  # type: ignore[attr-defined]
        context.impl.static_output = guarded.output  # type: ignore[method-assign]
        context.impl.emit_begin = guarded.begin  # type: ignore[method-assign]
        context.impl.emit_commit = guarded.commit  # type: ignore[method-assign]
        context.on_version_apply_callbacks = (*context.on_version_apply_callbacks, guarded.version_applied)
    guarded.mark = revision
    guarded.between_revisions = False
    guarded.done = 0
