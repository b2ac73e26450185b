"""PostgreSQL: the losses between two catalogues, and the step's savepoint."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any

from sqlalchemy import Connection

from pipestate.database.drivers import commits_by_itself, query_driver
from pipestate.database.postgresql import own_path
from pipestate.ledger.functions import body_of
from pipestate.migration import sql
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.losses import Loss, LossKind, RunMemory
from pipestate.migration.patience import driver_state
from pipestate.migration.postgresql.catalogue import (
    QUERY,
    Catalogue,
    ComparedTable,
    TableColumn,
    make_catalogue,
    query_for,
    type_change,
)
from pipestate.migration.postgresql.copies import DISTINCT, LOCKED, count_values
from pipestate.migration.statements import cast_by_hand

# The schemas of a tenant, with the ledger's; NULL without a tenant. Of other tables the name is enough.
_OF_TENANT = (
    "SELECT CASE WHEN pg_catalog.current_setting('pipestate.tenant', true) <> '' THEN "
    "pg_catalog.array_cat(pg_catalog.current_schemas(false)::text[], '{pipestate,pipestate_archive}')::text END"
)
_NAMES = (
    "SELECT c.oid::bigint, concat(n.nspname, '.', c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384 AND c.relpersistence <> 't'"
)
_SAVEPOINT = f"pipestate_step_{token_hex(4)}"  # no revision sets one of this name
_FIRE_DEFERRED = f"""DO $fire$
DECLARE
  path text := pg_catalog.current_setting('search_path');
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  {body_of("fire_deferred")};
  PERFORM set_config('search_path', path, true);
END $fire$"""
OUTSIDE = "locked outside the schemas of this tenant, so it was not compared"
NO_COPY = "most were not copied"
_NO_TRANSACTION, _NO_SAVEPOINT = "25P01", "3B001"


def read_catalogue(connection: Connection) -> Catalogue:
    """Read all tables with their columns, in one query; for a tenant, those of its schemas."""
    ((schemas,),) = query_driver(connection, _OF_TENANT)
    with own_path(connection, query_driver):
        emptied = _emptied(query_driver(connection, body_of("written_tables")), connection)
        if schemas is None:
            return replace(make_catalogue(query_driver(connection, QUERY)), emptied=emptied)
        of_tenant = QUERY.replace("NULL::text[]", f"{sql.literal(schemas)}::text[]")
        own = make_catalogue(query_driver(connection, of_tenant))
        outside = {oid: name for oid, name in query_driver(connection, _NAMES) if oid not in own.tables}
        return replace(own, outside=outside, emptied=emptied)


def _emptied(written: Iterable[tuple[Any, ...]], connection: Connection) -> frozenset[int]:
    """Of the tables that this transaction has written, return those that lost rows and hold none now."""
    roots = {oid: root for oid, has_deleted, root in written if has_deleted}
    empty = {
        root
        for root in set(roots.values())
        if not query_driver(connection, f"SELECT EXISTS (SELECT FROM {root})")[0][0]
    }
    return frozenset(oid for oid, root in roots.items() if root in empty)


def compare(
    connection: Connection, before: Catalogue, memory: RunMemory, statements: Sequence[str]
) -> tuple[Catalogue, list[Loss]]:
    """Return the catalogue now, and the losses since `before`; what the run created, or was empty, is free.

    Every loss needs a lock. So only tables that this transaction has locked or written are read and compared:
    they are few, and another session may change others meanwhile.
    """
    query_driver(connection, _FIRE_DEFERRED)
    with own_path(connection, query_driver):
        return _compare(connection, before, memory, statements)


def _compare(
    connection: Connection, before: Catalogue, memory: RunMemory, statements: Sequence[str]
) -> tuple[Catalogue, list[Loss]]:
    written = query_driver(connection, body_of("written_tables"))
    exclusive = {int(oid) for (oid,) in query_driver(connection, LOCKED)}
    locked = exclusive | {oid for oid, *_ in written}
    if not locked:
        return before, []
    now = make_catalogue(query_driver(connection, query_for(locked)))
    others = {oid: table for oid, table in before.tables.items() if oid not in locked}
    emptied = _emptied(written, connection)
    after = Catalogue(others | now.tables, now.domains, now.extensions, before.outside, emptied)
    changed = exclusive | (emptied - before.emptied)
    touched = sorted(before.outside[oid] for oid in changed & (before.outside.keys() - memory.created))
    found = [Loss(LossKind.ROWS, name, detail=OUTSIDE) for name in touched]
    return after, found + _Comparison(connection, before, after, memory, list(statements)).losses(locked)


def set_savepoint(connection: Connection, memory: RunMemory) -> bool:
    """Set the step's savepoint; return False if each statement commits by itself."""
    del memory
    if commits_by_itself(connection):
        return False
    try:
        query_driver(connection, f"SAVEPOINT {_SAVEPOINT}")
    except Exception as error:
        if driver_state(error) != _NO_TRANSACTION:
            raise
        return False
    return True


