"""The list of a fleet: every form of a line, and what is no line, reported with its place and without a password."""

import io
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.fleet.list import Each, parse_list, read_list

LIST = """
# the north
postgresql://app@db1/acme

  globex = postgresql://app:s3cret@db2:5433/globex?sslmode=require
sqlite:////srv/our files/initech.db
eu = postgres://app@db3/postgres databases: SELECT datname FROM pg_database WHERE datname LIKE 'a = %';
postgresql+asyncpg://app@db4/crm   SCHEMAS:   SELECT nspname, 'extensions' FROM pg_namespace
"""


def test_every_form_of_a_line_is_read() -> None:
    acme, globex, initech, europe, crm = parse_list(LIST, "tenants.txt")
    assert (acme.name, acme.url.database, acme.each, acme.source) == (None, "acme", None, "tenants.txt:3")
    assert (globex.name, globex.url.port, globex.url.query["sslmode"]) == ("globex", 5433, "require")
    assert initech.url.database == "/srv/our files/initech.db"
    assert (europe.name, europe.each, europe.source) == ("eu", Each.DATABASE, "tenants.txt:7")
    assert europe.query == "SELECT datname FROM pg_database WHERE datname LIKE 'a = %'"
    assert (crm.each, crm.url.drivername) == (Each.SCHEMA, "postgresql+psycopg2")
    assert crm.query == "SELECT nspname, 'extensions' FROM pg_namespace"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("acme", "l:1: not a line of a list: write URL, or NAME = URL"),
        ("two names = postgresql://app:s3cret@db/x", "not a line of a list"),
        ("mysql://app:s3cret@db/x", "l:1 names mysql"),
        ("postgresql://app:s3cr@et@db/x", "l:1 is not a database URL"),
        ("postgresql://app:s3cret@db/x databases:", "l:1: its query"),
        ("postgresql://app:s3cret@db/x databases: DELETE FROM tenants", "not with a plain read"),
        ("postgresql://app:s3cret@db/x databases: SELECT 1; SELECT 2", "2 statements"),
        ("postgresql://app:s3cret@db/x schemas: SELECT pg_terminate_backend(1)", "pg_terminate_backend"),
        ("sqlite:///x.db databases: SELECT 1", "a file of SQLite holds no other databases"),
    ],
)
def test_a_line_that_is_none_is_reported_with_its_place_and_without_its_password(
    line: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        list(parse_list(line, "l"))
    assert said in str(raised.value)
    assert "s3" not in str(raised.value)


def test_a_list_that_cannot_be_read_or_names_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere.txt: No such file"):
        read_list(str(tmp_path / "nowhere.txt"))
    with pytest.raises(ConfigError, match="Is a directory"):
        read_list(str(tmp_path))
    (tmp_path / "latin").write_bytes(b"postgresql://app@db/\xe9")
    with pytest.raises(ConfigError, match="it is not UTF-8"):
        read_list(str(tmp_path / "latin"))
    monkeypatch.setattr("sys.stdin", io.StringIO("# nothing but this\n\n"))
    with pytest.raises(ConfigError, match="stdin names no database: write a URL a line"):
        read_list("-")
