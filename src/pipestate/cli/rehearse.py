"""`rehearse` and `compat`: the pending revisions on a clone, what production will feel and what will break."""

import re
from typing import Annotated

import typer

from pipestate.cli.clone import Where, clone_options, job_on, tell
from pipestate.cli.options import AsJson, Perhaps, project_options
from pipestate.cli.output import console, print_json, say
from pipestate.errors import ConfigError

To = Annotated[str, typer.Option("--to", metavar="REV", help="A revision, a branch, head, or heads.")]


@project_options
@clone_options
def rehearse(
    production: Perhaps,
    where: Where,
    to: To = "heads",
    max_stall: Annotated[
        str | None,
        typer.Option("--max-stall", metavar="TIME", help="Exit 1 above it: 500ms, 2s.", show_default=False),
    ] = None,
    there_and_back: Annotated[
        bool, typer.Option("--there-and-back", help="Then down and up again: is everything as before?")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Write the result into production's ledger, for checks.")
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

    where.require_rows({"--max-stall": max_stall, "--record": record})
    limit = milliseconds(max_stall)
    with job_on(production, where, to, record=record) as job:
        targets = find_targets(job.chain, to)
        found = rehearse(job, targets, limit, tell, there_and_back=there_and_back, record=record)
    if json_:
        print_json(rehearsal_as_data(found))
    else:
        for line in rehearsal_as_lines(found, min(console().width, 100)):
            say(line)
    raise typer.Exit(found.exit_code)


@project_options
@clone_options
def compat(
    production: Perhaps,
    where: Where,
    statements: Annotated[
        str,
        typer.Option(
            "--statements", metavar="FILE", help="A file of SQL, or pg_stat_statements: production's own."
        ),
    ],
    to: To = "heads",
    json_: AsJson = False,
) -> None:
    """Prepare today's statements before and after the pending revisions, on a clone.

    Exit code 1: one would break, or a revision failed.

    Example: pipestate compat --on postgresql://app@localhost/clone --statements queries.sql
    """
    from pipestate.chain.target import find_targets
    from pipestate.rehearse.compat import compat, read_statements
    from pipestate.render.compat import compat_as_data, compat_as_lines

    given = read_statements(statements, where.source(production))
    with job_on(production, where, to) as job:
        found = compat(job, find_targets(job.chain, to), given, tell)
    if json_:
        print_json(compat_as_data(found))
    else:
        for line in compat_as_lines(found):
            say(line)
    raise typer.Exit(found.exit_code)


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
