"""Webhooks: what is sent where, how long it may take, and what is never shown."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread

import pytest

from pipestate.cli.notify import as_data, as_slack, as_text, notice_of, parse_webhook, send
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.ledger.latest import Change, LastRecord, compare
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict
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


HOUR = 3600.0


def verdict(check: str, outcome: Outcome = Outcome.FAILED, message: str = "no") -> Verdict:
    return Verdict(check, outcome, Level.BLOCK, "n = 0", {}, message, "p:1", 1.0)


def report(*phases: PhaseReport) -> Report:
    info = DatabaseInfo("postgresql://db/civic", "postgresql", "18", "b2", "c3")
    return Report(info, datetime.now(UTC), 1.0, (RunbookReport("orders", "orders.md", "", phases),))


def last(phase: str, *, is_open: bool = True, hours: float | None = 24) -> LastRecord:
    age = None if hours is None else hours * HOUR
    return LastRecord("orders", phase, is_open, 1.8e9, age, None)


def lines(run: Report, *before: LastRecord) -> list[str]:
    return as_text(notice_of(run, compare(run, before))).splitlines()[1:]


@pytest.mark.parametrize(
    ("gate", "before", "said"),
    [
        (Gate.OPEN, [last("ready", is_open=False)], ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, [], ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, [last("other")], ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.CLOSED, [last("ready")], ["Closed: orders/ready: quiet: no"]),
        (Gate.CLOSED, [], []),
        (Gate.CLOSED, [last("ready", is_open=False)], []),
        (Gate.OPEN, [last("ready", hours=29.9)], []),
        (Gate.OPEN, [last("ready", hours=None)], []),
        (Gate.AHEAD, [last("ready", hours=99)], []),
        (Gate.PAST, [last("ready", hours=99)], []),
        (
            Gate.CLOSED,
            [last("ready", hours=52.4)],
            [
                "Closed: orders/ready: quiet: no",
                "Missing: no record of orders/ready for 52 hours before this one; it is closed",
            ],
        ),
    ],
)
def test_what_is_news(gate: Gate, before: list[LastRecord], said: list[str]) -> None:
    phase = PhaseReport("ready", gate, ("c3", "d4"), (verdict("quiet"),))
    assert lines(report(phase), *before) == said


def test_a_long_story_is_cut_for_people_and_whole_in_the_data() -> None:
    checks = tuple(verdict(f"c{number}", message="x" * 1000) for number in range(9))
    phases = [PhaseReport(f"p{number}", Gate.CLOSED, (), checks) for number in range(25)]
    run = report(*phases)
    notice = notice_of(run, compare(run, [last(phase.name) for phase in phases]))
    text = as_text(notice).splitlines()
    assert (len(text), text[-1]) == (22, "and 5 more")
    assert text[1].endswith("…; and 6 more checks")
    assert len(str(as_slack(notice)["text"])) < 40_000, "Slack's limit"
    data = as_data(notice)
    assert (len(data["changes"]), len(data["changes"][0]["failing"])) == (25, 9)
    assert data["changes"][0]["failing"][0]["message"] == "x" * 1000


def test_what_could_not_be_evaluated_closes_and_nothing_to_ask_is_said() -> None:
    errored = PhaseReport("ready", Gate.CLOSED, (), (verdict("quiet", Outcome.ERRORED, "no such table"),))
    empty = PhaseReport("empty", Gate.CLOSED, (), (verdict("quiet", Outcome.SKIPPED),))
    assert lines(report(errored, empty), last("ready"), last("empty")) == [
        "Closed: orders/ready: quiet: no such table",
        "Closed: orders/empty: no check was evaluated",
    ]


def test_a_time_that_python_does_not_know_is_null() -> None:
    phase = PhaseReport("ready", Gate.OPEN, (), ())
    far = LastRecord("orders", "ready", False, 5.7e11, None, None)
    run = report(phase)
    assert (
        as_data(notice_of(run, (Change("orders", phase, True, far),)))["changes"][0]["last_record_at"] is None
    )
