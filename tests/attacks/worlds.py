"""What scripts are tried on: a stranger's project, and the two contracts of the shipped migrations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attacks import attacked
from attacks.orders import AT_B2, AT_D4, ORDERS, State, state_of
from attacks.orders import fill as fill_orders
from attacks.project import lay_out
from attacks.psql import feed, feed_each
from support.legacy_database import fill_legacy
from support.readiness_records import make_ready
from support.servers import Database, Postgres

# How many attacks are tried before somebody looks whether one of them succeeded.
BATCH = 40


@dataclass(frozen=True)
class World:
    """A database with an open gate before it, a script that goes through, and what that changes."""

    name: str
    fill: Callable[[Database, Path], None]
    close: Callable[[Database], None]
    write_script: Callable[[Database, Path], str]
    version_table: str
    starts_at: str
    state: Callable[[Database], object]
    before: object
    after: object
    between: tuple[object, ...] = ()
    reset: Callable[[Database], None] | None = None

    @property
    def whole(self) -> tuple[object, ...]:
        """Return the states in which what is stamped and what was done agree."""
        return (self.before, *self.between, self.after)


@dataclass
class Status:
    """Databases of a world for many attacks: as long as none succeeds, one of each kind is enough."""

    world: World
    postgres: Postgres
    directory: Path
    databases: dict[str, Database] = field(default_factory=dict)

    def opened(self) -> Database:
        """Return a database whose gate is open, before anything has happened."""
        return self._standing("opened")

    def closed(self) -> Database:
        """Return one whose gate is closed."""
        return self._standing("closed")

    def try_closed(self, attacks: Mapping[str, str], *options: str) -> dict[str, object]:
        """Give named scripts to psql, on a closed gate; return those that changed something, and to what."""
        names = list(attacks)
        found: dict[str, object] = {}
        for batch in (names[at : at + BATCH] for at in range(0, len(names), BATCH)):
            database = self.closed()
            feed_each(database, [attacks[name] for name in batch], self.directory, *options)
            if self.world.state(database) != self.world.before:
                found |= self._one_by_one("closed", {name: attacks[name] for name in batch}, *options)
        return found

    def try_opened(self, attacks: Mapping[str, str], *options: str) -> dict[str, object]:
        """The same, on an open gate; return those that did one half of the change without the other."""
        found = self._one_by_one("opened", attacks, *options)
        return {name: state for name, state in found.items() if state not in self.world.whole}

    def _one_by_one(self, kind: str, attacks: Mapping[str, str], *options: str) -> dict[str, object]:
        found = {}
        for name, script in attacks.items():
            database = self._standing(kind)
            feed(database, script, *options)
            if (state := self.world.state(database)) != self.world.before:
                found[name] = state
        return found

    def drop(self) -> None:
        for database in self.databases.values():
            self.postgres.drop(database)

    def _standing(self, kind: str) -> Database:
        database = self.databases.get(kind)
        if database is not None and self.world.state(database) != self.world.before:
            database = self._reset(database)
        if database is None:
            database = self._make(kind)
        assert self.world.state(database) == self.world.before
        self.databases[kind] = database
        return database

    def _reset(self, database: Database) -> Database | None:
        if self.world.reset is None:
            self.postgres.drop(database)
            return None
        self.world.reset(database)
        return database

    def _make(self, kind: str) -> Database:
        fresh = self.postgres.copy_of(
            f"attacked {self.world.name}", lambda template: self.world.fill(template, self.directory)
        )
        if kind == "closed":
            self.world.close(fresh)
        return fresh


def _fill_stranger(database: Database, root: Path) -> None:
    fill_orders(database, root)
    database.run("INSERT INTO approvals (what) VALUES ('drop old_orders')")


def _reset_stranger(database: Database) -> None:
    database.run(
        "DROP TABLE IF EXISTS old_orders, after_orders",
        "CREATE TABLE old_orders (id int PRIMARY KEY, written_at timestamp NOT NULL, note text)",
        ORDERS,
        "UPDATE alembic_version SET version_num = 'b2'",
    )


STRANGER = World(
    "stranger",
    _fill_stranger,
    lambda database: database.run("DELETE FROM approvals"),
    lambda database, root: lay_out("attacked", root, database).script("b2:head"),
    "alembic_version",
    "b2",
    state_of,
    AT_B2,
    AT_D4,
    between=(State("c3", None),),
    reset=_reset_stranger,
)

# --- The shipped migrations -----------------------------------------------------------------------------

_COLUMNS = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")


def _alembic(database: Database, *arguments: str) -> str:
    root = attacked.shipped_ini().parent
    done = attacked.run("alembic", *arguments, cwd=root, environment={"DATABASE_URL": database.text})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _shipped_state(database: Database) -> tuple[object, ...]:
    """Revision, rows of site_progress, and the legacy columns of sites."""
    there = database.value("SELECT to_regclass('public.site_progress') IS NOT NULL")
    names = ", ".join(f"'{column}'" for column in _COLUMNS)
    return (
        database.value("SELECT version_num FROM pipestate_alembic_version"),
        database.value("SELECT count(*) FROM site_progress") if there else None,
        database.value(
            "SELECT count(*) FROM pg_attribute "
            f"WHERE attrelid = 'sites'::regclass AND NOT attisdropped AND attname IN ({names})"
        ),
    )


def _fill_shipped(database: Database, _root: Path) -> None:
    fill_legacy(database)
    _alembic(database, "upgrade", "0005")
    make_ready(database)


def _fill_shipped_columns(database: Database, root: Path) -> None:
    _fill_shipped(database, root)
    _alembic(database, "upgrade", "0006")


TABLES = World(
    "shipped-tables",
    _fill_shipped,
    lambda database: database.run("UPDATE site_progress SET updated_at = now()"),
    lambda database, _: _alembic(database, "upgrade", "0005:0007", "--sql"),
    "pipestate_alembic_version",
    "0005",
    _shipped_state,
    ("0005", 257, 5),
    ("0007", None, 0),
    between=(("0006", None, 5),),
)
COLUMNS = World(
    "shipped-columns",
    _fill_shipped_columns,
    lambda database: database.run("DELETE FROM pipestate.attestation"),
    lambda database, _: _alembic(database, "upgrade", "0006:0007", "--sql"),
    "pipestate_alembic_version",
    "0006",
    _shipped_state,
    ("0006", None, 5),
    ("0007", None, 0),
)
WORLDS = {world.name: world for world in (STRANGER, TABLES, COLUMNS)}
