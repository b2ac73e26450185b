"""What a fleet is asked, out of a project: chain and pages are read and linted once for all databases."""

from collections.abc import Sequence

from pipestate.chain.calls import Calls
from pipestate.chain.project import Project
from pipestate.chain.read import read_chain
from pipestate.chain.revisions import refuse_wrong_revisions
from pipestate.chain.version_table import locator
from pipestate.fleet.ask import FleetQuestion
from pipestate.runbook.model import Runbook
from pipestate.verify.select import find_phases


def make_question(
    project: Project,
    books: Sequence[Runbook],
    names: Sequence[str] = (),
    *,
    version_table: str | None = None,
    timeout_s: float,
    record: bool = False,
    compare: bool = False,
    planned: bool = False,
) -> FleetQuestion:
    """Ask the checks of these pages, or of phases that are named; a page whose `opens` is broken is refused."""
    phases = find_phases(books, names)
    asked = [book for book in books if any(book is each for each, _ in phases)]
    chain = read_chain(project)
    refuse_wrong_revisions(chain, asked, project.named)
    calls = Calls(project.named) if planned else None
    locate = locator(project, chain, version_table)
    return FleetQuestion(phases, locate, timeout_s, record=record, compare=compare, calls=calls)
