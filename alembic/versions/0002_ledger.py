"""The ledger: what was verified, signed off, observed and reconciled.

Why: a gate can only ask what is in the database. Runs of verify, people's words, outside facts and
reconciliations are written here first and then checked in SQL like everything else.
Lock: none on existing tables.
Verified by: sites-consolidation, phase `preflight`, whose sign-offs need it.

Revision ID: 0002
Revises: 0001
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from pipestate.ddl import Index, create_table, drop_table, table_of
from pipestate.ddl.objects import create_registry

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    create_registry()  # not there where 0001 was stamped
    create_table(run(), Index("idx_pipestate_run_phase", "pipestate_run", "runbook, phase, recorded_at"))
    create_table(
        attestation(), Index("idx_pipestate_attestation_name", "pipestate_attestation", "name, attested_at")
    )
    create_table(
        observation(), Index("idx_pipestate_observation_name", "pipestate_observation", "name, observed_at")
    )
    create_table(
        reconciliation(),
        Index("idx_pipestate_reconciliation_started_at", "pipestate_reconciliation", "started_at"),
    )


def downgrade() -> None:
    for table in (
        "pipestate_reconciliation",
        "pipestate_observation",
        "pipestate_attestation",
        "pipestate_run",
    ):
        drop_table(table)


def now(name: str) -> sa.Column[Any]:
    return sa.Column(
        name, sa.DateTime(timezone=True), server_default=sa.func.current_timestamp(), nullable=False
    )


def count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, server_default=sa.text("0"), nullable=False)


def run() -> sa.Table:
    return table_of(
        "pipestate_run",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        now("recorded_at"),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("event", sa.String(20), nullable=False),
        sa.Column("runbook", sa.String(100), nullable=False),
        sa.Column("phase", sa.String(100), nullable=False),
        sa.Column("gate", sa.String(20), nullable=False),
        sa.Column("runbook_sha256", sa.String(64), nullable=False),
        sa.Column("revision", sa.String(32)),
        count("passed"),
        count("failed"),
        count("warned"),
        count("errored"),
        count("skipped"),
        sa.Column("duration_ms", sa.Float),
        sa.Column("reason", sa.Text),
        sa.Column("details", JSON),
        sa.PrimaryKeyConstraint("id", name="pk_pipestate_run"),
        sa.CheckConstraint("event IN ('verify', 'gate', 'force', 'purge')", name="ck_pipestate_run_event"),
    )


def attestation() -> sa.Table:
    return table_of(
        "pipestate_attestation",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("attested_by", sa.String, nullable=False),
        sa.Column("note", sa.Text),
        sa.Column("revision", sa.String(32)),
        now("attested_at"),
        sa.PrimaryKeyConstraint("id", name="pk_pipestate_attestation"),
    )


def observation() -> sa.Table:
    return table_of(
        "pipestate_observation",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("source", sa.String(100), nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("revision", sa.String(32)),
        now("observed_at"),
        sa.PrimaryKeyConstraint("id", name="pk_pipestate_observation"),
    )


def reconciliation() -> sa.Table:
    return table_of(
        "pipestate_reconciliation",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        now("started_at"),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("triggered_by", sa.String(20), nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("revision", sa.String(32)),
        count("found"),
        count("recovered"),
        count("skipped"),
        count("failed"),
        sa.Column("details", JSON),
        sa.PrimaryKeyConstraint("id", name="pk_pipestate_reconciliation"),
        sa.CheckConstraint(
            "triggered_by IN ('cron', 'manual')", name="ck_pipestate_reconciliation_triggered_by"
        ),
    )
