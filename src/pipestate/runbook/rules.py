"""Lint rules for SQL: PostgreSQL-only syntax, ledger names on SQLite, criteria. Rules compare tokens."""

from collections.abc import Callable, Iterator, Mapping

from pipestate.runbook.directives import stands_in
from pipestate.runbook.model import Backfill, Check, Evidence, View, is_for_postgresql
from pipestate.runbook.statement import Token, tokens

# Views and tables of the ledger: `pipestate.soak` on PostgreSQL, `pipestate_soak` on SQLite.
LEDGER = frozenset(
    {
        *("latest_observation", "observed", "soak", "soak_since", "sign_off"),
        *("backfill", "rehearsed", "compat"),
        *("run", "result", "attestation", "observation", "object", "backfill_progress", "rehearsal"),
    }
)

# Syntax missing from SQLite 3.38: words, functions (a name before a parenthesis), pairs of tokens, and types
# before a literal, which SQLite would parse as a column with an alias.
WORDS = frozenset(
    {"interval", "lateral", "ilike", "similar", "array", "regclass", "information_schema", "tablesample"}
)
FUNCTIONS = frozenset(
    {
        *("now", "clock_timestamp", "statement_timestamp", "extract", "date_part", "date_trunc", "age"),
        *("to_char", "to_timestamp", "to_date", "make_interval", "to_regclass", "to_regnamespace"),
        *("generate_series", "unnest", "array_agg", "any", "bool_and", "bool_or", "every", "jsonb_agg"),
        *("string_agg", "split_part", "left", "right", "greatest", "least", "position", "starts_with"),
        *("regexp_replace", "regexp_match", "regexp_matches", "regexp_count", "percentile_cont"),
        *("percentile_disc", "current_setting", "has_table_privilege", "row_to_json", "to_jsonb"),
        *("jsonb_array_elements", "jsonb_each", "json_array_elements", "lpad", "rpad", "md5", "format_type"),
        *("concat", "concat_ws", "char_length", "rollup", "cube", "obj_description", "col_description"),
    }
)
PAIRS = frozenset(
    {
        *((":", ":"), ("@", ">"), ("<", "@"), ("!", "~"), ("&", "&"), ("DISTINCT", "ON"), ("TIME", "ZONE")),
        *(("DISTINCT", "FROM"), ("FETCH", "FIRST"), ("FETCH", "NEXT"), ("FULL", "JOIN"), ("FULL", "OUTER")),
        *(("RIGHT", "JOIN"), ("RIGHT", "OUTER")),
    }
)
TYPES = frozenset({"date", "time", "timestamp", "timestamptz"})


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
    return _SPELT.get(dialect, str)(sql)


_SPELT: Mapping[str, Callable[[str], str]] = {"sqlite": ledger_names}


def only_postgresql(sql: str) -> list[str]:
    """List the PostgreSQL-only parts of the SQL as written, each once.

    >>> only_postgresql("SELECT a::text, 'now()' FROM pg_class WHERE b > now() - interval '1 day'")
    ['::', 'pg_class', 'now()', 'interval']
    """
    return list(dict.fromkeys(_foreign(tokens(sql, "postgresql"))))


def _foreign(seen: list[Token]) -> Iterator[str]:
    for before, token, after in zip([None, *seen], seen, [*seen[1:], None], strict=False):
        if before is None or before.text != ".":
            yield from _foreign_word(token, after)
        if token.kind == "string" and token.text[0] in "eE$":
            yield token.text[:2] + "…"
        if after is not None and (token.keyword or token.text, after.keyword or after.text) in PAIRS:
            yield f"{token.text} {after.text}" if token.keyword else token.text + after.text
        if token.text == "~" and after is not None and (after.kind == "string" or after.text == "*"):
            yield "~"


