"""Database URL, resolved alike for pipestate and Alembic, and the location of the shipped migrations.

SQLAlchemy is imported when a URL is parsed: commands without a database start faster.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipestate.core.errors import ConfigError
from pipestate.core.text import plain, shorter_path

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

HOW_TO_NAME_A_DATABASE = (
    "give --database-url (Alembic: -x url=...), or set PIPESTATE_DATABASE_URL or DATABASE_URL, "
    "or sqlalchemy.url in alembic.ini"
)
PSYCOPG2 = "postgresql+psycopg2"
DRIVERS = {"postgresql": PSYCOPG2, "postgres": PSYCOPG2, "sqlite": "sqlite"}
# URL options of asyncpg and psycopg 3 that psycopg2 lacks; asyncpg's `ssl` is `sslmode` elsewhere.
OF_OTHER_DRIVERS = (
    "async_fallback",
    "command_timeout",
    "max_cacheable_statement_size",
    "max_cached_statement_lifetime",
    "prepare_threshold",
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "statement_cache_size",
    "timeout",
)


def resolve_url(
    explicit: str | None = None,
    *,
    ini_url: str | Callable[[], str | None] | None = None,
    environ: Mapping[str, str] | None = None,
) -> "URL":
    """Return the first of: the option, PIPESTATE_DATABASE_URL, DATABASE_URL, alembic.ini.

    A function for the last one is called only on demand, because the ini may be faulty.
    """
    url = known_url(explicit, ini_url=ini_url, environ=environ)
    if url is None:
        raise ConfigError(f"no database given: {HOW_TO_NAME_A_DATABASE}")
    return url


def known_url(
    explicit: str | None = None,
    *,
    ini_url: str | Callable[[], str | None] | None = None,
    environ: Mapping[str, str] | None = None,
) -> "URL | None":
    """Find the database like `resolve_url`; return None if all sources are empty."""
    environ = os.environ if environ is None else environ
    sources = {
        "--database-url": explicit,
        "PIPESTATE_DATABASE_URL": environ.get("PIPESTATE_DATABASE_URL"),
        "DATABASE_URL": environ.get("DATABASE_URL"),
        "sqlalchemy.url in the ini": ini_url,
    }
    for source, given in sources.items():
        text = given() if callable(given) else given
        if text is not None and (text.strip() or source == "--database-url"):
            return parse_url(text, source=source)
    return None


def parse_url(text: str, *, source: str = "the database URL") -> "URL":
    """Parse a URL, and set the driver that pipestate uses.

    SQLAlchemy 2.1 reads a bare `postgresql://` as psycopg 3, and every version rejects `postgres://`.

    >>> parse_url("postgres://app@db/civic").drivername
    'postgresql+psycopg2'
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    unreadable = ConfigError(
        f"{source} is not a database URL; it looks like postgresql://user:password@host:5432/name "
        "(a special character in the password must be percent-encoded)"
    )
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError) as error:
        raise unreadable from error
    if "@" in (url.host or ""):  # the end of a password that contains one
        raise unreadable
    backend = url.drivername.partition("+")[0]
    if backend == "driver":
        raise ConfigError(
            f"{source} is the example of `alembic init`: write the address of your database there"
        )
    if backend not in DRIVERS:
        raise ConfigError(f"{source} names {backend}; pipestate works with PostgreSQL and SQLite")
    ours = _for_psycopg2(url) if DRIVERS[backend] == PSYCOPG2 else url
    return ours.set(drivername=DRIVERS[backend])


def as_env_py_wants(url: "URL", own: str | None) -> "URL":
    """Set the driver of the project's own URL, because its env.py may be asynchronous.

    >>> given = parse_url("postgresql://db/test?sslmode=require")
    >>> as_env_py_wants(given, "postgresql+asyncpg://db/production").render_as_string()
    'postgresql+asyncpg://db/test?ssl=require'
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        theirs = make_url(own or "")
    except (ArgumentError, ValueError):
        return url
    if "+" not in theirs.drivername or theirs.get_backend_name() != url.get_backend_name():
        return url
    if parse_url(own or "") == url:
        return theirs  # with the options of its driver
    mode = url.query.get("sslmode")
    if theirs.get_driver_name() == "asyncpg" and isinstance(mode, str):
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return url.set(drivername=theirs.drivername)


def named_in_variables(
    url: "URL", own: Callable[[], str | None], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that may name a database, set to this one, with the project's own driver.

    `own` reads the ini's URL; an unreadable one names no driver.
    """
    ini_url = None
    with suppress(ConfigError):
        ini_url = own()
    return {
        name: as_env_py_wants(url, environ.get(name) or ini_url).render_as_string(hide_password=False)
        for name in ("PIPESTATE_DATABASE_URL", "DATABASE_URL")
    }


