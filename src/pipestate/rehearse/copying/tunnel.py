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

from pipestate.rehearse.copying.relay import Way, relay

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
    context = tls_context(settings, Path.home() / ".postgresql")
    directory = place / "tunnel"
    directory.mkdir(mode=0o700)

    async def far(_near: Way) -> Way:
        return await _through_tls(host, info.port, context, info.host)

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
