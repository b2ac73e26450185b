"""Backfill of the pipeline: sites stalled in OCR get counters from the storage directory.

1. `plan` reads the stale rows of `site_progress`, counts the documents of each site, and decides
   about it (stale_rows.py). It is read-only.
2. `apply` writes exactly that plan, in batches of one transaction each. Sites that changed in the
   meantime stay unchanged, so repeated, killed or concurrent runs are safe.
"""

import json
import time
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import URL, Connection, select
from sqlalchemy.exc import DataError, IntegrityError, InternalError, OperationalError

from pipestate.backfill.forecast import fixed_or_adapted
from pipestate.backfill.session import is_locked
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.progress import Progress, no_progress
from pipestate.database import connections as db
from pipestate.pipeline.backfill.stale_rows import NO_DOCUMENTS, STALE, BackfillPlan, SiteCounts
from pipestate.pipeline.backfill.stale_rows import plan as plan
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.schema import sites
from pipestate.pipeline.sql import NOW, fill
from pipestate.pipeline.stages import THRESHOLD, error_text

LARGEST_BATCH = 10_000  # larger batches are slower, and workers wait for their rows
LOCK_TIMEOUT_S = 10

# One backfill writes at a time, for the duration of a batch, which prevents deadlocks between two of them. If
# another session holds a row, the batch gives up early, so that writers do not queue for its rows. A batch is
# a range of keys, always read through the index, regardless of statistics.
PREPARE = """
SELECT set_config('lock_timeout', '{lock_timeout}s', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_nestloop', 'off', true),
       set_config('synchronous_commit', :synchronous, true),
       pg_advisory_xact_lock(1885958255, 1650550635)
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
PREPARE_SQL = {"postgresql": (fill("postgresql", PREPARE, lock_timeout=str(LOCK_TIMEOUT_S)),), "sqlite": ()}
UPDATE_SQL = {
    engine: fill(engine, UPDATE, stale=STALE[engine], no_documents=NO_DOCUMENTS, **parts)
    for engine, parts in PARTS.items()
}


def apply(
    url: URL, plan: BackfillPlan, *, batch_size: int | None = None, on_progress: Progress = no_progress
) -> list[Result[SiteCounts]]:
    """Write the plan; a result differs from it if the site changed or its row was refused.

    Without a size, a batch has the number of sites that takes about 200 ms.
    """
    require_batch_size(batch_size)
    to_do, end = plan.to_do, 0
    pace = fixed_or_adapted(batch_size, largest=LARGEST_BATCH)
    otherwise: dict[str, Result[SiteCounts]] = {}
    with db.reachable(url), db.engine_for(url).connect() as connection:
        while end < len(to_do):
            start, end, began = end, min(end + pace.size, len(to_do)), time.monotonic()
            otherwise |= write(connection, to_do[start:end], plan.threshold, last=end == len(to_do))
            pace = pace.after(time.monotonic() - began)
            on_progress(end, len(to_do))
    return [otherwise.get(result.subject.subdomain, result) for result in plan.expected]


def require_batch_size(size: int | None) -> None:
    """Refuse an invalid number of sites, or one that would make workers wait."""
    if size is not None and not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"--batch-size {size}: give a number of sites from 1 to {LARGEST_BATCH}")


def write(
    connection: Connection, expected: list[Result[SiteCounts]], threshold: timedelta, *, last: bool = True
) -> dict[str, Result[SiteCounts]]:
    """Write the sites in plan order, in one transaction; return those with another outcome.

    If the database refuses a row (by a rule or a trigger of the application), the batch is halved until only
    that site fails and the others continue. Only the last batch waits for the server's disk, and so for all
    earlier batches. A rerun repeats the work that a server crash loses.
    """
    try:
        with connection.begin():
            left = _update(connection, [result.subject for result in expected], threshold, last=last)
            return _what_became_of(connection, left) if left else {}
    except (IntegrityError, DataError, InternalError) as error:
        if len(expected) > 1:
            half = len(expected) // 2
            first = write(connection, expected[:half], threshold, last=last)
            return first | write(connection, expected[half:], threshold, last=last)
        name = expected[0].subject.subdomain
        return {name: Result(SiteCounts(name), SubjectOutcome.FAILED, error_text(str(error.orig)))}
    except OperationalError as error:
        if is_locked(error):
            first_name, last_name = expected[0].subject.subdomain, expected[-1].subject.subdomain
            raise Unreachable(
                f"somebody kept a row of sites locked between {first_name} and {last_name}:"
                " what is done stays done; run the same again"
            ) from error
        raise


def _update(
    connection: Connection, counts: list[SiteCounts], threshold: timedelta, *, last: bool
) -> list[str]:
    """Update the sites with one statement; return the names of the unwritten sites."""
    for statement in PREPARE_SQL[connection.dialect.name]:
        connection.exec_driver_sql(statement, {"synchronous": "on" if last else "off"})
    parameters = {
        **VALUES[connection.dialect.name](counts),
        "age": threshold.total_seconds(),
        "past": max(threshold, THRESHOLD).total_seconds() + 1,  # seconds, just past the stuck threshold
        "first": counts[0].subdomain,
        "last": counts[-1].subdomain,
    }
    result = connection.exec_driver_sql(UPDATE_SQL[connection.dialect.name], parameters)
    if result.rowcount == len(counts):
        return []
    written = set(result.scalars())
    return [site.subdomain for site in counts if site.subdomain not in written]


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


def _what_became_of(connection: Connection, names: list[str]) -> dict[str, Result[SiteCounts]]:
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
