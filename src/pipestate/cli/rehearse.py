"""`rehearse` and `compat`: run the pending revisions on a clone; report waits and broken statements."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.clone import Where, clone_options, job_on, tell
from pipestate.cli.options import AsJson, TargetIfAny, project_options
from pipestate.cli.output import Plain, console, dumped, put, refuse_unwritable, say
from pipestate.core.errors import ConfigError
from pipestate.core.text import plain_lines

if TYPE_CHECKING:
    from pipestate.rehearse.child_process import Begun
    from pipestate.rehearse.compat import Compat
    from pipestate.rehearse.impact import Rehearsal

WIDEST = 100
To = Annotated[
    str, typer.Option("--to", metavar="REV", help="How far: a revision, a branch, head, or heads.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="REV",
        help="Apply revisions up to this one without judging them.",
        show_default=False,
    ),
]
Record = Annotated[
    bool,
    typer.Option("--record", help="Write the result into production's ledger, where checks can ask for it."),
]
Form = Annotated[Plain, typer.Option("--format", help="How to print the result.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the result there.", show_default=False)
]


@project_options
@clone_options
def rehearse(
    production: TargetIfAny,
    where: Where,
    to: To = "heads",
    from_: From = None,
    max_stall: Annotated[
        str | None,
        typer.Option(
            "--max-stall",
            metavar="500ms",
            help="How long others may wait at most: above it the exit code is 1.",
            show_default=False,
        ),
    ] = None,
    there_and_back: Annotated[
        bool, typer.Option("--there-and-back", help="Go down and up again, too: is everything as before?")
    ] = False,
    record: Record = False,
    json_: AsJson = False,
    form: Form = Plain.CONSOLE,
    output: Output = None,
) -> None:
    """Run the pending revisions on a clone, and say which locks they take and who would wait.

    Exit code 1: over --max-stall, a revision failed, or a write that worked before fails after it.

    Example: pipestate rehearse --on postgresql://app@localhost/clone --max-stall 500ms
    """
    from pipestate.project.graph import find_targets
    from pipestate.rehearse.run import rehearse

    refuse_unwritable(output)
    where.require_rows({"--max-stall": max_stall, "--record": record})
    limit = milliseconds(max_stall)
    with job_on(production, where, to, from_, record=record) as job, progress_on_stderr() as (said, begins):
        found = rehearse(
            job,
            find_targets(job.chain, to),
            limit,
            said,
            since=find_targets(job.chain, from_) if from_ is not None else (),
            there_and_back=there_and_back,
            record=record,
            begins=begins,
        )
    show_rehearsal(found, Plain.JSON if json_ else form, output)
    raise typer.Exit(found.exit_code)


@project_options
@clone_options
def compat(
    production: TargetIfAny,
    where: Where,
    statements: Annotated[
        str,
        typer.Option(
            "--statements",
            metavar="FILE",
            help="A file of SQL, or the word pg_stat_statements: those that production has run.",
        ),
    ],
    to: To = "heads",
    from_: From = None,
    record: Record = False,
    json_: AsJson = False,
    form: Form = Plain.CONSOLE,
    output: Output = None,
) -> None:
    """Say which of today's statements the pending revisions would break, on a clone.

    Exit code 1: one would break, or a revision failed.

    Example: pipestate compat --on postgresql://app@localhost/clone --statements queries.sql
    """
    from pipestate.project.graph import find_targets
    from pipestate.rehearse.compat import compat, read_statements

    refuse_unwritable(output)
    given = read_statements(statements, where.source(production))
    with job_on(production, where, to, from_, record=record) as job, progress_on_stderr() as (said, begins):
        targets = find_targets(job.chain, to)
        since = find_targets(job.chain, from_) if from_ is not None else ()
        found = compat(job, targets, given, said, since=since, record=record, begins=begins)
    show_compat(found, Plain.JSON if json_ else form, output)
    raise typer.Exit(found.exit_code)


@contextmanager
def progress_on_stderr() -> Iterator[tuple[Callable[[str], None], "Callable[[Begun], None]"]]:
    """Report progress on stderr: a line for each part; on a terminal one line with revision and time."""
    from pipestate.cli.progress import stopwatch

    with stopwatch() as watch:
        part = watch if sys.stderr.isatty() else tell
        yield part, lambda begun: watch(f"{begun.revision} runs on the clone")


def show_rehearsal(found: "Rehearsal", form: Plain, output: Path | None) -> None:
    """Print the result, or write it into the file."""
    from pipestate.cli.formats.rehearse import rehearsal_as_data, rehearsal_as_lines, rehearsal_as_markdown

    if form is Plain.CONSOLE:
        _show_lines(rehearsal_as_lines(found, min(console().width, WIDEST)), output)
    else:
        put(dumped(rehearsal_as_data(found)) if form is Plain.JSON else rehearsal_as_markdown(found), output)


def show_compat(found: "Compat", form: Plain, output: Path | None) -> None:
    """Print the result, or write it into the file."""
    from pipestate.cli.formats.compat import compat_as_data, compat_as_lines, compat_as_markdown

    if form is Plain.CONSOLE:
        _show_lines(compat_as_lines(found, min(console().width, WIDEST)), output)
    else:
        put(dumped(compat_as_data(found)) if form is Plain.JSON else compat_as_markdown(found), output)


def _show_lines(lines: Iterator[str], output: Path | None) -> None:
    if output is None:
        for line in lines:
            say(line)
    else:
        put(plain_lines("\n".join(lines)), output)


def milliseconds(text: str | None) -> float | None:
    """Read a time such as `500ms` or `2s`.

    >>> milliseconds("500ms"), milliseconds("2s"), milliseconds(None)
    (500.0, 2000.0, None)
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", text.strip())
    if found is None or not float(found[1]):
        raise ConfigError(f"--max-stall {text}: write a time such as 500ms or 2s")
    return float(found[1]) * (1000 if found[2] == "s" else 1)
