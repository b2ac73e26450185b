"""Notifications of `verify --record`: a message to each webhook, sent once, within a time limit.

Slack's own hosts get Slack's form, other hosts plain JSON; `slack+https://` and `json+https://` choose one. A URL may
hold secrets: messages show its scheme and host only. Redirects are refused, so messages reach named hosts only.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from pipestate import __version__
from pipestate.cli.formats.json import instant
from pipestate.cli.output import say
from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.text import plain, slack
from pipestate.database.interrupt import telling
from pipestate.database.urls import shown
from pipestate.verify.report import Gate, Verdict, shortened

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

    from pipestate.ledger.latest import Change
    from pipestate.verify.report import Report


VARIABLE = "PIPESTATE_NOTIFY_URL"
SLACK_HOSTS = ("hooks.slack.com", "hooks.slack-gov.com")
TIMEOUT_S = 5.0
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's address; `shown` is the part for people, the rest holds secrets."""

    shown: str
    is_slack: bool
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


def find_webhooks(given: Sequence[str] | None, *, record: bool) -> list[Webhook]:
    """Return the webhooks of the option, else of the variable. Unrecorded runs send no notification."""
    if given and not record:
        raise ConfigError("--notify compares the run with the last record: add --record")
    named = [("--notify", url) for url in given or ()]
    if record and not named:
        named = [(VARIABLE, url) for url in os.environ.get(VARIABLE, "").split()]
    return [parse_webhook(url, source=source) for source, url in named]


def find_news(connection: "Connection", report: "Report") -> "tuple[Change, ...]":
    """Compare with the ledger before the run is recorded; if that fails, warn and return no news."""
    from sqlalchemy.exc import DBAPIError

    from pipestate.database.drivers import message
    from pipestate.ledger.latest import read_changes

    try:
        return read_changes(connection, report)
    except DBAPIError as error:
        said = message(error).split("\n")[0]
        say(f"warning: no webhook was notified: the last records cannot be read: {said}", err=True)
        return ()


def tell(webhooks: Sequence[Webhook], notice: "Notice") -> None:
    """Send one message to each webhook; print the reason for each failure."""
    with telling(lambda: "a message to a webhook was being sent; whatever was recorded stays"):
        for webhook in webhooks:
            try:
                send(webhook, as_slack(notice) if webhook.is_slack else as_data(notice))
            except PipestateError as error:
                say(f"warning: the message was not sent: {error}", err=True)


def notify_failure(webhooks: Sequence[Webhook], url: "URL", error: PipestateError) -> None:
    """Notify the webhooks of a run that failed before it was recorded."""
    tell(webhooks, Notice(shown(url), None, datetime.now(UTC), False, error=str(error)))


def parse_webhook(text: str, *, source: str) -> Webhook:
    """Read the address of a webhook; `source` names its origin in messages.

    >>> parse_webhook("slack+https://bot:secret@chat.example.com:8443/hooks/secret?k=secret", source="--notify")
    Webhook(shown='https://chat.example.com:8443/…', is_slack=True)
    """
    wrong = ConfigError(
        f"{source} is not the address of a web server: write https://host/path, with whatever is no plain "
        "ASCII percent-encoded"
    )
    text = text.strip()
    form, _, rest = text.partition("+")
    form, text = (form, rest) if form in ("slack", "json") else ("", text)
    if not text.isascii() or not text.isprintable() or " " in text:
        raise wrong
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise wrong from error
    if parts.scheme not in ("https", "http") or not host:
        raise wrong
    named = f"[{host}]" if ":" in host else host
    place = named if port is None else f"{named}:{port}"
    headers = {"User-Agent": f"pipestate/{__version__}", "Content-Type": "application/json; charset=utf-8"}
    if parts.username is not None:  # urllib would parse it as part of the host
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    url = urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))
    is_slack = form == "slack" or (not form and host in SLACK_HOSTS)
    return Webhook(f"{parts.scheme}://{place}/…", is_slack, url, headers)


