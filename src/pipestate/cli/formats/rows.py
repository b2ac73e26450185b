"""Rows of a query on the terminal: a table if all columns fit, else pairs; views with bars."""

import re
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipestate.cli.formats.text import more_rows
from pipestate.core.text import plain
from pipestate.status.facts import is_distribution
from pipestate.status.model import Shown
from pipestate.verify.report import Json

BAR = 30
LONGEST_VALUE = 300
LONGEST_NUMBER = 14
# People need moments to the second only.
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\.\d+")

Rows = Sequence[Mapping[str, Json]]


def rows_table(
    rows: Rows, width: int, *, most: int | None = None, most_below: int | None = None, total: int = 0
) -> RenderableType:
    """Show the rows with every column; columns that are NULL in all rows are named below.

    `most` limits the rows of a table, `most_below` those that need several lines each. `total` is the number of
    all rows, if `rows` are only the first of them.
    """
    shown = rows[:most]
    columns, cells = _filled(shown)
    in_a_table = fits(columns, cells, width)
    if not in_a_table and most_below is not None:
        shown = rows[:most_below]
        columns, cells = _filled(shown)
    empty = [name for name in (rows[0] if rows else ()) if name not in columns]
    parts: list[RenderableType] = [_beside(columns, cells) if in_a_table else _below(columns, cells, width)]
    if empty:
        parts.append(Text(f"NULL in every row: {plain(', '.join(empty))}", "dim"))
    parts.extend(_rest(shown=len(shown), known=len(rows), total=total))
    return Group(*parts)


def _filled(rows: Rows) -> tuple[list[str], list[list[Text]]]:
    """Return the columns with a value in these rows, or all if every cell is NULL, and their cells."""
    names = list(rows[0]) if rows else []
    columns = [name for name in names if any(row.get(name) is not None for row in rows)] or names
    return columns, [[_value(row.get(name)) for name in columns] for row in rows]


def fits(columns: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> bool:
    """Tell whether the columns fit beside each other."""
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
    """Lay out pairs beside each other; indent the further lines of a long row."""
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
    return [Text(f"{more}: --evidence all lists them", "dim") for more in more_rows(max(total, known), shown)]


def _value(value: Json) -> Text:
    if value is None:
        return Text("NULL", "dim")
    text = str(value)
    if isinstance(value, float) and len(text) > LONGEST_NUMBER:
        text = f"{value:.{LONGEST_NUMBER - 2}g}"
    return Text(plain(_FRACTION.sub(r"\1", text)))


def show_views(views: Sequence[Shown], width: int, *, named: bool = False) -> Iterator[RenderableType]:
    """Draw each view that has rows, or an error; `named` maps each to its runbook."""
    for view in views:
        if not view.error and not view.rows:
            continue
        title = Text().append(f"\n{plain(view.id)}", "bold")
        yield title.append(f"  {plain(view.runbook)}", "dim") if named else title
        if view.error:
            yield Text(plain(view.error), "red")
            continue
        show = _distribution if is_distribution(view.rows) else rows_table
        yield show(view.rows, width)
        yield from (Text(more, "dim") for more in more_rows(view.total, len(view.rows)))


def _distribution(rows: Rows, width: int) -> RenderableType:
    name, amount, *rest = rows[0]
    total = sum(int(str(row[amount])) for row in rows)
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column(Text(plain(name)), no_wrap=True)
    table.add_column(Text(plain(amount)), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="crop")
    for column in rest:
        table.add_column(Text(plain(column)), justify="right", no_wrap=True, overflow="ellipsis")
    for row in rows:
        bar = bar_of(int(str(row[amount])), total, min(BAR, width - 40))
        others = ("" if row[column] is None else Text(plain(str(row[column]))) for column in rest)
        table.add_row(Text(plain(str(row[name]))), str(row[amount]), Text(bar, "cyan"), *others)
    return table


def bar_of(amount: int, total: int, width: int) -> str:
    """Draw a share of the whole; even the smallest share has a mark.

    >>> bar_of(1, 4, 8), bar_of(1, 1000, 8), bar_of(0, 1000, 8)
    ('██      ', '▏       ', '        ')
    """
    full = amount * width // total if total else 0
    return (("█" * full) or ("▏" if amount else "")).ljust(width)
