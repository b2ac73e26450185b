"""The rows of a query on the terminal: a table where all columns have room, else `name: value` pairs."""

import re
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipestate.render.text import more_rows
from pipestate.safe import plain
from pipestate.verify.values import Json

LONGEST_VALUE = 300
# A moment to the second says enough to a person.
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\.\d+")

Rows = Sequence[Mapping[str, Json]]


def rows_table(rows: Rows, width: int, *, most: int | None = None, total: int = 0) -> RenderableType:
    """Show the rows so that no column is lost; those that are NULL throughout are named below.

    `total` is how many rows there are, where `rows` are only the first of them.
    """
    shown = rows[:most]
    names = list(rows[0]) if rows else []
    empty = [name for name in names if all(row.get(name) is None for row in shown)]
    columns = [name for name in names if name not in empty] or names
    cells = [[_value(row.get(name)) for name in columns] for row in shown]
    parts: list[RenderableType] = [
        _beside(columns, cells) if fits(columns, cells, width) else _below(columns, cells, width)
    ]
    if empty and columns != empty:
        parts.append(Text(f"NULL in every row: {plain(', '.join(empty))}", "dim"))
    parts.extend(_rest(shown=len(shown), known=len(rows), total=total))
    return Group(*parts)


def fits(columns: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> bool:
    """Say whether the columns have room beside each other."""
    widest = (
        max(cell_len(plain(name)), *(row[number].cell_len for row in cells))
        for number, name in enumerate(columns)
    )
    return sum(each + 2 for each in widest) - 2 <= width


def _beside(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(Text(plain(column)), no_wrap=True)
    for row in cells:
        table.add_row(*row)
    return table


def _below(columns: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> Group:
    """Pairs beside each other as long as a line lasts; a row that needs more lines has them indented."""
    return Group(*(line for row in cells for line in _folded(columns, row, width)))


def _folded(columns: Sequence[str], row: Sequence[Text], width: int) -> list[RenderableType]:
    lines: list[Text] = []
    for name, value in zip(columns, row, strict=True):
        pair = Text().append(f"{plain(name)}: ", "dim").append(value.plain[:LONGEST_VALUE], value.style)
        if len(value.plain) > LONGEST_VALUE:
            pair.append("…", "dim")
        if lines and lines[-1].cell_len + 2 + pair.cell_len <= width - 2:
            lines[-1].append("  ").append_text(pair)
        else:
            lines.append(pair)
    for line in lines:
        line.overflow = "fold"
    return [lines[0], *(Padding(line, (0, 0, 0, 2)) for line in lines[1:])]


def _rest(*, shown: int, known: int, total: int) -> list[Text]:
    hint = f"; --json shows the first {known}" if known < total else ": --json shows them"
    return [
        Text(f"{more}{hint if shown < known else ''}", "dim") for more in more_rows(max(total, known), shown)
    ]


def _value(value: Json) -> Text:
    if value is None:
        return Text("NULL", "dim")
    return Text(plain(_FRACTION.sub(r"\1", str(value))))
