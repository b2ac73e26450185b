"""SQLite variants of a runbook: join them with blocks of the same phase and id; SQL that SQLite cannot read."""

import re
from dataclasses import replace

from pipestate.runbook.model import (
    SQLITE,
    Backfill,
    Check,
    Evidence,
    Findings,
    Part,
    SqlBlock,
    View,
    label,
)
from pipestate.runbook.statement import tokens


def join(parts: list[Part], variants: list[SqlBlock], found: Findings) -> list[Part]:
    """Insert each variant after its part of the runbook; evidence for SQLite comes last."""
    joined: list[Part] = []
    used: set[int] = set()
    for part in parts:
        joined.append(part)
        if not isinstance(part, Check | View | Backfill):
            continue
        same = [each for each in variants if type(each) is type(part) and each.id == part.id]
        used |= {id(each) for each in same}
        for extra in same[1:]:
            found.at(extra.block, f"{label(extra)} appears twice in one phase: keep one of them")
        if same:
            joined.append(_completed(part, same[0], found))
    for each in variants:
        if isinstance(each, Evidence):
            joined.append(each)
        elif id(each) not in used:
            known = ", ".join(part.id for part in parts if type(part) is type(each)) or "none"
            what = f"has no block of that id in this phase of {found.path}; there are {known}"
            found.at(each.block, f"{label(each)} {what}")
    return joined


def _completed(part: Check | View | Backfill, variant: SqlBlock, found: Findings) -> Check | View | Backfill:
    """Copy line, level, revisions, window and criterion from the runbook to a variant."""
    if isinstance(part, View | Backfill):
        return replace(part, sql=variant.sql, dialect=SQLITE, block=variant.block)
    assert isinstance(part, Check)
    assert isinstance(variant, Check)
    own = bool(variant.require.text)
    if part.dialect is None and own:
        found.at(
            variant.block,
            f"{label(variant)} has the criterion of the runbook, {found.path}:{part.line}: take `-- require:` out "
            "here, or write `-- dialect: postgresql` there, where SQLite cannot hold that state",
        )
    elif part.dialect is not None and not own:
        found.at(
            variant.block,
            f"{label(variant)} is for PostgreSQL alone in {found.path}:{part.line}: give it a criterion of its own "
            "here, or take `-- dialect: postgresql` out there",
        )
    require = variant.require if part.dialect is not None else part.require
    return replace(part, sql=variant.sql, dialect=SQLITE, block=variant.block, require=require)


# SQL that SQLite does not know, and ledger names on SQLite. The rules compare tokens.


# Views and tables of the ledger: `pipestate.soak` on PostgreSQL, `pipestate_soak` on SQLite.
LEDGER = frozenset(
    {
        *("latest_observation", "observed", "soak", "soak_since", "sign_off"),
        *("backfill", "rehearsed", "compat"),
        *("run", "result", "attestation", "observation", "object", "backfill_progress", "rehearsal"),
    }
)

# Syntax missing from SQLite 3.38: functions, words, types before a literal (SQLite would parse a column with an
# alias), pairs of words, strings, operators. A name behind a dot is a column.
_CALLS = """
    now clock_timestamp statement_timestamp extract date_part date_trunc age to_char to_timestamp to_date
    make_interval to_regclass to_regnamespace generate_series unnest array_agg any bool_and bool_or every jsonb_agg
    string_agg split_part left right greatest least position starts_with regexp_replace regexp_match regexp_matches
    regexp_count percentile_cont percentile_disc current_setting has_table_privilege row_to_json to_jsonb
    jsonb_array_elements jsonb_each json_array_elements lpad rpad md5 format_type concat concat_ws char_length rollup
    cube obj_description col_description
"""
_ONLY_POSTGRESQL = re.compile(
    rf"""(?<!\S)(?:
      (?<!\.\ )(?P<call> {"|".join(_CALLS.split())} )(?=\ \()
    | (?<!\.\ )(?P<words> interval | lateral | ilike | similar | array | regclass | information_schema | tablesample
        | pg_\S* | (?:date|time|timestamp|timestamptz)\ '…' )(?!\S)
    | (?P<pair> DISTINCT\ (?:ON|FROM) | TIME\ ZONE | FETCH\ (?:FIRST|NEXT) | (?:FULL|RIGHT)\ (?:JOIN|OUTER) )(?!\S)
    | (?P<string> [eE]'… | \$.… )
    | :\ : | @\ > | <\ @ | !\ ~ | &\ & | ~(?=\ (?:'|\*|[eE]'|\$))
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def ledger_names(sql: str) -> str:
    """Replace `pipestate.` before a ledger name with `pipestate_`, the form for SQLite.

    >>> ledger_names("SELECT 'pipestate.soak' FROM pipestate.soak s -- pipestate.soak")
    "SELECT 'pipestate.soak' FROM pipestate_soak s -- pipestate.soak"
    """
    seen = tokens(sql, "sqlite")
    for before, schema, dot, name in reversed(
        list(zip([None, *seen], seen, seen[1:], seen[2:], strict=False))
    ):
        qualified = schema.identifier == "pipestate" and dot.text == "." and name.identifier in LEDGER
        if qualified and (before is None or before.text != "."):
            end = name.start + len(name.text)
            sql = f"{sql[: schema.start]}pipestate_{name.identifier}{sql[end:]}"
    return sql


def as_read_by(dialect: str, sql: str) -> str:
    """Rewrite the SQL of a block for an engine."""
    return {SQLITE: ledger_names}.get(dialect, str)(sql)


def only_postgresql(sql: str) -> list[str]:
    """List the PostgreSQL-only parts of the SQL as written, each once.

    >>> only_postgresql("SELECT a::text, 'now()' FROM pg_class WHERE b > now() - interval '1 day'")
    ['::', 'pg_class', 'now()', 'interval']
    """
    hidden = {"string": "'…'", "name": '""'}
    seen = (
        f"{token.text[:2]}…"
        if token.kind == "string" and token.text[0] in "eE$"
        else hidden.get(token.kind, token.text)
        for token in tokens(sql, "postgresql")
    )
    found = _ONLY_POSTGRESQL.finditer(" ".join(seen))
    return list(
        dict.fromkeys(
            f"{each[0]}()" if each["call"] else each[0] if each.lastgroup else each[0].replace(" ", "")
            for each in found
        )
    )
