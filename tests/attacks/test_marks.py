"""The mark of a passed gate is of its revision, its body and its tables: nothing else goes by it."""

import pytest

from attacks.orders import AT_B2, BODY, CONTRACT, State, approve, assert_refused, state_of
from attacks.project import Project
from attacks.psql import feed, statements

D4 = "migrations/versions/d4_after_orders.py"
CREATES = 'op.execute("CREATE TABLE after_orders (id int PRIMARY KEY)")'
IMPORTS = "from pipestate.migration.adoption import drop_table\n"


def customers(project: Project) -> object:
    return project.database.value("SELECT count(*) FROM customers")


@pytest.fixture
def shop(gated: Project) -> Project:
    """The attacked project, its gate open, with a table of customers that no page mentions."""
    approve(gated)
    gated.database.run("CREATE TABLE customers (id int PRIMARY KEY)", "INSERT INTO customers VALUES (1), (2)")
    return gated


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_a_later_revision_archives_nothing_by_an_earlier_ones_mark(shop: Project, script: bool) -> None:
    """With the stock env.py both run in one transaction."""
    shop.edit(D4, (CREATES, 'drop_table("customers")'), ("from alembic import op\n", IMPORTS))
    if script:
        said = shop.script("b2:head")
        feed(shop.database, said)
    else:
        done = shop.alembic("upgrade", "head")
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert "no gate was passed for it" in done.stdout + done.stderr
    assert customers(shop) == 2


@pytest.mark.parametrize("end", ["-- $stmt", "-- $pipestate", "-- $stmt$ $stmt_", "/* $check$ */"])
def test_a_body_that_ends_in_half_a_quote_is_one_statement(gated: Project, end: str) -> None:
    gated.edit(CONTRACT, ("DROP TABLE old_orders", f"DROP TABLE old_orders {end}"))
    script = gated.script("b2:c3")
    feed(gated.database, script)
    assert state_of(gated.database) == AT_B2
    approve(gated)
    said = feed(gated.database, script)
    assert state_of(gated.database) == State("c3", None), said


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
def test_a_gate_on_an_empty_table_lets_no_other_table_go(gated: Project, script: bool) -> None:
    """The gate is closed; where what it locks is empty, nothing is asked."""
    gated.database.run(
        "CREATE TABLE customers (id int PRIMARY KEY)",
        "INSERT INTO customers VALUES (1), (2)",
        "CREATE TABLE empty_one ()",
    )
    gated.edit(
        CONTRACT,
        ('lock=["old_orders"]', 'lock=["empty_one"]'),
        ('op.execute("DROP TABLE old_orders")', 'drop_table("customers")'),
        ("from alembic import op\n", IMPORTS),
    )
    if script:
        said = feed(gated.database, gated.script("b2:c3"))
        assert state_of(gated.database) == AT_B2
    else:
        done = gated.alembic("upgrade", "c3")
        assert_refused(done, gated.database)
        said = done.stdout + done.stderr
    assert "has not locked" in said
    assert customers(gated) == 2


LOCKED_BEFORE = {
    "locked": "LOCK TABLE old_orders IN ACCESS EXCLUSIVE MODE",
    "changed": "ALTER TABLE old_orders ADD COLUMN more int",
}


def lock_before_gate(project: Project, how: str, *, earlier: bool) -> str:
    """Have the revision of the gate, or the one before it, lock the table; return where the run starts."""
    statement = f"op.execute({LOCKED_BEFORE[how]!r})"
    if not earlier:
        project.edit(CONTRACT, ("    with gate(", f"    {statement}\n    with gate("))
        return "b2"
    head = "def upgrade() -> None:\n"
    project.edit("migrations/versions/b2_new_orders.py", (head, f"{head}    {statement}\n"))
    project.database.run("DROP TABLE new_orders", "UPDATE alembic_version SET version_num = 'a1'")
    return "a1"


@pytest.mark.parametrize("way", ["alembic", "psql", "guarded", "guarded psql"])
@pytest.mark.parametrize("earlier", [False, True], ids=["same revision", "earlier revision"])
@pytest.mark.parametrize("how", LOCKED_BEFORE)
def test_a_table_that_was_locked_before_the_gate_is_not_the_gates(
    gated: Project, how: str, earlier: bool, way: str
) -> None:
    """Its rows were not looked at, whoever holds its lock."""
    gated.database.run("CREATE TABLE empty_one ()")
    gated.edit(CONTRACT, ('lock=["old_orders"]', 'lock=["empty_one"]'))
    if "guarded" in way:
        gated.use_environment("guarded")
    start = lock_before_gate(gated, how, earlier=earlier)
    if "psql" in way:
        said = feed(gated.database, gated.script(f"{start}:head"))
    else:
        done = gated.alembic("upgrade", "head")
        said = done.stdout + done.stderr
    assert "destroys something of old_orders, which its gate has not locked" in said
    assert state_of(gated.database) == State(start, 3)


