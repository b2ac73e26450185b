"""Backfill of the pipeline: sites stalled in OCR get counters from the storage directory.

1. `plan` reads the stale rows of `site_progress`, counts the documents of each site, and decides
   about it (stale_rows.py). It is read-only.
2. `apply` writes exactly that plan, in batches of one transaction each. Sites that changed in the
   meantime stay unchanged, so repeated, killed or concurrent runs are safe.
"""

import json
from collections.abc import Callable

from sqlalchemy import URL, Connection, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InternalError

from pipestate.backfill.loop import BatchLoop, fixed_or_adapted
from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.database import connections as db
from pipestate.pipeline.backfill.stale_rows import NO_DOCUMENTS, STALE, BackfillPlan, SiteCounts
from pipestate.pipeline.backfill.stale_rows import plan as plan
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.schema import sites
from pipestate.pipeline.sql import NOW, fill
from pipestate.pipeline.stages import THRESHOLD, error_text

LARGEST_BATCH = 10_000  # larger batches are slower, and workers wait for their rows

# The last batch waits for the server's disk, and so for all earlier ones; so do batches after a refusal.
PREPARE = """
SELECT set_config('enable_nestloop', 'off', true),
       set_config('synchronous_commit', :synchronous, true)
"""

# A site that waits for its coordinator gets a time just past the threshold, `:past` seconds ago. The
# reconciler sees it at once, and the age of an old row is not mistaken for its waiting time.
UPDATE = """
UPDATE sites
SET current_stage = CASE WHEN v.total = 0 THEN 'completed' ELSE 'ocr' END,
    ocr_total = v.total,
    ocr_completed = v.completed,
    ocr_failed = v.total - v.completed,
    coordinator_enqueued = false,
    started_at = coalesce({started_at}, {time}),
    updated_at = CASE WHEN v.total = 0 THEN {time} ELSE {past} END,
    last_error_stage = CASE WHEN v.total = 0 THEN 'ocr' ELSE sites.last_error_stage END,
    last_error_message = CASE WHEN v.total = 0 THEN '{no_documents}' ELSE sites.last_error_message END,
    last_error_at = CASE WHEN v.total = 0 THEN {time} ELSE sites.last_error_at END
FROM {values}
JOIN site_progress p ON p.subdomain = v.subdomain
WHERE sites.subdomain = v.subdomain
  AND sites.current_stage IS NULL
  AND {stale}{and_in_range}
RETURNING sites.subdomain
"""
# PostgreSQL knows the length of an array, and so updates the sites of a batch in the order of their keys.
PARTS = {
    "postgresql": {
        "time": "now()",
        "past": "now() - :past * interval '1 second'",
        "started_at": "p.started_at",
        "values": "unnest(:sites::text[], :completed::int[], :totals::int[])"
        " AS v(subdomain, completed, total)",
        "and_in_range": """
  AND sites.subdomain BETWEEN :first AND :last
  AND p.subdomain BETWEEN :first AND :last""",
    },
    "sqlite": {
        "time": NOW["sqlite"],
        "past": "strftime('%Y-%m-%d %H:%M:%f000', 'now', -:past || ' seconds')",
        "started_at": "strftime('%Y-%m-%d %H:%M:%f000', p.started_at)",
        "values": "(SELECT value ->> 0 AS subdomain, value ->> 1 AS completed, value ->> 2 AS total"
        " FROM json_each(:rows)) AS v",
        "and_in_range": "",
    },
}
Outcomes = dict[str, Result[SiteCounts]]  # by subdomain

PREPARE_SQL = {"postgresql": (fill("postgresql", PREPARE),), "sqlite": ()}
UPDATE_SQL = {
    engine: fill(engine, UPDATE, stale=STALE[engine], no_documents=NO_DOCUMENTS, **parts)
    for engine, parts in PARTS.items()
}


def apply(
    url: URL,
    plan: BackfillPlan,
    *,
    batch_size: int | None = None,
    on_progress: Progress = no_progress,
    on_wait: Callable[[str], None] = lambda _: None,
) -> list[Result[SiteCounts]]:
    """Write the plan; a result differs from it if the site changed or its row was refused.

    Without a size, a batch has the number of sites that takes about 200 ms.
    """
    require_batch_size(batch_size)
    pace = fixed_or_adapted(batch_size, largest=LARGEST_BATCH)
    with db.reachable(url), db.engine_for(url).connect() as plain:
        writer = SiteWriter(plain.execution_options(isolation_level="AUTOCOMMIT"), "sites", pace, on_wait)
        return writer.write(plan, on_progress)


