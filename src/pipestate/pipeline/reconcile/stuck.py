"""Stuck sites: the single definition, equal to the runbook's checks, and the hook for missing jobs.

A site is stuck when its stage is not `completed`, and its last update is older than two hours or unknown.
"""

import importlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, RowMapping

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.pipeline.queues.config import SECTION
from pipestate.pipeline.sql import fill, quoted
from pipestate.pipeline.stages import COMPLETED, STAGES, STEPS, THRESHOLD_HOURS, UnknownSite, step_of


class Counters(NamedTuple):
    """Job counts of a stage: total, completed and failed."""

    total: int
    completed: int
    failed: int

    @property
    def ended(self) -> bool:
        return self.completed + self.failed >= self.total

    @property
    def in_vain(self) -> bool:
        """Check for a stage with jobs of which none succeeded."""
        return self.total > 0 and self.completed == 0


@dataclass(frozen=True, slots=True)
class StuckSite:
    """A site at the time of reading; a changed `version` reveals a later write."""

    subdomain: str
    stage: str
    version: str | None
    hours: float | None
    claimed: bool
    attempts: int
    counters: Mapping[str, Counters]
    last_error: str | None

    @property
    def step(self) -> tuple[str, ...]:
        return step_of(self.stage)


# The condition is that of the runbook's checks, so that the index on the stage serves both. Attempts count for
# the site's step only: a claim of an earlier step is ignored. The time of the last write, as text, distinguishes
# versions of a row.
STUCK = """
SELECT s.subdomain, s.current_stage, s.coordinator_enqueued, s.last_error_message, {counters},
       CAST(s.updated_at AS VARCHAR) AS version, {age} AS hours,
       CASE WHEN {claimed_here} THEN c.attempts ELSE 0 END AS attempts
FROM sites s
LEFT JOIN pipeline_claim c ON c.subdomain = s.subdomain
WHERE (s.current_stage < '{completed}' OR s.current_stage > '{completed}')
  AND {is_older}{and_named}
ORDER BY s.updated_at IS NOT NULL, hours DESC, s.subdomain
"""
CLAIMED_HERE = " OR ".join(
    f"s.current_stage IN ({quoted(step)}) AND c.stage IN ({quoted(step)})" for step in STEPS
)
COUNTERS = ", ".join(f"s.{stage}_{what}" for stage in STAGES for what in Counters._fields)
# Hours since the last update by the server's clock, and the test that it is older than that or unknown.
AGE = {
    "postgresql": {
        "age": "extract(epoch FROM now() - s.updated_at) / 3600.0",
        "is_older": "(s.updated_at IS NULL OR now() - :hours * interval '1 hour' > s.updated_at)",
    },
    "sqlite": {
        "age": "(julianday('now') - julianday(s.updated_at)) * 24.0",
        "is_older": "(julianday(s.updated_at) IS NULL"
        " OR julianday('now') - :hours / 24.0 > julianday(s.updated_at))",
    },
}
SAME = {"completed": COMPLETED, "claimed_here": CLAIMED_HERE, "counters": COUNTERS}
STUCK_SQL = {
    (engine, named): fill(engine, STUCK, and_named=and_named, **SAME, **parts)
    for engine, parts in AGE.items()
    for named, and_named in ((False, ""), (True, "\n  AND s.subdomain = :site"))
}
KNOWN_SQL = {engine: fill(engine, "SELECT 1 FROM sites WHERE subdomain = :site") for engine in AGE}


def find_stuck(
    conn: Connection, hours: float = THRESHOLD_HOURS, subdomain: str | None = None
) -> list[StuckSite]:
    """Read all stuck sites, longest first; or the given site, if it is stuck."""
    engine, parameters = conn.dialect.name, {"site": subdomain, "hours": hours}
    if subdomain is not None and conn.exec_driver_sql(KNOWN_SQL[engine], parameters).first() is None:
        raise UnknownSite(subdomain)
    found = conn.exec_driver_sql(STUCK_SQL[engine, subdomain is not None], parameters)
    return [_site(row) for row in found.mappings()]


def _site(row: RowMapping) -> StuckSite:
    counters = {stage: Counters(*(row[f"{stage}_{what}"] for what in Counters._fields)) for stage in STAGES}
    return StuckSite(
        row["subdomain"],
        row["current_stage"],
        row["version"],
        None if row["hours"] is None else float(row["hours"]),
        bool(row["coordinator_enqueued"]),
        row["attempts"],
        counters,
        row["last_error_message"],
    )


# Query the application for unsuccessful jobs of a stage, through the function named in the ini.


# Takes subdomain and stage; returns the keywords of each unsuccessful job, or None if unknown.
Missing = Callable[[str, str], "list[dict[str, Any]] | None"]


class HookFailed(PipestateError):
    """The application's function raised an error or returned an invalid list of keywords."""


def nobody_knows(subdomain: str, stage: str) -> None:
    """Return None for an application without a configured function."""


def load_missing(path: str | None) -> Missing:
    """Import the application's function on its first call; its errors become HookFailed."""
    if path is None:
        return nobody_knows

    def read_site(subdomain: str, stage: str) -> list[dict[str, Any]] | None:
        module, _, name = path.rpartition(".")
        try:
            hook = getattr(importlib.import_module(module), name)
        except Exception as error:  # an import may raise any exception
            message = f"[{SECTION}] names missing = {path}, which cannot be imported: {error}"
            raise ConfigError(message) from error
        try:
            answer = hook(subdomain, stage)
            return None if answer is None else [_keywords(kwargs) for kwargs in answer]
        except Exception as error:  # application code may raise any exception
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise HookFailed(f"{path} does not say which {stage} jobs are missing: {reason}") from error

    return read_site


def _keywords(kwargs: Any) -> dict[str, Any]:
    """Refuse values that cannot be sent as keywords."""
    found = dict(kwargs)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"{found} are no keywords")
    pickle.dumps(found)
    return found
