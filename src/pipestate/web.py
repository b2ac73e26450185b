"""One HTTP request with a hard limit in time: for webhooks, and for the probe that asks an address.

An address may hold a secret in its path, its query or before its host: messages show scheme and host alone. No
redirect is followed, so that neither a token nor a message reaches a host that nobody named.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from pipestate import __version__
from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.safe import plain

SCHEMES = ("https", "http")
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Address:
    """Where to send a request. `shown` is what people may see of it; the rest holds secrets."""

    shown: str
    url: str = field(repr=False)
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class WebAnswer:
    """What came back: the status, and as much of the body as was asked for."""

    status: int
    body: bytes = b""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def parse_address(text: str, *, source: str) -> Address:
    """Read a URL of http or https; `source` says in messages where it was given.

    >>> parse_address("https://bot:secret@example.com:8443/hooks/T0/secret?k=secret", source="--notify").shown
    'https://example.com:8443/…'
    """
    wrong = ConfigError(
        f"{source} is not the address of a web server: write https://host/path, with whatever is no plain "
        "ASCII percent-encoded"
    )
    if not text.isascii() or not text.isprintable() or " " in text:
        raise wrong
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise wrong from error
    if parts.scheme not in SCHEMES or not host:
        raise wrong
    named = f"[{host}]" if ":" in host else host
    place = named if port is None else f"{named}:{port}"
    url = urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))
    return Address(f"{parts.scheme}://{place}/…", url, _authorization(parts))


def call(
    address: Address,
    *,
    timeout_s: float,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    most: int = 0,
) -> WebAnswer:
    """Send one request and read at most so many bytes of the answer; Unreachable where none comes in time.

    The limit holds for everything together: names, connecting, an answer that trickles.
    """
    came: SimpleQueue[WebAnswer | PipestateError] = SimpleQueue()
    own = {"User-Agent": f"pipestate/{__version__}", **(headers or {})}
    if address.authorization:
        own = {"Authorization": address.authorization, **own}

    def work() -> None:
        try:
            came.put(_call(address, method, body, own, timeout_s, most))
        except PipestateError as error:
            came.put(error)

    # A name server cannot be interrupted: the thread is left behind, and ends with the program.
    Thread(target=work, daemon=True).start()
    try:
        answer = came.get(timeout=timeout_s)
    except Empty as error:
        raise _late(address, timeout_s) from error
    if isinstance(answer, PipestateError):
        raise answer
    return answer


def _call(
    address: Address,
    method: str,
    body: bytes | None,
    headers: Mapping[str, str],
    timeout_s: float,
    most: int,
) -> WebAnswer:
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    request = Request(address.url, data=body, headers=dict(headers), method=method)
    try:
        with build_opener(Stay).open(request, timeout=timeout_s) as answer:
            return WebAnswer(answer.status, answer.read(most) if most else b"")
    except HTTPError as error:
        with error:
            return WebAnswer(error.code)
    except Exception as error:  # urllib, http.client, ssl and sockets each have errors of their own
        if isinstance(getattr(error, "reason", error), TimeoutError):
            raise _late(address, timeout_s) from error
        raise Unreachable(f"cannot reach {address.shown}: {_reason(error)}") from error


def _late(address: Address, timeout_s: float) -> Unreachable:
    return Unreachable(f"{address.shown} did not answer within {timeout_s:g} s")


def _reason(error: Exception) -> str:
    """Say why without what was sent: an error of http.client may quote a header or a path."""
    cause = getattr(error, "reason", error)
    if not isinstance(cause, OSError):
        return type(cause).__name__ if isinstance(cause, Exception) else "no answer"
    return plain(cause.strerror or str(cause) or type(cause).__name__)[:LONGEST_REASON]


def _authorization(parts: SplitResult) -> str | None:
    """Make a header of what stands before the host: urllib would take it for a part of the name."""
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
