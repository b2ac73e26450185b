"""Compilation of a check: its query and its criterion become one SELECT that returns the verdict.

`verify`, the gate of a migration, the gate in a script and SQLite run this SELECT; nothing else judges a check. Its
columns are `outcome`, `message`, `rows`, and the row that was compared: on PostgreSQL as JSON in `observed`, on
SQLite as the columns that follow.

NULL, NaN and infinite numbers fail. A comparison that would be a guess is errored: a text for a number, a date for a
text, several rows for one. Text compares by code points.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pipestate.core.text import written
from pipestate.runbook.criterion import ROWS, Comparison, Requirement, literal
from pipestate.runbook.model import POSTGRESQL, SQLITE, Check, SignOff
from pipestate.runbook.variants import as_read_by

QUERY = "{query}"
LONGEST = 80  # characters of a text in a message
SEVERAL = "the query returned more than one row, and a column is compared in one: aggregate in the query, or require `rows`"
COUNT_OR_COLUMN = "`rows` is the number of rows, and the query returns a column of that name: rename it"
# What an engine says of a compiled check, and the sentence for it: one table for clients and for the server.
ERRORS = (
    (r"^column the_result[.](\S+) does not exist.*$", r"the query returns no column \1"),
    (r"^no such column: the_result[.](\S+)$", r"the query returns no column \1"),
    (r'^column reference "rows" is ambiguous.*$', COUNT_OR_COLUMN),
    (r"^ambiguous column name: rows$", COUNT_OR_COLUMN),
)
# A column `rows` of the query makes the bare name ambiguous, so its value is never taken for the number of rows.
_NO_COLUMN_ROWS = "CROSS JOIN (SELECT 1 AS rows) AS one WHERE rows = 1"
_LEDGER = re.compile(r"(?i)\bpipestate[._]")


@dataclass(frozen=True, slots=True)
class CompiledCheck:
    """A check as its statements: a verdict, which is the query within its frame, and `evidence` for a failure.

    `shows_own_rows` says that the evidence is the query itself. `columns` are those that the criterion names. A query
    of ours reads the ledger alone.
    """

    query: str
    frame: str
    evidence: str | None
    columns: tuple[str, ...] = ()
    counts_rows: bool = False
    shows_own_rows: bool = False
    is_ours: bool = False

    @property
    def verdict(self) -> str:
        return self.frame.replace(QUERY, self.query, 1)


def compile_check(check: Check | SignOff, dialect: str, *, runbook: str, phase: str) -> CompiledCheck:
    """Compile a check for an engine; a sign-off is one that counts people in the ledger."""
    if isinstance(check, SignOff):
        return _compile_sign_off(check, dialect, runbook, phase)
    query, frame = as_read_by(dialect, check.sql), compile_criterion(check.require, dialect, check.sql)
    explained = check.evidence_for(dialect)
    own = explained is None or check.require.shows_own_rows
    rows = check.sql if check.require.counts_rows else None
    evidence = rows if own or explained is None else explained.sql
    names = tuple(each.column for each in check.require.comparisons)
    return CompiledCheck(query, frame, evidence, names, ROWS in names, own)


FOR_GOOD = timedelta(days=3650)  # a sign-off with this validity never expires in practice


def _compile_sign_off(signoff: SignOff, dialect: str, runbook: str, phase: str) -> CompiledCheck:
    """Count the people who signed this text for this phase, recently enough.

    The view gives no age to a future time, so such a sign-off never counts. Ids and names are of `[a-z0-9-]`.
    """
    seconds = int(signoff.valid_for.total_seconds())
    signed = (
        f"FROM pipestate.sign_off\n  WHERE runbook = '{runbook}' AND phase = '{phase}' AND name = '{signoff.id}'\n"
        f"  AND coalesce(text_sha256, '{signoff.text_sha256}')\n    = '{signoff.text_sha256}'"
    )
    within = f" within {written(signoff.valid_for)}" if signoff.valid_for < FOR_GOOD else ""
    several = signoff.people > 1
    passed = text(f"signed off{f' by {signoff.people} people' if several else ''}{within}")
    missing = f"'signed off by ' || people || ' of {signoff.people} people" if several else "'not signed off"
    how = f"{within}: pipestate attest {runbook}/{phase}/{signoff.id} --by YOU'"
    enough = f"people >= {signoff.people}"
    verdict = (
        f"SELECT CASE WHEN {enough} THEN 'passed' ELSE 'failed' END AS outcome,\n"
        f"       CASE WHEN {enough} THEN {passed}\n            ELSE {missing}{how}\n       END AS message,\n"
        f"       1 AS rows, {DIALECTS[dialect].people}\n"
        f"FROM (SELECT count(DISTINCT lower(trim(person))) AS people {signed}\n"
        f"  AND age_seconds < {seconds}) AS signed"
    )
    evidence = f"SELECT person, signed_at, note {signed} ORDER BY signed_at DESC LIMIT 3"
    return CompiledCheck("", as_read_by(dialect, verdict), evidence, is_ours=True)


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """Expressions that the engines write differently; `{row}` is a column of the query's only row."""

    facts: str  # what the kind of a value is read from
    kind: str
    is_not_finite: str
    shown: str
    number: str
    text: str
    truth: str
    joined: str
    observed: str
    unobserved: str
    people: str


