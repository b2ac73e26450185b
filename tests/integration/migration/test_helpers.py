"""The helpers in other people's revisions: idempotent, also in scripts, under a plain env.py."""

from io import StringIO

import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from pipestate.ddl import (
    Index,
    add_checks,
    add_columns,
    add_foreign_key,
    create_index,
    lock_tables,
    update_in_batches,
)
from pipestate.migration.adoption import (
    KeyOf,
    create_table,
    drop_columns,
    drop_constraint,
    drop_index,
    drop_table,
    require_not_null,
    table_of,
)
from pipestate.migration.failure import MigrationError
from support.alembic_runs import psql
from support.revision_context import revision
from support.servers import Database


def change() -> None:
    """An ordinary revision of an application with orders and customers."""
    create_table(
        table_of(
            "notes",
            sa.Column("id", sa.BigInteger, sa.Identity(), nullable=False),
            sa.Column("customer_id", KeyOf("customers.id")),
            sa.PrimaryKeyConstraint("id", name="pk_notes"),
        ),
        Index("idx_notes_customer", "notes", "customer_id"),
    )
    add_columns(table_of("orders", sa.Column("paid", sa.Boolean, server_default=sa.false(), nullable=False)))
    require_not_null("orders", "id", {"amount": "0"})
    add_checks("orders", {"ck_orders_amount": "amount >= 0"})
    add_foreign_key("orders", "fk_orders_customer", "customer_id", "customers", on_delete="CASCADE")
    create_index(Index("idx_orders_paid", "orders", "paid", where="paid = false"))
    lock_tables("orders")


def undo() -> None:
    drop_index("idx_orders_paid")
    drop_constraint("orders", "fk_orders_customer")
    drop_constraint("orders", "ck_orders_amount")
    drop_columns("orders", ["paid"])
    drop_table("notes")


@pytest.fixture
def shop(pg: Database) -> Database:
    pg.run(
        "CREATE TABLE customers (id uuid PRIMARY KEY DEFAULT gen_random_uuid())",
        "CREATE TABLE orders (id int PRIMARY KEY, amount int, customer_id uuid, note text DEFAULT 'n/a')",
        "INSERT INTO orders SELECT n, CASE WHEN n % 2 = 0 THEN n END, NULL, 'note ' || n FROM generate_series(1, 5000) n",
    )
    return pg


def shape(database: Database) -> list[tuple[object, ...]]:
    return database.rows(
        "SELECT conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint "
        "WHERE conrelid IN ('orders'::regclass, to_regclass('notes')) AND contype <> 'n' "
        "UNION SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
        "WHERE attrelid IN ('orders'::regclass, to_regclass('notes')) AND attnum > 0 AND NOT attisdropped "
        "UNION SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid FROM pg_index "
        "WHERE indrelid = 'orders'::regclass ORDER BY 1, 2"
    )


def test_a_change_can_be_made_twice_and_undone(shop: Database) -> None:
    before = shape(shop)
    with revision(shop):
        change()
    made = shape(shop)
    assert shop.value("SELECT count(*) FROM orders WHERE amount = 0") == 2500
    with revision(shop):
        change()
    assert shape(shop) == made, "the second time something was done"
    assert (
        shop.value(
            "SELECT data_type FROM information_schema.columns WHERE table_name = 'notes' AND column_name = 'customer_id'"
        )
        == "uuid"
    )
    with revision(shop, down=True):
        undo()
    left = [row for row in shape(shop) if row not in before]
    assert left == [("amount", "integer", True)], "NOT NULL stays, everything else is as it was"


def test_a_script_makes_the_same_change(shop: Database, pg: Database) -> None:
    script = StringIO()
    with revision(shop, script):
        change()
    done = psql(shop, script.getvalue(), "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 0, done.stderr
    by_script = shape(shop)
    with revision(shop):
        change()
    assert shape(shop) == by_script, "online there was still something to do"


def test_batches_commit_by_themselves_or_say_that_they_cannot(shop: Database) -> None:
    work = "UPDATE orders SET note = 'x' WHERE {range}"
    with revision(shop):
        update_in_batches("orders", "id", work, size=700)
    assert shop.value("SELECT count(*) FROM orders WHERE note = 'x'") == 5000
    with shop.engine.connect() as connection, connection.begin():
        context = MigrationContext.configure(connection)
        with Operations.context(context), pytest.raises(MigrationError, match="begun outside Alembic"):
            update_in_batches("orders", "id", work)
    with shop.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"transaction_per_migration": True})
        with (
            Operations.context(context),
            context.begin_transaction(_per_migration=True),
            context.autocommit_block(),
        ):
            update_in_batches("orders", "id", work.replace("'x'", "'y'"))
    assert shop.value("SELECT count(*) FROM orders WHERE note = 'y'") == 5000


COPY = """INSERT INTO notes (order_id, note) SELECT id, note FROM orders WHERE {range} AND note IS NOT NULL
ON CONFLICT (order_id) DO NOTHING"""


@pytest.mark.parametrize("script", [False, True], ids=["online", "script"])
def test_batches_may_insert_what_they_select(shop: Database, script: bool) -> None:
    """The range is one of the table that is read; run again, nothing is copied twice."""
    shop.run("CREATE TABLE notes (order_id int PRIMARY KEY, note text)")
    for _ in range(2):
        text = StringIO() if script else None
        with revision(shop, text):
            update_in_batches("orders", "id", COPY, size=700)
        if text is not None:
            done = psql(shop, text.getvalue(), "-v", "ON_ERROR_STOP=1")
            assert done.returncode == 0, done.stderr
        assert shop.value("SELECT count(*) FROM notes JOIN orders USING (note) WHERE order_id = id") == 5000


def test_batches_by_a_key_of_several_columns(pg: Database) -> None:
    pg.run(
        "CREATE TABLE parts (a text, b uuid, n int DEFAULT 0, PRIMARY KEY (a, b))",
        "INSERT INTO parts SELECT (i / 7)::text, md5(i::text)::uuid FROM generate_series(1, 100) i",
    )
    with revision(pg):
        update_in_batches("parts", (), "UPDATE parts SET n = n + 1 WHERE {range}", size=9)
    assert pg.rows("SELECT DISTINCT n FROM parts") == [(1,)], "a row was left out, or came twice"
