"""The wheel's programs do not know TLS, and production mostly insists on it."""

import ssl
from pathlib import Path

import pytest

from pipestate.core.errors import Unreachable
from pipestate.database.embedded import embedded_versions
from pipestate.rehearse.copying.fill import run_program, way_to
from pipestate.rehearse.copying.snapshot import session
from pipestate.rehearse.copying.tunnel import tls_context
from support.servers import Database
from support.tls_proxy import CERTIFICATE, tls_front

NEWEST = embedded_versions()[-1]


def ask_through(url: Database, place: Path) -> str:
    with session(url.url) as driver:
        assert driver.info.ssl_in_use
        with way_to(driver, place) as (where, secret):
            done = run_program(NEWEST, "psql", ["-XAtc", "SELECT repeat('x', 100000)", where], secret)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("mode", ["require", "verify-full"])
def test_a_program_without_tls_reaches_a_server_that_demands_it(
    pg: Database, tmp_path: Path, mode: str
) -> None:
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": mode, "sslrootcert": str(CERTIFICATE)})
        assert ask_through(Database(strict), tmp_path) == "x" * 100000


def test_the_tunnel_looks_at_the_certificate_as_libpq_does(tmp_path: Path) -> None:
    def modes(**settings: str) -> tuple[ssl.VerifyMode, bool]:
        context = tls_context(settings, tmp_path)
        return context.verify_mode, context.check_hostname

    root = str(CERTIFICATE)
    assert modes(sslmode="prefer") == modes(sslmode="require") == (ssl.CERT_NONE, False)
    assert modes(sslmode="require", sslrootcert=root) == (ssl.CERT_REQUIRED, False)
    assert modes(sslmode="verify-ca", sslrootcert=root) == (ssl.CERT_REQUIRED, False)
    assert modes(sslmode="verify-full", sslrootcert=root) == (ssl.CERT_REQUIRED, True)
    (tmp_path / "root.crt").write_bytes(CERTIFICATE.read_bytes())
    assert modes(sslmode="require") == (ssl.CERT_REQUIRED, False)


def test_a_certificate_that_is_not_trusted_is_not_talked_to(pg: Database) -> None:
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "verify-full", "sslrootcert": "system"})
        with pytest.raises(Unreachable, match="cannot reach"), session(strict):
            pass
