"""The clone's database, before its schema comes: roles, and the same name, encoding and locale."""

from collections.abc import Mapping
from typing import Any

from psycopg2 import Error
from psycopg2.extensions import quote_ident
from sqlalchemy import URL

from pipestate.rehearse.copying.inventory import Inventory
from pipestate.rehearse.copying.session import ask, quoted, session

ICU, BUILTIN = "i", "b"


def create_database(admin: URL, found: Inventory) -> tuple[URL, bool]:
    """Make an empty database as production's is; say whether it has production's locale."""
    with session(admin.set(database="template1"), autocommit=True) as driver:
        for statement in found.roles:
            ask(driver, statement)
        ask(driver, "DROP DATABASE postgres")  # production's may have that name
        is_same = _create(driver, found)
    clone = admin.set(database=found.name)
    if not found.has_public:
        with session(clone, autocommit=True) as driver:
            ask(driver, "DROP SCHEMA public")
    return clone, is_same


def _create(driver: Any, found: Inventory) -> bool:
    """Try production's locale, and else the nearest one that every machine has."""
    create = f"CREATE DATABASE {quote_ident(found.name, driver)} TEMPLATE template0 ENCODING {quoted(found.encoding)}"
    wanted = locale_of(found.database)
    if wanted is not None and _succeeds(driver, f"{create} {wanted}"):
        return True
    if found.encoding == "UTF8" and _succeeds(driver, f"{create} {_libc('C', 'C.UTF-8')}"):
        return False
    ask(driver, f"{create} {_libc('C', 'C')}")
    return False


def locale_of(database: Mapping[str, Any]) -> str | None:
    """Write the options for the locale that a row of pg_database has; None for ICU, which the wheel does not have.

    >>> locale_of({"datcollate": "en_US.UTF-8", "datctype": "en_US.UTF-8"})
    "LOCALE_PROVIDER libc LC_COLLATE 'en_US.UTF-8' LC_CTYPE 'en_US.UTF-8'"
    """
    provider = database.get("datlocprovider")
    if provider == ICU:
        return None
    if provider == BUILTIN:
        return f"LOCALE_PROVIDER builtin BUILTIN_LOCALE {quoted(database['datlocale'])} LOCALE 'C'"
    return _libc(database["datcollate"], database["datctype"])


def _libc(collate: str, kind: str) -> str:
    return f"LOCALE_PROVIDER libc LC_COLLATE {quoted(collate)} LC_CTYPE {quoted(kind)}"


def _succeeds(driver: Any, statement: str) -> bool:
    try:
        ask(driver, statement)
    except Error:
        return False
    return True
