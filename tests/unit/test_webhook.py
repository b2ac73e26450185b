"""Which form a webhook gets."""

import pytest

from pipestate.webhook import Form, parse_webhook


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://hooks.slack.com/services/T/B/x", Form.SLACK),
        (" HTTPS://Hooks.Slack.com/services/T/B/x ", Form.SLACK),
        ("https://hooks.slack-gov.com/services/T/B/x", Form.SLACK),
        ("json+https://hooks.slack.com/services/T/B/x", Form.JSON),
        ("slack+http://chat.example.com/hooks/x", Form.SLACK),
        ("https://example.com/hooks.slack.com", Form.JSON),
        ("https://hooks.slack.com.example.com/x+y", Form.JSON),
        ("https://hooks.slack.com@example.com/x", Form.JSON),
    ],
)
def test_slack_is_known_by_its_hosts_all_others_by_what_is_said(url: str, form: Form) -> None:
    assert parse_webhook(url, source="--notify").form is form
