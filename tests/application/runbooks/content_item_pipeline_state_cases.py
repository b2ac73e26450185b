"""A healthy pipeline state, and every way to break it that content-item-pipeline-state must see."""

import time

from support.alembic_runs import Migrations
from support.check_cases import Case, Page, case
from support.servers import Database

STATE = "content_item_pipeline_state"
LAST_ATTEMPT = "idx_cips_pipeline_status_last_attempt"
FIVE = "'pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal'"


def fill(database: Database) -> None:
    """At 0005, with 30 items in both pipelines and all states."""
    Migrations(database).upgrade("0005")
    statuses = ("pending", "in_progress", "processed", "failed_retryable", "failed_terminal")
    rows = (
        f"({number}, '{pipeline}', '{statuses[number % 5]}')"
        for number in range(1, 31)
        for pipeline in ("technical", "fundamental")
    )
    database.run(
        f"INSERT INTO content_items (id) VALUES {', '.join(f'({number})' for number in range(1, 31))}",
        f"INSERT INTO {STATE} (content_item_id, pipeline, status) VALUES {', '.join(rows)}",
        f"UPDATE {STATE} SET error_code = 'timeout', last_attempt_at = created_at WHERE status LIKE 'failed%'",
    )


def rewrite(old: str, new: str) -> tuple[str, ...]:
    """Change a SQLite table's definition in place; a connection made later reads the new one."""
    old, new = (text.replace("'", "''") for text in (old, new))
    return (
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = replace(sql, '{old}', '{new}') WHERE name = '{STATE}'",
    )


def alter(change: str) -> tuple[str, ...]:
    return (f"ALTER TABLE {STATE} {change}",)


def insert(values: str) -> str:
    return f"INSERT INTO {STATE} (content_item_id, pipeline, status) VALUES ({values})"


def reindex(name: str, definition: str) -> tuple[str, ...]:
    return f"DROP INDEX {name}", f"CREATE {definition.replace('@', f'{name} ON {STATE}')}"


def read_in_full(database: Database) -> None:
    """A large table that the scheduler reads from end to end, poll after poll."""
    database.run(
        "INSERT INTO content_items (id) SELECT generate_series(20001, 40000)",
        f"INSERT INTO {STATE} (content_item_id, pipeline, status) "
        "SELECT generate_series(20001, 40000), 'technical', 'pending'",
    )
    with database.begin() as connection:
        for setting in ("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan"):
            connection.exec_driver_sql(f"SET {setting} = off")
        for _ in range(110):
            connection.exec_driver_sql(f"SELECT count(*) FROM {STATE} WHERE status = 'failed_retryable'")
    wait_for_counters(database, 110)


def wait_for_counters(database: Database, scans: int) -> None:
    """A backend hands in what it counted when it ends, which is soon after its client left."""
    counted = (
        f"SELECT max(seq_scan) FROM pg_stat_user_tables WHERE relid = '{STATE}'::regclass "
        f"OR relid IN (SELECT relid FROM pg_partition_tree('{STATE}'))"
    )
    for _ in range(100):
        if int(str(database.value(counted))) >= scans:
            return
        time.sleep(0.05)
    raise AssertionError("the server did not count the scans")


NO_TABLE = "required-columns required-indexes foreign-key status-values pipeline-values"
NO_KEY = "DROP CONSTRAINT fk_cips_content_item"
KEY = "ADD CONSTRAINT fk_cips_content_item FOREIGN KEY (content_item_id) REFERENCES content_items (id)"
ON_DELETE = " ON DELETE CASCADE"
FK_SQLITE = "FOREIGN KEY(content_item_id) REFERENCES content_items (id)"

