"""`rehearse` and `compat`: the pending revisions on a clone, what production will feel and what will break."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import AsJson, Perhaps, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError

if TYPE_CHECKING:
    from pipestate.rehearse.job import Job

On = Annotated[str, typer.Option("--on", metavar="URL", help="The clone. It is migrated, and stays so.")]
To = Annotated[
    str, typer.Option("--to", metavar="REV", help="How far: a revision, a branch, head, or heads.")
]


@project_options
def rehearse(
    production: Perhaps,
    on: On,
    to: To = "heads",
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
    record: Annotated[
        bool,
        typer.Option(
            "--record", help="Write the result into production's ledger, where checks can ask for it."
        ),
    ] = False,
    json_: AsJson = False,
) -> None:
    """Run the pending revisions on a clone, and say which locks they take and who would wait.

    Exit code 0: rehearsed, and with --max-stall within the limit; 1: over it, or a revision failed.

    Example: pipestate rehearse --on postgresql://app@localhost/clone --max-stall 500ms
    """
    from pipestate.chain.target import find_targets
    from pipestate.rehearse.run import rehearse
    from pipestate.render.rehearse import rehearsal_as_data, rehearsal_as_lines

    job, limit = job_of(production, on), milliseconds(max_stall)
    targets = find_targets(job.chain, to)
    found = rehearse(job, targets, limit, tell, there_and_back=there_and_back, record=record)
    if json_:
        print_json(rehearsal_as_data(found))
    else:
        for line in rehearsal_as_lines(found, min(console().width, 100)):
            say(line)
    raise typer.Exit(found.exit_code)


@project_options
def compat(
    production: Perhaps,
    on: On,
    statements: Annotated[
        str,
        typer.Option(
            "--statements",
            metavar="FILE",
            help="A file of SQL, or the word pg_stat_statements: those that production has run.",
        ),
    ],
    to: To = "heads",
    json_: AsJson = False,
) -> None:
    """Say which of today's statements the pending revisions would break, on a clone.

    Exit code 1: one would break, or a revision failed.

    Example: pipestate compat --on postgresql://app@localhost/clone --statements queries.sql
    """
    from pipestate.chain.target import find_targets
    from pipestate.rehearse.compat import compat, read_statements
    from pipestate.render.compat import compat_as_data, compat_as_lines

    job = job_of(production, on)
    given = read_statements(statements, job.production or job.clone)
    found = compat(job, find_targets(job.chain, to), given, tell)
    if json_:
        print_json(compat_as_data(found))
    else:
        for line in compat_as_lines(found):
            say(line)
    raise typer.Exit(found.exit_code)


def tell(said: str) -> None:
    say(f"pipestate: {said}", err=True)


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
