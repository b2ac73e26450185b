"""`verify --record --notify`: webhooks that are told what is news. A message that is not sent changes nothing."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipestate.cli.options import Target
from pipestate.cli.output import say
from pipestate.config import shown
from pipestate.errors import ConfigError, PipestateError
from pipestate.interrupt import Interrupted, telling

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from pipestate.ledger.changes import Change
    from pipestate.render.notice import Notice
    from pipestate.verify.report import Report
    from pipestate.webhook import Webhook

VARIABLE = "PIPESTATE_NOTIFY_URL"


def find_webhooks(given: Sequence[str] | None, *, record: bool) -> "list[Webhook]":
    """Return the webhooks of the option, else of the variable; a run that is not recorded tells nobody."""
    if given and not record:
        raise ConfigError("--notify tells what is news since the last record: add --record")
    named = [("--notify", url) for url in given or ()]
    if record and not named:
        named = [(VARIABLE, url) for url in os.environ.get(VARIABLE, "").split()]
    if not named:
        return []
    from pipestate.webhook import parse_webhook

    return [parse_webhook(url, source=source) for source, url in named]


def find_news(connection: "Connection", report: "Report") -> "tuple[Change, ...]":
    """Compare with the ledger before the run is written into it; what cannot be compared is said, and no news."""
    from sqlalchemy.exc import DBAPIError

    from pipestate.drivers import message
    from pipestate.ledger.changes import read_changes

    try:
        return read_changes(connection, report)
    except DBAPIError as error:
        said = message(error).split("\n")[0]
        say(f"warning: nobody is told of changes, the last records cannot be read: {said}", err=True)
        return ()


def tell(webhooks: "Sequence[Webhook]", notice: "Notice") -> None:
    """Send one message to each webhook; say of each that did not take it why."""
    from pipestate.render.notice import as_data, as_slack
    from pipestate.webhook import Form, send

    with telling(lambda: "a message to a webhook was being sent; whatever was recorded stays"):
        for webhook in webhooks:
            try:
                send(webhook, as_slack(notice) if webhook.form is Form.SLACK else as_data(notice))
            except PipestateError as error:
                say(f"warning: the message was not sent: {error}", err=True)


@contextmanager
def failure_notified(webhooks: "Sequence[Webhook]", to: Target) -> Iterator[None]:
    """Tell the webhooks where nothing could be recorded; Ctrl-C is no news."""
    try:
        yield
    except Interrupted:
        raise
    except PipestateError as error:
        if webhooks:
            from pipestate.render.notice import Notice

            tell(webhooks, Notice(shown(to.url), None, datetime.now(UTC), False, error=str(error)))
        raise
