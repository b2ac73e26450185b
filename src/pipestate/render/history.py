"""The history on the terminal and as data."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from pipestate.ledger.record import Entry
from pipestate.render.machine import instant


def print_history(entries: Sequence[Entry], console: Console) -> None:
    table = Table("when", "what", "", "who", "at", box=None, header_style="dim", pad_edge=False)
    for entry in entries:
        table.add_row(instant(entry.at), entry.kind, entry.what, entry.who, entry.revision or "base")
    console.print(table if entries else "The ledger is empty.")


def history_as_data(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [
        {"at": instant(e.at), "kind": e.kind, "who": e.who, "what": e.what, "revision": e.revision}
        for e in entries
    ]