# The project's search_path holds in a check: our expressions have the exact types of the server's own functions.
_POSTGRESQL = SqlDialect(
    facts="{row}::text AS value,\n    pg_catalog.to_json({row}) AS json, pg_catalog.pg_typeof({row})::oid AS type",
    kind="""CASE json_typeof(json)
  WHEN 'string' THEN (SELECT CASE WHEN typcategory IN ('S', 'E', 'Z') THEN 'text' WHEN typcategory = 'N' THEN 'number'
    ELSE typname::text END FROM pg_type WHERE oid = type) ELSE json_typeof(json) END""",
    is_not_finite="kind = 'number' AND value IN ('NaN', 'Infinity', '-Infinity')",
    shown=f"""
  name || ' is ' || CASE kind WHEN 'number' THEN regexp_replace(value, '([.][0-9]+?)0+$', '\\1') WHEN 'boolean' THEN value
    ELSE coalesce('''' || replace(left(value, {LONGEST}), '''', '''''') || '''', 'NULL') END || ', required ' || required ||
  {{fault}} ELSE '' END""",
    number="value::numeric",
    text='value COLLATE "C"',
    truth="value IN ('true', '1')",
    joined="string_agg({message}, chr(59) || ' ' ORDER BY place)",
    observed=", pg_catalog.to_json(the_result)::text AS observed",
    unobserved=", NULL AS observed",
    people="json_build_object('people', people)::text AS observed",
)
_SQLITE = SqlDialect(
    facts="{row} AS value, typeof({row}) AS type",
    kind="CASE type WHEN 'integer' THEN 'number' WHEN 'real' THEN 'number' ELSE type END",
    is_not_finite="kind = 'number' AND abs(value) = 9e999",
    shown=f"""
  name || ' is ' || CASE kind WHEN 'number' THEN CAST(value AS TEXT) WHEN 'text' THEN quote(substr(value, 1, {LONGEST}))
    ELSE quote(value) END || ', required ' || required ||
  {{fault}} ELSE '' END""",
    number="value",
    text="value COLLATE BINARY",
    truth="value = 1",
    joined="group_concat({message}, char(59) || ' ')",
    observed=", the_result.*",
    unobserved="",
    people="people",
)
DIALECTS: Mapping[str, SqlDialect] = {POSTGRESQL: _POSTGRESQL, SQLITE: _SQLITE}


def compile_criterion(require: Requirement, dialect: str, query: str = "") -> str:
    """Write the SELECT that judges a query by a criterion; it has `{query}` in the query's place."""
    counted = [each for each in require.comparisons if each.column == ROWS]
    compared = [each for each in require.comparisons if each.column != ROWS]
    if compared:
        nothing = "nothing recorded yet" if _LEDGER.search(query) else "no row"
        return _compare_row(nothing, require, counted, compared, DIALECTS[dialect])
    return (
        f"SELECT CASE WHEN {_all_of(counted)} THEN 'passed' ELSE 'failed' END AS outcome,\n"
        f"  {_count_message(counted)} AS message, the_rows.rows{DIALECTS[dialect].unobserved}\n"
        f"FROM (SELECT count(*) AS rows FROM (\n{QUERY}\n"
        f") AS the_query {_NO_COLUMN_ROWS}) AS the_rows"
    )


