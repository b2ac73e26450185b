"""Expand: results, heartbeats and history of the new queue, and a view of silent workers.

Why: the cut-over from the old poller is judged on what both systems did. An existing `job_results`
without `idempotency_key` gets it: the column, a key for each row made from its id, a unique index,
NOT NULL; and a default, so that writers who know nothing of keys go on. `queue_history` has no
foreign keys: history outlives the job and the worker that it tells of.
Lock: on `jobs`, SHARE ROW EXCLUSIVE for as long as it takes to declare the foreign keys; on an
adopted `job_results`, ACCESS EXCLUSIVE for milliseconds at a time.
Verified by: queue-cutover, phase `dual-write`.

Revision ID: 0005
Revises: 0004
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from pipestate.ddl import Index, add_checks, add_columns, add_foreign_key, create_index, lock_tables
from pipestate.migration.adoption import (
    KeyOf,
    Shape,
    create_table,
    create_view,
    drop_columns,
    drop_constraint,
    drop_index,
    drop_table,
    drop_view,
    refuse_wrong_shapes,
    require_not_null,
    set_default,
    table_of,
)

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")

RESULT_STATUS = {"ck_job_results_status": "status IN ('submitting', 'submitted', 'failed', 'skipped')"}
RESULT_INDEXES = (
    Index("uix_job_results_idempotency_key", "job_results", "idempotency_key", unique=True),
    Index("idx_job_results_job_created", "job_results", "job_id, created_at DESC"),
    Index("idx_job_results_status_created", "job_results", "status, created_at DESC"),
)
# For the checks of the cut-over, which look at the jobs of a day.
JOB_INDEX = Index("idx_jobs_created_at", "jobs", "created_at")
HISTORY_INDEXES = (
    Index("idx_queue_history_job_id", "queue_history", "job_id"),
    Index("idx_queue_history_event", "queue_history", "event"),
    Index("idx_queue_history_created_at", "queue_history", "created_at"),
)

# Every status counts: a worker that is silent while starting, paused or in error needs attention too.
STALE_WORKERS = """SELECT worker_id, queue_name, status, current_job_id, last_heartbeat,
       CAST(EXTRACT(EPOCH FROM (now() - last_heartbeat)) AS bigint) AS seconds_since
  FROM worker_heartbeats
 WHERE last_heartbeat < now() - INTERVAL '2 minutes'"""
STALE_WORKERS_SQLITE = """SELECT worker_id, queue_name, status, current_job_id, last_heartbeat,
       CAST(strftime('%s', 'now') - strftime('%s', last_heartbeat) AS INTEGER) AS seconds_since
  FROM worker_heartbeats
 WHERE datetime(last_heartbeat) < datetime('now', '-2 minutes')"""


def upgrade() -> None:
    refuse_wrong_shapes(
        [
            Shape(
                "job_results",
                key="id",
                columns=("id", "job_id", "directory_name", "status", "created_at"),
            ),
            Shape(
                "worker_heartbeats",
                key="worker_id",
                columns=("worker_id", "queue_name", "status", "current_job_id", "last_heartbeat"),
            ),
            Shape("queue_history", key="id", columns=("id", "job_id", "event", "created_at")),
        ]
    )
    create_table(jobs())  # not there where 0001 was stamped
    lock_tables("jobs", mode="SHARE ROW EXCLUSIVE")  # for the foreign keys
    create_table(job_results(), *RESULT_INDEXES)
    create_table(worker_heartbeats())
    create_table(queue_history(), *HISTORY_INDEXES)
    create_view(
        "stale_workers",
        {"postgresql": STALE_WORKERS, "sqlite": STALE_WORKERS_SQLITE},
        comment="Workers of any status that have been silent for more than two minutes; "
        "one that is gone for good leaves it when its row in worker_heartbeats is deleted",
    )
    adopt_job_results()
    create_index(*RESULT_INDEXES, *HISTORY_INDEXES, JOB_INDEX)


def adopt_job_results() -> None:
    add_columns(adopted_columns())
    set_default("job_results", "idempotency_key", "'adopted:' || gen_random_uuid()")
    require_not_null("job_results", "id", {"idempotency_key": "'adopted:' || id"})
    add_foreign_key("job_results", "fk_job_results_job", "job_id", "jobs", on_delete="CASCADE")
    add_checks("job_results", RESULT_STATUS)


def downgrade() -> None:
    tables = ("queue_history", "worker_heartbeats", "job_results")
    lock_tables("jobs", *tables)
    drop_view("stale_workers")
    for table in tables:
        drop_table(table)
    drop_index(*(index.name for index in (*RESULT_INDEXES, *HISTORY_INDEXES, JOB_INDEX)))
    for name in RESULT_STATUS:
        drop_constraint("job_results", name)
    drop_constraint("job_results", "fk_job_results_job")
    drop_columns("job_results", [column.name for column in adopted_columns().columns])


def time(name: str) -> sa.Column[Any]:
    return sa.Column(
        name, sa.DateTime(timezone=True), server_default=sa.func.current_timestamp(), nullable=False
    )


def jobs() -> sa.Table:
    return table_of(
        "jobs",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("customer_id", sa.String),
        sa.Column("package_size", sa.Integer),
        sa.Column("status", sa.String, server_default="pending", nullable=False),
        time("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )


def job_results() -> sa.Table:
    return table_of(
        "job_results",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("job_id", KeyOf("jobs.id"), nullable=False),
        sa.Column("directory_name", sa.String, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("idempotency_key", sa.String, nullable=False),
        sa.Column("payload", JSON),
        sa.Column("response_log", JSON),
        sa.Column("listing_url", sa.Text),
        sa.Column("error_message", sa.Text),
        time("created_at"),
        time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_job_results"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_results_job", ondelete="CASCADE"),
        *(sa.CheckConstraint(condition, name=name) for name, condition in RESULT_STATUS.items()),
    )


def adopted_columns() -> sa.Table:
    """What an existing `job_results` may lack."""
    return table_of(
        "job_results",
        sa.Column("idempotency_key", sa.String),
        sa.Column("payload", JSON),
        sa.Column("response_log", JSON),
        sa.Column("listing_url", sa.Text),
        sa.Column("error_message", sa.Text),
        time("updated_at"),
    )


def worker_heartbeats() -> sa.Table:
    return table_of(
        "worker_heartbeats",
        sa.Column("worker_id", sa.String, nullable=False),
        sa.Column("queue_name", sa.String, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("current_job_id", KeyOf("jobs.id")),
        sa.Column("queue_depth", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("processing_count", sa.Integer, server_default=sa.text("0"), nullable=False),
        time("last_heartbeat"),
        sa.Column("metadata", JSON),
        sa.PrimaryKeyConstraint("worker_id", name="pk_worker_heartbeats"),
        sa.ForeignKeyConstraint(
            ["current_job_id"], ["jobs.id"], name="fk_worker_heartbeats_job", ondelete="SET NULL"
        ),
        sa.CheckConstraint(
            "status IN ('starting', 'idle', 'running', 'paused', 'error')",
            name="ck_worker_heartbeats_status",
        ),
    )


def queue_history() -> sa.Table:
    return table_of(
        "queue_history",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("job_id", KeyOf("jobs.id")),
        sa.Column("directory_name", sa.String),
        sa.Column("event", sa.String(50), nullable=False),
        sa.Column("details", JSON),
        sa.Column("worker_id", sa.String),
        time("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_queue_history"),
    )
