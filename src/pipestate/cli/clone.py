"""Clone of `rehearse` and `compat`: an existing one named by --on, or a copy made by --clone."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.cli.options import TargetIfAny, with_options
from pipestate.cli.output import say
from pipestate.cli.progress import progress
from pipestate.core.errors import ConfigError
from pipestate.database.urls import HOW_TO_NAME_A_DATABASE

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pipestate.rehearse.clone import Job
    from pipestate.rehearse.copying.make import Clone
    from pipestate.rehearse.copying.require import WantedClone

PANEL = "Which clone"
MAX_SIZE = "10GB"
MB = 2**20


def _option(*names: str, metavar: str | None, help: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, rich_help_panel=PANEL)


CLONE_OPTIONS: dict[str, Any] = {
    "on": Annotated[
        str | None, _option("--on", metavar="URL", help="The clone. It is migrated, and stays so.")
    ],
    "clone": Annotated[
        bool,
        _option(
            "--clone", metavar=None, help="Make one: a copy of production on a server of pipestate's own."
        ),
    ],
    "max_size": Annotated[
        str | None,
        _option("--max-size", metavar="SIZE", help=f"Copy at most so much: 500MB; else {MAX_SIZE}."),
    ],
    "schema_only": Annotated[
        bool, _option("--schema-only", metavar=None, help="Copy no rows: enough for compat.")
    ],
    "keep_clone": Annotated[
        bool, _option("--keep-clone", metavar=None, help="Leave the copy running, and say where it is.")
    ],
}


@dataclass(frozen=True, slots=True)
class Where:
    """The selected clone: its URL, or the kind of copy to make."""

    url: "URL | None"
    wanted: "WantedClone | None"

    def source(self, production: TargetIfAny) -> "URL":
        """Return production's URL, or that of the existing clone if production is unknown."""
        known = production.url or self.url
        if known is None:
            raise ConfigError(f"--clone copies production, and none is known: {HOW_TO_NAME_A_DATABASE}")
        return known

    def require_rows(self, options: dict[str, object]) -> None:
        """Refuse options that judge times if the clone has no rows."""
        for option in (option for option, value in options.items() if value):
            if self.wanted is not None and self.wanted.schema_only:
                raise ConfigError(
                    f"{option} judges times, which mean nothing without rows: leave out --schema-only"
                )


def clone_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a command's argument `where` by the clone's options."""
    parameters = inspect.signature(function).parameters

    def command(*first: Any, **given: Any) -> Any:
        named = {option: given.pop(option) for option in CLONE_OPTIONS}
        return function(*first, where=_where(**named), **given)

    command.__name__, command.__doc__, command.__module__ = (
        function.__name__,
        function.__doc__,
        function.__module__,
    )
    own = [parameter for name, parameter in parameters.items() if name != "where"]
    return with_options(command, own, CLONE_OPTIONS)


def _where(
    on: str | None,
    clone: bool | None,
    max_size: str | None,
    schema_only: bool | None,
    keep_clone: bool | None,
) -> Where:
    from pipestate.database.urls import parse_url
    from pipestate.rehearse.copying.require import WantedClone, read_size

    if (on is not None) == bool(clone):
        raise ConfigError(
            "say which clone: --on URL names one, --clone makes one of production; exactly one of the two"
        )
    if on is None:
        return Where(None, WantedClone(read_size(max_size or MAX_SIZE), bool(schema_only), bool(keep_clone)))
    given = {"--max-size": max_size, "--schema-only": schema_only, "--keep-clone": keep_clone}
    for option in (option for option, value in given.items() if value):
        raise ConfigError(
            f"{option} says how --clone copies, and --on names a clone that is there: leave one out"
        )
    return Where(parse_url(on, source="--on"), None)


@contextmanager
def job_on(
    production: TargetIfAny, where: Where, to: str, from_: str | None = None, *, record: bool = False
) -> Iterator["Job"]:
    """Collect the inputs of a rehearsal. If --on names no clone, make one and remove it at the end."""
    from pipestate.project.revision_files import read_chain
    from pipestate.project.version_table import locator
    from pipestate.rehearse.clone import Job

    project = production.project
    chain = read_chain(project)
    locate = locator(project, chain, production.version_table)
    if where.url is not None:
        yield Job(where.url, production.url, project, chain, locate)
        return
    from pipestate.project.graph import find_targets
    from pipestate.rehearse.copying.require import require_worth

    source = where.source(production)
    since = find_targets(chain, from_) if from_ is not None else ()
    require_worth(source, chain, locate, find_targets(chain, to), since, record=record)
    with _made(source, where) as clone:
        yield Job(clone.url, source, project, chain, locate, clone.called)


@contextmanager
def _made(production: "URL", where: Where) -> Iterator["Clone"]:
    """Make the clone, with a progress bar until it is ready."""
    from pipestate.rehearse.copying.make import CopyOutput, cloned

    assert where.wanted is not None
    with ExitStack() as stack:
        with progress("copying production", "MB") as bar:
            output = CopyOutput(tell, lambda done, total: bar(-(-done // MB), -(-total // MB)))
            clone = stack.enter_context(cloned(production, where.wanted, output))
        yield clone


def tell(said: str) -> None:
    say(f"pipestate: {said}", err=True)
