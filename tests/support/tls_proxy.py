"""TLS in front of a server that has none: what a managed server looks like to a client."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import URL

CERTIFICATE = Path(__file__).parents[1] / "certificates" / "localhost.crt"
SSL_REQUEST = (80877103).to_bytes(4, "big")


@contextmanager
def tls_front(url: URL) -> Iterator[URL]:
    """Yield the same database behind TLS, on a port of localhost; who does not speak TLS is sent away."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))

    def serve(near: socket.socket) -> None:
        with suppress(OSError), near:
            if near.recv(8)[4:] != SSL_REQUEST:
                return
            near.sendall(b"S")
            with context.wrap_socket(near, server_side=True) as inside, _connected(url) as there:
                back = threading.Thread(target=_pump, args=(there, inside), daemon=True)
                back.start()
                _pump(inside, there)
                back.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        port = listener.getsockname()[1]
        yield url.difference_update_query(["host", "port"]).set(host="localhost", port=port)


def _connected(url: URL) -> socket.socket:
    if not (host := url.query.get("host")):
        return socket.create_connection((url.host, url.port or 5432))
    there = socket.socket(socket.AF_UNIX)
    there.connect(f"{host}/.s.PGSQL.{url.port or 5432}")
    return there


def _pump(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for each in (one, other):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
