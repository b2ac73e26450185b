"""The commands `rehearse` and `compat`: run the pending revisions on a clone; report waits and broken statements.

The clone is an existing one, named by --on, or a copy made by --clone.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pipestate.cli.options import AsJson, TargetIfAny, flag, project_options, text_option, with_options
from pipestate.cli.output import Plain, console, dumped, progress, put, refuse_unwritable, say
from pipestate.core.errors import ConfigError
from pipestate.core.text import plain_lines
from pipestate.database.urls import HOW_TO_NAME_A_DATABASE

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pipestate.rehearse.child_process import Begun
    from pipestate.rehearse.clone import Job
    from pipestate.rehearse.copying.require import WantedClone

    Where = URL | WantedClone

PANEL = "Which clone"
MAX_SIZE = "10GB"
MB = 2**20


CLONE_OPTIONS: dict[str, Any] = {
    "on": text_option(
        "--on", metavar="URL", panel=PANEL, help="URL of the clone. The command migrates it and leaves it so."
    ),
    "clone": flag("--clone", panel=PANEL, help="Copy production to a temporary server, and rehearse there."),
    "max_size": text_option(
        "--max-size", metavar="SIZE", panel=PANEL, help=f"Copy at most so much: 500MB; else {MAX_SIZE}."
    ),
    "schema_only": flag("--schema-only", panel=PANEL, help="Copy no rows: enough for compat."),
    "keep_clone": flag("--keep-clone", panel=PANEL, help="Leave the copy running, and print its URL."),
}
WIDEST = 100


def clone_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a command's argument `where` by the clone's options."""
    parameters = inspect.signature(function).parameters

    def command(*first: Any, **given: Any) -> Any:
        where = _where(*(given.pop(option) for option in CLONE_OPTIONS))
        return function(*first, where=where, **given)

    own = [parameter for name, parameter in parameters.items() if name != "where"]
    return with_options(command, function, own, CLONE_OPTIONS)


def _where(
    on: str | None,
    clone: bool | None,
    max_size: str | None,
    schema_only: bool | None,
    keep_clone: bool | None,
) -> "Where":
    """Return the URL of an existing clone, or the kind of copy to make."""
    from pipestate.database.urls import parse_url
    from pipestate.rehearse.copying.require import WantedClone, read_size

    if (on is not None) == bool(clone):
        raise ConfigError(
            "name one clone: --on URL for an existing one, or --clone for a new copy of production"
        )
    if on is None:
        return WantedClone(read_size(max_size or MAX_SIZE), bool(schema_only), bool(keep_clone))
    given = {"--max-size": max_size, "--schema-only": schema_only, "--keep-clone": keep_clone}
    for option in (option for option, value in given.items() if value):
        raise ConfigError(
            f"{option} works only with --clone, and --on names an existing clone: leave one out"
        )
    return parse_url(on, source="--on")


def known_url(production: TargetIfAny, where: "Where") -> "URL":
    """Return production's URL, or that of the existing clone if production is unknown."""
    from sqlalchemy import URL

    if production.url is None and not isinstance(where, URL):
        raise ConfigError(f"--clone copies production, and none is known: {HOW_TO_NAME_A_DATABASE}")
    return production.url or where  # type: ignore[return-value]


