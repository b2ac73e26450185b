"""A backfill in lines and in JSON."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipestate.pipeline.backfill.moves import Move, Outcome
from pipestate.plural import many
from pipestate.render.text import clean

LINES = 10


def as_lines(moves: Sequence[Move], *, dry_run: bool) -> list[str]:
    """What failed comes first; what had moved on before is only counted."""
    told = [move for move in moves if move.outcome is not Outcome.MOVED_ON]
    told.sort(key=lambda move: move.outcome is not Outcome.FAILED)
    lines = [clean(f"  {_line(move)}") for move in told[:LINES]]
    if len(told) > LINES:
        lines.append(f"  and {len(told) - LINES:,} more: --json shows them")
    counts = [f"{outcome}: {number:,}" for outcome, number in _summary(moves).items() if number]
    written = many(sum(move.writes for move in moves), "site")
    verb = "Would migrate" if dry_run else "Migrated"
    return [*lines, *([""] if lines else []), *counts, f"{verb} {written}"]


def as_data(
    moves: Sequence[Move], *, dry_run: bool, storage_dir: str, threshold_hours: float
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "storage_dir": storage_dir,
        "threshold_hours": threshold_hours,
        "summary": _summary(moves),
        "sites": [_data(move) for move in moves],
    }


def _line(move: Move) -> str:
    if move.outcome is Outcome.MIGRATED:
        return f"{move.subdomain}: {move.completed}/{move.total} completed, {move.failed} failed"
    return f"{move.subdomain}: {move.outcome}" + (f" ({move.reason})" if move.reason else "")


def _summary(moves: Sequence[Move]) -> dict[str, int]:
    counted = Counter(move.outcome for move in moves)
    return {str(outcome): counted[outcome] for outcome in Outcome}


def _data(move: Move) -> dict[str, Any]:
    return {
        "subdomain": move.subdomain,
        "outcome": str(move.outcome),
        "completed": move.completed,
        "failed": move.failed,
        "total": move.total,
        "reason": move.reason,
    }
