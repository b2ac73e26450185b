"""The probe `http`, against a web server: what is asked, what is found, and what is never said."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipestate.errors import ConfigError, Unreachable
from pipestate.probes.http import MOST_BYTES, probe
from web_servers import Reply, WebServer, as_reply, serving

INI = Path("alembic.ini")
TOKEN = "s3cr3t-t0k3n"


@pytest.fixture
def server() -> Iterator[WebServer]:
    with serving(lambda _: as_reply({"total": 12, "items": [1, 2, 3]})) as running:
        yield running


def test_a_number_is_read_from_what_an_address_answers(server: WebServer) -> None:
    assert probe(INI, f"{server.url}/api/open?state=a%20b path=$.total") == 12
    assert probe(INI, f"GET {server.url}/ path=items") == 3
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("GET", "/api/open?state=a%20b"),
        ("GET", "/"),
    ]


def test_a_post_sends_its_body_and_headers(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", TOKEN)
    monkeypatch.setenv("API_URL", f"{server.url}/api")
    options = """POST ${API_URL}/count body='{"after": "${now-1h}"}'
        header="Authorization: Bearer ${API_KEY}" path=total"""
    assert probe(INI, options) == 12
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/api/count")
    assert asked.headers["Authorization"] == f"Bearer {TOKEN}"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.json()["after"].endswith("Z")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(401, TOKEN.encode()), "answered 401"),
        (Reply(302, headers={"Location": f"http://elsewhere/{TOKEN}"}), "answered 302"),
        (Reply(200, b"<html>"), "the answer is no JSON"),
        (as_reply({"total": None}), "there is no number at $.total of the answer: it is null"),
        (as_reply({"total": TOKEN}), "it is a text"),
        (as_reply({"totals": 3}), "the answer has no $.total"),
    ],
)
def test_another_answer_is_no_observation(server: WebServer, reply: Reply, said: str) -> None:
    server.replies = lambda _: reply
    with pytest.raises(Unreachable) as caught:
        probe(INI, f"{server.url}/{TOKEN} path=total header='X-Token: {TOKEN}'")
    assert said in str(caught.value)
    assert str(caught.value).startswith("http://127.0.0.1:")
    assert TOKEN not in str(caught.value)


def test_an_answer_without_end_is_cut(server: WebServer) -> None:
    server.replies = lambda _: Reply(body=b"[" + b"1," * (MOST_BYTES // 2) + b"1]")
    with pytest.raises(Unreachable, match="more than 10,000,000 bytes"):
        probe(INI, server.url)


def test_a_server_that_does_not_answer_is_not_waited_for(server: WebServer) -> None:
    server.replies = server.never
    with pytest.raises(Unreachable, match="did not answer within 1 s"):
        probe(INI, f"{server.url} timeout=1s")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "write one address"),
        ("http://host/ http://other/", "write one address"),
        ("PUT http://host/", "write one address"),
        (f"ftp://host/{TOKEN}", "the address is not the address of a web server"),
        (f'http://host/ body=\'{{"a": "{TOKEN}"}}\'', "body= is for POST"),
        (f"POST http://host/ body='{TOKEN}'", "body= is no JSON"),
        (f"http://host/ header={TOKEN}", "a header= is not one"),
        (f"http://host/ header='Authorization: {TOKEN}\r\nX: y'", "a header= is not one"),
        (f"http://host/ token={TOKEN}", "there is no option token="),
        ("http://host/ path=a..b", "write names and places"),
    ],
)
def test_wrong_options_are_one_sentence_without_a_token(options: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        probe(INI, options)
    assert said in str(caught.value)
    assert TOKEN not in str(caught.value)
