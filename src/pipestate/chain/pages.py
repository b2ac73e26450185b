"""The pages of a project, where it has any."""

from collections.abc import Sequence

from pipestate.chain.calls import Calls
from pipestate.chain.project import Project
from pipestate.errors import ConfigError
from pipestate.runbook.find import find_runbooks, named_runbook, runbook_files, runbooks_at
from pipestate.runbook.model import Runbook


def find_pages(project: Project, names: Sequence[str], phases: Sequence[str] = ()) -> list[Runbook]:
    """Load the pages that are named, else the default ones and those of the phases `RUNBOOK/PHASE`.

    Where all the phases say whose they are, no other page is read.
    """
    directory = project.runbooks
    if names:
        return find_runbooks(names, directory)
    require_pages(project)
    named = {phase.partition("/")[0] for phase in phases if "/" in phase}
    default = [] if named and all("/" in phase for phase in phases) else find_runbooks([], directory)
    others = [named_runbook(name, directory) for name in named - {book.name for book in default}]
    return sorted([*default, *others], key=lambda book: book.path)


def pages_at(project: Project, address: str, *, below: int = 1) -> list[Runbook]:
    """Load the page that an address such as `orders/ready` names, else every page of the project."""
    require_pages(project)
    return runbooks_at(address, project.runbooks, below=below)


def require_pages(project: Project) -> None:
    """Refuse a project without a runbook, and say what writes one."""
    if not runbook_files(project.runbooks):
        init = Calls(project.named).pipestate("init NAME")
        raise ConfigError(f"this project has no runbook yet: `{init}` writes one to begin with")