def roll_back(connection: Connection) -> bool:
    """Undo the step; return False if its savepoint is gone."""
    try:
        query_driver(connection, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
    except Exception as error:
        if driver_state(error) not in (_NO_TRANSACTION, _NO_SAVEPOINT):
            raise
        return False
    return True


def release_savepoint(connection: Connection, memory: RunMemory) -> None:
    """Release the savepoint; if it is gone, the revision has committed something unseen."""
    del memory
    try:
        query_driver(connection, f"RELEASE SAVEPOINT {_SAVEPOINT}")
    except Exception as error:
        if driver_state(error) not in (_NO_TRANSACTION, _NO_SAVEPOINT):
            raise
        raise MigrationError(
            "the revision has ended the guard's transaction, so its losses could not be undone: use "
            "op.get_context().autocommit_block() instead"
        ) from error


@dataclass
class _Comparison:
    connection: Connection
    before: Catalogue
    after: Catalogue
    memory: RunMemory
    statements: list[str]
    heirs: set[object] = field(default_factory=set)  # successors of objects that existed before

    def losses(self, locked: set[int]) -> list[Loss]:
        self.memory.had_rows |= {each.oid for each in self.before.tables.values() if each.bytes}
        found: list[Loss] = []
        for old in self.before.tables.values():
            if old.oid in self.memory.created or old.oid not in locked:
                continue
            new = self.after.tables.get(old.oid)
            if new is None:
                found += self._of_dropped(old)
            else:
                if new.written != old.written:
                    found += self._of_columns(old, new)
                if new.filenode != old.filenode:
                    found += self._of_rewritten(old, new)
                if old.oid in self.after.emptied - self.before.emptied and self._had_rows(old):
                    root = self.before.root(old)
                    found.append(Loss(LossKind.ROWS, root.known_as, self.before.rows(root)))
        self._remember_created(locked)
        return list(dict.fromkeys(found))

    def holds_rows(self, table: ComparedTable) -> bool:
        """Say whether a table may have held rows before, or another table values of its row type."""
        kept = [table]
        if not self._had_rows(table):
            query = f"SELECT ({body_of('kept_in')}) FROM (SELECT {table.rowtype}::oid AS type) AS t"
            ((found,),) = query_driver(self.connection, query)
            created = self.memory.created
            kept = [
                self.before.tables[oid]
                for oid in found or ()
                if oid in self.before.tables and oid not in created
            ]
        return any(map(self._had_rows, kept))

    def _had_rows(self, table: ComparedTable) -> bool:
        return any(leaf.oid in self.memory.had_rows for leaf in self.before.leaves(table))

    def _of_dropped(self, old: ComparedTable) -> Iterator[Loss]:
        if old.kind == "c" or not self.holds_rows(old) or old.extension in self.after.extensions:
            return
        new = self.after.by_name.get((old.schema, old.name))
        if new is not None and new.oid not in self.before.tables:
            self.memory.had_rows.add(new.oid)
            self.heirs.add(new.oid)
        if old.parent in self.before.tables and old.parent not in self.after.tables:
            return  # its parent reports it
        if new is not None and new.oid not in self.before.tables:
            yield from self._of_successor(old, new)
        else:
            yield Loss(LossKind.TABLE, old.known_as, self.before.rows(old))

    def _of_successor(self, old: ComparedTable, new: ComparedTable) -> Iterator[Loss]:
        """Compare by name: the rows were copied into another table, which has the name now.

        It was filled while the old one was there, and has at least half of the rows and of each column's values.
        In a copy of all rows, a column with several values has not become a constant.
        """
        rows, values, beside = self.memory.copies.get(old.oid, (0, {}, set()))
        same = {column.number: column.name for column in new.columns.values() if column.name in old.by_name}
        copied, found = count_values(self.connection, new.quoted, same) if rows else (0, {})
        if not rows or copied < rows / 2 or (beside is not None and new.oid not in beside):
            yield Loss(LossKind.ROWS, old.known_as, rows or self.before.rows(old))
            return
        for number, column in old.columns.items():
            there = new.by_name.get(column.name)
            if there is None or (number not in values and (old.oid, number) not in self.memory.created):
                yield Loss(LossKind.COLUMN, f"{old.known_as}.{column.name}", self.before.rows(old))
                continue
            had, differ = values.get(number, (0, False))
            kept, still_differ = found[there.number]
            if kept < had / 2 or (differ and copied >= rows and not still_differ):
                yield Loss(LossKind.VALUES, f"{old.known_as}.{column.name}", self.before.rows(old), NO_COPY)
            else:
                yield from self._of_type(old, column, there)
        if copied < rows:
            warn(
                "the new table %s has %s rows, and the old one had %s",
                old.known_as,
                f"{copied:,}",
                f"{rows:,}",
            )

    def _of_columns(self, old: ComparedTable, new: ComparedTable) -> Iterator[Loss]:
        if not self.holds_rows(old):
            return
        for number, column in old.columns.items():
            if (old.oid, number) in self.memory.created:
                continue
            there = new.columns.get(number)
            if there is None:
                yield from self._of_dropped_column(old, new, column)
            elif there.type != column.type:
                yield from self._of_type(old, column, there)

    def _of_dropped_column(
        self, old: ComparedTable, new: ComparedTable, column: TableColumn
    ) -> Iterator[Loss]:
        """Accept a column that was copied into another one, which has its name now."""
        parent = self.before.tables.get(old.parent)
        if parent is not None and new.parent == old.parent:
            return  # its parent has the same columns, and reports it
        there = new.by_name.get(column.name)
        if there is not None and self._is_copy(old, new, column, there):
            self.memory.created.discard((new.oid, there.number))
            self.heirs.add((new.oid, there.number))
            yield from self._of_type(old, column, there)
            return
        yield Loss(LossKind.COLUMN, f"{old.known_as}.{column.name}", self.before.rows(old))

    def _of_type(self, old: ComparedTable, column: TableColumn, there: TableColumn) -> Iterator[Loss]:
        was, is_ = self.before.below_domains(column.type), self.after.below_domains(there.type)
        if was == is_:
            return
        query = type_change(was, is_, by_hand=cast_by_hand(self.statements))
        ((detail, loses),) = query_driver(self.connection, query)
        if loses:
            yield Loss(LossKind.VALUES, f"{old.known_as}.{column.name}", self.before.rows(old), detail)

    def _of_rewritten(self, old: ComparedTable, new: ComparedTable) -> Iterator[Loss]:
        """Distinguish TRUNCATE from a rewrite: the table is empty, a statement says so, or most rows are
        gone."""
        if old.kind != "r" or not old.bytes:
            return
        root = self.before.root(old)
        named = re.compile(rf"(?is)\btruncate\b[^;]*\b{re.escape(old.name)}\b")
        few = (
            old.rows > 0
            and 0 < new.bytes < old.bytes / 2
            and self._count(new, round(old.rows)) < old.rows / 2
        )
        if new.bytes == 0 or few or any(named.search(text) for text in self.statements):
            yield Loss(LossKind.ROWS, root.known_as, self.before.rows(root))

    def _remember_created(self, locked: set[int]) -> None:
        created: set[object] = {*(self.after.tables.keys() - self.before.tables.keys())}
        for oid in locked & self.after.tables.keys() & self.before.tables.keys():
            new, old = self.after.tables[oid], self.before.tables[oid]
            if old.written != new.written:
                created |= {(oid, number) for number in new.columns.keys() - old.columns.keys()}
        self.memory.created |= created - self.heirs

    def _is_copy(
        self, old: ComparedTable, new: ComparedTable, column: TableColumn, there: TableColumn
    ) -> bool:
        """Say whether the other column held the values before the drop.

        If one text writes and drops them, no query ran between. Then its values are counted now: a row with one
        is older than the drop. `cmin` is the number of the command, within this transaction, that wrote a row.
        """
        copies, own = self.memory.copied_columns.get((old.oid, column.number), ({}, None))
        if there.number in copies:
            had, kept = copies[there.number]
            if kept < had:
                name, more, most = f"{old.known_as}.{column.name}", f"{kept:,}", f"{had:,}"
                warn("the new column %s has %s values, and the old one had %s", name, more, most)
            return True
        if own is None or there.filled or there.number in old.columns:
            return False
        ((kept, different),) = query_driver(
            self.connection, DISTINCT.format(sql.quoted(there.name), new.quoted)
        )
        query = (
            f"SELECT EXISTS (SELECT FROM {new.quoted} t WHERE t.{sql.quoted(there.name)} IS NOT NULL"
            " AND t.xmax = 0 AND t.cmin::text::bigint < (SELECT a.cmin::text::bigint FROM "
            f"pg_attribute a WHERE a.attrelid = {old.oid} AND a.attnum = {column.number}))"
        )
        is_older = bool(query_driver(self.connection, query)[0][0])
        return is_older and kept >= own[0] / 2 and different >= own[1] / 2

    def _count(self, table: ComparedTable, most: int) -> int:
        """Count the rows, and stop at `most`."""
        query = f"SELECT count(*) FROM (SELECT FROM {table.quoted} LIMIT {int(most)}) counted"
        return int(query_driver(self.connection, query)[0][0])
