"""A whole contract: the gate, the soft drop, and the restore with every row and value.

    from pipestate import Contract

    contract = Contract("orders/readiness", tables=["order_log"], columns={"orders": ["old_status"]},
    revision=revision) upgrade, downgrade = contract.upgrade, contract.downgrade

Up, in one transaction: the whole phase is evaluated. Then, under a lock of milliseconds, the checks that read
those tables are evaluated again. Columns get hidden names and tables move into the archive. Down: both return
with every value. After `pipestate purge` a downgrade is refused, unless it is forced.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from alembic import op

from pipestate.migration import sql
from pipestate.migration.engine import engine
from pipestate.migration.failure import MigrationError, logs_to_stderr, translate_errors, warn
from pipestate.migration.gate import gate
from pipestate.migration.request import force_reason, set_token
from pipestate.migration.run import current_run

# An expression, or a mapping from dialect name to expression.
Value = str | Mapping[str, str]
BACKUP = "backup-taken"


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Rows of a dropped table, derived on its restore from the table that replaced it.

    `columns` are expressions over a row `s` of `source`, which has the same key. Rows `s` are derived only if
    `where` holds.
    """

    source: str
    columns: Mapping[str, str]
    where: str = "true"


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that a contract drops. `changed_at` is a column of the table that `derived` reads."""

    table: str
    key: tuple[str, ...] = ()
    derived: DerivedRows | None = None
    changed_at: str | None = None
    revision: str = ""

    @property
    def kind(self) -> str:
        return "table"

    @property
    def described(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True)
class DroppedColumns:
    """Columns that a contract drops. `derived` are expressions over a row `s` and its hidden values `a`."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    changed_at: str | None = None
    revision: str = ""

    @property
    def kind(self) -> str:
        return "columns"

    @property
    def described(self) -> str:
        return f"the columns {', '.join(self.columns)} of {self.table}"


@dataclass(frozen=True, slots=True)
class Drop:
    """Everything that one revision drops behind one gate."""

    revision: str
    gate: str
    tables: tuple[DroppedTable, ...] = ()
    columns: tuple[DroppedColumns, ...] = ()
    triggers: tuple[str, ...] = ()
    may_be_gone: bool = False
    keep: bool = True
    has_backup: bool = False

    @property
    def parts(self) -> tuple[DroppedTable | DroppedColumns, ...]:
        return (*self.tables, *self.columns)


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """Tables, and columns of remaining tables, that a revision drops behind the gate of `phase`.

    `must_pass` names checks and sign-offs that the phase must have; `recheck` names those evaluated again under
    the lock. `drop_triggers` names triggers of these tables that are dropped and restored with the columns.

    A restore derives two kinds of rows by `derived`: new rows, and rows modified since the contract. A
    `changed_at` column, if given, narrows the modified rows to those with a later value. If such rows exist,
    and a column has no `derived`, the restore is refused unless it is forced. For columns, `derived` has expressions
    over the row `s` and its hidden values `a`. For a table it is a `DerivedRows`; `keys` or the primary key
    finds its rows.

    `keep=False` drops immediately and permanently. `engine` names the target database if `env.py` runs every
    revision in several databases (Alembic's template multidb).
    """

    phase: str
    tables: Sequence[str] = field(default=(), kw_only=True)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    keys: Mapping[str, str | Sequence[str]] = field(default_factory=dict, kw_only=True)
    recheck: Sequence[str] | None = field(default=None, kw_only=True)
    must_pass: Sequence[str] = field(default=(), kw_only=True)
    derived: Mapping[str, DerivedRows | Mapping[str, Value]] = field(default_factory=dict, kw_only=True)
    changed_at: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    drop_triggers: Sequence[str] = field(default=(), kw_only=True)
    keep: bool = field(default=True, kw_only=True)
    may_be_gone: bool = field(default=False, kw_only=True)
    engine: str | None = field(default=None, kw_only=True)
    revision: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if fault := _fault(self):
            raise MigrationError(f"Contract({self.phase!r}, ...): {fault}")

    def upgrade(self, engine_name: str | None = None) -> None:
        """Pass the gate, then drop; raise GateClosed if it is closed and not forced."""
        revision = self._running()
        if not self._is_meant(engine_name):
            set_token(revision)  # this database drops nothing, so no check is evaluated
            current_run().passed_gates.add(self.phase)
            return
        drop = self._drop(revision)
        with sql.running(revision), _report_errors():
            if self.may_be_gone:
                engine().refuse_other_case((), self.columns)  # the gate refuses tables
            engine().refuse_drop(drop)
        with (
            gate(
                self.phase,
                lock=list(dict.fromkeys([*self.tables, *self.columns])),
                lock_also=engine().also_locked(drop),
                recheck=self.recheck,
                must_pass=self.must_pass,
                may_be_gone=self.may_be_gone,
                revision=revision,
            ),
            _report_errors(),
        ):
            engine().soft_drop(drop)

    def downgrade(self, engine_name: str | None = None) -> None:
        """Restore everything; refuse if there are no values to restore, unless forced."""
        if not self._is_meant(engine_name):
            return
        revision = self._running()
        with sql.running(revision), _report_errors():
            if self.keep:
                engine().restore(self._drop(revision))
            elif force_reason() is None:
                raise MigrationError(
                    f"revision {revision} dropped for good (keep=False), so this downgrade restores nothing: "
                    "load the "
                    'backup, or continue without the data: alembic -x force="reason" downgrade ...'
                )
            else:
                warn(
                    "revision %s dropped for good, and this downgrade was forced: it restores nothing",
                    revision,
                )

    def _drop(self, revision: str) -> Drop:
        return Drop(
            revision,
            self.phase,
            tuple(self._tables(revision)),
            tuple(self._columns(revision)),
            tuple(self.drop_triggers),
            self.may_be_gone,
            self.keep,
            BACKUP in self.must_pass,
        )

    def _is_meant(self, engine_name: str | None) -> bool:
        """Say whether this is the contract's database; env.py gives `engine_name` to `run_migrations`."""
        if self.engine is not None and engine_name is None:
            raise MigrationError(
                f"Contract({self.phase!r}, engine={self.engine!r}, ...) is for one of several databases, and "
                "env.py does not say which this is: call context.run_migrations(engine_name=...), or take "
                "`engine` out"
            )
        config = op.get_context().config
        listed = (config.get_main_option("databases") if config is not None else None) or ""
        known = [each.strip() for each in listed.split(",") if each.strip()]
        if self.engine is not None and known and self.engine not in known:
            raise MigrationError(
                f"Contract({self.phase!r}, engine={self.engine!r}, ...): the ini lists the databases "
                f"{', '.join(known)}, and {self.engine} is none of them: correct `engine`"
            )
        return self.engine in (None, engine_name)

    def _tables(self, revision: str) -> list[DroppedTable]:
        found = []
        for table in self.tables:
            derived = self.derived.get(table)
            assert derived is None or isinstance(derived, DerivedRows)
            if derived is not None:
                derived = replace(derived, columns=_for_engine(derived.columns))
            found.append(DroppedTable(table, self._key(table), derived, self.changed_at.get(table), revision))
        return found

    def _columns(self, revision: str) -> list[DroppedColumns]:
        found = []
        for table, columns in self.columns.items():
            derived = self.derived.get(table, {})
            assert not isinstance(derived, DerivedRows)
            changed_at = self.changed_at.get(table)
            values = _for_engine(derived)
            found.append(
                DroppedColumns(table, tuple(columns), self._key(table), values, changed_at, revision)
            )
        return found

    def _key(self, table: str) -> tuple[str, ...]:
        key = self.keys.get(table, ())
        return (key,) if isinstance(key, str) else tuple(key)

    def _running(self) -> str:
        """Name the revision: as given, as the environment knows it, or the one that exports this contract's
        functions."""
        found = self.revision or current_run().revision or self._found_by_identity()
        if not found:
            raise MigrationError(
                f"Contract({self.phase!r}, ...) does not know its revision: write Contract(..., "
                "revision=revision), or upgrade = contract.upgrade in the revision's module"
            )
        return found

    def _found_by_identity(self) -> str | None:
        directory = op.get_context().script
        for script in directory.walk_revisions() if directory is not None else ():
            functions = (getattr(script.module, name, None) for name in ("upgrade", "downgrade"))
            if any(getattr(function, "__self__", None) is self for function in functions):
                return str(script.revision)
        return None


