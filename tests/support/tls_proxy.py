"""TLS in front of a server that has none: what a managed server looks like to a client."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from sqlalchemy import URL

from pipestate.rehearse.copying.tunnel import Way, relay

CERTIFICATE = Path(__file__).parents[1] / "certificates" / "localhost.crt"
SSL_REQUEST = (80877103).to_bytes(4, "big")


@contextmanager
def tls_front(url: URL) -> Iterator[URL]:
    """Yield the same database behind TLS, on a port of localhost; who does not ask for TLS is sent away."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_suffix(".key"))

    async def far(near: Way) -> Way:
        reader, writer = near
        if (await reader.readexactly(8))[4:] != SSL_REQUEST:
            raise ConnectionError
        writer.write(b"S")
        await writer.start_tls(context)
        if host := url.query.get("host"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{url.port or 5432}")
        return await asyncio.open_connection(url.host, url.port or 5432)

    with relay(partial(asyncio.start_server, host="127.0.0.1", port=0), far) as server:
        port = server.sockets[0].getsockname()[1]
        yield url.difference_update_query(["host", "port"]).set(host="localhost", port=port)
