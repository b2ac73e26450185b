"""PostgreSQL functions and procedures that the ledger installs: `migration/server/*.sql`.

`ledger install`, `status` and the first connection of a run compare the definition of each. Each revision and each
script compares the version, which contains the digest of their text.
"""

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from sqlalchemy import Connection

from pipestate.core.errors import ConfigError
from pipestate.database.connections import run_own
from pipestate.database.queries import filled
from pipestate.ledger.tables import SCHEMA, query
from pipestate.plan.compile import ERRORS, text
from pipestate.verify.session_safety import MESSAGE, USES_IMPOSTORS, foreign_owner_query, impostors_query

_SETTING = re.compile(r"\bSET (\w+) = ([\w, ]*\w)")
_ROUTINE = re.compile(
    rf"CREATE OR REPLACE (?P<kind>FUNCTION|PROCEDURE) {SCHEMA}\.(?P<name>\w+)(?P<head>.*?)AS (?P<tag>\$\w*\$)"
    r"(?P<body>.*?)(?P=tag);",
    re.DOTALL,
)
_DEFAULT = re.compile(r"([\w\[\]]+) DEFAULT ([\w(]*)('[^']*'|NULL)")
# A routine's facts: an SQL expression over `pg_proc p`. Without the two schemas a signature reads the same on every search_path. It names nothing of another schema, since
# the dependencies on anything but schema (2615), language (2612) and the type pipestate.soft_drop are counted.
FACTS = rf"""concat_ws(' ', p.prokind, p.proname, regexp_replace(
            CASE set_config('quote_all_identifiers', 'off', true) WHEN 'off' THEN concat_ws(' RETURNS ',
              concat('(', pg_get_function_arguments(p.oid), ')'), pg_get_function_result(p.oid)) END,
            '(^[(]|, )IN |( |::)(pg_catalog|{SCHEMA})[.]', E'\\1\\2', 'g'),
          (SELECT l.lanname FROM pg_language l WHERE l.oid = p.prolang), p.provolatile, p.proisstrict, p.prosecdef,
          p.proconfig::text, (SELECT count(*) FROM pg_depend d WHERE d.classid = '1255' AND d.objid = p.oid
            AND d.refclassid NOT IN ('2615', '2612') AND NOT EXISTS (SELECT FROM pg_type t WHERE d.refclassid = '1247'
              AND t.oid = d.refobjid AND t.typname = 'soft_drop' AND t.typnamespace = p.pronamespace)),
          encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'))"""
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
    texts = {
        file.name: filled(
            file.read_text(encoding="utf-8"),
            foreign_owner=foreign_owner_query().replace("AS me", "AS me INTO other_owner", 1),
            foreign_message=MESSAGE,
            impostors=impostors_query("schemas", "query"),
            uses_impostors=USES_IMPOSTORS.format(found="%s"),
            errors=",\n".join(f"    ({text(said)}, {text(sentence)})" for said, sentence in ERRORS),
        )
        for file in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if file.name.endswith(".sql")
    }
    digest = sha256("".join(texts.values()).encode()).hexdigest()[:12]
    return tuple(
        Routine(match["name"], match[0], _facts(match), name)
        for name, text in texts.items()
        for match in _ROUTINE.finditer(filled(text, digest=digest))
    )


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
def version() -> str:
    """Read the version of the routines that this pipestate ships: a number, and the digest of their text."""
    (found,) = re.findall(r"SELECT '([\d.\w]+)'", body_of("version"))
    return str(found)


def _number(version: str) -> int:
    """Read the number of a version, which says which of two is newer.

    >>> _number("2.a5f3")
    2
    """
    return int(version.partition(".")[0])


@cache
def digest() -> str:
    """List each routine with the digest of its body, in the format that `_INSTALLED` reads from a server."""
    return "\n".join(sorted(routine.facts for routine in routines()))


def install_block() -> str:
    """Render PL/pgSQL that refuses newer functions, then creates or replaces all pipestate functions."""
    creates = "\n".join(routine.statement for routine in routines())
    return query(
        "install_functions", version=version(), number=_number(version()), names=_names(), creates=creates
    )


def remove_block() -> str:
    """Render PL/pgSQL that drops all pipestate routines."""
    return query("remove_functions", names=_names())


def _names() -> str:
    return ", ".join(f"'{name}'" for name in sorted({routine.name for routine in routines()}))


def fault_of(connection: Connection, *, has_compared: bool = False) -> str | None:
    """Describe the fault of the installed functions and the command that repairs it; None if they are intact.

    With `has_compared`, this run has compared their definitions already: the version is enough.
    """
    facts = "NULL" if has_compared else FACTS
    found = run_own(connection, query("installed_functions", facts=facts))
    installed, listed = found[0] if found else (None, None)
    if installed is None:
        return f"the ledger of this database has no functions yet; {UPDATE}"
    if _number(installed) > _number(version()):
        return (
            f"the functions of the ledger are newer (version {installed}) than this pipestate (version {version()}): "
            "use the pipestate that installed them"
        )
    if _number(installed) < _number(version()):
        return f"the functions of the ledger are older (version {installed}) than this pipestate (version {version()}); {UPDATE}"
    if installed != version() or (
        not has_compared and "\n".join(sorted(str(listed).split("\n"))) != digest()
    ):
        return f"functions of the ledger were altered; {UPDATE}"
    return None


def require_functions(connection: Connection, *, has_compared: bool = False) -> None:
    """Refuse to call missing, older, newer or altered functions."""
    if fault := fault_of(connection, has_compared=has_compared):
        raise ConfigError(fault)


def require_version(*, with_tables: bool = True) -> str:
    """Render the call of a script that refuses functions of another version, and a ledger that this role may not use."""
    return f"CALL pipestate.require_version('{version()}'{'' if with_tables else ', with_tables => false'});"