def require_batch_size(size: int | None) -> None:
    """Refuse an invalid number of sites, or one that would make workers wait."""
    if size is not None and not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"--batch-size {size}: give a number of sites from 1 to {LARGEST_BATCH}")


class SiteWriter(BatchLoop[Outcomes]):
    """Sites in plan order, in batches.

    A rule or a trigger of the application may refuse a row. Then the batch is halved until only that site fails;
    later batches grow again. A rerun repeats the work that a server crash loses.
    """

    def write(self, plan: BackfillPlan, on_progress: Progress) -> list[Result[SiteCounts]]:
        self.to_do = [result.subject for result in plan.to_do]
        self.threshold, self.on_progress = plan.threshold, on_progress
        self.begin = self.end = 0  # of the batch, in the plan
        self.limit = LARGEST_BATCH
        self.otherwise: Outcomes = {}
        self.walk()
        return [self.otherwise.get(result.subject.subdomain, result) for result in plan.expected]

    def batch(self, size: int) -> Outcomes | None:
        """Update the sites with one statement; return those with another outcome."""
        self.end = min(self.begin + min(size, self.limit), len(self.to_do))
        counts, dialect = self.to_do[self.begin : self.end], self.connection.dialect.name
        if not counts:
            return None
        durable = self.end == len(self.to_do) or self.limit < LARGEST_BATCH
        for statement in PREPARE_SQL[dialect]:
            self.connection.exec_driver_sql(statement, {"synchronous": "on" if durable else "off"})
        parameters = {
            **VALUES[dialect](counts),
            "age": self.threshold.total_seconds(),
            "past": max(self.threshold, THRESHOLD).total_seconds()
            + 1,  # seconds, just past the stuck threshold
            "first": counts[0].subdomain,
            "last": counts[-1].subdomain,
        }
        result = self.connection.exec_driver_sql(UPDATE_SQL[dialect], parameters)
        if result.rowcount == len(counts):
            return {}
        written = set(result.scalars())
        left = [site.subdomain for site in counts if site.subdomain not in written]
        return _what_became_of(self.connection, left) if left else {}

    def committed(self, done: Outcomes) -> bool:
        self.otherwise |= done
        self.begin, self.limit = self.end, self.limit * 2
        self.on_progress(self.end, len(self.to_do))
        return self.end < len(self.to_do)

    def refused(self, error: DBAPIError) -> None:
        """Halve the batch; a single site that is refused fails alone."""
        if not isinstance(error, IntegrityError | DataError | InternalError):
            raise error
        self.limit = max((self.end - self.begin) // 2, 1)
        if self.end - self.begin == 1:
            name = self.to_do[self.begin].subdomain
            self.otherwise[name] = Result(
                SiteCounts(name), SubjectOutcome.FAILED, error_text(str(error.orig))
            )
            self.begin = self.end


def _as_arrays(counts: list[SiteCounts]) -> dict[str, str]:
    r"""Render literals of arrays, which PostgreSQL reads much faster than a long expression.

    >>> print(_as_arrays([SiteCounts('a"b', 1, 2), SiteCounts("c.gov", 3, 4)])["sites"])
    {"a\"b","c.gov"}
    """
    names, completed, totals = zip(*counts, strict=True)
    quoted = (name.replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return {
        "sites": '{"' + '","'.join(quoted) + '"}',
        "completed": f"{{{','.join(map(str, completed))}}}",
        "totals": f"{{{','.join(map(str, totals))}}}",
    }


VALUES: dict[str, Callable[[list[SiteCounts]], dict[str, str]]] = {
    "postgresql": _as_arrays,
    "sqlite": lambda counts: {"rows": json.dumps(counts)},
}


def _what_became_of(connection: Connection, names: list[str]) -> Outcomes:
    """Return the outcome of the unwritten sites, by their current stage."""
    query = select(sites.c.subdomain, sites.c.current_stage).where(sites.c.subdomain.in_(names))
    stages: dict[str, str | None] = {row[0]: row[1] for row in connection.execute(query)}
    found = {}
    for name in names:
        outcome, reason = SubjectOutcome.MOVED_ON, None
        if name not in stages:
            outcome, reason = SubjectOutcome.ORPHANED, "the site was deleted in the meantime"
        elif stages[name] is None:
            reason = "site_progress was written again in the meantime"
        found[name] = Result(SiteCounts(name), outcome, reason)
    return found
