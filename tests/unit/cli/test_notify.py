"""Webhooks: what is sent where, how long it may take, and what is never shown."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from pipestate.cli.notify import parse_webhook, send
from pipestate.core.errors import ConfigError, Unreachable
from support.web_servers import Reply, WebServer, serving

SECRET = "T0/s3cr3t"


@pytest.fixture
def server() -> Iterator[WebServer]:
    with serving() as running:
        yield running


def test_a_name_and_a_password_are_sent_as_such_and_not_as_a_part_of_the_address(server: WebServer) -> None:
    url = server.url.replace("http://", "http://bot:p%40ss@") + "/hook?k=1#part"
    send(parse_webhook(url, source="it"), {})
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/hook?k=1", b"{}")
    assert asked.headers["Authorization"] == "Basic Ym90OnBAc3M="
    assert asked.headers["User-Agent"].startswith("pipestate/")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_answer_and_nothing_goes_on_to_another_host(server: WebServer, status: int) -> None:
    with serving() as other:
        server.replies = lambda _: Reply(status, headers={"Location": f"{other.url}/stolen"})
        with pytest.raises(Unreachable, match=f"answered {status}"):
            send(parse_webhook(server.url, source="it"), {"a": "secret"})
        assert other.asked == []


def test_who_does_not_answer_is_not_waited_for(server: WebServer) -> None:
    server.replies = server.never
    with pytest.raises(Unreachable, match=r"http://127.0.0.1:\d+/… did not answer within 0.2 s"):
        send(parse_webhook(f"{server.url}/{SECRET}", source="it"), {}, 0.2)


@contextmanager
def speaking(text: bytes) -> Iterator[str]:
    """A server that says the same to everybody, byte by byte without end where the text is empty."""
    over = Event()

    def talk() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(text or b"HTTP/1.1 200 OK\r\nX: ")
            while not text and not over.wait(0.05):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=talk)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/{SECRET}"
        over.set()
        thread.join()


def test_an_answer_that_trickles_is_not_waited_for() -> None:
    with speaking(b"") as url, pytest.raises(Unreachable, match="did not answer within"):
        send(parse_webhook(url, source="it"), {}, 0.3)


@pytest.mark.parametrize("text", [b"::error::owned\x1b[2J\r\n\r\n", b"HTTP/1.1 owned\r\n\r\n", b"\x00"])
def test_what_is_no_http_is_said_in_our_own_words(text: bytes) -> None:
    with speaking(text) as url, pytest.raises(Unreachable) as caught:
        send(parse_webhook(url, source="it"), {}, 10)
    assert "owned" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_server_that_is_down_is_named_without_its_path() -> None:
    with pytest.raises(Unreachable) as caught:
        send(parse_webhook(f"http://me:pw@127.0.0.1:1/{SECRET}?k={SECRET}", source="it"), {}, 10)
    assert str(caught.value) == "cannot reach http://127.0.0.1:1/…: Connection refused"


@pytest.mark.parametrize(
    "text",
    [
        f"ftp://host/{SECRET}",
        f"file:///etc/{SECRET}",
        f"host/{SECRET}",
        f"https:///{SECRET}",
        f"https://host:port/{SECRET}",
        f"https://[host/{SECRET}",
        f"https://host/{SECRET} x",
        f"https://host/{SECRET}\r\nX: y",
        f"https://höst/{SECRET}",
        "",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--notify is not the address of a web server") as caught:
        parse_webhook(text, source="--notify")
    assert "s3cr3t" not in str(caught.value)


def test_no_secret_is_in_what_an_address_looks_like_in_a_log() -> None:
    address = parse_webhook(f"https://me:{SECRET[3:]}@host/{SECRET}?k={SECRET}", source="it")
    assert "s3cr3t" not in repr(address)
    assert address.shown == "https://host/…"
    assert parse_webhook("http://[::1]:80/x", source="it").shown == "http://[::1]:80/…"


@pytest.mark.parametrize(
    ("url", "is_slack"),
    [
        ("https://hooks.slack.com/services/T/B/x", True),
        (" HTTPS://Hooks.Slack.com/services/T/B/x ", True),
        ("https://hooks.slack-gov.com/services/T/B/x", True),
        ("json+https://hooks.slack.com/services/T/B/x", False),
        ("slack+http://chat.example.com/hooks/x", True),
        ("https://example.com/hooks.slack.com", False),
        ("https://hooks.slack.com.example.com/x+y", False),
        ("https://hooks.slack.com@example.com/x", False),
    ],
)
def test_slack_is_known_by_its_hosts_all_others_by_what_is_said(url: str, is_slack: bool) -> None:
    assert parse_webhook(url, source="--notify").is_slack is is_slack
