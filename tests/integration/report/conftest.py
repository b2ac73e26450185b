"""Pages of reports."""

from collections.abc import Sequence

from pipestate.project.find import Calls
from pipestate.project.graph import Position
from pipestate.report.gather import Gathered, gather
from pipestate.report.page import render_page
from pipestate.runbook.model import Runbook
from support.html_pages import Html
from support.runbook_samples import NOWHERE
from support.servers import Database


def gathered(
    database: Database, books: Sequence[Runbook], position: Position = NOWHERE, *, days: int = 30
) -> Gathered:
    with database.reader() as connection:
        return gather(connection, database.url, books, position, days=days)


def runbook_file(database: Database, *books: Runbook, days: int = 30) -> Html:
    return Html(render_page(gathered(database, books, days=days), Calls()))
