"""Hostile text, and long names, in every place from which a report takes some."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert

from pipestate.ledger.record import Rehearsed, record_event, record_rehearsal, record_report
from pipestate.ledger.tables import ledger_on
from pipestate.runbook.model import Runbook
from pipestate.status.collect import read_clock
from support.runbook_samples import block, page, run, shown, write
from support.servers import Database

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e{{ 7*7 }}&amp;\"'"
SEEN = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\\x1b[31m\\u202e{{ 7*7 }}&amp;\"'"


def write_hostile(database: Database, directory: Path) -> Runbook:
    """Fill a ledger, and write a page, with what a browser must not obey."""
    book = write(directory, hostile_page())
    tables = ledger_on(database.url.get_backend_name())
    said = {"runbook": "book", "phase": "one", "name": "word", "person": HOSTILE, "note": HOSTILE}
    fact = {"name": HOSTILE, "value": 1, "source": HOSTILE, "actor": HOSTILE}
    gone = Rehearsed(
        revision=HOSTILE, target=HOSTILE, files={HOSTILE: "0"}, clone=HOSTILE, ok=False, duration_ms=5
    )
    with database.begin() as connection:
        record_report(connection, run(database, book), event="verify", actor=HOSTILE)
        record_event(connection, event="purge", reason=HOSTILE, revision=HOSTILE, actor=HOSTILE)
        connection.execute(insert(tables.attestation).values(said))
        connection.execute(insert(tables.observation).values(fact))
        record_rehearsal(connection, gone)
    return book


def hostile_page() -> str:
    literal = "'" + HOSTILE.replace("'", "''") + "'"
    return page(
        "### <script>alert(3)</script>\n\n![x](https://evil.example/x.png)\n\n<img src=x onerror=alert(5)>\n",
        block(f"SELECT {literal} AS offending", check="rows", require="rows = 0"),
        block(f"SELECT count(*) AS n FROM nowhere -- {HOSTILE[:30]}", check="broken", require="n = 0"),
        block("SELECT 3 AS n", check="number", require="n < 2"),
        shown(f"SELECT {literal} AS offending, 1 AS n"),
        "- [ ] `word` (24h): <b onclick=alert(4)>signed</b> `<i>` [x](javascript:alert(6))\n",
    )


HYPHENS = "consolidation-of-the-municipal-archives-and-their-registries-of-2026"
UNDERSCORES = "number_of_deferred_coordinators_of_the_optical_character_recognition"
UNBROKEN = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft"


def write_long(database: Database, directory: Path) -> Runbook:
    """Fill a ledger, and write a page, with names that are longer than a line of a phone."""
    person = f"{UNBROKEN.lower()}@{HYPHENS}.example.com"
    text = page(
        f"{UNBROKEN} and `{UNDERSCORES}`\n",
        block(f"SELECT 3 AS {UNDERSCORES[:60]}", check=HYPHENS, require=f"{UNDERSCORES[:60]} < 2"),
        block(f"SELECT '{UNBROKEN}' AS offending, '{HYPHENS}' AS place", check="rows", require="rows = 0"),
        shown(
            f"SELECT '{UNBROKEN}' AS name, '{UNDERSCORES}' AS {UNDERSCORES[:40]}, 1 AS n",
            view=f"view-{HYPHENS}",
        ),
        f"- [ ] `signed-{HYPHENS}` (24h): {UNBROKEN} was read\n",
        name=f"book-{HYPHENS}",
        phase=HYPHENS,
        front=f"  {HYPHENS}: {{}}\n",
    )
    book = write(directory, text.replace("# Book", f"# {UNBROKEN}"), f"book-{HYPHENS}")
    tables = ledger_on(database.url.get_backend_name())
    said = {"runbook": book.name, "phase": HYPHENS, "name": f"signed-{HYPHENS}", "person": person}
    with database.begin() as connection:
        now = read_clock(connection)
        record_report(connection, run(database, book), event="verify", actor=person)
        record_event(connection, event="purge", reason=UNBROKEN, revision="f" * 32, actor=person)
        connection.execute(insert(tables.attestation).values(said | {"note": UNDERSCORES}))
        for name in (HYPHENS, UNDERSCORES, UNBROKEN):
            facts = [
                {"name": name, "value": 123456.75 * day, "source": UNBROKEN, "actor": person}
                | {"observed_at": now - timedelta(days=day)}
                for day in range(10)
            ]
            connection.execute(insert(tables.observation), facts)
        clone = f"postgresql://{person}/{HYPHENS}"
        record_rehearsal(
            connection,
            Rehearsed(revision=None, target="b2", files={HYPHENS: "0"}, clone=clone, ok=True, duration_ms=5),
        )
    return book
