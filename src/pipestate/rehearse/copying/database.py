"""Database of the clone: created before its schema, finished after its rows.

It has production's roles, name, encoding and locale. Foreign servers are disconnected.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psycopg2 import Error
from psycopg2.extensions import quote_ident
from sqlalchemy import URL

from pipestate.core.text import many
from pipestate.database.embedded import UNSAFE
from pipestate.ledger.tables import SCHEMA
from pipestate.rehearse.copying.snapshot import Counter, Inventory, ask, quoted, session
from pipestate.verify.ledger_owner import ARCHIVE

ICU, BUILTIN = "i", "b"
# Foreign tables stay, for views and revisions that name them; reading one raises an error without a connection.
NO_HANDLERS = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT fdwname FROM pg_catalog.pg_foreign_data_wrapper WHERE fdwhandler <> 0 LOOP
        EXECUTE pg_catalog.format('ALTER FOREIGN DATA WRAPPER %I NO HANDLER', name);
    END LOOP;
END $$
"""
# A gate writes into a ledger only if it trusts the owner; the clone's superuser is in no other role.
TAKE_OVER = f"""
DO $$ DECLARE wanted text; BEGIN
    FOR wanted IN
        SELECT pg_catalog.format('SCHEMA %I', n.nspname) FROM pg_catalog.pg_namespace n
         WHERE n.nspname IN ('{SCHEMA}', '{ARCHIVE}')
        UNION ALL
        SELECT 'TABLE ' || c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
         WHERE c.relnamespace = pg_catalog.to_regnamespace('{SCHEMA}') AND c.relkind IN ('r', 'v')
        UNION ALL
        SELECT 'ROUTINE ' || p.oid::pg_catalog.regprocedure::text FROM pg_catalog.pg_proc p
         WHERE p.pronamespace IN (pg_catalog.to_regnamespace('{SCHEMA}'), pg_catalog.to_regnamespace('{ARCHIVE}'))
    LOOP
        EXECUTE 'ALTER ' || wanted || ' OWNER TO CURRENT_USER';
    END LOOP;
END $$
"""
BEHIND_ITS_COLUMN = """
SELECT pg_catalog.setval(s.seqrelid, least(greatest(m.last, s.seqmin), s.seqmax))
FROM pg_catalog.pg_sequence s, (SELECT {aggregate}({column})::int8 AS last FROM {table}) m
WHERE s.seqrelid = {sequence}::regclass AND m.last IS NOT NULL
"""


def create_database(admin: URL, found: Inventory) -> tuple[URL, bool]:
    """Create an empty database like production's; return True if it has production's locale."""
    with session(admin.set(database="template1"), autocommit=True) as driver:
        for statement in found.roles:
            ask(driver, statement)
        ask(driver, "DROP DATABASE postgres")  # production's database may have that name
        is_same = _create(driver, found)
    clone = admin.set(database=found.name)
    if not found.has_public:
        with session(clone, autocommit=True) as driver:
            ask(driver, "DROP SCHEMA public")
    return clone, is_same


def _create(driver: Any, found: Inventory) -> bool:
    """Try production's locale, then the nearest one that every machine has."""
    create = f"CREATE DATABASE {quote_ident(found.name, driver)} TEMPLATE template0 ENCODING {quoted(found.encoding)}"
    wanted = locale_of(found.database)
    if wanted is not None and _succeeds(driver, f"{create} {wanted}"):
        return True
    if found.encoding == "UTF8" and _succeeds(driver, f"{create} {_libc('C', 'C.UTF-8')}"):
        return False
    ask(driver, f"{create} {_libc('C', 'C')}")
    return False


def locale_of(database: Mapping[str, Any]) -> str | None:
    """Write the locale options for a row of pg_database; None for ICU, which the wheel lacks.

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


def set_unread_sequences(clone: Any, counters: Sequence[Counter]) -> None:
    """Advance sequences that the role may not read beyond the values in their columns."""
    for each in counters:
        if not each.is_readable and each.table is not None:
            aggregate, sequence = "max" if each.increment > 0 else "min", quoted(each.quoted)
            names = {"column": each.column, "table": each.table, "sequence": sequence}
            ask(clone, BEHIND_ITS_COLUMN.format(aggregate=aggregate, **names))


def refresh_views(clone: Any, views: Sequence[str]) -> dict[str, str]:
    """Fill the materialized views in order of dependency; return those that failed, with the reason.

    Event triggers do not fire here: `session_replication_role` is `replica`.
    """
    ask(clone, "SET session_replication_role = replica")
    left, failed = list(views), dict[str, str]()
    while left:
        failed = {}
        for view in left:
            try:
                ask(clone, f"REFRESH MATERIALIZED VIEW {view}")
            except Error as error:
                failed[view] = str(error).splitlines()[0]
        if len(failed) == len(left):
            break
        left = list(failed)
    return failed


def apply_settings(clone: Any, found: Inventory) -> list[str]:
    """Copy production's settings and search path to the database; return the settings that failed."""
    database = quote_ident(found.name, clone)
    values = {name: quoted(value) for name, value in found.settings.items()} | {"search_path": found.path}
    refused = []
    for name, value in values.items():
        try:
            ask(clone, f"ALTER DATABASE {database} SET {name} = {value}")
        except Error:
            refused.append(name)
    return refused


def wait_for_the_disk(clone: Any) -> None:
    """Restore durable writes, so that the server waits for its disk as production does."""
    for setting in UNSAFE:
        ask(clone, f"ALTER SYSTEM RESET {setting}")
    ask(clone, "SELECT pg_reload_conf()")
    ask(clone, "CHECKPOINT")


def unlike(grants: Sequence[str], empty: Mapping[str, str], refused: Sequence[str]) -> Iterator[str]:
    """Describe the steps that failed: grants, empty views, settings."""
    if grants:
        yield f"{many(len(grants), 'grant')} left out, the first because {grants[0]}"
    for view, why in empty.items():
        yield f"the materialized view {view} stays empty: {why}"
    if refused:
        yield f"settings of the database that the clone does not take: {', '.join(refused)}"
