"""Webhooks: an address that is told, and the form that it understands.

Slack's own hosts get Slack's form, all others plain JSON; `slack+https://` and `json+https://` say which.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from pipestate.errors import Unreachable
from pipestate.web import Address, call, parse_address

SLACK_HOSTS = ("hooks.slack.com", "hooks.slack-gov.com")
TIMEOUT_S = 5.0


class Form(StrEnum):
    SLACK = "slack"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Webhook:
    address: Address
    form: Form


def parse_webhook(text: str, *, source: str) -> Webhook:
    """Read the address of a webhook; ConfigError, which does not show it, where it is none.

    >>> parse_webhook("slack+https://chat.example.com/hooks/secret", source="--notify")
    Webhook(address=Address(shown='https://chat.example.com/…'), form=<Form.SLACK: 'slack'>)
    """
    form, plus, rest = text.strip().partition("+")
    named = plus == "+" and form in tuple(Form)
    address = parse_address(rest if named else text.strip(), source=source)
    of_slack = urlsplit(address.url).hostname in SLACK_HOSTS
    return Webhook(address, Form(form) if named else Form.SLACK if of_slack else Form.JSON)


def send(webhook: Webhook, message: Mapping[str, Any]) -> None:
    """Send JSON, once; Unreachable where it was not taken."""
    headers = {"Content-Type": "application/json; charset=utf-8"}
    body = json.dumps(message).encode()
    answer = call(webhook.address, method="POST", body=body, headers=headers, timeout_s=TIMEOUT_S)
    if not answer.ok:
        raise Unreachable(f"{webhook.address.shown} answered {answer.status}")