def _for_psycopg2(url: "URL") -> "URL":
    """Remove the options of other drivers, and rename the rest for libpq.

    >>> parse_url("postgresql+asyncpg://db/civic?ssl=require&command_timeout=5").query
    immutabledict({'sslmode': 'require'})
    """
    ours = url.difference_update_query(OF_OTHER_DRIVERS)
    ssl = ours.query.get("ssl")
    if not isinstance(ssl, str):
        return ours
    return ours.difference_update_query(["ssl"]).update_query_dict({"sslmode": ssl})


def shown(url: "URL") -> str:
    """Return the URL for display: the password masked, the driver removed, hosts and sockets in plain letters.

    >>> shown(parse_url("postgresql://app:secret@db/civic")), shown(parse_url("postgresql:///civic?host=%2Frun%2Fpg"))
    ('postgresql://app:***@db/civic', 'postgresql:///civic?host=/run/pg')
    """
    bare = url.set(drivername=url.drivername.partition("+")[0])
    secret = [name for name in bare.query if "password" in name.lower()]
    address, mark, query = (
        bare.difference_update_query(secret).render_as_string(hide_password=True).partition("?")
    )
    # SQLAlchemy 2.0 leaves control characters in a name unescaped.
    return plain(address + mark + query.replace("%2F", "/").replace("%3A", ":"))


def place_of(url: "URL") -> tuple[object, ...]:
    """Return what tells databases apart, without user and options."""
    from pipestate.database.connections import engine_of

    if engine_of(url).IS_FILE:
        return (os.path.realpath(url.database or ""),)
    return (
        url.host or url.query.get("host"),
        url.port or url.query.get("port"),
        url.database or url.username,
    )


def name_and_place(url: str) -> tuple[str, str]:
    """Return a database's name and its host, for people: a socket is on this machine, a file is its own place.

    >>> name_and_place("postgresql://ops:***@db.example.com:5433/shop"), name_and_place("sqlite:///shop.db")
    (('shop', 'db.example.com:5433'), ('shop.db', ''))
    >>> name_and_place("postgresql://ops@/shop?host=%2Frun%2Fpostgresql"), name_and_place("postgresql:///?service=live")
    (('shop', 'this machine'), ('default database', 'service live'))
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    from pipestate.database.connections import engine_of

    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        return url, ""
    if engine_of(parts).IS_FILE:
        return shorter_path(parts.database or "") or url, ""
    name = parts.database or parts.username or "default database"
    if "service" in parts.query:
        return name, f"service {parts.query['service']}"
    found = parts.host or parts.query.get("host") or os.environ.get("PGHOST", "")
    hosts = [found] if isinstance(found, str) else [*found]
    if all(host.startswith(("/", "@")) or not host for host in hosts):
        return name, "this machine"
    port = parts.port or parts.query.get("port")
    return name, ", ".join(hosts) + (f":{port}" if port else "")


def database_name(url: str) -> str:
    """Name a database and its host in a text."""
    return " on ".join(filter(None, name_and_place(url)))


def without_secrets(message: str, url: "URL") -> str:
    """Mask this URL's password in a driver's message, in every spelling."""
    passwords = [url.password, *(value for name, value in url.query.items() if "password" in name.lower())]
    for password in passwords:
        if password:
            message = message.replace(str(password), "***")
    return message


def shipped_root() -> Path:
    """Return the directory of the shipped `alembic.ini`, `alembic/` and `runbooks/`: in the wheel or checkout."""
    shipped = Path(__file__).parents[1] / "shipped"
    return shipped if shipped.is_dir() else Path(__file__).parents[3]
