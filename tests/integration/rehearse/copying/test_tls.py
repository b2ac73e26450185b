"""Production behind TLS, which the wheel's pg_dump lacks: one on PATH is used, or the clone is refused."""

import sys
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database.embedded import embedded_binaries, embedded_versions
from pipestate.rehearse.copying.make import CopyOutput, cloned
from pipestate.rehearse.copying.require import WantedClone
from pipestate.rehearse.copying.snapshot import session
from support.servers import Database
from support.tls_proxy import CERTIFICATE, tls_front

ALL = WantedClone(2**30)
# It has no TLS itself: it keeps its arguments, and goes to the server directly.
STUB = """#!{python}
import os, re, sys
if "--version" in sys.argv:
    sys.exit(print("pg_dump (PostgreSQL) {version}.1"))
with open({log!r}, "a") as log:
    print(*sys.argv, file=log)
direct = [re.sub("^--dbname=.*", {direct!r}, each) for each in sys.argv[1:]]
os.execv({real!r}, [{real!r}, *direct])
"""


def put_on_path(path: Path, monkeypatch: pytest.MonkeyPatch, version: int, direct: str) -> Path:
    log, stub = path / "log", path / "pg_dump"
    real = str(embedded_binaries(embedded_versions()[-1]) / "pg_dump")
    values = {"python": sys.executable, "version": version, "log": str(log), "direct": direct, "real": real}
    stub.write_text(STUB.format(**values))
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(path))
    return log


def version_of(database: Database) -> int:
    return int(str(database.value("SHOW server_version_num"))) // 10000


def test_the_clone_is_made_with_the_pg_dump_on_the_path(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.run("CREATE TABLE orders AS SELECT generate_series(1, 10) AS id")
    plain = pg.url.set(drivername="postgresql").render_as_string(hide_password=False)
    log = put_on_path(tmp_path, monkeypatch, embedded_versions()[-1], f"--dbname={plain}")
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "verify-full", "sslrootcert": str(CERTIFICATE)})
        with cloned(strict, ALL, CopyOutput()) as clone:
            database = Database(clone.url)
            assert database.value("SELECT count(*) FROM orders") == 10
            database.engine.dispose()
    assert log.read_text().count(f"sslmode=verify-full sslrootcert={CERTIFICATE}") == 2


@pytest.mark.parametrize("version", [None, 9, 99])
def test_without_a_pg_dump_that_fits_the_client_to_install_is_named(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if version is not None:
        put_on_path(tmp_path, monkeypatch, version, "")
    own = version_of(pg)
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "require"})
        wanted = rf"reached over TLS.*apt-get install postgresql-client-{own}$"
        with pytest.raises(ConfigError, match=wanted), cloned(strict, ALL, CopyOutput()):
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
        with pytest.raises(ConfigError, match="reached over TLS"), cloned(strict, ALL, CopyOutput()):
            pass


def test_a_certificate_that_is_not_trusted_is_not_talked_to(pg: Database) -> None:
    with tls_front(pg.url) as front:
        strict = front.update_query_dict({"sslmode": "verify-full", "sslrootcert": "system"})
        with pytest.raises(Unreachable, match="cannot reach"), session(strict):
            pass
