"""The queues in words, in a table and in JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipestate.pipeline.planning import Outcome, Result
from pipestate.pipeline.queues.depths import QueueState, total
from pipestate.pipeline.queues.figures import Figures, figures
from pipestate.pipeline.queues.port import Blocked, Saved
from pipestate.plural import many
from pipestate.render.console import NARROW
from pipestate.safe import plain

# The states of a queue, in the order of the table.
STATES = ("queued", "started", "deferred", "scheduled", "failed", "finished")
IDS_SHOWN = 3

Results = Sequence[Result[Blocked]] | Sequence[Result[Saved]]


def sentence(figures: Figures) -> str:
    """
    >>> sentence(Figures(82, 2695))
    '82 deferred coordinators and 2,695 failed OCR jobs'
    >>> sentence(Figures(1, 0, 1))
    '1 deferred coordinator, 0 failed OCR jobs and 1 id whose job is gone'
    """
    parts = [
        many(figures.deferred_coordinators, "deferred coordinator"),
        many(figures.failed_ocr_jobs, "failed OCR job"),
    ]
    if figures.dangling:
        parts.append(many(figures.dangling, "id") + " whose job is gone")
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def cleared_as_lines(results: Sequence[Result[Blocked]], *, dry_run: bool) -> Iterator[str]:
    if not results:
        yield "nothing to clear"
        return
    yield f"{'Would delete' if dry_run else 'Deleted'} {sentence(_done(results))}"


def restored_as_lines(results: Sequence[Result[Saved]], *, dry_run: bool) -> Iterator[str]:
    done = _done(results)
    if not done:
        yield "nothing to restore"
        return
    yield f"{'Would restore' if dry_run else 'Restored'} {sentence(done)}"


def left_alone(results: Results) -> Iterator[str]:
    """Tell how many of the planned jobs were left as they are, and why."""
    for outcome, told in (
        (Outcome.CHANGED, "{} changed meanwhile and stayed"),
        (Outcome.GONE, "{} had been deleted by somebody else meanwhile"),
        (Outcome.EXISTS, "{} already there, left alone"),
        (Outcome.EXPIRED, "{} would have expired by now, left out"),
    ):
        ids = _ids(results, outcome)
        if ids:
            shown = ", ".join(ids[:IDS_SHOWN]) + (", …" if len(ids) > IDS_SHOWN else "")
            yield plain(f"{told.format(many(len(ids), 'job'))}: {shown}")


def cleared_as_data(
    results: Sequence[Result[Blocked]], *, dry_run: bool, export: Path | None
) -> dict[str, Any]:
    """The figures are what was deleted; in a dry run, what would be."""
    return {
        "dry_run": dry_run,
        **asdict(_done(results)),
        "changed": _ids(results, Outcome.CHANGED),
        "gone": _ids(results, Outcome.GONE),
        "export": str(export) if export else None,
    }


def restored_as_data(results: Sequence[Result[Saved]], *, dry_run: bool, file: Path) -> dict[str, Any]:
    """The figures are what came back; in a dry run, what would."""
    return {
        "dry_run": dry_run,
        **asdict(_done(results)),
        "exists": _ids(results, Outcome.EXISTS),
        "expired": _ids(results, Outcome.EXPIRED),
        "file": str(file),
    }


def _done(results: Results) -> Figures:
    return figures(_job(result.subject) for result in results if result.outcome.done)


def _ids(results: Results, outcome: Outcome) -> list[str]:
    return [_job(result.subject).id for result in results if result.outcome is outcome]


def _job(subject: Blocked | Saved) -> Blocked:
    return subject.job if isinstance(subject, Saved) else subject


def print_depths(states: list[QueueState], console: Console) -> None:
    """Print a table; in a narrow terminal without the columns that hold nothing."""
    names = (*STATES, "in the way", "gone")
    rows = [_numbers(state) for state in states]
    wanted = [at for at in range(len(names)) if console.width >= NARROW or any(row[at] for row in rows)]
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("queue", no_wrap=True)
    for at in wanted:
        table.add_column(names[at], justify="right", no_wrap=True)
    for state, row in zip(states, rows, strict=True):
        table.add_row(plain(state.depth.queue), *(f"{row[at]:,}" for at in wanted))
    console.print(table)
    standing = total(states)
    console.print(
        f"\nIn the way: {sentence(standing)}. Next: pipestate queues clear --dry-run"
        if standing
        else "\nNothing stands in the way."
    )


def _numbers(state: QueueState) -> tuple[int, ...]:
    blocks = state.in_the_way
    depths = (int(getattr(state.depth, name)) for name in STATES)
    return (*depths, blocks.deferred_coordinators + blocks.failed_ocr_jobs, blocks.dangling)


def depths_as_data(states: list[QueueState]) -> dict[str, Any]:
    rows = [asdict(state.depth) | asdict(state.in_the_way) for state in states]
    return {"queues": rows, **asdict(total(states))}