CASES = (
    case(
        "schema/table-exists",
        "renamed",
        f"ALTER TABLE {STATE} RENAME TO {STATE}_old",
        also=NO_TABLE,
        shows="it is elsewhere, or no table",
    ),
    case(
        "schema/table-exists",
        "a view",
        f"ALTER TABLE {STATE} RENAME TO {STATE}_old",
        f"CREATE VIEW {STATE} AS SELECT * FROM {STATE}_old",
        also=NO_TABLE,
    ),
    case(
        "schema/required-columns", "dropped", *alter("DROP COLUMN processed_at"), shows="missing processed_at"
    ),
    case(
        "schema/required-columns",
        "renamed",
        *alter("RENAME COLUMN error_message TO error_text"),
        shows="missing error_message",
    ),
    Case(
        "schema/required-columns",
        "takes NULL",
        alter("ALTER attempt_count DROP NOT NULL"),
        rewrite("attempt_count INTEGER DEFAULT 0 NOT NULL", "attempt_count INTEGER DEFAULT 0"),
        shows="NULL or not attempt_count",
    ),
    Case(
        "schema/required-columns",
        "never takes NULL",
        (f"UPDATE {STATE} SET error_message = ''", *alter("ALTER error_message SET NOT NULL")),
        rewrite("error_message TEXT", "error_message TEXT NOT NULL"),
    ),
    Case(
        "schema/required-columns",
        "another type",
        alter("ALTER processed_at TYPE timestamp"),
        rewrite("processed_at DATETIME", "processed_at INTEGER"),
        shows="another type processed_at",
    ),
    Case(
        "schema/required-columns",
        "a key of another type",
        (*alter(NO_KEY), *alter("ALTER content_item_id TYPE text")),
        also=frozenset({"schema/foreign-key"}),
    ),
    case(
        "schema/required-indexes",
        "dropped",
        "DROP INDEX idx_cips_error_code",
        shows="missing idx_cips_error_code",
    ),
    case(
        "schema/required-indexes",
        "other columns",
        *reindex("idx_cips_updated_at", "INDEX @ (created_at)"),
        shows="over something else idx_cips_updated_at",
    ),
    case(
        "schema/required-indexes",
        "other order",
        *reindex(LAST_ATTEMPT, "INDEX @ (status, pipeline, last_attempt_at)"),
    ),
    case(
        "schema/required-indexes", "descending", *reindex("idx_cips_updated_at", "INDEX @ (updated_at DESC)")
    ),
    case(
        "schema/required-indexes",
        "not unique",
        *reindex("uix_cips_content_item_pipeline", "INDEX @ (content_item_id, pipeline)"),
        shows="unique or not uix_cips_content_item_pipeline",
    ),
    case(
        "schema/required-indexes",
        "partial",
        *reindex("idx_cips_error_code", "INDEX @ (error_code) WHERE error_code IS NOT NULL"),
    ),
    case(
        "schema/required-indexes",
        "on another table",
        "DROP INDEX idx_cips_error_code",
        "CREATE INDEX idx_cips_error_code ON content_items (id)",
    ),
    Case(
        "schema/required-indexes",
        "INVALID",
        (f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{LAST_ATTEMPT}'::regclass",),
        shows="INVALID idx_cips_pipeline_status_last_attempt",
    ),
    Case("schema/foreign-key", "dropped", alter(NO_KEY), rewrite(FK_SQLITE + ON_DELETE, "CHECK (true)")),
    Case(
        "schema/foreign-key",
        "no cascade",
        (*alter(NO_KEY), *alter(KEY)),
        rewrite(FK_SQLITE + ON_DELETE, FK_SQLITE),
    ),
    Case("schema/foreign-key", "not validated", (*alter(NO_KEY), *alter(f"{KEY}{ON_DELETE} NOT VALID"))),
    Case(
        "schema/foreign-key",
        "to another table",
        (
            "CREATE TABLE other (id bigint PRIMARY KEY)",
            "INSERT INTO other SELECT id FROM content_items",
            *alter(NO_KEY),
            *alter(KEY.replace("content_items", "other") + ON_DELETE),
        ),
        rewrite("REFERENCES content_items", "REFERENCES other"),
    ),
    Case(
        "schema/status-values",
        "dropped",
        alter("DROP CONSTRAINT ck_cips_status"),
        rewrite(f"status IN ({FIVE})", "true"),
    ),
    Case(
        "schema/status-values",
        "widened",
        (
            *alter("DROP CONSTRAINT ck_cips_status"),
            *alter(f"ADD CONSTRAINT ck_cips_status CHECK (status IN ({FIVE}, 'done'))"),
        ),
        rewrite("'failed_terminal')", "'failed_terminal', 'done')"),
    ),
    Case(
        "schema/status-values",
        "one is missing",
        (
            *alter("DROP CONSTRAINT ck_cips_status"),
            f"UPDATE {STATE} SET status = 'pending'",
            *alter(f"ADD CONSTRAINT ck_cips_status CHECK (status IN ({FIVE.rpartition(',')[0]}))"),
        ),
        rewrite(", 'failed_terminal')", ")"),
    ),
    Case(
        "schema/status-values",
        "says nothing",
        (
            *alter("DROP CONSTRAINT ck_cips_status"),
            *alter(f"ADD CONSTRAINT ck_cips_status CHECK (status IN ({FIVE}) OR attempt_count >= 0)"),
        ),
        rewrite("'failed_terminal')", "'failed_terminal') OR attempt_count >= 0"),
    ),
    Case(
        "schema/status-values",
        "not validated",
        (
            *alter("DROP CONSTRAINT ck_cips_status"),
            *alter(f"ADD CONSTRAINT ck_cips_status CHECK (status IN ({FIVE})) NOT VALID"),
        ),
    ),
    Case(
        "schema/pipeline-values",
        "dropped",
        alter("DROP CONSTRAINT ck_cips_pipeline"),
        rewrite("pipeline IN ('technical', 'fundamental')", "true"),
    ),
    Case(
        "schema/pipeline-values",
        "widened",
        (
            *alter("DROP CONSTRAINT ck_cips_pipeline"),
            *alter(
                "ADD CONSTRAINT ck_cips_pipeline CHECK (pipeline IN ('technical', 'fundamental', 'news'))"
            ),
        ),
        rewrite("'fundamental')", "'fundamental', 'news')"),
    ),
    case(
        "operation/duplicate-keys",
        "without the index",
        "DROP INDEX uix_cips_content_item_pipeline",
        insert("1, 'technical', 'pending'"),
        shows="more than one row 1 technical 2",
    ),
    Case(
        "operation/duplicate-keys",
        "beside a unique index that only includes the item",
        (
            "DROP INDEX uix_cips_content_item_pipeline",
            f"CREATE UNIQUE INDEX app_unique ON {STATE} (id, pipeline) INCLUDE (content_item_id)",
            insert("1, 'technical', 'pending'"),
        ),
        shows="more than one row 1 technical 2",
    ),
    Case(
        "operation/invalid-status",
        "without the rule",
        (*alter("DROP CONSTRAINT ck_cips_status"), f"UPDATE {STATE} SET status = 'done' WHERE id = 1"),
        ("PRAGMA ignore_check_constraints = ON", f"UPDATE {STATE} SET status = 'done' WHERE id = 1"),
        shows="no worker knows this status done",
    ),
    Case(
        "operation/invalid-status",
        "NULL",
        (*alter("ALTER status DROP NOT NULL"), f"UPDATE {STATE} SET status = NULL WHERE id = 1"),
    ),
    Case(
        "operation/orphan-rows",
        "without the key",
        (*alter(NO_KEY), "DELETE FROM content_items WHERE id = 3"),
        ("PRAGMA foreign_keys = OFF", "DELETE FROM content_items WHERE id = 3"),
        shows="its content item is gone 5 3 technical",
    ),
    Case(
        "operation/orphan-rows",
        "while the key's triggers are disabled",
        (*alter("DISABLE TRIGGER ALL"), insert("999, 'technical', 'pending'")),
        shows="999 technical",
    ),
    case("operation/index-use", "dropped", f"DROP INDEX {LAST_ATTEMPT}"),
    case("operation/index-use", "the other one", "DROP INDEX idx_cips_pipeline_status_created"),
    Case("operation/index-use", "read in full", read_in_full, shows="the whole table"),
    Case(
        "operation/index-use",
        "INVALID",
        (f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{LAST_ATTEMPT}'::regclass",),
    ),
)

PAGE = Page("content-item-pipeline-state", healthy=fill, cases=CASES, counts=True)
