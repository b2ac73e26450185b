"""A tunnel for programs that do not know TLS: a socket of ours on one side, production through TLS on the other.

The certificate is asked for and looked at as libpq does for the same connection, whose settings are taken over.
"""

import asyncio
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pipestate.errors import ConfigError
from pipestate.rehearse.copying.relay import Way, relay

CANCEL_REQUEST, AUTHENTICATION_SASL = 80877102, 10
CHANNEL_BOUND = b"SCRAM-SHA-256-PLUS\0"
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
PORT = 5432
VERIFYING = ("verify-ca", "verify-full")


@contextmanager
def tunnel(info: Any, place: Path) -> Iterator[tuple[str, int]]:
    """Yield the host and the port that lead to where a connection is; its own where that has no TLS."""
    settings = info.dsn_parameters
    host = settings.get("hostaddr") or info.host
    if not info.ssl_in_use:
        yield host, info.port
        return
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


async def _introduce(near: Way, there: Way) -> None:
    """Pass on the first words of both sides, until the server says how it wants to know who it is.

    One way of that is left out: it binds the password to the channel, and the program does not see our TLS.
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
    """Leave the bound mechanism out of what a server offers.

    >>> without_channel_binding(struct.pack("!i", 10) + b"SCRAM-SHA-256-PLUS\\0SCRAM-SHA-256\\0\\0")[4:]
    b'SCRAM-SHA-256\\x00\\x00'
    """
    offers = body[:4] == struct.pack("!i", AUTHENTICATION_SASL)
    return body.replace(CHANNEL_BOUND, b"") if offers else body
