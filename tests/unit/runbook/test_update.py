"""A backfill's UPDATE: what lint requires of it, a batch of it, and what is left of it."""

from collections.abc import Callable

import pytest

from pipestate.runbook.lint import findings
from pipestate.runbook.model import Backfill, Phase
from pipestate.runbook.update import matching, with_range, without_range

Told = list[tuple[int, str]]
GOOD = "UPDATE orders SET state = 'new' WHERE id BETWEEN :first AND :last AND state IS NULL;"


def block(sql: str = GOOD, *, table: str = "orders", key: str = "id", id: str = "state") -> str:
    return f"```sql\n-- backfill: {id}\n-- table: {table}\n-- key: {key}\n{sql}\n```\n"


def backfill(sql: str, *, table: str = "orders", key: str = "id") -> Backfill:
    return Backfill("state", 1, sql.removesuffix(";"), table, key, block="book.md:1")


@pytest.mark.parametrize(
    "sql",
    [
        GOOD,
        "UPDATE orders SET state = 'new' WHERE state IS NULL AND id BETWEEN :'first' AND :'last';",
        "UPDATE orders SET state = 'new' WHERE id >= :first AND id <= :last AND state IS NULL;",
        "UPDATE ONLY orders o SET state = c.state FROM customers c WHERE c.id = o.customer AND o.id BETWEEN :first"
        " AND :last AND o.state IS DISTINCT FROM c.state;",
        "UPDATE orders AS o SET (a, b) = (SELECT 1, 2 FROM x WHERE x.id BETWEEN :first AND :last) "
        "WHERE o.id BETWEEN :first AND :last AND (o.a IS NULL OR o.b IS NULL);",
        "UPDATE orders SET at = old::timestamptz, note = ':first' WHERE orders.id BETWEEN :first AND :last AND at IS NULL;",
        "UPDATE orders SET n = CASE WHEN paid THEN 1 END WHERE CASE WHEN a OR b THEN n END = 0 AND id BETWEEN :first AND :last;",
        "INSERT INTO lines (order_id) SELECT o.id FROM orders AS o LEFT JOIN lines l ON l.order_id = o.id "
        "WHERE l.order_id IS NULL AND o.id BETWEEN :first AND :last ON CONFLICT DO NOTHING;",
        "INSERT INTO s.lines SELECT id, n IS DISTINCT FROM 1 FROM orders WHERE id BETWEEN :first AND :last AND "
        "NOT EXISTS (SELECT 1 FROM s.lines l WHERE l.order_id = orders.id OR l.x);",
        "update Orders set n = 1 where ORDERS.ID between :first and :last and n is null;",
    ],
)
def test_one_update_over_a_range_of_its_key_is_right(sql: str, findings_in: Callable[[str], Told]) -> None:
    assert findings_in(block(sql)) == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 1;", "begins with SELECT: a backfill is an UPDATE"),
        ("INSERT INTO lines VALUES (1);", "inserts rows that it does not read"),
        ("INSERT INTO lines SELECT id FROM orders;", "has no WHERE"),
        (
            "INSERT INTO lines SELECT id FROM lines WHERE id BETWEEN :first AND :last AND n = 0;",
            "reads lines, and",
        ),
        (
            "INSERT INTO orders SELECT id FROM orders WHERE id BETWEEN :first AND :last AND n = 0;",
            "inserts into orders",
        ),
        (
            "INSERT INTO lines SELECT id FROM orders WHERE id BETWEEN :first AND :last ON CONFLICT DO NOTHING;",
            "has no condition beside the range",
        ),
        (
            "INSERT INTO lines SELECT n FROM orders WHERE id BETWEEN :first AND :last AND n = 0 GROUP BY 1;",
            "has a GROUP",
        ),
        (f"{GOOD} DELETE FROM orders;", "2 statements in one block"),
        ("UPDATE orders SET n = 1;", "has no WHERE: write `WHERE id BETWEEN :first AND :last AND …`"),
        ("UPDATE orders SET n = 1 WHERE n IS NULL;", "does not use the range"),
        ("UPDATE orders SET n = 1 WHERE id >= :first AND n IS NULL;", "does not use the range"),
        (
            "UPDATE orders SET n = 1 WHERE NOT id BETWEEN :first AND :last AND n IS NULL;",
            "does not use the range",
        ),
        (
            "UPDATE orders SET n = 1 FROM c WHERE c.id BETWEEN :first AND :last AND n IS NULL;",
            "does not use the range",
        ),
        (
            "UPDATE orders SET n = 1 WHERE CASE WHEN true AND id BETWEEN :first AND :last AND n = 0 THEN true END AND n = 0;",
            "does not use the range",
        ),
        ("UPDATE orders SET n = 1 WHERE (id BETWEEN :first AND :last) AND n = 0;", "does not use the range"),
        ("UPDATE orders SET n = 1 WHERE total BETWEEN :first AND :last AND n = 0;", "does not use the range"),
        (
            "UPDATE orders SET n = 1 WHERE id BETWEEN :first AND :last OR n IS NULL;",
            "has an OR beside the range",
        ),
        ("UPDATE orders SET n = 1 WHERE id BETWEEN :first AND :last;", "has no condition beside the range"),
        ("UPDATE orders SET n = 1 WHERE id >= :first AND id <= :last;", "has no condition beside the range"),
        ("UPDATE orders SET n = :size WHERE id BETWEEN :first AND :last;", "uses :size, which nothing sets"),
        (
            "UPDATE orders SET n = :first WHERE id BETWEEN :first AND :last AND n = 0;",
            "uses :first outside of its range",
        ),
        (
            "UPDATE lines SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0;",
            "updates lines, and `-- table:`",
        ),
        ("UPDATE s.orders SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0;", "updates s.orders, and"),
        (
            "UPDATE orders SET n = 1 WHERE id BETWEEN :first AND :last AND n = 0 RETURNING id;",
            "has a RETURNING, and a batch",
        ),
    ],
)
def test_what_is_refused(sql: str, said: str, findings_in: Callable[[str], Told]) -> None:
    ((line, message),) = findings_in(block(sql))
    assert line == 1
    assert message.startswith(f"backfill state: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (block(key="id, part"), "`-- key: id, part`: write one column, as id; odd names go in double quotes"),
        (block().replace("-- key: id\n", ""), "backfill state names no key: add `-- key: id`"),
        (block().replace("-- table: orders\n", ""), "backfill state names no table: add `-- table: orders`"),
        (block().replace("-- key", "-- ky"), "unknown directive `-- ky:`: did you mean `-- key:`?"),
        (
            block().replace("-- table", "-- require"),
            "`-- require:` is not allowed in a block with `-- backfill:`: take the line out",
        ),
        (
            block().replace("-- backfill: state\n", ""),
            "`-- table:` without `-- backfill:`: name the backfill",
        ),
        (block(id="good"), "id good appears twice in one phase"),
    ],
)
def test_directives(text: str, said: str, findings_in: Callable[[str], Told]) -> None:
    assert any(message.startswith(said) for _, message in findings_in(text)), findings_in(text)