@pytest.mark.parametrize("script", [False, True], ids=["alembic", "psql"])
@pytest.mark.parametrize("earlier", [False, True], ids=["same revision", "earlier revision"])
@pytest.mark.parametrize("how", LOCKED_BEFORE)
def test_a_table_that_was_locked_before_its_own_gate_goes(
    gated: Project, how: str, earlier: bool, script: bool
) -> None:
    approve(gated)
    start = lock_before_gate(gated, how, earlier=earlier)
    if script:
        said = feed(gated.database, gated.script(f"{start}:head"))
    else:
        said = gated.alembic("upgrade", "head").stderr
    assert state_of(gated.database) == State("d4", None, after=True), said


@pytest.mark.parametrize("way", ["alembic", "psql", "guarded", "guarded psql"])
@pytest.mark.parametrize("rows", ["false", "true"])
def test_a_gate_locks_no_view(gated: Project, rows: str, way: str) -> None:
    """Its lock reaches the tables below it, and its rows say nothing of theirs."""
    gated.database.run(f"CREATE VIEW some_orders AS SELECT * FROM old_orders WHERE {rows}")
    gated.edit(
        CONTRACT,
        ('lock=["old_orders"]', 'lock=["some_orders"]'),
        ("DROP TABLE old_orders", "DROP TABLE old_orders CASCADE"),
    )
    if "guarded" in way:
        gated.use_environment("guarded")
    if "psql" in way:
        said = feed(gated.database, gated.script("b2:head"))
    else:
        done = gated.alembic("upgrade", "head")
        said = done.stdout + done.stderr
    assert "locks some_orders, which is a view" in said
    assert state_of(gated.database) == AT_B2


def test_a_gate_on_an_empty_table_lets_no_drop_of_another_through_the_guard(gated: Project) -> None:
    """A statement of one's own names no table to pipestate: the guard compares, and the gate was not asked."""
    gated.use_environment("guarded")
    gated.database.run("CREATE TABLE empty_one ()")
    gated.edit(CONTRACT, ('lock=["old_orders"]', 'lock=["empty_one"]'))
    assert_refused(
        gated.alembic("upgrade", "c3"), gated.database, "something of old_orders, which its gate has not"
    )
    gated.edit(CONTRACT, ('lock=["empty_one"]', 'lock=["empty_one", "old_orders"]'))
    gated.database.run("DELETE FROM old_orders")
    done = gated.alembic("upgrade", "c3")
    assert state_of(gated.database) == State("c3", None), done.stderr


# What destroys something of a table that the gate has not locked.
ELSEWHERE = {
    "a table": "DROP TABLE customers",
    "a table, in a block": "DO $$ BEGIN DROP TABLE customers; END $$",
    "a table, by its schema": "DROP SCHEMA shop CASCADE",
    "a column": "ALTER TABLE customers DROP COLUMN name",
    "rows": "TRUNCATE customers",
    "rows by DELETE": "DELETE FROM customers",
    "rows of partitions": "DELETE FROM events",
    "rows of a table that points at it": "TRUNCATE old_orders CASCADE",
    "a partition": "DROP TABLE events",
    "deferred trigger": (
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN DROP TABLE customers; RETURN NULL; END'; "
        "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON shop.kept DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION f(); INSERT INTO shop.kept VALUES (2)"
    ),
}
OTHERS = (
    "CREATE SCHEMA shop",
    "CREATE TABLE shop.kept AS SELECT 1 AS id",
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "INSERT INTO customers VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE lines (id int REFERENCES old_orders)",
    "INSERT INTO lines SELECT id FROM old_orders",
    "CREATE TABLE events (id int) PARTITION BY RANGE (id)",
    "CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (10)",
    "INSERT INTO events VALUES (1)",
    "CREATE TABLE empty_one ()",
)


def others(project: Project) -> list[tuple[object, ...]]:
    query = (
        "SELECT (SELECT string_agg(c::text, ' ') FROM customers c), (SELECT count(*) FROM shop.kept), "
        "(SELECT count(*) FROM lines), (SELECT count(*) FROM events)"
    )
    return project.database.rows(query)


@pytest.mark.parametrize("how", ["alembic", "psql", "guarded", "guarded psql"])
@pytest.mark.parametrize("lock", ["empty_one", "old_orders"])
@pytest.mark.parametrize("form", ELSEWHERE)
def test_the_body_of_a_gate_destroys_nothing_that_the_gate_has_not_locked(
    gated: Project, form: str, lock: str, how: str
) -> None:
    """Neither where its own table was empty and nothing was asked, nor where the gate was open."""
    gated.database.run(*OTHERS)
    approve(gated)
    if "guarded" in how:
        gated.use_environment("guarded")
    gated.edit(
        CONTRACT,
        ('lock=["old_orders"]', f'lock=["{lock}"]'),
        ('"DROP TABLE old_orders"', repr(ELSEWHERE[form])),
    )
    before = others(gated)
    if "psql" in how:
        said = feed(gated.database, gated.script("b2:c3"), "-v", "ON_ERROR_ROLLBACK=on")
        assert state_of(gated.database) == AT_B2, said
    else:
        done = gated.alembic("upgrade", "c3")
        assert_refused(done, gated.database)
        said = done.stdout + done.stderr
    assert "has not locked" in said or " loses " in said
    assert others(gated) == before


