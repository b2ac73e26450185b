"""What SQLite cannot read, and how it reads the ledger's names. Token by token: never in literals or comments."""

from collections.abc import Callable, Iterator, Mapping

from pipestate.runbook.statement import Token, tokens

# The ledger's views and tables: `pipestate.soak` on PostgreSQL, `pipestate_soak` on SQLite.
LEDGER = frozenset(
    {
        *("latest_observation", "observed", "soak", "soak_since", "sign_off"),
        *("backfill", "rehearsed", "compat"),
        *("run", "result", "attestation", "observation", "object", "backfill_progress", "rehearsal"),
    }
)

# What SQLite 3.38 has not: words, functions (their name before a parenthesis), pairs of tokens, and types
# before a literal, which it would take for a column with an alias.
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
    """Turn `pipestate.` before a name of the ledger into `pipestate_`, as SQLite reads it.

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
    """Write the SQL of a block as an engine reads it."""
    return _SPELT.get(dialect, str)(sql)


_SPELT: Mapping[str, Callable[[str], str]] = {"sqlite": ledger_names}


def only_postgresql(sql: str) -> list[str]:
    """List what SQLite cannot read of the SQL, as the page writes it, each once.

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
