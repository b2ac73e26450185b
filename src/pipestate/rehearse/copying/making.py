"""Fill the clone's server.

1. Lock production's tables against a change of shape (ACCESS SHARE), and hold one moment of it.
2. pg_dump reads the schema of that moment; the tables are made on the clone, without indexes.
3. COPY brings the rows of that moment, and sequences get their values. From here on production is left alone.
4. Indexes, constraints and triggers are built, materialized views are filled.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg2 import Error
from sqlalchemy import URL

from pipestate.config import shown
from pipestate.errors import Unreachable
from pipestate.plural import many, size
from pipestate.progress import Progress, untold
from pipestate.rehearse.copying import finish
from pipestate.rehearse.copying.counters import read_counters, set_counters
from pipestate.rehearse.copying.database import create_database
from pipestate.rehearse.copying.inventory import Inventory, Relation
from pipestate.rehearse.copying.left_out import different, left_out, tables_with_rows
from pipestate.rehearse.copying.require import missing_extensions, require_copyable, unreadable_archives
from pipestate.rehearse.copying.rows import CloneFailed, SourceFailed, copy_table
from pipestate.rehearse.copying.schema import Dump, dump_schema, restore_grants, restore_rest, restore_tables
from pipestate.rehearse.copying.session import said, session
from pipestate.rehearse.copying.snapshot import Snapshot, snapshot
from pipestate.rehearse.copying.wanted import WantedClone

REMOVED = "the clone was removed, production was not changed"


@dataclass(frozen=True, slots=True)
class Told:
    """Whom the copying tells what."""

    say: Callable[[str], None] = lambda _: None
    on_progress: Progress = untold


class Making:
    """One clone in the making."""

    def __init__(self, production: URL, admin: URL, dump: Dump, wanted: WantedClone, told: Told) -> None:
        self.production, self.admin, self.dump, self.wanted, self.told = production, admin, dump, wanted, told
        self.tables: list[Relation] = []
        self.copied = self.rows = 0

    def done(self) -> str:
        """Say how far it is, for whoever interrupts it."""
        of = f"{self.copied:,} of {many(len(self.tables), 'table')} copied; " if self.tables else ""
        return f"{of}what ran on production was cancelled; {REMOVED}"

    def make(self) -> URL:
        """Copy all of it, and return where it is."""
        start = time.monotonic()
        with snapshot(self.production) as moment:
            found = moment.found
            require_copyable(found, self.wanted)  # it may have changed meanwhile
            self._announce(found)
            clone, same_locale = self._bring_tables(moment)
            self._bring_rows(moment, clone)
        self.told.say("production is left alone from here on; building indexes and constraints")
        unlike = [*different(found, same_locale=same_locale), *self._finish(clone, found)]
        for line in unlike:
            self.told.say(line)
        took = f"{time.monotonic() - start:.1f} s"
        self.told.say(
            f"the clone is there: {many(self.rows, 'row')} of {many(self.copied, 'table')} in {took}"
        )
        return clone

    def _announce(self, found: Inventory) -> None:
        self.tables = tables_with_rows(found, self.wanted)
        total = sum(each.bytes for each in self.tables)
        what = (
            "the schema" if self.wanted.schema_only else f"{many(len(self.tables), 'table')} ({size(total)})"
        )
        self.told.say(
            f"copying {what} of {shown(self.production)} to an embedded PostgreSQL {self.dump.version}"
        )
        for line in left_out(found, self.wanted, self.dump.version):
            self.told.say(f"left out: {line}")

    def _bring_tables(self, moment: Snapshot) -> tuple[URL, bool]:
        found = moment.found
        archives = [each.quoted for each in unreadable_archives(found)]
        dump_schema(moment.driver, self.production, moment.id, self.dump, archives)
        with self._on_clone():
            clone, same_locale = create_database(self.admin, found)
        restore_tables(self.dump, clone, [each.name for each in missing_extensions(found, self.dump.version)])
        with self._on_clone(), session(clone) as target:
            finish.disarm(target)
            finish.take_over_ledger(target)
            target.commit()
        return clone, same_locale

    def _bring_rows(self, moment: Snapshot, clone: URL) -> None:
        with self._on_production():
            values = read_counters(moment.driver, moment.found.counters)
        with self._on_clone(), session(clone) as target:
            finished = 0
            total = sum(each.bytes for each in self.tables)
            for table in self.tables:
                self._bring(moment, target, table, finished, total)
                finished += table.bytes
            set_counters(target, moment.found.counters, values)
            target.commit()

    def _bring(self, moment: Snapshot, target: Any, table: Relation, finished: int, total: int) -> None:
        """Copy one table; what goes through the pipe is about what lies on production's disk."""

        def tell(count: int) -> None:
            self.told.on_progress(finished + min(count, table.bytes), total)

        try:
            self.rows += copy_table(moment.driver, target, table, moment.found, tell)
        except SourceFailed as error:
            why = said(error.__cause__ or error, self.production)
            raise Unreachable(
                f"production did not give the rows of {table.name}: {why}; {REMOVED}"
            ) from error
        except CloneFailed as error:
            why = said(error.__cause__ or error, self.admin)
            raise Unreachable(f"the clone did not take the rows of {table.name}: {why}; {REMOVED}") from error
        self.copied += 1
        tell(table.bytes)

    def _finish(self, clone: URL, found: Inventory) -> list[str]:
        """Build what stands on the rows; return what is otherwise than on production."""
        restore_rest(self.dump, clone)
        grants = restore_grants(self.dump, clone)
        with self._on_clone(), session(clone, autocommit=True) as target:
            empty = finish.refresh_views(target, found.materialized_views)
            refused = finish.apply_settings(target, found)
            finish.wait_for_the_disk(target)
        return list(finish.unlike(grants, empty, refused))

    @contextmanager
    def _on_clone(self) -> Iterator[None]:
        try:
            yield
        except Error as error:
            raise Unreachable(f"the clone cannot be made: {said(error, self.admin)}; {REMOVED}") from error

    @contextmanager
    def _on_production(self) -> Iterator[None]:
        try:
            yield
        except Error as error:
            url = shown(self.production)
            raise Unreachable(f"{url} cannot be copied: {said(error, self.production)}; {REMOVED}") from error
