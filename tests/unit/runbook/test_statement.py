import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestate.runbook.statement import statements, tokens, without_semicolon

ENGINES = ["postgresql", "sqlite"]


def texts(sql: str, dialect: str = "postgresql") -> list[str]:
    return [token.text for token in tokens(sql, dialect)]


def count(sql: str, dialect: str = "postgresql") -> int:
    return len(statements(tokens(sql, dialect)))


@pytest.mark.parametrize("dialect", ENGINES)
@pytest.mark.parametrize(
    ("sql", "number"),
    [
        ("", 0),
        (" ;; \n; ", 0),
        ("-- only a comment", 0),
        ("/* only a comment; */", 0),
        ("SELECT 1", 1),
        ("SELECT 1;", 1),
        ("SELECT 1;\n;-- end; really\n/* ; */", 1),
        ("SELECT ';'", 1),
        ("SELECT 'it''s;'", 1),
        ('SELECT "a;""b;"', 1),
        ("SELECT 1 -- ;\n", 1),
        ("SELECT 1; SELECT 2", 2),
        ("SELECT ';'; COMMIT; DROP TABLE a", 3),
        ("SELECT 1 -- '\n; SELECT '2'", 2),
        ("SELECT 1 /* ' */; SELECT '2'", 2),
    ],
)
def test_statements_are_counted_outside_quotes_and_comments(sql: str, number: int, dialect: str) -> None:
    assert count(sql, dialect) == number


@pytest.mark.parametrize(
    ("sql", "postgresql", "sqlite"),
    [
        ("SELECT $$ ; $$", 1, 2),
        ("SELECT $é$ $$ ; $é$", 1, 2),
        ("SELECT /* /* */ ; */ 1", 1, 2),
        (r"SELECT E'\'; ' ", 1, 2),
        ("SELECT a[1;2]", 2, 1),
        ("SELECT `a;b`", 2, 1),
    ],
)
def test_each_engine_reads_it_in_its_own_way(sql: str, postgresql: int, sqlite: int) -> None:
    assert count(sql, "postgresql") == postgresql
    assert count(sql, "sqlite") == sqlite


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a$b$c", ["a$b$c"]),
        ("$1 + $2", ["$", "1", "+", "$", "2"]),
        ("$a$x$b$y$a$", ["$a$x$b$y$a$"]),
        ("1INTO b", ["1", "INTO", "b"]),
        ("1.5e-3.x", ["1.5e-3", ".", "x"]),
        ("tée", ["tée"]),
        ("a\u00a0b", ["a\u00a0b"]),
        ("a--b\nc", ["a", "c"]),
        ("a/**/b", ["a", "b"]),
        ("U&'x'", ["U", "&", "'x'"]),
        (r"e'\\' x", [r"e'\\'", "x"]),
        (r"'\' x", [r"'\'", "x"]),
    ],
)
def test_tokens_of_postgresql(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


@pytest.mark.parametrize("dialect", ENGINES)
@pytest.mark.parametrize("sql", ["SELECT 'a", 'SELECT "a', "SELECT 'a''", "SELECT 1 /* a", "/*/"])
def test_what_is_never_closed_is_seen(sql: str, dialect: str) -> None:
    assert tokens(sql, dialect)[-1].kind == "unclosed"


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT $$ a $", "postgresql"),
        ("SELECT $a$ b $b$", "postgresql"),
        (r"SELECT E'\'", "postgresql"),
        ("SELECT /* /* */", "postgresql"),
        ("SELECT [a", "sqlite"),
        ("SELECT `a", "sqlite"),
    ],
)
def test_what_one_engine_never_closes_is_seen(sql: str, dialect: str) -> None:
    assert tokens(sql, dialect)[-1].kind == "unclosed"


def test_a_name_is_the_same_quoted_or_not() -> None:
    assert [token.identifier for token in tokens('Nextval "NextVal" "a""b" 1 \'x\'', None)] == [
        "nextval",
        "nextval",
        'a"b',
        "",
        "",
    ]
    assert [token.identifier for token in tokens("[Next] `a``b`", "sqlite")] == ["next", "a`b"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1", "SELECT 1"),
        ("\nSELECT 1 ;\n", "SELECT 1"),
        ("SELECT 1; -- the end", "SELECT 1"),
        ("SELECT 1;\n; ;", "SELECT 1"),
        ("SELECT 1 -- why; because", "SELECT 1 -- why; because"),
        ("SELECT ';'", "SELECT ';'"),
        ("SELECT 1; SELECT 2;", "SELECT 1; SELECT 2"),
        (";", ""),
        ("", ""),
    ],
)
def test_the_semicolon_goes_and_the_rest_stays_as_written(sql: str, expected: str) -> None:
    assert without_semicolon(sql, None) == expected


@settings(deadline=None)
@given(st.text(), st.sampled_from(ENGINES))
def test_a_quoted_text_is_one_token_whatever_is_in_it(text: str, dialect: str) -> None:
    string = "'" + text.replace("'", "''") + "'"
    name = '"' + text.replace('"', '""') + '"'

    assert texts(f"SELECT {string}, {name};", dialect) == ["SELECT", string, ",", name, ";"]


@settings(deadline=None)
@given(st.text(), st.from_regex(r"\A[a-z_]{0,3}\Z"))
def test_a_dollar_quoted_text_is_one_token_whatever_is_in_it(text: str, tag: str) -> None:
    quoted = f"${tag}${text}${tag}$"
    inside = text + f"${tag}$"

    if inside.index(f"${tag}$") == len(text):
        assert texts(f"SELECT {quoted}") == ["SELECT", quoted]


@settings(deadline=None)
@given(st.text(alphabet="ab'\"$;-/*\\[]`E \n"), st.sampled_from(ENGINES))
def test_nothing_is_lost_but_space_and_comments(sql: str, dialect: str) -> None:
    """Every token stands where it says, in order, and what lies between is space or a comment."""
    end = 0
    for token in tokens(sql, dialect):
        assert sql.startswith(token.text, token.start)
        assert token.start >= end
        between = sql[end : token.start].strip()
        assert not between or between.startswith(("--", "/*"))
        end = token.start + len(token.text)


def test_a_long_unclosed_text_takes_no_time() -> None:
    assert tokens("'" + "''" * 200_000, None)[-1].kind == "unclosed"
    assert tokens("/*" * 200_000, None)[-1].kind == "unclosed"
    assert tokens("$a$" + "$b$" * 200_000, None)[-1].kind == "unclosed"
