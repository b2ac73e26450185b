"""A web server on this machine, in a thread: it keeps what it received, and answers as a test wants."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass(frozen=True)
class SelectedCheck:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class WebServer:
    """`replies` says what to answer; `received` is what came."""

    url: str
    replies: Callable[[SelectedCheck], Reply]
    received: list[SelectedCheck] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    def never(self, _: SelectedCheck) -> Reply:
        """Wait until the test is over: for those who must not wait for an answer."""
        self.over.wait(60)
        return Reply()


def as_reply(value: object) -> Reply:
    return Reply(body=json.dumps(value).encode(), headers={"Content-Type": "application/json"})


@contextmanager
def serving(replies: Callable[[SelectedCheck], Reply] = lambda _: Reply()) -> Iterator[WebServer]:
    """Serve until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            received = SelectedCheck(self.command, self.path, dict(self.headers), body)
            here.received.append(received)
            reply = here.replies(received)
            try:
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)
            except BrokenPipeError:
                pass  # the client did not wait

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here = WebServer(f"http://127.0.0.1:{server.server_port}", replies)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield here
        finally:
            here.over.set()
            server.shutdown()
            thread.join()
