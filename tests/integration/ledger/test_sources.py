"""Lines of the history that other packages add, the shipped application among them."""

from pathlib import Path

import pytest

from pipestate.ledger.history import Lines, Wanted, history, installed_sources
from support.packages import installed
from support.servers import Database

GOOD = """
from datetime import UTC, datetime
from pipestate.ledger.history import Entry, Source

lines = Source(("release",), lambda connection, wanted: [Entry(datetime.now(UTC), 1, "release", "ops", "7", None)])
"""


def read(database: Database, **wanted: object) -> tuple[Lines, list[str]]:
    sources, errors = installed_sources()
    with database.engine.connect() as connection:
        lines = history(connection, Wanted(**wanted), others=sources)  # type: ignore[arg-type]
    return lines, [str(error) for error in (*errors, *lines.errors)]


def test_the_shipped_application_offers_its_reconciliations(ledger: Database) -> None:
    sources, errors = installed_sources()
    assert errors == []
    assert ("reconciliation",) in [source.kinds for source in sources]
    assert read(ledger, kinds=frozenset({"reconciliation"})) == (Lines((), ()), []), "it has no table here"


def test_a_package_adds_a_kind(ledger: Database, tmp_path: Path) -> None:
    with installed(tmp_path, "acme", GOOD, history={"releases": "acme:lines"}):
        lines, errors = read(ledger, kinds=frozenset({"release"}))
    assert ([entry.what for entry in lines.entries], errors) == (["7"], [])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import gone\n", "the history releases of acme 1.0 cannot be loaded: No module named 'gone'"),
        ("lines = 7\n", "the history releases of acme 1.0 is no pipestate.ledger.history.Source"),
        (
            GOOD.replace("[Entry(", "[1 / 0, Entry("),
            "the history releases of acme 1.0 failed: division by zero",
        ),
        (
            GOOD.replace("[Entry(", "[connection.exec_driver_sql('SELECT 1 FROM nowhere'), Entry("),
            "the history releases of acme 1.0 failed:",
        ),
    ],
)
def test_a_broken_one_stops_nothing_but_itself(
    ledger: Database, tmp_path: Path, code: str, said: str
) -> None:
    ledger.run("INSERT INTO pipestate.run (event, actor) VALUES ('purge', 'me')")
    with (
        installed(tmp_path, "acme", code, history={"releases": "acme:lines"}),
        installed(tmp_path, "other", GOOD.replace("release", "z"), history={"zzz": "other:lines"}),
    ):
        lines, errors = read(ledger)
    assert {entry.kind for entry in lines.entries} == {"purge", "z"}
    assert [said in error for error in errors] == [True]
