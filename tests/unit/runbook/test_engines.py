import pytest

from pipestate.runbook.variants import LEDGER, ledger_names, only_postgresql


@pytest.mark.parametrize("name", sorted(LEDGER))
def test_every_name_of_the_ledger_is_read_without_its_schema(name: str) -> None:
    assert ledger_names(f"SELECT * FROM pipestate.{name} AS x") == f"SELECT * FROM pipestate_{name} AS x"


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        (
            "SELECT pipestate.soak.days_open FROM pipestate.soak",
            "SELECT pipestate_soak.days_open FROM pipestate_soak",
        ),
        ('SELECT * FROM "pipestate"."SOAK"', "SELECT * FROM pipestate_soak"),
        ("SELECT * FROM PIPESTATE . Run", "SELECT * FROM pipestate_run"),
        ("SELECT * FROM pipestate.run, pipestate.result", "SELECT * FROM pipestate_run, pipestate_result"),
    ],
)
def test_names_are_read_however_they_are_written(sql: str, read: str) -> None:
    assert ledger_names(sql) == read


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'pipestate.soak'",
        "SELECT 1 -- pipestate.soak",
        "SELECT 1 /* pipestate.soak */",
        "SELECT pipestate.sites",
        "SELECT main.pipestate.soak",
        "SELECT pipestate_soak.days_open",
        "SELECT my_pipestate.soak",
        "pipestate.",
        "",
    ],
)
def test_nothing_else_is_touched(sql: str) -> None:
    assert ledger_names(sql) == sql


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT now()", ["now()"]),
        ("SELECT a - interval '1 day'", ["interval"]),
        ("SELECT a::text", ["::"]),
        ("SELECT 1 FROM pg_class", ["pg_class"]),
        ("SELECT 1 FROM a, LATERAL (SELECT 1) b", ["LATERAL"]),
        ("SELECT pg_catalog.to_regclass('a')", ["pg_catalog"]),
        ("SELECT a ILIKE 'b', c ~ 'd', e !~* 'f'", ["ILIKE", "~", "!~"]),
        ("SELECT DISTINCT ON (a) a FROM b", ["DISTINCT ON"]),
        ("SELECT a AT TIME ZONE 'UTC'", ["TIME ZONE"]),
        ("SELECT extract(epoch FROM a), date_trunc('day', b)", ["extract()", "date_trunc()"]),
        ("SELECT E'a', $$b$$", ["E'…", "$$…"]),
        ("SELECT ARRAY[1] @> b", ["ARRAY", "@>"]),
        ("SELECT 1 FROM information_schema.columns", ["information_schema"]),
        ("SELECT a FROM b WHERE c > date '2026-01-01'", ["date '…'"]),
        ("SELECT a IS DISTINCT FROM b", ["DISTINCT FROM"]),
        ("SELECT now(), now()", ["now()"]),
    ],
)
def test_what_sqlite_cannot_read_is_named_once(sql: str, found: list[str]) -> None:
    assert only_postgresql(sql) == found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'now()', 'a::b' -- interval, pg_class, LATERAL",
        "SELECT count(*) FILTER (WHERE a > 0), round(coalesce(100.0 * a / nullif(b, 0), 0), 1) FROM c LEFT JOIN d ON true",
        'SELECT a.now, "interval", "pg_class" FROM a',
        "SELECT substr(a, 1, 2) AS age, b AS left FROM c WHERE d IN ('array') ORDER BY 1 NULLS FIRST",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n",
        "SELECT date(a), ~b, julianday('now', '-1 day') FROM c",
        "SELECT DISTINCT a FROM b",
    ],
)
def test_what_both_engines_read_is_not(sql: str) -> None:
    assert only_postgresql(sql) == []