def send(webhook: Webhook, message: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> None:
    """Send JSON, once; raise Unreachable if it is not accepted in time."""
    answers: SimpleQueue[str | None] = SimpleQueue()
    # Name resolution cannot be interrupted: the daemon thread stays until the program ends.
    Thread(target=lambda: answers.put(_post(webhook, message, timeout_s)), daemon=True).start()
    try:
        complaint = answers.get(timeout=timeout_s)
    except Empty:
        complaint = f"{webhook.shown} did not answer within {timeout_s:g} s"
    if complaint is not None:
        raise Unreachable(complaint)


def _post(webhook: Webhook, message: Mapping[str, Any], timeout_s: float) -> str | None:
    """Return None, or the reason of a failure. The reason omits the message's content."""
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    body = json.dumps(message).encode()
    try:
        build_opener(Stay).open(Request(webhook.url, body, dict(webhook.headers)), timeout=timeout_s).close()
    except HTTPError as error:
        error.close()
        return f"{webhook.shown} answered {error.code}"
    except Exception as error:  # urllib, http.client, ssl and sockets raise many types
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            return f"{webhook.shown} did not answer within {timeout_s:g} s"
        why = cause.strerror or str(cause) if isinstance(cause, OSError) else type(cause).__name__
        return f"cannot reach {webhook.shown}: {plain(why)[:LONGEST_REASON]}"
    return None


MOST_CHANGES, MOST_CHECKS, LONGEST = 20, 3, 300


@dataclass(frozen=True, slots=True)
class Notice:
    """News of a run for webhooks, or the reason of its failure. `database` is a URL without its password."""

    database: str
    revision: str | None
    at: datetime
    ok: bool
    changes: "tuple[Change, ...]" = ()
    error: str | None = None


def notice_of(report: "Report", changes: "tuple[Change, ...]") -> Notice:
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
        return f"{plain(head)}\nNo record was written: {shortened(plain(notice.error), LONGEST)}"
    lines = [line for change in notice.changes for line in _lines(change)]
    more = [f"and {len(lines) - MOST_CHANGES} more"] if len(lines) > MOST_CHANGES else []
    at = f"{head} at revision {notice.revision or 'base'}"
    return "\n".join([plain(at), *(plain(line) for line in lines[:MOST_CHANGES]), *more])


def _lines(change: "Change") -> Iterator[str]:
    address = f"{change.runbook}/{change.phase.name}"
    if change.turned and change.phase.gate is Gate.OPEN:
        opens = f": {', '.join(change.phase.opens)} may run" if change.phase.opens else ""
        yield f"Opened: {address}{opens}"
    elif change.turned:
        yield f"Closed: {address}: {'; '.join(_why(change))}"
    if change.missing_s is not None:
        hours = f"{change.missing_s / 3600:.0f} hours"
        yield f"Missing: no record of {address} for {hours} before this one; it is {change.phase.gate}"


def _why(change: "Change") -> Iterator[str]:
    closing = _closing(change)
    if not closing:
        yield "no check was evaluated"
    for verdict in closing[:MOST_CHECKS]:
        yield f"{verdict.check_id}: {shortened(plain(verdict.message), LONGEST)}"
    if len(closing) > MOST_CHECKS:
        yield f"and {len(closing) - MOST_CHECKS} more checks"


def _change(change: "Change") -> dict[str, Any]:
    last = change.last
    return {
        "runbook": change.runbook,
        "phase": change.phase.name,
        "gate": str(change.phase.gate),
        "before": None if last is None else str(Gate.OPEN if last.is_open else Gate.CLOSED),
        "turned": change.turned,
        "last_record_at": _moment(last.at if last else None),
        "hours_without_record": None if change.missing_s is None else round(change.missing_s / 3600, 1),
        "opens": list(change.phase.opens),
        "failing": [
            {"id": verdict.check_id, "outcome": str(verdict.outcome), "message": verdict.message}
            for verdict in _closing(change)
        ],
    }


def _closing(change: "Change") -> list[Verdict]:
    return [verdict for verdict in change.phase.checks if verdict.closes]


def _moment(seconds: float | None) -> str | None:
    """Write a time of the ledger; None if it is outside Python's range."""
    try:
        return instant(datetime.fromtimestamp(seconds, UTC)) if seconds is not None else None
    except (OverflowError, ValueError, OSError):
        return None
