"""A clone of production that lasts as long as it is needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import URL

from pipestate.config import shown
from pipestate.engines.choice import choose
from pipestate.interrupt import telling
from pipestate.rehearse.copying.file import copy_file
from pipestate.rehearse.copying.making import REMOVED, Making, Told
from pipestate.rehearse.copying.place import TemporaryPlace, clone_server, how_to_end, temporary_place
from pipestate.rehearse.copying.require import require_copyable
from pipestate.rehearse.copying.schema import Dump
from pipestate.rehearse.copying.snapshot import look
from pipestate.rehearse.copying.wanted import WantedClone


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone that is there, and what to call it."""

    url: URL
    called: str


@contextmanager
def cloned(production: URL, wanted: WantedClone, told: Told) -> Iterator[Clone]:
    """Make a clone, and remove it at the end, whatever happens; with `keep` it stays once it is whole."""
    make = choose(MAKE, production)
    with temporary_place() as place, make(production, wanted, place, told) as (url, end):
        place.keep = wanted.keep
        try:
            yield Clone(url, f"a clone of {shown(production)}")
        finally:
            if place.keep:
                told.say(f"the clone stays: {shown(url)}; end it with: {end}")


@contextmanager
def _of_file(
    production: URL, wanted: WantedClone, place: TemporaryPlace, told: Told
) -> Iterator[tuple[URL, str]]:
    with telling(lambda: REMOVED):
        url = copy_file(production, wanted, place.directory, told.on_progress)
    yield url, f"rm -r {place.directory}"


@contextmanager
def _of_server(
    production: URL, wanted: WantedClone, place: TemporaryPlace, told: Told
) -> Iterator[tuple[URL, str]]:
    """Refuse, before anything is begun, what cannot be copied whole; start a server, and fill it."""
    version = require_copyable(look(production), wanted)
    with clone_server(version, place) as admin:
        making = Making(production, admin, Dump(place.directory / "schema.dump", version), wanted, told)
        with telling(making.done):
            url = making.make()
        yield url, how_to_end(place)


MAKE = {"postgresql": _of_server, "sqlite": _of_file}
