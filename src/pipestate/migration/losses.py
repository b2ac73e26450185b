"""Losses: the data that a revision would destroy, and the sentence that reports it."""

import ast
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script.revision import RevisionError
from alembic.util import CommandError
from sqlalchemy import Connection

from pipestate.core.text import many, plain
from pipestate.ledger.record import record_event
from pipestate.ledger.state import read_ledger_state
from pipestate.ledger.tables import SCHEMA
from pipestate.migration.alembic import calls_of
from pipestate.migration.failure import MigrationError, translate_errors, warn
from pipestate.migration.request import force_reason, has_token, is_covered
from pipestate.migration.run import GuardSettings, describe_undo, read_settings, run_of

SHOWN = 6  # names in one sentence


class LossKind(StrEnum):
    """Kinds of data loss."""

    TABLE = "the table"
    COLUMN = "the column"
    ROWS = "the rows of"
    VALUES = "parts of the values of"


@dataclass(frozen=True, slots=True)
class Loss:
    """One object that existed before a step and is absent after it.

    `rows` is the planner's estimate; `is_archived`: this step has copied the values into the archive of SQLite.
    """

    kind: LossKind
    name: str
    rows: int | None = None
    detail: str = ""
    is_archived: bool = False

    @property
    def table(self) -> str:
        """The table that loses it."""
        in_column = self.kind in (LossKind.COLUMN, LossKind.VALUES)
        return self.name.rpartition(".")[0] if in_column else self.name

    def __str__(self) -> str:
        more = [f"about {self.rows:,} row{'' if self.rows == 1 else 's'}"] if self.rows is not None else []
        more += [self.detail] if self.detail else []
        return plain(f"{self.kind} {self.name}" + (f" ({', '.join(more)})" if more else ""))


@dataclass(slots=True)
class RunMemory:
    """The memory of a run, from step to step.

    `created` holds tables, and columns as (table, number), that the run has created: dropping them is free.
    `had_rows` names the tables that had rows at some time of the run: dropping one is a loss even after it is
    emptied. `copies` holds the rows of a table before its drop, with its values by column, and the new tables
    that were there then; `copied_columns` what was counted in a column before its drop.
    """

    created: set[object] = field(default_factory=set)
    had_rows: set[object] = field(default_factory=set)
    copies: dict[int, Any] = field(default_factory=dict)
    copied_columns: dict[tuple[int, int], Any] = field(default_factory=dict)
    began: bool = False  # the guard itself has begun the transaction of this step
    moves: Any = None  # SQLite: the columns that the statements of this step have moved


FRESH_S = 5.0  # a catalogue that was read as a whole longer ago is read again before the next step


@dataclass
class GuardedRun:
    """The guard's memory of one run on one database: its settings, and the last catalogue."""

    settings: GuardSettings
    not_judged: Collection[str] = ()
    memory: RunMemory = field(default_factory=RunMemory)
    catalogue: Any = None
    read_at: float = 0.0

    def current(self, connection: Connection, read: Callable[[Connection], Any]) -> Any:
        """Return the catalogue before a step.

        The catalogue after the previous step is reused for some seconds.
        """
        if self.catalogue is None or time.monotonic() - self.read_at > FRESH_S:
            self.catalogue = read(connection)
            self.read_at = time.monotonic()
        return self.catalogue


def guarded_run(migration: MigrationContext, since: str | None) -> GuardedRun:
    """Begin a run; `since` names the last revision that may lose data."""
    return GuardedRun(read_settings(migration.config), _up_to(migration, since))


def _up_to(migration: MigrationContext, since: str | None) -> frozenset[str]:
    if since is None or migration.script is None:
        return frozenset()
    try:
        return frozenset(str(each.revision) for each in migration.script.iterate_revisions(since, "base"))
    except (CommandError, RevisionError) as error:
        raise MigrationError(
            f"guard(context, since={since!r}): this project has no such revision; name one of its own"
        ) from error


def listed(losses: Sequence[Loss]) -> str:
    """Name the losses in one line, the columns of a table together.

    >>> columns = [Loss(LossKind.COLUMN, "items.note"), Loss(LossKind.COLUMN, "items.a")]
    >>> listed([Loss(LossKind.TABLE, "orders", 2), *columns])
    'the table orders (about 2 rows) and the columns note, a of items'
    >>> listed([Loss(LossKind.COLUMN, "items.note", 1), Loss(LossKind.COLUMN, "items.a", 1)])
    'the columns note, a of items (about 1 row)'
    """
    columns: dict[str, list[Loss]] = {}
    for loss in losses:
        if loss.kind is LossKind.COLUMN:
            columns.setdefault(loss.name.rpartition(".")[0], []).append(loss)
    names = [
        str(loss)
        for loss in losses
        if loss.kind is not LossKind.COLUMN or len(columns[loss.name.rpartition(".")[0]]) == 1
    ]
    names += [_columns(table, found) for table, found in columns.items() if len(found) > 1]
    return _joined(names, " and ")


