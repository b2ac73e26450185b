"""`queues show` and `queues clear`: queue depths, and removal of dead jobs."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import AsJson, project_options
from pipestate.cli.output import console, print_answer, print_json, progress, say
from pipestate.core.text import many, plain
from pipestate.pipeline.cli import RedisUrl, open_queues
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.queues import clear as library
from pipestate.pipeline.queues.depths import (
    Figures,
    OtherJobs,
    QueueState,
    figures,
    other_jobs,
    read_depths,
    total,
)
from pipestate.pipeline.queues.port import Blocked, Queues
from pipestate.project.find import Project

if TYPE_CHECKING:
    from rich.console import Console

    from pipestate.verify.report import Json

# States of a queue, in table order.
STATES = ("queued", "started", "deferred", "scheduled", "failed", "finished")
QUEUE, IN_THE_WAY, GONE = "queue", "in the way", "gone"
COLUMNS = (*STATES, IN_THE_WAY, GONE)
IDS_SHOWN = 3

Results = Sequence[Result[Blocked]]

app = typer.Typer(help="Show the job queues, and clear jobs that can never end.", no_args_is_help=True)


@app.command()
@project_options
def show(project: Project, redis_url: RedisUrl = None, json_: AsJson = False) -> None:
    """Show how full the queues are, and which jobs must be cleared.

    Example: pipestate queues show
    """
    with open_queues(project, redis_url) as (queues, settings):
        states = read_depths(queues, settings)
    if json_:
        print_json(depths_as_data(states))
    else:
        print_depths(states, console())


@app.command()
@project_options
def clear(
    project: Project,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the jobs that would be deleted; change nothing.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE",
            help="Where the jobs are kept, as JSON lines; else pipestate-cleared-<time>.jsonl here.",
            show_default=False,
        ),
    ] = None,
    function: Annotated[
        list[str] | None,
        typer.Option(
            "--function",
            metavar="NAME",
            help="Delete the deferred or failed jobs of this function, too; repeatable.",
            show_default=False,
        ),
    ] = None,
    redis_url: RedisUrl = None,
    json_: AsJson = False,
) -> None:
    """Delete deferred coordinators and failed OCR jobs, after writing them into a file. Other jobs stay.

    The output names jobs of other functions that the checks count.

    Example: pipestate queues clear --export cleared_jobs.jsonl
    """
    file = export or library.default_file(datetime.now(UTC))
    with open_queues(project, redis_url) as (queues, settings):
        found = library.plan(queues, settings.obstacles(), function or ())
        writes = bool(found.to_do) and not dry_run
        results = cleared(queues, found, file) if writes else found.expected
    for line in left_alone(results):
        say(line, err=True)
    data = cleared_as_data(results, dry_run=dry_run, export=file if writes else None)
    print_answer(data, cleared_as_lines(results, dry_run=dry_run), json_=json_)


def cleared(queues: Queues, plan: Plan[Blocked], file: Path) -> list[Result[Blocked]]:
    """Export the jobs into the file, and delete them."""

    def say_exported(number: int) -> None:
        say(f"{number:,} exported to {file}", err=True)

    with progress("clearing", "jobs") as bar:
        return library.apply(queues, plan, file, on_exported=say_exported, on_progress=bar)


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
    planned = any(result.outcome is not SubjectOutcome.SKIPPED for result in results)
    first = f"{verb} {sentence(_done(results))}" if planned else "nothing to clear"
    return [first, *others_as_lines(_others(results))]


def others_as_lines(others: Sequence[OtherJobs]) -> list[str]:
    """Name the jobs that `clear` leaves, and what to do with them.

    >>> print(*others_as_lines([OtherJobs("ocr", "failed", "split_pdf_job", 50)]), sep="\\n")
    Left: 50 failed jobs of split_pdf_job in ocr
    The checks count these jobs. Requeue them, or run: pipestate queues clear --function split_pdf_job
    """
    if not others:
        return []
    names = " ".join(f"--function {shlex.quote(name)}" for name in sorted({each.function for each in others}))
    return [
        *(
            plain(f"Left: {many(each.jobs, f'{each.state} job')} of {each.function} in {each.queue}")
            for each in others
        ),
        plain(f"The checks count these jobs. Requeue them, or run: pipestate queues clear {names}"),
    ]


def left_alone(results: Results) -> Iterator[str]:
    """Count the planned jobs that were left unchanged, with the reasons."""
    for outcome, sentence in (
        (SubjectOutcome.CHANGED, "{} changed meanwhile and stayed"),
        (SubjectOutcome.GONE, "{} had been deleted by another client meanwhile"),
    ):
        ids = _ids(results, outcome)
        if ids:
            shown = ", ".join(ids[:IDS_SHOWN]) + (", …" if len(ids) > IDS_SHOWN else "")
            yield plain(f"{sentence.format(many(len(ids), 'job'))}: {shown}")


def cleared_as_data(results: Results, *, dry_run: bool, export: Path | None) -> dict[str, Any]:
    """Render the figures of deleted jobs; in a dry run, of the jobs to delete."""
    return {
        "dry_run": dry_run,
        **asdict(_done(results)),
        "changed": _ids(results, SubjectOutcome.CHANGED),
        "gone": _ids(results, SubjectOutcome.GONE),
        "left": [asdict(each) for each in _others(results)],
        "export": str(export) if export else None,
    }


def _done(results: Results) -> Figures:
    return figures(result.subject for result in results if result.outcome.done)


def _others(results: Results) -> tuple[OtherJobs, ...]:
    return other_jobs(result.subject for result in results)


def _ids(results: Results, outcome: SubjectOutcome) -> list[str]:
    return [result.subject.id for result in results if result.outcome is outcome]


def print_depths(states: list[QueueState], console: "Console") -> None:
    """Print one row per queue; states without a job are listed below the table."""
    from rich.text import Text

    from pipestate.cli.formats.layout import fits, rows_table, table_of

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
    obstacles = total(states)
    console.print(
        f"\nTo clear: {sentence(obstacles)}. Next: pipestate queues clear --dry-run"
        if obstacles
        else "\nNo job needs to be cleared."
    )
    for line in others_as_lines([each for state in states for each in state.others]):
        console.print(Text(line), soft_wrap=True)


def depths_as_data(states: list[QueueState]) -> dict[str, Any]:
    rows = [asdict(state.depth) | asdict(state.in_the_way) for state in states]
    others = [asdict(each) for state in states for each in state.others]
    return {"queues": rows, **asdict(total(states)), "other_functions": others}
