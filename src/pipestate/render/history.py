"""The lines of `pipestate history`, as a table and as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipestate.ledger.history import Entry
from pipestate.render.machine import instant
from pipestate.safe import plain

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

GAP = 2
LEAST_WORDS = 40  # so much room the words want beside the rest


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


def as_table(entries: Sequence[Entry], width: int) -> "RenderableType":
    """The lines as a table; where the words would have no room beside the rest, they stand below it.

    What people wrote is shown as it is, not as markup.
    """
    from rich.console import Group
    from rich.text import Text

    rows = [tuple(Text(plain(cell)) for cell in _cells(entry)) for entry in entries]
    beside = sum(max(row[at].cell_len for row in rows) + GAP for at in (0, 1, 3, 4))
    words = max(row[2].cell_len for row in rows)
    if width - beside >= min(LEAST_WORDS, words):
        return _beside(rows)
    return Group(*(_below(row) for row in rows))


def _cells(entry: Entry) -> tuple[str, ...]:
    at = instant(entry.at.replace(microsecond=0))
    return at, entry.kind, entry.what, entry.who, entry.revision or "base"


def _beside(rows: "Sequence[tuple[Text, ...]]") -> "RenderableType":
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("when", "what", "", "who", "at"):
        table.add_column(name, overflow="fold", no_wrap=bool(name))
    for row in rows:
        table.add_row(*row)
    return table


def _below(row: "tuple[Text, ...]") -> "RenderableType":
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    at, kind, what, who, revision = row
    head = Text.assemble((at.plain, "dim"), f"  {kind}  {who}  ", (f"at {revision}", "dim"))
    return Group(head, Padding(what, (0, 0, 0, GAP)))
