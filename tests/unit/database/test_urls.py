"""One resolver for the database, and no password in what people see."""

import pytest

from pipestate.config import parse_url, resolve_url
from pipestate.core.errors import ConfigError
from pipestate.database.urls import name_and_place, shown, without_secrets


@pytest.mark.parametrize(
    "text",
    ["postgres://a@b/c", "postgresql://a@b/c", "postgresql+psycopg://a@b/c", "postgresql+asyncpg://a@b/c"],
)
def test_every_spelling_of_postgresql_means_psycopg2(text: str) -> None:
    assert parse_url(text).drivername == "postgresql+psycopg2"


def test_the_order_of_the_sources() -> None:
    environ = {"PIPESTATE_DATABASE_URL": "sqlite:///two", "DATABASE_URL": "sqlite:///three"}
    assert resolve_url("sqlite:///one", environ=environ).database == "one"
    assert resolve_url(environ=environ).database == "two"
    assert (
        resolve_url(environ={"DATABASE_URL": "sqlite:///three"}, ini_url="sqlite:///four").database == "three"
    )
    assert resolve_url(environ={}, ini_url="sqlite:///four").database == "four"


def test_an_empty_variable_is_none_and_an_empty_option_is_an_error() -> None:
    assert resolve_url(environ={"DATABASE_URL": " "}, ini_url="sqlite:///four").database == "four"
    with pytest.raises(ConfigError, match="--database-url is not a database URL"):
        resolve_url("", environ={})


def test_no_source_says_how_to_give_one() -> None:
    with pytest.raises(ConfigError, match="set PIPESTATE_DATABASE_URL or DATABASE_URL"):
        resolve_url(environ={})


@pytest.mark.parametrize("text", ["x", "://", "postgresql://u:secret@h:port/x"])
def test_a_malformed_url_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["postgresql://u:p%40ss@h/d", "postgresql://u@h/d?password=p%40ss"])
def test_no_password_is_shown(text: str) -> None:
    url = parse_url(text)
    assert "p@ss" not in shown(url)
    assert "p%40ss" not in shown(url)
    assert without_secrets("login with p@ss failed", url) == "login with *** failed"


def test_the_ini_is_used_only_where_nothing_else_names_a_database() -> None:
    def faulty() -> str:
        raise ConfigError("an unescaped %")

    assert resolve_url("sqlite:///one", ini_url=faulty, environ={}).database == "one"
    assert resolve_url(ini_url=faulty, environ={"DATABASE_URL": "sqlite:///two"}).database == "two"
    assert resolve_url(ini_url=lambda: "sqlite:///four", environ={}).database == "four"
    with pytest.raises(ConfigError, match="unescaped"):
        resolve_url(ini_url=faulty, environ={})


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://app:***@db.example.com/civic", "db.example.com"),
        ("postgresql+psycopg://app@db:6432/civic?sslmode=require", "db:6432"),
        ("postgresql://app@/civic?host=a&host=b", "a, b"),
        ("postgresql://civic@/civic?host=%2Ftmp%2Fpipestate-pg%2Fdata", "this machine"),
        ("postgresql:///?service=production", "service production"),
        ("postgresql:///civic", "this machine"),
        ("sqlite:////srv/app/data/civic.db", ""),
    ],
)
def test_a_database_is_placed_by_its_host(monkeypatch: pytest.MonkeyPatch, url: str, place: str) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    assert name_and_place(url)[1] == place


def test_a_host_that_only_the_environment_names_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    assert name_and_place("postgresql:///civic") == ("civic", "db.example.com")


def test_the_example_of_alembic_init_is_named() -> None:
    with pytest.raises(ConfigError, match="is the example of `alembic init`: write the address"):
        parse_url("driver://user:pass@localhost/dbname", source="sqlalchemy.url in the ini")
