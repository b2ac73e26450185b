"""Notifications of `verify --record`: a message to each webhook, sent once, within a time limit.

Slack's own hosts get Slack's form, other hosts plain JSON; `slack+https://` and `json+https://` choose one. A URL may
hold secrets: messages show its scheme and host only. Redirects are refused, so messages reach named hosts only.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from pipestate import __version__
from pipestate.cli.options import Target
from pipestate.cli.output import say
from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.text import plain
from pipestate.database.interrupt import Interrupted, telling
from pipestate.database.urls import shown

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipestate.cli.formats.notice import Notice
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
        raise ConfigError("--notify tells what is news since the last record: add --record")
    named = [("--notify", url) for url in given or ()]
    if record and not named:
        named = [(VARIABLE, url) for url in os.environ.get(VARIABLE, "").split()]
    if not named:
        return []
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
        say(f"warning: nobody is told of changes, the last records cannot be read: {said}", err=True)
        return ()


def tell(webhooks: Sequence[Webhook], notice: "Notice") -> None:
    """Send one message to each webhook; print the reason for each failure."""
    from pipestate.cli.formats.notice import as_data, as_slack

    with telling(lambda: "a message to a webhook was being sent; whatever was recorded stays"):
        for webhook in webhooks:
            try:
                send(webhook, as_slack(notice) if webhook.is_slack else as_data(notice))
            except PipestateError as error:
                say(f"warning: the message was not sent: {error}", err=True)


@contextmanager
def failure_notified(webhooks: Sequence[Webhook], to: Target) -> Iterator[None]:
    """Notify the webhooks if the run fails before it is recorded; ignore Ctrl-C."""
    try:
        yield
    except Interrupted:
        raise
    except PipestateError as error:
        if webhooks:
            from pipestate.cli.formats.notice import Notice

            tell(webhooks, Notice(shown(to.url), None, datetime.now(UTC), False, error=str(error)))
        raise


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
    headers = {
        "User-Agent": f"pipestate/{__version__}",
        "Content-Type": "application/json; charset=utf-8",
    }
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