def _columns(table: str, losses: Sequence[Loss]) -> str:
    names = _joined([plain(loss.name.rpartition(".")[2]) for loss in losses], ", ")
    rows = f" (about {many(losses[0].rows, 'row')})" if losses[0].rows is not None else ""
    return f"the columns {names} of {plain(table)}{rows}"


def _joined(names: Sequence[str], last: str) -> str:
    if len(names) > SHOWN:
        return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"
    return last.join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def contract_command(losses: Sequence[Loss]) -> str:
    """Write the command that puts the drops behind a gate."""
    options = {LossKind.TABLE: "--drop-table", LossKind.COLUMN: "--drop-column"}
    parts = [f"{options[loss.kind]} {plain(loss.name)}" for loss in losses[:SHOWN] if loss.kind in options]
    return " ".join(["pipestate revision --contract RUNBOOK/PHASE", *parts])


# The decision about losses: a passed gate, a reason or a setting allows them; else the step is refused.


# A contract recognizes older rows by this column: a restore drops it.
_MARKER = re.compile(r"\._pipestate_\d+_0$")
OWN = (f"{SCHEMA}.", f"{SCHEMA}_")  # the ledger and the archive: schemas of PostgreSQL, prefixes on SQLite


def decide(
    migration: MigrationContext,
    step: RevisionStep,
    losses: Sequence[Loss],
    undo: Callable[[], Any],
    *,
    enforce: bool,
) -> None:
    """Refuse the losses of a step with one sentence, after `undo`.

    `undo` returns False if it undid no change. The revision's row in the ledger keeps the allowed losses.
    """
    revision = step.revision.revision
    losses = [loss for loss in losses if not _is_own(step, loss)]
    if not losses:
        return
    passed, reason = has_token(revision), None
    judged = [loss for loss in losses if not (passed and is_covered(*_tables_of(loss)))]
    if judged:
        reason = force_reason()
        if reason is not None:
            _record(migration.connection, revision, judged, reason)
        elif not enforce:
            warn("revision %s loses %s; losses are not enforced here", revision, listed(judged))
        else:
            raise MigrationError(_refusal(migration, step, judged, undone=undo() is not False))
    before, _ = take_dropped(migration, revision)  # a step with intermediate commits has several parts
    dropped = [{"kind": loss.kind.name.lower(), "name": loss.name, "rows": loss.rows} for loss in losses]
    run_of(migration).dropped = (revision, [*(before or []), *dropped], reason)


def take_dropped(
    migration: MigrationContext, revision: str
) -> tuple[list[dict[str, Any]] | None, str | None]:
    """Return the objects that a revision has dropped, and the forcing reason.

    Forget notes of other revisions.
    """
    run = run_of(migration)
    of, dropped, reason = run.dropped or (None, None, None)
    run.dropped = None
    return (dropped, reason) if of == revision else (None, None)


def _tables_of(loss: Loss) -> set[str]:
    """Name the table of a loss in each spelling that a gate may use."""
    return {loss.table, f"public.{loss.table}"}


def _is_own(step: RevisionStep, loss: Loss) -> bool:
    """Say whether a helper drops an object that pipestate itself created: it checks the rows first.

    A restore drops its mark, or its copy, after it has restored the values. That is the downgrade of a contract, or
    the upgrade after a downgrade that hid columns. `remove_ledger` keeps a ledger in use. A downgrade that hides
    columns on SQLite copies them into the archive.
    """
    copy = rf"{SCHEMA}_archive_.+_columns_{re.escape(step.revision.revision)}"
    restored = _MARKER.search(loss.name) or re.fullmatch(copy, loss.name)
    own = restored or (not step.is_upgrade and (loss.is_archived or loss.name.startswith(OWN)))
    return bool(own) and imports_pipestate(Path(step.revision.path))


def imports_pipestate(path: Path) -> bool:
    """Say whether a revision's file imports pipestate."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return False
    modules = {
        (getattr(node, "module", None) or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return "pipestate" in modules


def _record(connection: Connection | None, revision: str, losses: Sequence[Loss], reason: str) -> None:
    """Warn, and write the reason into the ledger, if there is one."""
    assert connection is not None
    with translate_errors(connection.engine.url):
        state = read_ledger_state(connection)
        keeps = state.installed and not state.missing
        if keeps:
            said = f"loses {listed(losses)}: {reason}"
            record_event(connection, "force", revision=revision, reason=said, state=state)
    kept = "" if keeps else "; this database has no ledger that would keep the reason"
    warn("revision %s loses %s, and is forced: %s%s", revision, listed(losses), plain(reason), kept)


def _refusal(migration: MigrationContext, step: RevisionStep, losses: Sequence[Loss], *, undone: bool) -> str:
    direction = "upgrade" if step.is_upgrade else "downgrade"
    undo = (
        describe_undo(run_of(migration))
        if undone
        else "and has committed that by itself: restore it from a backup"
    )
    contract = f"put it behind a gate: {contract_command(losses)}; or " if step.is_upgrade else ""
    return (
        f"the {direction} of revision {step.revision.revision} loses {listed(losses)}, {undo}. To go on, "
        f"{contract}give a reason: {calls_of(migration.config).forced(direction)}"
    )
