"""Calls of statements that a pending contract breaks, from pg_stat_statements, for the view `disuse`.

A statement is watched if its text names an object that the contract changes, unless `compat` found it
harmless. A monthly statement therefore counts as a use even if `compat` never saw it.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, insert, text

from pipestate.core.errors import ConfigError
from pipestate.database.connections import engine_of, run_own
from pipestate.database.drivers import run_as_written
from pipestate.ledger.drift import definitions_query
from pipestate.ledger.record import who
from pipestate.ledger.state import require_ledger, this_database
from pipestate.ledger.tables import ledger_on, qualified, query

NEVER_NAMED = ("index", "statistics", "event trigger")
Objects = Mapping[tuple[str, str, str], str]
NO_EVICTIONS = (
    "evictions are not counted: this needs PostgreSQL 14 and ALTER EXTENSION pg_stat_statements UPDATE"
)
HIDDEN = "statements of other roles are hidden: GRANT pg_read_all_stats to the role that observes"


@dataclass(frozen=True, slots=True)
class StatementSource:
    """Relations to read: those of the extension, or tables of the same shape."""

    statements: str
    info: str | None


def find_source(connection: Connection) -> StatementSource | None:
    """Find the extension's views in this database; None if the extension is missing."""
    if engine_of(connection).IS_FILE:
        return None
    found = run_own(connection, query("statement_schema"))
    if not found:
        return None
    schema = found[0][0]
    ((info,),) = run_own(
        connection, "SELECT to_regclass(:name)::text", name=f"{schema}pg_stat_statements_info"
    )
    return StatementSource(
        f"{schema}pg_stat_statements", f"{schema}pg_stat_statements_info" if info else None
    )


def read_objects(connection: Connection) -> Objects:
    """Read the definition of every object that a statement can name, by schema, kind and name."""
    rows = run_as_written(connection, definitions_query(connection.dialect.name))
    return {(row[0], row[1], row[2]): row[3] for row in rows if row[1] not in NEVER_NAMED}


def changed_names(before: Objects, after: Objects) -> list[str]:
    """List the objects of `before` that the contract changes, by the first part of their names.

    >>> orders, state, new = ("public", "table", "orders"), ("public", "column", "orders.state"), ("public", "table", "new")
    >>> changed_names({orders: "", state: "text"}, {orders: "", new: ""})
    ['orders']
    """
    differ = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    there = {_first_part(name) for _, _, name in before}
    return sorted({_first_part(name) for _, _, name in differ} & there)


def _first_part(name: str) -> str:
    return re.split(r'[.("]', name)[0].lower()


def make_watch(
    connection: Connection,
    words: Sequence[str],
    files: Mapping[str, str],
    broken: Sequence[tuple[str, str | None]],
    harmless: Collection[str],
    source: StatementSource | None = None,
) -> dict[str, Any] | None:
    """Build the rehearsal's `watch` for `disuse`; None if statements can name none of the changes."""
    if not words or "" in words:
        return None
    source = source or find_source(connection)
    ids: dict[str, set[str]] = {}
    if source is not None:
        for id_, statement in run_own(connection, query("statement_ids", relation=source.statements)):
            ids.setdefault(str(id_), set()).add(str(statement))
    named = {
        id_: texts for id_, texts in ids.items() if any(word in " ".join(texts).lower() for word in words)
    }
    return {
        "digest": sha256(json.dumps([dict(files), list(words)], sort_keys=True).encode()).hexdigest(),
        "words": list(words),
        "harmless": sorted(id_ for id_, texts in named.items() if texts <= set(harmless)),
        "broken": [
            {
                "statement": statement,
                "revision": revision,
                "query_ids": sorted(id_ for id_, texts in ids.items() if statement in texts),
            }
            for statement, revision in broken
        ],
    }


def observe_statements(
    connection: Connection,
    pending: Collection[str],
    *,
    except_: Sequence[str] = (),
    source: StatementSource | None = None,
) -> dict[str, float]:
    """Record the calls for each pending contract; return the numbers of contracts and statements."""
    require_ledger(connection)
    source = source or find_source(connection)
    if source is None:
        raise ConfigError(
            "this database has no pg_stat_statements: create the extension, or remove the probe's line"
        )
    table = qualified("rehearsal", connection.dialect.name)
    rows = connection.execute(
        text(f"SELECT watch, files FROM {table} WHERE kind = 'compat' AND watch IS NOT NULL ORDER BY id")
    )
    newest = {revision: watch for watch, files in rows for revision in files if revision in pending}
    contracts = {watch["digest"]: watch["words"] for watch in newest.values()}
    statements = sum(
        _observe(connection, digest, words, except_, source) for digest, words in contracts.items()
    )
    return {"contracts_watched": float(len(contracts)), "statements_watched": float(statements)}


def _observe(
    connection: Connection, digest: str, words: Sequence[str], except_: Sequence[str], source: StatementSource
) -> int:
    """Read the reset and eviction counters before the statements, so the next run detects any loss."""
    given = {"words": json.dumps(list(words)), "except": json.dumps(list(except_))}
    ((server, started, standbys, fault),) = run_own(
        connection, query("statement_server"), words=given["words"]
    )
    reset, evictions = None, None
    if source.info is not None:
        ((reset, evictions),) = run_own(connection, f"SELECT stats_reset, dealloc FROM {source.info}")
    ((calls, hidden),) = run_own(connection, query("statement_calls", relation=source.statements), **given)
    unknown = NO_EVICTIONS if reset is None or evictions is None else ""
    faults = [each for each in (fault, unknown, HIDDEN if hidden or started is None else "") if each]
    values = {
        "actor": who(),
        "contract": digest,
        "server": server,
        "database": this_database(connection),
        "fault": "; ".join(faults) or None,
        "started_at": started,
        "stats_reset": reset,
        "evictions": evictions,
        "standbys": standbys,
        "calls": json.loads(calls),
    }
    connection.execute(insert(ledger_on(connection.dialect.name).statement_calls).values(**values))
    return len(values["calls"])
