"""A whole contract: the gate, the archive, the drop; and the way back with every row and value.

    from pipestate import Contract

    contract = Contract("orders/readiness", tables=["order_log"], columns={"orders": ["old_status"]},
                        recheck=["quiet"])
    upgrade, downgrade = contract.upgrade, contract.downgrade

Up: the whole phase is asked; columns are copied aside while writers go on, and what is insisted on is asked again;
then, under a lock of milliseconds, `recheck` is asked, the columns go and the tables move into the archive.
Down: they come back, and the archive goes only when every row is proven to be back. Where it was purged, the way
back refuses, unless it is forced.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from alembic import op

from pipestate.ddl import sql
from pipestate.ddl.contract_parts import DerivedRows, GoingColumns, GoingTable
from pipestate.ddl.engine import engine
from pipestate.ddl.failure import MigrationError, heard_on_stderr, told_plainly
from pipestate.ddl.force import force_reason
from pipestate.ddl.mark import require_mark, set_mark
from pipestate.ddl.transaction import may_commit
from pipestate.gate import gate, require
from pipestate.gate.passed import note_passed
from pipestate.gate.script import HEAD
from pipestate.gate.tables import hold_rows

# An expression, or one for each engine by the name of its dialect.
Value = str | Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Contract:
    """What a revision takes away behind the gate of `phase`: whole tables, and columns of tables that stay.

    Rows are found again by their primary key, or by what `keys` names for a table. `recheck`, `insist`,
    `sign_offs` and `may_be_gone` are the gate's. On the way back a row that changed since, because the column that
    `changed_at` names for its table is another one, and a row that is new become what `derived` says: for columns
    expressions over the row `s` and its archived values `a`, for a table a `DerivedRows`. `engine` names the one
    database that is meant where `env.py` runs every revision in several (Alembic's template multidb).
    """

    phase: str
    tables: Sequence[str] = field(default=(), kw_only=True)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    keys: Mapping[str, str | Sequence[str]] = field(default_factory=dict, kw_only=True)
    recheck: Sequence[str] = field(default=(), kw_only=True)
    insist: Sequence[str] = field(default=(), kw_only=True)
    sign_offs: Sequence[str] = field(default=(), kw_only=True)
    derived: Mapping[str, DerivedRows | Mapping[str, Value]] = field(default_factory=dict, kw_only=True)
    changed_at: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    may_be_gone: bool = field(default=False, kw_only=True)
    engine: str | None = field(default=None, kw_only=True)
    revision: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if fault := _fault(self):
            raise MigrationError(f"Contract({self.phase!r}, ...): {fault}")

    def upgrade(self, engine_name: str | None = None) -> None:
        """Ask the gate, then archive and drop; raise GateClosed where it is closed and nobody forces it."""
        revision = self._running()
        if not self._is_meant(engine_name):
            set_mark(revision)  # nothing goes here, so there is nothing to ask
            note_passed(self.phase)
            return
        tables, columns = self._tables(revision), self._columns(revision)
        locked = list(dict.fromkeys([*self.tables, *self.columns]))
        prepares = may_commit() and bool(columns or any(each.derived for each in tables))

        def prepare() -> None:
            with _told():
                self._prepare(tables, columns)
            asked = [*self.insist, *self.recheck]
            # In a script the gate itself asks the whole phase again.
            if asked and not sql.is_offline() and hold_rows(op.get_bind(), locked):
                require(self.phase, asked, revision=revision)
            with _told():
                for some in columns:
                    engine().describe_columns(some)  # the last thing before the lock, and long

        with (
            gate(
                self.phase,
                lock=locked,
                recheck=self.recheck,
                insist=self.insist,
                sign_offs=self.sign_offs,
                prepare=prepare if prepares else None,
                may_be_gone=self.may_be_gone,
                revision=revision,
            ),
            _told(),
        ):
            if not prepares:
                self._prepare(tables, columns)
            self._take_away(tables, columns, watched=prepares)

    def downgrade(self, engine_name: str | None = None) -> None:
        """Bring everything back; refuse where an archive is gone, unless that is forced."""
        if not self._is_meant(engine_name):
            return
        revision = self._running()
        tables, columns = self._tables(revision), self._columns(revision)
        everything: list[GoingTable | GoingColumns] = [*tables, *columns]
        with sql.running(revision), _told():
            if sql.is_offline():
                sql.write_plain(HEAD)
            for going in everything:
                engine().require_archived(going)
            for table in tables:
                engine().restore_table(table)
            for some in columns:
                if force_reason() is not None:
                    engine().empty_copy(some)
                engine().restore_columns(some)
            for going in everything:
                engine().forget_archived(going)

    def _is_meant(self, engine_name: str | None) -> bool:
        """Say whether this is the contract's database; `engine_name` is what env.py gives to `run_migrations`."""
        if self.engine is not None and engine_name is None:
            raise MigrationError(
                f"Contract({self.phase!r}, engine={self.engine!r}, ...) is for one of several databases, and env.py does "
                "not say which this is: call context.run_migrations(engine_name=...), or take `engine` out"
            )
        return self.engine in (None, engine_name)

    def _prepare(self, tables: Sequence[GoingTable], columns: Sequence[GoingColumns]) -> None:
        """Refuse what could not come back, before the first change; then copy what can be copied before the lock."""
        for table in tables:
            engine().refuse_unfit_table(table, must_exist=not self.may_be_gone, others=list(self.columns))
        for some in columns:
            engine().refuse_unfit_columns(some, must_exist=not self.may_be_gone)
        for some in columns:
            engine().archive_columns(some)
        for table in tables:
            engine().keep_baseline(table)

    def _take_away(
        self, tables: Sequence[GoingTable], columns: Sequence[GoingColumns], *, watched: bool
    ) -> None:
        """Drop the columns first: their foreign keys may point at the tables."""
        require_mark("a Contract", *self.tables, *self.columns)
        for some in columns:
            if watched:
                engine().refuse_late_writes(some, self.phase)
            engine().drop_archived_columns(some)
        for table in tables:
            engine().archive_table(table)
        everything: list[GoingTable | GoingColumns] = [*tables, *columns]
        for going in everything if self.may_be_gone else ():
            engine().note_absence(going)

    def _tables(self, revision: str) -> list[GoingTable]:
        going = []
        for table in self.tables:
            derived = self.derived.get(table)
            assert derived is None or isinstance(derived, DerivedRows)
            if derived is not None:
                derived = replace(derived, columns=_for_engine(derived.columns))
            going.append(GoingTable(table, self._key(table), derived, self.changed_at.get(table), revision))
        return going

    def _columns(self, revision: str) -> list[GoingColumns]:
        going = []
        for table, columns in self.columns.items():
            derived = self.derived.get(table, {})
            assert not isinstance(derived, DerivedRows)
            changed_at = self.changed_at.get(table)
            values = _for_engine(derived)
            going.append(GoingColumns(table, tuple(columns), self._key(table), values, changed_at, revision))
        return going

    def _key(self, table: str) -> tuple[str, ...]:
        key = self.keys.get(table, ())
        return (key,) if isinstance(key, str) else tuple(key)

    def _running(self) -> str:
        """Name the revision: as given, as the environment knows it, or the one whose functions are this contract's."""
        found = self.revision or sql.current_revision() or self._found_by_identity()
        if not found:
            raise MigrationError(
                f"Contract({self.phase!r}, ...) does not know its revision: write Contract(..., revision=revision), "
                "or upgrade = contract.upgrade in the revision's module"
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
def _told() -> Iterator[None]:
    """Say what goes wrong in one sentence, under anybody's env.py; on Alembic's command line, on stderr."""
    context = op.get_context()
    plainly = nullcontext() if context.as_sql else told_plainly(op.get_bind().engine.url)
    with heard_on_stderr(context), plainly:
        yield


def _for_engine(values: Mapping[str, Value]) -> dict[str, str]:
    """Choose, of expressions that differ by engine, those of this one."""
    dialect = op.get_context().dialect.name
    return {
        name: value if isinstance(value, str) else value.get(dialect, "NULL")
        for name, value in values.items()
    }


def _fault(contract: Contract) -> str | None:
    """Say what is wrong with a contract as it was written down, and how to write it."""
    if isinstance(contract.tables, str):
        return f"tables={contract.tables!r} is one text: write a list of names"
    if any(isinstance(columns, str) or not columns for columns in contract.columns.values()):
        return "columns wants a list of names for each table: columns={'orders': ['old_status']}"
    if not contract.tables and not contract.columns:
        return "it takes nothing away: name tables or columns"
    if both := set(contract.tables) & set(contract.columns):
        return f"{', '.join(sorted(both))} goes as a whole and by columns: name it once"
    known = {*contract.tables, *contract.columns}
    for option in ("keys", "derived", "changed_at"):
        if other := set(getattr(contract, option)) - known:
            return f"{option} names {', '.join(sorted(other))}, which does not go"
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
            return f"derived[{table!r}] names {', '.join(sorted(other))}, which does not go"
    for table in contract.changed_at:
        if table not in contract.derived:
            return f"changed_at[{table!r}] without derived[{table!r}] says nothing: name both or none"
    return None
