"""What comes behind the rows: materialized views, settings; and no foreign server can be called."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psycopg2 import Error
from psycopg2.extensions import quote_ident

from pipestate.embedded import UNSAFE
from pipestate.ledger.tables import SCHEMA
from pipestate.plural import many
from pipestate.rehearse.copying.inventory import Inventory
from pipestate.rehearse.copying.session import ask, quoted

# Their tables stay, for the views and revisions that name them; who reads one gets an error, and nobody is called.
NO_HANDLERS = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT fdwname FROM pg_catalog.pg_foreign_data_wrapper WHERE fdwhandler <> 0 LOOP
        EXECUTE pg_catalog.format('ALTER FOREIGN DATA WRAPPER %I NO HANDLER', name);
    END LOOP;
END $$
"""

# A gate writes into a ledger only where it trusts the owner, and the clone's superuser is no member of anybody.
TAKE_OVER = f"""
DO $$ DECLARE name text; BEGIN
    IF pg_catalog.to_regnamespace('{SCHEMA}') IS NULL THEN RETURN; END IF;
    EXECUTE 'ALTER SCHEMA {SCHEMA} OWNER TO CURRENT_USER';
    FOR name IN SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
        WHERE c.relnamespace = pg_catalog.to_regnamespace('{SCHEMA}') AND c.relkind IN ('r', 'v') LOOP
        EXECUTE 'ALTER TABLE ' || name || ' OWNER TO CURRENT_USER';
    END LOOP;
END $$
"""


def take_over_ledger(clone: Any) -> None:
    """Let the clone's ledger belong to whoever rehearses there."""
    ask(clone, TAKE_OVER)


def disarm(clone: Any) -> None:
    """See to it that no foreign table of the clone can reach another server."""
    ask(clone, NO_HANDLERS)


def refresh_views(clone: Any, views: Sequence[str]) -> dict[str, str]:
    """Fill the materialized views, one that reads another behind it; return those that cannot be, with the reason.

    Event triggers are of no concern here: they are asleep in a replica's session.
    """
    ask(clone, "SET session_replication_role = replica")
    left, failed = list(views), dict[str, str]()
    while left:
        failed = dict(_unfilled(clone, left))
        if len(failed) == len(left):
            break
        left = list(failed)
    return failed


def _unfilled(clone: Any, views: Sequence[str]) -> Iterator[tuple[str, str]]:
    for view in views:
        try:
            ask(clone, f"REFRESH MATERIALIZED VIEW {view}")
        except Error as error:
            yield view, str(error).splitlines()[0]


def apply_settings(clone: Any, found: Inventory) -> list[str]:
    """Set for the database what production's has, and the path that its session has; return what cannot be set."""
    database = quote_ident(found.name, clone)
    values = {name: quoted(value) for name, value in found.settings}
    values["search_path"] = found.path
    refused = []
    for name, value in values.items():
        try:
            ask(clone, f"ALTER DATABASE {database} SET {name} = {value}")
        except Error:
            refused.append(name)
    return refused


def wait_for_the_disk(clone: Any) -> None:
    """Let the server be as slow as production: while it was filled it did not wait for its disk."""
    for setting in UNSAFE:
        ask(clone, f"ALTER SYSTEM RESET {setting}")
    ask(clone, "SELECT pg_reload_conf()")
    ask(clone, "CHECKPOINT")


def unlike(grants: Sequence[str], empty: Mapping[str, str], refused: Sequence[str]) -> Iterator[str]:
    """Say what of this could not be done: grants, views that stay empty, settings."""
    if grants:
        yield f"{many(len(grants), 'grant')} left out, the first because {grants[0]}"
    for view, why in empty.items():
        yield f"the materialized view {view} stays empty: {why}"
    if refused:
        yield f"settings of the database that the clone does not take: {', '.join(refused)}"
