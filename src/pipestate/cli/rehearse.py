"""`rehearse` and `compat`: the pending revisions on a clone, what production will feel and what will break."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import AsJson, Perhaps, project_options
from pipestate.cli.output import Plain, console, dumped, put, refuse_unwritable, say
from pipestate.errors import ConfigError
from pipestate.safe import plain_lines

if TYPE_CHECKING:
    from pipestate.rehearse.compat import Compat
    from pipestate.rehearse.felt import Rehearsal
    from pipestate.rehearse.job import Job
    from pipestate.rehearse.trace import Begun

WIDEST = 100
On = Annotated[str, typer.Option("--on", metavar="URL", help="The clone: it is migrated.")]
To = Annotated[str, typer.Option("--to", metavar="REV", help="A revision, a branch, head, or heads.")]
Record = Annotated[
    bool, typer.Option("--record", help="Write the result into production's ledger, for checks.")
]
Form = Annotated[Plain, typer.Option("--format", help="How to print the result.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the result there.", show_default=False)
]


@project_options
def rehearse(
    production: Perhaps,
    on: On,
    to: To = "heads",
    max_stall: Annotated[
        str | None,
        typer.Option("--max-stall", metavar="TIME", help="Exit 1 above it: 500ms, 2s.", show_default=False),
    ] = None,
    there_and_back: Annotated[
        bool, typer.Option("--there-and-back", help="Then down and up again: is everything as before?")
    ] = False,
    record: Record = False,
    json_: AsJson = False,
    form: Form = Plain.CONSOLE,
    output: Output = None,
) -> None:
    """Run the pending revisions on a clone, and say which locks they take and who would wait.

    Exit code 0: rehearsed, and with --max-stall within the limit; 1: over it, or a revision failed.

    Example: pipestate rehearse --on postgresql://app@localhost/clone --max-stall 500ms
    """
    from pipestate.chain.target import find_targets
    from pipestate.rehearse.run import rehearse

    refuse_unwritable(output)
    job, limit = job_of(production, on), milliseconds(max_stall)
    targets = find_targets(job.chain, to)
    with told() as (said, begins):
        found = rehearse(
            job, targets, limit, said, there_and_back=there_and_back, record=record, begins=begins
        )
    show_rehearsal(found, Plain.JSON if json_ else form, output)
    raise typer.Exit(found.exit_code)


@project_options
def compat(
    production: Perhaps,
    on: On,
    statements: Annotated[
        str,
        typer.Option(
            "--statements", metavar="FILE", help="A file of SQL, or pg_stat_statements: production's own."
        ),
    ],
    to: To = "heads",
    record: Record = False,
    json_: AsJson = False,
    form: Form = Plain.CONSOLE,
    output: Output = None,
) -> None:
    """Prepare today's statements before and after the pending revisions, on a clone.

    Exit code 1: one would break, or a revision failed.

    Example: pipestate compat --on postgresql://app@localhost/clone --statements queries.sql
    """
    from pipestate.chain.target import find_targets
    from pipestate.rehearse.compat import compat
    from pipestate.rehearse.statements import read_statements

    refuse_unwritable(output)
    job = job_of(production, on)
    given = read_statements(statements, job.production or job.clone)
    with told() as (said, begins):
        found = compat(job, find_targets(job.chain, to), given, said, record=record, begins=begins)
    show_compat(found, Plain.JSON if json_ else form, output)
    raise typer.Exit(found.exit_code)


@contextmanager
def told() -> Iterator[tuple[Callable[[str], None], "Callable[[Begun], None]"]]:
    """Tell on stderr how far it is: each part a line; on a terminal one line with the revision and the time."""
    from pipestate.cli.progress import stopwatch

    with stopwatch() as watch:
        part = watch if sys.stderr.isatty() else tell
        yield part, lambda begun: watch(f"{begun.revision} runs on the clone")


def tell(said: str) -> None:
    say(f"pipestate: {said}", err=True)


def show_rehearsal(found: "Rehearsal", form: Plain, output: Path | None) -> None:
    """Print the result, or write it into the file."""
    from pipestate.render.rehearse import rehearsal_as_lines
    from pipestate.render.rehearse_data import rehearsal_as_data
    from pipestate.render.rehearse_markdown import rehearsal_as_markdown

    if form is Plain.CONSOLE:
        _show_lines(rehearsal_as_lines(found, min(console().width, WIDEST)), output)
    else:
        put(dumped(rehearsal_as_data(found)) if form is Plain.JSON else rehearsal_as_markdown(found), output)


def show_compat(found: "Compat", form: Plain, output: Path | None) -> None:
    """Print the result, or write it into the file."""
    from pipestate.render.compat import compat_as_data, compat_as_lines, compat_as_markdown

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


def job_of(production: Perhaps, on: str) -> "Job":
    """Collect what a rehearsal needs; production is whatever the other commands would take, if there is one."""
    from pipestate.chain.read import read_chain
    from pipestate.chain.version_table import locator
    from pipestate.config import parse_url
    from pipestate.rehearse.job import Job

    project = production.project
    chain = read_chain(project)
    clone = parse_url(on, source="--on")
    return Job(clone, production.url, project, chain, locator(project, chain, production.version_table))


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
