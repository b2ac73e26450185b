"""A runbook on the terminal."""

from collections.abc import Iterator
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table

from pipestate.runbook.model import Runbook


class FoldedTable(TableElement):
    """A table whose words are broken where they do not fit: a name that is cut off cannot be typed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part  # type: ignore[misc]  # no segments: whole parts


class Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": FoldedTable}


def print_runbook(runbook: Runbook, console: Console) -> None:
    """Print the page: rendered on a terminal, as it is written into a pipe."""
    console.print(Page(runbook.text.split("---\n", 2)[-1]) if console.is_terminal else runbook.text)