@contextmanager
def job_on(
    production: TargetIfAny, where: "Where", to: str, from_: str | None, *, record: bool
) -> Iterator[tuple["Job", Sequence[str], dict[str, Any]]]:
    """Collect the inputs of a rehearsal: job, targets, options. Without --on, make a clone and remove it at the end.

    Progress is reported on stderr: a line for each part; on a terminal one line with revision and time.
    """
    from sqlalchemy import URL

    from pipestate.cli.output import stopwatch
    from pipestate.project.graph import find_targets
    from pipestate.project.revision_files import read_migrations
    from pipestate.project.version_table import locator
    from pipestate.rehearse.clone import Job

    project = production.project
    migrations = read_migrations(project)
    locate = locator(project, migrations, production.version_table)
    wanted, since = find_targets(migrations, to), find_targets(migrations, from_) if from_ is not None else ()
    with ExitStack() as stack:
        if isinstance(where, URL):
            job = Job(where, production.url, project, migrations, locate)
        else:
            from pipestate.database.urls import shown
            from pipestate.rehearse.copying.make import cloned
            from pipestate.rehearse.run import require_pending

            source = known_url(production, where)
            require_pending(source, migrations, locate, wanted, since, record=record)
            with progress("copying production", "MB") as bar:
                made = cloned(source, where, tell, lambda done, total: bar(-(-done // MB), -(-total // MB)))
                clone = stack.enter_context(made)
            job = Job(clone, source, project, migrations, locate, f"a clone of {shown(source)}")
        watch = stack.enter_context(stopwatch())
        say = watch if sys.stderr.isatty() else tell

        def begins(begun: "Begun") -> None:
            watch(f"{begun.revision} runs on the clone")

        yield job, wanted, {"say": say, "begins": begins, "since": since, "record": record}


def tell(said: str) -> None:
    say(f"pipestate: {said}", err=True)


To = Annotated[str, typer.Option("--to", metavar="REV", help="Target: a revision, a branch, head, or heads.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="REV", help="Apply revisions up to this one without judging them."),
]
Record = Annotated[
    bool,
    typer.Option("--record", help="Write the result into production's ledger, where checks can read it."),
]
Form = Annotated[Plain, typer.Option("--format", help="How to print the result.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the result there.")]


@project_options
@clone_options
def rehearse(
    production: TargetIfAny,
    where: "Where",
    to: To = "heads",
    from_: From = None,
    max_wait: Annotated[
        str | None,
        typer.Option(
            "--max-wait",
            metavar="500ms",
            help="Longest wait allowed for other sessions; above it the exit code is 1.",
        ),
    ] = None,
    there_and_back: Annotated[
        bool,
        typer.Option(
            "--there-and-back", help="Also downgrade, compare with the state before, and upgrade again."
        ),
    ] = False,
    record: Record = False,
    json_: AsJson = False,
    form: Form = Plain.CONSOLE,
    output: Output = None,
) -> None:
    """Run the pending revisions on a clone, and say which locks they take and who would wait.

    Exit code 1: over --max-wait, a revision failed, or a write that worked before fails after it.

    Example: pipestate rehearse --on postgresql://app@localhost/clone --max-wait 500ms
    """
    from pipestate.cli.formats import rehearse as formats
    from pipestate.cli.formats.json import rehearsal_as_data
    from pipestate.rehearse.run import rehearse

    refuse_unwritable(output)
    for option in [name for name, value in {"--max-wait": max_wait, "--record": record}.items() if value]:
        if getattr(where, "schema_only", False):
            raise ConfigError(
                f"{option} needs times, and --schema-only copies no rows to measure: leave one out"
            )
    limit = milliseconds(max_wait)
    with job_on(production, where, to, from_, record=record) as (job, wanted, options):
        found = rehearse(job, wanted, limit, there_and_back=there_and_back, **options)
    texts = (formats.rehearsal_as_lines, rehearsal_as_data, formats.rehearsal_as_markdown)
    show(Plain.JSON if json_ else form, output, found, *texts)


@project_options
@clone_options
def compat(
    production: TargetIfAny,
    where: "Where",
    statements: Annotated[
        str,
        typer.Option(
            "--statements",
            metavar="FILE",
            help="A file of SQL, or pg_stat_statements: the statements that production ran.",
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
    from pipestate.cli.formats import rehearse as formats
    from pipestate.rehearse.compat import compat, read_statements

    refuse_unwritable(output)
    given = read_statements(statements, known_url(production, where))
    with job_on(production, where, to, from_, record=record) as (job, wanted, options):
        found = compat(job, wanted, given, **options)
    texts = (formats.compat_as_lines, formats.compat_as_data, formats.compat_as_markdown)
    show(Plain.JSON if json_ else form, output, found, *texts)


def show(
    form: Plain,
    output: Path | None,
    found: Any,
    as_lines: Callable[[Any, int], Iterator[str]],
    as_data: Callable[[Any], Any],
    as_markdown: Callable[[Any], str],
) -> NoReturn:
    """Print the result, or write it into the file; exit with its code."""
    lines = as_lines(found, min(console().width, WIDEST))
    if form is not Plain.CONSOLE:
        put(dumped(as_data(found)) if form is Plain.JSON else as_markdown(found), output)
    elif output is not None:
        put(plain_lines("\n".join(lines)), output)
    else:
        for line in lines:
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
        raise ConfigError(f"--max-wait {text}: write a time such as 500ms or 2s")
    return float(found[1]) * (1000 if found[2] == "s" else 1)
