"""Text that wants to be more than text, in every place from which a report takes some."""

from pathlib import Path

from sqlalchemy import insert

from bed import Database
from books import block, page, run, shown, write
from pipestate.ledger.record import record_event, record_report
from pipestate.ledger.rehearsals import Rehearsed, record_rehearsal
from pipestate.ledger.tables import ledger_on
from pipestate.runbook.model import Runbook

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
        block(f"SELECT {literal} AS culprit", check="rows", require="rows = 0"),
        block(f"SELECT count(*) AS n FROM nowhere -- {HOSTILE[:30]}", check="broken", require="n = 0"),
        block("SELECT 3 AS n", check="number", require="n < 2"),
        shown(f"SELECT {literal} AS culprit, 1 AS n"),
        "- [ ] `word` (24h): <b onclick=alert(4)>signed</b> `<i>` [x](javascript:alert(6))\n",
    )
