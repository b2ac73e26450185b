"""Tunnel for programs without TLS: a local socket on one side, production through TLS on the other.

The certificate is requested and verified as libpq does it, with the settings of the same connection.
"""

import asyncio
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pipestate.core.errors import ConfigError

CANCEL_REQUEST, AUTHENTICATION_SASL = 80877102, 10
CHANNEL_BOUND = b"SCRAM-SHA-256-PLUS\0"
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
PORT = 5432
CHUNK = 65536
VERIFYING = ("verify-ca", "verify-full")

Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Listen = Callable[[Handler], Awaitable[asyncio.Server]]
Far = Callable[[Way], Awaitable[Way]]


@contextmanager
def tunnel(info: Any, host: str, place: Path) -> Iterator[tuple[str, int]]:
    """Yield a host and a port that reach a connection's server at `host`, through TLS."""
    settings = info.dsn_parameters
    if settings.get("channel_binding") == "require":
        raise ConfigError("channel_binding=require cannot be kept by pg_dump here: leave it out of the URL")
    context = tls_context(settings, Path.home() / ".postgresql")
    directory = place / "tunnel"
    directory.mkdir(mode=0o700)

    async def far(near: Way) -> Way:
        there = await _through_tls(host, info.port, context, info.host)
        await _introduce(near, there)
        return there

    with relay(partial(asyncio.start_unix_server, path=directory / f".s.PGSQL.{PORT}"), far):
        yield str(directory), PORT


def tls_context(settings: Mapping[str, str], home: Path) -> ssl.SSLContext:
    """Translate libpq's settings into a TLS context that is as strict."""
    mode = settings.get("sslmode", "prefer")
    root = settings.get("sslrootcert") or str(home / "root.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify-full"
    # If a root certificate exists, `require` verifies the server's, too.
    verifies = mode in VERIFYING or root == "system" or (mode == "require" and Path(root).is_file())
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    if root == "system":
        context.check_hostname = True
        context.load_default_certs()
    elif verifies:
        context.load_verify_locations(root)
    if settings.get("sslcrl"):
        context.load_verify_locations(settings["sslcrl"])
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    own = Path(settings.get("sslcert") or home / "postgresql.crt")
    if own.is_file():
        key = settings.get("sslkey") or str(home / "postgresql.key")
        context.load_cert_chain(own, key, settings.get("sslpassword") or "")
    return context


async def _through_tls(address: str, port: int, context: ssl.SSLContext, name: str) -> Way:
    """Connect as libpq does: request TLS in the clear, then use only TLS."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(SSL_REQUEST)
    await writer.drain()
    if await reader.readexactly(1) != b"S":
        raise ConnectionError("the server does not speak TLS any more")
    await writer.start_tls(context, server_hostname=name)
    return reader, writer


async def _introduce(near: Way, there: Way) -> None:
    """Relay the first messages of both sides, until the server requests authentication.

    Channel binding is removed: it binds the password to a TLS channel that the program does not see.
    """
    (size,) = struct.unpack("!i", head := await near[0].readexactly(4))
    body = await near[0].readexactly(size - 4)
    there[1].write(head + body)
    kind = b"N" if struct.unpack("!i", body[:4])[0] != CANCEL_REQUEST else b"R"
    while kind not in b"RE":
        kind, (size,) = await there[0].readexactly(1), struct.unpack("!i", await there[0].readexactly(4))
        body = without_channel_binding(await there[0].readexactly(size - 4))
        near[1].write(kind + struct.pack("!i", len(body) + 4) + body)


def without_channel_binding(body: bytes) -> bytes:
    """Remove the bound mechanism from the server's offer.

    >>> without_channel_binding(struct.pack("!i", 10) + b"SCRAM-SHA-256-PLUS\\0SCRAM-SHA-256\\0\\0")[4:]
    b'SCRAM-SHA-256\\x00\\x00'
    """
    offers = body[:4] == struct.pack("!i", AUTHENTICATION_SASL)
    return body.replace(CHANNEL_BOUND, b"") if offers else body


@contextmanager
def relay(listen: Listen, far: Far) -> Iterator[asyncio.Server]:
    """Listen while the block runs; for each connection, `far` opens the other side."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event, asyncio.Server]] = Future()

    async def run() -> None:
        connections = _Connections(far)
        try:
            server = await listen(connections.connect)
        except OSError as error:
            started.set_exception(error)
            return
        async with server:
            stop = asyncio.Event()
            started.set_result((asyncio.get_running_loop(), stop, server))
            await stop.wait()
            await connections.end()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    loop, stop, server = started.result()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


class _Connections:
    """The open connections."""

    def __init__(self, far: Far) -> None:
        self.far = far
        self.tasks: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._talk((reader, writer)))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def end(self) -> None:
        """Close the open connections, and wait until they are closed."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _talk(self, near: Way) -> None:
        opened = [near]
        with suppress(OSError, asyncio.IncompleteReadError):
            try:
                opened.append(await self.far(near))
                await asyncio.gather(_pump(near, opened[1]), _pump(opened[1], near))
            finally:
                for _, writer in opened:
                    writer.transport.abort()
                    with suppress(OSError):
                        await writer.wait_closed()


async def _pump(one: Way, other: Way) -> None:
    """Relay bytes until the end."""
    with suppress(OSError):
        while data := await one[0].read(CHUNK):
            other[1].write(data)
            await other[1].drain()
    other[1].close()
