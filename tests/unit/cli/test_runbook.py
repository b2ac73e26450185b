"""A runbook on the terminal: nothing of it is cut off."""

import io
from pathlib import Path

from rich.console import Console

from pipestate.cli.runbook import print_runbook
from support.runbook_samples import block, page, write

TABLE = """
| observation | what it is | bound |
|---|---|---|
| oldest_message_of_the_queue_seconds | the age of the oldest message that waits | at most 600 |
"""


def test_a_name_in_a_table_is_broken_where_it_does_not_fit_and_never_cut_off(tmp_path: Path) -> None:
    book = write(tmp_path, page(block("SELECT 1 AS x"), TABLE))
    screen = Console(file=io.StringIO(), width=40, force_terminal=True, no_color=True)
    print_runbook(book, screen)
    assert isinstance(screen.file, io.StringIO)
    seen = screen.file.getvalue()
    assert "…" not in seen
    first_column = "".join(line[1:13].strip() for line in seen.splitlines())
    assert "oldest_message_of_the_queue_seconds" in first_column
