"""What production has that a clone of it needs, read from its catalogue."""

from dataclasses import dataclass
from typing import Any

from pipestate.rehearse.copying.catalogue import (
    DATABASE,
    EXTENSIONS,
    FOREIGN_TABLES,
    MEMBERSHIPS,
    RELATIONS,
    ROLES,
    SEQUENCES,
    SETTINGS,
    VIEWS,
)
from pipestate.rehearse.copying.session import ask


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or the parent of partitions; `columns` are those whose values are copied, `quoted` is its name in SQL."""

    oid: int
    quoted: str
    name: str
    schema: str
    has_rows: bool
    columns: str
    bytes: int
    is_readable: bool
    hides_rows: bool
    is_unlogged: bool
    is_version_table: bool


@dataclass(frozen=True, slots=True)
class Counter:
    """A sequence, and the column that it belongs to, if there is one."""

    quoted: str
    name: str
    is_readable: bool
    increment: int
    table: str | None
    column: str | None


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension, and some of what needs it."""

    name: str
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All of it. `database` is the row of pg_database, whose columns differ by version."""

    version: int
    role: str
    search_path: str
    bytes: int
    in_recovery: bool
    encoding: str
    has_public: bool
    large_objects: int
    subscriptions: int
    has_tablespaces: bool
    has_labels: bool
    database: dict[str, Any]
    relations: tuple[Relation, ...]
    counters: tuple[Counter, ...]
    extensions: tuple[Extension, ...]
    materialized_views: tuple[str, ...]
    foreign_tables: tuple[str, ...]
    roles: tuple[str, ...]  # statements
    settings: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return str(self.database["datname"])

    @property
    def path(self) -> str:
        """The search path, as SET takes it."""
        return self.search_path or "''"

    @property
    def locale(self) -> str:
        return str(
            self.database.get("datlocale") or self.database.get("daticulocale") or self.database["datcollate"]
        )


def read_inventory(driver: Any) -> Inventory:
    """Read it inside the transaction that is there."""
    (about,) = ask(driver, DATABASE)
    return Inventory(
        **about[0],
        relations=tuple(Relation(*row) for row in ask(driver, RELATIONS)),
        counters=tuple(Counter(*row) for row in ask(driver, SEQUENCES)),
        extensions=tuple(Extension(name, tuple(needed_by)) for name, needed_by in ask(driver, EXTENSIONS)),
        materialized_views=tuple(name for (name,) in ask(driver, VIEWS)),
        foreign_tables=tuple(name for (name,) in ask(driver, FOREIGN_TABLES)),
        roles=tuple(statement for query in (ROLES, MEMBERSHIPS) for (statement,) in ask(driver, query)),
        settings=tuple((name, value) for name, value in ask(driver, SETTINGS)),
    )
