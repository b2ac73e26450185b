"""A rehearsal that is interrupted: production is as before, the clone is at a revision, nobody stays on it."""

import time
from dataclasses import dataclass
from pathlib import Path

from alembic import command as alembic_command

from attacks.project import lay_out
from faults.case import Case, Complaint, Rows, Struck, differences
from faults.world import World
from support.alembic_runs import dump
from support.contract_project import Contracted
from support.servers import Database

# The two revisions after it wait two seconds each for a blocking reader, and take no other way than those before.
LAST = "d4"
PATIENCE_S = 10


def rehearse(world: World) -> Case:
    """Rehearse revisions on a clone, and again on its copy while a blocking reader runs."""
    return _case(Rehearsal.lay_out(world, LAST))


def rehearse_one(world: World) -> Case:
    """Rehearse a revision that no reader stands in the way of: it takes half of the time."""
    return _case(Rehearsal.lay_out(world, "b2"))


def _case(rehearsal: "Rehearsal") -> Case:
    production = rehearsal.production
    return Case(
        rehearsal.argv(rehearsal.struck),
        rehearsal.root,
        {"DATABASE_URL": production.text},
        lambda: read_rows(production),
        read_rows(production),
        rehearsal.databases,
        schema=production,
        again=rehearsal.again,
        complaints=rehearsal.complaints,
    )


@dataclass(frozen=True)
class Rehearsal:
    """Production, the clone that is struck, and a second one where that is needed."""

    world: World
    root: Path
    to: str
    databases: list[Database]

    @classmethod
    def lay_out(cls, world: World, to: str) -> "Rehearsal":
        return cls(world, _root(world), to, [_at_a1(world) for _ in range(2)])

    @property
    def production(self) -> Database:
        return self.databases[0]

    @property
    def struck(self) -> Database:
        return self.databases[1]

    def argv(self, clone: Database) -> list[str]:
        return ["pipestate", "rehearse", "--on", clone.text, "--to", self.to, "--json"]

    def again(self) -> list[str]:
        """Rehearse on the same clone where it is still as it was; else on a new one, as the message says."""
        if not self._is_left():
            return self.argv(self.struck)  # which says who is on it
        if _revision(self.struck) == "a1":
            return self.argv(self.struck)
        if len(self.databases) == 2:
            self.databases.append(_at_a1(self.world))
        return self.argv(self.databases[2])

    def complaints(self, struck: Struck) -> list[Complaint]:
        """Look for sessions and copies that stayed, and at the clone: it is as its revision leaves it."""
        reported = [] if self._is_left() else [Complaint("different", "somebody is still on a clone")]
        revision = _revision(self.struck)
        rows, schema = self.world.once(f"waiting at {revision}", lambda: _reference(self.world, revision))
        if dump(self.struck) != schema:
            reported.append(Complaint("different", f"the clone is not as {revision} leaves it"))
        return reported + differences(rows, read_rows(self.struck)) + self._copies(struck)

    def _copies(self, struck: Struck) -> list[Complaint]:
        """Drop the copies that stayed; whoever was not killed must have said their names (docs/explanation/limits.md)."""
        left = self.world.copies()
        for name in left:
            self.world.postgres.drop(Database(self.struck.url.set(database=name)))
        if struck.fault == "kill" and len(left) == 1:
            return []
        return [
            Complaint("different", f"the copy {name} stayed") for name in left if name not in struck.printed
        ]

    def _is_left(self) -> bool:
        """Wait until nobody is on the clones: the server notices a dead client at its next answer."""
        clones = self.databases[1:]
        for clone in clones:
            clone.leave()
        end = time.monotonic() + PATIENCE_S
        while self.world.count_sessions(clones):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True


def read_rows(database: Database) -> Rows:
    """Read all rows, and keep no session."""
    queries = {name: f"SELECT * FROM {name}" for name in ("orders", "order_log", "alembic_version")}
    rows = {name: database.rows(query) for name, query in queries.items()}
    database.leave()
    return rows


def _at_a1(world: World) -> Database:
    return world.postgres.copy_of("waiting", lambda each: _upgrade(world, each, "a1"))


def _root(world: World) -> Path:
    """Copy the project once: commands are told of their databases."""
    root: Path = world.once("waiting", lambda: _copied(world))
    return root


def _copied(world: World) -> Path:
    nowhere = Database(world.postgres.admin)
    return lay_out("waiting", world.new_directory() / "project", nowhere).root


def _upgrade(world: World, database: Database, revision: str) -> None:
    alembic_command.upgrade(Contracted(_root(world), database).config(), revision)


def _revision(database: Database) -> str:
    revision = str(database.value("SELECT version_num FROM alembic_version"))
    database.leave()
    return revision


def _reference(world: World, revision: str) -> tuple[Rows, str]:
    database = _at_a1(world)
    _upgrade(world, database, revision)
    found = read_rows(database), dump(database)
    world.postgres.drop(database)
    return found