def _compare_row(
    nothing: str,
    require: Requirement,
    counted: Sequence[Comparison],
    compared: Sequence[Comparison],
    dialect: SqlDialect,
) -> str:
    """Write the SELECT for a criterion that names columns: the query must return exactly one row.

    `errored` sorts before `failed` and `passed`, so the first outcome is the worst.
    """
    values = "\n  UNION ALL ".join(
        f"SELECT {place} AS place, {text(each.column)} AS name, {text(each.required)} AS required, "
        f"{text(_wanted(each))} AS wanted, {dialect.facts.replace('{row}', f'the_result.{each.column}')}\n"
        "    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1"
        for place, each in enumerate(compared, start=1)
    )
    holds = "\n    ".join(
        f"WHEN {place} THEN {_holds(each, dialect)}" for place, each in enumerate(compared, start=1)
    )
    said = "the_verdict.message"
    cases = [
        ("the_rows.rows = 1", "the_verdict.outcome", said),
        ("the_rows.rows = 0", "'failed'", text(f"{nothing}, required {require.text}")),
    ]
    if counted:
        counts = _count_message(counted)
        cases[0] = (*cases[0][:2], f"{counts} || ', ' || {said}")
        cases.insert(0, (f"NOT ({_all_of(counted)})", "'failed'", counts))
    outcome = " ".join(f"WHEN {case[0]} THEN {case[1]}" for case in cases)
    message = "\n    ".join(f"WHEN {case[0]} THEN {case[2]}" for case in cases)
    only = _NO_COLUMN_ROWS if counted else "LIMIT 2"
    fault = "CASE outcome WHEN 'errored' THEN ': a value of type ' || kind || ' cannot be compared with a ' || wanted"
    return (
        f"WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (\n{QUERY}\n) AS the_query {only}),\n"
        f"the_rows AS (SELECT count(*) AS rows FROM the_result), the_values AS (\n  {values}\n"
        f"), the_kinds AS (SELECT the_values.*, {dialect.kind} AS kind FROM the_values\n"
        f"), the_outcomes AS (SELECT the_kinds.*, CASE WHEN value IS NULL OR {dialect.is_not_finite} THEN 'failed'\n"
        "  WHEN kind <> wanted AND NOT (wanted = 'boolean' AND kind = 'number' AND CAST(value AS text) IN ('0', '1'))\n    THEN 'errored'\n"
        f"  WHEN CASE place\n    {holds} END THEN 'passed' ELSE 'failed' END AS outcome FROM the_kinds\n"
        f"), the_verdict AS (SELECT outcome, {dialect.joined.replace('{message}', dialect.shown.replace('{fault}', fault))}\n"
        "  AS message FROM the_outcomes GROUP BY outcome ORDER BY outcome LIMIT 1)\n"
        f"SELECT CASE {outcome} ELSE 'errored' END AS outcome,\n"
        f"  CASE {message}\n    ELSE {text(SEVERAL)}\n  END AS message, the_rows.rows{dialect.observed}\n"
        "FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1"
    )


def _wanted(comparison: Comparison) -> str:
    """Name the kind of value that a comparison takes."""
    if isinstance(comparison.value, bool):
        return "boolean"
    return "text" if isinstance(comparison.value, str) else "number"


def _holds(comparison: Comparison, dialect: SqlDialect) -> str:
    """Write the comparison itself."""
    required, op = comparison.value, _sql(comparison.op)
    if isinstance(required, bool):
        return dialect.truth if (op == "=") == required else f"NOT ({dialect.truth})"
    if isinstance(required, str):
        return f"{dialect.text} {op} {literal(required)}"
    number = literal(required) if "." in literal(required) else f"{literal(required)}.0"
    return f"{dialect.number} {op} {number}"


def _all_of(counted: Sequence[Comparison]) -> str:
    return " AND ".join(
        f"the_rows.rows {_sql(each.op)} {literal(each.value)}"
        if isinstance(each.value, int)
        else f"CAST(the_rows.rows AS numeric) {_sql(each.op)} {literal(each.value)}"
        for each in counted
    )


def _count_message(counted: Sequence[Comparison]) -> str:
    """Write the message on the number of rows; it names each comparison."""
    required = " and ".join(each.required for each in counted)
    return f"'rows is ' || CAST(the_rows.rows AS text) || {text(f', required {required}')}"


def _sql(op: str) -> str:
    return "<>" if op == "!=" else op


def text(value: str) -> str:
    """Write a text as SQL.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
