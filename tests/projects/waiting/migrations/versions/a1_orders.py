"""Orders, a log of them, and functions that take 5 ms a row: small tables that make writers wait"""

from alembic import op

revision = "a1"
down_revision = None

SLOW = "CREATE FUNCTION slow({0}) RETURNS {0} IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN {1} RETURN $1; END $$"


def upgrade() -> None:
    op.execute("CREATE TABLE orders (id integer PRIMARY KEY, total integer NOT NULL, note text)")
    op.execute("CREATE TABLE order_log (id integer PRIMARY KEY, line text)")
    for kind in ("integer", "text"):
        op.execute(SLOW.format(kind, "PERFORM pg_sleep(0.005);"))
    op.execute("INSERT INTO orders SELECT g, g, 'note' FROM generate_series(1, 80) g")


def downgrade() -> None:
    op.execute("DROP TABLE order_log, orders")
    op.execute("DROP FUNCTION slow(integer), slow(text)")
