"""A tunnel for programs that do not know TLS: a socket of ours on one side, production through TLS on the other.

The certificate is asked for and looked at as libpq does for the same connection, whose settings are taken over.
"""

import asyncio
import ssl
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
PORT = 5432
VERIFYING = ("verify-ca", "verify-full")
Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def tunnel(info: Any, place: Path) -> Iterator[tuple[str, int]]:
    """Yield the host and the port that lead to where a connection is; its own where that has no TLS."""
    settings = info.dsn_parameters
    host = settings.get("hostaddr") or info.host
    if not info.ssl_in_use:
        yield host, info.port
        return
    context = tls_context(settings, Path.home() / ".postgresql")
    directory = place / "tunnel"
    directory.mkdir(mode=0o700)

    async def far() -> Way:
        return await _through_tls(host, info.port, context, info.host)

    with _serving(directory / f".s.PGSQL.{PORT}", far):
        yield str(directory), PORT


def tls_context(settings: Mapping[str, str], home: Path) -> ssl.SSLContext:
    """Make of libpq's settings what Python's TLS wants: as strict as they are, not less."""
    mode = settings.get("sslmode", "prefer")
    root = settings.get("sslrootcert") or str(home / "root.crt")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify-full"
    # With a root certificate at hand, `require` looks at the server's, too.
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
    """Connect as libpq does: ask for TLS in the clear, then speak nothing else."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(SSL_REQUEST)
    await writer.drain()
    if await reader.readexactly(1) != b"S":
        raise ConnectionError("the server does not speak TLS any more")
    await writer.start_tls(context, server_hostname=name)
    return reader, writer


@contextmanager
def _serving(path: Path, far: Callable[[], Coroutine[Any, Any, Way]]) -> Iterator[None]:
    """Listen on a socket while the block runs, in a thread; each connection is one to the far side."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            there, back = await far()
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        writer.close()

    asyncio.run_coroutine_threadsafe(asyncio.start_unix_server(serve, path), loop).result()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until there is no more."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _end() -> None:
    """Cancel the connections that are still open."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
