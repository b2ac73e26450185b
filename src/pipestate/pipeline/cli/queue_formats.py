"""Queue results as text, a table and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from pipestate.cli.formats.layout import fits, rows_table, table_of
from pipestate.core.text import many, plain
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.queues.depths import Figures, QueueState, figures, total
from pipestate.pipeline.queues.port import Blocked
from pipestate.verify.report import Json

# States of a queue, in table order.
STATES = ("queued", "started", "deferred", "scheduled", "failed", "finished")
QUEUE, IN_THE_WAY, GONE = "queue", "in the way", "gone"
COLUMNS = (*STATES, IN_THE_WAY, GONE)
IDS_SHOWN = 3

Results = Sequence[Result[Blocked]]


def sentence(figures: Figures) -> str:
    """Summarize the figures in one sentence.

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


def cleared_as_lines(results: Results, *, dry_run: bool) -> list[str]:
    verb = "Would delete" if dry_run else "Deleted"
    return [f"{verb} {sentence(_done(results))}" if results else "nothing to clear"]


def left_alone(results: Results) -> Iterator[str]:
    """Count the planned jobs that were left unchanged, with the reasons."""
    for outcome, told in (
        (SubjectOutcome.CHANGED, "{} changed meanwhile and stayed"),
        (SubjectOutcome.GONE, "{} had been deleted by somebody else meanwhile"),
    ):
        ids = _ids(results, outcome)
        if ids:
            shown = ", ".join(ids[:IDS_SHOWN]) + (", …" if len(ids) > IDS_SHOWN else "")
            yield plain(f"{told.format(many(len(ids), 'job'))}: {shown}")


def cleared_as_data(results: Results, *, dry_run: bool, export: Path | None) -> dict[str, Any]:
    """Render the figures of deleted jobs; in a dry run, of the jobs to delete."""
    return {
        "dry_run": dry_run,
        **asdict(_done(results)),
        "changed": _ids(results, SubjectOutcome.CHANGED),
        "gone": _ids(results, SubjectOutcome.GONE),
        "export": str(export) if export else None,
    }


def _done(results: Results) -> Figures:
    return figures(result.subject for result in results if result.outcome.done)


def _ids(results: Results, outcome: SubjectOutcome) -> list[str]:
    return [result.subject.id for result in results if result.outcome is outcome]


def print_depths(states: list[QueueState], console: Console) -> None:
    """Print one row per queue; states without a job are listed below the table."""
    rows: list[dict[str, Json]] = [
        {
            QUEUE: state.depth.queue,
            **{name: int(getattr(state.depth, name)) for name in STATES},
            IN_THE_WAY: state.in_the_way.deferred_coordinators + state.in_the_way.failed_ocr_jobs,
            GONE: state.in_the_way.dangling,
        }
        for state in states
    ]
    shown = [name for name in COLUMNS if any(row[name] for row in rows)]
    filled = [{name: row[name] for name in (QUEUE, *shown)} for row in rows]
    cells = [[Text(plain(str(row[QUEUE]))), *(Text(f"{row[name]:,}") for name in shown)] for row in filled]
    wide = fits((QUEUE, *shown), cells, console.width)
    console.print(
        table_of((QUEUE, *shown), cells, right=shown) if wide else rows_table(filled, console.width)
    )
    if empty := [name for name in COLUMNS if name not in shown]:
        console.print(Text(f"0 in every queue: {', '.join(empty)}", "dim"))
    standing = total(states)
    console.print(
        f"\nIn the way: {sentence(standing)}. Next: pipestate queues clear --dry-run"
        if standing
        else "\nNothing stands in the way."
    )


def depths_as_data(states: list[QueueState]) -> dict[str, Any]:
    rows = [asdict(state.depth) | asdict(state.in_the_way) for state in states]
    return {"queues": rows, **asdict(total(states))}
