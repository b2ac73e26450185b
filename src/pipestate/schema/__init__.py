"""The schema at head, as SQLAlchemy Core tables: what `alembic check` compares and the pipeline uses.

Revisions do not import this: it moves on, a revision does not. The legacy table and columns that the
chain drops are in a MetaData of their own.
"""

from pipestate.schema.base import STAGES, legacy_metadata, metadata
from pipestate.schema.legacy import LEGACY_COLUMNS, legacy_sites, site_progress
from pipestate.schema.queue import job_results, jobs, queue_history, worker_heartbeats
from pipestate.schema.reconciliation import pipeline_reconciliation
from pipestate.schema.sites import (
    content_item_pipeline_state,
    content_items,
    pipeline_claim,
    pipeline_job,
    sites,
)

__all__ = [
    "LEGACY_COLUMNS",
    "STAGES",
    "content_item_pipeline_state",
    "content_items",
    "job_results",
    "jobs",
    "legacy_metadata",
    "legacy_sites",
    "metadata",
    "pipeline_claim",
    "pipeline_job",
    "pipeline_reconciliation",
    "queue_history",
    "site_progress",
    "sites",
    "worker_heartbeats",
]
