"""One step in the script of `alembic upgrade --sql`: the server compares it, as the guard does online."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep

from pipestate.core.text import plain
from pipestate.database.connections import name_of
from pipestate.ledger.functions import routines
from pipestate.ledger.record import who
from pipestate.ledger.tables import SCHEMA
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError
from pipestate.migration.losses import GuardedRun, imports_pipestate
from pipestate.migration.postgresql.calls import write_requirement
from pipestate.migration.recording import describe_file
from pipestate.migration.request import force_reason
from pipestate.migration.run import run_of
from pipestate.migration.statements import (
    COMMITS,
    StatementKind,
    columns_in_drop,
    ends_in_the_middle,
    kind_of,
    may_lose,
    names_beside_drop,
)
from pipestate.project.revision_files import changes_ledger, installs_ledger, read_gates
from pipestate.verify.session_safety import foreign_owner_query

# The comparing routines, in the order in which a session can create them.
_JUDGES = (
    *("catalogue", "element_type", "loses", "listed_columns", "base_type", "leaves_before", "held_before"),
    *(
        "kept_in",
        "count_rows",
        "written_tables",
        "emptied",
        "count_values",
        "note_copies",
        "note_columns",
        "fire_deferred",
        "losses",
        "begin_revision",
        "end_revision",
    ),
)
_CALLED = re.compile(rf"\b{SCHEMA}\.({'|'.join(_JUDGES)})\(")
# It needs no function, so it holds even if the client continues after each error.
_OPEN = """DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ({0}), ({0}); END $open$;"""
_DESCRIBES_LOSS = re.compile(r"(?is)\btruncate\b|\balter\b[^;]*\btype\b[^;]*\busing\b")
_COMMITS = re.compile(r"(?is)\s*DO\b.*\bcommit\b")
_LONGEST_TEXT = 2_000


def write_step(
    run: GuardedRun, migration: MigrationContext, step: RevisionStep, change: Callable[[], None]
) -> None:
    """Write a step between the two calls that compare it; a revision with a gate relies on that gate."""
    script = GuardedScript(run, migration, step)
    if step.is_upgrade and read_gates(Path(step.revision.path)):
        run_of(migration).has_script_functions = False  # after a gate a client may have a new session
        change()
        script.record("pipestate.record_revision", None)
    else:
        script.write(change)
        procedure = "pipestate.record_revision" if script.has_ledger else "pg_temp.pipestate_record"
        script.record(procedure, force_reason())


class GuardedScript:
    """A step that is written. It gets a separate transaction if Alembic writes none."""

    def __init__(self, run: GuardedRun, migration: MigrationContext, step: RevisionStep) -> None:
        self.run, self.migration, self.step = run, migration, step
        self.revision = step.revision.revision
        self.direction = "upgrade" if step.is_upgrade else "downgrade"
        self.statements: list[str] = []
        self.is_ours = False
        self.has_committed = False
        self.has_ledger = _ledger_stays(migration, step)

    def write(self, change: Callable[[], None]) -> None:
        """Write the change; compare before each of its commits."""
        if self.has_ledger:
            write_requirement()
        elif not run_of(self.migration).has_script_functions:
            run_of(self.migration).has_script_functions = True
            for statement in definitions():
                self._output(statement)
        with self._heard():
            self._begin()
            change()
            self._end()

    def record(self, procedure: str, reason: str | None) -> None:
        """Write the call that records the step and the script's author.

        The server adds the executing role.
        """
        title, file_sha256, version_table = describe_file(self.migration, self.step.revision)
        values = (self.direction, self.revision, title, file_sha256, version_table, who(), reason)
        self._output(f"CALL {procedure}({', '.join(_literal(value) for value in values)});")

    def _begin(self) -> None:
        with self._own():
            if not self.migration.impl.transactional_ddl:
                self._output("BEGIN;")
            self._output(_OPEN.format(sql.literal(self.revision)))
            self._output(self._at_home(f"CALL pipestate.begin_revision({sql.literal(self.revision)});"))

    def _end(self) -> None:
        reason = force_reason()
        if self.step.is_upgrade and self.revision in self.run.not_judged:
            mode = "allow"
        elif reason is not None:
            mode = "force"
        else:
            mode = "refuse" if self.run.settings.enforce else "warn"
        own = not self.step.is_upgrade and imports_pipestate(Path(self.step.revision.path))
        arguments = ", ".join(sql.literal(each) for each in (self.revision, self.direction, mode))
        told = sql.literal("; ".join(self.statements))
        with self._own():
            call = (
                f"CALL pipestate.end_revision({arguments}, {_literal(reason)}, {told}, {str(own).lower()});"
            )
            self._output(self._at_home(call))
            if not self.migration.impl.transactional_ddl:
                self._output("COMMIT;")
        self.statements.clear()

    def _at_home(self, call: str) -> str:
        return call if self.has_ledger else _in_session(call)

    def _output(self, text: str) -> None:
        self.migration.impl.static_output(text)

    @contextmanager
    def _own(self) -> Iterator[None]:
        """Write statements of the guard: they are not compared."""
        before, self.is_ours = self.is_ours, True
        try:
            yield
        finally:
            self.is_ours = before

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Collect the statements that describe losses, and compare before an autocommit block commits."""
        impl, block = self.migration.impl, self.migration.autocommit_block
        output = impl.static_output

        def hear(text: str) -> None:
            if self.is_ours:
                output(text)
                return
            kind = self._kind(text)
            if _DESCRIBES_LOSS.search(text):
                self.statements.append(text.strip()[:_LONGEST_TEXT])
            is_ours = text.lstrip().startswith("DO $pipestate$")
            names, creates = (set(), False) if is_ours else names_beside_drop(text)
            if names:
                listed = ", ".join(map(sql.literal, sorted(names)))
                output(self._at_home(f"CALL pipestate.note_copies(ARRAY[{listed}], {str(creates).lower()});"))
            tables, columns, writes = columns_in_drop(text)
            if columns and not is_ours:
                named, dropped = (", ".join(map(sql.literal, sorted(each))) for each in (tables, columns))
                call = (
                    f"CALL pipestate.note_columns(ARRAY[{named}], ARRAY[{dropped}], {str(writes).lower()});"
                )
                output(self._at_home(call))
            if kind is StatementKind.COMMIT:
                self._end()
                output(text)
                self.has_committed = True
                output("BEGIN;")
                self._begin()
            elif kind is StatementKind.FREE and (self.has_committed or not impl.transactional_ddl):
                with self._outside():
                    output(text)
            else:
                output(text)

        @contextmanager
        def judged_block() -> Iterator[None]:
            self._end()
            with ExitStack() as entered:
                with self._own():  # Alembic's own COMMIT and BEGIN
                    entered.enter_context(block())
                with self._each_alone():
                    yield
                with self._own():
                    entered.close()
            self._begin()

        impl.static_output = hear  # type: ignore[method-assign]
        self.migration.autocommit_block = judged_block  # type: ignore[method-assign]
        try:
            yield
        finally:
            impl.static_output = output  # type: ignore[method-assign]
            self.migration.autocommit_block = block  # type: ignore[method-assign]

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """Compare the statements written so far, and begin again behind the block."""
        begun = self.has_committed and self.migration.impl.transactional_ddl
        self._end()
        with self._own():
            if begun:
                self._output("COMMIT;")
        yield
        with self._own():
            if begun:
                self._output("BEGIN;")
        self._begin()

    def _kind(self, text: str) -> StatementKind:
        """Classify a statement; refuse one that would undo the comparison with its work."""
        dialect = name_of(self.migration)
        kind = kind_of(text, dialect)
        if kind is StatementKind.ROLLBACK or ends_in_the_middle(text, dialect):
            raise MigrationError(
                f"revision {self.revision} ends its transaction in a way that a script cannot check: give COMMIT a "
                "separate op.execute(), or use autocommit_block()"
            )
        return kind

    def _commits(self, text: str) -> bool:
        """Say whether a statement must run outside a transaction.

        Refuse a committing block that may lose data.
        """
        if not _COMMITS.match(text):
            return sql.in_own_block()
        if may_lose(text) and force_reason() is None and self.run.settings.enforce:
            raise MigrationError(f"revision {self.revision} {COMMITS}")
        return True

    @contextmanager
    def _each_alone(self) -> Iterator[None]:
        """Give each statement a transaction and a comparison, unless it must run outside one."""
        impl = self.migration.impl
        output = impl.static_output

        def alone(text: str) -> None:
            free = (StatementKind.FREE, StatementKind.SETTING)
            is_comment = all(not line.strip() or line.lstrip().startswith("--") for line in text.splitlines())
            if (
                self.is_ours
                or is_comment
                or kind_of(text, name_of(self.migration)) in free
                or self._commits(text)
            ):
                with self._own():  # nothing is begun here that could be compared
                    output(text)
                return
            transactional, impl.transactional_ddl = impl.transactional_ddl, False
            self._begin()
            output(text)
            self._end()
            impl.transactional_ddl = transactional

        impl.static_output = alone  # type: ignore[method-assign]
        try:
            yield
        finally:
            impl.static_output = output  # type: ignore[method-assign]


@cache
def definitions() -> tuple[str, ...]:
    """Read the statements that create the same routines in a script's session, for migrations without a ledger."""
    known = {routine.name: routine.statement for routine in routines()}
    record = (files("pipestate.migration") / "script.postgresql.sql").read_text(encoding="utf-8")
    return (
        *(_in_session(known[name]) for name in _JUDGES),
        record.replace("<<foreign_owner>>", foreign_owner_query()).strip(),
    )


def _in_session(text: str) -> str:
    return _CALLED.sub(r"pg_temp.pipestate_\1(", text)


def _ledger_stays(migration: MigrationContext, step: RevisionStep) -> bool:
    """Say whether a revision below this one has installed the ledger, and this one keeps it."""
    script, revision = migration.script, step.revision
    if script is None or changes_ledger(Path(revision.path)):
        return False
    below = script.iterate_revisions(revision.revision, "base")
    files_below = [Path(each.path) for each in below if each.revision != revision.revision]
    return any(installs_ledger(file) for file in files_below)


def _literal(value: Any) -> str:
    return "NULL" if value is None else sql.literal(plain(str(value)))
