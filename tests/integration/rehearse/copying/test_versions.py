"""A clone may be newer than production: never older."""

import pytest

from pipestate.database.embedded import embedded_server, embedded_versions
from pipestate.rehearse.contents import read_contents
from pipestate.rehearse.copying import require
from pipestate.rehearse.copying.make import cloned
from pipestate.rehearse.copying.require import WantedClone
from support.odd_production import drop_odd, make_odd
from support.servers import Postgres, memory

OLDEST, *_, NEWEST = embedded_versions()


@pytest.mark.scene
def test_the_oldest_server_is_copied_to_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are the same; definitions have the same names (NOT NULL is a constraint of its own from 18 on)."""
    monkeypatch.setattr(require, "embedded_versions", lambda: [NEWEST])
    with embedded_server(version=OLDEST, within=memory()) as url:
        postgres = Postgres(url)
        production, reader = make_odd(postgres)
        before = read_contents(production.url)
        with cloned(reader.url, WantedClone(2**30)) as clone:
            after = read_contents(clone)
        drop_odd(postgres, production)
        postgres.engine.dispose()
    assert after.digests == before.digests
    new = after.definitions.keys() - before.definitions.keys()
    assert all(name.endswith("_not_null") for name in new)
    assert after.definitions.keys() >= before.definitions.keys()
