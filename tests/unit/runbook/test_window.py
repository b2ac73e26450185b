import pytest

from pipestate.runbook.directives import is_length, stands_in, with_length

SQL = "SELECT '24 hours' AS \"24 hours\", interval '124 hours', '24 hourspan', 24 hours -- 24 hours"


@pytest.mark.parametrize("text", ["1 second", "30 minutes", "24 hours", "1 day", "168 hours"])
def test_a_length_is_a_number_and_a_unit(text: str) -> None:
    assert is_length(text)


@pytest.mark.parametrize(
    "text", ["", "24h", "a day", "0 hours", "-1 hours", "1.5 hours", "24  hours", "1 week", "24 Hours"]
)
def test_anything_else_is_none(text: str) -> None:
    assert not is_length(text)


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite", None])
def test_only_whole_lengths_inside_literals_are_replaced(dialect: str | None) -> None:
    assert with_length(SQL, "24 hours", "2 days", dialect) == SQL.replace(
        "SELECT '24 hours'", "SELECT '2 days'"
    )


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT now() - interval '24 hours'", "postgresql"),
        ("SELECT now() - '24 hours'::interval", "postgresql"),
        ("SELECT $$24 hours$$", "postgresql"),
        ("SELECT datetime('now', '-24 hours')", "sqlite"),
        ("SELECT 'no write for 24 hours'", None),
    ],
)
def test_a_length_stands_in_a_literal(sql: str, dialect: str | None) -> None:
    assert stands_in(sql, "24 hours", dialect)
    assert "48 hours" in with_length(sql, "24 hours", "48 hours", dialect)


@pytest.mark.parametrize(
    "sql", ["SELECT 24 hours", "SELECT '124 hours'", "SELECT 1 -- '24 hours'", "SELECT '2.24 hours'"]
)
def test_elsewhere_it_does_not(sql: str) -> None:
    assert not stands_in(sql, "24 hours", None)


def test_every_occurrence_is_replaced() -> None:
    sql = "SELECT a FROM b WHERE c > now() - interval '24 hours' AND d > now() - interval '24 hours'"

    assert with_length(sql, "24 hours", "7 days", None) == sql.replace("24 hours", "7 days")
