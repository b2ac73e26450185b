"""The lines of `pipestate history`, as a table and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipestate.ledger.history import Entry
from pipestate.render.machine import instant
from pipestate.safe import plain

if TYPE_CHECKING:
    from rich.table import Table


def as_data(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The lines as JSON has them."""
    return [
        {
            "at": instant(entry.at),
            "kind": entry.kind,
            "who": entry.who,
            "what": entry.what,
            "revision": entry.revision,
        }
        for entry in entries
    ]


def as_table(entries: Sequence[Entry]) -> "Table":
    """The lines as a table; what people wrote is shown as it is, not as markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("when", "what", "", "who", "at"):
        table.add_column(name, overflow="fold", no_wrap=name == "when")
    for entry in entries:
        cells = (
            instant(entry.at.replace(microsecond=0)),
            entry.kind,
            entry.what,
            entry.who,
            entry.revision or "base",
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table
