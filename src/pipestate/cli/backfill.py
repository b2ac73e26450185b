"""`pipestate backfill`: what stood still in OCR gets counters from the storage directory."""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from pipestate.cli.options import AsJson, Config, DatabaseUrl, target
from pipestate.cli.output import print_json
from pipestate.errors import ConfigError
from pipestate.pipeline import backfill as library
from pipestate.pipeline.backfill import Move, Outcome
from pipestate.pipeline.storage import open_storage

LINES = 20
BAR_EVERY_S = 0.1
TEN_YEARS_H = 87_600


def backfill(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done; cannot write.")] = False,
    storage_dir: Annotated[
        Path | None,
        typer.Option(
            "--storage-dir",
            metavar="DIR",
            help="Where the documents are; else STORAGE_DIR.",
            show_default=False,
        ),
    ] = None,
    threshold_hours: Annotated[
        float, typer.Option("--threshold-hours", metavar="H", help="Rows untouched for so long are stale.")
    ] = 2,
    batch_size: Annotated[
        int, typer.Option("--batch-size", metavar="N", help="Sites in one transaction.")
    ] = library.BATCH_SIZE,
    json_: AsJson = False,
    database_url: DatabaseUrl = None,
    config: Config = None,
) -> None:
    """Give sites that stand still in OCR counters from the documents that are there.

    Stopped anywhere, it can be started again: it touches only what still needs it.

    Example: pipestate backfill --dry-run --storage-dir /srv/sites
    """
    to = target(database_url, config)
    threshold = _threshold(threshold_hours)
    library.require_batch_size(batch_size)
    storage = open_storage(storage_dir or os.environ.get("STORAGE_DIR"))
    with _progress("counting") as counting:
        plan = library.plan(to.url, storage, threshold=threshold, on_progress=counting)
    moves = plan.moves
    if not dry_run:
        with _progress("writing") as writing:
            moves = library.apply(to.url, plan, batch_size=batch_size, on_progress=writing)
    if json_:
        print_json(_data(moves, dry_run, str(storage.root), threshold_hours))
    else:
        _show(moves, dry_run)
    raise typer.Exit(any(move.outcome is Outcome.FAILED for move in moves))


def _threshold(hours: float) -> timedelta:
    if not math.isfinite(hours) or not 0 <= hours <= TEN_YEARS_H:
        raise ConfigError(f"--threshold-hours {hours:g}: give a number of hours from 0 to {TEN_YEARS_H}")
    return timedelta(hours=hours)


def _show(moves: list[Move], dry_run: bool) -> None:
    """What failed comes first; what had moved on before is only counted."""
    told = [move for move in moves if move.outcome is not Outcome.MOVED_ON]
    told.sort(key=lambda move: move.outcome is not Outcome.FAILED)
    for move in told[:LINES]:
        typer.echo(_line(move))
    if len(told) > LINES:
        typer.echo(f"… and {len(told) - LINES} more (--json shows all)")
    if told:
        typer.echo()
    for outcome, number in _summary(moves).items():
        if number:
            typer.echo(f"{outcome}: {number}")
    written = sum(move.writes for move in moves)
    verb = "Would migrate" if dry_run else "Migrated"
    typer.echo(f"{verb} {written} {'site' if written == 1 else 'sites'}")


def _line(move: Move) -> str:
    if move.outcome is Outcome.MIGRATED:
        return f"{move.subdomain}: {move.completed}/{move.total} completed, {move.failed} failed"
    return f"{move.subdomain}: {move.outcome}" + (f" ({move.reason})" if move.reason else "")


def _summary(moves: list[Move]) -> dict[str, int]:
    counted = Counter(move.outcome for move in moves)
    return {str(outcome): counted[outcome] for outcome in Outcome}


def _data(moves: list[Move], dry_run: bool, storage_dir: str, threshold_hours: float) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "storage_dir": storage_dir,
        "threshold_hours": threshold_hours,
        "summary": _summary(moves),
        "sites": [
            {
                "subdomain": move.subdomain,
                "outcome": str(move.outcome),
                "completed": move.completed,
                "failed": move.failed,
                "total": move.total,
                "reason": move.reason,
            }
            for move in moves
        ],
    }


@contextmanager
def _progress(what: str) -> Iterator[library.Progress | None]:
    """A bar on stderr where that is a terminal; nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]} sites/s")
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, rate="–")
        shown = [0.0]

        def tell(done: int, total: int) -> None:
            if done < total and time.monotonic() - shown[0] < BAR_EVERY_S:  # there may be a million sites
                return
            shown[0] = time.monotonic()
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=total, rate="–" if speed is None else f"{speed:,.0f}")

        yield tell