def test_an_id_stands_once_on_a_page() -> None:
    check = "```sql\n-- check: {0}\n-- require: n = 1\nSELECT 1 AS n, '{0}';\n```\n"
    one, two = (f"## Phase: {name}\n\n{check.format(name)}\n" for name in ("one", "two"))
    other = block(GOOD.replace("new", "old"))
    text = f"---\nrunbook: sample\nphases:\n  one:\n  two:\n---\n{one}{block()}\n{two}{other}"
    assert [finding.message for finding in findings(text, "sample.md")] == [
        "backfill state: that id is used at sample.md:15 already: give it another id"
    ]


def test_a_block_is_no_check(phase_of: Callable[[str], Phase]) -> None:
    phase = phase_of(block() + "\n```sql\n-- check: c\n-- require: rows = 0\nSELECT 1;\n```\n")
    assert [check.id for check in phase.checks] == ["c"]
    (found,) = phase.backfills_for("sqlite")
    assert (found.id, found.table, found.key, found.block) == ("state", "orders", "id", "sample.md:9")


def test_sqlite_may_have_a_variant(findings_beside: Callable[[str, str], list[str]]) -> None:
    body = block("UPDATE orders SET at = now() WHERE id BETWEEN :first AND :last AND at IS NULL;")
    variant = "UPDATE orders SET at = datetime('now') WHERE id BETWEEN :first AND :last AND at IS NULL;"
    beside = "## Phase: ready\n\n```sql\n-- backfill: {}\n" + variant + "\n```\n"
    assert findings_beside(body, beside.format("state")) == []
    (said, foreign) = sorted(findings_beside(body, beside.format("stat")))
    assert "SQLite does not know `now()`" in said
    assert "backfill stat has no block of that id in this phase" in foreign


def test_a_batch_has_values_where_the_variables_stand() -> None:
    sql = "UPDATE orders SET n = 1, note = ':first' WHERE id BETWEEN :first AND :'last' AND at = '1'::date"
    assert with_range(sql, None, "1", "'2'::uuid") == (
        "UPDATE orders SET n = 1, note = ':first' WHERE id BETWEEN 1 AND '2'::uuid AND at = '1'::date"
    )


def test_what_is_left_is_evaluated_without_the_range() -> None:
    sql = (
        "UPDATE ONLY orders o SET state = c.state IS DISTINCT FROM 'x'\nFROM customers c, LATERAL (SELECT 1) l\n"
        "WHERE c.id = o.customer AND o.id >= :first AND o.id <= :last AND o.state IS NULL"
    )
    assert without_range(matching(backfill(sql)), None) == (
        "FROM ONLY orders o,\ncustomers c, LATERAL (SELECT 1) l\n"
        "WHERE c.id = o.customer AND true AND true AND o.state IS NULL"
    )
