"""PostgreSQL functions and procedures that the ledger installs: `migration/server/*.sql`.

A client compares the version and the definition of each before it calls them. A script makes the same
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
_DEFAULT = re.compile(r"([\w\[\]]+) DEFAULT ([\w(]*)('[^']*'|NULL)")
# A routine's facts, and the digest of all: SQL expressions over `pg_proc p`, and over rows `o` with such facts.
# Without the two schemas a signature reads the same on every search_path. It names nothing of another schema, since
# the dependencies on anything but schema (2615), language (2612) and the type pipestate.soft_drop are counted.
FACTS = rf"""pg_catalog.concat_ws(' ', p.prokind, p.proname, pg_catalog.regexp_replace(
            CASE pg_catalog.set_config('quote_all_identifiers', 'off', true) WHEN 'off' THEN pg_catalog.concat_ws(' RETURNS ',
              pg_catalog.concat('(', pg_catalog.pg_get_function_arguments(p.oid), ')'), pg_catalog.pg_get_function_result(p.oid)) END,
            '(^[(]|, )IN |( |::)(pg_catalog|{SCHEMA})[.]', E'\\1\\2', 'g'),
          (SELECT l.lanname FROM pg_catalog.pg_language l WHERE l.oid = p.prolang), p.provolatile, p.proisstrict, p.prosecdef,
          p.proconfig::text, (SELECT pg_catalog.count(*) FROM pg_catalog.pg_depend d WHERE d.classid = '1255' AND d.objid = p.oid
            AND d.refclassid NOT IN ('2615', '2612') AND NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE d.refclassid = '1247'
              AND t.oid = d.refobjid AND t.typname = 'soft_drop' AND t.typnamespace = p.pronamespace)),
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
                found.append(Routine(match["name"], match[0], _facts(match), file.name))
    return tuple(found)


def _facts(routine: re.Match[str]) -> str:
    """Derive from a CREATE statement what `FACTS` reads from a server."""
    head = " ".join(routine["head"].split()).replace("( ", "(").replace("TABLE (", "TABLE(")
    head = head.replace("float8", "double precision").replace("pg_catalog.", "").replace(f"{SCHEMA}.", "")
    signature, language, options = re.split(r" LANGUAGE (\w+)", _DEFAULT.sub(r"\1 DEFAULT \2\3::\1", head))
    settings = [f"{name}={value}" for name, value in _SETTING.findall(routine["head"])]
    written = ",".join(f'"{each}"' if " " in each else each for each in settings)
    body = sha256(routine["body"].encode()).hexdigest()
    facts = [routine["kind"][0].lower(), routine["name"], signature, language]
    facts += [
        "s" if "STABLE" in options else "v",
        "f",
        "f",
        *([f"{{{written}}}"] if settings else []),
        "0",
        body,
    ]
    return " ".join(facts)


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
        query("installed_functions", facts=FACTS), execution_options={"no_parameters": True}
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
