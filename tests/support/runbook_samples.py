"""Runbooks made for a test."""

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import URL, Connection

from pipestate.database import connections as db
from pipestate.project.graph import Position
from pipestate.runbook.lint import load
from pipestate.runbook.model import Runbook
from pipestate.verify.checks import Phases, find_phases
from pipestate.verify.report import Report
from pipestate.verify.run import verify_on
from support.servers import Database

NOWHERE = Position(frozenset(), frozenset(), None, None)


def block(sql: str, *, check: str = "c", require: str = "x = 1", **directives: str) -> str:
    """A fenced check."""
    more = "".join(f"-- {name}: {value}\n" for name, value in directives.items())
    return f"```sql\n-- check: {check}\n-- require: {require}\n{more}{ended(sql)}\n```\n"


def explained(sql: str, *, check: str = "c") -> str:
    """Its evidence."""
    return f"```sql\n-- explains: {check}\n{ended(sql)}\n```\n"


def shown(sql: str, *, view: str = "v") -> str:
    return f"```sql\n-- view: {view}\n{ended(sql)}\n```\n"


def ended(sql: str) -> str:
    """With its semicolon, also where a comment ends it."""
    return f"{sql}\n;" if "--" in sql else f"{sql};"


def page(*blocks: str, name: str = "book", front: str = "  one: {}\n", phase: str = "one") -> str:
    body = "\n".join(blocks)
    return (
        f"---\nrunbook: {name}\ndefault: true\nphases:\n{front}---\n# Book\n\n## Phase: {phase}\n\n{body}\n"
    )


def write(directory: Path, text: str, name: str = "book", *, sqlite: str | None = None) -> Runbook:
    """A page, and its SQLite variants where there are any."""
    path = directory / f"{name}.md"
    path.write_text(text, encoding="utf-8")
    if sqlite is not None:
        (directory / f"{name}.sqlite.md").write_text(sqlite, encoding="utf-8")
    return load(path)


def verify(url: URL, phases: Phases, locate: Callable[[Connection], Position], **options: object) -> Report:
    """The checks of these phases, with the position read in their snapshot, as the commands do it."""
    with db.reader(url) as connection:
        return verify_on(connection, url, phases, locate(connection), **options)  # type: ignore[arg-type]


def run(database: Database, runbook: Runbook, *, revisions: Position = NOWHERE, **options: object) -> Report:
    return verify(database.url, find_phases([runbook]), lambda _: revisions, **options)