def _foreign_word(token: Token, after: Token | None) -> Iterator[str]:
    if token.kind != "word":
        return
    name = token.identifier
    if name in FUNCTIONS and after is not None and after.text == "(":
        yield f"{token.text}()"
    elif name in WORDS or name.startswith("pg_"):
        yield token.text
    elif name in TYPES and after is not None and after.kind == "string":
        yield f"{token.text} {after.text}"


# Rules beyond a plain read, which keep verdicts and rows truthful.


Query = Check | Evidence | View | Backfill

AGE = "age_seconds"


def faults(check: Check) -> Iterator[str]:
    """Find conflicts between a check's SQL and its directives, each with a fix."""
    if check.require.shows_own_rows and cuts_rows(check.sql, check.dialect):
        yield (
            f"LIMIT hides rows from `{check.require.text}`: take it out; "
            "the first rows are shown, and all are counted"
        )
    if check.window and check.again is None and not stands_in(check.sql, check.window, check.dialect):
        yield (
            f"`-- window: {check.window}` stands in no literal of its SQL, so it could not be another: "
            f"write the length there as '{check.window}', or take the line out"
        )
    if not asks_age(check):
        yield (
            f"an observation may be a year old: add `and {AGE} <= 3600`, or the like, to what it requires "
            f"of latest_observation (or compare {AGE} in its SQL)"
        )


def foreign(query: Query) -> Iterator[str]:
    """Name the PostgreSQL-only parts of a block that SQLite must also run."""
    if is_for_postgresql(query) or not (found := only_postgresql(query.sql)):
        return
    shown = ", ".join(f"`{each}`" for each in found[:3])
    yield f"SQLite does not know {shown}{' and others' if len(found) > 3 else ''}"


def asks_age(check: Check) -> bool:
    """Tell whether a check on the newest observation also checks its age."""
    seen = tokens(check.sql, check.dialect)
    if not any(token.identifier == "latest_observation" for token in seen):
        return True
    if any(each.column.lower() == AGE for each in check.require.comparisons):
        return True
    return any(
        token.identifier == AGE and not _is_only_shown(before, after)
        for before, token, after in zip([None, *seen], seen, [*seen[1:], None], strict=False)
    )


def _is_only_shown(before: Token | None, after: Token | None) -> bool:
    """Tell whether a column is a plain item of the SELECT list."""
    begins = before is None or before.text in (",", ".") or before.keyword in ("SELECT", "DISTINCT")
    return begins and (after is None or after.text in (",", ")") or after.keyword in ("FROM", "AS"))


def cuts_rows(sql: str, dialect: str | None) -> bool:
    """Tell whether a LIMIT or FETCH FIRST at the top level of the statement cuts its rows.

    >>> cuts_rows("SELECT a FROM b LIMIT 10", None), cuts_rows("SELECT (SELECT a FROM b LIMIT 1)", None)
    (True, False)
    """
    top = list(_top_level(_without_parentheses(tokens(sql, dialect))))
    if top and top[0].keyword == "EXPLAIN":
        return False  # the row count of a plan is fixed
    return any(
        _cuts(before, token, after) for before, token, after in zip(top, top[1:], top[2:], strict=False)
    )


def _cuts(before: Token, token: Token, after: Token) -> bool:
    if before.text == "." or before.keyword == "AS":
        return False
    return token.keyword == "LIMIT" or (token.keyword == "FETCH" and after.keyword in ("FIRST", "NEXT"))


def _top_level(seen: list[Token]) -> Iterator[Token]:
    depth = 0
    for token in seen:
        depth -= token.text == ")"
        if depth == 0:
            yield token
        depth += token.text == "("


def _without_parentheses(seen: list[Token]) -> list[Token]:
    """Remove pairs of parentheses that enclose the whole statement."""
    while len(seen) > 2 and seen[0].text == "(" and _closes_last(seen):
        seen = seen[1:-1]
    return seen


def _closes_last(seen: list[Token]) -> bool:
    depth = 0
    for place, token in enumerate(seen, start=1):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return place == len(seen)
    return False
