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
from typing import Protocol

from pipestate.core.text import written
from pipestate.runbook.criterion import ROWS, Comparison, Requirement, literal
from pipestate.runbook.model import POSTGRESQL, SQLITE, Check, SignOff
from pipestate.runbook.variants import as_read_by

QUERY = "{query}"
LONGEST = 80  # characters of a text in a message
SEVERAL = (
    "the query returned more than one row; comparing a column needs exactly one: aggregate in the query, "
    "or require `rows`"
)
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
        f"FROM pipestate.sign_off WHERE runbook = '{runbook}' AND phase = '{phase}' AND name = '{signoff.id}'\n"
        f"  AND coalesce(text_sha256, '{signoff.text_sha256}') = '{signoff.text_sha256}'"
    )
    within = f" within {written(signoff.valid_for)}" if signoff.valid_for < FOR_GOOD else ""
    several = signoff.people > 1
    passed = text(f"signed off{f' by {signoff.people} people' if several else ''}{within}")
    missing = f"'signed off by ' || people || ' of {signoff.people} people" if several else "'not signed off"
    how = f"{within}: pipestate attest {runbook}/{phase}/{signoff.id} --by YOU'"
    enough = f"people >= {signoff.people}"
    verdict = (
        f"SELECT CASE WHEN {enough} THEN 'passed' ELSE 'failed' END AS outcome,\n"
        f"       CASE WHEN {enough} THEN {passed}\n            ELSE {missing}{how} END AS message,\n"
        f"       1 AS rows, {DIALECTS[dialect].PEOPLE}\n"
        f"FROM (SELECT count(DISTINCT lower(trim(person))) AS people {signed}\n"
        f"  AND age_seconds < {seconds}) AS signed"
    )
    evidence = f"SELECT person, signed_at, note {signed} ORDER BY signed_at DESC LIMIT 3"
    return CompiledCheck("", as_read_by(dialect, verdict), evidence, is_ours=True)


class Dialect(Protocol):
    """Expressions that the engines write differently. `row` is a column of the query's only row."""

    def value(self, row: str) -> str: ...
    def kind(self, row: str) -> str: ...
    def shown(self, value: str, kind: str) -> str: ...
    def is_finite(self, value: str, kind: str) -> str: ...
    def number(self, value: str) -> str: ...
    def in_code_points(self, value: str) -> str: ...
    def is_truth(self, value: str, kind: str) -> str: ...
    def is_true(self, value: str) -> str: ...

    JOINED: str
    PEOPLE: str
    OBSERVED: str
    UNOBSERVED: str


def compile_criterion(require: Requirement, dialect: str, query: str = "") -> str:
    """Write the SELECT that judges a query by a criterion; it has `{query}` in the query's place."""
    counted = [each for each in require.comparisons if each.column == ROWS]
    compared = [each for each in require.comparisons if each.column != ROWS]
    if compared:
        nothing = "nothing recorded yet" if _LEDGER.search(query) else "no row"
        return _compare_row(nothing, require, counted, compared, DIALECTS[dialect])
    return (
        f"SELECT CASE WHEN {_all_of(counted)} THEN 'passed' ELSE 'failed' END AS outcome,\n"
        f"       {_count_message(counted)} AS message, rows{DIALECTS[dialect].UNOBSERVED}\n"
        f"FROM (SELECT count(*) AS rows FROM (\n{QUERY}\n"
        f") AS the_query {_NO_COLUMN_ROWS}) AS the_rows"
    )


def _compare_row(
    nothing: str,
    require: Requirement,
    counted: Sequence[Comparison],
    compared: Sequence[Comparison],
    dialect: Dialect,
) -> str:
    """Write the SELECT for a criterion that names columns: the query must return exactly one row."""
    names = list(dict.fromkeys(each.column for each in compared))
    values = ",\n       ".join(
        f"{dialect.value(row)} AS v{number}, {dialect.kind(row)} AS k{number}"
        for number, row in enumerate((f"the_result.{name}" for name in names), start=1)
    )
    judged = "\n  UNION ALL ".join(
        _compare(place, each, names.index(each.column) + 1, dialect)
        for place, each in enumerate(compared, start=1)
    )
    said = "the_verdict.message"
    cases = [
        (f"NOT ({_all_of(counted)})", "'failed'", _count_message(counted)) if counted else None,
        (
            "the_rows.rows = 1",
            "the_verdict.outcome",
            f"{_count_message(counted)} || '; ' || {said}" if counted else said,
        ),
        ("the_rows.rows = 0", "'failed'", text(f"{nothing}, required {require.text}")),
    ]
    outcome = " ".join(f"WHEN {case[0]} THEN {case[1]}" for case in cases if case)
    message = "\n            ".join(f"WHEN {case[0]} THEN {case[2]}" for case in cases if case)
    only = _NO_COLUMN_ROWS if counted else "LIMIT 2"
    return (
        f"WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (\n{QUERY}\n) AS the_query {only}),\n"
        "the_rows AS (SELECT count(*) AS rows FROM the_result),\n"
        f"the_values AS (SELECT {values}\n  FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1),\n"
        f"the_verdict AS (SELECT outcome, {dialect.JOINED} AS message FROM (\n  {judged}\n"
        "  ) AS each_comparison GROUP BY outcome ORDER BY outcome LIMIT 1)\n"
        f"SELECT CASE {outcome} ELSE 'errored' END AS outcome,\n"
        f"       CASE {message}\n            ELSE {text(SEVERAL)} END AS message, the_rows.rows{dialect.OBSERVED}\n"
        "FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1"
    )