@pytest.mark.parametrize("how", ["alembic", "psql", "guarded"])
def test_the_body_of_a_gate_may_change_other_tables(gated: Project, how: str) -> None:
    """What loses nothing needs no lock of the gate's, and tables of this revision are its own."""
    gated.database.run(*OTHERS, "DROP TABLE lines")
    approve(gated)
    if how == "guarded":
        gated.use_environment("guarded")
    body = (
        "CREATE TABLE scratch AS SELECT 1 AS id",
        "DROP TABLE old_orders",
        "ALTER TABLE customers ADD COLUMN fresh text, ALTER COLUMN name SET NOT NULL",
        "ALTER TABLE customers RENAME COLUMN name TO title",
        "DROP TABLE scratch",
        "DROP TABLE empty_one",
        "DELETE FROM customers WHERE id = 1",
        "ALTER TABLE shop.kept SET SCHEMA public",
    )
    gated.edit(CONTRACT, (BODY, "\n        ".join(f"op.execute({each!r})" for each in body)))
    if how == "psql":
        said = feed(gated.database, gated.script("b2:head"))
    else:
        said = gated.alembic("upgrade", "head").stderr
    assert state_of(gated.database) == State("d4", None, after=True), said


def test_a_reason_goes_through_the_gate_with_all_that_its_body_does(gated: Project) -> None:
    gated.database.run(*OTHERS)
    gated.edit(CONTRACT, ('"DROP TABLE old_orders"', '"DROP TABLE customers"'))
    done = gated.alembic("-x", "force=a reason", "upgrade", "c3")
    assert done.returncode == 0, done.stderr
    assert gated.database.value("SELECT to_regclass('customers') IS NULL") is True


BODIES = {
    "a comment that looks like Alembic's": '"-- Running the cleanup\\nDROP TABLE old_orders"',
    "a comment that announces a revision": '"-- Running upgrade b2 -> c3\\nDROP TABLE old_orders"',
    "an empty statement first": '"; DROP TABLE old_orders"',
    "parentheses": '"(SELECT purge_all())"',
    "a comment that ends in a carriage return": '"-- now\\rDROP TABLE old_orders"',
    "a comment around it": '"/* now */ DROP TABLE old_orders"',
}


@pytest.mark.parametrize("body", BODIES)
def test_whatever_the_body_looks_like_it_waits_for_the_mark(gated: Project, body: str) -> None:
    """Pasted from each statement on, behind a gate that is closed."""
    gated.database.run(
        "CREATE FUNCTION purge_all() RETURNS void LANGUAGE plpgsql AS $$ BEGIN DROP TABLE old_orders; END $$"
    )
    gated.edit(CONTRACT, ('"DROP TABLE old_orders"', BODIES[body]))
    parts = statements(gated.script("b2:c3"))
    for number in range(len(parts)):
        feed(
            gated.database,
            "\\set ON_ERROR_ROLLBACK on\n" + "".join(parts[number:]).replace("ON_ERROR_STOP on", ""),
        )
        assert state_of(gated.database) == AT_B2, f"{body}, from statement {number} on"


def test_a_comment_in_the_body_leaves_no_mark_of_its_own(gated: Project) -> None:
    """One that announces a revision, as Alembic does, before what must not run."""
    gated.edit(
        CONTRACT,
        (
            'op.execute("DROP TABLE old_orders")',
            'op.execute("-- Running upgrade b2 -> c3")\n        op.execute("DROP TABLE old_orders")',
        ),
    )
    script = "\\set ON_ERROR_ROLLBACK on\n" + gated.script("b2:c3").replace(
        "ON_ERROR_ROLLBACK off", "ON_ERROR_ROLLBACK on"
    )
    feed(gated.database, script.replace("ON_ERROR_STOP on", "ON_ERROR_STOP off"))
    assert state_of(gated.database) == AT_B2


@pytest.mark.parametrize("body", [body for body in BODIES if "parentheses" not in body])
def test_an_open_gate_lets_the_same_bodies_through(gated: Project, body: str) -> None:
    approve(gated)
    gated.edit(CONTRACT, ('"DROP TABLE old_orders"', BODIES[body]))
    said = feed(gated.database, gated.script("b2:c3"))
    assert gated.database.value("SELECT to_regclass('old_orders') IS NULL") is True, said
    assert gated.database.value("SELECT version_num FROM alembic_version") == "c3"
