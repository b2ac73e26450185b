"""A backfill in lines and in JSON: what it would do, and what it did."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pipestate.backfill.look import Forecast
from pipestate.backfill.loop import BackfillResult
from pipestate.plural import many


def forecast_as_lines(found: Forecast) -> Iterator[str]:
    if found.first_key is None:
        yield f"{found.address}: {found.table} is empty, there is nothing to update"
        return
    yield (
        f"{found.address}: would update about {many(found.rows_to_update, 'row')} of about "
        f"{found.rows_in_table:,} in {found.table}"
    )
    yield f"{found.key} from {found.first_key} to {found.last_key}, in at least {_batches(found.batches)}"
    if found.resumes_after is not None:
        yield f"goes on behind {found.key} {found.resumes_after}, where the last run stopped"


def forecast_as_data(found: Forecast) -> dict[str, Any]:
    data = asdict(found)
    return {"backfill": data.pop("address"), "dry_run": True, **data}


def result_as_lines(done: BackfillResult) -> Iterator[str]:
    if not done.batches and not done.rows_left:
        yield f"{done.address}: nothing to do, no row of {done.table} matches"
        return
    if done.resumed_after is not None:
        yield f"{done.address}: went on behind {done.key} {done.resumed_after}"
    rate = done.rows_updated / done.seconds if done.seconds else 0.0
    yield (
        f"{done.address}: {many(done.rows_updated, 'row')} of {done.table} updated in {_batches(done.batches)}, "
        f"{done.seconds:.1f} s ({rate:,.0f} rows/s)" + ("" if done.rows_left else "; none is left")
    )
    if done.rows_left:
        still = "matches" if done.rows_left == 1 else "match"
        yield (
            f"{many(done.rows_left, 'row')} still {still}: written meanwhile, or not changed by the UPDATE; "
            "run the same again, or fix them"
        )


def result_as_data(done: BackfillResult) -> dict[str, Any]:
    return {
        "backfill": done.address,
        "dry_run": False,
        "table": done.table,
        "key": done.key,
        "rows_updated": done.rows_updated,
        "rows_left": done.rows_left,
        "batches": done.batches,
        "duration_ms": round(done.seconds * 1000, 1),
        "resumed_after": done.resumed_after,
    }


def _batches(number: int) -> str:
    return many(number, "batch", "batches")