@contextmanager
def _report_errors() -> Iterator[None]:
    """Report each error in one sentence, under any env.py; on Alembic's command line, on stderr."""
    context = op.get_context()
    plainly = nullcontext() if context.as_sql else translate_errors(op.get_bind().engine.url)
    with logs_to_stderr(context), plainly:
        yield


def _for_engine(values: Mapping[str, Value]) -> dict[str, str]:
    """Choose the expressions for this engine."""
    dialect = op.get_context().dialect.name
    return {
        name: value if isinstance(value, str) else value.get(dialect, "NULL")
        for name, value in values.items()
    }


def _fault(contract: Contract) -> str | None:
    """Describe the mistake in a contract's arguments, and how to correct it; None if they are valid."""
    if isinstance(contract.tables, str):
        return f"tables={contract.tables!r} is one text: write a list of names"
    if any(isinstance(columns, str) or not columns for columns in contract.columns.values()):
        return "columns wants a list of names for each table: columns={'orders': ['old_status']}"
    if not contract.tables and not contract.columns:
        return "it drops nothing: name tables or columns"
    if both := set(contract.tables) & set(contract.columns):
        return f"{', '.join(sorted(both))} is dropped as a whole and by columns: name it once"
    known = {*contract.tables, *contract.columns}
    for option in ("keys", "derived", "changed_at"):
        if other := set(getattr(contract, option)) - known:
            return f"{option} names {', '.join(sorted(other))}, which is not dropped"
    return _derived_fault(contract)


def _derived_fault(contract: Contract) -> str | None:
    for table, derived in contract.derived.items():
        if table in contract.tables and not isinstance(derived, DerivedRows):
            return f"derived[{table!r}]: for a whole table write DerivedRows(source, {{column: expression}})"
        if table in contract.columns and isinstance(derived, DerivedRows):
            return f"derived[{table!r}]: for columns write {{column: expression}}"
        if not isinstance(derived, DerivedRows) and (
            other := set(derived) - set(contract.columns.get(table, ()))
        ):
            return f"derived[{table!r}] names {', '.join(sorted(other))}, which is not dropped"
    if contract.drop_triggers and not contract.columns:
        return "drop_triggers has no effect without columns: leave it out, as a table's triggers are dropped with it"
    for table in contract.changed_at:
        if table not in contract.derived:
            return f"changed_at[{table!r}] has no effect without derived[{table!r}]: name both or none"
    return None
