"""Pages of reports."""

from collections.abc import Sequence

from bed import Database
from books import NOWHERE
from html_pages import Html
from pipestate.chain.calls import Calls
from pipestate.chain.position import Position
from pipestate.report.gather import Gathered, gather
from pipestate.report.page import render_page
from pipestate.runbook.model import Runbook


def gathered(
    database: Database, books: Sequence[Runbook], position: Position = NOWHERE, *, days: int = 30
) -> Gathered:
    with database.reader() as connection:
        return gather(connection, database.url, books, position, days=days)


def page_of(database: Database, *books: Runbook, days: int = 30) -> Html:
    return Html(render_page(gathered(database, books, days=days), Calls()))