def _compare(place: int, comparison: Comparison, column: int, dialect: Dialect) -> str:
    """Write the SELECT of one comparison; `errored` sorts before `failed` and `passed`."""
    value, kind, required = f"v{column}", f"k{column}", comparison.value
    if isinstance(required, bool):
        fits, what = dialect.is_truth(value, kind), "a boolean"
        holds = f"{'' if (comparison.op == '=') == required else 'NOT '}{dialect.is_true(value)}"
    elif isinstance(required, str):
        fits, what = f"{kind} = 'text'", "a text"
        holds = f"{dialect.in_code_points(value)} {_sql(comparison.op)} {literal(required)}"
    else:
        fits, what = f"{kind} = 'number'", "a number"
        number = literal(required) if "." in literal(required) else f"{literal(required)}.0"
        holds = f"{dialect.number(value)} {_sql(comparison.op)} {number}"
    said = text(f"{comparison.column} is ")
    return (
        f"SELECT {place} AS place, CASE WHEN {value} IS NULL OR NOT {dialect.is_finite(value, kind)} THEN 'failed' "
        f"WHEN NOT ({fits}) THEN 'errored'\n    WHEN {holds} THEN 'passed' ELSE 'failed' END AS outcome,\n"
        f"    {said} || {dialect.shown(value, kind)} || {text(f', required {comparison.required}')} AS message,\n"
        f"    ': a value of type ' || {kind} || {text(f' cannot be compared with {what}')} AS fault FROM the_values"
    )


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


class _PostgreSQL:
    JOINED = "string_agg(message || CASE outcome WHEN 'errored' THEN fault ELSE '' END, '; ' ORDER BY place)"
    PEOPLE = "json_build_object('people', people)::text AS observed"
    OBSERVED = ", pg_catalog.to_json(the_result)::text AS observed"
    UNOBSERVED = ", NULL AS observed"

    def value(self, row: str) -> str:
        return f"{row}::text"

    # The project's search_path holds here: arguments have the exact types of the server's functions and operators.
    def kind(self, row: str) -> str:
        json = f"json_typeof(pg_catalog.to_json({row}))"
        return (
            f"CASE WHEN {json} <> 'string' THEN {json}\n"
            f"         WHEN (SELECT typcategory IN ('S', 'E', 'Z') FROM pg_type WHERE oid = pg_catalog.pg_typeof({row})::oid) THEN 'text'\n"
            f"         ELSE pg_catalog.pg_typeof({row})::text END"
        )

    def shown(self, value: str, kind: str) -> str:
        return (
            f"coalesce(CASE WHEN {kind} = 'number' THEN regexp_replace({value}, '(\\.[0-9]+?)0+$', '\\1') "
            f"WHEN {kind} = 'boolean' THEN {value}\n"
            f"    ELSE '''' || replace(left({value}, {LONGEST}), '''', '''''') || '''' END, 'NULL')"
        )

    def is_finite(self, value: str, kind: str) -> str:
        return f"({kind} = 'text' OR {value} NOT IN ('NaN', 'Infinity', '-Infinity'))"

    def number(self, value: str) -> str:
        return f"{value}::numeric"

    def in_code_points(self, value: str) -> str:
        return f'{value} COLLATE "C"'

    def is_truth(self, value: str, kind: str) -> str:
        return f"{kind} = 'boolean' OR {kind} = 'number' AND {value} IN ('0', '1')"

    def is_true(self, value: str) -> str:
        return f"{value} IN ('true', '1')"


class _Sqlite:
    JOINED = "group_concat(message || CASE outcome WHEN 'errored' THEN fault ELSE '' END, '; ')"
    PEOPLE = "people"
    OBSERVED = ", the_result.*"
    UNOBSERVED = ""

    def value(self, row: str) -> str:
        return row

    def kind(self, row: str) -> str:
        return f"CASE typeof({row}) WHEN 'integer' THEN 'number' WHEN 'real' THEN 'number' ELSE typeof({row}) END"

    def shown(self, value: str, kind: str) -> str:
        return (
            f"CASE {kind} WHEN 'number' THEN CAST({value} AS TEXT) WHEN 'text' THEN quote(substr({value}, 1, {LONGEST})) "
            f"ELSE quote({value}) END"
        )

    def is_finite(self, value: str, kind: str) -> str:
        return f"({kind} <> 'number' OR abs({value}) < 9e999)"

    def number(self, value: str) -> str:
        return value

    def in_code_points(self, value: str) -> str:
        return f"{value} COLLATE BINARY"

    def is_truth(self, value: str, kind: str) -> str:
        del kind
        return f"typeof({value}) = 'integer' AND {value} IN (0, 1)"

    def is_true(self, value: str) -> str:
        return f"{value} = 1"


DIALECTS: Mapping[str, Dialect] = {POSTGRESQL: _PostgreSQL(), SQLITE: _Sqlite()}
