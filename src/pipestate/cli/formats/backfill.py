"""A backfill in lines and in JSON: its forecast and its result."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pipestate.backfill.forecast import Forecast
from pipestate.backfill.loop import BackfillResult
from pipestate.cli.formats.json import as_plain
from pipestate.core.text import many
from pipestate.ledger.backfills import Orders
from pipestate.project.find import Calls


def forecast_as_lines(found: Forecast, calls: Calls) -> Iterator[str]:
    if found.first_key is None:
        yield f"{found.address}: {found.table} is empty, there is nothing to update"
        return
    yield (
        f"{found.address}: would update {'' if found.counted else 'about '}{many(found.rows_to_update, 'row')} of about "
        f"{found.rows_in_table:,} in {found.table}"
    )
    yield f"{found.key} from {found.first_key} to {found.last_key}, in at least {_batches(found.batches)}"
    if found.resumes_after is not None:
        yield f"goes on behind {found.key} {found.resumes_after}, where the last run stopped"
    yield f"Next: {calls.pipestate(f'backfill {found.address}')}"


def forecast_as_data(found: Forecast) -> dict[str, Any]:
    data = asdict(found)
    return {"backfill": data.pop("address"), "dry_run": True, **data}


def result_as_lines(done: BackfillResult, calls: Calls) -> Iterator[str]:
    if not done.batches and not done.rows_left:
        yield f"{done.address}: nothing to do, no row of {done.table} matches"
        return
    rate = done.rows_updated / done.seconds if done.seconds else 0.0
    yield (
        f"{done.address}: {many(done.rows_updated, 'row')} of {done.table} updated in {_batches(done.batches)}, "
        f"{done.seconds:.1f} s ({rate:,.0f} rows/s)" + ("" if done.rows_left else "; none is left")
    )
    if done.resumed_after is not None:
        yield f"went on behind {done.key} {done.resumed_after}"
    if done.rows_left:
        still = "matches" if done.rows_left == 1 else "match"
        yield (
            f"{many(done.rows_left, 'row')} still {still}: written meanwhile, or not changed by the UPDATE; "
            "run the same again, or fix them"
        )
        yield f"Next: {calls.pipestate(f'backfill {done.address}')}"


def result_as_data(done: BackfillResult) -> dict[str, Any]:
    data = as_plain(
        done, {BackfillResult: "table key rows_updated rows_left batches duration_ms=seconds resumed_after"}
    )
    return {
        "backfill": done.address,
        "dry_run": False,
        **data,
        "duration_ms": round(done.seconds * 1000, 1),
    }


def orders_as_lines(address: str, orders: Orders, calls: Calls) -> Iterator[str]:
    size = "as many rows as 200 ms allow" if orders.batch_rows is None else many(orders.batch_rows, "row")
    state = f"paused by {orders.paused_by}" if orders.paused_by else "not paused"
    yield f"{address}: {state}, a batch takes {size}; the run obeys before its next batch"
    if orders.paused_by:
        yield f"Next: {calls.pipestate(f'backfill {address} --resume')}"


def orders_as_data(address: str, orders: Orders) -> dict[str, Any]:
    return {"backfill": address, **asdict(orders)}


def _batches(number: int) -> str:
    return many(number, "batch", "batches")
