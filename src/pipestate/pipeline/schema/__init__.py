"""Schema at head, as SQLAlchemy Core tables, for `alembic check` and the pipeline.

Revisions must not import this module, because it changes and a revision stays fixed. The legacy table and
columns that the chain drops are in a separate MetaData.
"""

from pipestate.pipeline.schema.queue import (
    job_results,
    jobs,
    pipeline_reconciliation,
    queue_history,
    worker_heartbeats,
)
from pipestate.pipeline.schema.sites import (
    LEGACY_COLUMNS,
    STAGES,
    content_item_pipeline_state,
    content_items,
    legacy_metadata,
    legacy_sites,
    metadata,
    pipeline_claim,
    pipeline_job,
    site_progress,
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
