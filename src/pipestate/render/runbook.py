"""A runbook on the terminal."""

from rich.console import Console
from rich.markdown import Markdown

from pipestate.runbook.model import Runbook


def print_runbook(runbook: Runbook, console: Console) -> None:
    """Print the page: rendered on a terminal, as it is written into a pipe."""
    console.print(Markdown(runbook.text.split("---\n", 2)[-1]) if console.is_terminal else runbook.text)
