"""Lines of the history from other packages: a broken one is a sentence, and hides nobody else's."""

from pathlib import Path

import pytest

from bed import Database
from packages import installed
from pipestate.db import reader, writer
from pipestate.errors import PipestateError
from pipestate.ledger.history import Wanted, history
from pipestate.ledger.install import install
from pipestate.ledger.observations import observe
from pipestate.ledger.sources import find_sources

WORKS = """
from datetime import UTC, datetime
from pipestate.ledger.history import Entry, Source
lines = Source(("party",), lambda connection, wanted: [Entry(datetime.now(UTC), 1, "party", "me", "cake", None)])
"""
FAILS = """
from pipestate.ledger.history import Source
lines = Source(("fire",), lambda connection, wanted: connection.exec_driver_sql("SELECT * FROM nowhere"))
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import gone\n", "the history lines of acme 1.0 cannot be loaded: No module named 'gone'"),
        ("lines = 7\n", "the history lines of acme 1.0 cannot be loaded: "),
        (FAILS, "the history lines of acme 1.0 failed: "),
    ],
)
def test_a_broken_source_is_told_and_the_others_are_read(
    database: Database, tmp_path: Path, code: str, said: str
) -> None:
    with writer(database.url) as connection:
        install(connection)
        observe(connection, {"depth": 3.0}, source="test", revision=None)
    errors: list[PipestateError] = []
    with (
        installed(tmp_path, "acme", code, history={"lines": "acme:lines"}),
        installed(tmp_path, "other", WORKS, history={"party": "other:lines"}),
        reader(database.url) as connection,
    ):
        entries = history(connection, Wanted(), others=find_sources(errors.append))
    assert {"party", "observation"} <= {entry.kind for entry in entries}
    assert [str(error).startswith(said) for error in errors] == [True], errors
