"""Drift: databases at the same revision whose schemas are not the same. The most common one is taken for the right one.

Only what can be compared is: the same engine in the same major version, which words its definitions alike.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy.exc import DBAPIError

from pipestate import db
from pipestate.errors import PipestateError
from pipestate.fleet.answer import Answer
from pipestate.fleet.tenants import Tenant
from pipestate.plural import many
from pipestate.rehearse.contents import changed, short
from pipestate.rehearse.definitions import limit_to, read_definitions

MOST_NAMED = 20  # schemas whose differences are looked up; each costs a connection
MOST_OBJECTS = 3  # in a sentence

Family = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """A database that differs from the others at its revision: from `alike` of them, `like` is one."""

    name: str
    revision: str
    alike: int
    like: str
    objects: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        others = many(self.alike, "other") if self.alike > 1 else self.like
        said = f"schema differs from {others}"
        shown = ", ".join(self.objects[:MOST_OBJECTS])
        more = f" and {len(self.objects) - MOST_OBJECTS} more" if len(self.objects) > MOST_OBJECTS else ""
        return f"{said}: {shown}{more}" if shown else said


@dataclass
class Shapes:
    """Collects the digests of schemas, by what can be compared."""

    families: dict[Family, dict[str, list[str]]] = field(default_factory=dict)

    def add(self, answer: Answer) -> None:
        if answer.definitions is None or answer.revision is None:
            return
        major = (answer.server_version or "").partition(".")[0]
        family = (answer.revision, answer.dialect, major, answer.schema is None)
        self.families.setdefault(family, {}).setdefault(answer.definitions, []).append(answer.name)

    def find(self, tenants: Mapping[str, Tenant]) -> list[Drift]:
        """List the databases that are not like most at their revision, and name what differs."""
        found: list[Drift] = []
        looked = 0
        for (revision, *_), shapes in self.families.items():
            (usual, *unusual) = sorted(shapes.values(), key=lambda names: (-len(names), names))
            for names in unusual:
                looked += 1
                objects = tuple(_objects(tenants, usual, names)) if looked <= MOST_NAMED else ()
                found += [Drift(name, str(revision), len(usual), usual[0], objects) for name in names]
        return sorted(found, key=lambda drift: drift.name)


def _objects(tenants: Mapping[str, Tenant], usual: list[str], names: list[str]) -> Iterator[str]:
    """Read one database of each kind again, and name what differs; nothing where one is gone meanwhile."""
    try:
        there, here = (_definitions(tenants[each[0]]) for each in (usual, names))
    except (PipestateError, DBAPIError):
        return
    for name, usually, now in changed(there, here):
        if now is None:
            yield f"{name} is missing"
        elif usually is None:
            yield f"{name} is extra"
        else:
            yield f"{name} is {short(now)}, there {short(usually)}"


def _definitions(tenant: Tenant) -> dict[str, str]:
    with db.reader(tenant.url, path=tenant.path) as connection:
        if tenant.schema is not None:
            limit_to(connection, tenant.schema)
        return read_definitions(connection, rights=False)
