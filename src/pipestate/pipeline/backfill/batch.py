"""One batch of a backfill: a transaction that writes what is still to be written, and says what was not."""

from datetime import timedelta

from sqlalchemy import Connection, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InternalError, OperationalError

from pipestate.errors import Unreachable
from pipestate.pipeline.backfill.moves import NO_DOCUMENTS, Move, Outcome
from pipestate.pipeline.backfill.stale_rows import stale
from pipestate.pipeline.error_text import error_text
from pipestate.pipeline.threshold import THRESHOLD
from pipestate.schema import sites

LOCK_TIMEOUT_S = 10
BRACES = str.maketrans("[]", "{}")  # from a list of Python's to an array of PostgreSQL's

# One backfill writes at a time, a batch long, so that two of them cannot wait for each other in a circle.
# And where somebody keeps a row, we give up, before everybody waits for the rows that we keep. A batch is
# a range of the keys: whatever the statistics say, it is read as one, and no table from end to end.
PREPARE = (
    f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT_S}s', true), set_config('enable_seqscan', 'off', true),"
    " set_config('enable_nestloop', 'off', true), set_config('synchronous_commit', %(synchronous)s, true),"
    " pg_advisory_xact_lock(1885958255, 1650550635)"
)

# A site that waits for its coordinator gets a time just past the threshold: the reconciler sees it at
# once, and nobody takes the age of an old row for the time that it has waited.
UPDATE = """
UPDATE sites SET
  current_stage = CASE WHEN v.total = 0 THEN 'completed' ELSE 'ocr' END,
  ocr_total = v.total, ocr_completed = v.completed, ocr_failed = v.total - v.completed,
  coordinator_enqueued = false,
  started_at = coalesce({started}, {now}),
  updated_at = CASE WHEN v.total = 0 THEN {now} ELSE {past} END,
  last_error_stage = CASE WHEN v.total = 0 THEN 'ocr' ELSE sites.last_error_stage END,
  last_error_message = CASE WHEN v.total = 0 THEN '{reason}' ELSE sites.last_error_message END,
  last_error_at = CASE WHEN v.total = 0 THEN {now} ELSE sites.last_error_at END
FROM {values} JOIN site_progress p ON p.subdomain = v.subdomain
WHERE sites.subdomain = v.subdomain AND sites.current_stage IS NULL AND {stale}{range}
RETURNING sites.subdomain
"""
ENGINES = {
    "postgresql": {
        "now": "now()",
        "past": "now() - interval '{age} seconds'",
        "started": "p.started_at",
        "values": "unnest(%(sites)s::text[], %(completed)s::int[], %(totals)s::int[])"
        " AS v(subdomain, completed, total)",
        "range": " AND sites.subdomain BETWEEN %(first)s AND %(last)s AND p.subdomain BETWEEN %(first)s AND %(last)s",
    },
    "sqlite": {
        "now": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
        "past": "strftime('%Y-%m-%d %H:%M:%f000', 'now', '-{age} seconds')",
        "started": "strftime('%Y-%m-%d %H:%M:%f000', p.started_at)",
        "values": "(SELECT :site AS subdomain, :completed AS completed, :total AS total) AS v",
        "range": "",
    },
}


def write(
    connection: Connection, moves: list[Move], threshold: timedelta, *, last: bool = True
) -> dict[str, Move]:
    """Write them, in the order of the plan, in one transaction; those that became something else.

    Where the database refuses a row (a rule or a trigger of the application's), the batch is halved
    until that site stands alone: it has failed, and the others go on. Only the last batch waits for the
    server's disk, and with it for all before: what a crash of the server loses, a rerun does again.
    """
    try:
        with connection.begin():
            left = _update(connection, moves, threshold, last)
            return _what_became_of(connection, left) if left else {}
    except (IntegrityError, DataError, InternalError) as error:
        if len(moves) > 1:
            half = len(moves) // 2
            first = write(connection, moves[:half], threshold, last=last)
            return first | write(connection, moves[half:], threshold, last=last)
        (move,) = moves
        return {move.subdomain: Move(move.subdomain, Outcome.FAILED, reason=error_text(str(error.orig)))}
    except OperationalError as error:
        if _is_locked(error):
            raise Unreachable(
                f"somebody kept a row of sites locked between {moves[0].subdomain} and {moves[-1].subdomain}:"
                " what is done stays done; run the same again"
            ) from error
        raise


def _update(connection: Connection, moves: list[Move], threshold: timedelta, last: bool) -> list[Move]:
    """Those that were not written."""
    sql = _sql(connection.dialect.name, threshold)
    if connection.dialect.name == "sqlite":
        return [move for move in moves if connection.exec_driver_sql(sql, _values(move)).first() is None]
    connection.exec_driver_sql(PREPARE, {"synchronous": "on" if last else "off"})
    values = {
        "sites": _text_array([move.subdomain for move in moves]),
        "completed": str([move.completed for move in moves]).translate(BRACES),
        "totals": str([move.total for move in moves]).translate(BRACES),
        "first": moves[0].subdomain,
        "last": moves[-1].subdomain,
    }
    result = connection.exec_driver_sql(sql, values)
    if result.rowcount == len(moves):
        return []
    written = set(result.scalars())
    return [move for move in moves if move.subdomain not in written]


def _values(move: Move) -> dict[str, str | int]:
    return {"site": move.subdomain, "completed": move.completed, "total": move.total}


def _sql(dialect: str, threshold: timedelta) -> str:
    words = ENGINES[dialect]
    past = words["past"].format(age=f"{max(threshold, THRESHOLD).total_seconds() + 1:.3f}")
    return UPDATE.format(**words | {"past": past, "reason": NO_DOCUMENTS, "stale": stale(dialect, threshold)})


def _text_array(values: list[str]) -> str:
    r"""One literal, which PostgreSQL reads much faster than an expression of thousands.

    >>> print(_text_array(["a.gov", "b.gov"]), _text_array(['a"b']))
    {"a.gov","b.gov"} {"a\"b"}
    """
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') != 2 * (len(values) - 1):
        joined = '","'.join(value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return f'{{"{joined}"}}'


def _what_became_of(connection: Connection, moves: list[Move]) -> dict[str, Move]:
    names = [move.subdomain for move in moves]
    query = select(sites.c.subdomain, sites.c.current_stage).where(sites.c.subdomain.in_(names))
    stages: dict[str, str | None] = {row[0]: row[1] for row in connection.execute(query)}
    return {name: _missed(name, stages) for name in names}


def _missed(subdomain: str, stages: dict[str, str | None]) -> Move:
    if subdomain not in stages:
        return Move(subdomain, Outcome.ORPHANED, reason="the site was deleted in the meantime")
    if stages[subdomain] is None:
        return Move(subdomain, Outcome.MOVED_ON, reason="site_progress was written again in the meantime")
    return Move(subdomain, Outcome.MOVED_ON)


def _is_locked(error: DBAPIError) -> bool:
    return getattr(error.orig, "pgcode", None) in ("55P03", "40P01") or "is locked" in str(error.orig)
