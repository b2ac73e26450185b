"""Production behind TLS, which the wheel's pg_dump lacks: one on PATH is used, or the clone is refused."""

from pathlib import Path

import psycopg2
import pytest

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database.embedded import embedded_binaries, embedded_versions
from pipestate.rehearse.copying.fill import SERVICE, run_program, way_to
from pipestate.rehearse.copying.make import cloned
from pipestate.rehearse.copying.require import WantedClone
from pipestate.rehearse.copying.snapshot import session
from support.servers import Database
from support.tls_proxy import CERTIFICATE, tls_front

ALL = WantedClone(2**30)
# The wheel's pg_dump with the libpq of psycopg2, which has TLS.
LIBPQ = next(Path(psycopg2.__file__).parents[1].glob("psycopg2_binary.libs/libpq-*"))
WITH_TLS = f"""#!/bin/sh
LD_PRELOAD={LIBPQ} exec {{binaries}}/pg_dump "$@"
"""


def put_on_path(path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (path / "pg_dump").write_text(script)
    (path / "pg_dump").chmod(0o755)
    monkeypatch.setenv("PATH", str(path))


def with_tls(database: Database) -> str:
    """A pg_dump that is neither too old for this server nor too new for its clone."""
    version = min(each for each in embedded_versions() if each >= version_of(database))
    return WITH_TLS.format(binaries=embedded_binaries(version))


def version_of(database: Database) -> int:
    return int(str(database.value("SHOW server_version_num"))) // 10000


def test_the_clone_is_made_with_the_pg_dump_on_the_path(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.run("CREATE TABLE orders AS SELECT generate_series(1, 10) AS id")
    put_on_path(tmp_path, monkeypatch, with_tls(pg))
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "verify-full", "sslrootcert": str(CERTIFICATE)})
        with cloned(strict, ALL) as clone:
            database = Database(clone)
            assert database.value("SELECT count(*) FROM orders") == 10
            kept = Path(str(database.value("SHOW data_directory"))).parent
            assert not list(kept.rglob("service")), "it may hold the password of a key"
            database.engine.dispose()


def test_pg_dump_checks_the_certificate_as_the_session_does(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(tmp_path, monkeypatch, with_tls(pg))
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "verify-full", "sslrootcert": str(CERTIFICATE)})
        with session(strict.update_query_dict({"sslpassword": "secret"})) as driver:
            way = way_to(driver, tmp_path)
            assert {"sslmode=verify-full", "sslpassword=secret"} <= {
                *Path(way["PGSERVICEFILE"]).read_text().splitlines()
            }
            other = Path(way["PGSERVICEFILE"]).read_text().replace("host=localhost", "host=127.0.0.1")
            (tmp_path / "service").write_text(other)
            done = run_program(tmp_path / "pg_dump", [SERVICE, "--schema-only"], way)
    assert (done.returncode, "does not match host name" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("version", [None, 9, 99])
def test_without_a_pg_dump_that_fits_the_client_to_install_is_named(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if version is not None:
        put_on_path(tmp_path, monkeypatch, f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}.1'\n")
    own = version_of(pg)
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "require"})
        wanted = rf"reached over TLS.*apt-get install postgresql-client-{own}$"
        with pytest.raises(ConfigError, match=wanted), cloned(strict, ALL):
            pass


# Programs that are no pg_dump, and what they hold.
OTHERS = {
    "a program of another machine": b"\x7fELF\x02\x01\x01not of this one",
    "an empty file": b"",
    "one that waits for its input": b"#!/bin/sh\nread answer; exec /bin/sleep 600\n",
    "one that prints no text": b"#!/bin/sh\nprintf '\\377\\376 (PostgreSQL)'\n",
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_pg_dump_on_the_path_that_does_not_answer_is_none(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (tmp_path / "pg_dump").write_bytes(OTHERS[what])
    (tmp_path / "pg_dump").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("pipestate.rehearse.copying.require.CONNECT_TIMEOUT_S", 1)
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "require"})
        with pytest.raises(ConfigError, match="reached over TLS"), cloned(strict, ALL):
            pass


def test_a_certificate_that_is_not_trusted_is_not_talked_to(pg: Database) -> None:
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "verify-full", "sslrootcert": "system"})
        with pytest.raises(Unreachable, match="cannot reach"), session(strict):
            pass
