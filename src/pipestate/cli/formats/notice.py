"""Message for a webhook: plain JSON, with a schema that ships beside this file, or Slack's form."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipestate.cli.formats.json import instant
from pipestate.core.text import plain, slack
from pipestate.ledger.latest import Change
from pipestate.verify.report import Gate, Report, Verdict

SCHEMA = Path(__file__).with_name("notice.schema.json")
MOST_CHANGES, MOST_CHECKS, LONGEST = 20, 3, 300


@dataclass(frozen=True, slots=True)
class Notice:
    """News of a run for webhooks, or the reason of its failure. `database` is a URL without its password."""

    database: str
    revision: str | None
    at: datetime
    ok: bool
    changes: tuple[Change, ...] = ()
    error: str | None = None


def notice_of(report: Report, changes: tuple[Change, ...]) -> Notice:
    info = report.database
    return Notice(info.url, info.revision, report.started_at, report.ok, changes)


def as_data(notice: Notice) -> dict[str, Any]:
    """Write the message as plain JSON, `schema_version` 1."""
    return {
        "schema_version": 1,
        "text": as_text(notice),
        "ok": notice.ok,
        "database": {"url": notice.database, "revision": notice.revision},
        "at": instant(notice.at),
        "error": notice.error,
        "changes": [_change(change) for change in notice.changes],
    }


def as_slack(notice: Notice) -> dict[str, Any]:
    """Write the message in Slack's form: literal text, without links and mentions."""
    return {"text": slack(as_text(notice)), "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}


def as_text(notice: Notice) -> str:
    """Write the message for people, one line per piece of news."""
    head = f"pipestate verify: {notice.database}"
    if notice.error is not None:
        return f"{plain(head)}\nNo record was written: {_short(notice.error)}"
    lines = [line for change in notice.changes for line in _lines(change)]
    more = [f"and {len(lines) - MOST_CHANGES} more"] if len(lines) > MOST_CHANGES else []
    at = f"{head} at revision {notice.revision or 'base'}"
    return "\n".join([plain(at), *(plain(line) for line in lines[:MOST_CHANGES]), *more])


def _lines(change: Change) -> Iterator[str]:
    address = f"{change.runbook}/{change.phase.name}"
    if change.turned and change.phase.gate is Gate.OPEN:
        opens = f": {', '.join(change.phase.opens)} may run" if change.phase.opens else ""
        yield f"Opened: {address}{opens}"
    elif change.turned:
        yield f"Closed: {address}: {'; '.join(_why(change))}"
    if change.missing_s is not None:
        hours = f"{change.missing_s / 3600:.0f} hours"
        yield f"Missing: no record of {address} for {hours} before this one; it is {change.phase.gate}"


def _why(change: Change) -> Iterator[str]:
    closing = _closing(change)
    if not closing:
        yield "nothing was asked"
    for verdict in closing[:MOST_CHECKS]:
        yield f"{verdict.check_id}: {_short(verdict.message)}"
    if len(closing) > MOST_CHECKS:
        yield f"and {len(closing) - MOST_CHECKS} more checks"


def _change(change: Change) -> dict[str, Any]:
    last = change.last
    hours = round(change.missing_s / 3600, 1) if change.missing_s is not None else None
    return {
        "runbook": change.runbook,
        "phase": change.phase.name,
        "gate": str(change.phase.gate),
        "before": None if last is None else str(Gate.OPEN if last.is_open else Gate.CLOSED),
        "turned": change.turned,
        "last_record_at": _moment(last.at if last else None),
        "hours_without_record": hours,
        "opens": list(change.phase.opens),
        "failing": [
            {"id": verdict.check_id, "outcome": str(verdict.outcome), "message": verdict.message}
            for verdict in _closing(change)
        ],
    }


def _closing(change: Change) -> list[Verdict]:
    return [verdict for verdict in change.phase.checks if verdict.closes]


def _moment(seconds: float | None) -> str | None:
    """Write a time of the ledger; None if it is outside Python's range."""
    try:
        return instant(datetime.fromtimestamp(seconds, UTC)) if seconds is not None else None
    except (OverflowError, ValueError, OSError):
        return None


def _short(text: str) -> str:
    """Cut a long text.

    >>> len(_short("x" * 1000))
    300
    """
    shown = plain(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}…"
