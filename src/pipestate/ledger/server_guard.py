"""The guard in the server: event triggers that refuse to drop a table or column outside a gate without a reason.

Its functions are in `migration/server/server_guard.sql`, and in a schema of their own: a role that could replace
them would act with the rights of every role that drops something.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import OWN_SQLSTATE, ConfigError, Unreachable
from pipestate.database.connections import engine_of, run_own
from pipestate.database.drivers import message, run_as_written, sqlstate
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import query

SCHEMA = TRIGGER = "pipestate_guard"
# Event triggers by name: their event and their function. The first one's comment holds the exemptions.
TRIGGERS = {
    TRIGGER: ("sql_drop", "refuse_drops"),
    "pipestate_guard_start": ("ddl_command_start", "note_created"),
}
NO_RIGHT = "42501"
INSTALL = "pipestate guard install"
REPAIR = f"to repair the guard in the server: {INSTALL}"
_FUNCTION = re.compile(
    rf"CREATE OR REPLACE FUNCTION {SCHEMA}\.(?P<name>\w+)\(\).*?AS (?P<tag>\$\w*\$)(?P<body>.*?)(?P=tag);",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ServerGuard:
    """The installed guard: its owner, its exemptions, and its first fault, if any."""

    owner: str
    roles: tuple[str, ...]
    schemas: tuple[str, ...]
    fault: str | None = None


@cache
def functions() -> dict[str, tuple[str, str]]:
    """Read each function's statement and body."""
    source = files("pipestate") / "migration" / "server" / "server_guard.sql"
    found = _FUNCTION.finditer(source.read_text(encoding="utf-8"))
    return {match["name"]: (match[0], match["body"]) for match in found}


def install_server_guard(
    connection: Connection, roles: Sequence[str] = (), schemas: Sequence[str] = ()
) -> None:
    """Create or update the functions and event triggers; the exemptions replace earlier ones."""
    _require_server(connection)
    require_ledger(connection)
    for owner in run_own(connection, query("server_guard_owner")):
        if not owner.is_trusted:
            raise ConfigError(
                f"the schema {SCHEMA} belongs to {owner.owner}: drop it, then run the same again"
            )
    ((ledger_owner,),) = run_own(connection, query("ledger_owner"))
    settings = {
        "roles": list(dict.fromkeys(roles)),
        "schemas": list(dict.fromkeys(schemas)),
        "ledger": ledger_owner,
    }
    comment = json.dumps(settings).replace("'", "''")
    statements = [f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}", f"REVOKE ALL ON SCHEMA {SCHEMA} FROM PUBLIC"]
    statements += [statement for statement, _ in functions().values()]
    for name, (event, function) in TRIGGERS.items():
        statements += [
            f"DROP EVENT TRIGGER IF EXISTS {name}",
            f"CREATE EVENT TRIGGER {name} ON {event} EXECUTE FUNCTION {SCHEMA}.{function}()",
            f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS",
        ]
    statements.append(f"COMMENT ON EVENT TRIGGER {TRIGGER} IS '{comment}'")
    _run(connection, statements)


def remove_server_guard(connection: Connection) -> bool:
    """Drop the guard; return False if there is none."""
    _require_server(connection)
    is_there = read_server_guard(connection) is not None
    _run(
        connection,
        [
            "SET LOCAL search_path = pg_catalog, pg_temp",
            f"DO $guard$\nBEGIN\n{query('remove_server_guard')}\nEND\n$guard$",
        ],
    )
    return is_there


def read_server_guard(connection: Connection) -> ServerGuard | None:
    """Read the guard and compare it with this version; None without one, or on SQLite."""
    if engine_of(connection).IS_FILE:
        return None
    found = {row.name: row for row in run_own(connection, query("server_guard_functions"))}
    triggers = {
        row.name: row for row in run_own(connection, query("server_guard_triggers"), names=list(TRIGGERS))
    }
    if not found and not triggers:
        return None
    settings = {}
    with suppress(ValueError, AttributeError, TypeError):  # no trigger, or somebody else's comment
        settings = dict(json.loads(triggers[TRIGGER].comment)) if TRIGGER in triggers else {}
    owner = next((row.owner for row in (*triggers.values(), *found.values())), "")
    roles, schemas = (tuple(map(str, settings.get(key, ()))) for key in ("roles", "schemas"))
    return ServerGuard(owner, roles, schemas, _fault(found, triggers))


def _fault(found: dict[str, Any], triggers: dict[str, Any]) -> str | None:
    """Name the first part that is missing, disabled, altered, or of another owner."""
    for name, (event, function) in TRIGGERS.items():
        trigger, routine = triggers.get(name), found.get(function)
        wanted = ("A", event, f"{SCHEMA}.{function}", True)
        if trigger is None or (trigger.enabled, trigger.event, trigger.function, trigger.every_tag) != wanted:
            return f"the event trigger {name} is missing, disabled or altered; {REPAIR}"
        body, settings = functions()[function][1], (False, '{"search_path=pg_catalog, pg_temp"}')
        if routine is None or (routine.definer, routine.config) != settings or routine.body != body:
            return f"the function {SCHEMA}.{function} is missing, altered or of another version; {REPAIR}"
        if routine.owner != trigger.owner:
            owners = f"belongs to {routine.owner}, its trigger to {trigger.owner}"
            return f"the function {SCHEMA}.{function} {owners}; {REPAIR}"
    return None


def _require_server(connection: Connection) -> None:
    if engine_of(connection).IS_FILE:
        raise ConfigError("the guard in the server is for PostgreSQL: SQLite has no event triggers")


def _run(connection: Connection, statements: Sequence[str]) -> None:
    try:
        for statement in statements:
            run_as_written(connection, statement)
    except DBAPIError as error:
        said = message(error).splitlines()[0]
        if sqlstate(error) == OWN_SQLSTATE:
            raise ConfigError(said) from error
        if sqlstate(error) == NO_RIGHT:
            role = connection.engine.url.username or "this role"
            raise Unreachable(
                f"the role {role} may not do this ({said}): event triggers need a superuser, or the role that a managed "
                "server offers for them; nothing was changed"
            ) from error
        raise
