"""PostgreSQL functions and procedures that the ledger installs: `migration/server/*.sql`.

A client compares the version and a digest of every body before it calls them. A script makes the same
comparison, so an old script refuses functions that have changed since.
"""

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from sqlalchemy import Connection

from pipestate.core.errors import OWN_SQLSTATE, ConfigError
from pipestate.ledger.tables import SCHEMA, query

_SETTING = re.compile(r"\bSET (\w+) = ([\w, ]*\w)")
_ROUTINE = re.compile(
    rf"CREATE OR REPLACE (?P<kind>FUNCTION|PROCEDURE) {SCHEMA}\.(?P<name>\w+)(?P<head>.*?)AS (?P<tag>\$\w*\$)"
    r"(?P<body>.*?)(?P=tag);",
    re.DOTALL,
)
# A routine's facts, and the digest of all: SQL expressions over `pg_proc p`, and over rows `o` with such facts.
FACTS = """pg_catalog.concat_ws(' ', p.proname, p.prosecdef, p.proconfig::text,
          pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p.prosrc, 'UTF8')), 'hex'))"""
DIGEST = """pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
        pg_catalog.string_agg(o.facts, E'\\n' ORDER BY o.facts COLLATE "C"), 'UTF8')), 'hex')"""
UPDATE = "to update them: pipestate ledger install"


@dataclass(frozen=True, slots=True)
class Routine:
    """One function or procedure: its CREATE statement and its expected catalogue facts."""

    name: str
    statement: str
    facts: str
    file: str


@cache
def routines() -> tuple[Routine, ...]:
    """Read every routine, in file order."""
    folder = files("pipestate") / "migration" / "server"
    found = []
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            text = file.read_text(encoding="utf-8")
            for match in _ROUTINE.finditer(text):
                settings = [f"{name}={value}" for name, value in _SETTING.findall(match["head"])]
                written = ",".join(f'"{each}"' if " " in each else each for each in settings)
                body = sha256(match["body"].encode()).hexdigest()
                facts = [match["name"], "f", *([f"{{{written}}}"] if settings else []), body]
                found.append(Routine(match["name"], match[0], " ".join(facts), file.name))
    return tuple(found)


def body_of(name: str) -> str:
    """Return the quoted body of a routine; for an SQL function this is a query."""
    (statement,) = (routine.statement for routine in routines() if routine.name == name)
    found = _ROUTINE.match(statement)
    assert found is not None
    return found["body"].strip()


@cache
def version() -> int:
    """Read the version of the routines that this pipestate ships."""
    (found,) = (routine for routine in routines() if routine.name == "runtime")
    return int(re.findall(r"SELECT (\d+)", found.statement)[0])


@cache
def digest() -> str:
    """List each routine with the digest of its body, in the format that `_INSTALLED` reads from a server."""
    return "\n".join(sorted(routine.facts for routine in routines()))


def install_block() -> str:
    """Render PL/pgSQL that refuses newer functions, then creates or replaces all pipestate functions."""
    creates = "\n".join(routine.statement for routine in routines())
    return query("install_functions", version=version(), names=_names(), creates=creates)


def remove_block() -> str:
    """Render PL/pgSQL that drops the guard in the server, and all pipestate routines."""
    return query("remove_functions", guard=query("remove_server_guard"), names=_names())


def _names() -> str:
    return ", ".join(f"'{name}'" for name in sorted({routine.name for routine in routines()}))


def fault_of(connection: Connection) -> str | None:
    """Describe the fault of the installed functions and the command that repairs it; None if they are intact."""
    found = connection.exec_driver_sql(
        query("installed_functions"), execution_options={"no_parameters": True}
    ).first()
    installed, listed = (None, None) if found is None else tuple(found)
    if installed is None:
        return f"the ledger of this database has no functions yet; {UPDATE}"
    if installed > version():
        return (
            f"the functions of the ledger are newer (version {installed}) than this pipestate (version {version()}): "
            "use the pipestate that installed them"
        )
    if installed < version():
        return f"the functions of the ledger are older (version {installed}) than this pipestate (version {version()}); {UPDATE}"
    if "\n".join(sorted(str(listed).split("\n"))) != digest():
        return f"functions of the ledger were altered; {UPDATE}"
    return None


def require_functions(connection: Connection) -> None:
    """Refuse to call missing, older, newer or altered functions."""
    if fault := fault_of(connection):
        raise ConfigError(fault)


def assertion() -> str:
    """Render PL/pgSQL for a script; it refuses functions that differ from this version."""
    return f"""  IF (SELECT {DIGEST}
      FROM (SELECT {FACTS} AS facts
        FROM pg_catalog.pg_proc p WHERE p.pronamespace = pg_catalog.to_regnamespace('{SCHEMA}')) AS o)
      {other_functions()};
  END IF;"""


def other_functions() -> str:
    """Render the end of a condition on `DIGEST`, and the refusal of functions that differ from this version."""
    message = (
        f"'the functions of the ledger are not those that this script was written for (version {version()}): "
        "update them with pipestate ledger install, or write the script again'"
    )
    wanted = sha256(digest().encode()).hexdigest()
    return f"IS DISTINCT FROM '{wanted}' THEN\n    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE = {message}"
