"""The queues in words, in a table and in JSON."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from pipestate.pipeline.queues.clear import Cleared, Figures
from pipestate.pipeline.queues.depths import STATES, Depth, total
from pipestate.plural import many
from pipestate.render.console import NARROW
from pipestate.render.text import clean


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


def left_over(cleared: Cleared) -> list[str]:
    """What was planned and not deleted, and why."""
    lines = []
    if cleared.changed:
        ids = ", ".join(cleared.changed[:3]) + (", …" if len(cleared.changed) > 3 else "")
        lines.append(clean(f"{many(len(cleared.changed), 'job')} changed meanwhile and stayed: {ids}"))
    if cleared.gone:
        lines.append(f"{many(len(cleared.gone), 'job')} had been deleted by somebody else meanwhile")
    return lines


def print_depths(depths: list[Depth], console: Console) -> None:
    """In a narrow terminal without the columns that hold nothing."""
    names = ("queued", *STATES, "in the way", "gone")
    rows = [_numbers(depth) for depth in depths]
    wanted = [at for at in range(len(names)) if console.width >= NARROW or any(row[at] for row in rows)]
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("queue", no_wrap=True)
    for at in wanted:
        table.add_column(names[at], justify="right", no_wrap=True)
    for depth, row in zip(depths, rows, strict=True):
        table.add_row(clean(depth.queue), *(f"{row[at]:,}" for at in wanted))
    console.print(table)
    standing = total(depths)
    console.print(
        f"\nIn the way: {sentence(standing)}. Next: pipestate queues clear --dry-run"
        if standing
        else "\nNothing stands in the way."
    )


def _numbers(depth: Depth) -> tuple[int, ...]:
    stands = depth.in_the_way.deferred_coordinators + depth.in_the_way.failed_ocr_jobs
    states = (int(getattr(depth, state)) for state in STATES)
    return (depth.queued, *states, stands, depth.in_the_way.dangling)


def depths_as_data(depths: list[Depth]) -> dict[str, Any]:
    rows = []
    for depth in depths:
        row = asdict(depth)
        rows.append(row | row.pop("in_the_way"))
    return {"queues": rows, **asdict(total(depths))}


def cleared_as_data(cleared: Cleared, *, dry_run: bool, export: str | None) -> dict[str, Any]:
    """The figures are what was deleted; in a dry run, what would be."""
    return {
        "dry_run": dry_run,
        **asdict(cleared.deleted),
        "changed": list(cleared.changed),
        "gone": list(cleared.gone),
        "export": export,
    }
